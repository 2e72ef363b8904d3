//! Orchestrators whose runner is a program, on the local runtime.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;

use crate::bed::{MISS, SOLVE, TestBed, play};

/// A project whose orchestrator is a shell program, and whose agent is a shell line.
fn bed(runner: &str, agent: &str, settings: &str) -> TestBed {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let text = "slug = \"mine\"\nrunner = \"runner.sh\"\napi = 1\n[params]\nmax_rounds = 3\nwords = [\"a\", \"b c\"]\n";
    bed.file("mine/orchestrator.toml", text);
    bed.file("mine/beside.txt", "a file beside the runner");
    let path = bed.file("mine/runner.sh", runner);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let agent = serde_json::to_string(agent).expect("text");
    let run = format!(
        "name: demo\nharnesses: [{{name: command, config: {{command: {agent}}}}}]\nmodels: [{{name: m, provider: p}}]\n\
         tasks: [greeting]\nruntime: local\nrepeats: 1\norchestrators: [{{dir: ../mine}}]\n{settings}"
    );
    bed.file("runs/demo.yaml", &run);
    bed
}

/// Runs the one cell and returns its record.
fn record(bed: &TestBed) -> Value {
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "none"]);
    assert!(ran.code == Some(0) || ran.code == Some(11), "{ran:?}");
    let cell = bed.results()[0]["cell_id"].as_str().expect("an id").to_owned();
    bed.record(&cell)
}

fn log(record: &Value) -> Vec<&str> {
    record["script_log"].as_array().expect("a log").iter().filter_map(Value::as_str).collect()
}

fn sessions(record: &Value) -> &Vec<Value> {
    record["sessions"].as_array().expect("sessions")
}

#[test]
fn the_examples_solve_a_task_whose_first_session_misses() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/runners");
    for (name, params) in
        [("retry-sh", r#"{check: 'test "$(sh greet.sh)" = "hello world"'}"#), ("careful-py", "{reserve_seconds: 1}")]
    {
        let bed = TestBed::with_play(&play(&[MISS, SOLVE]));
        let dir = examples.join(name).display().to_string();
        let settings = format!("orchestrators: [{{dir: '{dir}', params: {params}}}]\nrepeats: 1\n");
        bed.file("runs/demo.yaml", &TestBed::run_file(&settings));
        let record = record(&bed);
        assert_eq!(record["solved"], true, "{name}: {record:#}");
        let sessions = sessions(&record);
        assert_eq!(sessions.len(), 2, "{name}");
        assert_eq!(sessions[1]["usage"]["input"], 100, "{name}: the host counts tokens");
        assert!(sessions[0]["label"].as_str().is_some_and(|label| label == "try 1" || label == "work"));
    }
    let bed = TestBed::new();
    let ran = bed.run(&["check", &examples.display().to_string()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "2 checked: 0 errors, 0 warnings\n"));
}

#[test]
fn an_agent_that_kills_the_listener_gets_one_more_try_and_no_third() {
    // As an agent could: whatever process shows the listener's name and this attempt's folder.
    let agent = "for p in /proc/[0-9]*; do c=$(tr '\\0' ' ' < $p/cmdline 2> /dev/null); \
                 case $c in *refrain-listener*$HOME*) kill -9 ${p#/proc/} ;; esac; done; sleep 60";
    let bed = bed("#!/bin/sh\nrefrain-session x\n", agent, "");
    let record = record(&bed);
    assert_eq!((&record["attempt"]["number"], &record["error_class"]), (&2.into(), &"orchestrator_error".into()));
    assert!(record["failure"].to_string().contains("again after a retry"), "{record}");
    let cell = record["attempt"]["cell"].as_str().expect("an id");
    let first = bed.run(&["show", cell, "--attempt", "1", "--json"]);
    let first: Value = serde_json::from_str(&first.stdout).expect("JSON");
    assert_eq!((&first["terminal"], &first["failure"]["kind"]), (&"infrastructure_error".into(), &"runtime".into()));
}

#[test]
fn a_runner_is_told_what_it_needs() {
    let runner = "#!/bin/sh\necho \"prompt=$REFRAIN_PROMPT\"\n\
                  cmp -s \"$REFRAIN_PROMPT_FILE\" - <<END && echo 'the file has it too'\nGreet the world.\nEND\n\
                  printf %s \"$REFRAIN_PROMPT\" | cmp - \"$REFRAIN_PROMPT_FILE\" && echo same\n\
                  test \"$PWD\" = \"$REFRAIN_WORKSPACE\" && test -f greet.sh && echo here\n\
                  echo \"left=$((REFRAIN_DEADLINE - $(date +%s)))\"\n\
                  echo \"rounds=$REFRAIN_PARAM_MAX_ROUNDS words=$REFRAIN_PARAM_WORDS task=$REFRAIN_TASK\"\n\
                  cat \"$REFRAIN_ORCHESTRATOR/beside.txt\"; echo\necho careful >&2\nrefrain-session x";
    let record = record(&bed(runner, "true", ""));
    let log = log(&record);
    for expected in [
        "info: prompt=Greet the world.",
        "info: same",
        "info: here",
        "info: rounds=3 words=[\"a\",\"b c\"] task=greeting",
        "info: a file beside the runner",
        "warn: careful",
    ] {
        assert!(log.contains(&expected), "{expected}: {log:?}");
    }
    let left = log.iter().find_map(|line| line.strip_prefix("info: left=")).expect("time left");
    assert!((1..=30).contains(&left.parse::<i64>().expect("seconds")), "{left}");
}

#[test]
fn a_prompt_may_hold_anything_and_two_megabytes() {
    let runner = r#"#!/bin/sh
odd=$(printf 'a "b" $c `d`\n\t-- \\ %%s é\n.')
refrain-session --label=odd -- "$odd"
head -c 2097152 /dev/zero | tr '\0' x | refrain-session -
head -c 2097153 /dev/zero | tr '\0' x | refrain-session - || echo "too much: $?"
printf -- '--label' | refrain-session -
"#;
    let bed = bed(runner, "wc -c < \"$REFRAIN_PROMPT_FILE\"; cksum < \"$REFRAIN_PROMPT_FILE\"", "");
    let record = record(&bed);
    let texts: Vec<_> = sessions(&record).iter().map(|session| session["text"].as_str().expect("text")).collect();
    let sizes: Vec<_> = texts.iter().map(|text| text.lines().next().unwrap_or("").trim()).collect();
    assert_eq!(sizes, ["26", "2097152", "7"]);
    assert_eq!(sessions(&record)[0]["label"], "odd");
    assert!(log(&record).contains(&"info: too much: 2"), "{:?}", log(&record));
    assert!(log(&record).contains(&"warn: refrain-session: the prompt is larger than 2 MB"));
}

#[test]
fn sessions_may_run_side_by_side() {
    // Each waits until all three are there.
    let agent = "touch \"met-$REFRAIN_SESSION\"; i=0; until [ -e met-1 ] && [ -e met-2 ] && [ -e met-3 ]; do \
                 i=$((i + 1)); [ $i -lt 250 ] || exit 1; sleep 0.1; done; echo \"$REFRAIN_SESSION met\"";
    let runner =
        "#!/bin/sh\nfor name in a b c; do refrain-session --label $name go > $name.out & done\nwait\ncat *.out";
    let record = record(&bed(runner, agent, ""));
    assert_eq!(sessions(&record).len(), 3);
    assert!(sessions(&record).iter().all(|session| session["end"]["kind"] == "completed"), "{record:#}");
    let met = log(&record).iter().filter(|line| line.ends_with(" met")).count();
    assert_eq!(met, 3, "each call printed the message of its own session: {:?}", log(&record));
}

#[test]
fn a_call_tells_how_its_session_went() {
    let runner = r#"#!/bin/sh
refrain-session --json ok.json fine; echo "fine: $?"
refrain-session --json bad.json fail; echo "failed: $?"
refrain-session --timeout 1 hang; echo "late: $?"
refrain-session --model nobody x; echo "unknown: $?"
refrain-session --timeout soon x; echo "senseless: $?"
refrain-session --nonsense x; echo "no option: $?"
refrain-session; echo "no prompt: $?"
refrain-session --json more.json x; echo "no more: $?"
refrain-session --help | head -1
cat ok.json bad.json more.json
"#;
    let agent = "case $REFRAIN_PROMPT in fine) echo done;; fail) echo sorry; exit 3;; hang) sleep 100;; esac";
    let bed = bed(runner, agent, "limits: {sessions: 3}\n");
    let record = record(&bed);
    let log = log(&record);
    for expected in [
        "info: done",
        "info: fine: 0",
        "info: failed: 1",
        "info: late: 1",
        "info: unknown: 2",
        "warn: refrain-session: the run has no model `nobody`; it has: m",
        "info: senseless: 2",
        "warn: refrain-session: `--timeout` takes seconds above 0, not `soon`",
        "info: no option: 2",
        "info: no prompt: 2",
        "info: no more: 3",
        "warn: refrain-session: the limit of 3 sessions for an attempt is reached",
        "info: Usage: refrain-session [OPTIONS] PROMPT",
    ] {
        assert!(log.contains(&expected), "{expected}: {log:#?}");
    }
    let results: Vec<Value> = log
        .iter()
        .filter_map(|line| serde_json::from_str(line.strip_prefix("info: ")?).ok())
        .filter(Value::is_object)
        .collect();
    assert_eq!(
        (&results[0]["ok"], &results[0]["text"], &results[0]["index"]),
        (&true.into(), &"done".into(), &1.into())
    );
    assert_eq!((&results[1]["ok"], &results[1]["exit_code"]), (&false.into(), &3.into()));
    assert_eq!(results[0]["usage"]["input"], Value::Null, "nobody counted: unknown, not 0");
    assert_eq!((&results[2]["ok"], &results[2]["status"]), (&false.into(), &"refused".into()));
    assert_eq!(sessions(&record).len(), 3);
}

#[test]
fn a_runner_that_fails_is_no_agents_failure() {
    for (runner, expected) in [
        ("#!/bin/sh\necho 'it broke here' >&2\nexit 4\n", "ended with exit code 4; its last lines:\n  it broke here"),
        ("#!/bin/sh\nkill -9 $$\n", "was ended by signal 9; it printed no error"),
        ("#!/no/such/interpreter\n", "it must be executable, and its first line name an interpreter that is there"),
        ("#!/bin/sh\nrefrain-session x > /dev/null &\nsleep 1\n", "ended while 1 session(s) were still running"),
    ] {
        let record = record(&bed(runner, "sleep 100", ""));
        assert_eq!(record["failure"]["kind"], "orchestrator_error", "{record:#}");
        let message = record["failure"]["message"].as_str().expect("a message");
        assert!(message.starts_with("the runner `runner.sh` ") && message.contains(expected), "{message}");
        assert_eq!(record["solved"], Value::Null);
        let ends: Vec<_> = sessions(&record).iter().map(|session| &session["end"]["kind"]).collect();
        assert!(ends.iter().all(|end| *end == "cancelled"), "{ends:?}");
        assert_eq!(ends.len(), usize::from(expected.contains("still running")));
    }
    let bed = bed("#!/bin/sh\n", "true", "");
    let plain = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(bed.path().join("mine/runner.sh"), plain).expect("set");
    let ran = bed.run(&["check", "mine"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.stdout.contains("is not executable; `chmod +x runner.sh` makes it so"), "{}", ran.stdout);
    let record = record(&bed);
    let message = record["failure"]["message"].as_str().expect("a message");
    assert!(message.contains("it must be executable"), "{message}");
}

#[test]
fn a_deadline_ends_a_runner_with_its_sessions() {
    let bed = bed("#!/bin/sh\nrefrain-session work\necho never\n", "echo begun; sleep 100", "max_runtime_seconds: 3\n");
    let record = record(&bed);
    assert_eq!(
        (&record["failure"]["kind"], &record["failure"]["timer"]),
        (&"timeout".into(), &"run".into()),
        "{record:#}"
    );
    assert_eq!(sessions(&record)[0]["end"]["kind"], "timed_out");
    assert!(!log(&record).contains(&"info: never"));
}
