//! What a run was started with is known when it is gone on with, and where it keeps its results is told.

use serde_json::Value;

use crate::bed::{SOLVE, TestBed, play};

#[test]
fn a_run_is_resumed_with_the_prices_it_was_started_with_and_its_database_is_found_from_elsewhere() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let price = "[[price]]\nmodel = \"zzz\"\ninput = 2\noutput = 5\ncache_read = 0\ncache_write = 0\n\
                 date = \"2026-01-01\"\nsource = \"made up\"\n";
    bed.file("else where/own.toml", price);
    let elsewhere = bed.path().join("else where");
    let mut run = bed.command(&["run", "../runs/demo.yaml", "--set", "budget_usd=1", "--set", "models.0.name=zzz"]);
    run.args(["--prices", "own.toml", "--no-check-gateway", "--progress", "lines"]).current_dir(&elsewhere);
    let ran = run.output().expect("runs");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let database = bed.path().join("refrain.db");
    let next = said.trim_end().rsplit_once("Next refrain ").expect("a hint").1.to_owned();
    assert_eq!(next, format!("results demo --db {}", database.display()));
    let hinted: Vec<&str> = next.split(' ').collect();
    let read = bed.command(&hinted).current_dir(&elsewhere).output().expect("runs");
    assert_eq!(read.status.code(), Some(0), "{}", String::from_utf8_lossy(&read.stderr));
    let resumed = bed.run(&["resume", "--progress", "lines"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert!(resumed.stderr.trim_end().ends_with("Next refrain results demo"), "{}", resumed.stderr);
    let kept = std::fs::read_to_string(bed.started()).expect("kept");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    assert_eq!(
        (&kept["no_check_gateway"], &kept["prices"]),
        (&true.into(), &serde_json::json!([elsewhere.join("own.toml")]))
    );
}
