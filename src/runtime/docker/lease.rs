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
            let mut sign = 0_u64;
            loop {
                tokio::select! {
                    () = until.notified() => return,
                    () = clock.sleep(lease / RENEWALS) => {}
                }
                sign += 1;
                match container.renew(sign).await {
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
    async fn renew(&self, sign: u64) -> Result<(), RuntimeError> {
        let archive = layout::lease(sign).map_err(|source| RuntimeError::Io { action: "renew a lease", source })?;
        self.upload(layout::ROOT, archive).await
    }
}
