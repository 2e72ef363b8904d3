//! Where things go in a container: a folder that no agent can exchange for a link, and the way on from there.

use std::io;
use std::path::{Component, Path, PathBuf};

use bollard::query_parameters::ContainerArchiveInfoOptionsBuilder;

use super::super::container::Container;
use super::super::error::is_absent;
use super::super::layout;
use super::failure::{file_error, of_daemon};
use crate::runtime::RuntimeError;

/// Folders that are always there. What lies below the first ones is the agent's.
const AGENTS: &[&str] = &[
    layout::WORKSPACE,
    layout::FORKS,
    layout::CHECKPOINTS,
    layout::HOME,
    layout::TMP,
    layout::LOGS,
    "/tmp",
    "/var/tmp",
];

/// The kinds of the daemon's own notation of modes.
const FOLDER: u32 = 1 << 31;
const LINK: u32 = 1 << 27;

/// Where something goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// A folder that is there and that only root could exchange.
    pub(super) base: String,
    /// The way on from there; may be empty.
    pub(super) below: PathBuf,
    /// Whose the new files are: the agent's in its own folders, else root's.
    pub(super) owner: u32,
}

/// What the daemon says of a path, without following its last part.
enum Found {
    Nothing,
    Folder,
    Link,
    Other,
}

impl Place {
    /// Finds the place of a path.
    pub(super) async fn find(container: &Container, path: &Path) -> Result<Self, RuntimeError> {
        let checked = check(path).map_err(|source| file_error("reach", path, source))?;
        if let Some(place) = Self::known(checked) {
            return Ok(place);
        }
        let mut base = "/".to_owned();
        let mut parts = checked.split('/').filter(|part| !part.is_empty());
        let mut rest = PathBuf::new();
        for part in parts.by_ref() {
            let next = format!("{}/{part}", base.trim_end_matches('/'));
            match look(container, &next).await? {
                Found::Folder => base = next,
                Found::Link => return Err(in_the_way(path, &next, "a symlink")),
                // A file may be what is replaced.
                Found::Nothing | Found::Other => {
                    rest.push(part);
                    break;
                }
            }
        }
        rest.extend(parts);
        Ok(Self { base, below: rest, owner: 0 })
    }

    /// Finds the place of a path in a folder that every container has.
    fn known(path: &str) -> Option<Self> {
        let below = |base: &str| Some(Path::new(path).strip_prefix(base).ok()?.to_owned());
        let agents = AGENTS.iter().map(|base| (*base, layout::AGENT));
        let mut all = agents.chain([(layout::ROOT, 0)]);
        all.find_map(|(base, owner)| Some(Self { base: base.to_owned(), below: below(base)?, owner }))
    }
}

/// Checks that no folder on the way to `path` is a link that an agent may have made, and returns the path as the daemon
/// wants it.
pub(super) async fn source(container: &Container, path: &Path) -> Result<String, RuntimeError> {
    let checked = check(path).map_err(|source| file_error("reach", path, source))?;
    let (base, below) = match Place::known(checked) {
        Some(place) => (place.base, place.below),
        None => ("/".to_owned(), Path::new(checked.trim_start_matches('/')).to_owned()),
    };
    let mut at = PathBuf::from(base);
    for part in below.parent().into_iter().flat_map(Path::components) {
        at.push(part);
        let shown = at.to_string_lossy();
        if let Found::Link = look(container, &shown).await? {
            return Err(in_the_way(path, &shown, "a symlink"));
        }
    }
    Ok(checked.to_owned())
}

/// Returns a path that begins at the root, holds no `..`, and can be told to the daemon.
fn check(path: &Path) -> io::Result<&str> {
    let refuse = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    let mut parts = path.components();
    if parts.next() != Some(Component::RootDir) || !parts.all(|part| matches!(part, Component::Normal(_))) {
        return Err(refuse("a path inside a container begins with `/` and holds no `..`"));
    }
    path.to_str().ok_or_else(|| refuse("a path inside a container must be valid UTF-8"))
}

async fn look(container: &Container, path: &str) -> Result<Found, RuntimeError> {
    let options = ContainerArchiveInfoOptionsBuilder::new().path(path).build();
    match container.client.get_container_archive_info(&container.id, Some(options)).await {
        Ok(stat) if stat.file_mode & FOLDER != 0 => Ok(Found::Folder),
        Ok(stat) if stat.file_mode & LINK != 0 => Ok(Found::Link),
        Ok(_) => Ok(Found::Other),
        Err(error) => match of_daemon(container, Path::new(path), &error).await {
            RuntimeError::File { .. } if is_absent(&error) => Ok(Found::Nothing),
            other => Err(other),
        },
    }
}

fn in_the_way(path: &Path, at: &str, what: &str) -> RuntimeError {
    let message = format!("`{at}` is {what}, which is not followed");
    file_error("reach", path, io::Error::new(io::ErrorKind::InvalidInput, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_agents_and_what_is_roots_is_told_by_the_folder() {
        let place = |path| Place::known(path).map(|place| (place.base, place.below.display().to_string(), place.owner));
        let known = |base: &str, below: &str, owner| Some((base.to_owned(), below.to_owned(), owner));
        assert_eq!(place("/work"), known("/work", "", 1000));
        assert_eq!(place("/work/a/b"), known("/work", "a/b", 1000));
        assert_eq!(place("/work-forks/1"), known("/work-forks", "1", 1000));
        assert_eq!(place("/refrain/home/.agent"), known("/refrain/home", ".agent", 1000));
        assert_eq!(place("/refrain/bin/x"), known("/refrain", "bin/x", 0));
        assert_eq!(place("/worker"), None);
        assert_eq!(place("/opt/x"), None);
    }

    #[test]
    fn paths_that_could_mean_anything_are_refused() {
        for path in ["work", "/work/../etc", ""] {
            assert!(check(Path::new(path)).is_err(), "{path}");
        }
        assert_eq!(check(Path::new("/work/a b")).ok(), Some("/work/a b"));
    }
}
