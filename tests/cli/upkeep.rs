//! `prepare` and `sweep`: what happens before and after runs.

use crate::bed::{SOLVE, TestBed, all_below, play, wait_for};

#[test]
fn there_is_nothing_to_prepare_where_there_are_no_images() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = bed.run(&["prepare", "runs/demo.yaml"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "nothing to prepare on the runtime `local`\n"), "{ran:?}");
    let ran = bed.run(&["prepare", "runs/demo.yaml", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_eq!(value["harnesses"], serde_json::json!([{"harness": "scripted", "image": null}]));
    assert!(!bed.path().join("refrain.db").exists() && !bed.path().join(".refrain").exists());
}

#[test]
fn a_sweep_removes_what_a_killed_run_left() {
    let bed = TestBed::with_play(&play(&["[{message: here}, {hang: true}]"]));
    let mut killed = bed.start(&["run", "runs/demo.yaml", "--progress", "none"]);
    let scratch = bed.path().join(".refrain");
    wait_for("a session", || {
        bed.path().join("refrain.db").exists() && all_below(&scratch).iter().any(|path| path.ends_with("session-1"))
    });
    let ran = bed.run(&["sweep"]);
    assert!(ran.code == Some(0) && ran.stdout == "nothing was left behind\n", "its host lives: {ran:?}");
    killed.kill().expect("killed");
    killed.wait().expect("gone");
    let ran = bed.run(&["sweep"]);
    assert!(ran.code == Some(0) && ran.stdout.starts_with("local: removed `[dir]/.refrain/"), "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1, "{ran:?}");
    assert_eq!(bed.run(&["sweep"]).stdout, "nothing was left behind\n");
}
