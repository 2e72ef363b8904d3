//! One container from its creation to its removal.

use std::path::PathBuf;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerCreateBody, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, UploadToContainerOptionsBuilder,
};

use super::deed::{self, Deed};
use super::error::{failed, is_absent};
use super::exec::Commands;
use super::image::Image;
use super::way::Way;
use super::{keeper, labels, layout};
use crate::domain::ContainerOptions;
use crate::runtime::owner::HostProcess;
use crate::runtime::{EnvironmentSpec, RuntimeError};

/// A running container.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) client: Docker,
    pub(super) id: String,
    pub(super) image: Image,
    /// Variables that every command gets.
    pub(super) env: Vec<(String, String)>,
    pub(super) commands: Commands,
    /// Tells this host's commands from those of a host that had the container before; empty for the first one.
    pub(super) token: String,
    /// The environment's folder on the host; `None` for a container that is only looked into.
    pub(super) folder: Option<PathBuf>,
}

/// Creates and starts a container. One that cannot be started is removed again, with its folder.
pub(super) async fn open(
    client: &Docker,
    spec: &EnvironmentSpec,
    image: &Image,
    way: &Way,
    lease: Duration,
) -> Result<Container, RuntimeError> {
    let mut body = describe(spec, image, way.mode.to_owned(), lease);
    way.furnish(&mut body);
    let name = labels::name(spec);
    // First: whoever is killed on the way leaves what a sweep finds.
    Deed::make_out(&spec.scratch, &name, image)?;
    let opened = match way.open_door().await {
        Ok(()) => create_and_start(client, spec, image, (&name, body)).await,
        Err(error) => Err(error),
    };
    if opened.is_err()
        && let Err(left) = deed::remove(&spec.scratch)
    {
        tracing::warn!(container = name, error = %left, "the folder of a container was not removed");
    }
    opened
}

async fn create_and_start(
    client: &Docker,
    spec: &EnvironmentSpec,
    image: &Image,
    (name, body): (&str, ContainerCreateBody),
) -> Result<Container, RuntimeError> {
    let options = CreateContainerOptionsBuilder::new().name(name).build();
    let created = client.create_container(Some(options), body).await;
    let id = created.map_err(|error| failed("create a container", &error))?.id;
    let container = Container::known(client, id, spec, image);
    match container.start().await {
        Ok(()) => Ok(container),
        Err(error) => {
            if let Err(left) = container.remove().await {
                tracing::warn!(container = container.id, error = %left, "a container was not removed");
            }
            Err(error)
        }
    }
}

impl Container {
    /// Describes a container that nobody runs commands in.
    pub(super) fn bare(client: &Docker, id: String, image: &Image) -> Self {
        let (client, image, commands) = (client.clone(), image.clone(), Commands::default());
        Self { client, id, image, env: Vec::new(), commands, token: String::new(), folder: None }
    }

    /// Describes the container of an environment.
    pub(super) fn known(client: &Docker, id: String, spec: &EnvironmentSpec, image: &Image) -> Self {
        let folder = Some(spec.scratch.clone());
        Self { env: variables(spec, image), folder, ..Self::bare(client, id, image) }
    }

    async fn start(&self) -> Result<(), RuntimeError> {
        let started = self.client.start_container(&self.id, None).await;
        started.map_err(|error| failed("start a container", &error))
    }

    /// Unpacks an archive below a folder of the container.
    pub(super) async fn upload(&self, path: &str, archive: Vec<u8>) -> Result<(), RuntimeError> {
        upload(&self.client, &self.id, path, archive).await
    }

    /// Removes the container with its volumes, without the grace of a stop. One that is gone already is no error.
    pub(super) async fn remove(&self) -> Result<(), RuntimeError> {
        remove(&self.client, &self.id).await
    }
}

/// Unpacks an archive below a folder of a container.
pub(super) async fn upload(client: &Docker, id: &str, path: &str, archive: Vec<u8>) -> Result<(), RuntimeError> {
    let options = UploadToContainerOptionsBuilder::new().path(path).build();
    let sent = client.upload_to_container(id, Some(options), bollard::body_full(archive.into())).await;
    sent.map_err(|error| failed("copy into a container", &error))
}

/// Removes a container with its volumes.
pub(super) async fn remove(client: &Docker, id: &str) -> Result<(), RuntimeError> {
    let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
    match client.remove_container(id, Some(options)).await {
        Ok(()) => Ok(()),
        Err(error) if is_absent(&error) => Ok(()),
        Err(error) => Err(failed("remove a container", &error)),
    }
}

/// Variables of every command. They go to each command by itself and never into the container's own description.
fn variables(spec: &EnvironmentSpec, image: &Image) -> Vec<(String, String)> {
    let path = image.path.clone().unwrap_or_else(|| layout::DEFAULT_PATH.to_owned());
    let fixed = [("PATH", path.as_str()), ("HOME", layout::HOME), ("LANG", "C.UTF-8"), ("TMPDIR", layout::TMP)];
    let mut env: Vec<_> = fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    env.extend(spec.env.iter().cloned());
    env
}

fn describe(spec: &EnvironmentSpec, image: &Image, network: String, lease: Duration) -> ContainerCreateBody {
    let options = &spec.container;
    let words = keeper::argv(lease);
    let (program, rest) = words.split_at(1);
    ContainerCreateBody {
        image: Some(image.id.clone()),
        // Root without capabilities: what runs as the agent can neither end it nor renew the lease.
        user: Some("0:0".to_owned()),
        entrypoint: Some(program.to_vec()),
        cmd: Some(rest.to_vec()),
        working_dir: Some("/".to_owned()),
        labels: Some(labels::of(spec, &HostProcess::current())),
        volumes: volumes(options),
        host_config: Some(limits(options, network)),
        ..ContainerCreateBody::default()
    }
}

/// The folders that stay writable where the rest is not.
pub(super) fn volumes(options: &ContainerOptions) -> Option<Vec<String>> {
    options.read_only.then(|| layout::WRITABLE.iter().map(|path| (*path).to_owned()).collect())
}

/// What a container may do and use.
pub(super) fn limits(options: &ContainerOptions, network: String) -> HostConfig {
    let bytes = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    #[expect(clippy::cast_possible_truncation, reason = "the configuration allows at most 4096 CPUs")]
    let nano_cpus = options.cpus.map(|cpus| (cpus * 1e9) as i64);
    HostConfig {
        cap_drop: Some(vec!["ALL".to_owned()]),
        security_opt: Some(vec!["no-new-privileges".to_owned()]),
        init: Some(true),
        privileged: Some(false),
        readonly_rootfs: Some(options.read_only),
        pids_limit: Some(options.pids.into()),
        memory: options.memory_bytes.map(bytes),
        memory_swap: options.memory_bytes.map(bytes),
        nano_cpus,
        storage_opt: options.disk_bytes.map(|bytes| [("size".to_owned(), bytes.to_string())].into()),
        network_mode: Some(network),
        tmpfs: options.read_only.then(|| [("/run".to_owned(), "mode=1777,size=64m".to_owned())].into()),
        ..HostConfig::default()
    }
}
