//! Commands as plain processes of the host: no isolation, nothing to install.
//!
//! An environment is a scratch folder with `work/`, `home/` and `tmp/`. A command gets a scrubbed environment and a
//! process group of its own, and nothing of its tree outlives it (see `tree`). What it can do to the host is what the
//! user who runs the host can do. Start with [`LocalRuntime`].

mod environment;
mod exec;
pub(super) mod kept;
mod launch;
mod owner;
pub(super) mod processes;
mod reattach;
mod streams;
mod tree;
pub(super) mod watch;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use self::environment::{LocalEnvironment, blocking, file_error, survived};
use self::owner::Owner;
use super::owner::Life;
use super::{Environment, EnvironmentSpec, Runtime, RuntimeError, RuntimeInfo};
use crate::clock::Clock;
use crate::runtime::folder;

/// The `PATH` of commands where none is given.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The runtime named `local`.
#[derive(Debug, Clone)]
pub struct LocalRuntime {
    clock: Arc<dyn Clock>,
    path: String,
}

impl LocalRuntime {
    /// Makes a runtime whose commands find programs in the system's usual folders.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, path: DEFAULT_PATH.to_owned() }
    }

    /// Sets the `PATH` of commands, usually the host's own. Nothing else of the host's environment reaches them.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = path.into();
        self
    }

    fn create(&self, spec: &EnvironmentSpec) -> Result<LocalEnvironment, RuntimeError> {
        let failed = |action, source| file_error(action, &spec.scratch, source);
        if let Some((name, _)) = spec.env.iter().find(|(name, _)| !launch::is_variable(name)) {
            let message = format!("`{}` cannot be the name of a variable", name.escape_default());
            return Err(failed("open", io::Error::new(io::ErrorKind::InvalidInput, message)));
        }
        fs::create_dir_all(&spec.scratch).map_err(|error| failed("create", error))?;
        if fs::read_dir(&spec.scratch).map_err(|error| failed("read", error))?.next().is_some() {
            let message = "the folder is not empty; an environment needs one of its own";
            return Err(failed("open", io::Error::new(io::ErrorKind::AlreadyExists, message)));
        }
        // Commands see the real path, whatever links lead to it.
        let scratch = spec.scratch.canonicalize().map_err(|error| failed("resolve", error))?;
        let id = uuid::Uuid::new_v4().simple().to_string();
        let fill = || -> io::Result<()> {
            fs::set_permissions(&scratch, fs::Permissions::from_mode(0o700))?;
            Owner::this_process(id.clone()).write(&scratch)?;
            ["work", "home", "tmp"].iter().try_for_each(|name| fs::create_dir(scratch.join(name)))
        };
        if let Err(error) = fill() {
            let _ = folder::remove(&scratch);
            return Err(failed("create", error));
        }
        Ok(self.environment(id, scratch, spec))
    }

    fn environment(&self, id: String, scratch: PathBuf, spec: &EnvironmentSpec) -> LocalEnvironment {
        let text = |name: &str| scratch.join(name).to_string_lossy().into_owned();
        let mut env = vec![
            ("PATH".to_owned(), self.path.clone()),
            ("HOME".to_owned(), text("home")),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("TMPDIR".to_owned(), text("tmp")),
        ];
        env.extend(spec.env.iter().cloned());
        LocalEnvironment::new(id, scratch, env, Arc::clone(&self.clock)).with_gateway(spec.gateway.clone())
    }
}

#[async_trait]
impl Runtime for LocalRuntime {
    fn name(&self) -> &'static str {
        "local"
    }

    async fn preflight(&self) -> Result<RuntimeInfo, RuntimeError> {
        if !self.path.split(':').any(|dir| !dir.is_empty() && Path::new(dir).join("sh").is_file()) {
            return Err(RuntimeError::Unavailable {
                message: format!("the local runtime finds no `sh` in PATH ({})", self.path),
                hint: "set PATH to folders that hold a POSIX shell".to_owned(),
            });
        }
        let mut notes = vec!["no isolation: an agent can read and change everything that this user can".to_owned()];
        if processes::scan(|_| false).is_none() {
            notes.push("no process table: processes that leave their group outlive their command".to_owned());
        }
        Ok(RuntimeInfo { version: format!("local {}", env!("CARGO_PKG_VERSION")), notes })
    }

    async fn open(&self, spec: EnvironmentSpec) -> Result<Box<dyn Environment>, RuntimeError> {
        let runtime = self.clone();
        let environment = blocking("open an environment", move || runtime.create(&spec)).await?;
        Ok(Box::new(environment))
    }

    async fn sweep(&self, root: &Path) -> Result<Vec<String>, RuntimeError> {
        self.sweep_except(root, &[]).await
    }

    async fn reattach(&self, spec: &EnvironmentSpec) -> Result<Option<Box<dyn Environment>>, RuntimeError> {
        let (runtime, spec) = (self.clone(), spec.clone());
        let environment = blocking("reattach to an environment", move || reattach::open(&runtime, &spec)).await?;
        Ok(environment.map(|environment| Box::new(environment) as Box<dyn Environment>))
    }

    async fn sweep_except(&self, root: &Path, kept: &[EnvironmentSpec]) -> Result<Vec<String>, RuntimeError> {
        let root = root.to_owned();
        let kept: Vec<PathBuf> = kept.iter().map(|spec| spec.scratch.clone()).collect();
        blocking("sweep", move || {
            let found = owner::find(&root).map_err(|source| file_error("list", &root, source))?;
            let sweep = |(scratch, owner): &(PathBuf, Owner)| {
                if kept.contains(scratch) { reattach::quiet(scratch, owner) } else { sweep_one(scratch, owner) }
            };
            Ok(found.iter().filter_map(sweep).collect())
        })
        .await
    }
}

/// Removes an environment if its host is dead; says what was done, or why not.
fn sweep_one(scratch: &Path, owner: &Owner) -> Option<String> {
    let shown = scratch.display();
    let mut killed = 0;
    match owner.life() {
        Life::Alive => return None,
        Life::Unknown => {
            return Some(format!("left `{shown}` alone: its host ran on another machine or in another container"));
        }
        Life::BeforeBoot => {}
        Life::Dead => {
            let ended = reattach::end(owner);
            if !ended.survivors.is_empty() {
                return Some(format!("could not sweep `{shown}`: {}", survived(&ended)));
            }
            killed = ended.killed;
        }
    }
    Some(match reattach::remove(scratch) {
        Ok(()) => format!("removed `{shown}` of a host that is gone, and ended {killed} of its processes"),
        Err(error) => format!("could not remove `{shown}`: {error}"),
    })
}
