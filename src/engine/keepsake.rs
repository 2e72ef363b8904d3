//! What a later host must know to go on with an attempt, beside the journal and the environment: a file in its scratch
//! folder, written before the first session.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::attempt::Ready;
use super::off_thread::off_thread;
use crate::store::record_file;

/// The file.
const FILE: &str = "keepsake.json";

/// What was found out before the first session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keepsake {
    /// The commit that the workspace began with.
    pub(crate) base_commit: String,
    /// The files that it began with, after the setup script.
    pub(crate) base_fingerprint: String,
    pub(crate) harness_version: Option<String>,
    /// Retries before this attempt.
    pub(crate) retries: u32,
}

/// Tells whether a scratch folder is that of an attempt that had come to its first session and has no environment any
/// more: what is left are spools and copies, which nobody reads unless the attempt is still under way.
#[must_use]
pub fn is_left_over(scratch: &Path) -> bool {
    let is_bare = |folder: &Path| match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    };
    let environments = [scratch.join("agent"), scratch.join("evaluation/environment")];
    (scratch.join(FILE).exists() && environments.iter().all(|folder| is_bare(folder))) || is_bare(scratch)
}

/// Marks the scratch folder of an attempt that never came to its first session.
pub(crate) fn mark(scratch: &Path) {
    // Without a mark the folder stays if its host is killed right now; nothing else depends on it.
    let _ = fs::write(scratch.join(FILE), "");
}

/// Removes a scratch folder. The keepsake goes last: whoever is killed on the way leaves what [`is_left_over`] knows.
///
/// # Errors
///
/// What the operating system says.
pub fn remove_scratch(scratch: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(scratch) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == FILE {
            continue;
        }
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path())? } else { fs::remove_file(entry.path())? }
    }
    fs::remove_dir_all(scratch)
}

/// Removes it where that does not hold up other tasks.
///
/// # Errors
///
/// As [`remove_scratch`].
pub(crate) async fn clear_scratch(scratch: &Path) -> io::Result<()> {
    let scratch = scratch.to_owned();
    off_thread(move || remove_scratch(&scratch)).await
}

impl Keepsake {
    pub(crate) fn of(ready: &Ready, retries: u32) -> Self {
        Self {
            base_commit: ready.seeded.base_commit.clone(),
            base_fingerprint: ready.seeded.baseline.fingerprint(),
            harness_version: ready.harness_version.clone(),
            retries,
        }
    }

    pub(crate) fn write(&self, scratch: &Path) -> io::Result<()> {
        let path = scratch.join(FILE);
        record_file::write_atomic(&path, &serde_json::to_vec(self)?)
    }

    pub(crate) fn read(scratch: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(scratch.join(FILE))?)?)
    }
}
