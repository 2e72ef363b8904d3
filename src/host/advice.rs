//! What a plan can run with, and its author should know.

use std::collections::BTreeSet;

use crate::config::RunPlan;
use crate::script::check::asks_for_review;

/// Says what will hardly go as it was meant, a line each: sessions with `role = "review"` in a run whose models do not
/// provide for it. Only what stands in the runners in so many words is seen.
#[must_use]
pub fn advice(plan: &RunPlan) -> Vec<String> {
    let asking = plan.orchestrators.iter().enumerate().filter(|(_, entry)| {
        let runner = entry.manifest.read_file(&entry.manifest.runner);
        entry.manifest.is_lua() && runner.is_ok_and(|text| asks_for_review(&String::from_utf8_lossy(&text)))
    });
    asking.flat_map(|(index, entry)| reviews(plan, index, &entry.label)).collect()
}

fn reviews(plan: &RunPlan, orchestrator: usize, label: &str) -> Vec<String> {
    let cells = || plan.cells.iter().filter(|cell| cell.orchestrator == orchestrator);
    let asks = format!("orchestrator `{label}` asks for sessions with `role = \"review\"`");
    let mut lines = Vec::new();
    if cells().any(|cell| plan.reviewer(cell).is_none()) {
        lines.push(format!("{asks}, and no model of the run has it: they will raise; give a model `role: review`"));
    }
    let own: BTreeSet<&str> = cells()
        .filter_map(|cell| Some((cell.model, plan.reviewer(cell)?)))
        .map(|(model, reviewer)| (plan.models[model].name.as_str(), plan.models[reviewer].name.as_str()))
        .filter_map(|(model, reviewer)| (model == reviewer).then_some(model))
        .collect();
    for model in own {
        lines.push(format!(
            "{asks}, and in cells of model `{model}` no other model has it: it will review itself; give another model \
             `role: review`, or leave these cells out by `--only`"
        ));
    }
    lines
}
