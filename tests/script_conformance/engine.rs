//! A case in the engine: a project in a folder of its own, run as an embedder runs it.

use std::path::{Path, PathBuf};

use refrain::config::{LoadOptions, load};
use refrain::domain::{Failure, RunRecord};
use refrain::host::Host;
use serde_json::{Value, json};

use crate::case::{Case, Ending, Observed, Session, write};

/// Runs the script of a case in a project below `dir`, where its orchestrator is already.
pub(crate) async fn run(case: &Case, dir: &Path) -> Observed {
    write(&dir.join("tasks/task/task.yaml"), &task(case).to_string());
    for (path, content) in &case.files {
        write(&dir.join("tasks/task/repo").join(path), content);
    }
    write(&dir.join("runs/play.yaml"), &play(case).to_string());
    let path = dir.join("runs/conformance.yaml");
    write(&path, &run_file(case).to_string());
    let record = execute(path, dir).await;
    let end = match (&record.note, &record.failure) {
        (Some(note), _) => format!("returns {note}"),
        (None, Some(Failure::OrchestratorError { message } | Failure::OrchestratorLoad { message })) => {
            format!("fails {message}")
        }
        (None, _) => "stops".to_owned(),
    };
    Observed::new(&record.script_log, end)
}

async fn execute(run_file: PathBuf, dir: &Path) -> RunRecord {
    let (mut plan, _warnings) =
        load(LoadOptions::new(run_file)).unwrap_or_else(|error| panic!("{}", error.render(false)));
    // More models and harnesses than one make more cells; the first is the one that the mock world plays.
    plan.cells.truncate(1);
    let host = Host::builder().environment(std::env::vars()).program(env!("CARGO_BIN_EXE_refrain").into()).build();
    host.prepare(plan, Vec::new()).await.unwrap().execute().await.unwrap();
    let mut records = Vec::new();
    find(&dir.join(".refrain"), &mut records);
    assert_eq!(records.len(), 1, "{records:?}");
    serde_json::from_str(&std::fs::read_to_string(&records[0]).unwrap()).unwrap()
}

fn find(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find(&path, into);
        } else if path.ends_with("run_record.json") {
            into.push(path);
        }
    }
}

fn run_file(case: &Case) -> Value {
    let model = |(name, role): &(String, String)| json!({"name": name, "provider": "scripted", "role": role});
    let harness = |name: &String| json!({"name": name, "adapter": "scripted", "config": {"play": "play.yaml"}});
    let mut run = json!({
        "name": "conformance",
        "harnesses": case.harnesses.iter().map(harness).collect::<Vec<_>>(),
        "models": case.models.iter().map(model).collect::<Vec<_>>(),
        "orchestrators": [{"dir": "../orchestrator"}],
        "tasks": ["task"],
        "runtime": "local",
        "repeats": 1,
        "limits": {"sessions": case.session_limit.unwrap_or(100)},
        "retry": {"infrastructure": 0},
    });
    if let Some(dollars) = case.budget {
        run["limits"]["cell_cost"] = json!(dollars);
    }
    run
}

fn task(case: &Case) -> Value {
    let mut task = json!({
        "id": "task",
        "name": "The task",
        "task_prompt": "Do the task.",
        "checks": case.checks,
        "test_command": "true",
        "timeout_seconds": case.deadline,
        "metadata": case.metadata,
    });
    if !case.phases.is_empty() {
        task["track"] = json!("multi_phase");
        task["phases"] = case.phases.iter().map(phase).collect();
    }
    task
}

fn phase(phase: &refrain::domain::Phase) -> Value {
    let mut value = json!({"name": phase.name, "model_role": phase.model_role, "input": phase.input});
    if let Some(prompt) = &phase.task_prompt {
        value["task_prompt"] = json!(prompt);
    }
    if let Some(timeout) = phase.timeout {
        value["timeout_seconds"] = json!(timeout.as_secs_f64());
    }
    value
}

fn play(case: &Case) -> Value {
    let one = [Session::default()];
    let sessions = if case.sessions.is_empty() { &one[..] } else { &case.sessions };
    let steps = |session| json!({"steps": steps(session)});
    json!({"plays": [{"task": "task", "sessions": sessions.iter().map(steps).collect::<Vec<_>>()}]})
}

/// Money is told before time passes, so that a session that costs too much is seen to.
fn steps(session: &Session) -> Vec<Value> {
    let mut steps = Vec::new();
    steps.extend(session.text.iter().map(|text| json!({"message": text})));
    steps.extend(session.files.iter().map(|(path, content)| match content {
        Some(content) => json!({"write": {"path": path, "content": content}}),
        None => json!({"delete": path}),
    }));
    steps.extend(session.usage.iter().map(|usage| json!({"usage": usage})));
    steps.extend(session.cost.map(|dollars| json!({"cost": dollars})));
    if session.seconds > 0.0 {
        steps.push(json!({"sleep": session.seconds}));
    }
    steps.extend(session.ends.as_ref().map(|end| match end {
        Ending::Fail(reason) => json!({"fail": reason}),
        Ending::Refuse(reason) => json!({"refuse": reason}),
        Ending::Limit(limit) => json!({"limit": limit}),
        Ending::NotStarted => {
            json!({"usage": {"input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "reasoning": 0}})
        }
    }));
    steps
}
