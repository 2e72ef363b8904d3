//! Holds one session of an attempt: who runs it, what it may cost and take, what is kept of it.

mod book;
mod count;
mod record;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;

pub(crate) use self::book::SessionBook;
pub(crate) use self::record::redact_end;
use super::casting::{choose_harness, choose_model, own_reviewer};
use super::journal::BUDGET;
use super::metering::{self, Begins, Metered};
use super::reconcile::Seen;
use super::world::{Attempt, describe, lock};
use super::{accounts, ending, pacing};
use crate::config::gateway::Route;
use crate::domain::failure::{ProviderFault, Timer};
use crate::domain::model::AuthMode;
use crate::domain::session::SessionEnd;
use crate::domain::{EventKind, Failure, Key, Micros, Model, ModelRole, SessionRecord, Usage};
use crate::harness::session::{self, SessionOptions, SessionResult};
use crate::harness::{AgentEvent, Harness, HarnessError, SessionRequest};
use crate::runtime::{Limits, RuntimeError};
use crate::script::port::SessionCall;
use crate::script::{Answer, HostError};
use crate::store::StoreError;

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

impl Setup {
    /// Returns the number of the session.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }
}

/// Holds a session. A failing agent is an answer; what is not the agent's doing ends the attempt.
pub(crate) async fn hold(attempt: &Arc<Attempt>, mut call: SessionCall, setup: Setup) -> Result<Answer, HostError> {
    for name in [&mut call.label, &mut call.phase] {
        // Scripts make names of what agents say; events, records and columns show them.
        *name = name.as_deref().map(|name| attempt.context.services.redactor.redact(name).into_string());
    }
    let workspace = attempt.path_of(call.workspace).await?;
    let setup = within_limits(attempt, setup).await?;
    let begins = Begins {
        index: setup.index,
        phase: call.phase.clone(),
        role: setup.role,
        model: &setup.model,
        harness: setup.harness.name(),
        max_cost: setup.max_cost,
    };
    let metered = metering::open(attempt, begins).await.map_err(|failure| attempt.halt(failure))?;
    if metered.is_none() {
        pacing::wait(attempt, &setup.model.provider, setup.index).await?;
    }
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
    let request = request(attempt, &setup, &call, workspace, metered.as_ref());
    let spool = spool(attempt, setup.index);
    let began = (attempt.context.services.clock.now(), attempt.elapsed());
    let held = run(attempt, &setup, &request, &spool, metered.as_ref()).await;
    let is_metered = metered.is_some();
    let seen = match metered {
        Some(metered) => Some(metered.close().await),
        None => None,
    };
    let mut record = match &held {
        Ok(result) => record::of_result(attempt, &setup, &call, result),
        Err(error) => record::broken_off(attempt, &setup, &call, began, error),
    };
    if let Some(seen) = seen {
        count::by_gateway(attempt, &setup, &mut record, seen).await;
    }
    keep(attempt, &record, &spool).await?;
    if seen.is_some_and(|seen| seen.broken) {
        let message = "an exchange with the provider could not be recorded".to_owned();
        return Err(attempt.halt(Failure::Store { message }));
    }
    match held {
        Ok(result) => {
            if !is_metered {
                pacing::ended(attempt, &setup.model.provider, &result.end);
            }
            answer(attempt, record)
        }
        Err(error) => Err(refuse(attempt, &error)),
    }
}

/// Tells whether a session has no other way to its provider than the gateway.
fn goes_through_gateway(attempt: &Attempt, setup: &Setup) -> bool {
    let plan = &attempt.context.services.plan;
    let entry = plan.harnesses.iter().find(|entry| entry.name == setup.harness.name());
    entry.is_some_and(|entry| plan.route(entry, &setup.model) == Route::Gateway)
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
        // Nobody waits for it any more, and it is no cause.
        None if record.end == SessionEnd::Cancelled => {
            Err(HostError::Stop { message: "the attempt is over".to_owned() })
        }
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
    let options = SessionOptions {
        on_login: on_login(attempt, &model),
        ..SessionOptions::new(spool(attempt, index), Arc::clone(&attempt.context.services.clock))
    };
    let how = (call.continue_from.is_some(), started_at);
    let timeout = (attempt.deadline.timer, attempt.deadline.limit);
    let resume =
        call.continue_from.and_then(|earlier| lock(&attempt.sessions).record(earlier)?.harness_session.clone());
    let setup = Setup { index, harness, model, role, resume, max_cost: None, timeout };
    let workspace = attempt.path_of(call.workspace).await.unwrap_or_else(|_| attempt.env.home().to_owned());
    let request = request(attempt, &setup, call, workspace, None);
    let left = session::read_left(&*attempt.env, (&*setup.harness, &request), &options, how).await?;
    let Some(result) = left else { return Ok(None) };
    if goes_through_gateway(attempt, &setup)
        && !matches!(result.end, SessionEnd::Completed | SessionEnd::Refused { .. })
    {
        // The gateway died with its host: what failed from then on is not the agent's failure.
        return Ok(None);
    }
    let mut record = record::of_result(attempt, &setup, call, &result);
    let left = match attempt.context.services.store.adopt_calls(&attempt.id, index).await {
        Ok(left) => left,
        Err(error) => return Ok(Some(Err(attempt.halt(Failure::Store { message: describe(&error) })))),
    };
    if left.calls > 0 {
        let cost = left.cost.filter(|_| left.open == 0);
        let usage = if left.open == 0 { left.usage } else { Usage::UNKNOWN };
        let (requests, known_cost) = (left.calls, left.known_cost);
        let seen = Seen { requests, billed: requests, played: 0, usage, cost, known_cost, broken: false };
        count::by_gateway(attempt, &setup, &mut record, seen).await;
    }
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
    if number.is_none() && book.begun() >= limit {
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
    let by_run = accounts::limit_by_run(context, &attempt.id).await.map_err(failed)?;
    let exempt = accounts::is_exempt_session(&context.services.plan, context.cell(), &setup.model.name);
    let mut book = lock(&attempt.sessions);
    let spent = book.spent();
    book.purse.set_limits(limits.cell_cost.map(|cap| cap - before), by_run);
    let left = book.purse.left(spent, exempt);
    if left.is_some_and(|left| left <= Micros::ZERO) {
        // An exempt session is bounded by its cell alone.
        let cell_is_out = book.purse.left(spent, true).is_some_and(|left| left <= Micros::ZERO);
        let whose = if cell_is_out { "cell" } else { "run" };
        let message = format!("the {whose}'s budget is used up ({} spent by this attempt)", spent.total);
        book.unfunded |= !cell_is_out;
        return Err(HostError::Refused { limit: BUDGET.to_owned(), message });
    }
    let own = [setup.max_cost, limits.session_cost].into_iter().flatten().min();
    // A promise of more than there is would only keep others from what is left.
    book.purse.begin(setup.index, own.map(|own| left.map_or(own, |left| own.min(left))), exempt);
    setup.max_cost = [own, left].into_iter().flatten().min();
    Ok(setup)
}

fn resumable(book: &SessionBook, harness: &dyn Harness, index: u32) -> Result<String, String> {
    if !harness.can_resume() {
        return Err(format!("harness `{}` cannot continue an earlier session", harness.name()));
    }
    let Some(earlier) = book.record(index) else {
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

fn request(
    attempt: &Attempt,
    setup: &Setup,
    call: &SessionCall,
    workspace: PathBuf,
    metered: Option<&Metered>,
) -> SessionRequest {
    let services = &attempt.context.services;
    let mut model = setup.model.clone();
    let api_key = match metered {
        // The key stays with the gateway; what goes into the environment is good for this session alone.
        Some(metered) => {
            model.api_key_env = services.plan.key_variable(&setup.model).map(str::to_owned);
            Some(Key::new(metered.token()))
        }
        None => model.api_key_env.as_ref().and_then(|variable| services.keys.get(variable)).map(Key::new),
    };
    let home = attempt.env.home().to_owned();
    SessionRequest {
        prompt: call.prompt.clone(),
        model,
        task: services.plan.tasks[attempt.context.cell().task].id.clone(),
        phase: call.phase.clone(),
        label: call.label.clone(),
        index: setup.index,
        resume: setup.resume.clone(),
        workspace,
        session_dir: home.join(format!(".refrain-session-{}", setup.index)),
        home,
        max_cost: setup.max_cost,
        base_url: metered.map(|metered| metered.base_url().to_owned()),
        api_key,
    }
}

async fn run(
    attempt: &Arc<Attempt>,
    setup: &Setup,
    request: &SessionRequest,
    spool: &Path,
    metered: Option<&Metered>,
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
        max_cost: setup.max_cost.filter(|_| metered.is_none()),
        meter: Some(meter(attempt, setup, metered)),
        ceiling: metered.map(|metered| Arc::clone(metered.ceiling())),
        price: price_of(attempt, &setup.model),
        on_login: on_login(attempt, &setup.model),
        ..SessionOptions::new(spool, Arc::clone(&services.clock))
    };
    let (sender, receiver) = mpsc::channel(64);
    let provider = metered.is_none().then(|| setup.model.provider.clone());
    attempt.tracker.spawn(show(Arc::clone(attempt), (setup.index, provider), receiver));
    session::run(&*attempt.env, &*setup.harness, request, &options, Some(sender), &attempt.stop).await
}

/// Tells the attempt's purse what a session costs while it runs, by its stream. Where the gateway sees its requests, the
/// stream has no say: some count other sessions too, and all leave something out.
fn meter(attempt: &Arc<Attempt>, setup: &Setup, metered: Option<&Metered>) -> Arc<session::Meter> {
    let (attempt, session, own) = (Arc::clone(attempt), setup.index, setup.max_cost);
    let seen = metered.map(|metered| Arc::clone(metered.seen()));
    Arc::new(move |live| {
        if seen.as_ref().is_some_and(|seen| seen.load(Ordering::SeqCst)) {
            return None;
        }
        let mut book = lock(&attempt.sessions);
        let spent = book.spent();
        let shared = book.purse.spend(session, live, spent);
        own.filter(|own| live > *own).or(shared)
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

fn price_of(attempt: &Attempt, model: &Model) -> Option<Arc<session::Price>> {
    let price = attempt.context.services.prices.find(&model.name)?.clone();
    Some(Arc::new(move |usage: &Usage, long| price.cost_with_long(usage, long.or(Some(0)))))
}

/// Lets the run's redactor learn a login that a session has renewed, before the session's logs and record are kept.
fn on_login(attempt: &Attempt, model: &Model) -> Option<Arc<session::OnLogin>> {
    let redactor = Arc::clone(&attempt.context.services.redactor);
    let learn: Arc<session::OnLogin> = Arc::new(move |secret| redactor.learn("LOGIN", secret));
    (model.auth_mode == AuthMode::Subscription).then_some(learn)
}

/// Turns live events into signs of life, until the session ends. `provider` is the one whose sessions a refusal slows
/// down; `None` where the gateway sees to that.
async fn show(
    attempt: Arc<Attempt>,
    (session, provider): (u32, Option<String>),
    mut events: mpsc::Receiver<AgentEvent>,
) {
    while let Some(event) = events.recv().await {
        // The other cells need not find that out by themselves.
        if let (AgentEvent::Retrying { fault: ProviderFault::RateLimited, retry_after }, Some(provider)) =
            (&event, &provider)
        {
            pacing::throttled(&attempt, provider, *retry_after);
        }
        let Some(text) = event.words() else { continue };
        let text = crate::redact::printable(attempt.context.services.redactor.redact(&text).as_str());
        let text: String = text.lines().next().unwrap_or("").chars().take(160).collect();
        attempt.context.events.emit(EventKind::SessionProgress { cell: attempt.id.cell.clone(), session, text });
    }
}

/// Keeps a session before its answer reaches the script: money first.
async fn keep(attempt: &Attempt, record: &SessionRecord, spool: &Path) -> Result<(), HostError> {
    let services = &attempt.context.services;
    // First of all, so that the attempt's own record never tells less than was held, and spent, whatever fails below.
    // Its money stays in the purse until the ledger has it: no other session may take it in between.
    lock(&attempt.sessions).note(record.clone());
    if let Err(error) = services.store.add_session(&attempt.id, record, record.billable()).await {
        return Err(attempt.halt(Failure::Store { message: describe(&error) }));
    }
    lock(&attempt.sessions).settle(record.index);
    let folder = attempt.folder.join("sessions").join(record.index.to_string());
    let ends = super::spool::keep(spool, &folder, &services.redactor)
        .await
        .map_err(|error| attempt.halt(Failure::Store { message: describe(&error) }))?;
    lock(&attempt.sessions).end(record.index, ends);
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
        | SessionEnd::Misconfigured { .. }
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
