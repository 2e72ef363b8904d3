//! `new`, `check` and `test`: the way of an author of strategies.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use insta::assert_snapshot;
use serde_json::Value;

use crate::bed::TestBed;

/// A project with the new orchestrator `mine`.
fn with_new() -> TestBed {
    let bed = TestBed::new();
    let ran = bed.run(&["new", "mine"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), "        Next refrain test ./mine\n"));
    bed
}

#[test]
fn what_new_writes_is_clean_and_its_tests_pass() {
    let bed = with_new();
    let checked = bed.run(&["check", "mine"]);
    assert_eq!((checked.code, checked.stdout.as_str()), (Some(0), "1 checked: 0 errors, 0 warnings\n"), "{checked:?}");
    let tested = bed.run(&["test"]);
    assert_eq!(tested.code, Some(0), "{tested:?}");
    assert_snapshot!(tested.stdout);
}

#[test]
fn new_never_overwrites() {
    let bed = with_new();
    let runner = bed.file("mine/runner.lua", "-- mine");
    let ran = bed.run(&["new", "mine"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("`./mine` exists already"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(runner).unwrap(), "-- mine");
}

#[test]
fn new_refuses_what_is_no_slug() {
    let bed = TestBed::new();
    for slug in ["../out", "My", "a b", ""] {
        let ran = bed.run(&["new", slug]);
        assert_eq!(ran.code, Some(2), "{slug}: {ran:?}");
    }
    assert_eq!(std::fs::read_dir(bed.path()).unwrap().count(), 0);
}

#[test]
fn new_refuses_the_slug_of_a_built_in() {
    let bed = TestBed::new();
    let ran = bed.run(&["new", "refine"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(
        ran.stderr.contains("`refine` is the slug of an orchestrator that comes with the program"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("such as `my-refine`"), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(bed.path()).unwrap().count(), 0);
}

#[test]
fn a_test_that_fails_shows_what_was_printed() {
    let bed = with_new();
    bed.file("mine/runner.lua", "log.warn('low')\nreturn 1\n");
    bed.file(
        "mine/more_test.lua",
        "local t = require('@std/test')\nt.test('good', function() print('never shown') end)\n\
         t.test('bad', function() print('round', 1) t.run() t.ok(false) end)\n",
    );
    let ran = bed.run(&["test", "mine/more_test.lua"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let expected = "  FAILED  bad\n          more_test.lua:3: got false, wanted something true\n          printed:\n            \
                    round\t1\n            [run 1] warn: low\n0 passed, ";
    let shown = ran.stdout.replace("1 passed, ", "0 passed, ");
    assert!(shown.contains(expected) && !shown.contains("never shown"), "{}", ran.stdout);
    let json: Value =
        serde_json::from_str(&bed.run(&["test", "mine/more_test.lua", "--json"]).stdout).expect("valid JSON");
    assert_eq!(json["files"][0]["tests"][1]["output"][1], "[run 1] warn: low");
}

#[test]
fn each_test_is_told_as_it_ends() {
    let bed = with_new();
    // The second test computes for as long as a test file may; the first is told before.
    bed.file(
        "mine/slow_test.lua",
        "local t = require('@std/test')\nt.test('quick', function() end)\nt.test('slow', function() while true do end end)\n",
    );
    let mut child =
        bed.command(&["test", "mine/slow_test.lua"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "mine/slow_test.lua");
    assert_eq!(lines.next().unwrap().unwrap(), "  ok      quick");
    assert!(child.try_wait().unwrap().is_none(), "the second test still runs");
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(rest.iter().any(|line| line.contains("computed for more than 5.0 s")), "{rest:?}");
}

#[test]
fn a_test_that_fails_says_where_and_why() {
    let bed = with_new();
    bed.file(
        "mine/more_test.lua",
        "local t = require('@std/test')\nt.test('holds two sessions', function()\n  local run = t.run({ checks = true })\n  \
         t.equal(#run.sessions, 2)\nend)\n",
    );
    let ran = bed.run(&["test", "mine", "--filter", "holds"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), ""));
    assert!(ran.stdout.contains("more_test.lua:4: "), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("0 passed, 1 failed\n"), "{}", ran.stdout);

    let tap = bed.run(&["test", "mine", "--tap"]);
    assert_eq!(tap.code, Some(1));
    assert!(tap.stdout.starts_with("TAP version 14\n1..4\nnot ok 1 - mine/more_test.lua: holds"), "{}", tap.stdout);

    let json: Value = serde_json::from_str(&bed.run(&["test", "mine", "--json"]).stdout).expect("valid JSON");
    assert_eq!((&json["ok"], &json["passed"], &json["failed"]), (&false.into(), &3.into(), &1.into()));
    assert_eq!(json["files"][0]["tests"][0]["place"], "more_test.lua:4");
}

#[test]
fn a_test_file_that_does_not_load_fails() {
    let bed = TestBed::new();
    bed.file("bad_test.lua", "local t = = 1\n");
    let ran = bed.run(&["test", "bad_test.lua"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stdout.contains("bad_test.lua:1: ") && ran.stdout.contains('^'), "{}", ran.stdout);
}

#[test]
fn coverage_names_the_lines_that_never_ran() {
    let bed = with_new();
    let all = bed.run(&["test", "mine", "--coverage"]).stdout;
    assert!(all.contains("mine/runner.lua: ") && !all.contains("never"), "{all}");
    let some = bed.run(&["test", "mine", "--coverage", "--filter", "enough"]).stdout;
    assert!(some.contains("lines ran; never: "), "{some}");
}

#[test]
fn no_test_at_all_is_no_success() {
    let bed = with_new();
    for (args, word) in [
        (["test", "mine", "--filter", "nowhere"].as_slice(), "no test in `mine` has `nowhere`"),
        (["test", "nowhere"].as_slice(), "`refrain new SLUG` makes one; name its folder"),
        (["test", "empty"].as_slice(), "there is no `*_test.lua` in `empty`"),
    ] {
        bed.file("empty/readme.txt", "");
        let ran = bed.run(args);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(word), "{}", ran.stderr);
    }
}

#[test]
fn check_names_file_and_line() {
    let bed = with_new();
    bed.file("mine/runner.lua", "local unused = 1\nreturn sesion(task.prompt)\n");
    let ran = bed.run(&["check"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(2), ""));
    assert_snapshot!(ran.stdout);
    let json: Value = serde_json::from_str(&bed.run(&["check", "--json"]).stdout).expect("valid JSON");
    assert_eq!((&json["ok"], &json["orchestrators"][0]["findings"][0]["line"]), (&false.into(), &1.into()));
}

#[test]
fn check_tells_what_is_wrong_with_a_manifest_once() {
    let bed = with_new();
    bed.file("mine/orchestrator.toml", "slug = \"mine\"\ndescription = \"x\"\n[params.second_try]\ntype = \"bool\"\n");
    let ran = bed.run(&["check", "mine"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stdout.contains("orchestrator.toml:4:"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("1 checked: 1 error, 0 warnings\n"), "{}", ran.stdout);
    let nothing = bed.run(&["check", "runs-nowhere"]);
    assert_eq!(nothing.code, Some(2), "{nothing:?}");
}

#[test]
fn check_shows_the_warnings_of_a_manifest() {
    let bed = with_new();
    bed.file("mine/orchestrator.toml", "slug = \"mine\"\napi = 1\n[params.second_try]\ntype = \"boolean\"\n");
    let ran = bed.run(&["check", "mine"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("parameter `second_try` must be given, and nothing says what it is"), "{}", ran.stdout);
    assert!(ran.stdout.contains("orchestrator.toml:3:"), "{}", ran.stdout);
    assert!(ran.stdout.ends_with("1 checked: 0 errors, 1 warning\n"), "{}", ran.stdout);
    let json: Value = serde_json::from_str(&bed.run(&["check", "mine", "--json"]).stdout).expect("valid JSON");
    assert_eq!((&json["ok"], &json["orchestrators"][0]["manifest"]), (&true.into(), &Value::Null));
    let warning = json["orchestrators"][0]["manifest_warnings"][0].as_str().expect("a text");
    assert!(warning.starts_with("warning: parameter `second_try`"), "{warning}");
}

#[test]
fn a_review_by_the_cells_own_model_is_told_before_and_after() {
    let bed = TestBed::with_play("plays: [{task: greeting, sessions: [{steps: [{message: APPROVED}]}]}]\n");
    let settings = "orchestrators: [review-loop]\nrepeats: 1\n";
    bed.file("runs/demo.yaml", &TestBed::run_file(settings));
    let ran = bed.run(&["run", "runs/demo.yaml"]);
    assert!(
        ran.stderr
            .contains("warning: orchestrator `review-loop` asks for sessions with `role = \"review\"`, and no model"),
        "{ran:?}"
    );

    let own = TestBed::run_file(settings).replace("provider: scripted}", "provider: scripted, role: review}");
    bed.file("runs/own.yaml", &own.replace("name: demo", "name: own"));
    let ran = bed.run(&["run", "runs/own.yaml"]);
    assert!(ran.stderr.contains("no other model has it: it will review itself"), "{ran:?}");
    let shown = bed.run(&["show", "greeting", "--run", "own"]).stdout;
    assert!(shown.contains("[scripted-small, role review, phase review]"), "{shown}");
    assert!(shown.contains("warning: role `review` came to the cell's own model `scripted-small`"), "{shown}");
    assert!(shown.contains("warn: session 2: role `review` came to the cell's own model"), "{shown}");

    let two =
        TestBed::run_file(settings).replace("tasks:", "  - {name: other, provider: scripted, role: review}\ntasks:");
    bed.file("runs/two.yaml", &two.replace("name: demo", "name: two"));
    let ran = bed.run(&["run", "runs/two.yaml", "--only", "*__scripted-small__*"]);
    assert!(!ran.stderr.contains("warning"), "{ran:?}");
    let shown = bed.run(&["show", "greeting", "--run", "two"]).stdout;
    assert!(shown.contains("[scripted-small, role implementation, phase implement]"), "{shown}");
    assert!(shown.contains("[other, role review, phase review]") && !shown.contains("warning"), "{shown}");
}

#[test]
fn plays_and_errors_tell_branches_apart() {
    let bed = TestBed::with_play(
        "plays:\n  - {task: greeting, label: fork 2, sessions: [{steps: [{write: {path: greet.sh, content: 'echo hello world'}}]}]}\n  \
         - {task: greeting, label: 'fork *', sessions: [{steps: [{fail: no idea}]}]}\n",
    );
    bed.file("mine/orchestrator.toml", "slug = \"mine\"\napi = 1\n");
    bed.file(
        "mine/runner.lua",
        "local fork = require('@std/fork')\nlocal oks, forks = fork.each(3, function(ws, i)\n  \
         return session(task.prompt, { workspace = ws, label = 'fork ' .. i }).ok\nend)\n\
         for i, ok in oks do if ok then fork.merge(forks[i]) end end\n\
         fork.each(2, function(ws, i) if i == 2 then error('boom') end end)\n",
    );
    bed.file("runs/demo.yaml", &TestBed::run_file("orchestrators: [{dir: ../mine}]\nrepeats: 1\n"));
    bed.run(&["run", "runs/demo.yaml"]);
    let shown = bed.run(&["show", "greeting"]).stdout;
    assert!(shown.contains("runner.lua:6: boom (branch 2 of parallel.map)"), "{shown}");
    assert_eq!(shown.matches("(no idea)").count(), 2, "{shown}");
    assert!(shown.contains("+echo hello world"), "{shown}");
    let results = bed.run(&["results", "demo", "--json"]).stdout;
    assert!(results.contains("boom (branch 2 of parallel.map)"), "{results}");
}

#[test]
fn watch_runs_again_at_a_change() {
    let bed = with_new();
    let mut child =
        bed.command(&["test", "mine", "--watch"]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (sender, lines) = mpsc::channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let reader = std::thread::spawn(move || stdout.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    let await_line = |wanted: &str| {
        while let Ok(line) = lines.recv_timeout(Duration::from_secs(60)) {
            if line == wanted {
                return true;
            }
        }
        false
    };
    let first = await_line("3 passed, 0 failed");
    bed.file("mine/runner.lua", "return 1\n");
    let second = first && await_line("0 passed, 3 failed");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reader.join().is_ok() && first && second, "first run {first}, second run {second}");
}
