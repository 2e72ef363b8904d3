//! Money of a run: who pays, and what is asked for before an attempt starts. Settlement is part of storing its end.

use super::services::CellContext;
use crate::budget::{self, EstimateInputs};
use crate::config::RunPlan;
use crate::domain::cell::Cell;
use crate::domain::{AttemptId, CostMode, EventKind, Micros, Model, ModelRole};
use crate::store::{Reservation, StoreError};

/// Tells whether a cell's cost stays off the budget.
pub(crate) fn is_exempt(plan: &RunPlan, cell: &Cell) -> bool {
    let mode = |index: usize| plan.models[index].cost_mode;
    budget::is_exempt(mode(cell.model), cell.review_model.map(mode), plan.tasks[cell.task].track)
}

/// Tells whether a session's cost stays off the budget: everything that is booked or bounded for one goes by this.
///
/// A script may ask for any model of the run: one that is paid by token counts even in an exempt cell.
pub(crate) fn is_exempt_session(plan: &RunPlan, cell: &Cell, model: &str) -> bool {
    let paid = |of: &Model| of.name == model && of.cost_mode == CostMode::Platform;
    is_exempt(plan, cell) && !plan.models.iter().any(paid)
}

/// Returns by which roles of models the sessions of a cell stay off the budget; `None` stands for models that its script
/// names, where all that it can name do.
pub(crate) fn exempt_roles(plan: &RunPlan, cell: &Cell) -> Vec<Option<ModelRole>> {
    let exempt = |index: usize| is_exempt_session(plan, cell, &plan.models[index].name);
    let roles = [
        (Some(ModelRole::Implementation), exempt(cell.model)),
        (Some(ModelRole::Review), plan.reviewer(cell).is_some_and(exempt)),
        (None, (0..plan.models.len()).all(exempt)),
    ];
    roles.into_iter().filter_map(|(role, exempt)| exempt.then_some(role)).collect()
}

/// Returns what an attempt's sessions may cost by the run's cap, those on the ledger included: besides these, what it
/// holds in reserve, and what nobody holds. Others' reservations are theirs. `None` where there is no cap.
///
/// # Errors
///
/// [`StoreError`] where the ledger cannot be read.
pub(crate) async fn limit_by_run(context: &CellContext, attempt: &AttemptId) -> Result<Option<Micros>, StoreError> {
    let plan = &context.services.plan;
    let Some(cap) = plan.budget else { return Ok(None) };
    Ok(Some(context.services.store.allowance(attempt).await?.limit(cap)))
}

/// Returns what earlier attempts of a cell have cost, and sessions of this one that were cut off, as far as it is known: a
/// cell's limit is for all of them. A cell that is run again from its beginning starts at zero.
///
/// # Errors
///
/// [`StoreError`] where that cannot be found out.
pub(crate) async fn spent_before(context: &CellContext, attempt: &AttemptId) -> Result<Micros, StoreError> {
    if context.again || context.services.plan.limits.cell_cost.is_none() {
        return Ok(Micros::ZERO);
    }
    context.services.store.cell_spent_beside(attempt).await
}

/// Tells why a cell can hold no session in its attempt `number`, where its earlier ones have used its limit up.
///
/// # Errors
///
/// [`StoreError`] where that cannot be found out.
pub(crate) async fn used_up(context: &CellContext, number: u32) -> Result<Option<String>, StoreError> {
    let Some(limit) = context.services.plan.limits.cell_cost else { return Ok(None) };
    let before = spent_before(context, &id(context, number)).await?;
    let reason = || format!("the cell's limit of {limit} is used up ({before} spent by its earlier attempts)");
    Ok((before >= limit).then(reason))
}

/// Returns what is to be reserved for an attempt: what it will probably cost. `None` without a cap.
///
/// # Errors
///
/// [`StoreError`] where the history cannot be read.
pub(crate) async fn reservation(context: &CellContext, number: u32) -> Result<Option<Reservation>, StoreError> {
    let (services, cell) = (&context.services, context.cell());
    let plan = &services.plan;
    let Some(cap) = plan.budget else { return Ok(None) };
    let model = &plan.models[cell.model].name;
    let history = services.store.cost_history(model, &plan.tasks[cell.task].id).await?;
    let exempt = is_exempt(plan, cell);
    let estimate = budget::estimate(&EstimateInputs {
        exempt,
        own_budget: plan.limits.cell_cost,
        history: budget::typical_cost(history),
        cap: Some(cap),
        total_cells: plan.cells.len(),
    });
    let (attempt, at) = (id(context, number), services.clock.now());
    Ok(Some(Reservation { attempt, estimate: estimate.amount, cap: Some(cap), exempt, at }))
}

/// Leaves a cell undecided for want of money, and says why.
///
/// # Errors
///
/// [`StoreError`] where that cannot be kept.
pub(crate) async fn skip(context: &CellContext, reason: &str) -> Result<(), StoreError> {
    let (services, cell) = (&context.services, context.cell());
    let plan = &services.plan;
    services.store.skip_cell(&plan.name, &cell.id, &plan.cell_key(cell), reason, services.clock.now()).await?;
    context.events.emit(EventKind::CellSkipped { cell: cell.id.clone(), reason: reason.to_owned() });
    Ok(())
}

fn id(context: &CellContext, number: u32) -> AttemptId {
    AttemptId { run: context.services.plan.name.clone(), cell: context.cell().id.clone(), number }
}
