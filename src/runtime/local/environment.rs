//! A scratch folder on the host with a workspace, a home and a place for temporary files.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::exec::{Exec, RECENT};
use super::launch::Surroundings;
use super::reattach;
use super::tree::{Ended, Tree};
use crate::clock::Clock;
use crate::runtime::folder::Folder;
use crate::runtime::{Command, Environment, ExecReport, GatewayDoors, Output, Quiescence, RuntimeError};

/// The variable that marks every process of an environment.
const ENVIRONMENT_MARK: &str = "REFRAIN_ENVIRONMENT";
/// The variable that marks every process of one command.
const COMMAND_MARK: &str = "REFRAIN_COMMAND";

/// An environment of [`super::LocalRuntime`].
#[derive(Debug)]
pub(super) struct LocalEnvironment {
    id: String,
    scratch: PathBuf,
    home: PathBuf,
    around: Surroundings,
    gateway: Option<GatewayDoors>,
    clock: Arc<dyn Clock>,
    commands: AtomicU64,
    /// The tree of all commands since the first one, and when that began.
    tree: Mutex<Option<(Tree, Duration)>>,
    /// Whether a command has run since the environment was last found quiet.
    stirred: AtomicBool,
}

impl LocalEnvironment {
    pub(super) fn new(id: String, scratch: PathBuf, env: Vec<(String, String)>, clock: Arc<dyn Clock>) -> Self {
        let (workspace, home) = (scratch.join("work"), scratch.join("home"));
        Self {
            around: Surroundings { env, workspace, scratch: scratch.join("tmp") },
            id,
            scratch,
            home,
            gateway: None,
            clock,
            commands: AtomicU64::new(0),
            tree: Mutex::new(None),
            stirred: AtomicBool::new(false),
        }
    }

    /// Sets where the gateway listens that commands reach.
    pub(super) fn with_gateway(self, gateway: Option<GatewayDoors>) -> Self {
        Self { gateway, ..self }
    }

    /// Notes that a command has begun.
    fn began(&self, command: &Tree) {
        self.stirred.store(true, Ordering::SeqCst);
        let mut tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner);
        if tree.is_none() {
            let whole = Tree { leader: None, marker: mark(&self.id), ..command.clone() };
            *tree = Some((whole, self.clock.elapsed()));
        }
    }

    /// Returns a path of this environment relative to its folder.
    fn inside<'p>(&self, path: &'p Path) -> io::Result<&'p Path> {
        path.strip_prefix(&self.scratch).map_err(|_| {
            let message = format!("the path is not inside the environment `{}`", self.scratch.display());
            io::Error::new(io::ErrorKind::InvalidInput, message)
        })
    }

    /// Puts real folders where commands have removed the environment's own, or have put links in their place: what was in
    /// them is lost by the agent's own doing, and a link must never lead the host elsewhere.
    pub(super) fn mend(&self) -> Result<(), RuntimeError> {
        for folder in [&self.scratch, &self.around.workspace, &self.home, &self.around.scratch] {
            let mended = match std::fs::symlink_metadata(folder) {
                Ok(metadata) if metadata.is_dir() => continue,
                Ok(_) => std::fs::remove_file(folder).and_then(|()| std::fs::create_dir(folder)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::create_dir_all(folder),
                Err(error) => Err(error),
            };
            mended.map_err(|source| file_error("put back", folder, source))?;
            tracing::warn!(environment = %self.id, "`{}` was no folder any more and is empty now", folder.display());
        }
        Ok(())
    }

    async fn copy(&self, from: Place, to: Place) -> Result<Vec<String>, RuntimeError> {
        let root = self.scratch.clone();
        blocking("copy", move || {
            let source = from.open(&root, false)?;
            let target = to.open(&root, true)?;
            source.copy(&target).map_err(|error| RuntimeError::File {
                action: "copy",
                path: from.path.join(error.at),
                source: error.source,
            })
        })
        .await
    }
}

/// One side of a copy.
struct Place {
    /// As it was given, for messages.
    path: PathBuf,
    /// Below the environment's folder; `None` for a folder of the host.
    inside: Option<PathBuf>,
}

impl Place {
    fn on_host(path: &Path) -> Self {
        Self { path: path.to_owned(), inside: None }
    }

    fn in_environment(environment: &LocalEnvironment, path: &Path) -> Result<Self, RuntimeError> {
        let inside = environment.inside(path).map_err(|source| file_error("reach", path, source))?;
        Ok(Self { path: path.to_owned(), inside: Some(inside.to_owned()) })
    }

    fn open(&self, root: &Path, make: bool) -> Result<Folder, RuntimeError> {
        let open = || {
            if let Some(inside) = &self.inside {
                return Folder::open_trusted(root)?.below(inside, make);
            }
            if make {
                std::fs::create_dir_all(&self.path)?;
            }
            Folder::open_trusted(&self.path)
        };
        open().map_err(|source| file_error("open", &self.path, source))
    }
}

#[async_trait]
impl Environment for LocalEnvironment {
    fn workspace(&self) -> &Path {
        &self.around.workspace
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        self.inside(path).ok().map(|_| path.to_owned())
    }

    async fn exec(
        &self,
        command: &Command,
        output: Output,
        stop: &CancellationToken,
    ) -> Result<ExecReport, RuntimeError> {
        if !self.around.workspace.is_dir() {
            return Err(RuntimeError::Lost(format!("`{}` does not exist any more", self.around.workspace.display())));
        }
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        let marks = [
            (ENVIRONMENT_MARK.to_owned(), self.id.clone()),
            (COMMAND_MARK.to_owned(), format!("{}.{number}", self.id)),
        ];
        let exec = Exec { command, around: &self.around, clock: &*self.clock, marks, stop };
        let report = exec.run(output, |tree| self.began(tree)).await?;
        self.mend()?;
        Ok(report)
    }

    async fn put(&self, from: &Path, to: &Path) -> Result<(), RuntimeError> {
        let notes = self.copy(Place::on_host(from), Place::in_environment(self, to)?).await?;
        match notes.first() {
            None => Ok(()),
            Some(note) => Err(file_error("copy", from, io::Error::other(note.clone()))),
        }
    }

    async fn put_file(&self, content: &[u8], to: &Path, executable: bool) -> Result<(), RuntimeError> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the path names no file");
        let inside = self.inside(to).map_err(|source| file_error("write", to, source))?.to_owned();
        let (root, content, shown) = (self.scratch.clone(), content.to_vec(), to.to_owned());
        blocking("write a file", move || {
            let write = || -> io::Result<()> {
                let name = inside.file_name().ok_or_else(no_name)?;
                let parent = inside.parent().ok_or_else(no_name)?;
                Folder::open_trusted(&root)?.below(parent, true)?.create(name, executable)?.write_all(&content)
            };
            write().map_err(|source| file_error("write", &shown, source))
        })
        .await
    }

    async fn get(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
        self.copy(Place::in_environment(self, from)?, Place::on_host(to)).await
    }

    async fn gateway_address(&self) -> Result<String, RuntimeError> {
        // Commands are processes of this machine like the gateway itself: what it listens on they reach.
        let base = self.gateway.as_ref().and_then(GatewayDoors::base_on_this_machine);
        base.ok_or_else(|| RuntimeError::Unavailable {
            message: "no gateway listens on TCP, and processes of this machine use no other".to_owned(),
            hint: "let the gateway listen on 127.0.0.1, or switch it off for this run".to_owned(),
        })
    }

    async fn quiesce(&self) -> Result<Quiescence, RuntimeError> {
        if !self.stirred.swap(false, Ordering::SeqCst) {
            return Ok(Quiescence::default());
        }
        let tree = self.tree.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some((mut tree, began)) = tree else { return Ok(Quiescence::default()) };
        tree.recent = self.clock.elapsed().saturating_sub(began) < RECENT;
        let ended = blocking("end processes", move || Ok(tree.kill())).await?;
        if ended.survivors.is_empty() {
            self.mend()?;
            return Ok(Quiescence { killed: ended.killed });
        }
        self.stirred.store(true, Ordering::SeqCst);
        Err(survived(&ended))
    }

    async fn close(&self) -> Result<(), RuntimeError> {
        self.quiesce().await?;
        let scratch = self.scratch.clone();
        blocking("remove the environment", move || {
            reattach::remove(&scratch).map_err(|source| file_error("remove", &scratch, source))
        })
        .await
    }
}

/// Returns the mark of an environment's processes.
pub(super) fn mark(id: &str) -> String {
    format!("{ENVIRONMENT_MARK}={id}")
}

pub(super) fn survived(ended: &Ended) -> RuntimeError {
    let message = format!("processes {:?} cannot be killed", ended.survivors);
    RuntimeError::Io { action: "end the environment's processes", source: io::Error::other(message) }
}

pub(super) fn file_error(action: &'static str, path: &Path, source: io::Error) -> RuntimeError {
    RuntimeError::File { action, path: path.to_owned(), source }
}

/// Runs work that reads disks or sleeps off the async threads.
pub(super) async fn blocking<T: Send + 'static>(
    action: &'static str,
    work: impl FnOnce() -> Result<T, RuntimeError> + Send + 'static,
) -> Result<T, RuntimeError> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| RuntimeError::Io { action, source: error.into() })?
}
