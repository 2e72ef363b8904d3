//! Whose an environment is: a file beside it that outlives its host, so that a later host can tell a dead one's
//! leftovers from a living one's work.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::processes;

/// The file, in the environment's scratch folder.
const FILE: &str = "owner.json";
/// How deep below the store's folder environments are looked for.
const MAX_DEPTH: usize = 8;

/// A host process, told apart from others that have had the same number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Owner {
    /// The environment's id, which marks its processes.
    pub(super) environment: String,
    pid: i32,
    /// Ticks from boot to the host's start; 0 where there is no process table.
    started: u64,
    boot: String,
    /// The machine and the pid namespace that `pid` counts in.
    machine: String,
    namespace: String,
}

/// What is known of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    /// It runs.
    Alive,
    /// It is gone, its processes may be there.
    Dead,
    /// It is gone with all its processes: the machine was started anew.
    BeforeBoot,
    /// It counts its processes elsewhere: on another machine that shares the disk, or in another container.
    Unknown,
}

impl Owner {
    /// Describes this process as the owner of an environment.
    pub(super) fn this_process(environment: String) -> Self {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Self {
            environment,
            pid,
            started: processes::read(pid).map_or(0, |process| process.started),
            boot: processes::boot_id(),
            machine: fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned(),
            namespace: fs::read_link("/proc/self/ns/pid")
                .map(|link| link.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    /// Writes the file.
    pub(super) fn write(&self, scratch: &Path) -> io::Result<()> {
        fs::write(scratch.join(FILE), serde_json::to_vec(self)?)
    }

    fn read(scratch: &Path) -> Option<Self> {
        let owner: Self = serde_json::from_slice(&fs::read(scratch.join(FILE)).ok()?).ok()?;
        // The id becomes a pattern for processes to kill: only one that we made may.
        uuid::Uuid::try_parse(&owner.environment).ok()?;
        Some(owner)
    }

    /// Finds out whether the owner lives.
    pub(super) fn life(&self) -> Life {
        let here = Self::this_process(self.environment.clone());
        if self.machine != here.machine {
            return Life::Unknown;
        }
        if self.boot != here.boot {
            return Life::BeforeBoot;
        }
        if self.namespace != here.namespace {
            return Life::Unknown;
        }
        let alive = match processes::read(self.pid) {
            Some(process) => process.alive && process.started == self.started,
            // No such process, or no process table at all.
            None => here.started == 0 && Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
        };
        if alive { Life::Alive } else { Life::Dead }
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
    fn a_recycled_number_is_not_the_owner() {
        assert_eq!(own().life(), Life::Alive);
        assert_eq!(Owner { started: own().started + 1, ..own() }.life(), Life::Dead);
        assert_eq!(Owner { boot: "another".to_owned(), ..own() }.life(), Life::BeforeBoot);
        assert_eq!(Owner { machine: "another".to_owned(), ..own() }.life(), Life::Unknown);
        assert_eq!(Owner { namespace: "another".to_owned(), ..own() }.life(), Life::Unknown);
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
