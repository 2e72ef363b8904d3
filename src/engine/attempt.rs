//! One try at a cell that is claimed, to its record.
//!
//! Whatever happens, what the agent left is collected and accounted for first, then judged where it may be, then
//! recorded: `run_record.json` before the store's row, so that a crash between the two loses nothing.

use std::path::PathBuf;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::claims::Claim;
use super::ending::{self, ScriptEnd};
use super::error::EngineError;
use super::finish::{self, Finish};
use super::journey::Journey;
use super::services::{CellContext, Services};
use super::session::SessionBook;
use super::spaces::Spaces;
use super::world::{Attempt, Deadline, World, describe, lock};
use super::{checks, setup};
use crate::domain::failure::Timer;
use crate::domain::{AttemptId, AttemptState, Failure, RunRecord, Verdict};
use crate::evaluator::{EvaluationError, EvaluationInput};
use crate::runtime::Environment;
use crate::script::{ScriptEnd as LuaEnd, ScriptErrorKind, ScriptJob, ScriptLimits, StopHandle};
use crate::workspace::{Collected, Seeded, collect, place};

/// What an open environment needs to be closed and judged.
pub(crate) struct Ready {
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) seeded: Arc<Seeded>,
    pub(crate) harness_version: Option<String>,
}

/// What executing brought.
pub(crate) struct Executed {
    pub(crate) attempt: Arc<Attempt>,
    pub(crate) script: ScriptEnd,
    pub(crate) note: Option<String>,
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
        Journey::begin(id.clone(), Arc::clone(&services.clock), context.events.clone(), services.store.clone());

    let cause = match prepare(context, &id, &folder, &scratch, &mut journey).await {
        Err(failure) => Some(failure),
        Ok(ready) => {
            let cause = carry_out(context, &id, &ready, &mut journey, &mut finish).await;
            finish.harness_version.clone_from(&ready.harness_version);
            finish.image = ready.env.image().map(str::to_owned);
            if let Err(error) = ready.env.close().await {
                finish.warnings.push(format!("the environment was not removed: {}", describe(&error)));
            }
            cause
        }
    };
    // Scratch holds nothing that is kept; what cannot be removed is swept by the next start.
    let _ = std::fs::remove_dir_all(&scratch);
    finish.conclude(cause, &mut journey).await
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
            seeded = services.seeds.prepare(task) => seeded.map_err(|error| setup::seed_failure(&error))?,
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

/// Executes, collects, judges; returns why the attempt did not simply reach its verdict.
async fn carry_out(
    context: &CellContext,
    id: &AttemptId,
    ready: &Ready,
    journey: &mut Journey,
    finish: &mut Finish,
) -> Option<Failure> {
    if let Err(failure) = journey.step(AttemptState::Executing) {
        return Some(failure);
    }
    if let Err(failure) = journey.settle().await {
        return Some(failure);
    }
    let executed = execute(context, id, ready).await;
    let attempt = &executed.attempt;
    (finish.sessions, finish.streams) = lock(&attempt.sessions).take();
    finish.script_log = std::mem::take(&mut *lock(&attempt.log));
    finish.note = executed.note;
    let mut cause = ending::cause(attempt.cause.get().cloned(), &executed.script, &finish.sessions);
    if let Err(failure) = journey.step(AttemptState::Collecting) {
        return Some(failure);
    }
    let collected = match collect_tree(ready, attempt, finish).await {
        Ok(collected) => Some(collected),
        Err(failure) => {
            cause.get_or_insert(failure);
            None
        }
    };
    let judged = match &collected {
        Some(collected) if ending::is_judged(cause.as_ref()) && !context.cancel.kill_token().is_cancelled() => {
            journey.step(AttemptState::Evaluating).map(|()| Some(collected))
        }
        _ => {
            let why = cause.as_ref().map_or_else(|| "cancelled".to_owned(), |cause| format!("not judged: {cause}"));
            journey.pass(AttemptState::Evaluating, why).map(|()| None)
        }
    };
    match judged {
        Err(failure) => return Some(failure),
        Ok(None) => {}
        Ok(Some(collected)) => match judge(context, ready, attempt, collected).await {
            Ok(verdict) => finish.verdict = Some(verdict),
            // A cause that is on record already stays the cause.
            Err(failure) => cause = cause.or(Some(failure)),
        },
    }
    finish.take(collected.as_ref(), &ready.seeded);
    if let Err(failure) = journey.step(AttemptState::Finalizing) {
        return Some(failure);
    }
    cause
}

fn deadline(services: &Services, task_timeout: Duration) -> Deadline {
    match services.plan.max_runtime {
        Some(limit) if limit < task_timeout => Deadline { timer: Timer::Run, limit },
        _ => Deadline { timer: Timer::Task, limit: task_timeout },
    }
}

/// Runs the script on a thread of its own until it returns, fails, or is stopped; then waits for what it began.
async fn execute(context: &CellContext, id: &AttemptId, ready: &Ready) -> Executed {
    let services = &context.services;
    let task = &services.plan.tasks[context.cell().task];
    let deadline = deadline(services, task.timeout);
    let attempt = Arc::new(Attempt {
        context: context.clone(),
        id: id.clone(),
        env: Arc::clone(&ready.env),
        seeded: Arc::clone(&ready.seeded),
        folder: services.layout.attempt(id),
        scratch: services.layout.scratch(id),
        began: services.clock.elapsed(),
        deadline,
        stop: context.cancel.stop_token().child_token(),
        sessions: Mutex::new(SessionBook::default()),
        spaces: tokio::sync::Mutex::new(Spaces::new(ready.env.workspace())),
        diffs: AtomicU32::new(0),
        log: Mutex::new(Vec::new()),
        tracker: TaskTracker::new(),
        cause: OnceLock::new(),
    });
    let world = World { attempt: Arc::clone(&attempt), handle: Handle::current() };
    let stop = StopHandle::new();
    let source = services.scripts[context.cell().orchestrator].clone();
    let inputs = setup::script_inputs(context, deadline.limit);
    let limits = ScriptLimits::default().with_sessions(services.plan.limits.sessions);
    let job = ScriptJob { source, inputs, port: Arc::new(world), limits, stop: stop.clone() };
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
    attempt.stop.cancel();
    attempt.tracker.close();
    attempt.tracker.wait().await;
    let (script, note) = match outcome.end {
        LuaEnd::Returned { note, .. } => (ScriptEnd::Returned, note),
        LuaEnd::Failed(error) if error.kind == ScriptErrorKind::Load => (ScriptEnd::NotLoaded(error.to_string()), None),
        LuaEnd::Failed(error) => (ScriptEnd::Raised(error.to_string()), None),
        LuaEnd::Stopped { .. } => (ScriptEnd::Stopped, None),
    };
    let redactor = &services.redactor;
    Executed { attempt, script, note: note.map(|note| redactor.redact(&note).into_string()) }
}

/// Ends when something other than the script itself ends the attempt, with the cause.
async fn interruption(attempt: &Attempt) -> Failure {
    tokio::select! {
        () = attempt.context.services.clock.sleep(attempt.deadline.limit) => attempt.out_of_time(),
        () = attempt.context.cancel.stop_token().cancelled() => Failure::Cancelled,
        // A session's end may have halted the attempt; the script then learns it at its next call or here.
        () = attempt.stop.cancelled() => attempt.cause.get().cloned().unwrap_or(Failure::Cancelled),
    }
}

/// Takes the final tree out of the agent's reach, once nothing of the agent is left.
async fn collect_tree(ready: &Ready, attempt: &Attempt, finish: &mut Finish) -> Result<Collected, Failure> {
    let quiet = ready.env.quiesce().await.map_err(|error| Failure::Runtime { message: describe(&error) })?;
    if quiet.killed > 0 {
        finish.warnings.push(format!("{} process(es) outlived the last session and were killed", quiet.killed));
    }
    let dest = attempt.scratch.join("final");
    tokio::select! {
        collected = collect(&*ready.env, &ready.seeded, &dest) => {
            collected.map_err(|error| Failure::Workspace { message: error.full_message() })
        }
        () = attempt.context.cancel.kill_token().cancelled() => Err(Failure::Cancelled),
    }
}

/// Judges the collected tree.
async fn judge(
    context: &CellContext,
    ready: &Ready,
    attempt: &Attempt,
    collected: &Collected,
) -> Result<Verdict, Failure> {
    let services = &context.services;
    let task = &services.plan.tasks[context.cell().task];
    let stop = context.cancel.kill_token();
    let checks_pass = if task.checks.is_empty() {
        None
    } else {
        let bound = services.plan.limits.evaluation_timeout;
        let workspace = ready.env.workspace();
        let report = checks::run(&*ready.env, workspace, &task.checks, bound, &services.redactor, stop).await;
        report.ok().map(|report| report.ok)
    };
    let scratch = attempt.scratch.join("evaluation");
    let input = EvaluationInput {
        task,
        attempt: &attempt.id,
        tree: &collected.tree,
        base: Some(&ready.seeded.tree),
        scratch: &scratch,
        changed: collected.changed,
        checks_pass,
        runtime: &*services.runtime,
        environment: &*ready.env,
        image: context.image(),
        container: &services.plan.container,
        stop,
    };
    let verdict = services.evaluator.evaluate(input).await.map_err(|error| match error {
        EvaluationError::Cancelled => Failure::Cancelled,
        EvaluationError::Runtime(error) => Failure::Runtime { message: describe(&error) },
        error => Failure::Evaluation { message: services.redactor.redact(&describe(&error)).into_string() },
    })?;
    Ok(finish::redact_verdict(verdict, &services.redactor))
}
