//! Prepares what the workspaces of a task start from, once for all its cells.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::{fs, io};

use tokio::sync::OnceCell;

use super::remote::Remotes;
use super::snapshot::Snapshot;
use super::source::{SourceError, copy_directory, copy_fetched, export_commit};
use super::{WorkspaceError, blocking, git, leftovers, template};
use crate::domain::Task;
use crate::domain::task::Seed;
use crate::runtime::{Environment, RuntimeError};

/// What the workspaces of a task start from. All of it lies on the host, out of an agent's reach, and never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seeded {
    /// The folder with the files, mutation applied, without `.git`.
    pub tree: PathBuf,
    /// A `.git` folder with one commit of these files, for copying.
    pub git_template: PathBuf,
    /// What the tree holds.
    pub baseline: Arc<Snapshot>,
    /// The id of the one commit; equal for equal files, at any time on any host.
    pub base_commit: String,
    /// What a user should know: submodules left empty, sockets left out.
    pub notes: Vec<String>,
}

/// Where clones lie in the folder.
const CLONES: &str = "clones";

type Slot = Arc<OnceCell<Result<Arc<Seeded>, WorkspaceError>>>;

/// The seeds that have been prepared, in a folder that several processes may share.
///
/// Each process prepares a task once, whatever changed since another did, and everybody who asks meanwhile waits for
/// that. Equal trees lie in the folder once; they appear in it complete or not at all.
#[derive(Debug)]
pub struct SeedCache {
    dir: PathBuf,
    slots: Mutex<HashMap<String, Slot>>,
    remotes: Arc<Remotes>,
    /// Tells other processes that this one works in the folder.
    entered: OnceCell<Option<fs::File>>,
}

impl SeedCache {
    /// Makes a cache in a folder, which is created when it is first needed.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        Self {
            remotes: Arc::new(Remotes::new(dir.join(CLONES))),
            dir,
            slots: Mutex::default(),
            entered: OnceCell::new(),
        }
    }

    /// Returns the task's seed with its mutation, prepared now or before.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Seed`] and [`WorkspaceError::Mutation`] where the task is at fault; they are remembered. Any
    /// other error is shared by those who wait for it, and the next caller tries again.
    pub async fn prepare(&self, task: &Task) -> Result<Arc<Seeded>, WorkspaceError> {
        self.prepared(task, None).await
    }

    /// The same for a task that may live in the image of an environment: each image is read once.
    ///
    /// # Errors
    ///
    /// As for [`SeedCache::prepare`].
    pub async fn prepare_in(&self, task: &Task, env: &dyn Environment) -> Result<Arc<Seeded>, WorkspaceError> {
        self.prepared(task, Some(env)).await
    }

    async fn prepared(&self, task: &Task, env: Option<&dyn Environment>) -> Result<Arc<Seeded>, WorkspaceError> {
        let key = key(task, env);
        let slot = match self.slots.lock() {
            Ok(mut slots) => Arc::clone(slots.entry(key.clone()).or_default()),
            Err(_) => return Err(WorkspaceError::Interrupted),
        };
        let result = slot.get_or_init(|| self.build(task, env)).await.clone();
        if result.as_ref().is_err_and(|error| !error.is_configuration())
            && let Ok(mut slots) = self.slots.lock()
            && slots.get(&key).is_some_and(|current| Arc::ptr_eq(current, &slot))
        {
            slots.remove(&key);
        }
        result
    }

    async fn build(&self, task: &Task, env: Option<&dyn Environment>) -> Result<Arc<Seeded>, WorkspaceError> {
        let (dir, clones) = (self.dir.clone(), self.dir.join(CLONES));
        self.entered.get_or_try_init(|| blocking(move || leftovers::enter(&dir, &clones))).await?;
        let source = match &task.seed {
            Seed::Url { url, commit } => {
                let fetched = self.remotes.fetch(url, commit.as_deref()).await;
                let (path, commit) = fetched.map_err(|error| of_task(task, error))?;
                Source::Task(Seed::Git { path, commit: Some(commit) })
            }
            Seed::Image { path } => self.fetch(task, path, env).await?,
            other => Source::Task(other.clone()),
        };
        let (dir, id, mutation) = (self.dir.clone(), task.id.clone(), task.mutation.clone());
        blocking(move || build_in(&dir, &id, source, mutation.as_deref())).await.map(Arc::new)
    }

    /// Takes a folder out of an environment's image.
    async fn fetch(&self, task: &Task, path: &Path, env: Option<&dyn Environment>) -> Result<Source, WorkspaceError> {
        let wrong = |message: String| WorkspaceError::Seed { task: task.id.clone(), message };
        let env = env.ok_or_else(|| wrong(format!("`{}` is in an image, and there is none", path.display())))?;
        let temp = tempfile::Builder::new().prefix(leftovers::BUILDING).tempdir_in(&self.dir);
        let temp = temp.map_err(|e| WorkspaceError::file("create", &self.dir, e))?;
        match env.get_from_image(path, temp.path()).await {
            Ok(notes) => Ok(Source::Fetched { temp, notes }),
            Err(RuntimeError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => Err(wrong(format!(
                "the image has no folder `{}`; name another one with `workspace`, or another image with `docker_image`",
                path.display()
            ))),
            Err(RuntimeError::File { source, .. })
                if matches!(source.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::InvalidInput) =>
            {
                Err(wrong(format!("`{}` of the image: {source}", path.display())))
            }
            Err(RuntimeError::Unavailable { message, hint }) => Err(wrong(format!("{message}; {hint}"))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Tasks of one name in two libraries, or a task that was changed, are not the same work.
fn key(task: &Task, env: Option<&dyn Environment>) -> String {
    let seed = serde_json::to_string(&task.seed).unwrap_or_default();
    let image = env.and_then(Environment::image).filter(|_| task.seed.image_folder().is_some());
    let (image, mutation) = (image.unwrap_or_default(), task.mutation.as_deref().unwrap_or_default());
    format!("{}\0{seed}\0{image}\0{mutation}", task.id)
}

/// What a seed is built from.
enum Source {
    /// What the task says.
    Task(Seed),
    /// A folder that was taken out of an image, and what was left out of it.
    Fetched { temp: tempfile::TempDir, notes: Vec<String> },
}

fn of_task(task: &Task, error: SourceError) -> WorkspaceError {
    named(&task.id, error)
}

fn named(task: &str, error: SourceError) -> WorkspaceError {
    match error {
        SourceError::Seed(message) => WorkspaceError::Seed { task: task.to_owned(), message },
        SourceError::Other(error) => error,
    }
}

/// Builds a seed in a temporary folder of the cache and gives it its final name.
fn build_in(dir: &Path, task: &str, source: Source, mutation: Option<&str>) -> Result<Seeded, WorkspaceError> {
    fs::create_dir_all(dir).map_err(|e| WorkspaceError::file("create", dir, e))?;
    let dir = dir.canonicalize().map_err(|e| WorkspaceError::file("open", dir, e))?;
    let temp = tempfile::Builder::new().prefix(leftovers::BUILDING).tempdir_in(&dir);
    let temp = temp.map_err(|e| WorkspaceError::file("create", &dir, e))?;
    let tree = temp.path().join("tree");
    fs::create_dir(&tree).map_err(|e| WorkspaceError::file("create", &tree, e))?;
    let notes = match source {
        Source::Task(Seed::Empty) => Ok(Vec::new()),
        Source::Task(Seed::Directory { path }) => copy_directory(&path, &tree),
        Source::Task(Seed::Git { path, commit }) => export_commit(&path, commit.as_deref(), &tree),
        Source::Task(Seed::Url { url, .. }) => Err(SourceError::Seed(format!("`{url}` was not fetched"))),
        Source::Task(Seed::Image { path }) => Err(SourceError::Seed(format!("`{}` was not fetched", path.display()))),
        Source::Fetched { temp, notes } => copy_fetched(&temp, notes, &tree),
    };
    let notes = notes.map_err(|error| named(task, error))?;
    if let Some(patch) = mutation.filter(|patch| !patch.trim().is_empty()) {
        mutate(&tree, task, patch)?;
    }
    let baseline = Snapshot::of(&tree)?;
    let base_commit = template::build(&tree, &temp.path().join("git"))?;
    let home = install(&dir, temp, &baseline);
    Ok(Seeded {
        tree: home.join("tree"),
        git_template: home.join("git"),
        baseline: Arc::new(baseline),
        base_commit,
        notes,
    })
}

/// Applies a patch to a tree that is in no repository.
fn mutate(tree: &Path, task: &str, patch: &str) -> Result<(), WorkspaceError> {
    let mut command = git::command(tree);
    command.args(["apply", "--whitespace=nowarn", "-"]);
    // YAML's `|-` takes the last newline away, and git calls such a patch corrupt.
    let patch = if patch.ends_with('\n') { patch.to_owned() } else { format!("{patch}\n") };
    let said = git::run("apply", command, Some(patch.as_bytes()))?;
    said.map(|_| ()).map_err(|message| WorkspaceError::Mutation { task: task.to_owned(), message })
}

/// Moves a finished seed to the name its content gives it; one that is there already and whole is taken instead.
fn install(dir: &Path, temp: tempfile::TempDir, baseline: &Snapshot) -> PathBuf {
    let home = dir.join(&baseline.fingerprint()[..32]);
    if fs::rename(temp.path(), &home).is_ok() {
        // The folder is no longer where its guard would remove it.
        let _ = temp.keep();
        return home;
    }
    let is_whole = Snapshot::of(&home.join("tree")).is_ok_and(|found| found.same_files(baseline));
    if is_whole && home.join("git/HEAD").is_file() {
        return home;
    }
    // Somebody damaged what is there. Others may be reading it, so it is left alone.
    temp.keep()
}
