//! Carries a run out: starts cells as the dispatcher says, retries what may be retried, and sums up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::accounts;
use super::attempt;
use super::cancel::{CancelHandle, CancelLevel};
use super::claims::{self, Claimed};
use super::dispatcher::{Action, Dispatcher};
use super::error::EngineError;
use super::events::{EventSink, EventStream, Listener};
use super::lease::Heartbeat;
use super::preflight;
use super::resume::{self, GoneOn};
use super::services::{CellContext, Services};
use super::worklist::{self, Changed, KnownCell};
use crate::domain::cell::Cell;
use crate::domain::event::RunSummary;
use crate::domain::{AttemptId, CellId, EventKind, ExitClass, Failure, Micros, RunRecord};
use crate::retry::{self, Decision, RetryPolicy};
use crate::store::{DecidedCell, Orphan};

/// How a run is to be carried out, apart from its plan.
#[derive(Default)]
pub struct RunOptions {
    /// Keep finished cells of this run even where they were made from something else.
    pub accept_changes: bool,
    /// Run every cell, whatever is on record of it.
    pub again: bool,
    /// Try before the first cell whether environments reach the gateway.
    pub check_gateway: bool,
    /// What a user should know of the runtime, told once before the first cell.
    pub notes: Vec<String>,
    /// Who hears the events.
    pub listeners: Vec<Listener>,
}

/// How one cell ended.
enum CellEnd {
    Recorded(ExitClass),
    Skipped(String),
    /// Another process has it.
    Elsewhere,
}

/// Runs every cell of a plan that is not decided yet.
///
/// # Errors
///
/// An [`EngineError`] where the run cannot begin or its results cannot be kept. What was finished stays finished.
pub async fn run(
    services: Arc<Services>,
    cancel: CancelHandle,
    options: RunOptions,
) -> Result<RunSummary, EngineError> {
    let plan = &services.plan;
    let decided = if options.again { HashMap::new() } else { services.store.decided(&plan.name).await? };
    let is_errored = |cell: &DecidedCell| !matches!(cell.exit_class, ExitClass::Pass | ExitClass::Fail);
    let errored_before = plan.cells.iter().filter(|cell| decided.get(&cell.id).is_some_and(is_errored)).count();
    let known: HashMap<CellId, KnownCell> =
        decided.into_iter().map(|(id, cell)| (id, KnownCell { key: cell.key, terminal: cell.terminal })).collect();
    let mut list = worklist::decide(&plan.cells, &known, |cell| plan.cell_key(cell));
    let orphans = orphans(&services).await?;
    if !options.accept_changes {
        let changed = |cell: &Cell| Changed::of(&cell.id, &orphans.get(&cell.id)?.key, &plan.cell_key(cell));
        list.changed.extend(plan.cells.iter().filter_map(changed));
    }
    if !list.changed.is_empty() {
        if !options.accept_changes {
            services.store.end_run(&services.run, true, services.clock.now()).await?;
            return Err(EngineError::Changed { changed: list.changed });
        }
        list.done += list.changed.len();
    }
    if options.check_gateway
        && !list.to_run.is_empty()
        && let Err(error) = preflight::gateway(&services).await
    {
        services.store.end_run(&services.run, true, services.clock.now()).await?;
        return Err(error);
    }
    let (sink, stream) =
        EventStream::open(services.run.clone(), Arc::clone(&services.clock), services.store.clone(), options.listeners);
    let mut delivery = JoinSet::new();
    delivery.spawn(stream.deliver());
    sink.emit(EventKind::RunStarted { total: plan.cells.len(), already_done: list.done, parallel: plan.parallel_runs });
    if !list.to_run.is_empty() {
        for message in options.notes {
            sink.emit(EventKind::Warning { message });
        }
    }
    let heartbeat = Heartbeat::start(&services, &cancel, &sink);
    let result = carry_out(&services, &cancel, &sink, list.to_run, (options.again, orphans)).await;
    let summary = match result {
        Ok(mut open) => {
            open.errored += errored_before;
            sum_up(&services, &cancel, open).await
        }
        Err(error) => Err(error),
    };
    heartbeat.end().await;
    let ended = services.store.end_run(&services.run, cancel.level() != CancelLevel::None, services.clock.now()).await;
    // The first thing that went wrong is the cause: where the store fails, its last write does too. What has happened is
    // told all the same.
    let summary = summary.and_then(|summary| ended.map(|()| summary).map_err(EngineError::from));
    if let Ok(summary) = &summary {
        sink.emit(EventKind::RunFinished { summary: summary.clone() });
    }
    sink.end();
    while delivery.join_next().await.is_some() {}
    summary
}

/// Returns the attempts of a run that were under way when their host died, by their cells.
async fn orphans(services: &Services) -> Result<HashMap<CellId, Orphan>, EngineError> {
    let run = &services.plan.name;
    let believed = services.store.believed_hosts(run, services.clock.now()).await?;
    let found = services.store.orphaned_attempts(run, move |owner| owner.is_vouched_for(&believed)).await?;
    Ok(found.into_iter().map(|orphan| (orphan.id.cell.clone(), orphan)).collect())
}

/// What this start left open.
#[derive(Debug, Default)]
struct Open {
    errored: usize,
    skipped: BTreeMap<String, usize>,
    not_run: usize,
    /// Cells that other hosts have.
    elsewhere: Vec<usize>,
    /// Cells that other hosts had.
    ended_elsewhere: Vec<usize>,
}

/// How often a host that waits for others looks how they stand.
const LOOK: Duration = Duration::from_secs(1);

async fn carry_out(
    services: &Arc<Services>,
    cancel: &CancelHandle,
    sink: &EventSink,
    mut cells: Vec<usize>,
    (again, mut orphans): (bool, HashMap<CellId, Orphan>),
) -> Result<Open, EngineError> {
    if cells.is_empty() {
        return Ok(Open::default());
    }
    let mut attempts = services.store.last_attempts(&services.plan.name).await?;
    // What has cost money already goes first.
    cells.sort_by_key(|index| !orphans.contains_key(&services.plan.cells[*index].id));
    let mut dispatcher = Dispatcher::new(cells, services.plan.parallel_runs);
    let mut running: JoinSet<(usize, Result<CellEnd, EngineError>)> = JoinSet::new();
    let mut indices = HashMap::new();
    let mut level = cancel.subscribe();
    let (mut open, mut broken) = (Open::default(), None);
    dispatcher.cancelled(*level.borrow_and_update());
    loop {
        match dispatcher.decide() {
            Action::Done => {
                if broken.is_some()
                    || !await_others(services, cancel, sink, &mut open, &mut dispatcher, &mut orphans).await?
                {
                    break;
                }
                attempts = services.store.last_attempts(&services.plan.name).await?;
                continue;
            }
            Action::Start(cells) => {
                for index in cells {
                    let context = CellContext {
                        services: Arc::clone(services),
                        index,
                        events: sink.clone(),
                        cancel: cancel.clone(),
                        again,
                        retries_decided: false,
                    };
                    let first = attempts.get(&context.cell().id).copied().unwrap_or(0) + 1;
                    let orphan = orphans.remove(&context.cell().id);
                    let task = running.spawn(async move { (index, run_cell(context, first, orphan).await) });
                    indices.insert(task.id(), index);
                }
                continue;
            }
            Action::Wait => {}
        }
        tokio::select! {
            Some(ended) = running.join_next() => match ended {
                Ok((index, end)) => {
                    dispatcher.finished(index);
                    match end {
                        Ok(CellEnd::Recorded(ExitClass::Pass | ExitClass::Fail)) => {}
                        Ok(CellEnd::Recorded(_)) => open.errored += 1,
                        Ok(CellEnd::Skipped(reason)) => *open.skipped.entry(reason).or_default() += 1,
                        Ok(CellEnd::Elsewhere) => open.elsewhere.push(index),
                        Err(error) => {
                            dispatcher.broke();
                            cancel.raise(CancelLevel::Stop);
                            broken.get_or_insert(error);
                        }
                    }
                }
                // A cell's task panicked: its attempt row stays open and is taken up by the next start.
                Err(error) => {
                    let message = format!("a cell broke off, and nothing new is started: {error}");
                    sink.emit(EventKind::Warning { message });
                    dispatcher.broke();
                    open.not_run += 1;
                    if let Some(index) = indices.remove(&error.id()) {
                        dispatcher.finished(index);
                    }
                }
            },
            Ok(()) = level.changed() => dispatcher.cancelled(*level.borrow_and_update()),
        }
    }
    open.not_run += dispatcher.not_started();
    broken.map_or(Ok(open), Err)
}

/// Waits for the hosts that have cells of this run, once this one has nothing else to do. Returns whether there is
/// something to start: a host that dies meanwhile gives its cells back. A cancellation ends the wait.
async fn await_others(
    services: &Services,
    cancel: &CancelHandle,
    sink: &EventSink,
    open: &mut Open,
    dispatcher: &mut Dispatcher,
    orphans: &mut HashMap<CellId, Orphan>,
) -> Result<bool, EngineError> {
    let mut level = cancel.subscribe();
    let mut told = false;
    while cancel.level() == CancelLevel::None {
        let left = claims::look_after(services, &open.elsewhere).await?;
        open.elsewhere = left.busy;
        open.ended_elsewhere.extend(left.ended);
        if !left.back.is_empty() {
            let cells: Vec<usize> = left.back.iter().map(|(index, _)| *index).collect();
            orphans.extend(left.back.into_iter().filter_map(|(_, orphan)| orphan).map(|o| (o.id.cell.clone(), o)));
            return Ok(dispatcher.take_back(&cells));
        }
        if open.elsewhere.is_empty() {
            return Ok(false);
        }
        if !std::mem::replace(&mut told, true) {
            let message = format!(
                "waiting for {} cell(s) that another process works on; it takes over what a dead one leaves, and Ctrl-C \
                 ends the wait",
                open.elsewhere.len()
            );
            sink.emit(EventKind::Warning { message });
        }
        tokio::select! {
            () = services.clock.sleep(LOOK) => {}
            _ = level.wait_for(|level| *level != CancelLevel::None) => {}
        }
    }
    Ok(false)
}

/// Goes on with the attempt of a cell whose host died, if there is one and it can be gone on with.
async fn go_on(context: &CellContext, orphan: Option<Orphan>) -> Result<Option<(RunRecord, u32)>, EngineError> {
    let Some(orphan) = orphan else { return Ok(None) };
    let Some(orphan) = resume::adopt(context, &orphan).await? else { return Ok(None) };
    let reason = if orphan.key == context.services.plan.cell_key(context.cell()) {
        match resume::go_on(context, &orphan).await? {
            GoneOn::Recorded(record, retries) => return Ok(Some((*record, retries))),
            GoneOn::Afresh(reason) => reason,
        }
    } else {
        resume::clear(context, &orphan).await;
        "what it was made from has changed".to_owned()
    };
    resume::give_up(context, &orphan, &reason).await?;
    Ok(None)
}

/// Makes the next attempt at a cell, if it can be had.
async fn next_attempt(
    context: &CellContext,
    number: u32,
    retries: u32,
) -> Result<Result<RunRecord, CellEnd>, EngineError> {
    let cell = context.cell().id.clone();
    if let Some(reason) = claims::elsewhere(context, number).await? {
        return Ok(Err(left_to_others(context, reason)));
    }
    if let Some(reason) = accounts::used_up(context, number).await? {
        return Ok(Err(skipped(context, reason).await?));
    }
    let claim = match claims::claim(context, number).await? {
        Claimed::Had(claim) => claim,
        Claimed::Elsewhere(reason) => return Ok(Err(left_to_others(context, reason))),
        Claimed::Refused(reason) => return Ok(Err(skipped(context, reason).await?)),
    };
    context.events.emit(EventKind::AttemptStarted { cell, attempt: number });
    attempt::run(context, claim, retries).await.map(Ok)
}

/// Runs a cell's attempts until one is final.
async fn run_cell(mut context: CellContext, first: u32, orphan: Option<Orphan>) -> Result<CellEnd, EngineError> {
    let (services, cell) = (Arc::clone(&context.services), context.cell().id.clone());
    let (mut number, mut retries) = (first, 0);
    let plan = services.plan.retry;
    let policy = RetryPolicy { infrastructure: plan.infrastructure, on_timeout: plan.on_timeout };
    let mut cost = Some(Micros::ZERO);
    let mut gone_on = go_on(&context, orphan).await?;
    loop {
        let record = match gone_on.take() {
            Some((record, before)) => {
                (number, retries) = (record.attempt.number, before);
                record
            }
            None => match next_attempt(&context, number, retries).await? {
                Ok(record) => record,
                Err(end) => return Ok(end),
            },
        };
        if let Some(Failure::Store { message }) = &record.failure {
            // The next cell would spend money on what cannot be kept either.
            announce_end(&context, &record, number, None);
            return Err(EngineError::Unkept { cell, message: message.clone() });
        }
        if let Some(Failure::Unfunded { message }) = &record.failure {
            return skipped(&context, message.clone()).await;
        }
        cost = cost.zip(record.cost).map(|(sum, cost)| sum + cost);
        let decision = record
            .failure
            .as_ref()
            .map(|failure| retry::decide(failure, retries, policy, jitter(&record.attempt), None));
        // A try that can hold no session would only hide how this one ended.
        let used_up = accounts::used_up(&context, number + 1).await?.is_some();
        match decision {
            Some(Decision::Retry { delay }) if context.cancel.level() == CancelLevel::None && !used_up => {
                announce_retry(&context, &record, number, delay);
                let mut level = context.cancel.subscribe();
                tokio::select! {
                    () = services.clock.sleep(delay) => {}
                    // Another attempt would be something new: what is on record is how the cell ended.
                    _ = level.wait_for(|level| *level != CancelLevel::None) => {}
                }
                if context.cancel.level() == CancelLevel::None {
                    (number, retries) = (number + 1, retries + 1);
                    context.retries_decided = record.terminal.is_decided();
                    continue;
                }
            }
            _ => {}
        }
        announce_end(&context, &record, number, cost);
        return Ok(CellEnd::Recorded(record.exit_class));
    }
}

/// Leaves a cell undecided for want of money.
async fn skipped(context: &CellContext, reason: String) -> Result<CellEnd, EngineError> {
    accounts::skip(context, &reason).await?;
    Ok(CellEnd::Skipped(reason))
}

fn left_to_others(context: &CellContext, reason: String) -> CellEnd {
    context.events.emit(EventKind::CellSkipped { cell: context.cell().id.clone(), reason });
    CellEnd::Elsewhere
}

/// A number in `[0, 1)` that is the attempt's own: jitter needs to differ between cells, not to surprise.
fn jitter(attempt: &AttemptId) -> f64 {
    let digest = blake3::hash(attempt.to_string().as_bytes());
    f64::from(u16::from_le_bytes([digest.as_bytes()[0], digest.as_bytes()[1]])) / 65_536.0
}

fn announce_retry(context: &CellContext, record: &RunRecord, attempt: u32, delay: Duration) {
    let reason = record.failure.as_ref().map(ToString::to_string).unwrap_or_default();
    context.events.emit(EventKind::AttemptRetried { cell: record.attempt.cell.clone(), attempt, reason, delay });
}

fn announce_end(context: &CellContext, record: &RunRecord, attempt: u32, cost: Option<Micros>) {
    let summary = match (&record.failure, &record.verdict) {
        (Some(failure), _) => failure.to_string(),
        (None, Some(verdict)) => verdict.summary.clone(),
        (None, None) => String::new(),
    };
    context.events.emit(EventKind::CellFinished {
        cell: record.attempt.cell.clone(),
        attempt,
        terminal: record.terminal,
        exit_class: record.exit_class,
        error_class: record.error_class,
        solved: record.solved,
        summary: crate::redact::printable(summary.lines().next().unwrap_or("")),
        duration: Duration::from_millis(record.duration_ms),
        cost,
    });
}

/// Takes the money from the store, where every start of the run has left its results, and counts the cells of this plan:
/// a run may have others, of starts with another selection. What had ended in an error was tried again by this start.
async fn sum_up(services: &Services, cancel: &CancelHandle, open: Open) -> Result<RunSummary, EngineError> {
    let mut summary = services.store.summary(&services.plan.name).await?;
    let decided = services.store.decided(&services.plan.name).await?;
    let ends = services.plan.cells.iter().filter_map(|cell| decided.get(&cell.id)).map(|cell| cell.exit_class);
    let (passed, others): (Vec<_>, Vec<_>) = ends.partition(|class| *class == ExitClass::Pass);
    let failed = others.iter().filter(|class| **class == ExitClass::Fail).count();
    (summary.passed, summary.failed, summary.errored) = (passed.len(), failed, open.errored);
    summary.total = services.plan.cells.len();
    summary.skipped = open.skipped.into_iter().collect();
    summary.not_run = open.not_run;
    for cell in open.elsewhere.iter().chain(&open.ended_elsewhere).map(|index| &services.plan.cells[*index].id) {
        // What the other process has finished meanwhile is in the totals.
        if claims::is_open(services, cell).await? {
            summary.not_run += 1;
        } else if !decided.contains_key(cell) {
            summary.errored += 1;
        }
    }
    summary.budget = services.plan.budget;
    summary.interrupted = cancel.level() != CancelLevel::None;
    Ok(summary)
}
