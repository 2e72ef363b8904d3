//! Walks a tree that an agent may have shaped, or may still be changing, without ever leaving it.
//!
//! Every step opens a name relative to the folder that is already open and refuses symlinks, so neither a link nor a
//! folder swapped for a link in the middle of the walk leads anywhere else.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, readlinkat, statat};

use super::WorkspaceError;
use super::names::quoted;

/// Folders nested deeper are left out: each level holds a file descriptor while its content is walked.
const MAX_DEPTH: usize = 128;
/// Entries beyond are left out.
const MAX_ENTRIES: usize = 1_000_000;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// Which part of a tree is walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All of it.
    Everything,
    /// What counts as the task's files: no `.git` at any depth, no `.refrain/` at the top.
    Files,
    /// All but the `.git` and `.refrain` at the top.
    Content,
    /// What a script may find: all but `.git` at any depth.
    Visible,
}

impl Scope {
    fn leaves_out(self, depth: usize, name: &[u8]) -> bool {
        match self {
            Self::Everything => false,
            Self::Files => name == b".git" || (depth == 0 && name == b".refrain"),
            Self::Visible => name == b".git",
            Self::Content => depth == 0 && (name == b".git" || name == b".refrain"),
        }
    }
}

/// Takes what a walk meets. Paths are relative to the root, with `/` between their parts.
pub(super) trait Visitor {
    /// A folder begins.
    fn enter(&mut self, path: &[u8], name: &CStr) -> Result<(), WorkspaceError>;
    /// The folder that began last ends.
    fn leave(&mut self);
    /// A regular file, open for reading.
    fn file(&mut self, path: &[u8], name: &CStr, file: File) -> Result<(), WorkspaceError>;
    /// A symlink and its target.
    fn link(&mut self, path: &[u8], name: &CStr, target: &CStr) -> Result<(), WorkspaceError>;
    /// Something that was left out.
    fn note(&mut self, note: String);
}

/// Walks the tree below `root`, in order of names.
///
/// What cannot be read or is no file, folder or link gives a note. Only the visitor's own errors, and a root that
/// cannot be opened, end the walk.
pub(super) fn walk(root: &Path, scope: Scope, visitor: &mut dyn Visitor) -> Result<(), WorkspaceError> {
    let folder = open_root(root).map_err(|e| WorkspaceError::file("open", root, e))?;
    Walk { scope, entries: 0, path: Vec::new(), depth: 0, visitor }.folder(&folder)
}

/// Opens the folder a walk begins at. The root itself may be reached over a link: the caller chose it.
pub(super) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a folder by its name in an open folder; a link is an error.
pub(super) fn open_folder(parent: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    open_repaired(parent.as_fd(), name, FOLDER, Mode::RWXU)
}

/// Opens a regular file by its name in an open folder; anything else is an error, and nothing blocks.
pub(super) fn open_file(parent: impl AsFd, name: &CStr) -> io::Result<File> {
    let file = File::from(open_repaired(parent.as_fd(), name, FILE, Mode::RUSR)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
}

/// Reads a link's target; `None` where `name` is no link.
pub(super) fn link_target(parent: impl AsFd, name: &CStr) -> io::Result<Option<CString>> {
    match readlinkat(parent, name, Vec::new()) {
        Ok(target) => Ok(Some(target)),
        Err(rustix::io::Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Opens, and where the owner has taken away their own permission, gives it back first.
fn open_repaired(parent: BorrowedFd<'_>, name: &CStr, flags: OFlags, needed: Mode) -> io::Result<OwnedFd> {
    match openat(parent, name, flags, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) if permit(parent, name, needed) => {
            Ok(openat(parent, name, flags, Mode::empty())?)
        }
        other => Ok(other?),
    }
}

/// Gives the owner permissions on a file or folder, never on what a link points to.
#[cfg(target_os = "linux")]
pub(super) fn permit(parent: BorrowedFd<'_>, name: &CStr, needed: Mode) -> bool {
    use std::os::fd::AsRawFd;
    // The handle pins the very file; its name in /proc cannot be exchanged for a link by the agent.
    let handle = openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    handle.is_ok_and(|fd| rustix::fs::chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), needed).is_ok())
}

/// Gives the owner permissions on a file or folder, never on what a link points to.
#[cfg(not(target_os = "linux"))]
pub(super) fn permit(parent: BorrowedFd<'_>, name: &CStr, needed: Mode) -> bool {
    rustix::fs::chmodat(parent, name, needed, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Lists a folder in order of names, without `.` and `..`.
pub(super) fn list(folder: impl AsFd) -> io::Result<Vec<(CString, FileType)>> {
    let mut entries = Vec::new();
    for entry in Dir::read_from(folder.as_fd())? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(folder.as_fd(), name)?,
                known => known,
            };
            entries.push((name.to_owned(), kind));
        }
    }
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(entries)
}

/// Tells what a name is, without following it.
pub(super) fn kind_of(parent: impl AsFd, name: &CStr) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode))
}

struct Walk<'a> {
    scope: Scope,
    entries: usize,
    path: Vec<u8>,
    depth: usize,
    visitor: &'a mut dyn Visitor,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &OwnedFd) -> Result<(), WorkspaceError> {
        let entries = match list(folder) {
            Ok(entries) => entries,
            Err(error) => {
                self.leave_out(&format!("cannot be listed: {error}"));
                return Ok(());
            }
        };
        let parent = self.path.len();
        for (name, kind) in entries {
            if self.scope.leaves_out(self.depth, name.to_bytes()) {
                continue;
            }
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                self.leave_out(&format!("holds entries beyond the first {MAX_ENTRIES} of the tree"));
                break;
            }
            if parent > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(name.to_bytes());
            self.entry(folder, &name, kind)?;
            self.path.truncate(parent);
        }
        Ok(())
    }

    fn entry(&mut self, parent: &OwnedFd, name: &CStr, kind: FileType) -> Result<(), WorkspaceError> {
        match kind {
            FileType::RegularFile => match open_file(parent, name) {
                Ok(file) => self.visitor.file(&self.path, name, file)?,
                Err(error) => self.leave_out(&format!("cannot be read: {error}")),
            },
            FileType::Symlink => match link_target(parent, name) {
                Ok(Some(target)) => self.visitor.link(&self.path, name, &target)?,
                Ok(None) => self.leave_out("changed while it was read"),
                Err(error) => self.leave_out(&format!("cannot be read: {error}")),
            },
            FileType::Directory if self.depth + 1 >= MAX_DEPTH => {
                self.leave_out(&format!("is nested deeper than {MAX_DEPTH} folders"));
            }
            FileType::Directory => match open_folder(parent, name) {
                Ok(folder) => {
                    self.visitor.enter(&self.path, name)?;
                    self.depth += 1;
                    self.folder(&folder)?;
                    self.depth -= 1;
                    self.visitor.leave();
                }
                Err(error) => self.leave_out(&format!("cannot be opened: {error}")),
            },
            FileType::Fifo => self.leave_out("is a pipe"),
            FileType::Socket => self.leave_out("is a socket"),
            FileType::CharacterDevice | FileType::BlockDevice => self.leave_out("is a device"),
            FileType::Unknown => self.leave_out("is of an unknown kind"),
        }
        Ok(())
    }

    fn leave_out(&mut self, reason: &str) {
        let path = if self.path.is_empty() { "the workspace".to_owned() } else { quoted(&self.path) };
        self.visitor.note(format!("{path} {reason}; left out"));
    }
}
