//! The store: durable commits of no-op cells with group commit, and sums over a large ledger.
//!
//! ```text
//! cargo bench --bench store            both parts
//! cargo bench --bench store -- cells   one part: cells, ledger
//! ```

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark talks and fails aloud"
)]

use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use refrain::domain::record::{Inputs, RECORD_SCHEMA, WorkspaceRecord};
use refrain::domain::session::SessionEnd;
use refrain::domain::{
    AttemptId, AttemptState, CellId, CellKey, ErrorClass, ExitClass, Micros, Params, RunName, RunRecord, SessionRecord,
    Terminal, Transition, Usage,
};
use refrain::store::{
    Admission, AttemptStart, LedgerEntry, LedgerKind, Owner, Reservation, ResultExtra, Store, Ticket,
};

/// Cells that are under way at a time, as in a run with many agents.
const PARALLEL: usize = 64;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|arg| arg == name);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if asked("cells") {
        runtime.block_on(cells(5_000));
    }
    if asked("ledger") {
        runtime.block_on(ledger(100_000));
    }
}

fn run() -> RunName {
    RunName::new("nightly").expect("valid")
}

fn at(second: usize) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + i64::try_from(second).expect("small")).expect("in range")
}

/// Everything that a cell leaves in the store, awaited as the engine does it: a reservation, a claim, the steps, a session
/// with its money, the end.
async fn cells(count: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("refrain.db")).expect("opens");
    let start = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..PARALLEL {
        let store = store.acting_as(Owner::current());
        tasks.spawn(async move {
            for number in (lane..count).step_by(PARALLEL) {
                one_cell(&store, number).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    let took = start.elapsed();
    let totals = store.ledger_totals(&run()).await.expect("read");
    assert_eq!(totals.total.get(), i64::try_from(count).expect("small") * 1_000, "every cell is paid once");
    println!(
        "durable no-op cells, {PARALLEL} at a time: {:.0} a second ({count} in {:.2} s; target 1,000)",
        rate(count, took),
        took.as_secs_f64()
    );
}

async fn one_cell(store: &Store, number: usize) {
    let attempt = AttemptId { run: run(), cell: CellId::from_stored(format!("cell-{number}")), number: 1 };
    let request = Reservation {
        attempt: attempt.clone(),
        estimate: Micros::new(2_000),
        cap: Some(Micros::new(1_000_000_000_000)),
        exempt: false,
        at: at(number),
    };
    assert_eq!(store.reserve(&request).await.expect("asked"), Admission::Admitted);
    let begin = AttemptStart {
        id: attempt.clone(),
        key: CellKey::new("key"),
        scratch: Path::new("/scratch").join(attempt.external_name()),
        owner: Owner::current(),
        started_at: at(number),
        again: false,
    };
    store.begin_attempt(&begin).await.expect("claimed");
    let steps = steps(number);
    for step in &steps[..5] {
        // Only the step to execution is awaited, as in the engine.
        drop(store.add_transition(&attempt, step));
    }
    store.add_transition(&attempt, &steps[5]).await.expect("stepped");
    let session = session(number);
    store.add_session(&attempt, &session, session.cost).await.expect("booked");
    let record = record(&attempt, steps, session);
    assert!(store.finish_attempt(&record, ResultExtra::default()).await.expect("stored"));
}

/// What `refrain status` and each admission ask of a run with as many cells as the largest.
async fn ledger(count: usize) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Store::open(&folder.path().join("refrain.db")).expect("opens");
    let mut tickets = Vec::new();
    for number in 0..count {
        let attempt = AttemptId { run: run(), cell: CellId::from_stored(format!("cell-{number}")), number: 1 };
        // One in a thousand sessions is of unknown cost.
        let cost = (number % 1_000 != 0).then_some(Micros::new(1_000));
        tickets.push(book(&store, attempt, cost, at(number)));
        if tickets.len() == 1_024 {
            for ticket in tickets.drain(..) {
                ticket.await.expect("booked");
            }
        }
    }
    for ticket in tickets {
        ticket.await.expect("booked");
    }
    let mut times: Vec<Duration> = Vec::new();
    for _ in 0..101 {
        let start = Instant::now();
        let totals = store.ledger_totals(&run()).await.expect("read");
        times.push(start.elapsed());
        assert_eq!(totals.unknown, count / 1_000);
    }
    times.sort();
    println!("sums of a ledger of {count} cells: {:.3} ms (median of 101; target 50 ms)", millis(times[50]));
    let start = Instant::now();
    let entries = store.ledger(&run()).await.expect("read");
    println!("the same, entry by entry: {} entries in {:.0} ms", entries.len(), millis(start.elapsed()));
}

fn book(store: &Store, attempt: AttemptId, cost: Option<Micros>, at: Timestamp) -> Ticket<()> {
    store.ledger_append(&LedgerEntry {
        attempt,
        kind: LedgerKind::Spend,
        reference: "s1".to_owned(),
        amount: cost,
        billable: cost,
        at,
        note: None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "counts of cells are far below 2^52")]
fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn steps(number: usize) -> Vec<Transition> {
    let ends = AttemptState::STEPS.into_iter().skip(1).chain([AttemptState::Ended(Terminal::Completed)]);
    AttemptState::STEPS
        .into_iter()
        .zip(ends)
        .map(|(from, to)| Transition { from, to, at: at(number), reason: None })
        .collect()
}

fn session(number: usize) -> SessionRecord {
    SessionRecord {
        index: 1,
        phase: None,
        label: None,
        role: None,
        harness: "scripted".to_owned(),
        model: "scripted-small".to_owned(),
        end: SessionEnd::Completed,
        exit_code: Some(0),
        signal: None,
        text: Some("done".to_owned()),
        usage: Usage { input: Some(500), output: Some(100), ..Usage::ZERO },
        cost: Some(Micros::new(1_000)),
        reported_cost: None,
        turns: Some(1),
        tool_calls: Some(0),
        harness_session: None,
        started_at: at(number),
        duration: Duration::from_millis(100),
        ..SessionRecord::completed(1, at(number), "done")
    }
}

fn record(attempt: &AttemptId, transitions: Vec<Transition>, session: SessionRecord) -> RunRecord {
    RunRecord {
        schema: RECORD_SCHEMA,
        refrain_version: "0.1.0".to_owned(),
        attempt: attempt.clone(),
        cell_key: CellKey::new("key"),
        inputs: Inputs {
            harness: "scripted".to_owned(),
            harness_version: None,
            model: "scripted-small".to_owned(),
            review_model: None,
            task: "task".to_owned(),
            track: "swe".to_owned(),
            orchestrator: "one-shot".to_owned(),
            orchestrator_hash: String::new(),
            params: Params::new(),
            repeat: 1,
            runtime: "local".to_owned(),
            image: None,
        },
        terminal: Terminal::Completed,
        exit_class: ExitClass::Fail,
        error_class: ErrorClass::NoChange,
        failure: None,
        solved: Some(false),
        started_at: transitions[0].at,
        finished_at: transitions[0].at,
        duration_ms: 100,
        workspace: WorkspaceRecord::default(),
        usage: session.usage,
        cost: session.cost,
        billable_cost: session.cost,
        sessions: vec![session],
        verdict: None,
        judge: None,
        note: None,
        script_log: Vec::new(),
        transitions,
        warnings: Vec::new(),
    }
}
