//! Writes what comes out of a container to the host.
//!
//! The agent decides what the members are called and what they are. Every name is taken relative to an open folder and
//! no link is followed, so whatever an archive holds, it ends up below the one folder that it was meant for.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::FileType;
use tar::EntryType;

use super::members::{Member, Members};
use crate::runtime::folder::{CopyError, DEVICE, Folder, MAX_DEPTH, PIPE, TOO_DEEP, left_out};

/// What may come out of a container: an agent can make files of any size that take no space, and any number of names
/// for one file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// A larger file is left out.
    pub(super) file: u64,
    /// Once so many bytes are written, further files are left out.
    pub(super) tree: u64,
    /// An archive with more bytes is given up: what is left out comes over the wire all the same.
    pub(super) archive: u64,
    /// Entries beyond are left out.
    pub(super) entries: u64,
    /// Notes beyond are counted, not kept.
    pub(super) notes: usize,
}

impl Bounds {
    const USUAL: Self = Self { file: 4 << 30, tree: 32 << 30, archive: 64 << 30, entries: 1_000_000, notes: 100 };
}

/// Zeros of this length become a hole.
const PIECE: usize = 64 * 1024;

/// Writes the tree of an archive below a folder: the archive's first member is the top of the tree. Returns a note for
/// each thing left out.
pub(super) fn unpack(archive: impl Read, to: &Folder) -> Result<Vec<String>, CopyError> {
    unpack_within(archive, to, Bounds::USUAL)
}

/// The same with other bounds.
pub(super) fn unpack_within(archive: impl Read, to: &Folder, bounds: Bounds) -> Result<Vec<String>, CopyError> {
    let mut members = Members::new(archive);
    let mut unpacker = Unpacker {
        top: to,
        open: Vec::new(),
        bounds,
        entries: 0,
        written: 0,
        announced: 0,
        notes: Vec::new(),
        dropped: 0,
        buffer: vec![0; PIECE],
    };
    let top = |source| CopyError { at: PathBuf::new(), source };
    let mut begun = false;
    while let Some(member) = members.next().map_err(top)? {
        let Some(parts) = parts(&member.path) else {
            unpacker.leave_out(&shown(&member.path), "its name leads out of the tree");
            continue;
        };
        // The first part names the tree.
        match parts.split_first() {
            None | Some((_, [])) => {
                check_top(member.kind).map_err(top)?;
                begun = true;
            }
            Some((_, below)) => {
                let below: PathBuf = below.iter().collect();
                let done = unpacker.entry(&member, &below, &mut members);
                done.map_err(|source| CopyError { at: below, source })?;
            }
        }
    }
    if !begun {
        return Err(top(io::Error::new(io::ErrorKind::InvalidData, "the daemon's archive holds no folder")));
    }
    Ok(unpacker.all_notes())
}

fn check_top(kind: EntryType) -> io::Result<()> {
    let why = match kind {
        EntryType::Directory => return Ok(()),
        EntryType::Symlink => "it is a symlink, which is not followed",
        _ => "it is no folder",
    };
    Err(io::Error::new(io::ErrorKind::NotADirectory, why))
}

/// Splits a name; `None` where it could lead out.
fn parts(path: &[u8]) -> Option<Vec<&OsStr>> {
    if path.starts_with(b"/") || path.contains(&0) {
        return None;
    }
    let parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    parts.map(|part| (part != b"..").then(|| OsStr::from_bytes(part))).collect()
}

fn shown(path: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(path))
}

struct Unpacker<'f> {
    top: &'f Folder,
    /// The folders down to where the last member went.
    open: Vec<(std::ffi::OsString, Folder)>,
    bounds: Bounds,
    entries: u64,
    written: u64,
    announced: u64,
    notes: Vec<String>,
    dropped: usize,
    buffer: Vec<u8>,
}

impl Unpacker<'_> {
    fn entry<R: Read>(&mut self, member: &Member, path: &Path, content: &mut Members<R>) -> io::Result<()> {
        self.announced = self.announced.saturating_add(member.size);
        if self.announced > self.bounds.archive {
            let message = format!("the tree holds more than {} bytes", self.bounds.archive);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        self.entries += 1;
        if self.entries > self.bounds.entries {
            if self.entries == self.bounds.entries + 1 {
                self.leave_out(path, "it comes after the last entry that is copied");
            }
            return Ok(());
        }
        let depth = path.components().count();
        if depth > MAX_DEPTH {
            // One note for the folder tells of all that is in it.
            if depth == MAX_DEPTH + 1 && member.kind == EntryType::Directory {
                self.leave_out(path, TOO_DEEP);
            }
            return Ok(());
        }
        match member.kind {
            EntryType::Directory => self.folder(path).map(|_| ()),
            EntryType::Regular | EntryType::Continuous => self.file(member, path, content),
            EntryType::Symlink => {
                let (parent, name) = self.parent(path)?;
                parent.link(name, OsStr::from_bytes(&member.target))
            }
            EntryType::Link => self.other_name(&member.target, path),
            EntryType::Fifo => {
                self.leave_out(path, PIPE);
                Ok(())
            }
            _ => {
                self.leave_out(path, DEVICE);
                Ok(())
            }
        }
    }

    fn file(&mut self, member: &Member, path: &Path, content: &mut impl Read) -> io::Result<()> {
        if !self.has_room(path, member.size) {
            return Ok(());
        }
        let (parent, name) = self.parent(path)?;
        let mut file = parent.create(name, member.executable)?;
        copy_sparse(content, &mut file, &mut self.buffer)?;
        keep_time(&file, member.modified);
        Ok(())
    }

    /// Writes a further name of a file that came before, as a copy.
    fn other_name(&mut self, target: &[u8], path: &Path) -> io::Result<()> {
        let parts = parts(target).unwrap_or_default();
        let first: PathBuf = parts.iter().skip(1).collect();
        if first == path {
            return Ok(());
        }
        let Some((folder, name, kind)) = self.find(&first) else {
            self.leave_out(path, "it is another name of something that was left out");
            return Ok(());
        };
        if kind == FileType::Symlink {
            let target = folder.target(&name)?;
            let (parent, name) = self.parent(path)?;
            return parent.link(name, &target);
        }
        let (mut source, executable) = folder.open_file(&name)?;
        let about = source.metadata()?;
        if !self.has_room(path, about.len()) {
            return Ok(());
        }
        let (parent, name) = self.parent(path)?;
        let mut file = parent.create(name, executable)?;
        copy_sparse(&mut source, &mut file, &mut self.buffer)?;
        // Where a time cannot be kept, the copy is new, which is harmless.
        let _ = about.modified().map(|time| file.set_modified(time));
        Ok(())
    }

    /// Finds a file or link that was written before.
    fn find(&self, path: &Path) -> Option<(Folder, std::ffi::OsString, FileType)> {
        let name = path.file_name()?.to_owned();
        let folder = self.top.below(path.parent()?, false).ok()?;
        let kind = folder.kind(&name).ok()?;
        matches!(kind, FileType::RegularFile | FileType::Symlink).then_some((folder, name, kind))
    }

    fn has_room(&mut self, path: &Path, size: u64) -> bool {
        if size > self.bounds.file || self.written.saturating_add(size) > self.bounds.tree {
            self.leave_out(path, &format!("it is too large ({size} bytes)"));
            return false;
        }
        self.written += size;
        true
    }

    fn parent<'p>(&mut self, path: &'p Path) -> io::Result<(&Folder, &'p OsStr)> {
        let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "the member has no name");
        let name = path.file_name().ok_or_else(no_name)?;
        Ok((self.folder(path.parent().unwrap_or(Path::new("")))?, name))
    }

    /// Returns a folder below the top, made where it is missing. Members come folder by folder, so most of the way is
    /// open from the last time.
    fn folder(&mut self, path: &Path) -> io::Result<&Folder> {
        let parts: Vec<&OsStr> = path.iter().collect();
        let same = self.open.iter().zip(&parts).take_while(|((open, _), part)| open.as_os_str() == **part).count();
        self.open.truncate(same);
        for part in &parts[same..] {
            let folder = self.open.last().map_or(self.top, |(_, folder)| folder).make(part)?;
            self.open.push(((*part).to_owned(), folder));
        }
        Ok(self.open.last().map_or(self.top, |(_, folder)| folder))
    }

    fn leave_out(&mut self, path: &Path, why: &str) {
        if self.notes.len() < self.bounds.notes {
            self.notes.push(left_out(path, why));
        } else {
            self.dropped += 1;
        }
    }

    fn all_notes(mut self) -> Vec<String> {
        if self.dropped > 0 {
            self.notes.push(format!("and {} more left out", self.dropped));
        }
        self.notes
    }
}

/// Copies to the end. Long runs of zeros take no space.
fn copy_sparse(from: &mut impl Read, to: &mut File, buffer: &mut [u8]) -> io::Result<()> {
    let mut size = 0;
    loop {
        let filled = fill(from, buffer)?;
        size += filled as u64;
        let piece = &buffer[..filled];
        if filled == buffer.len() && piece.iter().all(|byte| *byte == 0) {
            to.seek(SeekFrom::Start(size))?;
            continue;
        }
        to.write_all(piece)?;
        if filled < buffer.len() {
            // Zeros that were skipped at the end have not made it longer.
            return to.set_len(size);
        }
    }
}

/// Reads until the buffer is full or there is no more.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn keep_time(file: &File, seconds: u64) {
    // Build tools compare times. Where one cannot be kept, the copy is new, which is harmless.
    let _ = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).map(|time| file.set_modified(time));
}

#[cfg(test)]
mod tests;
