//! Whose an environment is: a file beside it that outlives its host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::runtime::owner::{HostProcess, Life};

/// How deep below the store's folder environments are looked for.
const MAX_DEPTH: usize = 8;

/// The owner of an environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// The environment's id, which marks its processes.
    pub(super) environment: String,
    #[serde(flatten)]
    host: HostProcess,
}

impl Owner {
    /// The file, in the environment's scratch folder.
    pub(super) const FILE: &str = "owner.json";

    /// Describes this process as the owner of an environment.
    pub(super) fn this_process(environment: String) -> Self {
        Self { environment, host: HostProcess::current() }
    }

    /// Writes the file.
    pub(super) fn write(&self, scratch: &Path) -> io::Result<()> {
        // In one step: a host that dies in the middle must not leave an environment without an owner.
        let new = scratch.join(format!("{}.new", Self::FILE));
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(new, scratch.join(Self::FILE))
    }

    /// Reads the file.
    pub(super) fn read(scratch: &Path) -> Option<Self> {
        let owner: Self = serde_json::from_slice(&fs::read(scratch.join(Self::FILE)).ok()?).ok()?;
        // The id becomes a pattern for processes to kill: only one that we made may.
        uuid::Uuid::try_parse(&owner.environment).ok()?;
        Some(owner)
    }

    /// Finds out whether the owner lives.
    pub(super) fn life(&self) -> Life {
        self.host.life()
    }
}

/// Finds the environments below `root`, without following links and without looking into environments.
pub(super) fn find(root: &Path) -> io::Result<Vec<(PathBuf, Owner)>> {
    let mut found = Vec::new();
    match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(_) => look(root, 0, &mut found),
    }
    Ok(found)
}

fn look(folder: &Path, depth: usize, found: &mut Vec<(PathBuf, Owner)>) {
    if let Some(owner) = Owner::read(folder) {
        found.push((folder.to_owned(), owner));
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if depth < MAX_DEPTH && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            look(&entry.path(), depth + 1, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Owner {
        Owner::this_process(uuid::Uuid::new_v4().simple().to_string())
    }

    #[test]
    fn only_ids_of_our_own_making_are_believed() {
        let dir = tempfile::tempdir().expect("a folder");
        let scratch = dir.path().join("run/cell/1");
        fs::create_dir_all(&scratch).expect("made");
        own().write(&scratch).expect("written");
        assert_eq!(find(dir.path()).expect("listed").len(), 1);
        Owner { environment: String::new(), ..own() }.write(&scratch).expect("written");
        assert_eq!(find(dir.path()).expect("listed").len(), 0);
        assert_eq!(find(&dir.path().join("absent")).expect("nothing is no error").len(), 0);
    }
}
