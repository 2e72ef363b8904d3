//! Images: there, or pulled, and always known by their digest.
//!
//! Containers are made from a thin layer on top of the image, built once: the folders of [`layout`] with their owners, and
//! the agent in the table of users. So an image whose own files are read-only in a container needs no write there.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bollard::Docker;
use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, ContainerArchiveInfoOptionsBuilder, CreateContainerOptionsBuilder,
    CreateImageOptionsBuilder, DownloadFromContainerOptionsBuilder,
};
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::container::Container;
use super::error::{failed, is_absent};
use super::exec::daemon::next_piece;
use super::{container, labels, layout};
use crate::domain::{ContainerOptions, Pull};
use crate::runtime::RuntimeError;

/// Where the images with our layer are kept.
const REPOSITORY: &str = "refrain/base";
/// The largest table of users that is read, in bytes.
const MAX_FILE: usize = 1 << 20;

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Image {
    /// What containers are made from, by its id.
    pub(super) id: String,
    /// What is recorded: the repository digest of the image where it came from a registry, else its id. It names the
    /// image without any layer of ours.
    pub(super) digest: String,
    /// `PATH` as the image sets it.
    pub(super) path: Option<String>,
    /// Its labels.
    pub(super) labels: HashMap<String, String>,
}

/// What an image is made ready for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Wanted {
    name: String,
    pull: Pull,
    /// The folder of the image that the workspace stands in for.
    workspace: Option<PathBuf>,
}

/// An image that somebody makes ready, or has.
type Slot = Arc<OnceCell<Image>>;

/// The images that a runtime has made ready. Each is looked up, and pulled where it must be, once: all cells of a run
/// share it, and a tag that moves meanwhile changes nothing.
#[derive(Debug, Default)]
pub(super) struct Images {
    ready: Mutex<HashMap<Wanted, Slot>>,
}

impl Images {
    /// Makes an image ready for use.
    pub(super) async fn ready(
        &self,
        client: &Docker,
        name: Option<&str>,
        options: &ContainerOptions,
    ) -> Result<Image, RuntimeError> {
        let name = name.ok_or_else(|| RuntimeError::Unavailable {
            message: "the run names no image for its containers".to_owned(),
            hint: "set `docker_image` in the run file or for the harness, or `runtime: local`".to_owned(),
        })?;
        let wanted = Wanted { name: name.to_owned(), pull: options.pull, workspace: options.workspace.clone() };
        let cell = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(ready.entry(wanted.clone()).or_default())
        };
        cell.get_or_try_init(|| find(client, &wanted)).await.cloned()
    }
}

async fn find(client: &Docker, wanted: &Wanted) -> Result<Image, RuntimeError> {
    let (name, pull) = (wanted.name.as_str(), wanted.pull);
    let workspace = wanted.workspace.as_deref();
    let image = match inspect(client, name).await? {
        // Made here, with our layer in it: no registry has it.
        Some(image) if image.labels.contains_key(labels::LAYER) => match workspace {
            None => return Ok(image),
            Some(_) => image,
        },
        Some(image) if pull != Pull::Always => image,
        None if pull == Pull::Never => {
            return Err(RuntimeError::Unavailable {
                message: format!("there is no image `{name}`, and `container.pull` is `never`"),
                hint: format!("pull or build it (`docker pull {name}`), or set `container.pull: missing`"),
            });
        }
        _ => {
            fetch(client, name).await?;
            inspect(client, name).await?.ok_or_else(|| absent(name, "the daemon does not have it after the pull"))?
        }
    };
    let name = layered_name(&image.id, workspace);
    let id = match inspect(client, &name).await? {
        Some(layered) => layered.id,
        None => build(client, &image.id, workspace, &name).await?,
    };
    Ok(Image { id, ..image })
}

/// The name of the image with our layer, which changes with the image and with what the layer holds.
fn layered_name(id: &str, workspace: Option<&Path>) -> String {
    let short: String = id.trim_start_matches("sha256:").chars().take(24).collect();
    let at = workspace.map(|path| format!("-{}", &blake3::hash(path.as_os_str().as_bytes()).to_hex()[..12]));
    format!("{REPOSITORY}:{short}-{}{}", layout::VERSION, at.unwrap_or_default())
}

/// Builds our layer in a container that is never started.
async fn build(client: &Docker, id: &str, workspace: Option<&Path>, name: &str) -> Result<String, RuntimeError> {
    let container = create_unstarted(client, id).await?;
    let built = fill_and_commit(client, &container, workspace, name).await;
    container::remove(client, &container).await?;
    built
}

/// Creates a container that never runs, to read or to change what is in an image.
async fn create_unstarted(client: &Docker, id: &str) -> Result<String, RuntimeError> {
    let unique = format!("refrain-build-{}", uuid::Uuid::new_v4().simple());
    let options = CreateContainerOptionsBuilder::new().name(&unique).build();
    let body = ContainerCreateBody {
        image: Some(id.to_owned()),
        // An image without a command of its own can only be created with one.
        entrypoint: Some(vec!["sh".to_owned()]),
        labels: Some(labels::short_lived()),
        ..ContainerCreateBody::default()
    };
    let created = client.create_container(Some(options), body).await;
    Ok(created.map_err(|error| failed("create a container", &error))?.id)
}

/// Opens an image as it was named, without our layers, for reading. The container never runs; whoever asks removes it.
pub(super) async fn look_into(client: &Docker, image: &Image) -> Result<Container, RuntimeError> {
    let id = create_unstarted(client, &image.digest).await?;
    Ok(Container::bare(client, id, image))
}

async fn fill_and_commit(
    client: &Docker,
    container: &str,
    workspace: Option<&Path>,
    name: &str,
) -> Result<String, RuntimeError> {
    let failed_to_pack = |source| RuntimeError::Io { action: "build a layer", source };
    let users = read_file(client, container, "/etc/passwd").await?;
    if is_there(client, container, layout::WORKSPACE).await? {
        container::upload(client, container, "/", layout::emptied().map_err(failed_to_pack)?).await?;
    }
    let archive = layout::archive(users.as_deref()).map_err(failed_to_pack)?;
    container::upload(client, container, "/", archive).await?;
    if let Some((parent, link)) =
        workspace.and_then(|path| layout::stand_in(path).transpose()).transpose().map_err(failed_to_pack)?
        && is_there(client, container, &parent).await?
    {
        container::upload(client, container, &parent, link).await?;
    }
    let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
    let options = CommitContainerOptionsBuilder::new().container(container).repo(repository).tag(tag).build();
    let committed = client.commit_container(options, ContainerConfig::default()).await;
    Ok(committed.map_err(|error| failed("build a layer", &error))?.id)
}

async fn is_there(client: &Docker, container: &str, path: &str) -> Result<bool, RuntimeError> {
    let options = ContainerArchiveInfoOptionsBuilder::new().path(path).build();
    match client.get_container_archive_info(container, Some(options)).await {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(failed("look into the image", &error)),
    }
}

/// Reads one small file of a container; `None` where there is none.
async fn read_file(client: &Docker, container: &str, path: &str) -> Result<Option<Vec<u8>>, RuntimeError> {
    let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
    let mut chunks = client.download_from_container(container, Some(options));
    let mut bytes = Vec::new();
    while let Some(chunk) = next_piece(&mut chunks).await {
        match chunk {
            Ok(chunk) => bytes.extend_from_slice(&chunk),
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(failed("read a file of the image", &error)),
        }
        if bytes.len() > MAX_FILE {
            return Ok(None);
        }
    }
    let read = || -> std::io::Result<Option<Vec<u8>>> {
        let mut archive = tar::Archive::new(&bytes[..]);
        let Some(entry) = archive.entries()?.next() else { return Ok(None) };
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry?, &mut content)?;
        Ok(Some(content))
    };
    read().map_err(|source| RuntimeError::Io { action: "read a file of the image", source })
}

/// Tells whether making an image ready begins with a pull.
pub(super) async fn will_pull(client: &Docker, name: &str, pull: Pull) -> Result<bool, RuntimeError> {
    Ok(match pull {
        Pull::Never => false,
        Pull::Always => true,
        Pull::Missing => inspect(client, name).await?.is_none(),
    })
}

/// Looks an image up; `None` where there is none of this name.
pub(super) async fn inspect(client: &Docker, name: &str) -> Result<Option<Image>, RuntimeError> {
    let found = match client.inspect_image(name).await {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed("inspect the image", &error)),
    };
    let id = found.id.unwrap_or_else(|| name.to_owned());
    let digest = found.repo_digests.into_iter().flatten().next().unwrap_or_else(|| id.clone());
    let (env, labels) = found.config.map(|config| (config.env, config.labels)).unwrap_or_default();
    let path = env.iter().flatten().find_map(|line| line.strip_prefix("PATH=").map(str::to_owned));
    let labels = labels.unwrap_or_default();
    let digest = labels.get(labels::BASE).cloned().unwrap_or(digest);
    Ok(Some(Image { id, digest, path, labels }))
}

async fn fetch(client: &Docker, name: &str) -> Result<(), RuntimeError> {
    // Without a tag the API would fetch every tag there is.
    let tagged = name.contains('@') || name.rsplit('/').next().is_some_and(|last| last.contains(':'));
    let whole = if tagged { name.to_owned() } else { format!("{name}:latest") };
    let options = CreateImageOptionsBuilder::new().from_image(&whole).build();
    let mut progress = client.create_image(Some(options), None, None);
    while let Some(step) = progress.next().await {
        let step = step.map_err(|error| absent(name, &failed("pull", &error).to_string()))?;
        if let Some(detail) = step.error_detail {
            return Err(absent(name, &detail.message.unwrap_or_default()));
        }
        if let (Some(id), Some(status)) = (step.id, step.status) {
            tracing::debug!(image = name, layer = id, "{status}");
        }
    }
    Ok(())
}

fn absent(name: &str, why: &str) -> RuntimeError {
    RuntimeError::Unavailable {
        message: format!("the image `{name}` cannot be pulled: {why}"),
        hint: "check the image's name and the daemon's access to its registry, or build the image beforehand"
            .to_owned(),
    }
}
