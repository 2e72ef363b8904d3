//! The lease of this host on its run, and what other terminals ask of it.
//!
//! While a run is carried out, one task renews the lease and looks for a request to cancel. A host that was declared
//! lost kills what it has under way: its cells are another host's by then, and the store takes no result of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::cancel::{CancelHandle, CancelLevel};
use super::events::EventSink;
use super::services::Services;
use crate::domain::EventKind;
use crate::store::{CancelRequest, LEASE_RENEWAL, Lease, StoreError};

/// How often a host looks for a request to cancel.
const POLL: Duration = Duration::from_millis(500);

/// The task that keeps a host in touch with the store; it ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    tasks: JoinSet<()>,
}

impl Heartbeat {
    /// Starts the task.
    pub(crate) fn start(services: &Arc<Services>, cancel: &CancelHandle, events: &EventSink) -> Self {
        let mut tasks = JoinSet::new();
        tasks.spawn(beat(Arc::clone(services), cancel.clone(), events.clone()));
        Self { tasks }
    }

    /// Ends the task, and waits until it has let go of the store: the last one to do so closes it.
    pub(crate) async fn end(mut self) {
        self.tasks.shutdown().await;
    }
}

async fn beat(services: Arc<Services>, cancel: CancelHandle, events: EventSink) {
    let clock = &services.clock;
    let mut renewed = None;
    loop {
        let due = renewed.is_none_or(|at: Duration| clock.elapsed().saturating_sub(at) >= LEASE_RENEWAL);
        match look(&services, due).await {
            Ok(lease) => {
                if due {
                    renewed = Some(clock.elapsed());
                }
                if !lease.held {
                    let message = "another host has taken over: the lease of this one had run out".to_owned();
                    events.emit(EventKind::Warning { message });
                    cancel.raise(CancelLevel::Kill);
                    return;
                }
                if let Some(request) = lease.cancel {
                    obey(request, &cancel, &events);
                }
            }
            // The next beat tries again; a store that stays away fails the cells, which is told then.
            Err(error) => tracing::warn!(%error, "the lease could not be looked after"),
        }
        clock.sleep(POLL).await;
    }
}

async fn look(services: &Services, due: bool) -> Result<Lease, StoreError> {
    if due {
        services.store.renew_lease(&services.run, services.clock.now()).await
    } else {
        services.store.lease(&services.run).await
    }
}

fn obey(request: CancelRequest, cancel: &CancelHandle, events: &EventSink) {
    let (level, what) = match request {
        CancelRequest::Drain => (CancelLevel::Drain, "running cells finish, nothing new starts"),
        CancelRequest::Stop => (CancelLevel::Stop, "sessions end now and are recorded"),
        CancelRequest::Kill => (CancelLevel::Kill, "everything is killed and recorded"),
    };
    if cancel.raise(level) {
        events.emit(EventKind::Warning { message: format!("cancelled by `refrain cancel`: {what}") });
    }
}
