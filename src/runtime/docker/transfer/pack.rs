//! Writes the archives that the daemon unpacks.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use jiff::Timestamp;
use tar::{Builder, EntryType, Header};

use crate::runtime::folder::Sink;

/// The longest target that a member's own header holds.
const SHORT_TARGET: usize = 100;

/// Writes an archive. Everything in it has one owner; modes keep nothing but the executable bit, as on a copy.
pub(super) struct Packer<W: Write> {
    archive: Builder<W>,
    owner: u32,
    now: u64,
    /// What all paths begin with.
    below: PathBuf,
}

impl<W: Write> Packer<W> {
    pub(super) fn new(into: W, owner: u32, now: Timestamp) -> Self {
        let now = u64::try_from(now.as_second()).unwrap_or_default();
        Self { archive: Builder::new(into), owner, now, below: PathBuf::new() }
    }

    /// Writes a folder for each part of a path: the daemon replaces a link of that name by a folder, where it would
    /// follow one that no member names. What is written afterwards goes below.
    pub(super) fn folders_to(&mut self, below: &Path) -> io::Result<()> {
        for part in below.components() {
            self.folder(Path::new(part.as_os_str()))?;
            self.below.push(part);
        }
        Ok(())
    }

    /// Writes a file of known content.
    pub(super) fn content(&mut self, path: &Path, content: &[u8], executable: bool) -> io::Result<()> {
        let mode = if executable { 0o755 } else { 0o644 };
        let mut header = self.header(EntryType::Regular, mode, content.len() as u64, self.now);
        self.archive.append_data(&mut header, self.below.join(path), content)
    }

    /// Writes the end of the archive.
    pub(super) fn finish(self) -> io::Result<()> {
        self.archive.into_inner()?.flush()
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        let mut header = self.header(EntryType::Directory, 0o755, 0, self.now);
        self.archive.append_data(&mut header, self.below.join(path), io::empty())
    }

    fn header(&self, kind: EntryType, mode: u32, size: u64, modified: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(self.owner.into());
        header.set_gid(self.owner.into());
        header.set_size(size);
        header.set_mtime(modified);
        header
    }

    /// Writes a member that holds the target of the one after it: a header has no room for it.
    fn long_target(&mut self, target: &[u8]) -> io::Result<()> {
        let mut header = self.header(EntryType::GNULongLink, 0o644, target.len() as u64 + 1, 0);
        self.archive.append_data(&mut header, "././@LongLink", target.chain(io::repeat(0).take(1)))
    }
}

impl<W: Write> Sink for Packer<W> {
    fn enter(&mut self, path: &Path) -> io::Result<()> {
        self.folder(path)
    }

    fn leave(&mut self) {}

    fn file(&mut self, path: &Path, file: &mut File, executable: bool) -> io::Result<()> {
        let about = file.metadata()?;
        // Build tools compare times; those before 1970 are no source's.
        let modified = about.modified()?.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let mode = if executable { 0o755 } else { 0o644 };
        let mut header = self.header(EntryType::Regular, mode, about.len(), modified);
        let content = Exactly { source: file, left: about.len() };
        self.archive.append_data(&mut header, self.below.join(path), content)
    }

    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        let target = target.as_bytes();
        let mut header = self.header(EntryType::Symlink, 0o777, 0, self.now);
        if target.len() <= SHORT_TARGET {
            header.set_link_name_literal(target)?;
        } else {
            self.long_target(target)?;
        }
        self.archive.append_data(&mut header, self.below.join(path), io::empty())
    }

    fn leave_out(&mut self, _: &Path, why: &str) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{why}; only files, folders and symlinks are copied")))
    }
}

/// Reads as many bytes as were promised: a file that others write to may grow or shrink.
struct Exactly<'f> {
    source: &'f mut File,
    left: u64,
}

impl Read for Exactly<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.left).unwrap_or(usize::MAX).min(into.len());
        let read = self.source.read(&mut into[..wanted])?;
        if read == 0 && wanted > 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
