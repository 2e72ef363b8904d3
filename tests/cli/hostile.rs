//! Agents, users and machines that do their worst. Each test states the one right end.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::{SOLVE, TestBed, finish, play, processes_of, skipped};

const CELL: &str = "agent__m__greeting__r1";
const SOLVED: &str = "echo 'echo hello world' > greet.sh; echo done; ";

/// A project whose agent is this shell script.
fn with_agent(script: &str, settings: &str) -> TestBed {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let agent = bed.file("agent.sh", script);
    bed.file(
        "runs/demo.yaml",
        &format!(
            "name: demo\nharnesses:\n  - {{name: agent, adapter: command, config: {{argv: [sh, '{}']}}}}\n\
             models: [{{name: m, provider: none}}]\ntasks: [greeting]\nruntime: local\nrepeats: 1\n\
             retry: {{infrastructure: 0}}\n{settings}",
            agent.display()
        ),
    );
    bed
}

/// Runs it and returns the record of its one cell.
fn record_of(script: &str, settings: &str, code: i32) -> (TestBed, Value) {
    let bed = with_agent(script, settings);
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(code), "{}", ran.stderr);
    let record = bed.record(CELL);
    let left: Vec<_> = fs::read_dir(bed.path().join(".refrain/scratch")).into_iter().flatten().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
    (bed, record)
}

fn end_of(record: &Value) -> (&str, &str, Option<bool>) {
    let text = |key: &str| record[key].as_str().unwrap_or("none");
    (text("terminal"), text("error_class"), record["solved"].as_bool())
}

// --- the agent's own doing is never infrastructure ------------------------------------------------------------------

#[test]
fn an_agent_that_removes_its_workspace_has_failed() {
    let (_bed, record) = record_of(&format!("{SOLVED} rm -rf \"$PWD\""), "", 0);
    assert_eq!(end_of(&record).0, "completed");
    assert_eq!(record["solved"], false);
    assert_eq!(record["workspace"]["files_changed"], 1);
}

#[test]
fn a_workspace_that_became_a_link_leads_nowhere() {
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("private.txt"), "the owner's words\n").unwrap();
    let script = format!("echo done; p=$PWD; cd /; rm -rf \"$p\"; ln -s '{}' \"$p\"", secret.path().display());
    let (bed, record) = record_of(&script, "", 0);
    assert_eq!(record["solved"], false);
    let diff = bed.run(&["show", CELL, "--diff"]).stdout;
    assert!(!diff.contains("private") && diff.contains("-echo hello"), "{diff}");
    assert_eq!(fs::read_to_string(secret.path().join("private.txt")).unwrap(), "the owner's words\n");
}

#[test]
fn an_agent_that_removes_all_it_can_reach_is_judged_by_what_is_left() {
    let (_bed, record) = record_of("echo done; rm -rf \"$HOME\" ../../*", "", 0);
    assert_eq!((record["terminal"].as_str(), record["solved"].as_bool()), (Some("completed"), Some(false)));
    let session = &record["sessions"][0];
    assert_eq!(session["text"], "done");
    assert!(session["cost"].is_null() && record["cost"].is_null());
    assert!(session["warnings"][0].as_str().unwrap().contains("log was removed"), "{session}");
}

#[test]
fn what_outlives_the_agent_changes_nothing_any_more() {
    let daemon = "setsid sh -c 'while :; do echo echo bye > greet.sh; sleep 0.01; done' >/dev/null 2>&1 &";
    let (bed, record) = record_of(&format!("{daemon} sleep 0.2; echo done"), "", 0);
    assert_eq!(record["solved"], false);
    assert_eq!(processes_of(&bed), Vec::<String>::new());
}

#[test]
fn an_agent_that_obeys_no_signal_ends_at_its_limit() {
    let script = "trap '' TERM HUP INT; echo hi; while :; do setsid sleep 300 & wait; done";
    let (bed, record) = record_of(script, "max_runtime_seconds: 1\n", 0);
    assert_eq!(end_of(&record), ("timeout", "timeout", Some(false)));
    assert_eq!(processes_of(&bed), Vec::<String>::new());
}

#[test]
fn strange_files_are_collected_and_removed() {
    let script = format!(
        "{SOLVED} touch \"$(printf 'a\\nb.txt')\" -- -rf '\"q\".txt' \"$(printf '\\377\\376')\"; mkfifo pipe; \
         ln -s . loop; ln -s /etc/passwd link; rm -rf .git; ln -s /etc .git; mkdir d; echo x > d/f; chmod 000 d .",
    );
    let (bed, record) = record_of(&script, "", 0);
    assert_eq!(end_of(&record), ("completed", "success", Some(true)));
    assert!(!bed.run(&["show", CELL, "--diff"]).stdout.contains("root:"));
}

#[test]
fn a_probe_that_takes_too_long_is_the_setups_failure() {
    let bed = with_agent("", "limits: {setup_timeout: 1s}\n");
    let manifest =
        "name = \"slow\"\n[run]\nargv = [\"true\"]\nprompt = \"stdin\"\n[probe]\nargv = [\"sleep\", \"300\"]\n";
    bed.file("slow/harness.toml", manifest);
    let run = fs::read_to_string(bed.path().join("runs/demo.yaml")).unwrap();
    let from = run.find("  - {name: agent").unwrap();
    let line = run[from..].lines().next().unwrap();
    bed.file("runs/demo.yaml", &run.replace(line, "  - {name: agent, adapter: ../slow}"));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(11), "{}", ran.stderr);
    let record = bed.record(CELL);
    assert_eq!(end_of(&record), ("infrastructure_error", "infrastructure", None));
    let cause = record.to_string();
    assert!(cause.contains("did not end within 1 s; `limits.setup_timeout` bounds it"), "{cause}");
    assert_eq!(processes_of(&bed), Vec::<String>::new());
}

// --- output ---------------------------------------------------------------------------------------------------------

#[test]
fn a_line_of_50_megabytes_is_no_obstacle() {
    let (_bed, record) = record_of(&format!("head -c 50000000 /dev/zero | tr '\\0' x; echo; {SOLVED}"), "", 0);
    assert_eq!(record["solved"], true);
    assert_eq!(record["sessions"][0]["text"], "done");
}

#[test]
fn words_on_standard_error_alone_are_no_start() {
    let (_bed, record) = record_of("echo 'Error: model not found' >&2", "", 11);
    assert_eq!(end_of(&record), ("infrastructure_error", "infrastructure", None));
    assert!(record["cost"].is_null());
}

#[test]
fn control_codes_of_an_agent_never_reach_the_terminal() {
    let codes = "\\033]52;c;AAAA\\007 \\033[2J \\033[6n";
    let bed = with_agent(&format!("printf 'said{codes}\\n'; {SOLVED} printf '# wrote{codes}' >> greet.sh"), "");
    // Into a pipe no escape code goes at all: only with colour it shows what becomes of those that are not ours.
    let ran = bed.run(&["--color", "always", "run", "runs/demo.yaml", "--progress", "lines"]);
    let shown = bed.run(&["--color", "always", "show", CELL]);
    let steps = bed.run(&["--color", "always", "show", CELL, "--trajectory"]);
    assert!(shown.stdout.contains("# wrote") && steps.stdout.contains("said"), "{shown:?} {steps:?}");
    for text in [&ran.stdout, &ran.stderr, &shown.stdout, &steps.stdout] {
        let foreign = ["\u{1b}]", "\u{1b}[2J", "\u{1b}[6n", "\u{7}"];
        assert!(foreign.iter().all(|code| !text.contains(code)), "{text:?}");
    }
}

// --- grading --------------------------------------------------------------------------------------------------------

#[test]
fn a_change_that_hangs_the_tests_is_not_left_out_of_the_score() {
    let bed = with_agent("echo 'sleep 600' > greet.sh; echo done", "limits: {evaluation_timeout: 1s}\n");
    let task = fs::read_to_string(bed.path().join("tasks/greeting/task.yaml")).unwrap();
    let task: Vec<&str> = task.lines().filter(|line| !line.starts_with("checks:")).collect();
    bed.file("tasks/greeting/task.yaml", &format!("{}\nfail_to_pass: [greets]\n", task.join("\n")));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let record = bed.record(CELL);
    assert_eq!(end_of(&record), ("completed", "crash", Some(false)));
    assert_eq!(record["verdict"]["tests"][0]["status"], "not_run");
}

#[test]
fn forged_results_do_not_pass() {
    let forged = "echo \"echo 1..1; echo ok 1 - greets; kill -9 \\$PPID\" > greet.sh; echo done";
    let (_bed, record) = record_of(forged, "", 0);
    assert_eq!(record["solved"], false);
}

// --- the user -------------------------------------------------------------------------------------------------------

#[test]
fn paths_may_hold_spaces_quotes_and_other_scripts() {
    let outer = tempfile::tempdir().unwrap();
    let odd = outer.path().join("mein Ordner 'ü' \u{1f980}");
    let bed = TestBed::with_play(&play(&[SOLVE]));
    copy(bed.path(), &odd);
    let link = outer.path().join("link");
    std::os::unix::fs::symlink(&odd, &link).unwrap();
    for (from, file, expected) in [(&odd, "runs/demo.yaml", "1 of 1 cells"), (&link, "runs/demo.yaml", "0 of 1 cells")]
    {
        let output = bed.command(&["run", file, "--progress", "lines"]).current_dir(from).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{shown}");
        assert!(shown.contains(expected), "{shown}");
    }
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let status = std::process::Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[test]
fn an_empty_selection_is_an_error() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = bed.run(&["run", "runs/demo.yaml", "--only", "nothing*"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("nothing*"), "{}", ran.stderr);
}

#[test]
fn no_home_is_needed() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let output = bed.command(&["run", "runs/demo.yaml", "--progress", "none"]).env_remove("HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_full_disk_stops_the_run_and_the_same_command_goes_on() {
    let fill = "[ -e \"$(dirname \"$0\")/freed\" ] || head -c 9000000 /dev/urandom > blob";
    let bed = with_agent(&format!("{SOLVED} {fill}; head -c 2000000 /dev/urandom | base64"), "");
    let disk = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(disk.path());
        mount.output().is_ok_and(|output| output.status.success())
    };
    if !mount("size=8m") {
        skipped("a_full_disk: this process may not mount a file system");
        return;
    }
    let project = disk.path().join("project");
    copy(bed.path(), &project);
    let run = |args: &[&str]| bed.command(args).current_dir(&project).output().unwrap();
    let stopped = run(&["run", "runs/demo.yaml", "--set", "repeats=3", "--progress", "lines"]);
    bed.file("freed", "");
    let grown = mount("remount,size=64m");
    let resumed = run(&["run", "runs/demo.yaml", "--set", "repeats=3", "--progress", "lines"]);
    let left = std::process::Command::new("umount").arg(disk.path()).status().unwrap();
    assert!(grown && left.success());
    let shown = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert_eq!(stopped.status.code(), Some(4), "{shown}");
    assert_eq!(shown.matches("START").count(), 1, "the next cell would be paid for in vain: {shown}");
    assert!(shown.contains("could not be kept") && shown.contains("space"), "{shown}");
    assert!(!shown.contains("$0.0000  agent"), "what a session cost is unknown, not nothing: {shown}");
    let shown = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert_eq!(resumed.status.code(), Some(0), "{shown}");
    assert!(shown.contains("3 passed"), "{shown}");
}

// --- two hosts, and hosts that die ----------------------------------------------------------------------------------

const SLOW: &str = "[{message: working}, {sleep: 0.3}, {write: {path: greet.sh, content: echo hello world}}, \
                     {usage: {input: 100, output: 10, cache_read: 0, cache_write: 0, reasoning: 0}}]";

fn slow_project(repeats: u32, parallel: u32, settings: &str) -> TestBed {
    let bed = TestBed::with_play(&play(&[SLOW]));
    let run = format!("repeats: {repeats}\nparallel_runs: {parallel}\n{settings}");
    bed.file("runs/demo.yaml", &TestBed::run_file(&run));
    bed
}

/// Every cell has one attempt, and all of them are solved.
fn assert_each_done_once(bed: &TestBed, cells: usize) {
    let rows = bed.results();
    assert_eq!(rows.len(), cells);
    for row in rows {
        assert_eq!(row["success"], true, "{row}");
        let record = bed.record(row["cell_id"].as_str().unwrap());
        assert_eq!(record["attempt"]["number"], 1, "a cell was done twice: {row}");
    }
}

#[test]
fn hosts_that_share_a_run_share_its_cells() {
    let bed = slow_project(8, 2, "budget_usd: 1\n");
    let hosts: Vec<_> = (0..3).map(|_| bed.start(&["run", "runs/demo.yaml", "--progress", "lines"])).collect();
    let ends: Vec<_> = hosts.into_iter().map(finish).collect();
    for (code, shown) in &ends {
        assert_eq!(*code, Some(0), "each waits for the others: {shown}");
        assert!(!shown.contains("error:"), "{shown}");
    }
    assert_each_done_once(&bed, 8);
    let last = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    // 8 cells of 100 tokens in and 10 out; nothing is reserved any more and nothing was paid twice.
    assert!(last.stderr.contains("0 of 8 cells") && last.stderr.contains("$0.0012 / $1.0000"), "{}", last.stderr);
}

#[test]
fn a_host_that_dies_again_and_again_loses_and_leaves_nothing() {
    const CELLS: u32 = 12;
    let bed = slow_project(CELLS, 3, "");
    let mut seed = 0x9e37_79b9_u64;
    let mut finished: Vec<Value> = Vec::new();
    let began = Instant::now();
    for _ in 0..20 {
        if finished.len() == CELLS as usize || began.elapsed() > Duration::from_secs(12) {
            break;
        }
        let mut child = bed.start(&["run", "runs/demo.yaml", "--progress", "none"]);
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(100 + (seed >> 33) % 700));
        child.kill().expect("killed");
        child.wait().expect("ends");
        if !bed.path().join("refrain.db").exists() {
            continue;
        }
        let rows = bed.results();
        for row in &finished {
            assert!(rows.contains(row), "a finished cell was run again: {row}");
        }
        finished = rows.into_iter().filter(|row| row["success"] == true).collect();
    }
    let last = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert_eq!(last.code, Some(0), "{}", last.stderr);
    let rows = bed.results();
    assert_eq!(rows.iter().filter(|row| row["success"] == true).count(), CELLS as usize);
    for row in &finished {
        assert!(rows.contains(row), "a finished cell was run again: {row}");
    }
    assert_eq!(processes_of(&bed), Vec::<String>::new());
    let left = |folder: &str| fs::read_dir(bed.path().join(folder)).into_iter().flatten().flatten().count();
    assert_eq!(left(".refrain/scratch"), 0);
    let half_made = fs::read_dir(bed.path().join(".refrain/seeds")).unwrap().flatten();
    assert!(half_made.into_iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".building-")));
}
