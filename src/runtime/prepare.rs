//! What is put into an image before any environment is opened from it.

use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::ContainerOptions;

/// Where a program of the host lies in an image that it was copied into.
pub const PROGRAM: &str = "/usr/local/bin/refrain";

/// Where an installer's folder lies in the image.
pub const FOLDER: &str = "/usr/local/share/refrain/harness";

/// Hears a line for each step of work that may take a while.
pub type Progress<'a> = dyn Fn(&str) + Send + Sync + 'a;

/// An image to be made ready, and what goes into it.
#[derive(Debug, Clone)]
pub struct PrepareRequest {
    /// Whom it is for, in messages and labels: the harness.
    pub name: String,
    /// The image; `None` where the run names none.
    pub image: Option<String>,
    /// When it is pulled, and what a probe may use.
    pub container: ContainerOptions,
    /// What goes into it; `None` where it is used as it is.
    pub install: Option<Install>,
    /// Ends the work early, with [`super::RuntimeError::Stopped`].
    pub stop: CancellationToken,
}

/// Something to install. Equal values mean equal images, so that one is made once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    /// A digest of what else decides what comes out, such as the files of the folder.
    pub content: String,
    /// Text for `sh`, run as root, with the daemon's ordinary capabilities and network.
    pub script: Option<String>,
    /// Variables of the script.
    pub env: Vec<(String, String)>,
    /// A folder of the host that lies at [`FOLDER`] while the script runs, and later.
    pub folder: Option<PathBuf>,
    /// A program of the host that is copied to [`PROGRAM`].
    pub program: Option<PathBuf>,
    /// A command that must end well for the user that agents run as, and prints a version.
    pub probe: Option<Vec<String>>,
    /// Bound of the script, and of the probe.
    pub timeout: Duration,
}

/// An image that is ready.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PreparedImage {
    /// What environments are opened from.
    pub image: String,
    /// Digest of the image that it was made from.
    pub base: String,
    /// Id of the image with what was installed; `None` where nothing was.
    pub prepared: Option<String>,
    /// What the probe printed.
    pub version: Option<String>,
    /// Whether it was there already.
    pub reused: bool,
}

/// Whose fault it is that something could not be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallFault {
    /// The installer's or the image's: the same again would fail again.
    Installer,
    /// The network's, the daemon's or the clock's.
    Machine,
}
