//! What makes two cells the same work: digests over what they mean, and over nothing else. One for each part, so that a
//! difference can be named.

use std::path::Path;
use std::sync::OnceLock;

use serde_json::Value as Json;

use crate::domain::cell::Cell;
use crate::domain::task::{HiddenTests, Seed};
use crate::domain::{CellKey, KeyPart, Model, Task};

use super::content_hash::{self, part};
use super::harness_manifest::ConfigKind;
use super::plan::{HarnessEntry, OrchestratorEntry, RunPlan};

/// Begins every key; a change of how parts are hashed changes it.
const VERSION: &str = "v2";

/// Fields of a task that say nothing about the work, and those that are hashed by content instead.
const NOT_WORK: &[&str] = &["id", "name", "description", "difficulty", "metadata", "source", "seed", "hidden"];

/// Fields of a task by the part of the key that they belong to; all others belong to [`KeyPart::TaskSettings`].
const TASK_PARTS: &[(&str, KeyPart)] = &[
    ("prompt", KeyPart::Prompt),
    ("phases", KeyPart::Prompt),
    ("checks", KeyPart::Checks),
    ("test_command", KeyPart::Tests),
    ("fail_to_pass", KeyPart::Tests),
    ("pass_to_pass", KeyPart::Tests),
    ("expected_files", KeyPart::Tests),
    ("rubric", KeyPart::Tests),
    ("evaluate", KeyPart::Tests),
    ("mutation", KeyPart::Workspace),
    ("setup_script", KeyPart::Workspace),
];

/// The parts of the key that one coordinate makes, as they stand in it.
type Parts = String;

/// The parts of each coordinate, computed when they are first asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeyCache {
    harnesses: Vec<OnceLock<Parts>>,
    models: Vec<OnceLock<Parts>>,
    tasks: Vec<OnceLock<Parts>>,
    orchestrators: Vec<OnceLock<Parts>>,
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
    let mut key = VERSION.to_owned();
    coordinate(&mut key, &keys.harnesses, cell.harness, &plan.harnesses, harness);
    coordinate(&mut key, &keys.models, cell.model, &plan.models, |entry| model(entry, KeyPart::Model));
    if let Some(review) = cell.review_model.and_then(|index| plan.models.get(index)) {
        key.push_str(&model(review, KeyPart::ReviewModel));
    }
    coordinate(&mut key, &keys.tasks, cell.task, &plan.tasks, |entry| task(entry));
    coordinate(&mut key, &keys.orchestrators, cell.orchestrator, &plan.orchestrators, orchestrator);
    CellKey::new(key)
}

fn coordinate<T>(key: &mut String, cache: &[OnceLock<Parts>], index: usize, all: &[T], parts: impl Fn(&T) -> Parts) {
    let Some(item) = all.get(index) else { return };
    match cache.get(index) {
        Some(slot) => key.push_str(slot.get_or_init(|| parts(item))),
        None => key.push_str(&parts(item)),
    }
}

/// Writes a part: its letter, and the first half of a half of its digest. Chance does not make two of these equal, and
/// nobody gains by forging one.
fn written(which: KeyPart, hasher: &blake3::Hasher) -> String {
    format!(" {}{}", which.letter(), &hasher.finalize().to_hex()[..16])
}

fn digest_of<'a>(values: impl IntoIterator<Item = &'a [u8]>) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    values.into_iter().for_each(|value| part(&mut hasher, value));
    hasher
}

fn harness(entry: &HarnessEntry) -> Parts {
    let mut config = blake3::Hasher::new();
    for (name, value) in &entry.config {
        part(&mut config, name.as_bytes());
        let is_path = entry.manifest.config.get(name).is_some_and(|field| field.kind == ConfigKind::Path);
        match value.as_str().filter(|_| is_path) {
            // Where a file lies is no part of the work; what it says is.
            Some(path) => part(&mut config, content(Path::new(path)).as_bytes()),
            None => part(&mut config, value.to_string().as_bytes()),
        }
    }
    let text = |text: &Option<String>| digest_of([text.as_deref().unwrap_or("").as_bytes()]);
    written(KeyPart::Harness, &digest_of([entry.manifest.hash.as_bytes()]))
        + &written(KeyPart::HarnessVersion, &text(&entry.version))
        + &written(KeyPart::Image, &text(&entry.image))
        + &written(KeyPart::HarnessConfig, &config)
}

fn model(entry: &Model, which: KeyPart) -> Parts {
    let config = Json::Object(entry.config.clone()).to_string();
    written(which, &digest_of([entry.name.as_bytes(), entry.provider.as_bytes(), config.as_bytes()]))
}

fn orchestrator(entry: &OrchestratorEntry) -> Parts {
    // Parameters serialize: a map of plain values always does.
    let params = serde_json::to_string(&entry.params).unwrap_or_default();
    let manifest = &entry.manifest;
    written(KeyPart::Orchestrator, &digest_of([manifest.hash.as_bytes(), manifest.runner.as_bytes()]))
        + &written(KeyPart::Params, &digest_of([params.as_bytes()]))
}

fn task(task: &Task) -> Parts {
    let parts = [KeyPart::Prompt, KeyPart::Workspace, KeyPart::Checks, KeyPart::Tests, KeyPart::TaskSettings];
    let mut hashers = parts.map(|which| (which, blake3::Hasher::new()));
    let mut add = |which: KeyPart, name: &str, value: &str| {
        if let Some((_, hasher)) = hashers.iter_mut().find(|(part, _)| *part == which) {
            part(hasher, name.as_bytes());
            part(hasher, value.as_bytes());
        }
    };
    if let Ok(Json::Object(fields)) = serde_json::to_value(task) {
        for (name, value) in fields {
            let unset = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
            // What is not set is left out, so that a field added later changes no key.
            if !unset && !NOT_WORK.contains(&name.as_str()) {
                let which = TASK_PARTS.iter().find(|(field, _)| *field == name);
                add(which.map_or(KeyPart::TaskSettings, |(_, part)| *part), &name, &value.to_string());
            }
        }
    }
    let seed = match &task.seed {
        Seed::Empty => "empty".to_owned(),
        Seed::Directory { path } => content(path),
        Seed::Git { path, commit } => format!("git {}", commit.clone().unwrap_or_else(|| git_head(path))),
        // Which image it is stands in the harness's part.
        Seed::Image { path } => format!("image {}", path.display()),
        Seed::Url { url, commit } => format!("url {url} {}", commit.as_deref().unwrap_or("HEAD")),
    };
    add(KeyPart::Workspace, "seed", &seed);
    let hidden = match &task.hidden {
        HiddenTests::None => "none".to_owned(),
        HiddenTests::Patch { patch } => format!("patch {patch}"),
        HiddenTests::Overlay { path } => content(path),
    };
    add(KeyPart::Tests, "hidden", &hidden);
    hashers.iter().map(|(which, hasher)| written(*which, hasher)).collect()
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
