//! Trees that an agent may have prepared, copied without following a single symlink.
//!
//! Every step goes through the descriptor of the folder before it, so a link that is put in the way between a look and
//! a step is met as a link and not followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Deeper trees are left out: every level holds a descriptor.
pub(in crate::runtime) const MAX_DEPTH: usize = 128;
/// Why a deeper tree is left out.
pub(in crate::runtime) const TOO_DEEP: &str = "the tree is too deep";
/// Why a named pipe is left out.
pub(in crate::runtime) const PIPE: &str = "it is a named pipe";
/// Why a device is left out.
pub(in crate::runtime) const DEVICE: &str = "it is a device";

/// An open folder.
#[derive(Debug)]
pub(in crate::runtime) struct Folder(OwnedFd);

/// Where a copy failed, below the folder that was copied.
#[derive(Debug)]
pub(in crate::runtime) struct CopyError {
    pub(in crate::runtime) at: PathBuf,
    pub(in crate::runtime) source: io::Error,
}

/// Takes what a walk meets. Paths are below the folder that is walked.
pub(in crate::runtime) trait Sink {
    /// A folder begins.
    fn enter(&mut self, path: &Path) -> io::Result<()>;
    /// The folder that began last ends.
    fn leave(&mut self);
    /// A plain file, open for reading.
    fn file(&mut self, path: &Path, file: &mut File, executable: bool) -> io::Result<()>;
    /// A symlink and its target.
    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()>;
    /// Something that is no folder, file or link, or cannot be read. An error ends the walk.
    fn leave_out(&mut self, path: &Path, why: &str) -> io::Result<()>;
}

/// Copies what a walk meets into another folder.
struct Copy {
    /// The folders that are open, from the top down.
    folders: Vec<Folder>,
    notes: Vec<String>,
}

impl Copy {
    fn here(&self) -> &Folder {
        // The top stays in the list from the beginning to the end.
        &self.folders[self.folders.len() - 1]
    }
}

impl Sink for Copy {
    fn enter(&mut self, path: &Path) -> io::Result<()> {
        let folder = self.here().make(name_of(path)?)?;
        self.folders.push(folder);
        Ok(())
    }

    fn leave(&mut self) {
        self.folders.pop();
    }

    fn file(&mut self, path: &Path, file: &mut File, executable: bool) -> io::Result<()> {
        let mut copy = self.here().create(name_of(path)?, executable)?;
        io::copy(file, &mut copy).map(|_| ())
    }

    fn link(&mut self, path: &Path, target: &OsStr) -> io::Result<()> {
        self.here().link(name_of(path)?, target)
    }

    fn leave_out(&mut self, path: &Path, why: &str) -> io::Result<()> {
        self.notes.push(left_out(path, why));
        Ok(())
    }
}

fn name_of(path: &Path) -> io::Result<&OsStr> {
    path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))
}

/// Says that something was not copied.
pub(in crate::runtime) fn left_out(path: &Path, why: &str) -> String {
    format!("left out `{}`: {why}", path.display())
}

impl Folder {
    /// Opens a folder that nobody but the host can exchange.
    pub(in crate::runtime) fn open_trusted(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens the folder `relative` below this one; with `make`, creates what is missing and replaces what is in the
    /// way (a symlink, a file).
    pub(in crate::runtime) fn below(&self, relative: &Path, make: bool) -> io::Result<Self> {
        let mut folder = Self(self.0.try_clone()?);
        for part in relative.components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path may not hold `..`"));
            };
            folder = if make { folder.make(name)? } else { folder.open(name)? };
        }
        Ok(folder)
    }

    /// Opens a folder by its name; a link is an error.
    pub(in crate::runtime) fn open(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    /// Opens a folder of that name, made where there is none; replaces a file or a link that is in the way.
    pub(in crate::runtime) fn make(&self, name: &OsStr) -> io::Result<Self> {
        match self.open(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // A file, a link to a folder, a link in a circle: whatever it is, it is not the folder.
            Err(error) if is_in_the_way(&error) => self.unlink(name)?,
            opened => return opened,
        }
        rustix::fs::mkdirat(&self.0, name, Mode::from_raw_mode(0o755))?;
        self.open(name)
    }

    fn unlink(&self, name: &OsStr) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, name, AtFlags::empty()) {
            Err(Errno::NOENT) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file; replaces a file or a link of that name.
    pub(in crate::runtime) fn create(&self, name: &OsStr, executable: bool) -> io::Result<File> {
        self.unlink(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, mode)?))
    }

    /// Opens a plain file and tells whether it is executable; never waits for the other end of a pipe.
    pub(in crate::runtime) fn open_file(&self, name: &OsStr) -> io::Result<(File, bool)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no plain file any more"));
        }
        Ok((File::from(file), stat.st_mode & 0o100 != 0))
    }

    fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Tells what a name is, without following it.
    pub(in crate::runtime) fn kind(&self, name: &OsStr) -> io::Result<FileType> {
        let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Meets everything below this folder, a folder before what is in it.
    pub(in crate::runtime) fn walk(&self, sink: &mut dyn Sink) -> Result<(), CopyError> {
        self.walk_level(sink, Path::new(""), 0)
    }

    fn walk_level(&self, sink: &mut dyn Sink, at: &Path, depth: usize) -> Result<(), CopyError> {
        let names = self.names().map_err(|source| CopyError { at: at.to_owned(), source })?;
        for name in names {
            let path = at.join(&name);
            let failed = |source| CopyError { at: path.clone(), source };
            let mut leave_out = |why: &str| sink.leave_out(&path, why).map_err(failed);
            let kind = match self.kind(&name) {
                Ok(kind) => kind,
                // Somebody still works here, and removed it between two looks.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            match kind {
                FileType::Directory if depth >= MAX_DEPTH => leave_out(TOO_DEEP)?,
                FileType::Directory => match self.open(&name) {
                    Ok(folder) => {
                        sink.enter(&path).map_err(failed)?;
                        folder.walk_level(sink, &path, depth + 1)?;
                        sink.leave();
                    }
                    Err(error) if is_unreadable(&error) => leave_out("the folder cannot be read")?,
                    Err(error) => return Err(failed(error)),
                },
                FileType::RegularFile => match self.open_file(&name) {
                    Ok((mut file, executable)) => sink.file(&path, &mut file, executable).map_err(failed)?,
                    Err(error) if is_unreadable(&error) => leave_out("the file cannot be read")?,
                    Err(error) => return Err(failed(error)),
                },
                FileType::Symlink => {
                    let target = self.target(&name).map_err(failed)?;
                    sink.link(&path, &target).map_err(failed)?;
                }
                FileType::Fifo => leave_out(PIPE)?,
                FileType::Socket => leave_out("it is a socket")?,
                _ => leave_out(DEVICE)?,
            }
        }
        Ok(())
    }

    /// Copies everything below this folder to `to`. Returns a note for each thing left out.
    pub(in crate::runtime) fn copy(&self, to: &Self) -> Result<Vec<String>, CopyError> {
        let top = to.0.try_clone().map_err(|error| CopyError { at: PathBuf::new(), source: error })?;
        let mut copy = Copy { folders: vec![Self(top)], notes: Vec::new() };
        self.walk(&mut copy)?;
        Ok(copy.notes)
    }

    /// Returns the target of a symlink, byte for byte.
    pub(in crate::runtime) fn target(&self, name: &OsStr) -> io::Result<OsString> {
        Ok(OsString::from_vec(rustix::fs::readlinkat(&self.0, name, Vec::new())?.into_bytes()))
    }

    /// Makes a symlink; replaces a file or a link of that name.
    pub(in crate::runtime) fn link(&self, name: &OsStr, target: &OsStr) -> io::Result<()> {
        self.unlink(name)?;
        Ok(rustix::fs::symlinkat(target, &self.0, name)?)
    }

    /// Makes this folder and all below it writable for their owner, so that they can be removed, and moves what lies too
    /// deep up into `top`. Returns how many folders it moved.
    fn loosen(&self, top: &Self, depth: usize) -> io::Result<usize> {
        rustix::fs::fchmod(&self.0, Mode::from_raw_mode(0o700))?;
        let mut moved = 0;
        for name in self.names()? {
            if self.kind(&name)? != FileType::Directory {
                continue;
            }
            let folder = self.open_locked(&name)?;
            if depth < MAX_DEPTH {
                moved += folder.loosen(top, depth + 1)?;
            } else {
                // A folder that moves to another one must be writable itself.
                rustix::fs::fchmod(&folder.0, Mode::from_raw_mode(0o700))?;
                let up = uuid::Uuid::new_v4().simple().to_string();
                rustix::fs::renameat(&self.0, &name, &top.0, up)?;
                moved += 1;
            }
        }
        Ok(moved)
    }

    fn open_locked(&self, name: &OsStr) -> io::Result<Self> {
        match self.open(name) {
            Err(error) if is_unreadable(&error) => {
                // It cannot be opened, so its mode is changed by name; nothing runs here any more that could swap it.
                rustix::fs::chmodat(&self.0, name, Mode::from_raw_mode(0o700), AtFlags::empty())?;
                self.open(name)
            }
            opened => opened,
        }
    }
}

/// Removes a tree, also one with read-only folders, and one that is deeper than descriptors or the stack allow. A tree
/// that is not there is removed.
pub(in crate::runtime) fn remove(path: &Path) -> io::Result<()> {
    let mut last = match std::fs::remove_dir_all(path) {
        Err(error) if path.symlink_metadata().is_ok() => error,
        Ok(()) | Err(_) => return Ok(()),
    };
    // Three tries, and more as long as each one brings something up from the deep.
    let mut tries = 0;
    while tries < 3 {
        let top = Folder::open_trusted(path)?;
        let moved = top.loosen(&top, 0);
        match std::fs::remove_dir_all(path) {
            Ok(()) => return Ok(()),
            Err(error) => last = error,
        }
        if !moved.is_ok_and(|moved| moved > 0) {
            tries += 1;
        }
    }
    Err(last)
}

fn is_in_the_way(error: &io::Error) -> bool {
    let raw = error.raw_os_error();
    [Errno::NOTDIR, Errno::LOOP, Errno::MLINK].iter().any(|errno| raw == Some(errno.raw_os_error()))
}

fn is_unreadable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests;
