//! Harnesses × models × tasks × orchestrators × repeats, in a stable order.

use std::collections::HashSet;
use std::sync::Arc;

use crate::domain::cell::{Cell, CellId};
use crate::domain::model::ModelRole;
use crate::domain::{Model, Task, Track};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::orchestrator_manifest::Origin;
use super::plan::{HarnessEntry, OrchestratorEntry};
use super::source::Span;

/// The most cells of a run.
const MAX_CELLS: usize = 1_000_000;

/// The coordinates, and where the file names each of them.
#[derive(Debug)]
pub(crate) struct Axes<'p> {
    pub(crate) harnesses: &'p [HarnessEntry],
    pub(crate) models: &'p [Model],
    pub(crate) models_span: &'p Span,
    pub(crate) tasks: &'p [(Arc<Task>, Span)],
    pub(crate) orchestrators: &'p [OrchestratorEntry],
    /// Shorter than the list where an orchestrator was added that the file does not name.
    pub(crate) orchestrator_spans: &'p [Span],
    /// Whether the run names orchestrators; else each task runs under its track's own.
    pub(crate) explicit: bool,
    pub(crate) repeats: u32,
}

impl OrchestratorEntry {
    /// Tells whether this is what runs on a track where a run names nothing.
    #[must_use]
    pub fn is_default_of(&self, track: Track) -> bool {
        self.label == track.default_orchestrator()
            && self.manifest.slug == self.label
            && self.manifest.origin == Origin::Builtin
    }

    /// Tells whether a run means "each track's own" by it: a plain `one-shot`, which for tasks with phases is `phases`.
    pub(crate) fn stands_for_default(&self) -> bool {
        self.is_default_of(Track::Swe)
    }
}

/// Expands the matrix: harness, model, review model, task, orchestrator, repeat.
pub(crate) fn expand(axes: &Axes<'_>, out: &mut Diagnostics) -> Vec<Cell> {
    let pairs: Vec<Vec<Pair>> = axes.tasks.iter().map(|(task, place)| pairs(axes, task, place, out)).collect();
    let scripts: Vec<Vec<usize>> = axes.tasks.iter().map(|(task, place)| scripts(axes, task, place, out)).collect();
    let coordinates: usize = pairs.iter().zip(&scripts).map(|(pairs, scripts)| pairs.len() * scripts.len()).sum();
    let total = coordinates.saturating_mul(axes.harnesses.len()).saturating_mul(axes.repeats as usize);
    if total > MAX_CELLS {
        out.push(
            Diagnostic::error(format!("the run has {total} cells, more than {MAX_CELLS}"))
                .at(axes.models_span, "times harnesses, tasks, orchestrators and repeats")
                .hint("split it into several runs"),
        );
        return Vec::new();
    }
    let mut order: Vec<Pair> = pairs.iter().flatten().copied().collect();
    order.sort_unstable();
    order.dedup();
    let mut cells = Vec::with_capacity(total);
    for harness in 0..axes.harnesses.len() {
        for pair in &order {
            for task in (0..axes.tasks.len()).filter(|&task| pairs[task].binary_search(pair).is_ok()) {
                for &script in &scripts[task] {
                    for repeat in 1..=axes.repeats {
                        cells.push(cell(axes, harness, *pair, task, script, repeat));
                    }
                }
            }
        }
    }
    refuse_duplicates(axes, &cells, out);
    cells
}

/// An implementation model and the model that reviews it.
type Pair = (usize, Option<usize>);

/// The pairs of models that a task runs with, sorted.
fn pairs(axes: &Axes<'_>, task: &Task, place: &Span, out: &mut Diagnostics) -> Vec<Pair> {
    let with_role = |role| {
        let models = axes.models.iter().enumerate();
        models.filter(move |(_, model)| model.role == role).map(|(index, _)| index).collect::<Vec<_>>()
    };
    if task.track != Track::MultiPhase {
        // A model that is declared for both roles still runs such a task once.
        let first = |index: usize| axes.models[..index].iter().all(|model| model.name != axes.models[index].name);
        return (0..axes.models.len()).filter(|&index| first(index)).map(|index| (index, None)).collect();
    }
    let implementation = with_role(ModelRole::Implementation);
    let review = with_role(ModelRole::Review);
    let needs_review = task.has_review_phase();
    for (missing, role) in
        [(implementation.is_empty(), ModelRole::Implementation), (needs_review && review.is_empty(), ModelRole::Review)]
    {
        if missing && !axes.models.is_empty() {
            out.push(
                Diagnostic::error(format!("task `{}` needs a model with the role `{role}`", task.id))
                    .at(axes.models_span, "no model here has that role")
                    .also(place, "needed by this task")
                    .hint(format!("give a model `role: {role}`, or leave the task out")),
            );
        }
    }
    if !needs_review {
        return implementation.into_iter().map(|index| (index, None)).collect();
    }
    implementation.iter().flat_map(|&index| review.iter().map(move |&reviewer| (index, Some(reviewer)))).collect()
}

/// The orchestrators that a task runs under.
fn scripts(axes: &Axes<'_>, task: &Task, place: &Span, out: &mut Diagnostics) -> Vec<usize> {
    let own = axes.orchestrators.iter().position(|entry| entry.is_default_of(task.track));
    if !axes.explicit {
        let named = || axes.orchestrators.iter().position(|entry| entry.label == task.track.default_orchestrator());
        return own.or_else(named).into_iter().collect();
    }
    let mut scripts: Vec<usize> = Vec::new();
    for (index, entry) in axes.orchestrators.iter().enumerate() {
        let listed = axes.orchestrator_spans.get(index).is_some();
        let stands_in = entry.stands_for_default() && !entry.is_default_of(task.track);
        let index = if stands_in { own.unwrap_or(index) } else { index };
        if listed && !scripts.contains(&index) {
            scripts.push(index);
        }
    }
    if !task.multi_session {
        for &index in scripts.iter().filter(|&&index| !axes.orchestrators[index].is_default_of(task.track)) {
            let span = axes.orchestrator_spans.get(index).unwrap_or(axes.models_span);
            out.push(
                Diagnostic::error(format!(
                    "task `{}` does not allow orchestrator `{}`",
                    task.id, axes.orchestrators[index].label
                ))
                .at(span, "may hold several sessions")
                .also(place, "this task says `multi_session: false`")
                .hint(format!(
                    "leave one of them out: such a task runs under `{}` only",
                    task.track.default_orchestrator()
                )),
            );
        }
    }
    scripts
}

fn cell(axes: &Axes<'_>, harness: usize, (model, review): Pair, task: usize, script: usize, repeat: u32) -> Cell {
    let entry = &axes.orchestrators[script];
    let of_task = &axes.tasks[task].0;
    let label = (!entry.is_default_of(of_task.track)).then_some(entry.label.as_str());
    let id = CellId::build(
        &axes.harnesses[harness].name,
        &axes.models[model].name,
        &of_task.id,
        repeat,
        review.map(|index| axes.models[index].name.as_str()),
        label,
    );
    Cell { id, harness, model, review_model: review, task, orchestrator: script, repeat }
}

/// Ids that meet would share results: names with `__` inside can bring that about.
fn refuse_duplicates(axes: &Axes<'_>, cells: &[Cell], out: &mut Diagnostics) {
    let mut seen: HashSet<&CellId> = HashSet::with_capacity(cells.len());
    if let Some(cell) = cells.iter().find(|cell| !seen.insert(&cell.id)) {
        out.push(
            Diagnostic::error(format!("two cells have the id `{}`", cell.id))
                .at(&axes.tasks[cell.task].1, "makes the second of them")
                .hint("rename one of the harnesses, models, tasks or labels: `__` separates the parts of an id"),
        );
    }
}

#[cfg(test)]
#[path = "matrix/tests.rs"]
mod tests;
