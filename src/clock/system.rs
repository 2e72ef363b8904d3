//! The machine's clocks.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;

use super::Clock;

/// The machine's wall clock and monotonic clock.
#[derive(Debug, Clone)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// Starts counting now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this type is where the machine's clock is read")]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
