//! Goes on with an attempt whose host died: its environment is taken up again, its script is run again over the journal.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::accounts;
use super::attempt::{self, Course, Earlier, Ready};
use super::error::EngineError;
use super::finish::Finish;
use super::journal::Past;
use super::journey::Journey;
use super::keepsake::{Keepsake, clear_scratch};
use super::runner::Runner;
use super::services::CellContext;
use super::setup;
use super::world::describe;
use crate::domain::{AttemptState, EventKind, RunRecord};
use crate::store::{GivenUp, Orphan, StoreError, record_file};
use crate::workspace::rebased_before;

/// What became of an attempt.
pub(crate) enum GoneOn {
    /// It ended, after so many retries before it.
    Recorded(Box<RunRecord>, u32),
    /// It could not be gone on with, for this reason; a new one is to be made.
    Afresh(String),
}

/// Goes on with an attempt that this host has adopted, to its record.
///
/// # Errors
///
/// [`EngineError`] only where the result cannot be kept.
pub(crate) async fn go_on(context: &CellContext, orphan: &Orphan) -> Result<GoneOn, EngineError> {
    let services = Arc::clone(&context.services);
    let (id, scratch) = (&orphan.id, services.layout.scratch(&orphan.id));
    let found = match find(context, orphan).await? {
        Ok(found) => found,
        Err(reason) => {
            clear(context, orphan).await;
            return Ok(GoneOn::Afresh(reason));
        }
    };
    let message = format!("{}: attempt {} goes on where its host died", id.cell, id.number);
    context.events.emit(EventKind::Warning { message });
    context.events.emit(EventKind::AttemptStarted { cell: id.cell.clone(), attempt: id.number });
    let Found { ready, earlier, journey, keepsake } = found;
    let mut journey = journey;
    let retries = keepsake.retries;
    let mut finish = Finish::begin(context.clone(), id.clone(), retries, orphan.key.clone())
        .go_on(orphan.started_at, earlier.past.elapsed);
    finish.harness_version.clone_from(&ready.harness_version);
    finish.image = ready.env.image().map(str::to_owned);
    finish.warnings.push(format!(
        "its host died; another one went on with it after answer {} of its journal",
        earlier.past.answers()
    ));
    let course = attempt::carry_out(context, id, &ready, &mut journey, &mut finish, Some(earlier)).await;
    match course {
        Course::Abandoned(reason) => {
            attempt::clear_away(context, id, &ready, &scratch).await;
            Ok(GoneOn::Afresh(reason))
        }
        Course::Ended(cause) => {
            let record = attempt::close_and_conclude(context, &ready, &scratch, finish, cause, &mut journey).await?;
            Ok(GoneOn::Recorded(Box::new(record), retries))
        }
    }
}

/// Ends an attempt that is not gone on with. What was spent on it stays on the ledger.
///
/// # Errors
///
/// [`EngineError::Store`] where that cannot be kept.
pub(crate) async fn give_up(context: &CellContext, orphan: &Orphan, reason: &str) -> Result<(), EngineError> {
    let services = &context.services;
    let metered = services.plan.is_all_metered() && services.metering.doors().is_some();
    let exempt = accounts::exempt_roles(&services.plan, context.cell());
    let given_up = GivenUp { reason: reason.to_owned(), metered, exempt };
    services.store.give_up_orphan(orphan, &given_up, services.clock.now()).await?;
    let (cell, number) = (&orphan.id.cell, orphan.id.number);
    let message = format!("{cell}: attempt {number} lost its host and is begun afresh: {reason}");
    context.events.emit(EventKind::Warning { message });
    Ok(())
}

/// Removes what an attempt that is not gone on with has left on the host.
pub(crate) async fn clear(context: &CellContext, orphan: &Orphan) {
    let services = &context.services;
    let scratch = services.layout.scratch(&orphan.id);
    let removed = match services.runtime.reattach(&setup::agent_spec(context, &orphan.id, &scratch)).await {
        Ok(Some(env)) => env.close().await,
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = removed {
        tracing::warn!(%error, "an environment whose host is gone was not removed");
    }
    let _ = clear_scratch(&scratch).await;
    record_file::remove_unfinished(&services.layout.attempt(&orphan.id));
}

struct Found {
    ready: Ready,
    earlier: Earlier,
    journey: Journey,
    keepsake: Keepsake,
}

/// Gathers what is left of an attempt. The inner error is the reason why it cannot be gone on with.
async fn find(context: &CellContext, orphan: &Orphan) -> Result<Result<Found, String>, EngineError> {
    let services = &context.services;
    if Runner::of(context).is_some() {
        return Ok(Err("its orchestrator is a program, and only a script can be run again over a journal".to_owned()));
    }
    let (id, store) = (&orphan.id, &services.store);
    let scratch = services.layout.scratch(id);
    let (journal, sessions) = (store.journal(id).await?, store.sessions(id).await?);
    let steps = store.transitions(id).await?;
    let begun = journal.iter().any(|entry| entry.call == "session");
    if sessions.is_empty() && !begun {
        return Ok(Err("it had held no session".to_owned()));
    }
    let gathered = async {
        let past = Past::read(journal)?;
        let keepsake = Keepsake::read(&scratch).map_err(|error| format!("its scratch folder is not whole: {error}"))?;
        let spec = setup::agent_spec(context, id, &scratch);
        let env = services.runtime.reattach(&spec).await.map_err(|error| describe(&error))?;
        let env = Arc::from(env.ok_or_else(|| "its environment is gone".to_owned())?);
        tidy(&scratch, steps.iter().any(|step| step.to == AttemptState::Evaluating))
            .map_err(|error| format!("cannot tidy `{}`: {error}", scratch.display()))?;
        let task = &services.plan.tasks[context.cell().task];
        let seeded = services.seeds.prepare(task).await.map_err(|error| error.full_message())?;
        let seeded = rebased_before(&*env, &seeded, &scratch.join("baseline")).await;
        let seeded = seeded.map_err(|error| error.full_message())?;
        let ready = Ready { env, seeded, harness_version: keepsake.harness_version.clone() };
        if Keepsake::of(&ready, keepsake.retries) != keepsake {
            return Err("its workspace began with other files than the task has now".to_owned());
        }
        Ok((ready, past, keepsake))
    };
    let (ready, past, keepsake) = match gathered.await {
        Ok(gathered) => gathered,
        Err(reason) => return Ok(Err(reason)),
    };
    let journey =
        Journey::begin(id.clone(), Arc::clone(&services.clock), context.events.clone(), services.store.clone())
            .go_on(steps);
    record_file::remove_unfinished(&services.layout.attempt(id));
    Ok(Ok(Found { ready, earlier: Earlier { past, sessions }, journey, keepsake }))
}

/// Removes what an earlier host was in the middle of making.
fn tidy(scratch: &Path, collected: bool) -> std::io::Result<()> {
    for entry in fs::read_dir(scratch)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let unfinished = name == "evaluation" || name.starts_with("diff-") || (name == "final" && !collected);
        if unfinished {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Takes over an attempt under way whose host is gone; `None` where somebody else was faster.
///
/// # Errors
///
/// What the store says.
pub(crate) async fn adopt(context: &CellContext, orphan: &Orphan) -> Result<Option<Orphan>, StoreError> {
    let services = &context.services;
    services.store.adopt_attempt(orphan, &services.owner).await
}
