//! Whose a container is.
//!
//! A container's labels name the host that made it, and can never change. Who has it now stands in a file in the
//! environment's scratch folder. Whoever takes a container over, or removes what a dead host has left, does all of it
//! while it holds a lock in that folder: of two hosts one finds that the other was faster. A lock ends with its host.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::image::Image;
use crate::runtime::owner::{HostProcess, Life};
use crate::runtime::{RuntimeError, folder};

const FILE: &str = "container.json";
const LOCK: &str = "container.lock";
/// Marks the environments of the runtime `local`, whose files are agents' own.
const NO_CONTAINER: &str = "owner.json";
/// How deep below the store's folder environments are looked for.
const MAX_DEPTH: usize = 4;

/// What a later host must know of a container to take it over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Deed {
    /// The container, by its name.
    pub(super) container: String,
    /// The image that it was made from.
    pub(super) image: Image,
    host: HostProcess,
}

impl Deed {
    /// Makes the folder of an environment that this process is about to open.
    pub(super) fn make_out(folder: &Path, container: &str, image: &Image) -> Result<(), RuntimeError> {
        let deed = Self { container: container.to_owned(), image: image.clone(), host: HostProcess::current() };
        let make = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            if folder.join(FILE).exists() {
                let message = "the folder belongs to a container already; an environment needs one of its own";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
            File::create(folder.join(LOCK))?;
            deed.write(folder)
        };
        make().map_err(|source| file_error("create", folder, source))
    }

    /// Reads the deed in a folder.
    pub(super) fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Tells whether the host that has the container is gone.
    pub(super) fn is_abandoned(&self) -> bool {
        is_gone(&self.host)
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        // In one step: a host that dies in the middle must not leave a container without an owner.
        let new = folder.join(format!("{FILE}.new"));
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, folder.join(FILE))
    }
}

/// Tells whether a host is known to be gone.
pub(super) fn is_gone(host: &HostProcess) -> bool {
    matches!(host.life(), Life::Dead | Life::BeforeBoot)
}

/// The right to decide what becomes of a container whose host is gone.
#[derive(Debug)]
pub(super) struct Abandoned {
    pub(super) folder: PathBuf,
    pub(super) deed: Deed,
    _lock: File,
}

impl Abandoned {
    /// Takes the right, once whoever has it is done. `None` where there is no container, or where its host lives or
    /// cannot be seen from here.
    pub(super) async fn at(folder: &Path) -> Result<Option<Self>, RuntimeError> {
        let folder = folder.to_owned();
        let taken = tokio::task::spawn_blocking(move || Self::take(&folder)).await;
        taken.map_err(|error| RuntimeError::Io { action: "take over a container", source: error.into() })?
    }

    fn take(folder: &Path) -> Result<Option<Self>, RuntimeError> {
        let abandoned = || Deed::read(folder).filter(Deed::is_abandoned);
        if abandoned().is_none() {
            return Ok(None);
        }
        let lock = match OpenOptions::new().write(true).open(folder.join(LOCK)) {
            Ok(lock) => lock,
            // Somebody removes it all right now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(file_error("lock", folder, source)),
        };
        lock.lock().map_err(|source| file_error("lock", folder, source))?;
        // While this one waited, another may have taken it.
        Ok(abandoned().map(|deed| Self { folder: folder.to_owned(), deed, _lock: lock }))
    }

    /// Makes this process the owner.
    pub(super) fn take_over(mut self) -> Result<(), RuntimeError> {
        self.deed.host = HostProcess::current();
        self.deed.write(&self.folder).map_err(|source| file_error("take over", &self.folder, source))
    }

    /// Removes the folder, so that nobody takes the container over any more.
    pub(super) fn give_up(&self) -> Result<(), RuntimeError> {
        remove(&self.folder)
    }
}

/// Removes the folder of an environment; one that is not there is no error.
pub(super) fn remove(folder: &Path) -> Result<(), RuntimeError> {
    folder::remove(folder).map_err(|source| file_error("remove", folder, source))
}

/// Finds the folders below `root` that belong to containers, without following links.
pub(super) async fn find(root: &Path) -> Result<Vec<PathBuf>, RuntimeError> {
    let root = root.to_owned();
    let found = tokio::task::spawn_blocking(move || {
        let mut found = Vec::new();
        look(&root, 0, &mut found);
        found
    });
    found.await.map_err(|error| RuntimeError::Io { action: "look for containers", source: error.into() })
}

fn look(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if folder.join(FILE).is_file() {
        found.push(folder.to_owned());
        return;
    }
    if folder.join(NO_CONTAINER).is_file() {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if depth < MAX_DEPTH && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(&entry.path(), depth + 1, found);
        }
    }
}

pub(super) fn file_error(action: &'static str, path: &Path, source: io::Error) -> RuntimeError {
    RuntimeError::File { action, path: path.to_owned(), source }
}

#[cfg(test)]
#[path = "deed/tests.rs"]
mod tests;
