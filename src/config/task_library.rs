//! The task library: all tasks below one folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::Task;

use super::diagnostic::{ConfigError, Diagnostic, Diagnostics, Warnings};
use super::document::Node;
use super::shape::{check, task as shape};
use super::source::{Source, Span, shown_path};
use super::task_file::{self, Places};
use super::{nearest, yaml};

/// Tasks by id, in the order of their files. Read it with [`TaskLibrary::load`].
#[derive(Debug, Default)]
pub struct TaskLibrary {
    entries: Vec<Entry>,
    by_id: BTreeMap<String, usize>,
    shown: String,
    warnings: Warnings,
}

#[derive(Debug)]
struct Entry {
    task: Task,
    node: Node,
    id_span: Span,
    places: Places,
}

impl TaskLibrary {
    /// Reads every `*.yaml` (and `*.yml`) of a folder and the `task.yaml` of every sub-folder, in the order of names.
    ///
    /// # Errors
    ///
    /// All that is wrong with any of the files, duplicate ids with both places, and a folder that does not exist.
    pub fn load(dir: &Path) -> Result<Self, ConfigError> {
        let mut out = Diagnostics::default();
        let mut library = Self { shown: shown_path(dir), ..Self::default() };
        for (file, is_folder) in files(dir)? {
            library.read(dir, &file, is_folder, &mut out);
        }
        if library.entries.is_empty() && !out.has_errors() {
            out.push(
                Diagnostic::error(format!("the task library `{}` holds no task", library.shown))
                    .in_file(&library.shown)
                    .hint("put `*.yaml` files with `tasks:` into it, or folders with a `task.yaml`"),
            );
        }
        library.warnings = out.finish()?;
        Ok(library)
    }

    /// Returns all tasks; their seeds are found only for tasks that a run selects.
    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.entries.iter().map(|entry| &entry.task)
    }

    pub(crate) fn warnings(&self) -> &[Diagnostic] {
        &self.warnings.0
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> + Clone {
        self.entries.iter().map(|entry| entry.task.id.as_str())
    }

    /// Returns a task with its seed, and the place of its id.
    pub(crate) fn select(&self, id: &str, out: &mut Diagnostics) -> Option<(Arc<Task>, Span)> {
        let entry = &self.entries[*self.by_id.get(id)?];
        let mut task = entry.task.clone();
        task.seed = task_file::seed(&entry.node, &entry.places, out);
        Some((Arc::new(task), entry.id_span.clone()))
    }

    pub(crate) fn unknown(&self, id: &str) -> Diagnostic {
        let mut hint = nearest::hint(id, self.ids());
        if !hint.starts_with("known") {
            hint = format!("{hint} ({})", nearest::listed(self.ids()));
        }
        Diagnostic::error(format!("there is no task `{id}` in `{}`", self.shown)).hint(hint)
    }

    fn read(&mut self, dir: &Path, file: &Path, is_folder: bool, out: &mut Diagnostics) {
        let parsed = Source::read(file).and_then(|source| yaml::parse(&source).map(|node| (source, node)));
        let (source, node) = match parsed {
            Ok(parsed) => parsed,
            Err(problem) => return out.push(problem),
        };
        let whole = Span::new(&source, 0..source.text().len());
        let own = source.base().to_path_buf();
        let places = Places { own: own.clone(), library: dir.to_path_buf(), is_folder };
        // A `task.yaml` is one task; with `tasks:` it is a list like any other file.
        if is_folder && node.get("tasks").is_none() {
            check::section(&node, &shape::TASK, &whole, out);
            self.add(node, Some(&own), &places, out);
            return;
        }
        check::section(&node, &shape::LIBRARY, &whole, out);
        for item in node.get("tasks").map(Node::items).unwrap_or_default() {
            self.add(item.clone(), is_folder.then_some(own.as_path()), &places, out);
        }
    }

    fn add(&mut self, node: Node, folder: Option<&Path>, places: &Places, out: &mut Diagnostics) {
        let task = task_file::decode(&node, folder, out);
        let Some(id_span) = node.get("id").filter(|_| !task.id.is_empty()).map(|id| id.span.clone()) else { return };
        if let Some(&first) = self.by_id.get(&task.id) {
            out.push(
                Diagnostic::error(format!("two tasks have the id `{}`", task.id))
                    .at(&id_span, "again here")
                    .also(&self.entries[first].id_span, "first here")
                    .hint("give one of them another id"),
            );
            return;
        }
        self.by_id.insert(task.id.clone(), self.entries.len());
        self.entries.push(Entry { task, node, id_span, places: places.clone() });
    }
}

/// Lists the files of a library, sorted by name; the flag tells a `task.yaml` in a sub-folder.
fn files(dir: &Path) -> Result<Vec<(PathBuf, bool)>, ConfigError> {
    let shown = shown_path(dir);
    let entries = std::fs::read_dir(dir).map_err(|error| {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => format!("the task library `{shown}` does not exist"),
            std::io::ErrorKind::NotADirectory => format!("the task library `{shown}` is not a folder"),
            _ => format!("cannot read the task library `{shown}`: {error}"),
        };
        Diagnostic::error(problem).in_file(&shown).hint("name its folder in `task_library_path`")
    })?;
    let mut found = Vec::new();
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if path.is_dir() {
            let task = ["task.yaml", "task.yml"].map(|name| path.join(name)).into_iter().find(|file| file.exists());
            found.extend(task.map(|file| (file, true)));
        } else if path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml") {
            found.push((path, false));
        }
    }
    found.sort();
    Ok(found)
}
