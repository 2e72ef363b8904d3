//! Runs that are cut off: by the user, and by `kill -9`.

use std::process::Child;
use std::time::{Duration, Instant};

use crate::bed::{TestBed, play};

const SLOW: &str = "[{message: working}, {sleep: 1.5}, {write: {path: greet.sh, content: echo hello world}}]";

fn project(repeats: u32) -> TestBed {
    let bed = TestBed::with_play(&play(&[SLOW]));
    bed.file("runs/demo.yaml", &TestBed::run_file(&format!("repeats: {repeats}\nparallel_runs: 2\n")));
    bed
}

fn signal(child: &Child, signal: &str) {
    let status =
        std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success());
}

/// Waits until so many sessions are under way, by what they leave on disk.
fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn sessions_running(bed: &TestBed) -> bool {
    let scratch = bed.path().join(".refrain/scratch");
    scratch.read_dir().is_ok_and(|mut attempts| {
        attempts.any(|attempt| attempt.is_ok_and(|attempt| attempt.path().join("session-1/stdout.log").exists()))
    })
}

fn finish(mut child: Child) -> (Option<i32>, String) {
    use std::io::Read as _;
    let mut shown = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut shown).expect("text");
    (child.wait().expect("ends").code(), shown)
}

fn processes_of(bed: &TestBed) -> Vec<String> {
    let needle = bed.path().display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("proc").flatten() {
        let Ok(cmdline) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let cmdline = String::from_utf8_lossy(&cmdline).replace('\0', " ");
        if cmdline.contains(&needle) {
            found.push(cmdline);
        }
    }
    found
}

/// Everything below a folder.
fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        found.extend(walk(&entry.path()));
        found.push(entry.path());
    }
    found
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
    let left: Vec<_> = walk(&bed.path().join(".refrain/scratch"));
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
