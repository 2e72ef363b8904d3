//! Containers whose host is gone, taken up again with their files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::Docker;

use super::container::{self, Container};
use super::deed::Abandoned;
use super::error::{failed, is_absent};
use super::{exec, labels};
use crate::runtime::{EnvironmentSpec, ExecReport, RuntimeError};

/// A container that has been taken over.
pub(super) struct TakenOver {
    pub(super) container: Container,
    /// How commands ended that had ended by themselves, by the file of their standard output.
    pub(super) ended: HashMap<PathBuf, ExecReport>,
}

/// Takes over the container of an environment. `None` where there is none, where its host lives or cannot be seen from
/// here, and where it does not run any more: what is left of it is removed then, since nobody can go on with it.
pub(super) async fn open(client: &Docker, spec: &EnvironmentSpec) -> Result<Option<TakenOver>, RuntimeError> {
    let Some(abandoned) = Abandoned::at(&spec.scratch).await? else { return Ok(None) };
    let found = find(client, &abandoned).await?;
    let Some(Found { id, runs: true }) = found else {
        remove(client, &abandoned, found).await?;
        return Ok(None);
    };
    let mut container = Container::known(client, id, spec, &abandoned.deed.image);
    container.fence().await?;
    exec::end_all(&container).await?;
    let ended = exec::left::settle(&container).await?;
    container.refresh().await?;
    abandoned.take_over()?;
    Ok(Some(TakenOver { container, ended }))
}

/// Ends the processes of a container that is kept for who goes on with it; says what was done. One that does not run any
/// more is removed.
pub(super) async fn quiet(client: &Docker, folder: &Path) -> Result<Option<String>, RuntimeError> {
    let Some(abandoned) = Abandoned::at(folder).await? else { return Ok(None) };
    let name = &abandoned.deed.container;
    let found = find(client, &abandoned).await?;
    let Some(Found { id, runs: true }) = found else {
        remove(client, &abandoned, found).await?;
        return Ok(Some(format!("removed the container `{name}`, which had ended after its host")));
    };
    let mut container = Container::bare(client, id, &abandoned.deed.image);
    container.fence().await?;
    let killed = exec::end_all(&container).await?;
    Ok((killed > 0).then(|| format!("ended {killed} processes of the container `{name}`, whose host is gone; kept it")))
}

/// Removes a container whose host is gone, with its folder; says what was done.
pub(super) async fn clear(client: &Docker, folder: &Path) -> Result<Option<String>, RuntimeError> {
    let Some(abandoned) = Abandoned::at(folder).await? else { return Ok(None) };
    let found = find(client, &abandoned).await?;
    remove(client, &abandoned, found).await?;
    Ok(Some(format!("removed the container `{}` of a host that is gone", abandoned.deed.container)))
}

/// A container that is there.
struct Found {
    id: String,
    runs: bool,
}

/// Looks for the container of a deed. One that does not say itself that it belongs to the folder is another's: on the
/// runtime `local` agents can write files anywhere.
async fn find(client: &Docker, abandoned: &Abandoned) -> Result<Option<Found>, RuntimeError> {
    let found = match client.inspect_container(&abandoned.deed.container, None).await {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed("inspect the container", &error)),
    };
    let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
    if labels.get(labels::SCRATCH).map(Path::new) != Some(&abandoned.folder) {
        return Ok(None);
    }
    let runs = found.state.and_then(|state| state.running) == Some(true);
    Ok(found.id.map(|id| Found { id, runs }))
}

/// The folder goes first: whoever is killed on the way leaves a container that is told by its labels.
async fn remove(client: &Docker, abandoned: &Abandoned, found: Option<Found>) -> Result<(), RuntimeError> {
    abandoned.give_up()?;
    match found {
        Some(Found { id, .. }) => container::remove(client, &id).await,
        None => Ok(()),
    }
}
