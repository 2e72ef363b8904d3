//! Scripts against the mock world: the API, its errors, and what becomes of a script that does not end.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use refrain::domain::{ParamValue, Params};
use refrain::script::mock::{MockReport, MockSession, MockSetup, MockWorld};
use refrain::script::port::{Answer, ChecksReport, HostCall, HostError, ScriptPort};
use refrain::script::{ScriptEnd, ScriptErrorKind, ScriptLimits, ScriptOutcome, ScriptSource, StopHandle, run};

fn play(setup: MockSetup, code: &str) -> (ScriptOutcome, MockReport) {
    play_files(setup, &[("runner.lua", code)], Params::new())
}

fn play_files(setup: MockSetup, files: &[(&str, &str)], params: Params) -> (ScriptOutcome, MockReport) {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), Cow::Owned(text.as_bytes().to_vec()))).collect();
    let world = MockWorld::new(setup);
    let mut inputs = world.inputs("Fix it.");
    inputs.params = params;
    let source = ScriptSource::from_embedded(files, "runner.lua");
    let outcome = world.play(&source, inputs, ScriptLimits::default());
    assert_eq!(world.defect(), None);
    (outcome, world.report())
}

fn value(outcome: &ScriptOutcome) -> serde_json::Value {
    match &outcome.end {
        ScriptEnd::Returned { value, .. } => value.clone(),
        other => panic!("{other:?}"),
    }
}

fn error(outcome: &ScriptOutcome) -> String {
    match &outcome.end {
        ScriptEnd::Failed(error) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

fn eval(code: &str) -> serde_json::Value {
    value(&play(MockSetup::default(), code).0)
}

fn fail(code: &str) -> String {
    error(&play(MockSetup::default(), code).0)
}

#[test]
fn a_session_returns_a_frozen_table_with_nil_for_what_is_unknown() {
    let setup = MockSetup {
        sessions: Some(Box::new(|call, index, _| {
            assert_eq!(call.prompt, "Fix it.");
            Ok(MockSession::saying(&format!("session {index}")).taking(Duration::from_secs(90)))
        })),
        ..MockSetup::default()
    };
    let (outcome, report) = play(
        setup,
        r#"
        local s = session(task.prompt, { label = "x", timeout = 600 })
        local frozen = not pcall(function() s.ok = false end)
        return { ok = s.ok, status = s.status, text = s.text, cost_known = s.cost ~= nil, input = s.usage.input,
                 duration = s.duration, index = s.index, label = s.label, frozen = frozen, now = os.clock() }
    "#,
    );
    assert_eq!(
        value(&outcome),
        serde_json::json!({
            "ok": true, "status": "completed", "text": "session 1", "cost_known": false, "duration": 90, "index": 1,
            "label": "x", "frozen": true, "now": 90
        })
    );
    assert_eq!(report.elapsed, Duration::from_secs(90));
    assert_eq!(report.sessions[0].0.timeout, Some(Duration::from_secs(600)));
}

#[test]
fn refine_goes_on_until_the_checks_pass() {
    let setup = MockSetup {
        sessions: Some(Box::new(|_, index, _| {
            let session = MockSession::saying("tried").taking(Duration::from_secs(60));
            Ok(if index == 2 { session.leaving("ok", "1") } else { session })
        })),
        checks: Some(Box::new(|files| {
            let ok = files.exists("ok").map_err(|error| error.to_string())?;
            Ok(ChecksReport { ok, output: "boom".to_owned(), ..ChecksReport::default() })
        })),
        deadline: Some(Duration::from_secs(600)),
        ..MockSetup::default()
    };
    let runner = include_str!("../orchestrators/refine/runner.lua");
    let params = Params::from([
        ("max_rounds".to_owned(), ParamValue::Int(5)),
        ("reserve_seconds".to_owned(), ParamValue::Float(30.0)),
    ]);
    let (outcome, report) = play_files(setup, &[("runner.lua", runner)], params);
    assert_eq!(value(&outcome)["rounds"], 2);
    assert_eq!(report.sessions.len(), 2);
    assert_eq!(report.sessions[1].0.continue_from, Some(1));
    assert!(report.sessions[1].0.prompt.contains("boom"));
}

#[test]
fn the_deadline_ends_a_script_whatever_it_catches() {
    let setup = MockSetup {
        sessions: Some(Box::new(|_, _, _| Ok(MockSession::default().taking(Duration::from_secs(50))))),
        deadline: Some(Duration::from_secs(120)),
        ..MockSetup::default()
    };
    let (outcome, report) = play(setup, "while true do pcall(session, 'again') end");
    assert!(matches!(&outcome.end, ScriptEnd::Stopped { reason, .. } if reason == "deadline"), "{outcome:?}");
    assert_eq!(report.sessions.len(), 2);
    assert_eq!(report.elapsed, Duration::from_secs(120));
}

#[test]
fn a_stop_of_the_host_is_not_catchable_and_a_refusal_is() {
    let refusing = |refused: Option<&str>, stopped: Option<&str>| {
        let (refused, stopped) = (refused.map(str::to_owned), stopped.map(str::to_owned));
        MockSetup {
            sessions: Some(Box::new(move |_, _, _| {
                Ok(MockSession { refused: refused.clone(), stopped: stopped.clone(), ..MockSession::default() })
            })),
            ..MockSetup::default()
        }
    };
    let code = r#"
        local stop = require("@std/stop")
        local ok, err = pcall(session, "go")
        return { ok = ok, kind = err.kind, limit = err.limit, stop = stop.kind(err), text = tostring(err) }
    "#;
    let (outcome, _) = play(refusing(Some("budget"), None), code);
    assert_eq!(
        value(&outcome),
        serde_json::json!({
            "ok": false, "kind": "refused", "limit": "budget", "stop": "budget",
            "text": "runner.lua:3: the limit `budget` is reached"
        })
    );
    let (outcome, _) = play(refusing(None, Some("lost")), code);
    assert!(matches!(&outcome.end, ScriptEnd::Stopped { reason, .. } if reason == "lost"), "{outcome:?}");
}

#[test]
fn misuse_names_argument_expectation_and_what_came() {
    let cases = [
        (
            "session({})",
            "runner.lua:1: session: argument 1 (prompt) must be a string of valid UTF-8 without NUL, got table",
        ),
        (
            "session(nil)",
            "runner.lua:1: session: argument 1 (prompt) must be a string of valid UTF-8 without NUL, got nil",
        ),
        ("session('a\\0b')", "got a NUL at byte 2"),
        ("session('\\xff')", "got bytes that are no UTF-8"),
        ("session('x', {lable = 'y'})", "session: unknown option `lable`; did you mean `label`?"),
        (
            "session('x', {timeout = 0/0})",
            "session: option `timeout` must be a finite number of seconds, 0 or more, got NaN",
        ),
        ("session('x', {max_cost = math.huge})", "got inf"),
        (
            "session('x', {role = 'reviewer'})",
            "must be one of implementation, review, got `reviewer`; did you mean `review`?",
        ),
        ("session('x', {continue = 3})", "must be the result of an earlier session, got number"),
        ("session('x', {continue = {index = 1}})", "must be the result of an earlier session, got table"),
        ("session(('x'):rep(3e6))", "at most 2097152 bytes, got 3000000"),
        ("session('x', {}, 3)", "takes 2 arguments, got 3"),
        ("sesion('x')", "runner.lua:1: unknown global `sesion`; did you mean `session`?"),
        ("return task.promt", "`Task` has no field `promt`; did you mean `prompt`?"),
        ("return params.rounds", "`params` has no field `rounds`"),
        ("return string.foo", "`string` has no field `foo`"),
        ("os.getenv('HOME')", "`os.getenv` does not exist in scripts: os has only time and clock"),
        ("io.open('x')", "`io` does not exist in scripts: read with @std/workspace"),
        ("require('@std/cheks')", "there is no `@std/cheks`; did you mean `checks`?"),
        ("require('lib')", "must start with `@std/`"),
        ("require('./lib')", "there is no lib.lua or lib/init.lua"),
        ("require('./../x')", "empty part, `.` or `..`"),
        ("deadline.remaining(1)", "deadline.remaining: takes 0 arguments, got 1"),
        ("local w = require('@std/workspace') w.main.read('x')", "call it with a colon, as in ws:read(…)"),
        ("require('@std/clock').sleep(-1)", "got -1"),
        ("table.sort({1, 2}, function() session('x') return true end)", ""),
    ];
    for (code, expected) in cases {
        if expected.is_empty() {
            continue;
        }
        let message = fail(code);
        assert!(message.contains(expected), "{code}\n  gave  {message}\n  wants {expected}");
    }
}

#[test]
fn errors_are_told_with_the_frames_of_the_script_alone() {
    let files = [
        ("runner.lua", "local a = require('./lib/a')\nlocal function outer()\n  a.run()\nend\nouter()"),
        ("lib/a.lua", "local b = require('./b')\nreturn { run = function()\n  b.fail()\nend }"),
        (
            "lib/b.lua",
            "local function inner()\n  local x = nil\n  return x.y\nend\nreturn { fail = function() inner() end }",
        ),
    ];
    let (outcome, _) = play_files(MockSetup::default(), &files, Params::new());
    assert_eq!(
        error(&outcome),
        "lib/b.lua:3: attempt to index nil with 'y'\n  at lib/b.lua:3 in function 'inner'\n  at lib/b.lua:5 in function 'fail'\n  \
         at lib/a.lua:3 in function 'run'\n  at runner.lua:3 in function 'outer'\n  at runner.lua:5"
    );
}

#[test]
fn a_module_that_fails_to_load_keeps_its_trace() {
    let files = [("runner.lua", "\nrequire('./bad')"), ("bad.lua", "local function f()\n  error('broken')\nend\nf()")];
    let (outcome, _) = play_files(MockSetup::default(), &files, Params::new());
    assert_eq!(error(&outcome), "bad.lua:2: broken\n  at bad.lua:2 in function 'f'\n  at bad.lua:4\n  at runner.lua:2");
}

#[test]
fn compile_errors_show_the_line_with_a_caret() {
    let (outcome, _) = play(MockSetup::default(), "local x = 1\nlocal y = = 2\n");
    let ScriptEnd::Failed(error) = &outcome.end else { panic!("{outcome:?}") };
    assert_eq!(error.kind, ScriptErrorKind::Load);
    let text = error.to_string();
    assert!(text.starts_with("runner.lua:2: "), "{text}");
    assert!(text.ends_with("2 | local y = = 2\n  |           ^"), "{text}");
    let files = [("runner.lua", "require('./bad')"), ("bad.lua", "return +")];
    let (outcome, _) = play_files(MockSetup::default(), &files, Params::new());
    let ScriptEnd::Failed(error) = &outcome.end else { panic!("{outcome:?}") };
    assert_eq!((error.kind, error.trace[0].file.as_str()), (ScriptErrorKind::Load, "bad.lua"));
    assert_eq!(error.trace[1].file, "runner.lua");
}

#[test]
fn branches_run_at_once_in_order_and_their_errors_tell_the_branch() {
    let seconds = Arc::new(Mutex::new(vec![30_u64, 10, 20]));
    let setup = MockSetup {
        sessions: Some(Box::new(move |call, _, _| {
            let seconds = seconds.lock().unwrap().remove(0);
            Ok(MockSession::saying(&call.prompt).taking(Duration::from_secs(seconds)))
        })),
        ..MockSetup::default()
    };
    let (outcome, report) = play(
        setup,
        "local parallel = require('@std/parallel')\nreturn parallel.map({'a', 'b', 'c'}, function(item) return session(item).text end)",
    );
    assert_eq!(value(&outcome), serde_json::json!(["a", "b", "c"]));
    assert_eq!(report.elapsed, Duration::from_secs(30));
    let text = fail(
        "local parallel = require('@std/parallel')\nlocal function work(i)\n  if i == 2 then error('boom') end\nend\n\
         parallel.map({1, 2, 3}, function(i)\n  session('x')\n  work(i)\nend)",
    );
    assert_eq!(
        text,
        "runner.lua:3: boom (branch 2 of parallel.map)\n  at runner.lua:3 in function 'work'\n  at runner.lua:7 (branch 2 of parallel.map)\n  at runner.lua:5"
    );
}

#[test]
fn random_numbers_and_addresses_are_the_same_in_every_run() {
    let code = "return { math.random(1e6), math.random(1e6), tostring({}), tostring(print) }";
    assert_eq!(eval(code), eval(code));
    assert_eq!(eval("return tostring({})"), "table");
    assert_eq!(eval("return tostring(1.0)"), "1");
}

#[test]
fn the_log_is_bounded_in_lines_and_in_all() {
    let (_, report) = play(
        MockSetup::default(),
        "log.warn(('x'):rep(20000))\nprint(1, nil, 'a')\nfor i = 1, 3000 do log.info(('y'):rep(1000)) end",
    );
    assert_eq!(report.logs[0].0, "warn");
    assert!(report.logs[0].1.ends_with("… [3616 bytes cut]"), "{}", &report.logs[0].1[16_380..]);
    assert_eq!(report.logs[1], ("info".to_owned(), "1\tnil\ta".to_owned()));
    let all: usize = report.logs.iter().map(|(_, text)| text.len()).sum();
    assert!(all < (1 << 20) + 200, "{all}");
    assert!(report.logs.last().unwrap().1.contains("dropped"));
}

#[test]
fn what_a_script_returns_is_kept_as_json() {
    let (outcome, _) = play(MockSetup::default(), "return { note = 'done', list = {1, 2}, deep = { x = 0.5 } }");
    let ScriptEnd::Returned { note, value } = outcome.end else { panic!("{outcome:?}") };
    assert_eq!(note.as_deref(), Some("done"));
    assert_eq!(value, serde_json::json!({"note": "done", "list": [1, 2], "deep": {"x": 0.5}}));
    assert!(fail("return { f = print }").contains("a function cannot be converted"));
    let error = fail("error({ code = 7 })");
    assert!(error.contains(r#"a table was raised: {"code":7}"#), "{error}");
    assert!(fail("error({ message = 'custom' })").ends_with("custom"));
    assert!(fail("error()").ends_with("nil was raised"));
}

#[test]
fn forks_are_copies_and_the_winner_replaces_the_workspace() {
    let setup = MockSetup {
        sessions: Some(Box::new(|call, index, _| {
            Ok(MockSession::default().leaving("out", &format!("{index} in {}", call.workspace.0)))
        })),
        files: BTreeMap::from([("in".to_owned(), b"start".to_vec())]),
        ..MockSetup::default()
    };
    let (outcome, report) = play(
        setup,
        r#"
        local fork, workspace = require("@std/fork"), require("@std/workspace")
        local results, forks = fork.each(2, function(ws, i)
            session("try " .. i, { workspace = ws })
            return ws:read("out")
        end)
        local before = workspace.exists("out")
        fork.merge(forks[2])
        for _, ws in forks do fork.discard(ws) end
        local gone, err = pcall(function() return forks[1]:read("out") end)
        return { results = results, before = before, after = workspace.read("out"), gone = gone, err = err.message }
    "#,
    );
    let json = value(&outcome);
    assert_eq!(json["results"], serde_json::json!(["1 in 1", "2 in 2"]));
    assert_eq!((&json["before"], &json["after"]), (&false.into(), &"2 in 2".into()));
    assert_eq!(
        json["err"],
        "workspace.read: workspace 1 was thrown away; use it before `fork.discard`, or take another one: `fork.create()`, \
         `workspace.main`"
    );
    assert_eq!(report.open_forks, 0);
}

/// Writes down what a port was asked and what it answered, as text.
struct Recording {
    port: MockWorld,
    journal: Mutex<Vec<(String, String)>>,
}

#[async_trait::async_trait]
impl ScriptPort for Recording {
    async fn call(&self, call: HostCall) -> Result<Answer, HostError> {
        let asked = serde_json::to_string(&call).unwrap();
        let answer = self.port.call(call).await;
        self.journal.lock().unwrap().push((asked, serde_json::to_string(&answer).unwrap()));
        answer
    }
}

/// Answers from what was written down, and from nothing else.
struct Replay(Mutex<std::vec::IntoIter<(String, String)>>);

#[async_trait::async_trait]
impl ScriptPort for Replay {
    async fn call(&self, call: HostCall) -> Result<Answer, HostError> {
        let (asked, answer) = self.0.lock().unwrap().next().expect("the journal goes on");
        assert_eq!(serde_json::to_string(&call).unwrap(), asked);
        serde_json::from_str(&answer).unwrap()
    }
}

#[tokio::test]
async fn a_script_replays_from_a_journal_of_its_calls() {
    let code = r#"
        local checks, workspace, budget = require("@std/checks"), require("@std/workspace"), require("@std/budget")
        local s = session("try " .. math.random(1000), { label = "a", timeout = 60, max_cost = 1.5 })
        print(s.text, os.time(), deadline.remaining(), budget.spent())
        workspace.write("n.bin", "\0\255")
        local ok, err = pcall(workspace.read, "../x")
        return { checks.run().output, s.cost, workspace.read(".refrain/n.bin") == "\0\255", ok, err.message }
    "#;
    let setup = MockSetup {
        sessions: Some(Box::new(|_, _, _| {
            let cost = Some(refrain::domain::Micros::new(250_000));
            Ok(MockSession { cost, ..MockSession::saying("ä") })
        })),
        checks: Some(Box::new(|_| {
            Ok(ChecksReport { ok: false, output: "boom".to_owned(), ..ChecksReport::default() })
        })),
        deadline: Some(Duration::from_secs(100)),
        ..MockSetup::default()
    };
    let world = MockWorld::new(setup);
    let inputs = world.inputs("Fix it.");
    let source = ScriptSource::from_text("runner.lua", code);
    let recording = Arc::new(Recording { port: world, journal: Mutex::default() });
    let first = run(&source, inputs.clone(), recording.clone(), ScriptLimits::default(), StopHandle::new()).await;
    let journal = std::mem::take(&mut *recording.journal.lock().unwrap());
    assert!(journal.len() >= 8, "{}", journal.len());
    let replay = Arc::new(Replay(Mutex::new(journal.into_iter())));
    let second = run(&source, inputs, replay.clone(), ScriptLimits::default(), StopHandle::new()).await;
    assert_eq!(value(&first), value(&second));
    assert_eq!(value(&first)[4], "workspace.read: `../x` holds `..`; paths stay below the workspace");
    assert_eq!(replay.0.lock().unwrap().next(), None);
}

/// A port whose sessions take time on tokio's clock.
struct Timed;

#[async_trait::async_trait]
impl ScriptPort for Timed {
    async fn call(&self, _: HostCall) -> Result<Answer, HostError> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        Ok(Answer::Seconds(Some(1.0)))
    }
}

#[tokio::test(start_paused = true)]
async fn the_core_runs_on_a_paused_runtime() {
    let source = ScriptSource::from_text(
        "runner.lua",
        "local clock, parallel = require('@std/clock'), require('@std/parallel')\n\
         for i = 1, 10 do parallel.map({1, 2, 3}, clock.now) end\nreturn 'done'",
    );
    let began = tokio::time::Instant::now();
    let inputs = MockWorld::new(MockSetup::default()).inputs("x");
    // Items are passed as arguments, which clock.now does not take: told with the branch.
    let outcome = run(&source, inputs.clone(), Arc::new(Timed), ScriptLimits::default(), StopHandle::new()).await;
    assert!(error(&outcome).contains("clock.now: takes 0 arguments, got 2"), "{outcome:?}");
    let source = ScriptSource::from_text(
        "runner.lua",
        "local clock, parallel = require('@std/clock'), require('@std/parallel')\n\
         for i = 1, 10 do parallel.map({1, 2, 3}, function() return clock.now() end) end\nreturn 'done'",
    );
    let outcome = run(&source, inputs.clone(), Arc::new(Timed), ScriptLimits::default(), StopHandle::new()).await;
    assert_eq!(value(&outcome), "done");
    assert_eq!(began.elapsed(), Duration::from_secs(600));
    // A stop while every branch waits.
    let stop = StopHandle::new();
    let (outcome, ()) =
        tokio::join!(run(&source, inputs, Arc::new(Timed), ScriptLimits::default(), stop.clone()), async {
            tokio::time::sleep(Duration::from_secs(90)).await;
            stop.stop("cancelled");
        });
    assert!(matches!(&outcome.end, ScriptEnd::Stopped { reason, .. } if reason == "cancelled"), "{outcome:?}");
    assert_eq!(began.elapsed(), Duration::from_secs(690));
}

#[test]
fn options_name_models_and_harnesses_of_the_run_alone() {
    let world = MockWorld::new(MockSetup::default());
    let mut inputs = world.inputs("x");
    inputs.models = BTreeMap::from([("claude-x".to_owned(), "implementation".to_owned())]);
    inputs.harnesses = vec!["codex".to_owned()];
    for (code, expected) in [
        ("session('x', { model = 'claude-y' })", "the run declares no model `claude-y`; did you mean `claude-x`?"),
        ("session('x', { harness = 'cursor' })", "the run declares no harness `cursor`; there is codex"),
    ] {
        let source = ScriptSource::from_text("runner.lua", code);
        let message = error(&world.play(&source, inputs.clone(), ScriptLimits::default()));
        assert!(message.contains(expected), "{message}");
    }
    let source =
        ScriptSource::from_text("runner.lua", "return session('x', { model = 'claude-x', harness = 'codex' }).model");
    assert_eq!(value(&world.play(&source, inputs, ScriptLimits::default())), "claude-x");
}
