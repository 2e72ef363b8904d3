//! Removes trees that an agent may have made hard to remove.

use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{FileType, Mode};

use super::WorkspaceError;
use super::walk::{list, open_folder, open_root, permit};

/// Removes a file, a link or a whole tree; what a link points to stays. Not being there is no error.
///
/// Folders whose owner took away their own permission get it back first.
pub(super) fn remove_tree(path: &Path) -> Result<(), WorkspaceError> {
    let result = match remove(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open_up(path).and_then(|()| remove(path)),
        other => other,
    };
    result.map_err(|e| WorkspaceError::file("remove", path, e))
}

/// Removes everything in a folder but the names given.
pub(super) fn clear(folder: &Path, keep: &[&str]) -> Result<(), WorkspaceError> {
    let fail = |e| WorkspaceError::file("list", folder, e);
    for entry in fs::read_dir(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !keep.iter().any(|name| entry.file_name() == *name) {
            remove_tree(&entry.path())?;
        }
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives the owner all permissions on every folder of a tree.
fn open_up(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    open_up_below(&open_root(parent)?, &CString::new(name.as_bytes())?)
}

fn open_up_below(parent: &OwnedFd, name: &CStr) -> io::Result<()> {
    // Where this fails, the removal that follows says so.
    let _ = permit(parent.as_fd(), name, Mode::RWXU);
    let folder = open_folder(parent, name)?;
    for (name, kind) in list(&folder)? {
        if kind == FileType::Directory {
            open_up_below(&folder, &name)?;
        }
    }
    Ok(())
}
