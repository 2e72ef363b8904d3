//! `run single`: one task, no run file, exit code 0 only when solved.

use crate::bed::{MISS, SOLVE, TestBed, play};

fn single(bed: &TestBed, more: &[&str]) -> crate::bed::Ran {
    let args =
        ["run", "single", "greeting", "--harness", "scripted", "--model", "scripted-small", "--progress", "none"];
    bed.run(&[&args[..], &["--config", "play=runs/demo.play.yaml"], more].concat())
}

#[test]
fn solved_is_0_and_the_record_is_printed() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = single(&bed, &["--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_eq!((record["solved"].as_bool(), record["inputs"]["task"].as_str()), (Some(true), Some("greeting")));
}

#[test]
fn not_solved_is_1() {
    let bed = TestBed::with_play(&play(&[MISS]));
    assert_eq!(single(&bed, &[]).code, Some(1));
}

#[test]
fn it_runs_each_time_and_other_cells_do_not_count() {
    let bed = TestBed::with_play(&play(&[MISS]));
    assert_eq!(single(&bed, &[]).code, Some(1));
    assert_eq!(single(&bed, &["--orchestrator", "refine", "--param", "max_rounds=1"]).code, Some(1));
    bed.file("runs/demo.play.yaml", &play(&[SOLVE]));
    let ran = single(&bed, &["--json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_eq!(record["attempt"]["number"].as_u64(), Some(2));
}

#[test]
fn a_broken_environment_is_1_too_and_not_retried_unless_asked() {
    let bed = TestBed::with_play(&play(&["[{message: x}, {provider: overloaded}]"]));
    let ran = single(&bed, &["--json"]);
    assert_eq!(ran.code, Some(1));
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_eq!(
        (record["terminal"].as_str(), record["attempt"]["number"].as_u64()),
        (Some("infrastructure_error"), Some(1))
    );
}

#[test]
fn an_orchestrator_and_its_parameter() {
    let bed = TestBed::with_play(&play(&[MISS, SOLVE]));
    let ran = single(&bed, &["--orchestrator", "refine", "--param", "max_rounds=2", "--param", "reserve_seconds=1"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let ran = single(&bed, &["--orchestrator", "refine", "--param", "max_rounds=1000"]);
    assert_eq!(ran.code, Some(2), "{}", ran.stderr);
}
