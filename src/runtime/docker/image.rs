//! Images: there, or pulled, and always known by their digest.
//!
//! Containers are made from a thin layer on top of the image, built once: the folders of [`layout`] with their owners, and
//! the agent in the table of users. So an image whose own files are read-only in a container needs no write there.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bollard::Docker;
use bollard::models::{ContainerConfig, ContainerCreateBody};
use bollard::query_parameters::{
    CommitContainerOptionsBuilder, CreateContainerOptionsBuilder, CreateImageOptionsBuilder,
    DownloadFromContainerOptionsBuilder,
};
use futures_util::StreamExt;
use tokio::sync::OnceCell;

use super::error::{failed, is_absent};
use super::{container, labels, layout};
use crate::domain::Pull;
use crate::runtime::RuntimeError;

/// Where the images with our layer are kept.
const REPOSITORY: &str = "refrain/base";
/// The largest table of users that is read, in bytes.
const MAX_FILE: usize = 1 << 20;

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// What containers are made from, by its id.
    pub(super) id: String,
    /// What is recorded: the repository digest of the image where it came from a registry, else its id.
    pub(super) digest: String,
    /// `PATH` as the image sets it.
    pub(super) path: Option<String>,
    /// Its labels.
    pub(super) labels: HashMap<String, String>,
}

/// An image that somebody makes ready, or has.
type Slot = Arc<OnceCell<Image>>;

/// The images that a runtime has made ready. Each is looked up, and pulled where it must be, once: all cells of a run
/// share it, and a tag that moves meanwhile changes nothing.
#[derive(Debug, Default)]
pub(super) struct Images {
    ready: Mutex<HashMap<(String, Pull), Slot>>,
}

impl Images {
    /// Makes an image ready for use.
    pub(super) async fn ready(&self, client: &Docker, name: Option<&str>, pull: Pull) -> Result<Image, RuntimeError> {
        let name = name.ok_or_else(|| RuntimeError::Unavailable {
            message: "the run names no image for its containers".to_owned(),
            hint: "set `docker_image` in the run file or for the harness, or `runtime: local`".to_owned(),
        })?;
        let cell = {
            let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(ready.entry((name.to_owned(), pull)).or_default())
        };
        cell.get_or_try_init(|| find(client, name, pull)).await.cloned()
    }
}

async fn find(client: &Docker, name: &str, pull: Pull) -> Result<Image, RuntimeError> {
    let image = match inspect(client, name).await? {
        // Made here, with our layer in it: no registry has it.
        Some(image) if image.labels.contains_key(labels::LAYER) => return Ok(image),
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
    let name = layered_name(&image.id);
    let id = match inspect(client, &name).await? {
        Some(layered) => layered.id,
        None => build(client, &image.id, &name).await?,
    };
    Ok(Image { id, ..image })
}

/// The name of the image with our layer, which changes with the image and with what the layer holds.
fn layered_name(id: &str) -> String {
    let short: String = id.trim_start_matches("sha256:").chars().take(24).collect();
    format!("{REPOSITORY}:{short}-{}", layout::VERSION)
}

/// Builds our layer in a container that is never started.
async fn build(client: &Docker, id: &str, name: &str) -> Result<String, RuntimeError> {
    let unique = format!("refrain-build-{}", uuid::Uuid::new_v4().simple());
    let options = CreateContainerOptionsBuilder::new().name(&unique).build();
    let body = ContainerCreateBody {
        image: Some(id.to_owned()),
        // An image without a command of its own can only be created with one; it never runs.
        entrypoint: Some(vec!["sh".to_owned()]),
        labels: Some(labels::short_lived()),
        ..ContainerCreateBody::default()
    };
    let created = client.create_container(Some(options), body).await;
    let container = created.map_err(|error| failed("create a container", &error))?.id;
    let built = fill_and_commit(client, &container, name).await;
    container::remove(client, &container).await?;
    built
}

async fn fill_and_commit(client: &Docker, container: &str, name: &str) -> Result<String, RuntimeError> {
    let users = read_file(client, container, "/etc/passwd").await?;
    let archive = layout::archive(users.as_deref());
    let archive = archive.map_err(|source| RuntimeError::Io { action: "build a layer", source })?;
    container::upload(client, container, "/", archive).await?;
    let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
    let options = CommitContainerOptionsBuilder::new().container(container).repo(repository).tag(tag).build();
    let committed = client.commit_container(options, ContainerConfig::default()).await;
    Ok(committed.map_err(|error| failed("build a layer", &error))?.id)
}

/// Reads one small file of a container; `None` where there is none.
async fn read_file(client: &Docker, container: &str, path: &str) -> Result<Option<Vec<u8>>, RuntimeError> {
    let options = DownloadFromContainerOptionsBuilder::new().path(path).build();
    let mut chunks = client.download_from_container(container, Some(options));
    let mut bytes = Vec::new();
    while let Some(chunk) = chunks.next().await {
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
