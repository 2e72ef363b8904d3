//! Whose a cell is: several processes may carry out one run at the same time, and none does a cell twice.

use super::error::EngineError;
use super::services::{CellContext, Services};
use super::{accounts, setup};
use crate::domain::{AttemptId, CellId, CellKey, Terminal};
use crate::store::{Admission, AttemptStart, HostRow, Orphan, Owner, StoreError};

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

/// Whether a cell could be taken.
pub(crate) enum Claimed {
    /// It is this process's, and what it will probably cost is reserved.
    Had(Claim),
    /// It is another process's, for this reason.
    Elsewhere(String),
    /// The run's budget does not leave what it will probably cost: for this reason it may not start.
    Refused(String),
}

/// Takes a cell for an attempt, and the money for it, before anything of it starts.
///
/// # Errors
///
/// [`EngineError::Store`] where the claim cannot be kept.
pub(crate) async fn claim(context: &CellContext, number: u32) -> Result<Claimed, EngineError> {
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
    let reservation = accounts::reservation(context, number).await?;
    match services.store.claim_attempt(&start, reservation.as_ref()).await {
        Ok(Admission::Admitted) => Ok(Claimed::Had(Claim { id, key })),
        Ok(refused @ Admission::Refused { .. }) => Ok(Claimed::Refused(refused.to_string())),
        Err(StoreError::Claimed { present, .. }) => Ok(Claimed::Elsewhere(busy(present))),
        Err(error) => Err(error.into()),
    }
}

/// What became of cells that were left to other hosts.
#[derive(Debug, Default)]
pub(crate) struct Left {
    /// Their hosts died: they may be claimed, and what was under way of them may be gone on with.
    pub(crate) back: Vec<(usize, Option<Orphan>)>,
    /// Hosts that live are at work on them.
    pub(crate) busy: Vec<usize>,
    /// Nobody will do more about them.
    pub(crate) ended: Vec<usize>,
}

/// Finds out what became of cells that were left to other hosts. What dead ones have left beside them is ended; an
/// environment whose attempt may be gone on with keeps its files.
///
/// # Errors
///
/// [`EngineError::Store`] where that cannot be found out.
pub(crate) async fn look_after(services: &Services, cells: &[usize]) -> Result<Left, EngineError> {
    let mut left = Left::default();
    if cells.is_empty() {
        return Ok(left);
    }
    let (run, store) = (&services.plan.name, &services.store);
    let believed = store.believed_hosts(run, services.clock.now()).await?;
    let at_work: Vec<Owner> = believed.iter().filter(|owner| **owner != services.owner).cloned().collect();
    let mut orphans = store.orphaned_attempts(run, move |owner| owner.is_vouched_for(&believed)).await?;
    let hosts = store.hosts(run).await?;
    for index in cells {
        let cell = &services.plan.cells[*index].id;
        if let Some(at) = orphans.iter().position(|orphan| orphan.id.cell == *cell) {
            left.back.push((*index, Some(orphans.swap_remove(at))));
            continue;
        }
        let attempts = store.attempts(run, cell).await?;
        match attempts.last() {
            None => left.back.push((*index, None)),
            Some(last) if last.terminal.is_some_and(Terminal::is_decided) => left.ended.push(*index),
            // Between two tries of a cell its host is still at work on it.
            Some(last) if at_work.contains(&last.owner) => left.busy.push(*index),
            Some(last) if last.ended_at.is_some() && died(&hosts, &last.owner) => left.back.push((*index, None)),
            Some(_) => left.ended.push(*index),
        }
    }
    if left.back.iter().any(|(_, orphan)| orphan.is_some()) {
        quiet(services).await?;
    }
    Ok(left)
}

/// Tells whether a host that is not at work has gone without having ended.
fn died(hosts: &[HostRow], owner: &Owner) -> bool {
    hosts.iter().find(|host| host.owner.as_ref() == Some(owner)).is_some_and(|host| host.finished_at.is_none())
}

/// Ends what dead hosts have left, except the files of attempts that are under way by their rows, of whichever run.
async fn quiet(services: &Services) -> Result<(), EngineError> {
    let kept = services.store.attempts_under_way().await?;
    let kept: Vec<_> = kept.iter().map(|id| setup::agent_environment(id, &services.layout.scratch(id))).collect();
    if let Err(error) = services.runtime.sweep_except(&services.layout.scratch_root(), &kept).await {
        tracing::warn!(%error, "left-overs of a dead host could not be swept");
    }
    Ok(())
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
