//! A run that is ready to go.

use std::sync::Arc;

use super::error::Error;
use super::reporting::Reporting;
use crate::domain::event::RunSummary;
use crate::engine::events::Listener;
use crate::engine::executor::RunOptions;
use crate::engine::{self, CancelHandle, Services};

/// A run that is ready to go: names resolved, store open, runtime checked.
#[must_use = "a run does nothing until it is executed"]
pub struct Run {
    pub(super) services: Arc<Services>,
    pub(super) cancel: CancelHandle,
    pub(super) reporting: Reporting,
    pub(super) listeners: Vec<Listener>,
    pub(super) accept_changes: bool,
    pub(super) again: bool,
    pub(super) check_gateway: bool,
    /// What the runtime says of itself.
    pub(super) notes: Vec<String>,
}

impl Run {
    /// Returns a handle that cancels this run, from any thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Also hears every event, on the engine's own task: it must not block.
    pub fn listen(mut self, listener: Listener) -> Self {
        self.listeners.push(listener);
        self
    }

    /// Keeps finished cells of this run even where they were made from another task, script or parameter.
    pub fn accept_changes(mut self, accept: bool) -> Self {
        self.accept_changes = accept;
        self
    }

    /// Runs every cell again, also those that are decided; each gets a further attempt.
    pub fn again(mut self, again: bool) -> Self {
        self.again = again;
        self
    }

    /// Tries, before the first cell, whether environments reach the gateway. It is tried unless this says no; each session
    /// finds out by itself in any case.
    pub fn check_gateway(mut self, check: bool) -> Self {
        self.check_gateway = check;
        self
    }

    /// Runs every cell that is not decided yet, and returns the totals over all starts of this run.
    ///
    /// # Errors
    ///
    /// An [`Error`] where results cannot be kept, or where finished cells were made from something else. What was
    /// finished stays finished; the same call goes on from there.
    pub async fn execute(self) -> Result<RunSummary, Error> {
        let options = RunOptions {
            accept_changes: self.accept_changes,
            again: self.again,
            check_gateway: self.check_gateway,
            notes: self.notes,
            listeners: self.listeners,
        };
        let services = Arc::clone(&self.services);
        let result = engine::run(self.services, self.cancel, options).await;
        services.shutdown().await;
        // The listeners are gone with the engine, so the reporters come to their end.
        let reporting = self.reporting;
        let joined = tokio::task::spawn_blocking(move || reporting.finish()).await;
        if let Err(error) = joined {
            tracing::warn!(%error, "reporters did not finish");
        }
        result.map_err(Error::from)
    }
}
