//! Whole runs: verdicts, endings, resume, money.

use std::fs;

use crate::bed::{MISS, SOLVE, TestBed, all_below, play};

fn run(bed: &TestBed, code: i32) -> String {
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    ran.stderr
}

const CELL: &str = "scripted__scripted-small__greeting__r1";

#[test]
fn a_solved_task_passes_and_everything_is_on_record() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let shown = run(&bed, 0);
    assert!(shown.contains("1 passed, 0 failed, 0 errored"), "{shown}");
    let record = bed.record(CELL);
    assert_eq!((record["terminal"].as_str(), record["solved"].as_bool()), (Some("completed"), Some(true)));
    assert_eq!(record["usage"]["input"], 100);
    // 100 tokens in and 10 out at the list price of the scripted model, in micro-dollars.
    assert_eq!(record["cost"], 150);
    assert_eq!(record["workspace"]["files_changed"], 1);
    let steps: Vec<_> = record["transitions"].as_array().unwrap().iter().map(|step| step["to"].to_string()).collect();
    assert_eq!(steps.len(), 10, "{steps:?}");
    let diff = bed.run(&["show", CELL, "--diff"]).stdout;
    assert!(diff.contains("-echo hello\n+echo hello world"), "{diff}");
    let on_disk: Vec<_> = all_below(&bed.path().join(".refrain/runs"));
    assert!(on_disk.iter().any(|path| path.ends_with("run_record.json")), "{on_disk:?}");
    assert!(on_disk.iter().any(|path| path.ends_with("stdout.log.gz")), "{on_disk:?}");
    assert!(!bed.path().join(".refrain/scratch").read_dir().is_ok_and(|mut left| left.next().is_some()));
}

#[test]
fn what_the_runtime_does_not_do_is_told_once_before_the_first_cell() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let note = "runtime local: no isolation: an agent can read and change everything that this user can";
    let shown = run(&bed, 0);
    let at = |text: &str| shown.find(text).unwrap_or_else(|| panic!("`{text}` is not in {shown}"));
    assert!(at(note) < at("START"), "{shown}");
    assert_eq!(shown.matches(note).count(), 1, "{shown}");
    assert!(!run(&bed, 0).contains(note), "nothing is left to run");

    let bed = TestBed::with_play(&play(&[SOLVE]));
    let events = bed.run(&["run", "runs/demo.yaml", "--progress", "json"]).stdout;
    let told = events.lines().filter(|line| line.contains(note)).count();
    assert_eq!(told, 1, "{events}");

    let doctor = bed.run(&["doctor"]).stdout;
    assert!(doctor.lines().any(|line| line.contains("runtime local") && line.contains("no isolation")), "{doctor}");
}

#[test]
fn refine_solves_what_one_shot_does_not() {
    let bed = TestBed::with_play(&play(&[MISS, SOLVE]));
    let both = "orchestrators: [one-shot, {slug: refine, params: {reserve_seconds: 1}}]\nrepeats: 1\n";
    bed.file("runs/demo.yaml", &TestBed::run_file(both));
    let shown = run(&bed, 0);
    assert!(shown.contains("1 passed, 1 failed, 0 errored"), "{shown}");
    let rows = bed.results();
    let solved = |id: &str| rows.iter().find(|row| row["cell_id"] == id).map(|row| row["success"].clone());
    assert_eq!(solved(CELL), Some(false.into()));
    assert_eq!(solved(&format!("{CELL}__orch-refine")), Some(true.into()));
}

#[test]
fn the_same_command_again_runs_nothing_again() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    run(&bed, 0);
    let before = bed.results();
    let shown = run(&bed, 0);
    assert!(shown.contains("0 of 1 cells"), "{shown}");
    assert_eq!(bed.results(), before);
}

#[test]
fn a_changed_task_under_an_unchanged_name_is_refused() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    run(&bed, 0);
    bed.file("tasks/greeting/repo/greet.sh", "echo hi\n");
    let shown = run(&bed, 2);
    assert!(shown.contains("the task's files (1)") && shown.contains("--accept-changes"), "{shown}");
    let accepted = bed.run(&["run", "runs/demo.yaml", "--accept-changes", "--progress", "none"]);
    assert_eq!(accepted.code, Some(0), "{}", accepted.stderr);
}

#[test]
fn an_agents_failure_is_a_result_and_not_retried() {
    let bed = TestBed::with_play(&play(&["[{message: x}, {fail: I cannot do it}]"]));
    run(&bed, 0);
    let record = bed.record(CELL);
    assert_eq!((record["terminal"].as_str(), record["exit_class"].as_str()), (Some("failed"), Some("fail")));
    assert_eq!(record["attempt"]["number"], 1);
    // Nobody told tokens: the cost is unknown, and so is that of the run.
    assert!(record["cost"].is_null() && record["usage"]["input"].is_null());
}

#[test]
fn a_provider_that_refuses_is_infrastructure_and_retried() {
    let bed = TestBed::with_play(&play(&["[{message: x}, {provider: overloaded}]"]));
    bed.file("runs/demo.yaml", &TestBed::run_file("repeats: 1\nretry: {infrastructure: 1}\n"));
    let shown = run(&bed, 11);
    assert!(shown.contains("RETRY") && shown.contains("0 passed, 0 failed, 1 errored"), "{shown}");
    let record = bed.record(CELL);
    assert_eq!(record["terminal"], "infrastructure_error");
    assert_eq!((record["error_class"].as_str(), record["solved"].as_bool()), (Some("retry_exhausted"), None));
    assert_eq!(record["attempt"]["number"], 2);
    assert_eq!(bed.run(&["show", CELL, "--attempt", "1", "--json"]).code, Some(0));
}

#[test]
fn a_harness_that_never_starts_is_not_an_agent_that_did_nothing() {
    let bed = TestBed::with_play(&play(&["[{exit: 3}]"]));
    bed.file("runs/demo.play.yaml", "plays: []\n");
    bed.file("runs/demo.yaml", &TestBed::run_file("repeats: 1\nretry: {infrastructure: 0}\n"));
    run(&bed, 11);
    let record = bed.record(CELL);
    assert_eq!(record["terminal"], "infrastructure_error");
    let message = record["failure"]["message"].as_str().unwrap();
    assert!(message.contains("no play for task `greeting`"), "{message}");
}

#[test]
fn a_timeout_names_its_timer_and_is_judged_all_the_same() {
    let steps = "[{write: {path: greet.sh, content: echo hello world}}, {message: done}, {hang: true}]";
    let bed = TestBed::with_play(&play(&[steps]));
    bed.file("runs/demo.yaml", &TestBed::run_file("repeats: 1\nmax_runtime_seconds: 2\n"));
    run(&bed, 0);
    let record = bed.record(CELL);
    assert_eq!((record["terminal"].as_str(), record["solved"].as_bool()), (Some("timeout"), Some(false)));
    assert_eq!(
        (record["failure"]["timer"].as_str(), record["failure"]["limit"]["secs"].as_u64()),
        (Some("run"), Some(2))
    );
    assert_eq!(record["verdict"]["solved"], true);
}

#[test]
fn a_cap_skips_what_it_cannot_pay_and_says_so() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    bed.file("runs/demo.yaml", &TestBed::run_file("repeats: 3\nbudget_usd: 0\n"));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(12), "{}", ran.stderr);
    assert!(ran.stderr.contains("3 × Budget cap reached ($0.0000 remaining"), "{}", ran.stderr);
}

#[test]
fn a_script_error_is_the_orchestrators() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    bed.file(
        "mine/orchestrator.toml",
        "slug = \"mine\"\nname = \"Mine\"\ndescription = \"Broken.\"\nrunner = \"runner.lua\"\napi = 1\n",
    );
    bed.file("mine/runner.lua", "session(task.prompt)\nlocal x = nil\nreturn x.y\n");
    bed.file("runs/demo.yaml", &TestBed::run_file("repeats: 1\norchestrators: [{dir: ../mine}]\n"));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(11), "{}", ran.stderr);
    let record = bed.record("orch-mine");
    assert_eq!(
        (record["terminal"].as_str(), record["error_class"].as_str()),
        (Some("failed"), Some("orchestrator_error"))
    );
    assert!(record["failure"]["message"].as_str().unwrap().starts_with("runner.lua:3:"), "{}", record["failure"]);
}

#[test]
fn a_script_that_loops_beside_a_running_session_is_the_cause_and_not_the_session_that_is_stopped() {
    let bed = TestBed::with_play(&play(&["[{message: working}, {sleep: 600}]"]));
    // Only its own limit is to end the script, however slow the machine is.
    let task = std::fs::read_to_string(bed.path().join("tasks/greeting/task.yaml")).expect("read");
    bed.file("tasks/greeting/task.yaml", &task.replace("timeout_seconds: 30", "timeout_seconds: 600"));
    bed.file("runs/demo.yaml", &TestBed::run_file("orchestrators: [{dir: ../mine}]\nrepeats: 1\n"));
    bed.file("mine/orchestrator.toml", "slug = \"mine\"\napi = 1\n");
    bed.file(
        "mine/runner.lua",
        "local parallel, clock = require('@std/parallel'), require('@std/clock')\n\
         parallel.map({ 'work', 'raise' }, function(what)\n\
         if what == 'work' then return session('go') end\n\
         clock.sleep(1)\nwhile true do end\nend)\n",
    );
    run(&bed, 11);
    let record = bed.record("greeting");
    assert_eq!(record["error_class"], "orchestrator_error", "{record}");
    assert!(record["failure"].to_string().contains("endless loop"), "{record}");
    assert_eq!(record["sessions"][0]["end"]["kind"], "cancelled", "{record}");
}

#[test]
fn a_secret_reaches_neither_log_nor_store() {
    let secret = "hunter2-hunter2-hunter2";
    let bed = TestBed::with_play(&play(&[&format!(
        "[{{message: the key is {secret}}}, {{write: {{path: greet.sh, content: 'echo hello world # {secret}'}}}}, \
         {{noise: {secret}}}]"
    )]));
    bed.file(
        "runs/demo.yaml",
        &TestBed::run_file("repeats: 1\n").replace("provider: scripted}", "provider: scripted, api_key_env: DEMO_KEY}"),
    );
    let output =
        bed.command(&["run", "runs/demo.yaml", "--progress", "json"]).env("DEMO_KEY", secret).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stdout).contains(secret));
    let play = bed.path().join("runs/demo.play.yaml");
    for path in all_below(bed.path()).into_iter().filter(|path| path.is_file()) {
        if path == play {
            continue;
        }
        let bytes = fs::read(&path).unwrap();
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        if path.extension().is_some_and(|extension| extension == "gz") {
            use std::io::Read as _;
            text.clear();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_string(&mut text).unwrap();
        }
        assert!(!text.contains(secret), "{}", path.display());
    }
    assert!(bed.record(CELL)["sessions"][0]["text"].as_str().unwrap().contains("[redacted:DEMO_KEY]"));
}

#[test]
fn a_missing_key_is_told_before_anything_runs() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    bed.file(
        "runs/demo.yaml",
        &TestBed::run_file("repeats: 1\n")
            .replace("provider: scripted}", "provider: scripted, api_key_env: NOT_SET_ANYWHERE}"),
    );
    run(&bed, 11);
    let record = bed.record(CELL);
    assert_eq!(
        (record["terminal"].as_str(), record["sessions"].as_array().map(Vec::len)),
        (Some("invalid_configuration"), Some(0))
    );
}

#[test]
fn a_script_that_uses_up_the_time_without_a_session_is_not_the_agents_failure() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    bed.file(
        "mine/orchestrator.toml",
        "slug = \"mine\"\nname = \"Mine\"\ndescription = \"Spins.\"\nrunner = \"runner.lua\"\napi = 1\n",
    );
    bed.file("mine/runner.lua", "local n = 0\nwhile true do n += 1 end\n");
    let settings = "repeats: 1\nmax_runtime_seconds: 1\norchestrators: [{dir: ../mine}]\n";
    bed.file("runs/demo.yaml", &TestBed::run_file(settings));
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(11));
    let record = bed.record("orch-mine");
    assert_eq!((record["terminal"].as_str(), record["solved"].as_bool()), (Some("failed"), None));
    assert_eq!(record["failure"]["message"], "the script held no session before the deadline of 1.0 s");
}
