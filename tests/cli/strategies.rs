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
        (["test", "nowhere"].as_slice(), "there is no file or folder `nowhere`"),
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
