//! What a tree holds: every path with its kind, size and content hash.

use std::collections::BTreeMap;
use std::path::Path;

use super::WorkspaceError;
use super::record::record;
use super::walk::Scope;

/// Notes beyond are counted, not kept.
const MAX_NOTES: usize = 100;

/// What a path is. Folders are implied by what they hold, as in git.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// An ordinary file.
    Regular,
    /// A file that its owner may execute.
    Executable,
    /// A symlink; its content is its target.
    Symlink,
}

impl FileKind {
    /// Returns the mode that git writes for it.
    #[must_use]
    pub fn mode(self) -> &'static str {
        match self {
            Self::Regular => "100644",
            Self::Executable => "100755",
            Self::Symlink => "120000",
        }
    }
}

/// One path's kind and content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileEntry {
    /// What it is.
    pub kind: FileKind,
    /// Bytes of content.
    pub size: u64,
    /// BLAKE3 of the content.
    pub hash: [u8; 32],
}

impl FileEntry {
    pub(super) fn link(target: &[u8]) -> Self {
        Self { kind: FileKind::Symlink, size: target.len() as u64, hash: *blake3::hash(target).as_bytes() }
    }
}

/// A tree's files by their raw path, sorted. `.git` (at any depth) and the top-level `.refrain/` are no part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    entries: BTreeMap<Vec<u8>, FileEntry>,
    notes: Vec<String>,
    dropped_notes: usize,
}

impl Snapshot {
    /// Reads the tree below a host folder. Links are not followed; content is always hashed, because times can be
    /// forged; memory is bounded by the number of paths.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::File`] where `root` itself cannot be opened. What cannot be read below it gives a note.
    pub fn of(root: &Path) -> Result<Self, WorkspaceError> {
        record(root, Scope::Files, None)
    }

    /// Returns every path with its entry, in byte order.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &FileEntry)> {
        self.entries.iter().map(|(path, entry)| (path.as_slice(), entry))
    }

    /// Returns the entry at a path.
    #[must_use]
    pub fn get(&self, path: &[u8]) -> Option<&FileEntry> {
        self.entries.get(path)
    }

    /// Returns how many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Tells whether there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns a line for each thing that was left out: devices, pipes, what could not be read.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.dropped_notes > 0 {
            notes.push(format!("and {} more entries left out", self.dropped_notes));
        }
        notes
    }

    /// Returns a hash over all paths, kinds and contents, in hex. Equal trees have equal fingerprints on any host.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        for (path, entry) in &self.entries {
            hasher.update(&(path.len() as u64).to_le_bytes());
            hasher.update(path);
            hasher.update(entry.kind.mode().as_bytes());
            hasher.update(&entry.hash);
        }
        hasher.finalize().to_hex().to_string()
    }

    pub(super) fn same_files(&self, other: &Self) -> bool {
        self.entries == other.entries
    }

    pub(super) fn insert(&mut self, path: &[u8], entry: FileEntry) {
        self.entries.insert(path.to_vec(), entry);
    }

    pub(super) fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        } else {
            self.dropped_notes += 1;
        }
    }
}
