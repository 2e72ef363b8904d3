//! An open container as an environment.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::container::Container;
use super::lease::Lease;
use super::reattach::TakenOver;
use super::way::Way;
use super::{deed, exec, image, layout, transfer};
use crate::clock::Clock;
use crate::runtime::{Command, Environment, ExecReport, Output, Quiescence, RuntimeError};

/// An environment of [`super::DockerRuntime`].
#[derive(Debug)]
pub(super) struct DockerEnvironment {
    container: Arc<Container>,
    clock: Arc<dyn Clock>,
    lease: Lease,
    /// How commands of an earlier host ended, by the files of their standard output.
    ended: HashMap<PathBuf, ExecReport>,
    way: Way,
    /// The gateway's base URL, once it was reached.
    gateway: OnceCell<String>,
}

impl DockerEnvironment {
    /// Takes over a container with its way to the gateway, and renews its lease until it is closed or dropped.
    pub(super) fn new(container: Container, way: Way, clock: Arc<dyn Clock>, lease: Duration) -> Self {
        let container = Arc::new(container);
        let lease = Lease::hold(Arc::clone(&container), Arc::clone(&clock), lease);
        Self { container, clock, lease, ended: HashMap::new(), way, gateway: OnceCell::new() }
    }

    /// The same for one that an earlier host had, whose commands ended like this.
    pub(super) fn taken_over(taken: TakenOver, way: Way, clock: Arc<dyn Clock>, lease: Duration) -> Self {
        Self { ended: taken.ended, ..Self::new(taken.container, way, clock, lease) }
    }
}

#[async_trait]
impl Environment for DockerEnvironment {
    fn workspace(&self) -> &Path {
        Path::new(layout::WORKSPACE)
    }

    fn home(&self) -> &Path {
        Path::new(layout::HOME)
    }

    fn image(&self) -> Option<&str> {
        Some(&self.container.image.digest)
    }

    fn host_path(&self, _: &Path) -> Option<PathBuf> {
        None
    }

    async fn exec(
        &self,
        command: &Command,
        output: Output,
        stop: &CancellationToken,
    ) -> Result<ExecReport, RuntimeError> {
        exec::run(&self.container, &*self.clock, command, output, stop).await
    }

    async fn put(&self, from: &Path, to: &Path) -> Result<(), RuntimeError> {
        transfer::put(&self.container, from, to, self.clock.now()).await
    }

    async fn put_file(&self, content: &[u8], to: &Path, executable: bool) -> Result<(), RuntimeError> {
        transfer::put_file(&self.container, content, to, executable, self.clock.now()).await
    }

    async fn get(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
        transfer::get(&self.container, from, to).await
    }

    async fn get_from_image(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
        let original = image::look_into(&self.container.client, &self.container.image).await?;
        let got = transfer::get(&original, from, to).await;
        original.remove().await?;
        got
    }

    async fn gateway_address(&self) -> Result<String, RuntimeError> {
        self.gateway.get_or_try_init(|| self.way.reach(&self.container)).await.cloned()
    }

    async fn quiesce(&self) -> Result<Quiescence, RuntimeError> {
        exec::quiesce(&self.container).await
    }

    fn ended(&self, stdout: &Path) -> Option<ExecReport> {
        self.ended.get(stdout).cloned()
    }

    async fn close(&self) -> Result<(), RuntimeError> {
        self.lease.release();
        // First: whoever is killed on the way leaves a container that is told by its labels.
        if let Some(folder) = &self.container.folder {
            deed::remove(folder)?;
        }
        self.container.remove().await
    }
}
