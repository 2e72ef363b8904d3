//! Retries and rate limits, as a run shows them.

use serde_json::Value;

use crate::bed::{SOLVE, TestBed, play};

fn project(sessions: &[&str], settings: &str) -> TestBed {
    let bed = TestBed::with_play(&play(sessions));
    bed.file("runs/demo.yaml", &TestBed::run_file(settings));
    bed
}

fn events(stdout: &str) -> Vec<Value> {
    stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn at(event: &Value) -> jiff::Timestamp {
    event["at"].as_str().expect("a time").parse().expect("a time")
}

#[test]
fn what_one_cell_is_told_to_wait_the_others_wait_too() {
    // The first cell is told to come back in three seconds and goes on by itself; the second begins meanwhile.
    let told = "[{message: hi}, {throttled: 3}, {write: {path: greet.sh, content: echo hello world}}, {sleep: 0.2}]";
    let bed = project(&[told], "repeats: 2\nparallel_runs: 1\n");
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "json"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let all = events(&ran.stdout);
    let cell = |event: &Value| event["cell"].as_str().is_some_and(|cell| cell.ends_with("r2"));
    let waits: Vec<_> = all.iter().filter(|event| event["event"] == "session_progress" && cell(event)).collect();
    let text = waits.first().and_then(|event| event["text"].as_str()).unwrap_or("nothing");
    assert!(text.starts_with("waits ") && text.contains("provider `scripted` has refused for too many"), "{text}");
    let told_at = all
        .iter()
        .find(|event| event["text"].as_str().is_some_and(|text| text.starts_with("waits for the provider")))
        .map(at)
        .expect("the first cell was told");
    let began = all.iter().find(|event| event["event"] == "session_started" && cell(event)).map(at).expect("began");
    assert!(began.duration_since(told_at).as_millis() >= 2_900, "{told_at} {began}");
}

#[test]
fn a_wait_beyond_the_deadline_is_the_providers_doing() {
    let told = "[{message: hi}, {throttled: 500}, {write: {path: greet.sh, content: echo hello world}}, {sleep: 0.2}]";
    let bed = project(&[told], "repeats: 2\nparallel_runs: 1\nretry: {infrastructure: 0}\n");
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(11), "{}", ran.stderr);
    let row = bed.results().into_iter().find(|row| row["repeat"] == 2).expect("a result");
    assert_eq!((row["terminal_state"].as_str(), row["success"].as_bool()), (Some("infrastructure_error"), None));
    assert!(row["error_message"].as_str().expect("why").contains("longer than the time left"), "{row}");
}

#[test]
fn every_try_keeps_its_log_and_its_cost() {
    let refused = "[{message: x}, {usage: {input: 1000, output: 0}}, {provider: overloaded}]";
    let bed = project(&[refused], "repeats: 1\nretry: {infrastructure: 1}\n");
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "json"]);
    assert_eq!(ran.code, Some(11), "{}", ran.stderr);
    let row = &bed.results()[0];
    assert_eq!(
        (&row["attempt"], &row["retry_count"], &row["total_cost_micros"]),
        (&2.into(), &1.into(), &2_000.into())
    );
    assert_eq!(row["error_class"], "retry_exhausted");
    let first = bed.run(&["show", "greeting", "--attempt", "1", "--json"]);
    let first: Value = serde_json::from_str(&first.stdout).expect("JSON");
    assert_eq!((&first["cost"], &first["transitions"][0]["reason"]), (&1_000.into(), &Value::Null));
    let second = bed.record("greeting");
    assert_eq!((&second["cost"], &second["transitions"][0]["reason"]), (&1_000.into(), &"retry 1".into()));
    let retried = events(&ran.stdout).into_iter().find(|event| event["event"] == "attempt_retried").expect("retried");
    assert!(retried["reason"].as_str().expect("why").contains("Overloaded"), "{retried}");
    for attempt in ["a1", "a2"] {
        let logs = std::process::Command::new("find")
            .arg(bed.path().join(".refrain/runs"))
            .args(["-path", &format!("*/{attempt}/sessions/1/stdout.log.gz")])
            .output()
            .expect("find runs");
        assert!(!logs.stdout.is_empty(), "{attempt} keeps its log");
    }
}

#[test]
fn a_timeout_is_retried_only_where_the_run_says_so() {
    for (on_timeout, attempts) in [(false, 1), (true, 2)] {
        let settings =
            format!("repeats: 1\nmax_runtime_seconds: 1\nretry: {{infrastructure: 1, on_timeout: {on_timeout}}}\n");
        let bed = project(&["[{message: working}, {sleep: 60}]", SOLVE], &settings);
        let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "none"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let row = &bed.results()[0];
        assert_eq!((&row["attempt"], row["terminal_state"].as_str()), (&attempts.into(), Some("timeout")), "{row}");
    }
}
