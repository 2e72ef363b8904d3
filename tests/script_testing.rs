//! Strategy tests: those of the built-in orchestrators, and what a test author sees when one fails.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use refrain::script::testing::{Listener, TestFile, TestOptions, TestProgress, run_dir, run_dir_with};

fn orchestrators() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestrators")
}

#[test]
fn the_tests_of_the_built_in_orchestrators_pass() {
    let report = run_dir(&orchestrators(), &TestOptions::default()).unwrap();
    let mut wrong = Vec::new();
    for file in &report.files {
        if let Some(error) = &file.error {
            wrong.push(format!("{}: {error}", file.path.display()));
        }
        for result in file.results.iter().filter(|result| !result.ok) {
            wrong.push(format!("{}: {}: {:?} {:?}", file.path.display(), result.name, result.place, result.message));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert_eq!(report.files.len(), 7);
    assert!(report.passed() >= 20 && report.ok(), "{}", report.passed());
}

#[test]
fn the_standard_modules_do_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lua/std");
    let report = run_dir(&folder, &TestOptions::default()).unwrap();
    let failed: Vec<String> = report
        .files
        .iter()
        .flat_map(|file| file.results.iter().filter(|result| !result.ok).map(|result| format!("{result:?}")))
        .chain(report.files.iter().filter_map(|file| file.error.as_ref().map(ToString::to_string)))
        .collect();
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
    assert_eq!(report.passed(), 16);
}

#[test]
fn every_built_in_has_its_files_and_is_short() {
    for entry in fs::read_dir(orchestrators()).unwrap() {
        let folder = entry.unwrap().path();
        for name in ["orchestrator.toml", "README.md", "runner.lua", "runner_test.lua"] {
            assert!(folder.join(name).is_file(), "{} has no {name}", folder.display());
        }
        let lines = fs::read_to_string(folder.join("runner.lua")).unwrap().lines().count();
        assert!(lines <= 60, "{} has {lines} lines", folder.display());
        let manifest: toml::Table = fs::read_to_string(folder.join("orchestrator.toml")).unwrap().parse().unwrap();
        assert_eq!(manifest["slug"].as_str(), folder.file_name().unwrap().to_str());
    }
}

#[test]
fn every_line_of_the_built_in_runners_is_tested() {
    let report = run_dir(&orchestrators(), &TestOptions::default().with_coverage()).unwrap();
    for file in &report.files {
        let lines = &file.coverage["runner.lua"];
        let missed: Vec<u32> = lines.iter().filter(|(_, hits)| **hits == 0).map(|(line, _)| *line).collect();
        assert!(!lines.is_empty());
        assert!(missed.len() <= 1, "{}: lines {missed:?} never run", file.path.display());
    }
}

fn run(test: &str, runner: &str, filter: Option<&str>) -> TestFile {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("runner.lua"), runner).unwrap();
    fs::write(folder.path().join("runner_test.lua"), format!("local t = require('@std/test')\n{test}")).unwrap();
    fs::write(
        folder.path().join("orchestrator.toml"),
        "slug = 'x'\n[params]\nrounds = 3\n[params.must]\ntype = 'string'\n[params.list]\ndefault = ['a']\nitems = 'string'\n",
    )
    .unwrap();
    let options = filter.map_or_else(TestOptions::default, |filter| TestOptions::default().with_filter(filter));
    run_dir(folder.path(), &options).unwrap().files.remove(0)
}

fn failure(body: &str) -> (String, String) {
    let file = run(
        &format!("t.test('x', function()\n{body}\nend)"),
        "return { got = params.must, rounds = params.rounds }",
        None,
    );
    assert_eq!(file.error, None);
    let result = &file.results[0];
    (result.message.clone().unwrap_or_default(), result.place.clone().unwrap_or_default())
}

#[test]
fn failures_say_what_was_wanted_and_where() {
    let cases = [
        ("t.equal(1, 2)", "value is 1, wanted 2"),
        (
            "t.equal({a = {b = 1}}, {a = {b = 2}})",
            "value.a.b is 1, wanted 2\n  got    { a = { b = 1 } }\n  wanted { a = { b = 2 } }",
        ),
        ("t.equal({1, 2, 3}, {1, 2})", "value.3 is 3, wanted nil"),
        ("t.equal('a\\nb', 'a\\nc', 'the note')", "the note: value: texts differ (- wanted, + got)\n  2 - c\n  2 + b"),
        ("t.ok(nil)", "got nil, wanted something true"),
        ("t.raises(function() end)", "nothing was raised"),
        ("t.raises(function() error('boom') end, 'bang')", "wanted it to contain \"bang\""),
        ("local x = nil\nreturn x.y", "attempt to index nil with 'y'"),
        ("t.run{ promt = 'x' }", "t.run: unknown field `promt`; did you mean `prompt`?"),
        ("t.run{}", "params: `must` has no default and must be given"),
        ("t.run{ params = { must = 'a', round = 1 } }", "the orchestrator declares no `round`; did you mean `rounds`?"),
        ("t.run{ params = { must = 'a' }, sessions = { { txt = 'x' } } }", "`sessions`, item 1: unknown field `txt`"),
        ("t.run{ params = { must = 3 } }", "params: parameter `must` takes a string, not an integer"),
        ("t.run{ params = { must = 'a', rounds = 2.5 } }", "params: parameter `rounds` takes an integer, not a number"),
        ("t.run{ params = { must = 'a', list = {} } }\nt.ok(false, 'an empty list')", "an empty list"),
        (
            "t.run{ params = { must = 'a', list = { 1 } } }",
            "params: parameter `list` (item 1) takes a string, not an integer",
        ),
        ("t.run{ params = { must = 'a' }, sessions = 3 }", "`sessions` must be a list or a function, got number"),
    ];
    for (body, expected) in cases {
        let (message, place) = failure(body);
        assert!(message.contains(expected), "{body}\n  gave  {message}\n  wants {expected}");
        assert!(place.starts_with("runner_test.lua:"), "{body}: {place}");
    }
    assert_eq!(failure("\n\nt.equal(1, 2)").1, "runner_test.lua:5");
}

#[test]
fn a_mock_that_runs_out_of_sessions_says_which_one_was_missing() {
    let file = run(
        "t.test('x', function() t.run{ params = { must = 'a' }, sessions = { 'one' } } end)",
        "session('first') pcall(session, 'second')",
        None,
    );
    let message = file.results[0].message.clone().unwrap();
    assert!(message.contains("held session 2, but `sessions` lists only 1; its prompt: \"second\""), "{message}");
}

#[test]
fn params_get_their_defaults_and_the_filter_leaves_tests_out() {
    let test = "t.test('one', function() t.equal(t.run{ params = { must = 'a' } }.value, { got = 'a', rounds = 3 }) end)\n\
                t.test('two', function() t.ok(false) end)";
    let file = run(test, "return { got = params.must, rounds = params.rounds }", Some("one"));
    assert_eq!((file.results.len(), file.results[0].ok, &file.results[0].message), (1, true, &None));
}

#[test]
fn functions_of_a_test_see_the_call_and_change_the_workspace() {
    let test = r"
    t.test('x', function()
        local run = t.run{
            params = { must = 'a' },
            files = { start = '1' },
            sessions = function(call, ws)
                ws:write('out', call.label .. ws:read('start'))
                return { text = call.prompt, cost = 0.5 }
            end,
            exec = function(argv, ws) return table.concat(argv, ' ') .. ' ' .. ws:read('out') end,
            budget = 2,
        }
        t.equal(run.error, nil)
        t.equal(run.value, { text = 'hi', out = 'sh -c ls L1', left = 1.5 })
        t.equal(run.commands, { { 'sh', '-c', 'ls' } })
        t.equal(run.files, { start = '1', out = 'L1' })
    end)";
    let runner = r"
    local s = session('hi', { label = 'L' })
    return { text = s.text, out = require('@std/exec').shell('ls').stdout, left = require('@std/budget').remaining() }";
    let file = run(test, runner, None);
    assert!(file.results[0].ok, "{:?}", file.results[0].message);
}

#[test]
fn a_test_file_that_breaks_off_is_an_error_with_its_place() {
    let file = run("t.test('x', function() end)\nerror('stray')", "return 1", None);
    assert_eq!(file.results.len(), 1);
    assert_eq!(file.error.unwrap().to_string(), "runner_test.lua:3: stray");
    // Scripts cannot reach the test module.
    let file = run(
        "t.test('x', function() t.equal(t.run{ params = { must = '' } }.ok, true) end)",
        "require('@std/test')",
        None,
    );
    assert!(!file.results[0].ok);
}

#[test]
fn a_loop_that_virtual_time_never_ends_fails_the_test() {
    let cases = [
        (
            "require('@std/clock') while true do pcall(clock.sleep, 1) end",
            "more than 100000 host calls, the last one by `clock.sleep`",
        ),
        ("while true do pcall(clock.sleep) end", "computed for more than 1.0 s without a host call"),
        ("while true do pcall(session) end", "computed for more than 1.0 s without a host call"),
    ];
    for (code, expected) in cases {
        let runner =
            format!("local clock = require('@std/clock')\n{}", code.trim_start_matches("require('@std/clock') "));
        let file = run("t.test('x', function() t.run{ params = { must = 'a' } } end)", &runner, None);
        let result = &file.results[0];
        assert!(!result.ok && file.error.is_none(), "{file:?}");
        assert!(result.message.as_ref().is_some_and(|message| message.contains(expected)), "{code}: {result:?}");
    }
    // With a deadline it ends as it would in a run.
    let test =
        "t.test('x', function() t.equal(t.run{ params = { must = 'a' }, deadline = 600 }.stopped, 'deadline') end)";
    let file = run(test, "local clock = require('@std/clock')\nwhile true do pcall(clock.sleep, 1) end", None);
    assert!(file.results[0].ok, "{file:?}");
}

#[test]
fn misspelt_fields_of_what_a_test_is_given_raise() {
    let setup = "local run = t.run{ params = { must = 'a' }, sessions = { { text = 'x', duration = 2 } } }\n";
    for (body, expected) in [
        ("return run.notes", "`Run` has no field `notes`; did you mean `note`?"),
        ("return run.sessions[1].promt", "`RunSession` has no field `promt`; did you mean `prompt`?"),
        ("return run.logs[1].txt", "`RunLog` has no field `txt`; did you mean `text`?"),
        ("run.note = 'x'", "attempt to modify a readonly table"),
        (
            "t.run{ params = { must = 'a' }, sessions = function(call) return call.lable end }",
            "`RunCall` has no field `lable`; did you mean `label`?",
        ),
        (
            "t.run{ params = { must = 'a' }, sessions = function(_, ws) return ws:reed('x') end }",
            "`RunWorkspace` has no field `reed`; did you mean `read`?",
        ),
        // What may be missing is nil all the same.
        (
            "t.equal(run.note, 'n')\nt.equal(run.sessions[1].cost, nil)\nt.equal(run.files['none'], nil)\nt.equal(run.logs[1], { level = 'info', text = 'hi' })\nt.ok(false, 'fine')",
            "fine",
        ),
    ] {
        let file = run(
            &format!("t.test('x', function()\n{setup}{body}\nend)"),
            "print('hi')\nsession('go', { label = 'a' })\nreturn { note = 'n' }",
            None,
        );
        let message = file.results[0].message.clone().unwrap_or_default();
        assert!(message.contains(expected), "{body}\n  gave  {message}\n  wants {expected}");
    }
}

#[test]
fn a_test_keeps_what_it_printed_and_tells_of_itself_as_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("runner.lua"), "log.warn('from the strategy')\nerror('oh')").unwrap();
    let test = "local t = require('@std/test')\nprint('between')\n\
                t.test('one', function() print('a', 1) t.run{} print('b') error('bad') end)\n\
                t.test('two', function() print('c') end)";
    fs::write(folder.path().join("runner_test.lua"), test).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    let listener: Listener = Arc::new(move |progress| {
        heard.lock().unwrap().push(match progress {
            TestProgress::File(path) => format!("file {}", path.file_name().unwrap().to_string_lossy()),
            TestProgress::Test(result) => format!("{} {}", result.name, result.output.join("; ")),
            TestProgress::FileEnd(file) => format!("end {}", file.results.len()),
            other => panic!("{other:?}"),
        });
    });
    let report = run_dir_with(folder.path(), &TestOptions::default(), listener).unwrap();
    assert_eq!(
        *told.lock().unwrap(),
        [
            "file runner_test.lua",
            "one a\t1; [run 1] warn: from the strategy; [run 1] raised runner.lua:2: oh; b",
            "two c",
            "end 2"
        ]
    );
    assert_eq!((report.passed(), report.failed()), (1, 1));
}
