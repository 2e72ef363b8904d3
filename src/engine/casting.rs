//! Who holds a session: which model and which harness, by what a script asks and what the cell has.

use std::sync::Arc;

use super::world::Attempt;
use crate::domain::{Model, ModelRole};
use crate::harness::Harness;
use crate::script::port::SessionCall;

/// Chooses the model, and tells the role that it was chosen by.
pub(crate) fn choose_model(attempt: &Attempt, call: &SessionCall) -> Result<(Model, Option<ModelRole>), String> {
    let (plan, here) = (&attempt.context.services.plan, attempt.context.cell());
    if let Some(name) = &call.model {
        let names = || plan.models.iter().map(|model| model.name.as_str()).collect::<Vec<_>>().join(", ");
        let declared = plan.models.iter().find(|model| model.name == *name);
        let unknown = || format!("the run has no model `{name}`; it has: {}", names());
        return declared.cloned().map(|model| (model, None)).ok_or_else(unknown);
    }
    let role = match &call.role {
        None => ModelRole::Implementation,
        Some(role) => ModelRole::parse(role)
            .ok_or_else(|| format!("`{role}` is no role; roles are `implementation` and `review`"))?,
    };
    let index = match role {
        ModelRole::Implementation => here.model,
        ModelRole::Review => plan.reviewer(here).ok_or_else(|| {
            "the run declares no model with `role: review`; declare one, or leave the option `role` out".to_owned()
        })?,
    };
    Ok((plan.models[index].clone(), Some(role)))
}

/// Says so where a review comes to the model that the cell works with: it would judge its own work.
pub(crate) fn own_reviewer(attempt: &Attempt, model: &Model, role: Option<ModelRole>) -> Option<String> {
    let own = &attempt.context.services.plan.models[attempt.context.cell().model].name;
    (role == Some(ModelRole::Review) && model.name == *own).then(|| {
        format!(
            "role `review` came to the cell's own model `{own}`: declare another model with `role: review` before it"
        )
    })
}

/// Chooses the harness.
pub(crate) fn choose_harness(attempt: &Attempt, call: &SessionCall) -> Result<Arc<dyn Harness>, String> {
    let services = &attempt.context.services;
    let Some(name) = &call.harness else {
        return Ok(Arc::clone(&services.harnesses[attempt.context.cell().harness]));
    };
    services.harnesses.iter().find(|harness| harness.name() == name).cloned().ok_or_else(|| {
        let known: Vec<_> = services.harnesses.iter().map(|harness| harness.name()).collect();
        format!("the run has no harness `{name}`; it has: {}", known.join(", "))
    })
}
