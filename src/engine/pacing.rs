//! Slows the sessions of a provider down when it has refused one for too many requests.

use std::sync::Mutex;
use std::time::Duration;

use super::world::{Attempt, lock};
use crate::domain::failure::ProviderFault;
use crate::domain::session::SessionEnd;
use crate::domain::{EventKind, Failure};
use crate::retry::Pace;
use crate::script::HostError;

/// The pace of a run's providers, shared by its cells.
#[derive(Debug, Default)]
pub struct Pacer(Mutex<Pace>);

/// Waits until a session at `provider` may begin.
///
/// # Errors
///
/// The attempt is over: it was stopped, or its time would be gone before the provider's wait is; the latter is the
/// provider's doing, not the agent's.
pub(crate) async fn wait(attempt: &Attempt, provider: &str, session: u32) -> Result<(), HostError> {
    let services = &attempt.context.services;
    let random = spread(attempt, session);
    loop {
        let Some(wait) = lock(&services.pacer.0).wait(provider, services.clock.elapsed(), random) else {
            return Ok(());
        };
        if wait >= attempt.remaining() {
            let message = format!("provider `{provider}` asked for a wait that is longer than the time left");
            return Err(attempt.halt(Failure::Provider { fault: ProviderFault::RateLimited, message }));
        }
        let text =
            format!("waits {:.1} s: provider `{provider}` has refused for too many requests", wait.as_secs_f64());
        attempt.context.events.emit(EventKind::SessionProgress { cell: attempt.id.cell.clone(), session, text });
        tokio::select! {
            () = services.clock.sleep(wait) => {}
            () = attempt.stop.cancelled() => {
                return Err(HostError::Stop { message: "the attempt is over".to_owned() });
            }
        }
    }
}

/// Takes note that a provider has refused.
pub(crate) fn throttled(attempt: &Attempt, provider: &str, retry_after: Option<Duration>) {
    let services = &attempt.context.services;
    lock(&services.pacer.0).throttled(provider, services.clock.elapsed(), retry_after);
}

/// Takes note of how a session ended.
pub(crate) fn ended(attempt: &Attempt, provider: &str, end: &SessionEnd) {
    match end {
        SessionEnd::Completed => lock(&attempt.context.services.pacer.0).served(provider),
        SessionEnd::Provider { fault: ProviderFault::RateLimited, .. } => throttled(attempt, provider, None),
        _ => {}
    }
}

/// A number in `[0, 1)` that is the session's own.
fn spread(attempt: &Attempt, session: u32) -> f64 {
    let digest = blake3::hash(format!("{} {session}", attempt.id).as_bytes());
    f64::from(u16::from_le_bytes([digest.as_bytes()[0], digest.as_bytes()[1]])) / 65_536.0
}
