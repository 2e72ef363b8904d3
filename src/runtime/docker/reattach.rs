//! Containers whose host is gone, taken up again with their files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use bollard::Docker;

use super::container::{self, Container};
use super::deed::{Abandoned, Deed};
use super::error::{failed, is_absent};
use super::exec;
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
    let Some(id) = running(client, &abandoned.deed).await? else {
        remove(client, &abandoned).await?;
        return Ok(None);
    };
    let container = Container::known(client, id, spec, &abandoned.deed.image);
    exec::end_all(&container).await?;
    let ended = exec::left::settle(&container).await?;
    container.refresh().await?;
    abandoned.take_over()?;
    Ok(Some(TakenOver { container, ended }))
}

/// Ends the processes of a container that is kept for who goes on with it; says what was done. One that does not run any
/// more is removed.
pub(super) async fn quiet(client: &Docker, spec: &EnvironmentSpec) -> Result<Option<String>, RuntimeError> {
    let Some(abandoned) = Abandoned::at(&spec.scratch).await? else { return Ok(None) };
    let name = &abandoned.deed.container;
    let Some(id) = running(client, &abandoned.deed).await? else {
        remove(client, &abandoned).await?;
        return Ok(Some(format!("removed the container `{name}`, which had ended after its host")));
    };
    let killed = exec::end_all(&Container::known(client, id, spec, &abandoned.deed.image)).await?;
    Ok((killed > 0).then(|| format!("ended {killed} processes of the container `{name}`, whose host is gone; kept it")))
}

/// Removes a container whose host is gone, with its folder. Returns its name; `None` where its host lives.
pub(super) async fn clear(client: &Docker, folder: &Path) -> Result<Option<String>, RuntimeError> {
    let Some(abandoned) = Abandoned::at(folder).await? else { return Ok(None) };
    remove(client, &abandoned).await?;
    Ok(Some(abandoned.deed.container))
}

/// The folder goes first: whoever is killed on the way leaves a container that is told by its labels.
async fn remove(client: &Docker, abandoned: &Abandoned) -> Result<(), RuntimeError> {
    abandoned.give_up()?;
    container::remove(client, &abandoned.deed.container).await
}

/// Returns the id of a container that runs.
async fn running(client: &Docker, deed: &Deed) -> Result<Option<String>, RuntimeError> {
    let found = match client.inspect_container(&deed.container, None).await {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed("inspect the container", &error)),
    };
    let runs = found.state.and_then(|state| state.running) == Some(true);
    Ok(found.id.filter(|_| runs))
}
