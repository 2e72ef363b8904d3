//! Images: there, or pulled, and always known by their digest.

use bollard::Docker;
use bollard::query_parameters::CreateImageOptionsBuilder;
use futures_util::StreamExt;

use super::error::{failed, is_absent};
use crate::domain::Pull;
use crate::runtime::RuntimeError;

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    /// What containers are made from: the image's id, so that a tag that moves meanwhile changes nothing.
    pub(super) id: String,
    /// Its repository digest where it came from a registry, else its id.
    pub(super) digest: String,
    /// `PATH` as the image sets it.
    pub(super) path: Option<String>,
}

/// Makes an image ready for use.
pub(super) async fn ready(client: &Docker, name: Option<&str>, pull: Pull) -> Result<Image, RuntimeError> {
    let name = name.ok_or_else(|| RuntimeError::Unavailable {
        message: "the run names no image for its containers".to_owned(),
        hint: "set `docker_image` in the run file or for the harness, or `runtime: local`".to_owned(),
    })?;
    match inspect(client, name).await? {
        Some(image) if pull != Pull::Always => Ok(image),
        None if pull == Pull::Never => Err(RuntimeError::Unavailable {
            message: format!("there is no image `{name}`, and `container.pull` is `never`"),
            hint: format!("pull or build it (`docker pull {name}`), or set `container.pull: missing`"),
        }),
        _ => {
            fetch(client, name).await?;
            inspect(client, name).await?.ok_or_else(|| absent(name, "the daemon does not have it after the pull"))
        }
    }
}

async fn inspect(client: &Docker, name: &str) -> Result<Option<Image>, RuntimeError> {
    let found = match client.inspect_image(name).await {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(None),
        Err(error) => return Err(failed("inspect the image", &error)),
    };
    let id = found.id.unwrap_or_else(|| name.to_owned());
    let digest = found.repo_digests.into_iter().flatten().next().unwrap_or_else(|| id.clone());
    let env = found.config.and_then(|config| config.env).unwrap_or_default();
    let path = env.iter().find_map(|line| line.strip_prefix("PATH=").map(str::to_owned));
    Ok(Some(Image { id, digest, path }))
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
