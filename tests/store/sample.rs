//! Plain values to store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use refrain::domain::record::{Inputs, RECORD_SCHEMA, WorkspaceRecord};
use refrain::domain::session::SessionEnd;
use refrain::domain::{
    AttemptId, AttemptState, CellId, CellKey, ErrorClass, ExitClass, Failure, Micros, ModelRole, Params, RunName,
    RunRecord, SessionRecord, Terminal, Transition, Usage,
};
use refrain::store::{AttemptStart, Owner, RunMeta, Store};

pub(crate) fn run(name: &str) -> RunName {
    RunName::new(name).expect("valid")
}

pub(crate) fn cell(id: &str) -> CellId {
    CellId::from_stored(id)
}

pub(crate) fn attempt(name: &str, id: &str, number: u32) -> AttemptId {
    AttemptId { run: run(name), cell: cell(id), number }
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("in range")
}

pub(crate) fn database(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("refrain.db")
}

pub(crate) fn open(folder: &tempfile::TempDir) -> Store {
    Store::open(&database(folder)).expect("opens")
}

pub(crate) fn meta(name: &str, total_cells: usize) -> RunMeta {
    RunMeta {
        name: run(name),
        config_json: serde_json::json!({ "name": name, "repeats": 1 }),
        config_digest: "digest".to_owned(),
        refrain_version: "0.1.0".to_owned(),
        total_cells,
        budget: Some(Micros::new(5_000_000)),
        image_digests: BTreeMap::from([("debian:12".to_owned(), "sha256:1".to_owned())]),
        owner: Some(Owner::current()),
        started_at: at(0),
    }
}

pub(crate) fn start(id: &AttemptId) -> AttemptStart {
    AttemptStart {
        id: id.clone(),
        key: CellKey::new("key"),
        scratch: Path::new("/scratch").join(id.external_name()),
        owner: Owner::current(),
        started_at: at(1),
        again: false,
    }
}

pub(crate) fn session(index: u32, cost: Option<i64>) -> SessionRecord {
    SessionRecord {
        index,
        phase: None,
        label: Some(format!("try {index}")),
        role: Some(ModelRole::Implementation),
        harness: "scripted".to_owned(),
        model: "model-a".to_owned(),
        end: SessionEnd::Completed,
        exit_code: Some(0),
        signal: None,
        text: Some("done".to_owned()),
        usage: Usage { input: Some(100), output: Some(20), reasoning: Some(5), ..Usage::ZERO },
        cost: cost.map(Micros::new),
        reported_cost: None,
        turns: Some(3),
        tool_calls: Some(7),
        harness_session: None,
        started_at: at(2),
        duration: Duration::from_millis(1_500),
        ..SessionRecord::completed(index, at(2), "done")
    }
}

/// Every step and `terminal` behind the last.
pub(crate) fn steps(terminal: Terminal) -> Vec<Transition> {
    let ends = AttemptState::STEPS.into_iter().skip(1).chain([AttemptState::Ended(terminal)]);
    AttemptState::STEPS
        .into_iter()
        .zip(ends)
        .zip(1..)
        .map(|((from, to), second)| Transition { from, to, at: at(second), reason: None })
        .collect()
}

pub(crate) fn record(id: &AttemptId, exit_class: ExitClass, sessions: Vec<SessionRecord>) -> RunRecord {
    let (terminal, error_class, solved, failure) = match exit_class {
        ExitClass::Pass => (Terminal::Completed, ErrorClass::Success, Some(true), None),
        ExitClass::Fail => (Terminal::Completed, ErrorClass::WrongApproach, Some(false), None),
        ExitClass::RetryableKill => (
            Terminal::InfrastructureError,
            ErrorClass::RetryExhausted,
            None,
            Some(Failure::Runtime { message: "daemon gone".to_owned() }),
        ),
        ExitClass::NonRetryableKill => (
            Terminal::InvalidConfiguration,
            ErrorClass::Configuration,
            None,
            Some(Failure::Configuration { message: "no key".to_owned() }),
        ),
    };
    let cost: Option<Micros> = sessions.iter().map(|session| session.cost).sum();
    RunRecord {
        schema: RECORD_SCHEMA,
        refrain_version: "0.1.0".to_owned(),
        attempt: id.clone(),
        cell_key: CellKey::new("key"),
        inputs: Inputs {
            harness: "scripted".to_owned(),
            harness_version: Some("1.0".to_owned()),
            model: "model-a".to_owned(),
            review_model: None,
            task: "fix".to_owned(),
            track: "swe".to_owned(),
            orchestrator: "one-shot".to_owned(),
            orchestrator_hash: "hash".to_owned(),
            params: Params::new(),
            repeat: 1,
            runtime: "local".to_owned(),
            image: None,
        },
        terminal,
        exit_class,
        error_class,
        failure,
        solved,
        started_at: at(1),
        finished_at: at(20),
        duration_ms: 19_000,
        workspace: WorkspaceRecord::default(),
        usage: sessions.iter().fold(Usage::ZERO, |sum, session| sum.plus(session.usage)),
        cost,
        billable_cost: cost,
        sessions,
        verdict: None,
        judge: None,
        note: None,
        script_log: Vec::new(),
        transitions: steps(terminal),
        warnings: Vec::new(),
    }
}
