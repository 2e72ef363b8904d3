//! Money of a run: who pays, and admission before an attempt starts. Settlement is part of storing its end.

use super::error::EngineError;
use super::services::CellContext;
use crate::budget::{self, EstimateInputs};
use crate::config::RunPlan;
use crate::domain::cell::Cell;
use crate::domain::{AttemptId, Micros};
use crate::store::{Admission, Reservation};

/// Tells whether a cell's cost stays off the budget.
pub(crate) fn is_exempt(plan: &RunPlan, cell: &Cell) -> bool {
    let mode = |index: usize| plan.models[index].cost_mode;
    budget::is_exempt(mode(cell.model), cell.review_model.map(mode), plan.tasks[cell.task].track)
}

/// Returns the part of a cost that counts against the budget; an unknown cost stays unknown.
pub(crate) fn billable(plan: &RunPlan, cell: &Cell, cost: Option<Micros>) -> Option<Micros> {
    if is_exempt(plan, cell) { Some(Micros::ZERO) } else { cost }
}

/// Reserves what an attempt will probably cost. The inner error is the reason why it may not start.
///
/// # Errors
///
/// [`EngineError::Store`] where the ledger cannot be read or written.
pub(crate) async fn admit(context: &CellContext, number: u32) -> Result<Result<(), String>, EngineError> {
    let (services, cell) = (&context.services, context.cell());
    let plan = &services.plan;
    let Some(cap) = plan.budget else { return Ok(Ok(())) };
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
    let attempt = AttemptId { run: plan.name.clone(), cell: cell.id.clone(), number };
    let at = services.clock.now();
    let request = Reservation { attempt, estimate: estimate.amount, cap: Some(cap), exempt, at };
    match services.store.reserve(&request).await? {
        Admission::Admitted => Ok(Ok(())),
        refused @ Admission::Refused { .. } => {
            let reason = refused.to_string();
            services.store.skip_cell(&plan.name, &cell.id, &plan.cell_key(cell), &reason, at).await?;
            Ok(Err(reason))
        }
    }
}
