//! Work that people have scored: what a judge is calibrated by. A folder with a folder for each example.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::{Rubric, Task};

use super::diagnostic::{ConfigError, Diagnostic, Diagnostics};
use super::document::Node;
use super::plan::RunPlan;
use super::shape::{check, task as shape};
use super::source::{Source, Span, shown_path};
use super::{nearest, task_file, yaml};

/// The file that makes a folder an example.
const FILE: &str = "example.yaml";

/// The diff of an example that names none.
const DIFF: &str = "candidate.diff";

/// The most bytes of a file beside an example.
const MOST: u64 = 16 << 20;

/// Work on a task, and what people think of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// The name of its folder.
    pub name: String,
    /// The task, one of the run's with a rubric.
    pub task: Arc<Task>,
    /// The work.
    pub diff: String,
    /// What was checked without a judge.
    pub checked: Vec<String>,
    /// The files that the rubric chooses, as the work left them: those below `files/`.
    pub files: Vec<(String, Option<String>)>,
    /// Points, in the order of the rubric's criteria.
    pub scores: Vec<f64>,
}

/// Reads the examples below a folder, for the tasks of a run.
///
/// # Errors
///
/// All that is wrong with any of them, and a folder without any.
pub fn examples(dir: &Path, plan: &RunPlan) -> Result<Vec<Example>, ConfigError> {
    let (mut found, mut out) = (Vec::new(), Diagnostics::default());
    for folder in folders(dir)? {
        found.extend(example(&folder, plan, &mut out));
    }
    out.finish()?;
    Ok(found)
}

fn folders(dir: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let shown = shown_path(dir);
    let entries = std::fs::read_dir(dir).map_err(|error| {
        Diagnostic::error(format!("cannot read the examples in `{shown}`: {error}"))
            .in_file(&shown)
            .hint("name a folder that holds a folder for each example")
    })?;
    let mut folders: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    folders.retain(|folder| folder.join(FILE).is_file());
    folders.sort();
    if folders.is_empty() {
        let error = Diagnostic::error(format!("`{shown}` holds no example"));
        return Err(error.in_file(&shown).hint(format!("put folders with an `{FILE}` into it")).into());
    }
    Ok(folders)
}

fn example(folder: &Path, plan: &RunPlan, out: &mut Diagnostics) -> Option<Example> {
    let parsed = Source::read(&folder.join(FILE)).and_then(|source| yaml::parse(&source).map(|node| (source, node)));
    let (source, node) = match parsed {
        Ok(parsed) => parsed,
        Err(problem) => {
            out.push(problem);
            return None;
        }
    };
    let before = out.count();
    check::section(&node, &shape::EXAMPLE, &Span::new(&source, 0..source.text().len()), out);
    if out.count() > before {
        return None;
    }
    let task = task(&node, plan, out)?;
    let rubric = task.rubric.as_ref()?;
    let scores = scores(&node, rubric, out)?;
    let before = out.count();
    let work = match node.get("diff") {
        Some(_) => task_file::text_or_file(&node, "diff", out),
        None => beside(folder, DIFF),
    };
    let Some(diff) = work.filter(|diff| !diff.trim().is_empty()) else {
        // What cannot be read has been told.
        if out.count() == before {
            out.push(
                Diagnostic::error("the example has no work")
                    .at(&node.span, format!("no `diff`, and no `{DIFF}` beside it"))
                    .hint("add the diff of the work from the tree that the task starts with"),
            );
        }
        return None;
    };
    let files = rubric.files.iter().map(|path| (path.clone(), beside(&folder.join("files"), path)));
    Some(Example {
        name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        diff,
        checked: node.texts_of("checked"),
        files: files.collect(),
        scores,
        task,
    })
}

/// Finds the example's task among those of the run that have a rubric.
fn task(node: &Node, plan: &RunPlan, out: &mut Diagnostics) -> Option<Arc<Task>> {
    let named = node.get("task")?;
    let id = named.text()?;
    let judged = || plan.tasks.iter().filter(|task| plan.judge_of(task).is_some());
    let found = judged().find(|task| task.id == id).cloned();
    if found.is_none() {
        out.push(
            Diagnostic::error(format!("the run has no task `{id}` that its judge scores"))
                .at(&named.span, "not a task of the run with a rubric")
                .hint(nearest::hint(id, judged().map(|task| task.id.as_str()))),
        );
    }
    found
}

fn scores(node: &Node, rubric: &Rubric, out: &mut Diagnostics) -> Option<Vec<f64>> {
    let given = node.get("scores")?;
    let before = out.count();
    for entry in given.entries() {
        if !rubric.criteria.iter().any(|criterion| criterion.name == entry.key) {
            let names = rubric.criteria.iter().map(|criterion| criterion.name.as_str());
            out.push(
                Diagnostic::error(format!("the rubric has no criterion `{}`", entry.key))
                    .at(&entry.key_span, "scored here")
                    .hint(nearest::hint(&entry.key, names)),
            );
        }
    }
    let mut scores = Vec::with_capacity(rubric.criteria.len());
    for criterion in &rubric.criteria {
        let (name, most) = (&criterion.name, criterion.points);
        let value = given.get(name);
        match value.and_then(Node::number).filter(|points| (0.0..=f64::from(most)).contains(points)) {
            Some(points) => scores.push(points),
            None => out.push(
                Diagnostic::error(format!("criterion `{name}` has no score from 0 to {most}"))
                    .at(&value.unwrap_or(given).span, "expected a number of points"),
            ),
        }
    }
    (out.count() == before).then_some(scores)
}

/// Reads a file beside an example.
fn beside(folder: &Path, name: &str) -> Option<String> {
    let path = folder.join(name);
    std::fs::metadata(&path).ok().filter(|found| found.is_file() && found.len() <= MOST)?;
    Some(String::from_utf8_lossy(&std::fs::read(&path).ok()?).into_owned())
}
