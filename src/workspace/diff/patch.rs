//! Writes differences in git's patch format.

use std::fmt::Write as _;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha1::{Digest, Sha1};

use super::changes::Change;
use super::{Diff, DiffLimits, DiffStats, binary, hunks};
use crate::workspace::WorkspaceError;
use crate::workspace::beneath::{Links, Miss, find};
use crate::workspace::names::{as_path, prefixed, quoted};
use crate::workspace::snapshot::{FileEntry, FileKind};
use crate::workspace::walk::{link_target, open_file, open_root};

/// The id that stands for a file that is not there.
const NO_BLOB: &str = "0000000000000000000000000000000000000000";

/// Writes the patch of all changes; files beyond the limits are noted instead.
pub(super) fn write(
    base: &Path,
    last: &Path,
    changes: &[Change<'_>],
    limits: DiffLimits,
) -> Result<Diff, WorkspaceError> {
    let mut writer = Writer {
        base: Tree::open(base)?,
        last: Tree::open(last)?,
        limits,
        out: Vec::new(),
        stats: DiffStats::default(),
    };
    for change in changes {
        writer.change(change)?;
    }
    for note in &writer.stats.notes {
        // Text between patches is skipped by every reader of patches.
        writer.out.extend_from_slice(format!("# {note}\n").as_bytes());
    }
    let mut paths: Vec<&[u8]> = changes.iter().map(path_of).collect();
    paths.dedup();
    writer.stats.files_changed = paths.len() as u64;
    Ok(Diff { patch: writer.out, stats: writer.stats })
}

fn path_of<'a>(change: &Change<'a>) -> &'a [u8] {
    match change {
        Change::Added { path, .. } | Change::Deleted { path, .. } | Change::Modified { path, .. } => path,
        Change::Renamed { to, .. } => to,
    }
}

/// A tree that files are read from.
struct Tree {
    root: PathBuf,
    folder: OwnedFd,
}

impl Tree {
    fn open(root: &Path) -> Result<Self, WorkspaceError> {
        let folder = open_root(root).map_err(|e| WorkspaceError::file("open", root, e))?;
        Ok(Self { root: root.to_owned(), folder })
    }

    /// Reads a file's content or a link's target; links on the way are refused.
    fn read(&self, path: &[u8], entry: &FileEntry, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        let fail = |e: std::io::Error| WorkspaceError::file("read", self.root.join(as_path(path)), e);
        if entry.kind == FileKind::Symlink {
            return self.link(path).map_err(fail);
        }
        let place = find(&self.folder, path, Links::Refuse).map_err(|miss| fail(missed(miss)))?;
        let name = place.name.unwrap_or_default();
        let mut content = Vec::with_capacity(usize::try_from(entry.size.min(limit)).unwrap_or(0));
        let file = open_file(&place.parent, &name).map_err(fail)?;
        file.take(limit).read_to_end(&mut content).map_err(fail)?;
        Ok(content)
    }

    fn link(&self, path: &[u8]) -> std::io::Result<Vec<u8>> {
        let (folder, name) = match path.iter().rposition(|&b| b == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        let place = find(&self.folder, folder, Links::Refuse).map_err(missed)?;
        let parent = match place.name {
            Some(name) => crate::workspace::walk::open_folder(&place.parent, &name)?,
            None => place.parent,
        };
        let target = link_target(&parent, &std::ffi::CString::new(name)?)?;
        target.map(std::ffi::CString::into_bytes).ok_or_else(|| std::io::Error::other("is no longer a link"))
    }
}

fn missed(miss: Miss) -> std::io::Error {
    match miss {
        Miss::Absent => std::io::ErrorKind::NotFound.into(),
        Miss::Outside => std::io::Error::other("a link stands in the way"),
        Miss::Io(error) => error,
    }
}

struct Writer {
    base: Tree,
    last: Tree,
    limits: DiffLimits,
    out: Vec<u8>,
    stats: DiffStats,
}

/// One side of a change.
type Side<'a> = Option<(&'a [u8], FileEntry)>;

impl Writer {
    fn change(&mut self, change: &Change<'_>) -> Result<(), WorkspaceError> {
        match *change {
            Change::Added { path, entry } => self.content("new", path, None, Some((path, entry))),
            Change::Deleted { path, entry } => self.content("deleted", path, Some((path, entry)), None),
            Change::Modified { path, old, new } => self.content("changed", path, Some((path, old)), Some((path, new))),
            Change::Renamed { from, to, old, new } => {
                self.header(from, to, &modes(Some(old), Some(new)));
                let names = format!("rename from {}\nrename to {}\n", quoted(from), quoted(to));
                self.text(&format!("similarity index 100%\n{names}"));
                Ok(())
            }
        }
    }

    fn content(&mut self, verb: &str, path: &[u8], old: Side<'_>, new: Side<'_>) -> Result<(), WorkspaceError> {
        let (old_entry, new_entry) = (old.map(|side| side.1), new.map(|side| side.1));
        let same = |a: FileEntry, b: FileEntry| a.hash == b.hash;
        let is_mode_only = old_entry.zip(new_entry).is_some_and(|(a, b)| same(a, b));
        if is_mode_only {
            self.header(path, path, &modes(old_entry, new_entry));
            return Ok(());
        }
        let too_large = |entry: Option<FileEntry>| entry.is_some_and(|entry| entry.size > self.limits.file_bytes);
        if too_large(old_entry) || too_large(new_entry) || self.out.len() >= self.limits.patch_bytes {
            self.stats.notes.push(format!(
                "{} {verb}, not shown: {} -> {}",
                quoted(path),
                described(old_entry),
                described(new_entry)
            ));
            return Ok(());
        }
        let old_bytes = self.read(&self.base, old)?;
        let new_bytes = self.read(&self.last, new)?;
        self.header(path, path, &modes(old_entry, new_entry));
        let unchanged_mode = old_entry.zip(new_entry).filter(|(a, b)| a.kind == b.kind).map(|(a, _)| a.kind.mode());
        let mode = unchanged_mode.map(|mode| format!(" {mode}")).unwrap_or_default();
        let ids = (blob_id(old_entry.is_some(), &old_bytes), blob_id(new_entry.is_some(), &new_bytes));
        self.text(&format!("index {}..{}{mode}\n", ids.0, ids.1));
        if binary::is_binary(&old_bytes) || binary::is_binary(&new_bytes) {
            binary::write(&old_bytes, &new_bytes, &mut self.out);
        } else if !(old_bytes.is_empty() && new_bytes.is_empty()) {
            self.text(&format!("--- {}\n+++ {}\n", file_line("a/", old), file_line("b/", new)));
            let lines = hunks::write(&old_bytes, &new_bytes, &mut self.out);
            self.stats.lines_added += lines.added;
            self.stats.lines_removed += lines.removed;
        }
        Ok(())
    }

    fn read(&self, tree: &Tree, side: Side<'_>) -> Result<Vec<u8>, WorkspaceError> {
        side.map_or(Ok(Vec::new()), |(path, entry)| tree.read(path, &entry, self.limits.file_bytes))
    }

    fn header(&mut self, old: &[u8], new: &[u8], modes: &str) {
        self.text(&format!("diff --git {} {}\n{modes}", prefixed("a/", old), prefixed("b/", new)));
    }

    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// The header lines about modes.
fn modes(old: Option<FileEntry>, new: Option<FileEntry>) -> String {
    let mut lines = String::new();
    let _ = match (old.map(|e| e.kind.mode()), new.map(|e| e.kind.mode())) {
        (None, Some(mode)) => writeln!(lines, "new file mode {mode}"),
        (Some(mode), None) => writeln!(lines, "deleted file mode {mode}"),
        (Some(old), Some(new)) if old != new => writeln!(lines, "old mode {old}\nnew mode {new}"),
        _ => Ok(()),
    };
    lines
}

/// A name in a `---` or `+++` line. One with blanks gets a tab behind it, so that readers know where it ends.
fn file_line(prefix: &str, side: Side<'_>) -> String {
    match side {
        None => "/dev/null".to_owned(),
        Some((path, _)) => {
            let name = prefixed(prefix, path);
            if name.contains(' ') && !name.starts_with('"') { format!("{name}\t") } else { name }
        }
    }
}

fn blob_id(exists: bool, content: &[u8]) -> String {
    if !exists {
        return NO_BLOB.to_owned();
    }
    let hash = Sha1::new().chain_update(format!("blob {}\0", content.len())).chain_update(content).finalize();
    HEXLOWER.encode(&hash)
}

fn described(entry: Option<FileEntry>) -> String {
    entry.map_or("nothing".to_owned(), |entry| format!("{} bytes, blake3 {}", entry.size, HEXLOWER.encode(&entry.hash)))
}
