//! The sign of life that a container's main process waits for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::container::Container;
use super::layout;
use crate::clock::Clock;
use crate::runtime::RuntimeError;

/// How many times a lease is renewed before it would run out: some renewals may fail while the daemon is away.
const RENEWALS: u32 = 6;

/// Renews a lease for as long as it is held.
#[derive(Debug)]
pub(super) struct Lease {
    released: Arc<Notify>,
    _task: AbortOnDropHandle<()>,
}

impl Lease {
    /// Begins to renew the lease of a container.
    pub(super) fn hold(container: Arc<Container>, clock: Arc<dyn Clock>, lease: Duration) -> Self {
        let released = Arc::new(Notify::new());
        let until = Arc::clone(&released);
        let renewing = async move {
            loop {
                tokio::select! {
                    () = until.notified() => return,
                    () = clock.sleep(lease / RENEWALS) => {}
                }
                match container.renew().await {
                    Ok(()) => {}
                    Err(RuntimeError::Lost(_)) => return,
                    Err(error) => tracing::warn!(container = container.id, %error, "a lease was not renewed"),
                }
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the handle owns the task and ends it with the environment")]
        let task = AbortOnDropHandle::new(tokio::spawn(renewing));
        Self { released, _task: task }
    }

    /// Ends the renewals.
    pub(super) fn release(&self) {
        self.released.notify_one();
    }
}

impl Container {
    /// Rewrites the file that the main process reads.
    async fn renew(&self) -> Result<(), RuntimeError> {
        // By chance, not by count: no sign may be that of the host before.
        let (sign, _) = uuid::Uuid::new_v4().as_u64_pair();
        let archive = layout::lease(sign).map_err(|source| RuntimeError::Io { action: "renew a lease", source })?;
        self.upload(layout::ROOT, archive).await
    }

    /// Keeps what the host before has asked for, and what was not begun yet, from ever being begun.
    pub(super) async fn fence(&mut self) -> Result<(), RuntimeError> {
        self.token = uuid::Uuid::new_v4().simple().to_string();
        let archive =
            layout::owner(&self.token).map_err(|source| RuntimeError::Io { action: "pack a file", source })?;
        self.upload(layout::ROOT, archive).await
    }

    /// Gives a container that was taken over its whole lease again, and an empty folder for temporary files.
    pub(super) async fn refresh(&self) -> Result<(), RuntimeError> {
        self.renew().await?;
        let emptied = layout::empty_tmp().map_err(|source| RuntimeError::Io { action: "pack a folder", source })?;
        self.upload(layout::ROOT, emptied).await
    }
}
