//! Where things execute. A [`Runtime`] opens [`Environment`]s; an environment runs commands and holds a workspace.
//!
//! This layer knows nothing of tasks, harnesses or scripts. It tells *a command failed* (an [`ExecReport`]) apart from
//! *the environment could not run it* (a [`RuntimeError`]): only the second is infrastructure.
//! Start with [`local`] or `docker` (feature `docker`); `fake` (feature `test-util`) is its fake.

pub mod command;
#[cfg(any(test, feature = "test-util"))]
pub mod conformance;
#[cfg(feature = "docker")]
pub mod docker;
#[cfg(any(test, feature = "test-util"))]
pub mod fake;
mod folder;
mod gateway;
pub mod local;
pub(crate) mod owner;
pub mod prepare;

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use command::{Captured, Chunk, Command, ExecEnd, ExecReport, Limits, OutOfMemory, Output, Stdin, Stream};
pub use gateway::GatewayDoors;
pub use prepare::{Install, InstallFault, PrepareRequest, PreparedImage, Progress};

use crate::domain::{AttemptId, ContainerOptions, Network};

/// Why a runtime could not do its part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The runtime itself is not there (daemon not running, program missing).
    #[error("{message}")]
    Unavailable {
        /// What is missing.
        message: String,
        /// How to get it.
        hint: String,
    },
    /// The environment is gone: removed, killed or unreachable.
    #[error("the environment is gone: {0}")]
    Lost(String),
    /// The program of a command does not exist in the environment or cannot be executed.
    #[error("cannot run `{program}`: {reason}")]
    NotRunnable {
        /// The program.
        program: String,
        /// Why.
        reason: String,
    },
    /// A file operation between host and environment failed.
    #[error("{action} `{}` failed", .path.display())]
    File {
        /// What was tried: `copy`, `create`, ….
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A program could not be installed into an image, or does not run there.
    #[error("{message}")]
    Install {
        /// Which, how it ended, and the last lines it printed.
        message: String,
        /// What to do about it.
        hint: String,
        /// Whose fault it is.
        fault: InstallFault,
    },
    /// The work was ended from outside.
    #[error("stopped before it was done")]
    Stopped,
    /// Anything else the operating system refused.
    #[error("{action} failed")]
    Io {
        /// What was tried.
        action: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What a runtime found out about itself before a run.
#[derive(Debug, Clone, Default)]
pub struct RuntimeInfo {
    /// Its name and version, for the record.
    pub version: String,
    /// What a user should know, such as "no isolation".
    pub notes: Vec<String>,
}

/// What an environment is opened for.
#[derive(Debug, Clone)]
pub struct EnvironmentSpec {
    /// Whose it is: names and labels carry all of it.
    pub attempt: AttemptId,
    /// What for: `agent` or `evaluation`. One attempt may have one of each at a time.
    pub purpose: &'static str,
    /// A folder on the host that belongs to this environment alone, for homes, scratch and spooled output.
    pub scratch: PathBuf,
    /// Variables that every command gets, besides the runtime's own minimum (`PATH`, `HOME`, `LANG`, `TMPDIR`).
    pub env: Vec<(String, String)>,
    /// The image, for runtimes that have images.
    pub image: Option<String>,
    /// What it may use, for runtimes whose environments are containers.
    pub container: ContainerOptions,
    /// Where the gateway listens that its commands reach: with the port and the socket that there are, not those that
    /// were asked for. `None` for environments that have no business with it, such as those of hidden tests.
    pub gateway: Option<GatewayDoors>,
}

/// What was left of an agent's processes when they were ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quiescence {
    /// How many processes had to be killed.
    pub killed: usize,
}

/// A place where environments can be opened. Implementations are shared by all cells of a run.
#[async_trait]
pub trait Runtime: Send + Sync {
    /// Returns the name that run files use.
    fn name(&self) -> &'static str;

    /// Finds out, before any cell, whether environments can be opened; costs nothing and changes nothing.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Unavailable`] with what to do about it.
    async fn preflight(&self) -> Result<RuntimeInfo, RuntimeError>;

    /// Tells whether environments see the host's own files and programs at their places on the host.
    fn is_host(&self) -> bool {
        true
    }

    /// Makes an image ready, before any environment is opened from it: pulls it, and installs what is asked for, once.
    /// `progress` hears a line for each step that may take a while. Returns `None` where there are no images.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Unavailable`] for an image that cannot be had, [`RuntimeError::Install`],
    /// [`RuntimeError::Stopped`], or what the runtime failed at.
    async fn prepare(
        &self,
        request: &PrepareRequest,
        progress: &Progress<'_>,
    ) -> Result<Option<PreparedImage>, RuntimeError> {
        let _ = (request, progress);
        Ok(None)
    }

    /// Says where a gateway of this process has to listen so that environments of a network reach it, before any of
    /// them is opened. `root` is the store's folder for scratch; a socket lies below it. Nothing is created.
    ///
    /// The gateway may listen on another port or address if the user wants it; what came of it goes into
    /// [`EnvironmentSpec::gateway`]. Environments of a network without any way out get neither address nor socket.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Unavailable`] where environments of this network cannot reach this process, with what to do.
    async fn gateway_doors(&self, network: Network, root: &Path) -> Result<GatewayDoors, RuntimeError> {
        let _ = (network, root);
        if self.is_host() {
            return Ok(GatewayDoors::loopback());
        }
        Err(RuntimeError::Unavailable {
            message: format!("the runtime `{}` does not say how its environments reach a gateway", self.name()),
            hint: "switch the gateway off for this run, or use `runtime: docker` or `runtime: local`".to_owned(),
        })
    }

    /// Opens an environment with an empty workspace. Cancel-safe: a dropped future leaves nothing that
    /// [`Runtime::sweep`] does not find.
    ///
    /// # Errors
    ///
    /// Any [`RuntimeError`]; nothing is left behind.
    async fn open(&self, spec: EnvironmentSpec) -> Result<Box<dyn Environment>, RuntimeError>;

    /// Removes what hosts that are dead have left behind under `root`, the store's folder for scratch. Idempotent.
    /// Returns one line for each thing removed.
    ///
    /// # Errors
    ///
    /// A [`RuntimeError`] if leftovers cannot be listed; what cannot be removed is reported as a line.
    async fn sweep(&self, root: &Path) -> Result<Vec<String>, RuntimeError>;

    /// Opens an environment again that a host which is gone had opened for the same attempt and purpose: with its files
    /// as they are and none of its processes. What its commands have printed into files is there as far as they came. Of
    /// several hosts that ask at the same time one gets it. `None` where there is none, or where its files cannot be
    /// believed.
    ///
    /// # Errors
    ///
    /// Any [`RuntimeError`]; the environment is left as it was found.
    async fn reattach(&self, spec: &EnvironmentSpec) -> Result<Option<Box<dyn Environment>>, RuntimeError> {
        let _ = spec;
        Ok(None)
    }

    /// Does what [`Runtime::sweep`] does, but leaves the files of `kept` environments where they are (told by attempt and
    /// purpose, or by scratch folder), so that [`Runtime::reattach`] finds them. Their processes are ended like any
    /// other that has lost its host. A runtime that cannot reattach keeps none.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::sweep`].
    async fn sweep_except(&self, root: &Path, kept: &[EnvironmentSpec]) -> Result<Vec<String>, RuntimeError> {
        let _ = kept;
        self.sweep(root).await
    }
}

/// An open environment: a workspace, a private home, and commands.
#[async_trait]
pub trait Environment: Send + Sync {
    /// Returns the absolute path of the workspace inside the environment.
    fn workspace(&self) -> &Path;

    /// Returns the absolute path of the agent's private home inside the environment.
    fn home(&self) -> &Path;

    /// Returns the digest of the image that the environment was made from, where there is one.
    fn image(&self) -> Option<&str> {
        None
    }

    /// Returns where a path of the environment lies on the host, if it does. Lets copies be skipped; nobody may rely
    /// on it.
    fn host_path(&self, path: &Path) -> Option<PathBuf>;

    /// Runs a command to its end or to one of its limits and kills its whole process tree in the latter case.
    ///
    /// `stop` ends the command like a limit does, with [`ExecEnd::Stopped`]. Output beyond what `output` keeps is
    /// counted and dropped; a slow consumer never stalls the command. Returns soon after the command's leader is gone,
    /// whoever still holds its pipes.
    ///
    /// # Errors
    ///
    /// A [`RuntimeError`] only where the environment could not run the command or lost it; a command that fails is an
    /// [`ExecReport`]. Dropping the future kills the command's tree.
    async fn exec(
        &self,
        command: &Command,
        output: Output,
        stop: &CancellationToken,
    ) -> Result<ExecReport, RuntimeError>;

    /// Returns how a command ended that an earlier host had begun with its standard output spooled to `stdout`, if it
    /// ended by itself. Only an environment that was reattached can know; `None` where that cannot be proved.
    fn ended(&self, stdout: &Path) -> Option<ExecReport> {
        let _ = stdout;
        None
    }

    /// Copies the tree below the host folder `from` to `to` (absolute, inside the environment; created when missing).
    /// Symlinks stay symlinks, modes keep their executable bit.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::File`] with the path that failed, or [`RuntimeError::Lost`].
    async fn put(&self, from: &Path, to: &Path) -> Result<(), RuntimeError>;

    /// Writes one file inside the environment, with its parent folders.
    ///
    /// # Errors
    ///
    /// As for [`Environment::put`].
    async fn put_file(&self, content: &[u8], to: &Path, executable: bool) -> Result<(), RuntimeError>;

    /// Copies the tree below `from` (absolute, inside the environment) to the host folder `to`. Never follows a
    /// symlink, never writes outside `to`, leaves out devices, sockets and pipes; returns a note for each left out.
    ///
    /// # Errors
    ///
    /// As for [`Environment::put`].
    async fn get(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError>;

    /// Copies the tree below `from` of the image that the environment was made from, as it was before anything ran, to
    /// the host folder `to`; otherwise as [`Environment::get`].
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Unavailable`] where there is no image, else as for [`Environment::get`].
    async fn get_from_image(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
        let _ = to;
        Err(RuntimeError::Unavailable {
            message: format!("there is no image that could hold `{}`", from.display()),
            hint: "use a runtime with images, such as `runtime: docker`".to_owned(),
        })
    }

    /// Returns the base URL of the gateway as commands of this environment reach it, such as `http://127.0.0.1:8877`,
    /// once it has been reached from inside. Cheap when asked again.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Unavailable`] where it was opened without a gateway, or the gateway cannot be reached: the message
    /// names the address that was tried and from where.
    async fn gateway_address(&self) -> Result<String, RuntimeError> {
        Err(RuntimeError::Unavailable {
            message: "the environment was opened without a gateway".to_owned(),
            hint: "its runtime has to say how the gateway is reached".to_owned(),
        })
    }

    /// Ends every process that commands of this environment have left, and returns only when none is left.
    ///
    /// # Errors
    ///
    /// A [`RuntimeError`] if some process survives.
    async fn quiesce(&self) -> Result<Quiescence, RuntimeError>;

    /// Ends everything and removes the environment. Idempotent; called on every path.
    ///
    /// # Errors
    ///
    /// A [`RuntimeError`] with what is left for [`Runtime::sweep`].
    async fn close(&self) -> Result<(), RuntimeError>;
}

#[cfg(test)]
mod tests;
