//! Records a tree, and copies it on the way where asked to: each file is read once.

use std::ffi::CStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat};

use super::WorkspaceError;
use super::names::{as_path, quoted};
use super::snapshot::{FileEntry, FileKind, Snapshot};
use super::walk::{Scope, Visitor, open_folder, open_root, walk};

/// A larger file is left out of a copy: an agent can make a file of any size that takes no space.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// Once so many bytes have been read, further files are left out.
const MAX_TREE_BYTES: u64 = 32 << 30;
const BUFFER: usize = 64 * 1024;
const BUFFER_OFFSET: i64 = 64 * 1024;

/// Takes a snapshot of the tree below `root`, and copies it into the existing folder `target` where one is given.
///
/// Links stay links, modes keep their executable bit, times stay. Nothing in `target` is overwritten or followed.
pub(super) fn record(root: &Path, scope: Scope, target: Option<&Path>) -> Result<Snapshot, WorkspaceError> {
    let copy = match target {
        Some(path) => {
            let folder = open_root(path).map_err(|e| WorkspaceError::file("open", path, e))?;
            Some(Copy { root: path.to_owned(), folders: vec![folder] })
        }
        None => None,
    };
    let mut recorder = Recorder { snapshot: Snapshot::default(), copy, buffer: vec![0; BUFFER], total: 0 };
    walk(root, scope, &mut recorder)?;
    Ok(recorder.snapshot)
}

struct Recorder {
    snapshot: Snapshot,
    copy: Option<Copy>,
    buffer: Vec<u8>,
    total: u64,
}

/// Where a copy goes: the folders that are open, from the root down.
struct Copy {
    root: PathBuf,
    folders: Vec<OwnedFd>,
}

impl Copy {
    fn error(&self, action: &'static str, path: &[u8], source: impl Into<std::io::Error>) -> WorkspaceError {
        WorkspaceError::file(action, self.root.join(as_path(path)), source)
    }

    fn folder(&self) -> &OwnedFd {
        // The root stays in the list from construction to the end.
        &self.folders[self.folders.len() - 1]
    }

    fn create(&self, path: &[u8], name: &CStr, executable: bool) -> Result<File, WorkspaceError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
        openat(self.folder(), name, flags, mode).map(File::from).map_err(|e| self.error("create", path, e))
    }
}

impl Recorder {
    /// Reads a file to its end, hashing and copying; `None` where it cannot be read or is too large.
    fn content(
        &mut self,
        path: &[u8],
        source: &mut File,
        into: Option<&mut File>,
    ) -> Result<Option<FileEntry>, WorkspaceError> {
        let mut hasher = blake3::Hasher::new();
        let mut size = 0u64;
        let mut into = into;
        loop {
            let n = match source.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.snapshot.note(format!("{} cannot be read: {error}; left out", quoted(path)));
                    return Ok(None);
                }
            };
            size += n as u64;
            self.total += n as u64;
            if size > MAX_FILE_BYTES || self.total > MAX_TREE_BYTES {
                self.snapshot.note(format!("{} is too large; left out", quoted(path)));
                return Ok(None);
            }
            let piece = &self.buffer[..n];
            hasher.update(piece);
            if let (Some(file), Some(copy)) = (into.as_deref_mut(), &self.copy) {
                write_sparse(file, piece).map_err(|e| copy.error("write", path, e))?;
            }
        }
        // Zeros skipped at the end have not made the file longer.
        if let (Some(file), Some(copy)) = (into, &self.copy)
            && size >= BUFFER as u64
        {
            file.set_len(size).map_err(|e| copy.error("write", path, e))?;
        }
        Ok(Some(FileEntry { kind: FileKind::Regular, size, hash: *hasher.finalize().as_bytes() }))
    }
}

/// Writes a piece, or skips over it where it is all zeros, so that a copy takes no more space than its source.
fn write_sparse(file: &mut File, piece: &[u8]) -> std::io::Result<()> {
    if piece.len() == BUFFER && piece.iter().all(|&b| b == 0) {
        file.seek(SeekFrom::Current(BUFFER_OFFSET)).map(|_| ())
    } else {
        file.write_all(piece)
    }
}

impl Visitor for Recorder {
    fn enter(&mut self, path: &[u8], name: &CStr) -> Result<(), WorkspaceError> {
        if let Some(copy) = &mut self.copy {
            mkdirat(copy.folder(), name, Mode::from_raw_mode(0o755)).map_err(|e| copy.error("create", path, e))?;
            let folder = open_folder(copy.folder(), name).map_err(|e| copy.error("open", path, e))?;
            copy.folders.push(folder);
        }
        Ok(())
    }

    fn leave(&mut self) {
        if let Some(copy) = &mut self.copy {
            copy.folders.pop();
        }
    }

    fn file(&mut self, path: &[u8], name: &CStr, mut file: File) -> Result<(), WorkspaceError> {
        let meta = match file.metadata() {
            Ok(meta) => meta,
            Err(error) => {
                self.snapshot.note(format!("{} cannot be read: {error}; left out", quoted(path)));
                return Ok(());
            }
        };
        if meta.len() > MAX_FILE_BYTES {
            self.snapshot.note(format!("{} has {} bytes, too large; left out", quoted(path), meta.len()));
            return Ok(());
        }
        let executable = meta.permissions().mode() & 0o100 != 0;
        let mut into = self.copy.as_ref().map(|copy| copy.create(path, name, executable)).transpose()?;
        let entry = self.content(path, &mut file, into.as_mut())?;
        match (entry, &self.copy) {
            (Some(entry), _) => {
                let kind = if executable { FileKind::Executable } else { FileKind::Regular };
                self.snapshot.insert(path, FileEntry { kind, ..entry });
            }
            (None, Some(copy)) => {
                rustix::fs::unlinkat(copy.folder(), name, rustix::fs::AtFlags::empty())
                    .map_err(|e| copy.error("remove", path, e))?;
            }
            (None, None) => {}
        }
        if let (Some(copied), Ok(modified)) = (into, meta.modified()) {
            // Build tools compare times. Where the file system cannot keep one, the copy is new, which is harmless.
            let _ = copied.set_modified(modified);
        }
        Ok(())
    }

    fn link(&mut self, path: &[u8], name: &CStr, target: &CStr) -> Result<(), WorkspaceError> {
        if let Some(copy) = &self.copy {
            symlinkat(target, copy.folder(), name).map_err(|e| copy.error("link", path, e))?;
        }
        self.snapshot.insert(path, FileEntry::link(target.to_bytes()));
        Ok(())
    }

    fn note(&mut self, note: String) {
        self.snapshot.note(note);
    }
}
