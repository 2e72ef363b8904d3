//! Holds one session of an attempt: who runs it, what it may cost and take, what is kept of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

use super::casting::{choose_harness, choose_model, own_reviewer};
use super::purse::Purse;
use super::spool::Ends;
use super::world::{Attempt, describe, lock};
use super::{accounts, ending, pacing};
use crate::domain::failure::{ProviderFault, Timer};
use crate::domain::session::SessionEnd;
use crate::domain::{EventKind, Failure, Micros, Model, ModelRole, SessionRecord, Usage};
use crate::harness::session::{self, SessionOptions, SessionResult};
use crate::harness::{AgentEvent, Harness, HarnessError, SessionRequest};
use crate::runtime::{Limits, RuntimeError};
use crate::script::port::SessionCall;
use crate::script::{Answer, HostError};
use crate::store::StoreError;

/// The sessions of an attempt by their numbers.
#[derive(Debug, Default)]
pub(crate) struct SessionBook {
    begun: u32,
    records: BTreeMap<u32, SessionRecord>,
    /// How the streams of the session with the highest number end.
    last: (u32, Ends),
    /// What the attempt may still spend.
    pub(crate) purse: Purse,
}

impl SessionBook {
    /// Tells whether no session was begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun == 0 && self.records.is_empty()
    }

    /// Takes the next number.
    pub(crate) fn number(&mut self) -> u32 {
        self.begun += 1;
        self.begun
    }

    /// Notes that a number is taken.
    pub(crate) fn numbered(&mut self, index: u32) {
        self.begun = self.begun.max(index);
    }

    /// Takes the sessions that an earlier host has held. Their numbers are noted when the script comes to them.
    pub(crate) fn restore(&mut self, records: Vec<SessionRecord>) {
        self.records.extend(records.into_iter().map(|record| (record.index, record)));
    }

    /// Returns the record of a finished session.
    pub(crate) fn record(&self, index: u32) -> Option<&SessionRecord> {
        self.records.get(&index)
    }

    /// Tells whether a session has finished.
    pub(crate) fn has_finished(&self) -> bool {
        !self.records.is_empty()
    }

    /// Takes the finished sessions, in order, and how the streams of the last one end.
    pub(crate) fn take(&mut self) -> (Vec<SessionRecord>, Ends) {
        (std::mem::take(&mut self.records).into_values().collect(), std::mem::take(&mut self.last.1))
    }

    fn add(&mut self, record: SessionRecord, ends: Ends) {
        if record.index >= self.last.0 {
            self.last = (record.index, ends);
        }
        self.records.insert(record.index, record);
    }

    /// Returns what the sessions cost, as far as it is known.
    pub(crate) fn spent(&self) -> Micros {
        self.records.values().filter_map(|record| record.cost).sum()
    }
}

/// Who runs a session, and within which bounds.
pub(crate) struct Setup {
    index: u32,
    harness: Arc<dyn Harness>,
    model: Model,
    /// The role that the model was chosen by; `None` where the script named it.
    role: Option<ModelRole>,
    resume: Option<String>,
    max_cost: Option<Micros>,
    timeout: (Timer, Duration),
}

/// Holds a session. A failing agent is an answer; what is not the agent's doing ends the attempt.
pub(crate) async fn hold(attempt: &Arc<Attempt>, mut call: SessionCall, setup: Setup) -> Result<Answer, HostError> {
    for name in [&mut call.label, &mut call.phase] {
        // Scripts make names of what agents say; events, records and columns show them.
        *name = name.as_deref().map(|name| attempt.context.services.redactor.redact(name).into_string());
    }
    let workspace = attempt.path_of(call.workspace).await?;
    let setup = within_limits(attempt, setup).await?;
    pacing::wait(attempt, &setup.model.provider, setup.index).await?;
    if let Some(warning) = own_reviewer(attempt, &setup.model, setup.role) {
        attempt.log("warn", &format!("session {}: {warning}", setup.index));
    }
    attempt.context.events.emit(EventKind::SessionStarted {
        cell: attempt.id.cell.clone(),
        attempt: attempt.id.number,
        session: setup.index,
        label: call.label.clone(),
        phase: call.phase.clone(),
    });
    let request = request(attempt, &setup, &call, workspace);
    let spool = spool(attempt, setup.index);
    let began = (attempt.context.services.clock.now(), attempt.elapsed());
    let result = match run(attempt, &setup, &request, &spool).await {
        Ok(result) => result,
        Err(error) => {
            let record = broken_off(attempt, &setup, &call, began, &error);
            keep(attempt, &record, &spool).await?;
            return Err(refuse(attempt, &error));
        }
    };
    pacing::ended(attempt, &setup.model.provider, &result.end);
    let record = record(attempt, &setup, &call, &result);
    keep(attempt, &record, &spool).await?;
    answer(attempt, record)
}

/// Sets a session up and holds it, for who keeps no journal.
pub(crate) async fn ask(attempt: &Arc<Attempt>, call: SessionCall) -> Result<Answer, HostError> {
    if let Some(cause) = attempt.cause.get() {
        return Err(HostError::Stop { message: cause.to_string() });
    }
    let setup = set_up(attempt, &call, None)?;
    hold(attempt, call, setup).await
}

/// Returns where the streams of a session go while it runs.
pub(crate) fn spool(attempt: &Attempt, index: u32) -> PathBuf {
    attempt.scratch.join(format!("session-{index}"))
}

/// Answers with a finished session, unless its end is that of the attempt.
fn answer(attempt: &Attempt, record: SessionRecord) -> Result<Answer, HostError> {
    match fatal(attempt, &record) {
        Some(cause) => Err(attempt.halt(cause)),
        None => Ok(Answer::Session(Box::new(record))),
    }
}

/// Takes up a session that an earlier host has finished: its record is in the store, and perhaps its log is not yet where
/// it belongs.
pub(crate) async fn take_up(attempt: &Attempt, record: SessionRecord) -> Result<Answer, HostError> {
    keep(attempt, &record, &spool(attempt, record.index)).await?;
    answer(attempt, record)
}

/// Takes up a session whose agent has finished while its host was dead, by the log alone; `None` where the log does not
/// prove that it has.
pub(crate) async fn take_up_log(
    attempt: &Attempt,
    call: &SessionCall,
    (index, started_at): (u32, Timestamp),
) -> Result<Option<Result<Answer, HostError>>, HarnessError> {
    let (Ok((model, role)), Ok(harness)) = (choose_model(attempt, call), choose_harness(attempt, call)) else {
        return Ok(None);
    };
    let options = SessionOptions::new(spool(attempt, index), Arc::clone(&attempt.context.services.clock));
    let resumed = call.continue_from.is_some();
    let Some(result) = session::read_left(&*harness, &options, resumed, started_at).await? else { return Ok(None) };
    let timeout = (attempt.deadline.timer, attempt.deadline.limit);
    let setup = Setup { index, harness, model, role, resume: None, max_cost: None, timeout };
    let record = record(attempt, &setup, call, &result);
    Ok(Some(match keep(attempt, &record, &options.folder).await {
        Ok(()) => answer(attempt, record),
        Err(error) => Err(error),
    }))
}

/// Checks a call against the run, the budget and the clock, and takes a number: the next one, or the one that an earlier
/// host had given it.
pub(crate) fn set_up(attempt: &Attempt, call: &SessionCall, number: Option<u32>) -> Result<Setup, HostError> {
    // Before a number is taken: what is refused here is no session.
    attempt.knows(call.workspace)?;
    let misuse = |message: String| HostError::Misuse { message };
    let ((model, role), harness) =
        (choose_model(attempt, call).map_err(misuse)?, choose_harness(attempt, call).map_err(misuse)?);
    let timeout = time_for(attempt, call.timeout)?;
    let mut book = lock(&attempt.sessions);
    let resume = match call.continue_from {
        None => None,
        Some(index) => Some(resumable(&book, &*harness, index).map_err(misuse)?),
    };
    let limit = attempt.context.services.plan.limits.sessions;
    if number.is_none() && book.begun >= limit {
        return Err(HostError::Refused {
            limit: "sessions".to_owned(),
            message: format!("the limit of {limit} sessions for an attempt is reached"),
        });
    }
    let index = number.unwrap_or_else(|| book.number());
    Ok(Setup { index, harness, model, role, resume, max_cost: call.max_cost, timeout })
}

/// Bounds a session by its own limits, and what is left of the cell's and the run's; nothing left is a refusal.
async fn within_limits(attempt: &Attempt, mut setup: Setup) -> Result<Setup, HostError> {
    let (context, limits) = (&attempt.context, &attempt.context.services.plan.limits);
    let failed = |error: StoreError| attempt.halt(Failure::Store { message: describe(&error) });
    let before = accounts::spent_before(context, &attempt.id).await.map_err(failed)?;
    // Before the ledger is read: a session that ends meanwhile must not be counted on one side alone.
    let spent_then = lock(&attempt.sessions).spent();
    let by_run = accounts::left_by_run(context, &attempt.id).await.map_err(failed)?;
    let mut book = lock(&attempt.sessions);
    let spent = book.spent();
    let by_cell = limits.cell_cost.map(|cap| cap - before);
    book.purse.set_limit(by_cell.into_iter().chain(by_run.map(|left| spent_then + left)).min());
    let left = book.purse.left(spent);
    if left.is_some_and(|left| left <= Micros::ZERO) {
        let run_is_out = by_run.is_some_and(|left| left <= Micros::ZERO);
        let whose = if run_is_out { "run" } else { "cell" };
        return Err(HostError::Refused {
            limit: "budget".to_owned(),
            message: format!("the {whose}'s budget is used up ({spent} spent by this attempt)"),
        });
    }
    let own = [setup.max_cost, limits.session_cost].into_iter().flatten().min();
    // A promise of more than there is would only keep others from what is left.
    book.purse.begin(setup.index, own.map(|own| left.map_or(own, |left| own.min(left))));
    setup.max_cost = [own, left].into_iter().flatten().min();
    Ok(setup)
}

fn resumable(book: &SessionBook, harness: &dyn Harness, index: u32) -> Result<String, String> {
    if !harness.can_resume() {
        return Err(format!("harness `{}` cannot continue an earlier session", harness.name()));
    }
    let Some(earlier) = book.records.get(&index) else {
        return Err(format!("session {index} has not finished, so it cannot be continued"));
    };
    earlier
        .harness_session
        .clone()
        .ok_or_else(|| format!("session {index} told no id, so harness `{}` cannot continue it", harness.name()))
}

/// The shorter of the session's own limit and the time left; at the deadline the attempt is over.
fn time_for(attempt: &Attempt, own: Option<Duration>) -> Result<(Timer, Duration), HostError> {
    let left = attempt.remaining();
    if left.is_zero() {
        return Err(attempt.halt(attempt.out_of_time()));
    }
    Ok(match own {
        Some(limit) if limit < left => (Timer::Session, limit),
        _ => (attempt.deadline.timer, left),
    })
}

fn request(attempt: &Attempt, setup: &Setup, call: &SessionCall, workspace: PathBuf) -> SessionRequest {
    let services = &attempt.context.services;
    let api_key = setup.model.api_key_env.as_ref().and_then(|variable| services.keys.get(variable).cloned());
    let home = attempt.env.home().to_owned();
    SessionRequest {
        prompt: call.prompt.clone(),
        model: setup.model.clone(),
        task: services.plan.tasks[attempt.context.cell().task].id.clone(),
        phase: call.phase.clone(),
        label: call.label.clone(),
        index: setup.index,
        resume: setup.resume.clone(),
        workspace,
        session_dir: home.join(format!(".refrain-session-{}", setup.index)),
        home,
        max_cost: setup.max_cost,
        api_key,
    }
}

async fn run(
    attempt: &Arc<Attempt>,
    setup: &Setup,
    request: &SessionRequest,
    spool: &Path,
) -> Result<SessionResult, HarnessError> {
    let services = &attempt.context.services;
    let limits = Limits {
        timeout: Some(setup.timeout),
        idle: Some(services.plan.limits.idle_timeout),
        output_bytes: Some(services.plan.limits.output_bytes),
        grace: None,
    };
    let options = SessionOptions {
        limits,
        max_cost: setup.max_cost,
        meter: Some(meter(attempt, setup.index)),
        price: price_of(attempt, &setup.model),
        ..SessionOptions::new(spool, Arc::clone(&services.clock))
    };
    let (sender, receiver) = mpsc::channel(64);
    let provider = setup.model.provider.clone();
    attempt.tracker.spawn(show(Arc::clone(attempt), (setup.index, provider), receiver));
    session::run(&*attempt.env, &*setup.harness, request, &options, Some(sender), &attempt.stop).await
}

/// Tells the attempt's purse what a session costs while it runs.
fn meter(attempt: &Arc<Attempt>, session: u32) -> Arc<session::Meter> {
    let attempt = Arc::clone(attempt);
    Arc::new(move |live| {
        let mut book = lock(&attempt.sessions);
        let spent = book.spent();
        book.purse.spend(session, live, spent)
    })
}

/// What a session that could not be held means for the attempt.
fn refuse(attempt: &Attempt, error: &HarnessError) -> HostError {
    match error {
        HarnessError::Unsupported { .. } => HostError::Misuse { message: error.to_string() },
        HarnessError::Template { .. } | HarnessError::Runtime(RuntimeError::NotRunnable { .. }) => {
            attempt.halt(Failure::Configuration { message: describe(error) })
        }
        HarnessError::Runtime(_) | HarnessError::File { .. } => {
            attempt.halt(Failure::Runtime { message: describe(error) })
        }
    }
}

/// The record of a session without a result. Where the agent may have run, what it spent is unknown, and the attempt's
/// cost with it: a sum that leaves it out would be too low.
fn broken_off(
    attempt: &Attempt,
    setup: &Setup,
    call: &SessionCall,
    (started_at, began): (Timestamp, Duration),
    error: &HarnessError,
) -> SessionRecord {
    let redactor = &attempt.context.services.redactor;
    let message = redactor.redact(&describe(error)).into_string();
    let ran = match error {
        HarnessError::Unsupported { .. }
        | HarnessError::Template { .. }
        | HarnessError::Runtime(RuntimeError::NotRunnable { .. }) => false,
        HarnessError::Runtime(_) | HarnessError::File { .. } => true,
    };
    SessionRecord {
        index: setup.index,
        phase: call.phase.clone(),
        label: call.label.as_ref().map(|label| redactor.redact(label).into_string()),
        role: setup.role,
        harness: setup.harness.name().to_owned(),
        model: setup.model.name.clone(),
        end: if ran { SessionEnd::Lost { message } } else { SessionEnd::NotStarted { message } },
        exit_code: None,
        signal: None,
        text: None,
        usage: if ran { Usage::UNKNOWN } else { Usage::ZERO },
        cost: (!ran).then_some(Micros::ZERO),
        reported_cost: None,
        turns: None,
        tool_calls: None,
        harness_session: None,
        started_at,
        duration: attempt.elapsed().saturating_sub(began),
        longest_silence: None,
        warnings: own_reviewer(attempt, &setup.model, setup.role).into_iter().collect(),
    }
}

fn price_of(attempt: &Attempt, model: &Model) -> Option<Arc<session::Price>> {
    let price = attempt.context.services.prices.find(&model.name)?.clone();
    Some(Arc::new(move |usage: &Usage| price.cost(usage)))
}

/// Turns live events into signs of life, until the session ends.
async fn show(attempt: Arc<Attempt>, (session, provider): (u32, String), mut events: mpsc::Receiver<AgentEvent>) {
    while let Some(event) = events.recv().await {
        let text = match event {
            AgentEvent::Message(text) => text,
            AgentEvent::Tool { name, .. } => format!("uses {name}"),
            AgentEvent::Retrying { fault, retry_after } => {
                // The other cells need not find that out by themselves.
                if fault == ProviderFault::RateLimited {
                    pacing::throttled(&attempt, &provider, retry_after);
                }
                format!("waits for the provider ({fault:?})")
            }
            AgentEvent::SessionId(_) | AgentEvent::Usage(_) | AgentEvent::Cost(_) | AgentEvent::Finished => continue,
        };
        let text = crate::redact::printable(attempt.context.services.redactor.redact(&text).as_str());
        let text: String = text.lines().next().unwrap_or("").chars().take(160).collect();
        attempt.context.events.emit(EventKind::SessionProgress { cell: attempt.id.cell.clone(), session, text });
    }
}

fn record(attempt: &Attempt, setup: &Setup, call: &SessionCall, result: &SessionResult) -> SessionRecord {
    let redact = |text: &String| attempt.context.services.redactor.redact(text).into_string();
    let reading = &result.reading;
    let priced = price_of(attempt, &setup.model).and_then(|price| price(&reading.usage));
    SessionRecord {
        index: setup.index,
        phase: call.phase.clone(),
        label: call.label.as_ref().map(redact),
        role: setup.role,
        harness: setup.harness.name().to_owned(),
        model: setup.model.name.clone(),
        end: redact_end(effective_end(attempt, &result.end), redact),
        exit_code: result.exec.exit_code,
        signal: result.exec.signal,
        text: reading.text.as_ref().map(redact),
        usage: reading.usage,
        cost: priced.or(reading.cost),
        reported_cost: reading.cost,
        turns: reading.turns,
        tool_calls: reading.tool_calls,
        // An id is kept only where something can be done with it: scripts see it as `resumable`.
        harness_session: reading.harness_session.clone().filter(|_| setup.harness.can_resume()),
        started_at: result.started_at,
        duration: result.exec.duration,
        longest_silence: Some(result.exec.longest_silence),
        warnings: own_reviewer(attempt, &setup.model, setup.role)
            .into_iter()
            .chain(reading.warnings.iter().map(redact))
            .collect(),
    }
}

/// A session that was stopped because the attempt ran out of time has timed out; it was not cancelled.
fn effective_end(attempt: &Attempt, end: &SessionEnd) -> SessionEnd {
    match (end, attempt.cause.get()) {
        (SessionEnd::Cancelled, Some(Failure::Timeout { timer, limit, elapsed })) => {
            SessionEnd::TimedOut { timer: *timer, limit: *limit, elapsed: *elapsed }
        }
        _ => end.clone(),
    }
}

fn redact_end(end: SessionEnd, redact: impl Fn(&String) -> String) -> SessionEnd {
    match end {
        SessionEnd::AgentFailed { message } => SessionEnd::AgentFailed { message: redact(&message) },
        SessionEnd::Refused { message } => SessionEnd::Refused { message: redact(&message) },
        SessionEnd::Limit { limit, message } => SessionEnd::Limit { limit, message: redact(&message) },
        SessionEnd::NotStarted { message } => SessionEnd::NotStarted { message: redact(&message) },
        SessionEnd::Provider { fault, message } => SessionEnd::Provider { fault, message: redact(&message) },
        SessionEnd::Lost { message } => SessionEnd::Lost { message: redact(&message) },
        end @ (SessionEnd::Completed | SessionEnd::TimedOut { .. } | SessionEnd::Cancelled) => end,
    }
}

/// Keeps a session before its answer reaches the script: money first.
async fn keep(attempt: &Attempt, record: &SessionRecord, spool: &Path) -> Result<(), HostError> {
    let services = &attempt.context.services;
    let billable = accounts::billable(&services.plan, attempt.context.cell(), record);
    // First of all, so that the attempt's own record never tells less than was held, and spent, whatever fails below.
    {
        let mut book = lock(&attempt.sessions);
        book.purse.end(record.index);
        book.records.insert(record.index, record.clone());
    }
    if let Err(error) = services.store.add_session(&attempt.id, record, billable).await {
        return Err(attempt.halt(Failure::Store { message: describe(&error) }));
    }
    let folder = attempt.folder.join("sessions").join(record.index.to_string());
    let ends = super::spool::keep(spool, &folder, &services.redactor)
        .map_err(|error| attempt.halt(Failure::Store { message: describe(&error) }))?;
    lock(&attempt.sessions).add(record.clone(), ends);
    attempt.context.events.emit(EventKind::SessionFinished {
        cell: attempt.id.cell.clone(),
        attempt: attempt.id.number,
        session: record.index,
        status: record.status(),
        reason: record.end.reason(),
        duration: record.duration,
        usage: record.usage,
        cost: record.cost,
    });
    Ok(())
}

/// Returns the failure that ends the whole attempt, if this session's end is one.
fn fatal(attempt: &Attempt, record: &SessionRecord) -> Option<Failure> {
    match &record.end {
        SessionEnd::Provider { .. }
        | SessionEnd::Lost { .. }
        | SessionEnd::TimedOut { timer: Timer::Task | Timer::Run, .. } => ending::of_session(&record.end),
        SessionEnd::Cancelled if attempt.over.load(Ordering::SeqCst) => None,
        SessionEnd::Cancelled => Some(attempt.cause.get().cloned().unwrap_or(Failure::Cancelled)),
        SessionEnd::Completed
        | SessionEnd::AgentFailed { .. }
        | SessionEnd::Refused { .. }
        | SessionEnd::TimedOut { .. }
        | SessionEnd::Limit { .. }
        | SessionEnd::NotStarted { .. } => None,
    }
}
