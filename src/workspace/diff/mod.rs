//! What changed between two trees, as a patch that git can apply.
//!
//! Made in this process from the files themselves: no git runs, so no configuration, attribute or filter of a tree has
//! any say. The patch is bytes, because files and names need not be UTF-8.

mod binary;
mod changes;
mod edits;
mod hunks;
mod patch;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::WorkspaceError;
use super::snapshot::Snapshot;

/// A patch and its figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Diff {
    /// The patch, in git's format; empty where nothing changed.
    pub patch: Vec<u8>,
    /// Its figures.
    pub stats: DiffStats,
}

/// The figures of a patch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffStats {
    /// Files that differ; a rename is one.
    pub files_changed: u64,
    /// Lines added in text files.
    pub lines_added: u64,
    /// Lines removed in text files.
    pub lines_removed: u64,
    /// What the patch does not show: files beyond the limits, with size and hash.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// How much a patch may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiffLimits {
    /// A file of more bytes, before or after, is noted by size and hash.
    pub file_bytes: u64,
    /// Once the patch has so many bytes, further files are noted in the same way.
    pub patch_bytes: usize,
}

impl Default for DiffLimits {
    fn default() -> Self {
        Self { file_bytes: 10 * 1024 * 1024, patch_bytes: 64 * 1024 * 1024 }
    }
}

/// Compares two trees on the host.
///
/// # Errors
///
/// [`WorkspaceError::File`] where a tree cannot be read.
pub fn diff_trees(base: &Path, last: &Path, limits: DiffLimits) -> Result<Diff, WorkspaceError> {
    diff_snapshots((base, &Snapshot::of(base)?), (last, &Snapshot::of(last)?), limits)
}

/// Compares two trees whose snapshots are known; only files that differ are read again.
///
/// # Errors
///
/// [`WorkspaceError::File`] where a file that the snapshots name cannot be read.
pub fn diff_snapshots(
    base: (&Path, &Snapshot),
    last: (&Path, &Snapshot),
    limits: DiffLimits,
) -> Result<Diff, WorkspaceError> {
    let changes = changes::between(base.1, last.1);
    if changes.is_empty() {
        return Ok(Diff::default());
    }
    patch::write(base.0, last.0, &changes, limits)
}
