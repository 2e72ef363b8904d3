//! A clock that stands still until it is told to move.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;

use super::Clock;

/// A clock for tests. Clones share one time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    start: Timestamp,
    elapsed: Arc<watch::Sender<Duration>>,
}

impl ManualClock {
    /// Makes a clock that shows `start` on the wall.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self { start, elapsed: Arc::new(watch::Sender::new(Duration::ZERO)) }
    }

    /// Moves time forward and wakes whoever waited for it.
    pub fn advance(&self, duration: Duration) {
        self.elapsed.send_modify(|elapsed| *elapsed += duration);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new(Timestamp::UNIX_EPOCH)
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.elapsed()).unwrap_or(SignedDuration::MAX);
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    fn elapsed(&self) -> Duration {
        *self.elapsed.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let mut receiver = self.elapsed.subscribe();
        let until = *receiver.borrow() + duration;
        // The sender lives in `self`, so waiting can only end by reaching the time.
        let _ = receiver.wait_for(|elapsed| *elapsed >= until).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_when_the_clock_is_moved_far_enough() {
        let clock = ManualClock::default();
        let mut tasks = tokio::task::JoinSet::new();
        let sleeper = tasks.spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(59));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(1));
        tasks.join_next().await.expect("one task").expect("the sleeper ends");
        assert_eq!(clock.now(), Timestamp::from_second(60).expect("valid"));
    }
}
