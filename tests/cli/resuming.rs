//! Runs that go on after their host died, runs whose inputs changed, and scripts run again over their journals.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::Value;

use crate::bed::{TestBed, skipped};

pub(crate) const CELL: &str = "agent__scripted-small__greeting__r1__orch-two";

/// Two sessions; the second one waits for a file that only the test makes, so that a host can be killed in it.
pub(crate) const SCRIPT: &str = r#"
local checks, clock, workspace = require("@std/checks"), require("@std/clock"), require("@std/workspace")
local first = session("first", { label = "first" })
checks.run()
log.info("first is done after " .. (if clock.now() >= 0 then "some time" else "none"))
local second = session(params.words, { label = "second" })
return { note = workspace.read("progress") }
"#;

const AGENT: &str = r#"
read -r prompt
echo $$ > "$HERE/agent.pid"
echo "$prompt" >> "$HERE/agents.log"
echo '{"type":"message","text":"working"}'
printf 'half ' >> progress
[ "$prompt" = first ] || while [ ! -e "$HERE/go" ]; do sleep 0.05; done
echo "$prompt" >> progress
echo 'echo hello world' > greet.sh
echo '{"type":"usage","input":100,"output":10,"cache_read":0,"cache_write":0,"reasoning":0}'
echo '{"type":"result","status":"completed","text":"done","turns":1}'
"#;

pub(crate) fn project() -> TestBed {
    let bed = TestBed::with_play("plays: []\n");
    bed.file("agent.sh", &format!("HERE='{}'\n{AGENT}", bed.path().display()));
    let manifest = include_str!("../../harnesses/scripted/harness.toml");
    let rules = manifest.split_once("[output]").expect("rules").1;
    bed.file(
        "harness/harness.toml",
        &format!("name = \"agent\"\n[run]\nargv = [\"sh\", \"{{config.agent}}\"]\nprompt = \"stdin\"\n[config.agent]\ntype = \"path\"\n[output]{rules}"),
    );
    bed.file("two/orchestrator.toml", "slug = \"two\"\napi = 1\n[params]\nwords = \"second\"\n");
    bed.file("two/runner.lua", SCRIPT);
    bed.file(
        "runs/demo.yaml",
        "name: demo\nharnesses: [{name: agent, adapter: ../harness, config: {agent: ../agent.sh}}]\n\
         models: [{name: scripted-small, provider: none}]\ntasks: [greeting]\nruntime: local\nrepeats: 1\n\
         orchestrators: [{dir: ../two}]\n",
    );
    bed
}

pub(crate) fn agents(bed: &TestBed) -> Vec<String> {
    let log = std::fs::read_to_string(bed.path().join("agents.log")).unwrap_or_default();
    log.lines().map(str::to_owned).collect()
}

/// A project whose host was killed while the second session ran.
fn killed_in_the_second_session() -> TestBed {
    let bed = project();
    kill_in_the_second_session(&bed);
    bed
}

/// Starts the run `demo` of one cell, and kills its host in the second session.
pub(crate) fn kill_in_the_second_session(bed: &TestBed) {
    let only = ["run", "runs/demo.yaml", "--progress", "none", "--only", "*small*"];
    kill_once_the_second_session_runs(bed, &mut bed.start(&only));
}

fn wait_for_agents(bed: &TestBed, count: usize) {
    let began = Instant::now();
    while agents(bed).len() < count {
        assert!(began.elapsed() < Duration::from_secs(60), "session {count} never began");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill_once_the_second_session_runs(bed: &TestBed, host: &mut Child) {
    wait_for_agents(bed, 2);
    host.kill().expect("killed");
    host.wait().expect("ends");
}

/// Ends the agent that a dead host has left, so that it cannot finish by itself.
pub(crate) fn end_the_agent(bed: &TestBed) {
    let pid = std::fs::read_to_string(bed.path().join("agent.pid")).expect("it wrote its number");
    let killed = std::process::Command::new("kill").args(["-9", pid.trim()]).status().expect("kill runs");
    assert!(killed.success());
}

pub(crate) fn database(bed: &TestBed) -> Connection {
    Connection::open(bed.path().join("refrain.db")).expect("opens")
}

pub(crate) fn warnings(record: &Value) -> String {
    record["warnings"].to_string()
}

fn scratch(bed: &TestBed) -> Vec<PathBuf> {
    std::fs::read_dir(bed.path().join(".refrain/scratch")).into_iter().flatten().flatten().map(|e| e.path()).collect()
}

/// Waits until the log of a session, whose host is dead, tells that its agent has finished.
pub(crate) fn wait_for_a_result(bed: &TestBed, session: u32) {
    let began = Instant::now();
    let finished = || {
        scratch(bed).iter().any(|attempt| {
            let log =
                std::fs::read_to_string(attempt.join(format!("session-{session}/stdout.log"))).unwrap_or_default();
            log.contains("\"result\"")
        })
    };
    while !finished() {
        assert!(began.elapsed() < Duration::from_secs(60), "the orphan never finished");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_host_that_waits_for_another_goes_on_with_its_attempt_when_it_dies() {
    let bed = project();
    let mut first = bed.start(&["run", "runs/demo.yaml", "--progress", "none"]);
    wait_for_agents(&bed, 2);
    let mut second = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    let mut said = String::new();
    let mut lines = BufReader::new(second.stderr.take().expect("piped"));
    while !said.contains("waiting for 1 cell(s) that another process works on") {
        assert!(lines.read_line(&mut said).expect("text") > 0, "it ended: {said}");
    }
    first.kill().expect("killed");
    first.wait().expect("ends");
    // Only what the second one holds may finish: the agent of the first may not.
    while agents(&bed).len() < 3 {
        assert!(lines.read_line(&mut said).expect("text") > 0, "it ended: {said}");
        if said.contains("goes on where its host died") {
            break;
        }
    }
    bed.file("go", "");
    lines.read_to_string(&mut said).expect("text");
    assert_eq!(second.wait().expect("ends").code(), Some(0), "{said}");
    assert!(said.contains("1 passed"), "{said}");
    assert_eq!(agents(&bed), ["first", "second", "second"]);
    let record = bed.record(CELL);
    assert_eq!((&record["attempt"]["number"], &record["note"]), (&1.into(), &"half first\nhalf second\n".into()));
    assert!(scratch(&bed).is_empty());
}

#[test]
fn a_host_that_waits_for_a_living_one_tells_of_its_results() {
    let bed = project();
    let first = bed.start(&["run", "runs/demo.yaml", "--progress", "none"]);
    wait_for_agents(&bed, 2);
    let mut second = bed.start(&["run", "runs/demo.yaml", "--progress", "lines"]);
    let mut said = String::new();
    let mut lines = BufReader::new(second.stderr.take().expect("piped"));
    while !said.contains("waiting for 1 cell(s)") {
        assert!(lines.read_line(&mut said).expect("text") > 0, "it ended: {said}");
    }
    bed.file("go", "");
    lines.read_to_string(&mut said).expect("text");
    let ended = [first, second].map(|mut host| host.wait().expect("ends").code());
    assert_eq!(ended, [Some(0), Some(0)], "{said}");
    assert!(said.contains("1 passed") && !said.contains("not run"), "{said}");
    assert_eq!(agents(&bed), ["first", "second"]);
}

#[test]
fn sessions_side_by_side_come_into_the_journal_in_the_order_of_their_numbers() {
    let bed = project();
    bed.file("go", "");
    // The copy that is made before the first of them takes much longer than that before the second.
    let script = "local exec, fork, parallel = require('@std/exec'), require('@std/fork'), require('@std/parallel')\n\
                  local copies = { fork.create(), fork.create() }\n\
                  exec.run({ 'sh', '-c', 'for i in $(seq 3000); do echo $i > f$i; done' }, { workspace = copies[1] })\n\
                  parallel.map(copies, function(copy, i) return session('s' .. i, { workspace = copy }) end)\n";
    bed.file("two/runner.lua", script);
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert!(matches!(ran.code, Some(0)), "{}", ran.stderr);
    let database = database(&bed);
    let mut statement =
        database.prepare("SELECT seq FROM journal WHERE call = 'session' ORDER BY rowid").expect("valid");
    let rows = statement.query_map([], |row| row.get(0)).expect("read");
    let order: Vec<i64> = rows.map(|row| row.expect("a number")).collect();
    assert!(order.len() == 2 && order.is_sorted(), "{order:?}");
}

#[test]
fn a_session_that_was_cut_off_is_held_again_over_the_workspace_as_it_was_before() {
    let bed = killed_in_the_second_session();
    end_the_agent(&bed);
    bed.file("go", "");
    let ran = bed.run(&["resume", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("attempt 1 goes on where its host died"), "{}", ran.stderr);
    // The first one was finished, and is not paid for again.
    assert_eq!(agents(&bed), ["first", "second", "second"]);
    let record = bed.record(CELL);
    assert_eq!(record["attempt"]["number"], 1);
    assert_eq!(record["note"], "half first\nhalf second\n");
    assert_eq!(record["sessions"].as_array().map(Vec::len), Some(2));
    assert_eq!(record["script_log"], serde_json::json!(["info: first is done after some time"]));
    // What the lost start cost is unknown, and so is the sum.
    assert!(record["cost"].is_null() && warnings(&record).contains("session 2 was cut off"), "{record}");
    assert!(ran.stderr.contains("at least $0.0003 / no budget cap"), "{}", ran.stderr);
    assert!(scratch(&bed).is_empty());
}

#[test]
fn what_a_cut_off_session_cost_is_unknown_to_the_budget_where_its_model_is_paid_and_nothing_where_it_is_not() {
    for (model, billed) in [("scripted-large", None), ("scripted-small", Some(0))] {
        let bed = project();
        let file = std::fs::read_to_string(bed.path().join("runs/demo.yaml")).expect("read");
        let models = "{name: scripted-small, provider: none, cost_mode: subscription}, \
                      {name: scripted-large, provider: none, role: review}";
        bed.file("runs/demo.yaml", &file.replace("{name: scripted-small, provider: none}", models));
        let script = SCRIPT.replace("label = \"second\"", &format!("label = \"second\", model = \"{model}\""));
        bed.file("two/runner.lua", &script);
        kill_in_the_second_session(&bed);
        end_the_agent(&bed);
        bed.file("go", "");
        let ran = bed.run(&["resume", "--progress", "lines"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let unknown = "SELECT billable_micros FROM ledger WHERE amount_micros IS NULL";
        let found: Option<i64> = database(&bed).query_row(unknown, [], |row| row.get(0)).expect("one entry");
        assert_eq!(found, billed, "{model}");
        let record = bed.record(CELL);
        assert_eq!((&record["cost"], record["billable_cost"].as_i64()), (&Value::Null, billed), "{record}");
    }
}

#[test]
fn a_session_that_finished_after_its_host_had_died_is_taken_up() {
    let bed = killed_in_the_second_session();
    bed.file("go", "");
    wait_for_a_result(&bed, 2);
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(agents(&bed), ["first", "second"]);
    let record = bed.record(CELL);
    assert_eq!((&record["attempt"]["number"], &record["cost"]), (&Value::from(1), &Value::from(300)));
    assert!(warnings(&record).contains("had finished when its host died"), "{record}");
    assert_eq!(record["note"], "half first\nhalf second\n");
}

#[test]
fn a_disk_that_is_full_while_an_attempt_is_gone_on_with_leaves_its_record_and_nothing_else() {
    let bed = project();
    let fill = "[ \"$prompt\" = first ] || [ -e \"$HERE/freed\" ] || head -c 30000000 /dev/urandom > blob\n";
    let agent = AGENT.replace("echo \"$prompt\" >> progress\n", &format!("echo \"$prompt\" >> progress\n{fill}"));
    bed.file("agent.sh", &format!("HERE='{}'\n{agent}", bed.path().display()));
    let disk = tempfile::tempdir().expect("a folder");
    let mount = |options: &str| {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(disk.path());
        mount.output().is_ok_and(|output| output.status.success())
    };
    if !mount("size=8m") {
        skipped("a_disk_that_is_full: this process may not mount a file system");
        return;
    }
    let on_disk = disk.path().join("project");
    assert!(std::process::Command::new("cp").arg("-r").args([bed.path(), &on_disk]).status().expect("cp").success());
    let command = |args: &[&str]| {
        let mut command = bed.command(args);
        command.current_dir(&on_disk);
        command
    };
    let mut host = command(&["run", "runs/demo.yaml", "--progress", "none"]).spawn().expect("the program starts");
    kill_once_the_second_session_runs(&bed, &mut host);
    end_the_agent(&bed);
    bed.file("go", "");
    let stopped = command(&["resume", "--progress", "lines"]).output().expect("runs");
    let left: Vec<_> = std::fs::read_dir(on_disk.join(".refrain/scratch")).into_iter().flatten().flatten().collect();
    bed.file("freed", "");
    let grown = mount("remount,size=64m");
    let resumed = command(&["resume", "--progress", "lines"]).output().expect("runs");
    let shown = command(&["show", CELL, "--attempt", "1", "--json"]).output().expect("runs");
    let ended = std::process::Command::new("umount").arg(disk.path()).status().expect("umount");
    assert!(grown && ended.success());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&stopped.stderr);
    assert_eq!(stopped.status.code(), Some(4), "{said}");
    assert!(said.contains("goes on where its host died") && said.contains("could not be kept"), "{said}");
    assert!(left.is_empty(), "{left:?}");
    let said = text(&resumed.stderr);
    assert_eq!(resumed.status.code(), Some(0), "{said}");
    assert!(!said.contains("lost its host"), "its end is on record: {said}");
    let record: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(record["failure"]["kind"], "store", "{record}");
}

#[test]
fn what_a_cut_off_session_cost_is_settled_by_hand() {
    let bed = killed_in_the_second_session();
    end_the_agent(&bed);
    bed.file("go", "");
    let early = bed.run(&["store", "settle", "demo", "--release", "--reason", "x"]);
    assert_eq!(early.code, Some(2), "nothing is booked for it while it waits to be gone on with: {early:?}");
    assert_eq!(bed.run(&["resume", "--progress", "none"]).code, Some(0));
    let listed = bed.run(&["store", "settle", "demo"]);
    let open = format!("{CELL}#1: 1 spend(s) of unknown amount, $0.0000 counts against the cap");
    assert!(listed.stdout.contains(&open), "{listed:?}");
    let silent = bed.run(&["store", "settle", "demo", "greeting#1", "--cost", "0.25"]);
    assert!(silent.code == Some(2) && silent.stderr.contains("--reason"), "{silent:?}");
    let settle = ["store", "settle", "demo", "greeting#1", "--cost", "0.25", "--reason", "the invoice", "--by", "ada"];
    let settled = bed.run(&settle);
    assert_eq!(settled.code, Some(0), "{settled:?}");
    assert!(settled.stdout.contains("its unknown part cost $0.2500; -$0.2500 more is left of a cap"), "{settled:?}");
    assert_eq!(bed.run(&settle).code, Some(2), "there is nothing more to settle");
    let status: Value = serde_json::from_str(&bed.run(&["status", "--json"]).stdout).expect("JSON");
    let money = &status["money"];
    assert_eq!((&money["total_micros"], &money["unknown_costs"]), (&250_300.into(), &0.into()), "{money}");
    assert_eq!(money["by_hand"][0]["note"], "by ada: the invoice", "{money}");
    for args in [&["status"] as &[&str], &["show", CELL], &["store", "settle", "demo"]] {
        let shown = bed.run(args).stdout;
        assert!(shown.contains("settled by hand, $0.2500 ($0.2500 billable)"), "{shown}");
        assert!(shown.contains("by ada: the invoice"), "{shown}");
    }
    assert_eq!(bed.results()[0]["total_cost_micros"], 250_300);
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
}

#[test]
fn a_journal_that_tells_of_another_script_begins_afresh_and_keeps_what_was_spent() {
    let bed = killed_in_the_second_session();
    database(&bed).execute("UPDATE journal SET call = 'exec.run' WHERE seq = 1", []).expect("changed");
    end_the_agent(&bed);
    bed.file("go", "");
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("call 1 was `checks.run`, the journal has `exec.run`"), "{}", ran.stderr);
    assert_eq!(agents(&bed), ["first", "second", "first", "second"]);
    let record = bed.record(CELL);
    assert_eq!((&record["attempt"]["number"], &record["cost"]), (&Value::from(2), &Value::from(300)));
    // Three finished sessions, and one start of which nobody knows.
    assert!(ran.stderr.contains("at least $0.000450"), "{}", ran.stderr);
    assert!(scratch(&bed).is_empty());
}

#[test]
fn an_environment_that_is_gone_begins_afresh() {
    let bed = killed_in_the_second_session();
    for attempt in scratch(&bed) {
        std::fs::remove_dir_all(attempt.join("agent")).expect("removed");
    }
    end_the_agent(&bed);
    bed.file("go", "");
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("begun afresh: its environment is gone"), "{}", ran.stderr);
    assert_eq!(bed.record(CELL)["attempt"]["number"], 2);
}

#[test]
fn a_run_beside_it_leaves_an_attempt_that_can_be_gone_on_with_alone() {
    let bed = killed_in_the_second_session();
    end_the_agent(&bed);
    bed.file("go", "");
    let other = bed.run(&["run", "runs/demo.yaml", "--fork=other", "--progress", "none"]);
    assert_eq!(other.code, Some(0), "{}", other.stderr);
    let ran = bed.run(&["resume", "demo", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let shown = bed.run(&["show", CELL, "--run", "demo", "--json"]);
    let record: Value = serde_json::from_str(&shown.stdout).expect("JSON");
    assert_eq!(
        (&record["attempt"]["number"], &record["note"]),
        (&Value::from(1), &Value::from("half first\nhalf second\n"))
    );
}

#[test]
fn a_changed_input_is_refused_by_its_name() {
    let bed = project();
    bed.file("go", "");
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    let param = bed.run(&["run", "runs/demo.yaml", "--param", "words=other", "--progress", "none"]);
    assert_eq!(param.code, Some(2));
    assert!(param.stderr.contains("the orchestrator's parameters (1); first: `agent__"), "{}", param.stderr);
    bed.file("two/runner.lua", &format!("{SCRIPT}\n-- another script"));
    bed.file(
        "tasks/greeting/task.yaml",
        "id: greeting\ntask_prompt: Greet everybody.\nchecks: ['test \"$(sh greet.sh)\" = \"hello world\"']\n\
         test_command: sh hidden.sh\ntimeout_seconds: 30\n",
    );
    let both = bed.run(&["run", "runs/demo.yaml", "--progress", "none"]);
    assert_eq!(both.code, Some(2));
    let what = "the task's prompt (1), the orchestrator's script (1)";
    assert!(both.stderr.contains(what) && both.stderr.contains("--fork"), "{}", both.stderr);
    let forked = bed.run(&["run", "runs/demo.yaml", "--fork", "--progress", "none"]);
    assert_eq!(forked.code, Some(0), "{}", forked.stderr);
    assert!(forked.stderr.contains("Forked as `demo-2`"), "{}", forked.stderr);
    assert_eq!(agents(&bed).len(), 4);
    let kept = bed.run(&["run", "runs/demo.yaml", "--accept-changes", "--progress", "none"]);
    assert_eq!((kept.code, agents(&bed).len()), (Some(0), 4), "{}", kept.stderr);
}

#[test]
fn what_was_under_way_with_another_script_is_refused_too_and_begun_afresh_where_that_is_accepted() {
    let bed = killed_in_the_second_session();
    end_the_agent(&bed);
    bed.file("go", "");
    bed.file("two/runner.lua", &format!("{SCRIPT}\n-- another script"));
    let refused = bed.run(&["resume", "--progress", "none"]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("the orchestrator's script (1)"), "{}", refused.stderr);
    let ran = bed.run(&["resume", "--accept-changes", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("what it was made from has changed"), "{}", ran.stderr);
    assert_eq!(agents(&bed), ["first", "second", "first", "second"]);
    assert_eq!(bed.record(CELL)["attempt"]["number"], 2);
}

#[test]
fn a_script_is_run_again_over_its_journal_and_another_one_parts_from_it() {
    let bed = project();
    bed.file("go", "");
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    let replayed = bed.run(&["replay", "greeting"]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.stderr);
    let calls: Vec<&str> = replayed.stdout.lines().filter(|line| !line.contains('→')).collect();
    assert_eq!(
        calls[..6],
        [
            "    0  session(\"first\")",
            "    1  checks.run()",
            "    2  clock.now()",
            "    3  log(info: first is done after some time)",
            "    4  session(\"second\")",
            "    5  workspace.read(\"progress\")",
        ]
    );
    assert!(replayed.stdout.contains("→ session 2: completed, $0.000150, done"), "{}", replayed.stdout);
    assert!(replayed.stdout.contains("returned {\"note\":\"half first\\nhalf second\\n\"}"), "{}", replayed.stdout);
    assert_eq!(agents(&bed).len(), 2, "nothing was begun");
    bed.file("other/orchestrator.toml", "slug = \"other\"\napi = 1\n");
    bed.file("other/runner.lua", "session(\"first\")\nsession(\"second\")\n");
    let parted = bed.run(&["replay", "greeting", "--with", "other"]);
    assert_eq!(parted.code, Some(1), "{}", parted.stderr);
    // The label is an argument: the first call is another one already.
    assert!(
        parted.stdout.contains("call 0 was `session`, the journal has `session` with other arguments"),
        "{}",
        parted.stdout
    );
    bed.file("other/runner.lua", "session(\"first\", { label = \"first\" })\nsession(\"second\")\n");
    let parted = bed.run(&["replay", "greeting", "--with", "other", "--json"]);
    let value: Value = serde_json::from_str(&parted.stdout).expect("JSON");
    assert_eq!(value["end"]["end"], "parted");
    assert_eq!(value["steps"].as_array().map(Vec::len), Some(1));
    assert_eq!(value["end"]["reason"], "call 1 was `session`, the journal has `checks.run`");
}

#[test]
fn a_secret_that_an_agent_writes_down_reaches_neither_the_script_nor_the_journal() {
    let bed = project();
    bed.file("go", "");
    bed.file("agent.sh", &format!("HERE='{}'\n{}", bed.path().display(), AGENT.replace("half ", "sesame-open-1234 ")));
    let run = std::fs::read_to_string(bed.path().join("runs/demo.yaml")).expect("read");
    bed.file("runs/demo.yaml", &run.replace("provider: none}", "provider: none, api_key_env: THE_KEY}"));
    let mut command = bed.command(&["run", "runs/demo.yaml", "--progress", "none"]);
    let ended = command.env("THE_KEY", "sesame-open-1234").output().expect("runs");
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(bed.record(CELL)["note"], "[redacted:THE_KEY] first\n[redacted:THE_KEY] second\n");
    let answers: Vec<String> = {
        let database = database(&bed);
        let mut statement = database.prepare("SELECT coalesce(answer, '') FROM journal").expect("valid");
        let rows = statement.query_map([], |row| row.get(0)).expect("read");
        rows.map(|row| row.expect("text")).collect()
    };
    assert!(answers.iter().any(|answer| answer.contains("[redacted:THE_KEY] first")), "{answers:?}");
    assert!(answers.iter().all(|answer| !answer.contains("sesame")), "{answers:?}");
}
