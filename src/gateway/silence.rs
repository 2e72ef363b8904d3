//! How long nothing was heard.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;

/// When something was last heard, shared between who hears and who waits.
#[derive(Debug, Clone)]
pub(super) struct Pulse {
    clock: Arc<dyn Clock>,
    /// Nanoseconds of the clock: enough for five centuries.
    last: Arc<AtomicU64>,
}

impl Pulse {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let pulse = Self { clock, last: Arc::default() };
        pulse.beat();
        pulse
    }

    /// Something was heard.
    pub(super) fn beat(&self) {
        let now = u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Returns how long ago something was heard.
    pub(super) fn since(&self) -> Duration {
        self.clock.elapsed().saturating_sub(Duration::from_nanos(self.last.load(Ordering::Relaxed)))
    }
}

/// A limit for silence. One timer serves any number of beats: it looks again when it goes off.
pub(super) struct Silence {
    pulse: Pulse,
    limit: Duration,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Silence {
    pub(super) fn new(pulse: Pulse, limit: Duration) -> Self {
        Self { pulse, limit, timer: None }
    }

    /// Something was heard.
    pub(super) fn heard(&self) {
        self.pulse.beat();
    }

    /// Waits until nothing was heard for as long as the limit. May be dropped and called again.
    pub(super) async fn exceeded(&mut self) {
        loop {
            if let Some(timer) = &mut self.timer {
                timer.await;
                self.timer = None;
            }
            let left = self.limit.saturating_sub(self.pulse.since());
            if left.is_zero() {
                return;
            }
            let clock = Arc::clone(&self.pulse.clock);
            self.timer = Some(Box::pin(async move { clock.sleep(left).await }));
        }
    }
}

impl fmt::Debug for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Silence").field("limit", &self.limit).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn only_an_unbroken_silence_counts() {
        let clock = ManualClock::default();
        let pulse = Pulse::new(Arc::new(clock.clone()));
        let mut silence = Silence::new(pulse, Duration::from_secs(10));
        assert!(silence.exceeded().now_or_never().is_none());
        clock.advance(Duration::from_secs(9));
        silence.heard();
        clock.advance(Duration::from_secs(9));
        assert!(silence.exceeded().now_or_never().is_none());
        clock.advance(Duration::from_secs(1));
        assert!(silence.exceeded().now_or_never().is_some());
    }
}
