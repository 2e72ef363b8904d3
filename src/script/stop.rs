//! Ending a script from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::Notify;

/// Ends a running script: at its deadline, on cancellation, or when the host is going away.
///
/// Clones share one state. A stop cannot be taken back, and the first reason stays. The script cannot catch it.
#[derive(Debug, Clone, Default)]
pub struct StopHandle(Arc<State>);

#[derive(Debug, Default)]
struct State {
    stopped: AtomicBool,
    reason: OnceLock<String>,
    notify: Notify,
}

impl StopHandle {
    /// Makes a handle that has not been used yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the script; `reason` is for people and the log.
    pub fn stop(&self, reason: impl Into<String>) {
        // The reason must be in place before anybody can see the flag.
        let _ = self.0.reason.set(reason.into());
        self.0.stopped.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
    }

    /// Tells whether [`StopHandle::stop`] was called.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Acquire)
    }

    /// Returns the reason of the first stop.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.0.reason.get().map(String::as_str)
    }

    /// Waits until the handle is used. Cancel-safe.
    pub async fn stopped(&self) {
        loop {
            let notified = self.0.notify.notified();
            tokio::pin!(notified);
            // Registered before the flag is read: a stop between the two would else be missed.
            notified.as_mut().enable();
            if self.is_stopped() {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_sees_the_first_reason() {
        let handle = StopHandle::new();
        let other = handle.clone();
        assert!(!other.is_stopped());
        handle.stop("deadline");
        handle.stop("cancelled");
        other.stopped().await;
        assert_eq!(other.reason(), Some("deadline"));
    }
}
