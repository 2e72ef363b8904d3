//! Whose a cell is: several processes may carry out one run at the same time, and none does a cell twice.

use super::error::EngineError;
use super::services::{CellContext, Services};
use crate::domain::{AttemptId, CellId, CellKey};
use crate::store::{AttemptStart, StoreError};

/// A cell that this process has taken.
pub(crate) struct Claim {
    pub(crate) id: AttemptId,
    pub(crate) key: CellKey,
}

/// Returns why a cell is another process's, if it is. `number` is the attempt that would be the next one by what this
/// process knows: where there is a later one by now, or a decided one, somebody else has been at work.
///
/// # Errors
///
/// [`EngineError::Store`] where that cannot be found out.
pub(crate) async fn elsewhere(context: &CellContext, number: u32) -> Result<Option<String>, EngineError> {
    let services = &context.services;
    let attempts = services.store.attempts(&services.plan.name, &context.cell().id).await?;
    let Some(last) = attempts.last() else { return Ok(None) };
    let reason = match last.terminal {
        None if last.ended_at.is_none() => busy(last.id.number),
        Some(terminal) if terminal.is_decided() && !context.again && !context.retries_decided => done(last.id.number),
        _ if last.id.number >= number => done(last.id.number),
        _ => return Ok(None),
    };
    Ok(Some(reason))
}

/// Takes a cell for an attempt, before anything of it starts. The inner error is the reason why it cannot be had.
///
/// # Errors
///
/// [`EngineError::Store`] where the claim cannot be kept.
pub(crate) async fn claim(context: &CellContext, number: u32) -> Result<Result<Claim, String>, EngineError> {
    let services = &context.services;
    let cell = context.cell();
    let id = AttemptId { run: services.plan.name.clone(), cell: cell.id.clone(), number };
    let key = services.plan.cell_key(cell);
    let start = AttemptStart {
        id: id.clone(),
        key: key.clone(),
        scratch: services.layout.scratch(&id),
        owner: services.owner.clone(),
        started_at: services.clock.now(),
        again: context.again || context.retries_decided,
    };
    match services.store.begin_attempt(&start).await {
        Ok(()) => Ok(Ok(Claim { id, key })),
        Err(StoreError::Claimed { present, .. }) => {
            // A reservation under the same number is the other process's own.
            if present != number {
                services.store.release(&id, services.clock.now()).await?;
            }
            Ok(Err(busy(present)))
        }
        Err(error) => {
            // Whatever kept it, nobody uses what was reserved.
            services.store.release(&id, services.clock.now()).await?;
            Err(error.into())
        }
    }
}

/// Finds those of these cells that were left to a host which has died since, ends what it had under way, and returns
/// them: they may be claimed.
///
/// # Errors
///
/// [`EngineError::Store`] where that cannot be found out.
pub(crate) async fn given_back(services: &Services, cells: &[usize]) -> Result<Vec<usize>, EngineError> {
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    let run = &services.plan.name;
    let believed = services.store.believed_hosts(run, services.clock.now()).await?;
    let orphans = services.store.orphaned_attempts(run, move |owner| owner.is_vouched_for(&believed)).await?;
    let mut back = Vec::new();
    for index in cells {
        let Some(orphan) = orphans.iter().find(|orphan| orphan.id.cell == services.plan.cells[*index].id) else {
            continue;
        };
        if let Err(error) = services.runtime.sweep(&services.layout.scratch_root()).await {
            tracing::warn!(%error, "left-overs of a dead host could not be swept");
        }
        if services.store.mark_orphaned(orphan, services.clock.now()).await? {
            back.push(*index);
        }
    }
    Ok(back)
}

/// Tells whether an attempt of a cell is still under way somewhere.
///
/// # Errors
///
/// [`EngineError::Store`] where that cannot be found out.
pub(crate) async fn is_open(services: &Services, cell: &CellId) -> Result<bool, EngineError> {
    let attempts = services.store.attempts(&services.plan.name, cell).await?;
    Ok(attempts.last().is_some_and(|last| last.ended_at.is_none()))
}

fn busy(attempt: u32) -> String {
    format!("left to another process, which works on it (attempt {attempt})")
}

fn done(attempt: u32) -> String {
    format!("done meanwhile by another process (attempt {attempt})")
}
