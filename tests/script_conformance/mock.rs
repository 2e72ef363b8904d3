//! A case in the mock world.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use refrain::domain::{Micros, SessionStatus, Usage};
use refrain::script::port::{CheckResult, ChecksReport, ExecAnswer};
use refrain::script::{ScriptEnd, ScriptLimits, ScriptSource};
use refrain::testing::{MockFiles, MockSession, MockSetup, MockWorld};

use crate::case::{Case, Ending, Exec, Observed, Session};

/// Plays the script of a case.
pub(crate) fn play(case: &Case, orchestrator: &Path) -> Observed {
    let sessions = case.sessions.clone();
    let (checks, exec) = (case.checks.clone(), case.exec.clone());
    let world = MockWorld::new(MockSetup {
        sessions: Some(Box::new(move |_, index, _| {
            let at = usize::try_from(index - 1).unwrap();
            Ok(sessions.get(at).or(sessions.last()).map_or_else(|| session(&Session::default()), session))
        })),
        checks: Some(Box::new(move |files| Ok(report(&checks, files)))),
        exec: Some(Box::new(move |argv, _| {
            let line = argv.join(" ");
            exec.get(&line).map(answer).ok_or_else(|| format!("the header has no `exec` for `{line}`"))
        })),
        files: case.files.iter().map(|(path, content)| (path.clone(), content.clone().into_bytes())).collect(),
        deadline: Some(Duration::from_secs_f64(case.deadline)),
        budget: case.budget.map(|dollars| Micros::from_dollars(dollars).unwrap()),
        max_calls: None,
    });
    let mut inputs = world.inputs("Do the task.");
    inputs.params.clone_from(&case.params);
    inputs.models = case.models.iter().cloned().collect::<BTreeMap<_, _>>();
    inputs.harnesses.clone_from(&case.harnesses);
    "task".clone_into(&mut inputs.task.id);
    "The task".clone_into(&mut inputs.task.name);
    inputs.task.checks.clone_from(&case.checks);
    inputs.task.phases.clone_from(&case.phases);
    inputs.task.metadata.clone_from(&case.metadata);
    if !case.phases.is_empty() {
        "multi_phase".clone_into(&mut inputs.task.track);
    }
    let limits = ScriptLimits::default().with_sessions(case.session_limit.unwrap_or(100));
    let source = ScriptSource::from_dir(orchestrator, "runner.lua").unwrap();
    let outcome = world.play(&source, inputs, limits);
    assert_eq!(world.defect(), None, "{}", case.about);
    let end = match outcome.end {
        ScriptEnd::Returned { note, .. } => format!("returns {}", note.unwrap_or_default()),
        ScriptEnd::Failed(error) => format!("fails {error}"),
        ScriptEnd::Stopped { .. } => "stops".to_owned(),
    };
    let log: Vec<String> = world.report().logs.iter().map(|(level, text)| format!("{level}: {text}")).collect();
    Observed::new(&log, end)
}

fn session(session: &Session) -> MockSession {
    let status = match &session.ends {
        None => SessionStatus::Completed,
        Some(Ending::Fail(_) | Ending::Refuse(_)) => SessionStatus::Failed,
        Some(Ending::Limit(_)) => SessionStatus::Limit,
        Some(Ending::NotStarted) => SessionStatus::NotStarted,
    };
    let reason = session.ends.as_ref().map(|end| match end {
        Ending::Fail(reason) | Ending::Refuse(reason) => reason.clone(),
        Ending::Limit(_) => "a limit was reached".to_owned(),
        Ending::NotStarted => "it reported success without a single token".to_owned(),
    });
    let exit_code = matches!(&session.ends, Some(Ending::Fail(_) | Ending::Limit(_)));
    let zero = matches!(&session.ends, Some(Ending::NotStarted)).then_some(Usage::ZERO);
    let content = |text: &Option<String>| text.as_ref().map(|text| text.clone().into_bytes());
    MockSession {
        status,
        reason,
        text: session.text.clone(),
        duration: Duration::from_secs_f64(session.seconds),
        cost: session.cost.map(|dollars| Micros::from_dollars(dollars).unwrap()),
        usage: session.usage.or(zero).unwrap_or(Usage::UNKNOWN),
        exit_code: Some(i32::from(exit_code)),
        turns: Some(u64::from(session.text.is_some())),
        tool_calls: Some(session.files.len() as u64),
        files: session.files.iter().map(|(path, text)| (path.clone(), content(text))).collect(),
        ..MockSession::default()
    }
}

/// Does what `test -f PATH` does.
fn report(checks: &[String], files: &MockFiles) -> ChecksReport {
    let mut report = ChecksReport { total: u32::try_from(checks.len()).unwrap(), ..ChecksReport::default() };
    for command in checks {
        let path = command.strip_prefix("test -f ").expect("a check is `test -f PATH`");
        let ok = files.all().contains_key(path);
        if ok {
            report.passed += 1;
        } else {
            report.output.push_str(&format!("$ {command}\n\n(exit code 1)\n"));
        }
        let exit_code = Some(i32::from(!ok));
        report.checks.push(CheckResult { command: command.clone(), ok, exit_code, output: String::new() });
    }
    report.ok = report.passed == report.total;
    report
}

fn answer(exec: &Exec) -> ExecAnswer {
    let ended = !exec.timed_out && !exec.missing;
    ExecAnswer {
        ok: ended && exec.exit_code == 0,
        exit_code: ended.then_some(exec.exit_code),
        timed_out: exec.timed_out,
        stdout: exec.stdout.clone(),
        stderr: exec.stderr.clone(),
    }
}
