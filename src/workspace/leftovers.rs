//! What a host that was killed has left half made in the folder of seeds.
//!
//! A host that works in the folder shares a lock on it, which the kernel takes back whatever ends the host. Who gets the
//! lock for itself alone knows that nobody is making anything.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;

use super::WorkspaceError;
use super::remove::remove_tree;

/// The file whose lock tells that somebody works in the folder.
const LOCK: &str = ".in-use";
/// How the names of unfinished seeds begin.
pub(super) const BUILDING: &str = ".building-";
/// How the names of unfinished clones begin.
pub(super) const CLONING: &str = ".cloning-";

/// Makes the folder, removes what is half made where nobody else works in it, and returns the lock to hold on to;
/// `None` on a file system without locks.
pub(super) fn enter(dir: &Path, clones: &Path) -> Result<Option<File>, WorkspaceError> {
    fs::create_dir_all(dir).map_err(|e| WorkspaceError::file("create", dir, e))?;
    let path = dir.join(LOCK);
    let lock = File::create(&path).map_err(|e| WorkspaceError::file("create", &path, e))?;
    match lock.try_lock() {
        Ok(()) => {
            sweep(dir, BUILDING);
            sweep(clones, CLONING);
            // In between somebody else may sweep, which finds nothing of ours yet.
            if lock.unlock().is_err() {
                return Ok(None);
            }
        }
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(_)) => return Ok(None),
    }
    Ok(lock.lock_shared().is_ok().then_some(lock))
}

/// Removes the folders in `dir` whose names begin so. What cannot be removed is told and left.
fn sweep(dir: &Path, prefix: &str) {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return tracing::warn!(%error, "`{}` cannot be swept", dir.display()),
    };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(prefix) {
            continue;
        }
        match remove_tree(&entry.path()) {
            Ok(()) => tracing::info!("swept: `{}`", entry.path().display()),
            Err(error) => tracing::warn!("not swept: {}", error.full_message()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_made_folders_go_when_nobody_works_there() {
        let root = tempfile::tempdir().expect("a folder");
        let (dir, clones) = (root.path().join("seeds"), root.path().join("seeds/clones"));
        let left = [dir.join(".building-x/tree"), clones.join(".cloning-y/clone"), dir.join("whole/tree")];
        for path in &left {
            fs::create_dir_all(path).expect("made");
        }
        let first = enter(&dir, &clones).expect("entered").expect("locked");
        assert_eq!(left.each_ref().map(|path| path.exists()), [false, false, true]);

        fs::create_dir_all(&left[0]).expect("made");
        let second = enter(&dir, &clones).expect("entered").expect("locked");
        assert!(left[0].exists(), "the first may be building it");
        drop((first, second));
        enter(&dir, &clones).expect("entered");
        assert!(!left[0].exists());
    }
}
