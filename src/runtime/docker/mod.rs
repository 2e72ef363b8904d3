//! Commands in containers, over the Docker API (1.41, Docker 20.10, and later; podman's socket speaks it too).
//!
//! An environment is one container: its main process (`keeper.sh`) waits, commands are execs of an unprivileged user,
//! files go in and out as tar streams. Nothing of the host is mounted but, for `network: gateway-only`, its gateway's socket
//! and the program that leads there (see `network`). A container belongs to a host process (see `deed`); it outlives it
//! for no longer than its lease (see `keeper`), and the next start of any host on the same store goes on with it (see
//! `reattach`) or removes it (see `sweep`). Start with [`DockerRuntime`].

mod archive;
mod connect;
mod container;
mod deed;
mod door;
mod environment;
mod error;
mod exec;
mod image;
mod keeper;
mod labels;
mod layout;
mod lease;
mod network;
mod once;
mod prepared;
mod probe;
mod program;
mod reattach;
pub mod relay;
mod sweep;
mod transfer;
mod way;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bollard::Docker;
use tokio::sync::OnceCell;

pub use self::connect::{DockerEndpoint, Tls};

use self::environment::DockerEnvironment;
use self::image::Images;
use self::network::{Daemon, Networks};
use self::prepared::Installed;
use super::{
    Environment, EnvironmentSpec, GatewayDoors, PrepareRequest, PreparedImage, Progress, Runtime, RuntimeError,
    RuntimeInfo,
};
use crate::clock::Clock;
use crate::domain::Network;

/// How long a container lives without a sign of life of its host.
const LEASE: Duration = Duration::from_secs(30 * 60);

/// The runtime named `docker`.
#[derive(Debug, Clone)]
pub struct DockerRuntime {
    clock: Arc<dyn Clock>,
    endpoint: DockerEndpoint,
    lease: Duration,
    relay: Option<PathBuf>,
    client: Arc<OnceCell<Docker>>,
    images: Arc<Images>,
    networks: Arc<Networks>,
    installed: Arc<Installed>,
}

impl DockerRuntime {
    /// Makes a runtime that speaks to a daemon; nothing is connected before the first use.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, endpoint: DockerEndpoint) -> Self {
        Self {
            clock,
            endpoint,
            lease: LEASE,
            relay: None,
            client: Arc::default(),
            images: Arc::default(),
            networks: Arc::default(),
            installed: Arc::default(),
        }
    }

    /// Sets how long a container lives without a sign of life of its host (30 minutes). Rounded up to seconds.
    #[must_use]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Names the `refrain` program of this machine, which containers of `network: gateway-only` reach the gateway by. By
    /// itself it is the program that runs, where that is `refrain`.
    #[must_use]
    pub fn with_relay(mut self, program: PathBuf) -> Self {
        self.relay = Some(program);
        self
    }

    async fn daemon(&self) -> Result<Daemon<'_>, RuntimeError> {
        Ok(Daemon { client: self.client().await?, endpoint: &self.endpoint, relay: self.relay.as_deref() })
    }

    /// Returns the connection, made at the first use.
    async fn client(&self) -> Result<&Docker, RuntimeError> {
        self.client.get_or_try_init(|| connect::connect(&self.endpoint)).await
    }
}

#[async_trait]
impl Runtime for DockerRuntime {
    fn name(&self) -> &'static str {
        "docker"
    }

    async fn preflight(&self) -> Result<RuntimeInfo, RuntimeError> {
        let version = connect::describe(self.client().await?, &self.endpoint).await?;
        Ok(RuntimeInfo { version, ..RuntimeInfo::default() })
    }

    fn is_host(&self) -> bool {
        false
    }

    async fn prepare(
        &self,
        request: &PrepareRequest,
        progress: &Progress<'_>,
    ) -> Result<Option<PreparedImage>, RuntimeError> {
        let client = self.client().await?;
        let name = request.image.as_deref();
        if let Some(name) = name
            && image::will_pull(client, name, request.container.pull).await?
        {
            progress(&format!("pulls the image `{name}`"));
        }
        let base = tokio::select! {
            ready = self.images.ready(client, name, &request.container) => ready?,
            () = request.stop.cancelled() => return Err(RuntimeError::Stopped),
        };
        self.installed.prepare(client, &*self.clock, request, &base, progress).await.map(Some)
    }

    async fn gateway_doors(&self, network: Network, root: &Path) -> Result<GatewayDoors, RuntimeError> {
        self.networks.doors(self.daemon().await?, network, root).await
    }

    async fn open(&self, mut spec: EnvironmentSpec) -> Result<Box<dyn Environment>, RuntimeError> {
        let client = self.client().await?.clone();
        let image = self.images.ready(&client, spec.image.as_deref(), &spec.container).await?;
        spec.scratch = absolute(&spec.scratch);
        let way = self.networks.way(self.daemon().await?, &spec).await?;
        let container = container::open(&client, &spec, &image, &way, self.lease).await?;
        Ok(Box::new(DockerEnvironment::new(container, way, Arc::clone(&self.clock), self.lease)))
    }

    async fn sweep(&self, root: &Path) -> Result<Vec<String>, RuntimeError> {
        self.sweep_except(root, &[]).await
    }

    async fn reattach(&self, spec: &EnvironmentSpec) -> Result<Option<Box<dyn Environment>>, RuntimeError> {
        let spec = EnvironmentSpec { scratch: absolute(&spec.scratch), ..spec.clone() };
        let way = self.networks.way(self.daemon().await?, &spec).await?;
        let Some(taken) = reattach::open(self.client().await?, &spec).await? else { return Ok(None) };
        // Its relay goes on; the socket of this process takes the place of the dead one's.
        way.open_door().await?;
        Ok(Some(Box::new(DockerEnvironment::taken_over(taken, way, Arc::clone(&self.clock), self.lease))))
    }

    async fn sweep_except(&self, root: &Path, kept: &[EnvironmentSpec]) -> Result<Vec<String>, RuntimeError> {
        let kept: Vec<PathBuf> = kept.iter().map(|spec| absolute(&spec.scratch)).collect();
        let root = absolute(root);
        let mut lines = sweep::sweep(self.client().await?, &root, &kept).await?;
        lines.extend(door::sweep(&root));
        Ok(lines)
    }
}

/// The folder of an environment as labels and deeds name it.
fn absolute(scratch: &Path) -> PathBuf {
    std::path::absolute(scratch).unwrap_or_else(|_| scratch.to_owned())
}
