//! Environments whose host is gone, taken up again with their files.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use super::LocalRuntime;
use super::environment::{LocalEnvironment, file_error, mark, survived};
use super::folder;
use super::owner::Owner;
use super::tree::{Ended, Tree};
use crate::runtime::owner::Life;
use crate::runtime::{EnvironmentSpec, RuntimeError};

/// Takes up the environment in the scratch folder of `spec`. `None` where there is none, where its host lives or cannot
/// be seen from here, and where the machine was started anew meanwhile: what was written last may then be lost.
pub(super) fn open(runtime: &LocalRuntime, spec: &EnvironmentSpec) -> Result<Option<LocalEnvironment>, RuntimeError> {
    let Ok(scratch) = spec.scratch.canonicalize() else { return Ok(None) };
    let abandoned = || Owner::read(&scratch).filter(|owner| owner.life() == Life::Dead);
    if abandoned().is_none() || !scratch.join("work").is_dir() {
        return Ok(None);
    }
    // Of two hosts one finds that the other was faster.
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(scratch.join("owner.lock"));
    let lock = lock.and_then(|lock| lock.lock().map(|()| lock));
    let _lock = lock.map_err(|source| file_error("lock", &scratch, source))?;
    let Some(owner) = abandoned() else { return Ok(None) };
    // Under a new mark: whoever sweeps at the same time looks for the old one.
    let id = uuid::Uuid::new_v4().simple().to_string();
    let ended = end(&owner);
    if !ended.survivors.is_empty() {
        return Err(survived(&ended));
    }
    Owner::this_process(id.clone()).write(&scratch).map_err(|source| file_error("take over", &scratch, source))?;
    let renew = || -> io::Result<()> {
        folder::remove(&scratch.join("tmp"))?;
        fs::create_dir(scratch.join("tmp"))
    };
    renew().map_err(|source| file_error("empty", &scratch.join("tmp"), source))?;
    let environment = runtime.environment(id, scratch, spec);
    environment.mend()?;
    Ok(Some(environment))
}

/// Ends the processes of an environment that is kept, if its host is dead; says what was done.
pub(super) fn quiet(scratch: &Path, owner: &Owner) -> Option<String> {
    if owner.life() != Life::Dead {
        return None;
    }
    let (shown, ended) = (scratch.display(), end(owner));
    if !ended.survivors.is_empty() {
        return Some(format!("could not end the processes of `{shown}`: {}", survived(&ended)));
    }
    (ended.killed > 0)
        .then(|| format!("ended {} processes of `{shown}`, whose host is gone; kept its files", ended.killed))
}

/// Removes an environment. The owner's file goes last: until then whoever is killed on the way leaves what a sweep finds.
pub(super) fn remove(scratch: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(scratch) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == Owner::FILE {
            continue;
        }
        if entry.file_type()?.is_dir() { folder::remove(&entry.path())? } else { fs::remove_file(entry.path())? }
    }
    folder::remove(scratch)
}

/// Ends the processes that an owner has left.
pub(super) fn end(owner: &Owner) -> Ended {
    Tree { leader: None, marker: mark(&owner.environment), first: 0, since: 0, recent: false }.kill()
}
