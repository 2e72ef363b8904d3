//! Another terminal: `status` and `cancel` of a run that is under way elsewhere.

use std::process::Child;

use serde_json::Value;

use crate::bed::{TestBed, finish, play, signal, wait_for};

const SLOW: &str = "[{message: working}, {sleep: 3}, {write: {path: greet.sh, content: echo hello world}}, \
                    {usage: {input: 100, output: 10, cache_read: 0, cache_write: 0, reasoning: 0}}]";

/// A session that never ends by itself.
const ENDLESS: &str = "[{message: working}, {sleep: 600}]";

fn project(steps: &str, settings: &str) -> TestBed {
    let bed = TestBed::with_play(&play(&[steps]));
    bed.file("runs/demo.yaml", &TestBed::run_file(settings));
    bed
}

fn status(bed: &TestBed) -> Value {
    let ran = bed.run(&["status", "--json"]);
    if ran.code != Some(0) {
        return Value::Null;
    }
    serde_json::from_str(&ran.stdout).expect("valid JSON")
}

/// Starts the run and waits until cells execute.
fn under_way(bed: &TestBed, cells: usize) -> Child {
    let child = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    wait_for("a session", || {
        let now = status(bed);
        now["running"]
            .as_array()
            .is_some_and(|running| running.iter().filter(|cell| cell["state"] == "executing").count() == cells)
    });
    child
}

#[test]
fn a_running_run_is_shown_with_its_host_its_cells_and_its_money() {
    let bed = project(SLOW, "repeats: 3\nparallel_runs: 2\nbudget_usd: 1\n");
    let child = under_way(&bed, 2);
    let now = status(&bed);
    assert_eq!((&now["schema"], &now["run"], &now["state"]), (&1.into(), &"demo".into(), &"running".into()));
    assert_eq!(now["cells"]["total"], 3);
    assert_eq!((&now["cells"]["running"], &now["cells"]["waiting"]), (&2.into(), &1.into()));
    assert_eq!(now["hosts"][0]["pid"], child.id());
    assert_eq!(now["hosts"][0]["alive"], true);
    assert!(now["hosts"][0]["lease_expires_at"].is_string(), "{now}");
    // Two of three equal shares are promised.
    assert_eq!(
        (&now["money"]["budget_micros"], &now["money"]["reserved_micros"]),
        (&1_000_000.into(), &666_666.into())
    );
    assert!(now["running"][0]["started_at"].is_string() && now["running"][0]["since"].is_string(), "{now}");
    let text = bed.run(&["status", "demo"]).stdout;
    assert!(text.contains("Run demo: running") && text.contains(&format!("process {}", child.id())), "{text}");
    assert!(text.contains("/ $1.0000 budget cap, $0.666666 reserved by what runs"), "{text}");
    assert!(text.contains("attempt 1, executing for"), "{text}");

    let (code, shown) = finish(child);
    assert_eq!(code, Some(0), "{shown}");
    let after = status(&bed);
    assert_eq!((&after["state"], &after["hosts"][0]["alive"]), (&"finished".into(), &false.into()));
    assert_eq!((&after["cells"]["passed"], &after["cells"]["waiting"]), (&3.into(), &0.into()));
    assert_eq!((&after["money"]["total_micros"], &after["money"]["reserved_micros"]), (&450.into(), &0.into()));
    assert_eq!(after["running"], serde_json::json!([]));
    // The host has let go of the store: a copy of the file alone is whole.
    assert!(std::fs::metadata(bed.path().join("refrain.db-wal")).map_or(0, |log| log.len()) == 0);
}

#[test]
fn watching_ends_with_the_run() {
    let bed = project(SLOW, "repeats: 1\n");
    let child = under_way(&bed, 1);
    let watched = bed.run(&["status", "--watch", "--json"]);
    assert_eq!(watched.code, Some(0), "{watched:?}");
    let states: Vec<Value> = watched
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["state"].clone())
        .collect();
    assert_eq!((states.first(), states.last()), (Some(&"running".into()), Some(&"finished".into())), "{states:?}");
    assert_eq!(finish(child).0, Some(0));
    let text = bed.run(&["status", "--watch"]);
    assert!(text.stdout.contains("Run demo: finished"), "{text:?}");
}

#[test]
fn a_killed_host_is_called_gone_and_its_cells_wait() {
    let bed = project(ENDLESS, "repeats: 2\nparallel_runs: 1\n");
    let mut child = under_way(&bed, 1);
    child.kill().expect("killed");
    child.wait().expect("ends");
    let now = status(&bed);
    assert_eq!((&now["state"], &now["hosts"][0]["alive"]), (&"abandoned".into(), &false.into()));
    assert_eq!((&now["cells"]["running"], &now["cells"]["waiting"]), (&0.into(), &2.into()));
    let text = bed.run(&["status"]).stdout;
    assert!(text.contains("gone without having ended") && text.contains("it goes on from here"), "{text}");
    let refused = bed.run(&["cancel"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("nobody carries out the run `demo`: its host (process"), "{}", refused.stderr);
    // What the dead host left running is swept by the next start.
    bed.file("runs/demo.play.yaml", &play(&["[{message: done}]"]));
    let again = bed.run(&["run", "runs/demo.yaml", "--progress", "none", "--accept-changes"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
}

#[test]
fn the_first_request_lets_running_cells_finish() {
    let bed = project(SLOW, "repeats: 4\nparallel_runs: 2\n");
    let child = under_way(&bed, 2);
    let asked = bed.run(&["cancel", "demo"]);
    assert_eq!(asked.code, Some(0), "{asked:?}");
    assert_eq!(
        asked.stdout,
        format!("run `demo`, process {}: running cells finish, nothing new starts (again: stop them)\n", child.id())
    );
    let (code, shown) = finish(child);
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("cancelled by `refrain cancel`: running cells finish"), "{shown}");
    let done = bed.results();
    assert_eq!(done.len(), 2, "{done:?}");
    assert!(done.iter().all(|row| row["success"] == true), "{done:?}");
    assert_eq!(status(&bed)["state"], "interrupted");
    let refused = bed.run(&["cancel", "demo"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("its last start has ended"), "{}", refused.stderr);
    // The request was for that start only.
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    assert_eq!(bed.results().len(), 4);
}

#[test]
fn a_second_request_and_now_stop_sessions_and_record_them() {
    for requests in [&["cancel"] as &[&str], &["cancel", "--now"]] {
        let bed = project(ENDLESS, "repeats: 1\n");
        let child = under_way(&bed, 1);
        if requests.len() == 1 {
            assert_eq!(bed.run(&["cancel"]).code, Some(0));
        }
        let asked = bed.run(requests);
        assert!(asked.stdout.contains("sessions end now and are recorded (again: kill)"), "{asked:?}");
        let (code, shown) = finish(child);
        assert_eq!(code, Some(130), "{shown}");
        let done = bed.results();
        assert_eq!(done[0]["terminal_state"], "cancelled", "{done:?}");
    }
}

#[test]
fn a_third_request_kills() {
    let bed = project(ENDLESS, "repeats: 1\n");
    let child = under_way(&bed, 1);
    // All three come while the host is held up: it cannot end before the last.
    signal(&child, "-STOP");
    let asked: Vec<String> = [&["cancel"]; 3].map(|args| bed.run(args).stdout).to_vec();
    signal(&child, "-CONT");
    let answers = ["running cells finish", "sessions end now and are recorded", "everything is killed and recorded"];
    assert!(asked.iter().zip(answers).all(|(asked, answer)| asked.contains(answer)), "{asked:?}");
    let (code, shown) = finish(child);
    assert_eq!(code, Some(130), "{shown}");
    assert_eq!(bed.results()[0]["terminal_state"], "cancelled");
}

#[test]
fn without_a_store_or_a_run_both_say_so() {
    let bed = TestBed::new();
    for command in ["status", "cancel"] {
        let ran = bed.run(&[command]);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        assert!(ran.stderr.contains("there is no store `refrain.db`"), "{}", ran.stderr);
        assert!(!bed.path().join("refrain.db").exists(), "looking makes no store");
    }
    let bed = project(SLOW, "repeats: 1\n");
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    let ran = bed.run(&["status", "nightly"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("the store has no run `nightly`") && ran.stderr.contains("it has: demo"), "{ran:?}");
}

#[test]
fn the_cells_of_a_host_that_dies_go_to_the_one_that_is_still_at_work() {
    let bed = TestBed::with_play("");
    let flag = bed.path().join("go");
    let steps = format!(
        "[{{message: working}}, {{run: 'while [ ! -e {} ]; do sleep 0.05; done'}}, \
         {{write: {{path: greet.sh, content: echo hello world}}}}, \
         {{usage: {{input: 100, output: 10, cache_read: 0, cache_write: 0, reasoning: 0}}}}]",
        flag.display()
    );
    bed.file("runs/demo.play.yaml", &play(&[&steps]));
    bed.file("runs/demo.yaml", &TestBed::run_file("repeats: 3\nparallel_runs: 1\nbudget_usd: 1\n"));
    let mut first = under_way(&bed, 1);
    let second = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    wait_for("a cell of the second host", || {
        status(&bed)["running"].as_array().is_some_and(|running| running.len() == 2)
    });
    let now = status(&bed);
    assert_eq!(now["hosts"].as_array().map(Vec::len), Some(2), "{now}");
    // The second host is held up until the agent of the first has come to its end by itself.
    signal(&second, "-STOP");
    first.kill().expect("killed");
    first.wait().expect("ends");
    std::fs::write(&flag, "").expect("written");
    wait_for("the agent of the dead host", || {
        let scratch = std::fs::read_dir(bed.path().join(".refrain/scratch")).expect("listed").flatten();
        // The first host has the first cell.
        let mut logs = scratch.map(|attempt| attempt.path()).filter(|path| path.to_string_lossy().contains("__r1"));
        logs.any(|attempt| {
            std::fs::read_to_string(attempt.join("session-1/stdout.log")).is_ok_and(|log| log.contains("\"result\""))
        })
    });
    signal(&second, "-CONT");
    let (code, shown) = finish(second);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("left to another process, which works on it (attempt 1)"), "{shown}");
    let results = bed.results();
    assert_eq!(results.len(), 3);
    assert!(results.iter().all(|row| row["success"] == true), "{results:?}");
    let attempts: Vec<u64> = results.iter().filter_map(|row| row["attempt"].as_u64()).collect();
    assert_eq!(attempts, [1, 1, 1], "the attempt was gone on with: {results:?}");
    assert!(shown.contains("attempt 1 goes on where its host died"), "{shown}");
    let money = &status(&bed)["money"];
    assert_eq!((&money["total_micros"], &money["assumed_micros"]), (&450.into(), &0.into()), "{money}");
    assert_eq!((&money["reserved_micros"], &money["unknown_costs"]), (&0.into(), &0.into()), "{money}");
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
}
