//! What makes two cells the same work: a digest over what they mean, and over nothing else.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value as Json;

use crate::domain::cell::Cell;
use crate::domain::task::{HiddenTests, Seed};
use crate::domain::{CellKey, Model, Task};

use super::content_hash::{self, part};
use super::harness_manifest::ConfigKind;
use super::plan::{HarnessEntry, OrchestratorEntry, RunPlan};

/// Begins every key; a change of what is hashed changes it.
const VERSION: &str = "refrain cell key 1";

/// Fields of a task that say nothing about the work, and those that are hashed by content instead.
const NOT_WORK: &[&str] = &["id", "name", "description", "difficulty", "metadata", "source", "seed", "hidden"];

type Digest = [u8; 32];

/// The digest of each coordinate, computed when it is first asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyCache {
    harnesses: Vec<OnceLock<Digest>>,
    models: Vec<OnceLock<Digest>>,
    tasks: Vec<OnceLock<Digest>>,
    orchestrators: Vec<OnceLock<Digest>>,
}

impl KeyCache {
    /// Makes room for the coordinates of a plan.
    pub(crate) fn sized(harnesses: usize, models: usize, tasks: usize, orchestrators: usize) -> Self {
        let empty = |count| vec![OnceLock::new(); count];
        Self {
            harnesses: empty(harnesses),
            models: empty(models),
            tasks: empty(tasks),
            orchestrators: empty(orchestrators),
        }
    }
}

/// Computes the key of a cell.
pub(crate) fn of(plan: &RunPlan, cell: &Cell) -> CellKey {
    let keys = &plan.keys;
    let mut hasher = blake3::Hasher::new();
    part(&mut hasher, VERSION.as_bytes());
    coordinate(&mut hasher, &keys.harnesses, cell.harness, &plan.harnesses, harness);
    coordinate(&mut hasher, &keys.models, cell.model, &plan.models, model);
    if let Some(review) = cell.review_model {
        coordinate(&mut hasher, &keys.models, review, &plan.models, model);
    }
    part(&mut hasher, if cell.review_model.is_some() { b"reviewed" } else { b"alone" });
    coordinate(&mut hasher, &keys.tasks, cell.task, &plan.tasks, |entry| task(entry));
    coordinate(&mut hasher, &keys.orchestrators, cell.orchestrator, &plan.orchestrators, orchestrator);
    CellKey::new(hasher.finalize().to_hex().to_string())
}

fn coordinate<T>(
    hasher: &mut blake3::Hasher,
    cache: &[OnceLock<Digest>],
    index: usize,
    all: &[T],
    digest: impl Fn(&T) -> Digest,
) {
    let Some(item) = all.get(index) else { return };
    match cache.get(index) {
        Some(slot) => part(hasher, slot.get_or_init(|| digest(item))),
        None => part(hasher, &digest(item)),
    }
}

fn harness(entry: &HarnessEntry) -> Digest {
    let mut hasher = blake3::Hasher::new();
    part(&mut hasher, entry.manifest.hash.as_bytes());
    part(&mut hasher, entry.version.as_deref().unwrap_or("").as_bytes());
    part(&mut hasher, entry.image.as_deref().unwrap_or("").as_bytes());
    for (name, value) in &entry.config {
        part(&mut hasher, name.as_bytes());
        let is_path = entry.manifest.config.get(name).is_some_and(|field| field.kind == ConfigKind::Path);
        match value.as_str().filter(|_| is_path) {
            // Where a file lies is no part of the work; what it says is.
            Some(path) => part(&mut hasher, content(Path::new(path)).as_bytes()),
            None => part(&mut hasher, value.to_string().as_bytes()),
        }
    }
    *hasher.finalize().as_bytes()
}

fn model(entry: &Model) -> Digest {
    let mut hasher = blake3::Hasher::new();
    part(&mut hasher, entry.name.as_bytes());
    part(&mut hasher, entry.provider.as_bytes());
    part(&mut hasher, Json::Object(entry.config.clone()).to_string().as_bytes());
    *hasher.finalize().as_bytes()
}

fn orchestrator(entry: &OrchestratorEntry) -> Digest {
    let mut hasher = blake3::Hasher::new();
    part(&mut hasher, entry.manifest.hash.as_bytes());
    part(&mut hasher, entry.manifest.runner.as_bytes());
    // Parameters serialize: a map of plain values always does.
    part(&mut hasher, serde_json::to_string(&entry.params).unwrap_or_default().as_bytes());
    *hasher.finalize().as_bytes()
}

fn task(task: &Task) -> Digest {
    let mut hasher = blake3::Hasher::new();
    if let Ok(Json::Object(fields)) = serde_json::to_value(task) {
        for (name, value) in fields {
            let unset = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            // What is not set is left out, so that a field added later changes no key.
            if !unset && !NOT_WORK.contains(&name.as_str()) {
                part(&mut hasher, name.as_bytes());
                part(&mut hasher, value.to_string().as_bytes());
            }
        }
    }
    let seed = match &task.seed {
        Seed::Empty => "empty".to_owned(),
        Seed::Directory { path } => content(path),
        Seed::Git { path, commit } => format!("git {}", commit.clone().unwrap_or_else(|| git_head(path))),
        Seed::Url { url, commit } => format!("url {url} {}", commit.as_deref().unwrap_or("HEAD")),
    };
    part(&mut hasher, seed.as_bytes());
    let hidden = match &task.hidden {
        HiddenTests::None => "none".to_owned(),
        HiddenTests::Patch { patch } => format!("patch {patch}"),
        HiddenTests::Overlay { path } => content(path),
    };
    part(&mut hasher, hidden.as_bytes());
    *hasher.finalize().as_bytes()
}

/// The digest of a file or folder; one that cannot be read fails later, where it is used.
fn content(path: &Path) -> String {
    content_hash::of_path(path).unwrap_or_else(|error| format!("unreadable: {:?}", error.kind()))
}

/// The commit that a repository's `HEAD` means, read without running git.
fn git_head(repository: &Path) -> String {
    let git = git_dir(repository);
    let Ok(head) = std::fs::read_to_string(git.join("HEAD")) else { return "unreadable".to_owned() };
    let head = head.trim();
    let Some(reference) = head.strip_prefix("ref: ") else { return head.to_owned() };
    // A linked work tree keeps its branches in the main repository.
    let shared =
        std::fs::read_to_string(git.join("commondir")).map_or_else(|_| git.clone(), |common| git.join(common.trim()));
    if let Ok(commit) = std::fs::read_to_string(shared.join(reference)) {
        return commit.trim().to_owned();
    }
    let packed = std::fs::read_to_string(shared.join("packed-refs")).unwrap_or_default();
    let commit = packed.lines().find_map(|line| line.strip_suffix(reference)?.strip_suffix(' '));
    commit.map_or_else(|| format!("unborn {reference}"), str::to_owned)
}

fn git_dir(repository: &Path) -> std::path::PathBuf {
    let inner = repository.join(".git");
    if let Ok(pointer) = std::fs::read_to_string(&inner)
        && let Some(target) = pointer.trim().strip_prefix("gitdir: ")
    {
        return repository.join(target);
    }
    if inner.is_dir() { inner } else { repository.to_path_buf() }
}

#[cfg(test)]
#[path = "cell_key/tests.rs"]
mod tests;
