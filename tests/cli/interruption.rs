//! Runs that are cut off: by the user, and by `kill -9`.

use std::time::Duration;

use crate::bed::{TestBed, all_below, finish, play, processes_of, signal, wait_for};

const SLOW: &str = "[{message: working}, {sleep: 1.5}, {write: {path: greet.sh, content: echo hello world}}]";

fn project(repeats: u32) -> TestBed {
    let bed = TestBed::with_play(&play(&[SLOW]));
    bed.file("runs/demo.yaml", &TestBed::run_file(&format!("repeats: {repeats}\nparallel_runs: 2\n")));
    bed
}

fn sessions_running(bed: &TestBed) -> bool {
    let scratch = bed.path().join(".refrain/scratch");
    scratch.read_dir().is_ok_and(|mut attempts| {
        attempts.any(|attempt| attempt.is_ok_and(|attempt| attempt.path().join("session-1/stdout.log").exists()))
    })
}

#[test]
fn the_first_interrupt_lets_running_cells_finish() {
    let bed = project(6);
    let child = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    wait_for("a session", || sessions_running(&bed));
    signal(&child, "-INT");
    let (code, shown) = finish(child);
    assert_eq!(code, Some(130), "{shown}");
    let done = bed.results();
    assert!(!done.is_empty() && done.len() < 6, "{shown}");
    assert!(done.iter().all(|row| row["success"] == true), "{done:?}");
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    let all = bed.results();
    assert_eq!(all.len(), 6);
    for row in done {
        assert!(all.contains(&row), "a finished cell was run again: {row}");
    }
}

#[test]
fn the_second_interrupt_stops_sessions_and_records_them() {
    let bed = project(4);
    let child = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    wait_for("a session", || sessions_running(&bed));
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_millis(100));
    signal(&child, "-INT");
    let (code, shown) = finish(child);
    assert_eq!(code, Some(130), "{shown}");
    assert!(bed.results().iter().any(|row| row["terminal_state"] == "cancelled"), "{shown}");
    assert_eq!(processes_of(&bed), Vec::<String>::new());
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    assert!(bed.results().iter().all(|row| row["success"] == true));
}

#[test]
fn a_killed_host_loses_nothing_and_leaves_nothing() {
    let bed = project(6);
    let mut child = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    wait_for("a finished cell", || {
        bed.path().join("refrain.db").exists() && bed.run(&["results", "--json"]).stdout.contains("\"success\": true")
    });
    child.kill().expect("killed");
    child.wait().expect("ends");
    let done = bed.results();
    assert!(!done.is_empty() && done.len() < 6);
    let again = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let all = bed.results();
    assert_eq!(all.len(), 6);
    for row in done {
        assert!(all.contains(&row), "a finished cell was run again: {row}");
    }
    assert_eq!(processes_of(&bed), Vec::<String>::new());
    let left: Vec<_> = all_below(&bed.path().join(".refrain/scratch"));
    assert_eq!(left, Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_a_session_that_was_cut_off_cost_is_unknown_and_not_zero() {
    let steps = "[{message: working}, {usage: {input: 100, output: 10, cache_read: 0, cache_write: 0, reasoning: 0}}, \
                 {sleep: 1.5}, {write: {path: greet.sh, content: echo hello world}}]";
    let bed = TestBed::with_play(&play(&[steps]));
    let mut child = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    wait_for("a session", || sessions_running(&bed));
    child.kill().expect("killed");
    child.wait().expect("ends");
    let again = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let row = &bed.results()[0];
    assert_eq!((row["attempt"].as_u64(), row["success"].as_bool()), (Some(2), Some(true)));
    assert!(row["total_cost_micros"].is_null(), "{row}");
    assert_eq!(bed.record("greeting")["cost"], 150);
    assert!(again.stderr.contains("Billable cost: at least $0.000150"), "{}", again.stderr);
}
