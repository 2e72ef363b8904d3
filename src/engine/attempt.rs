//! One try at a cell that is claimed, to its record.
//!
//! Whatever happens, what the agent left is collected and accounted for first, then judged where it may be, then
//! recorded: `run_record.json` before the store's row, so that a crash between the two loses nothing.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::checkpoints::Checkpoints;
use super::claims::Claim;
use super::ending::{self, ScriptEnd};
use super::error::EngineError;
use super::finish::Finish;
use super::journal::Past;
use super::journey::Journey;
use super::keepsake::{self, Keepsake, clear_scratch};
use super::port::JournaledPort;
use super::runner::{self, Runner};
use super::services::CellContext;
use super::session::SessionBook;
use super::spaces::Spaces;
use super::world::{Attempt, Deadline, describe, lock};
use super::{evaluation, setup};
use crate::config::RunPlan;
use crate::domain::failure::Timer;
use crate::domain::{AttemptId, AttemptState, EventKind, Failure, RunRecord, SessionRecord};
use crate::runtime::Environment;
use crate::script::{ScriptEnd as LuaEnd, ScriptErrorKind, ScriptJob, ScriptLimits, StopHandle};
use crate::workspace::{Collected, Seeded, collect, collected_before, place};

/// What an open environment needs to be closed and judged.
pub(crate) struct Ready {
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) seeded: Arc<Seeded>,
    pub(crate) harness_version: Option<String>,
}

/// What executing brought.
struct Executed {
    attempt: Arc<Attempt>,
    script: ScriptEnd,
    note: Option<String>,
    /// Why the attempt could not go on where an earlier host had left it.
    abandoned: Option<String>,
}

/// What an earlier host has done of an attempt.
pub(crate) struct Earlier {
    pub(crate) past: Past,
    pub(crate) sessions: Vec<SessionRecord>,
}

/// How an attempt came to its end.
pub(crate) enum Course {
    /// It can be recorded: with why it did not simply reach its verdict, if it did not.
    Ended(Option<Failure>),
    /// It cannot go on where an earlier host had left it, and says why.
    Abandoned(String),
}

/// Runs one attempt to its record, which is stored when it returns. `retries` is how many came before it.
///
/// # Errors
///
/// [`EngineError`] only where the result cannot be kept.
pub(crate) async fn run(context: &CellContext, claim: Claim, retries: u32) -> Result<RunRecord, EngineError> {
    let services = Arc::clone(&context.services);
    let Claim { id, key } = claim;
    let folder = services.layout.attempt(&id);
    let scratch = services.layout.scratch(&id);
    let mut finish = Finish::begin(context.clone(), id.clone(), retries, key);
    let mut journey =
        Journey::begin(id.clone(), Arc::clone(&services.clock), context.events.clone(), services.store.clone())
            .because((retries > 0).then(|| format!("retry {retries}")));

    let ready = match prepare(context, &id, &folder, &scratch, &mut journey).await {
        Ok(ready) => ready,
        Err(failure) => {
            keepsake::mark(&scratch);
            let record = finish.conclude(Some(failure), &mut journey).await;
            let _ = clear_scratch(&scratch).await;
            return record;
        }
    };
    finish.harness_version.clone_from(&ready.harness_version);
    finish.image = ready.env.image().map(str::to_owned);
    if let Err(error) = Keepsake::of(&ready, retries).write(&scratch) {
        finish.warnings.push(format!("the attempt could not be gone on with after a crash: {error}"));
    }
    let cause = match carry_out(context, &id, &ready, &mut journey, &mut finish, None).await {
        Course::Ended(cause) => cause,
        Course::Abandoned(reason) => Some(Failure::Runtime { message: reason }),
    };
    close_and_conclude(context, &ready, &scratch, finish, cause, &mut journey).await
}

/// Records an attempt and removes what it needed while it was under way, in this order: until it is recorded a later host
/// may have to go on with it. Where the store failed it is the other way round: the disk may be full, and of what the
/// environment holds.
///
/// # Errors
///
/// [`EngineError`] where the record cannot be kept; the attempt is then left as it is, for the next start.
pub(crate) async fn close_and_conclude(
    context: &CellContext,
    ready: &Ready,
    scratch: &Path,
    finish: Finish,
    cause: Option<Failure>,
    journey: &mut Journey,
) -> Result<RunRecord, EngineError> {
    let id = journey.attempt().clone();
    if matches!(cause, Some(Failure::Store { .. })) {
        clear_away(context, &id, ready, scratch).await;
        return finish.conclude(cause, journey).await;
    }
    let record = finish.conclude(cause, journey).await?;
    clear_away(context, &id, ready, scratch).await;
    Ok(record)
}

/// Removes what an attempt needed while it was under way.
pub(crate) async fn clear_away(context: &CellContext, id: &AttemptId, ready: &Ready, scratch: &Path) {
    if let Err(error) = ready.env.close().await {
        let message = format!("{}: the environment was not removed: {}", id.cell, describe(&error));
        context.events.emit(EventKind::Warning { message });
    }
    // Scratch holds nothing that is kept; what cannot be removed is swept by the next start.
    let _ = clear_scratch(scratch).await;
}

/// Everything before the first session. An environment that was opened for an attempt that then cannot begin is closed
/// here.
async fn prepare(
    context: &CellContext,
    id: &AttemptId,
    folder: &PathBuf,
    scratch: &PathBuf,
    journey: &mut Journey,
) -> Result<Ready, Failure> {
    let services = &context.services;
    journey.step(AttemptState::Preparing)?;
    for dir in [folder, scratch] {
        std::fs::create_dir_all(dir)
            .map_err(|error| Failure::Workspace { message: format!("cannot create `{}`: {error}", dir.display()) })?;
    }
    journey.step(AttemptState::Validating)?;
    setup::validate(context)?;
    journey.step(AttemptState::ConfiguringRuntime)?;
    let env = setup::open(context, id, scratch).await?;
    let task = &services.plan.tasks[context.cell().task];
    let stop = context.cancel.stop_token();
    let created = async {
        journey.step(AttemptState::CreatingWorkspace)?;
        // A clone can take minutes; whoever else waits for it goes on with it.
        let seeded = tokio::select! {
            seeded = services.seeds.prepare_in(task, &*env) => seeded.map_err(|error| setup::seed_failure(&error))?,
            () = stop.cancelled() => return Err(Failure::Cancelled),
        };
        place(&seeded, &*env).await.map_err(|error| Failure::Workspace { message: error.full_message() })?;
        journey.step(AttemptState::StartingAgent)?;
        let seeded = setup::run_script(context, &*env, seeded, &scratch.join("baseline"), stop).await?;
        let version = setup::probe(context, &*env, stop).await?;
        Ok::<_, Failure>((seeded, version))
    };
    match created.await {
        Ok((seeded, harness_version)) => Ok(Ready { env, seeded, harness_version }),
        Err(failure) => {
            if let Err(error) = env.close().await {
                tracing::warn!(%error, "an environment was not removed");
            }
            Err(failure)
        }
    }
}

/// Executes, collects, judges.
pub(crate) async fn carry_out(
    context: &CellContext,
    id: &AttemptId,
    ready: &Ready,
    journey: &mut Journey,
    finish: &mut Finish,
    earlier: Option<Earlier>,
) -> Course {
    if let Err(failure) = journey.step(AttemptState::Executing) {
        return Course::Ended(Some(failure));
    }
    if let Err(failure) = journey.settle().await {
        return Course::Ended(Some(failure));
    }
    let executed = execute(context, id, ready, finish.retries(), earlier).await;
    if let Some(reason) = executed.abandoned {
        return Course::Abandoned(reason);
    }
    Course::Ended(conclude(context, ready, journey, finish, executed).await)
}

/// Collects and judges what executing has left; returns why the attempt did not simply reach its verdict.
async fn conclude(
    context: &CellContext,
    ready: &Ready,
    journey: &mut Journey,
    finish: &mut Finish,
    executed: Executed,
) -> Option<Failure> {
    let attempt = &executed.attempt;
    let unfunded = {
        let mut book = lock(&attempt.sessions);
        (finish.sessions, finish.streams) = book.take();
        book.unfunded && finish.sessions.is_empty()
    };
    finish.cut_off = *lock(&attempt.cut_off);
    finish.warnings.append(&mut lock(&attempt.warnings));
    finish.script_log = std::mem::take(&mut *lock(&attempt.log));
    finish.note = executed.note;
    let stopped = attempt.cause.get().cloned().or_else(|| unfunded.then(ending::unfunded));
    let mut cause = ending::cause(stopped, &executed.script, &finish.sessions);
    if let Err(failure) = journey.step(AttemptState::Collecting) {
        return Some(failure);
    }
    let collected_already = journey.had_come_to(AttemptState::Evaluating);
    let collected = match collect_tree(ready, attempt, finish, collected_already).await {
        Ok(collected) => Some(collected),
        Err(failure) => {
            cause.get_or_insert(failure);
            None
        }
    };
    let judged = match &collected {
        Some(collected) if ending::is_judged(cause.as_ref()) && !context.cancel.kill_token().is_cancelled() => {
            // Tests may run in the agent's workspace: a host that goes on must know that it is collected.
            let step = journey.step(AttemptState::Evaluating);
            if step.is_ok() { journey.settle().await } else { step }.map(|()| Some(collected))
        }
        _ => {
            let why = cause.as_ref().map_or_else(|| "cancelled".to_owned(), |cause| format!("not judged: {cause}"));
            // The cause itself is redacted with the record; this is stored and shown before.
            let why = context.services.redactor.redact(&why).into_string();
            journey.pass(AttemptState::Evaluating, why).map(|()| None)
        }
    };
    match judged {
        Err(failure) => return Some(failure),
        Ok(None) => {}
        Ok(Some(collected)) => {
            let evaluated = evaluation::evaluate(context, ready, attempt, collected).await;
            (finish.verdict, finish.judge) = (evaluated.verdict, evaluated.judge);
            finish.warnings.append(&mut lock(&attempt.warnings));
            // A cause that is on record already stays the cause.
            cause = cause.or(evaluated.failure);
        }
    }
    finish.take(collected.as_ref(), &ready.seeded);
    if let Err(failure) = journey.step(AttemptState::Finalizing) {
        return Some(failure);
    }
    cause
}

pub(crate) fn deadline(plan: &RunPlan, task_timeout: Duration) -> Deadline {
    match plan.max_runtime {
        Some(limit) if limit < task_timeout => Deadline { timer: Timer::Run, limit },
        _ => Deadline { timer: Timer::Task, limit: task_timeout },
    }
}

/// Runs the script on a thread of its own until it returns, fails, or is stopped; then waits for what it began.
async fn execute(
    context: &CellContext,
    id: &AttemptId,
    ready: &Ready,
    retries: u32,
    earlier: Option<Earlier>,
) -> Executed {
    let services = &context.services;
    let task = &services.plan.tasks[context.cell().task];
    let deadline = deadline(&services.plan, task.timeout);
    let mut sessions = SessionBook::default();
    let past = earlier.map(|earlier| {
        sessions.restore(earlier.sessions);
        earlier.past
    });
    let attempt = Arc::new(Attempt {
        context: context.clone(),
        id: id.clone(),
        env: Arc::clone(&ready.env),
        seeded: Arc::clone(&ready.seeded),
        folder: services.layout.attempt(id),
        scratch: services.layout.scratch(id),
        began: services.clock.elapsed(),
        before: past.as_ref().map_or(Duration::ZERO, |past| past.elapsed),
        deadline,
        retries,
        stop: context.cancel.stop_token().child_token(),
        sessions: Mutex::new(sessions),
        spaces: tokio::sync::Mutex::new(Spaces::new(ready.env.workspace())),
        checkpoints: Checkpoints::default(),
        warnings: Mutex::new(Vec::new()),
        cut_off: Mutex::default(),
        diffs: AtomicU32::new(0),
        log: Mutex::new(Vec::new()),
        tracker: TaskTracker::new(),
        cause: OnceLock::new(),
        over: AtomicBool::new(false),
    });
    if let Some(runner) = Runner::of(context) {
        let script = runner::run(&attempt, &runner, interruption(&attempt)).await;
        return Executed { attempt, script, note: None, abandoned: None };
    }
    let port = JournaledPort::new(Arc::clone(&attempt), past);
    let stop = StopHandle::new();
    let source = services.scripts[context.cell().orchestrator].clone();
    let inputs = setup::script_inputs(&services.plan, context.cell(), deadline.limit);
    let limits = ScriptLimits::default().with_sessions(services.plan.limits.sessions);
    let job = ScriptJob { source, inputs, port: Arc::new(port.clone()), limits, stop: stop.clone() };
    let running = services.pool.run(job);
    tokio::pin!(running);
    let outcome = tokio::select! {
        outcome = &mut running => outcome,
        cause = interruption(&attempt) => {
            attempt.halt(cause);
            stop.stop("the attempt is over");
            running.await
        }
    };
    // What the script has left is stopped: a consequence of its end, and no cause of the attempt's.
    attempt.over.store(true, Ordering::SeqCst);
    attempt.stop.cancel();
    attempt.tracker.close();
    attempt.tracker.wait().await;
    let (script, note) = match outcome.end {
        LuaEnd::Returned { note, .. } => (ScriptEnd::Returned, note),
        LuaEnd::Failed(error) if error.kind == ScriptErrorKind::Load => (ScriptEnd::NotLoaded(error.to_string()), None),
        LuaEnd::Failed(error) => (ScriptEnd::Raised(error.to_string()), None),
        LuaEnd::Stopped { .. } => (ScriptEnd::Stopped, None),
    };
    let note = note.map(|note| services.redactor.redact(&note).into_string());
    Executed { attempt, script, note, abandoned: port.abandoned() }
}

/// Ends when something other than the script itself ends the attempt, with the cause.
async fn interruption(attempt: &Attempt) -> Failure {
    tokio::select! {
        () = attempt.context.services.clock.sleep(attempt.remaining()) => attempt.out_of_time(),
        () = attempt.context.cancel.stop_token().cancelled() => Failure::Cancelled,
        // A session's end may have halted the attempt; the script then learns it at its next call or here.
        () = attempt.stop.cancelled() => attempt.cause.get().cloned().unwrap_or(Failure::Cancelled),
    }
}

/// Takes the final tree out of the agent's reach, once nothing of the agent is left.
async fn collect_tree(
    ready: &Ready,
    attempt: &Attempt,
    finish: &mut Finish,
    already: bool,
) -> Result<Collected, Failure> {
    let dest = attempt.scratch.join("final");
    if already {
        let collected = collected_before(&*ready.env, &ready.seeded, &dest).await;
        return collected.map_err(|error| Failure::Workspace { message: error.full_message() });
    }
    let quiet = ready.env.quiesce().await.map_err(|error| Failure::Runtime { message: describe(&error) })?;
    if quiet.killed > 0 {
        finish.warnings.push(format!("{} process(es) outlived the last session and were killed", quiet.killed));
    }
    tokio::select! {
        collected = collect(&*ready.env, &ready.seeded, &dest) => {
            collected.map_err(|error| Failure::Workspace { message: error.full_message() })
        }
        () = attempt.context.cancel.kill_token().cancelled() => Err(Failure::Cancelled),
    }
}
