//! Trees that an agent may have prepared, copied without following a single symlink.
//!
//! Every step goes through the descriptor of the folder before it, so a link that is put in the way between a look and
//! a step is met as a link and not followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Deeper trees are left out: every level holds a descriptor.
const MAX_DEPTH: usize = 128;

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// Where a copy failed, below the folder that was copied.
#[derive(Debug)]
pub(super) struct CopyError {
    pub(super) at: PathBuf,
    pub(super) source: io::Error,
}

impl Folder {
    /// Opens a folder that nobody but the host can exchange.
    pub(super) fn open_trusted(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(CWD, path, flags, Mode::empty())?))
    }

    /// Opens the folder `relative` below this one; with `make`, creates what is missing and replaces what is in the
    /// way (a symlink, a file).
    pub(super) fn below(&self, relative: &Path, make: bool) -> io::Result<Self> {
        let mut folder = Self(self.0.try_clone()?);
        for part in relative.components() {
            let Component::Normal(name) = part else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path may not hold `..`"));
            };
            folder = if make { folder.make(name)? } else { folder.open(name)? };
        }
        Ok(folder)
    }

    fn open(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(&self.0, name, flags, Mode::empty())?))
    }

    fn make(&self, name: &OsStr) -> io::Result<Self> {
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
    pub(super) fn create(&self, name: &OsStr, executable: bool) -> io::Result<File> {
        self.unlink(name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if executable { 0o755 } else { 0o644 });
        Ok(File::from(rustix::fs::openat(&self.0, name, flags, mode)?))
    }

    /// Opens a plain file and tells whether it is executable; never waits for the other end of a pipe.
    fn open_file(&self, name: &OsStr) -> io::Result<(File, bool)> {
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

    fn kind(&self, name: &OsStr) -> io::Result<FileType> {
        let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    /// Copies everything below this folder to `to`. Returns a note for each thing left out.
    pub(super) fn copy(&self, to: &Self) -> Result<Vec<String>, CopyError> {
        let mut notes = Vec::new();
        self.copy_level(to, Path::new(""), 0, &mut notes)?;
        Ok(notes)
    }

    fn copy_level(&self, to: &Self, at: &Path, depth: usize, notes: &mut Vec<String>) -> Result<(), CopyError> {
        let names = self.names().map_err(|source| CopyError { at: at.to_owned(), source })?;
        for name in names {
            let path = at.join(&name);
            let mut leave_out = |why: &str| notes.push(format!("left out `{}`: {why}", path.display()));
            let failed = |source| CopyError { at: path.clone(), source };
            let kind = match self.kind(&name) {
                Ok(kind) => kind,
                // Somebody still works here, and removed it between two looks.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            match kind {
                FileType::Directory if depth >= MAX_DEPTH => leave_out("the tree is too deep"),
                FileType::Directory => match self.open(&name) {
                    Ok(folder) => folder.copy_level(&to.make(&name).map_err(failed)?, &path, depth + 1, notes)?,
                    Err(error) if is_unreadable(&error) => leave_out("the folder cannot be read"),
                    Err(error) => return Err(failed(error)),
                },
                FileType::RegularFile => match self.open_file(&name) {
                    Ok((mut file, executable)) => {
                        let mut copy = to.create(&name, executable).map_err(failed)?;
                        io::copy(&mut file, &mut copy).map_err(failed)?;
                    }
                    Err(error) if is_unreadable(&error) => leave_out("the file cannot be read"),
                    Err(error) => return Err(failed(error)),
                },
                FileType::Symlink => self.copy_link(to, &name).map_err(failed)?,
                FileType::Fifo => leave_out("it is a named pipe"),
                FileType::Socket => leave_out("it is a socket"),
                _ => leave_out("it is a device"),
            }
        }
        Ok(())
    }

    fn copy_link(&self, to: &Self, name: &OsStr) -> io::Result<()> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        to.unlink(name)?;
        Ok(rustix::fs::symlinkat(OsStr::from_bytes(target.as_bytes()), &to.0, name)?)
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
pub(super) fn remove(path: &Path) -> io::Result<()> {
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
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn copy(from: &Path, to: &Path) -> Vec<String> {
        fs::create_dir_all(to).expect("made");
        let to = Folder::open_trusted(to).expect("opens");
        Folder::open_trusted(from).expect("opens").copy(&to).expect("copies")
    }

    #[test]
    fn links_stay_links_and_modes_keep_their_executable_bit() {
        let dir = tempfile::tempdir().expect("a folder");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("a/b")).expect("made");
        fs::write(from.join("a/b/run"), "#!").expect("written");
        fs::set_permissions(from.join("a/b/run"), fs::Permissions::from_mode(0o700)).expect("set");
        fs::write(from.join("a/data"), "x").expect("written");
        symlink("/etc/passwd", from.join("out")).expect("linked");
        symlink("nowhere", from.join("a/dangling")).expect("linked");
        let odd = OsStr::from_bytes(b"odd \xff\nname");
        fs::write(from.join(odd), "odd").expect("written");

        assert_eq!(copy(&from, &to), Vec::<String>::new());
        assert_eq!(fs::read_link(to.join("out")).expect("a link"), Path::new("/etc/passwd"));
        assert_eq!(fs::read_link(to.join("a/dangling")).expect("a link"), Path::new("nowhere"));
        assert_eq!(fs::read(to.join(odd)).expect("there"), b"odd");
        let mode = |path: &str| fs::metadata(to.join(path)).expect("there").permissions().mode() & 0o100;
        assert_eq!((mode("a/b/run"), mode("a/data")), (0o100, 0));
    }

    #[test]
    fn a_link_in_the_way_is_replaced_and_what_it_led_to_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let (from, to, outside) = (dir.path().join("from"), dir.path().join("to"), dir.path().join("outside"));
        for folder in [&from.join("tests"), &to, &outside] {
            fs::create_dir_all(folder).expect("made");
        }
        fs::write(from.join("tests/t"), "hidden").expect("written");
        fs::write(from.join("file"), "new").expect("written");
        fs::write(outside.join("precious"), "old").expect("written");
        symlink(&outside, to.join("tests")).expect("linked");
        symlink(outside.join("precious"), to.join("file")).expect("linked");

        copy(&from, &to);
        assert_eq!(fs::read(to.join("tests/t")).expect("there"), b"hidden");
        assert!(!outside.join("t").exists());
        assert_eq!(fs::read(outside.join("precious")).expect("there"), b"old");
        assert_eq!(fs::read(to.join("file")).expect("there"), b"new");
    }

    #[test]
    fn pipes_and_sockets_are_named_and_left_out() {
        let dir = tempfile::tempdir().expect("a folder");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(&from).expect("made");
        rustix::fs::mkfifoat(CWD, from.join("fifo"), Mode::from_raw_mode(0o600)).expect("made");
        let _socket = std::os::unix::net::UnixListener::bind(from.join("socket")).expect("bound");
        let notes = copy(&from, &to);
        assert_eq!(notes, ["left out `fifo`: it is a named pipe", "left out `socket`: it is a socket"]);
    }

    #[test]
    fn trees_deeper_than_any_path_are_left_out_and_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir(&from).expect("made");
        let mut folder = Folder::open_trusted(&from).expect("opens");
        for _ in 0..1200 {
            folder = folder.make(OsStr::new("deep")).expect("made");
        }
        let notes = copy(&from, &to);
        assert_eq!(notes.len(), 1);
        assert!(notes[0].ends_with("the tree is too deep"), "{}", notes[0]);
        remove(&from).expect("removed");
        assert!(!from.exists());
    }

    #[test]
    fn read_only_folders_are_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let top = dir.path().join("top");
        fs::create_dir_all(top.join("locked/inner")).expect("made");
        fs::write(top.join("locked/inner/file"), "x").expect("written");
        for folder in ["locked/inner", "locked"] {
            fs::set_permissions(top.join(folder), fs::Permissions::from_mode(0o000)).expect("set");
        }
        remove(&top).expect("removed");
        assert!(!top.exists());
        remove(&top).expect("removing nothing is no error");
    }
}
