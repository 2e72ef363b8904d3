//! The pace of a provider: how many requests are under way and begun in a minute, over all sessions, and when it asked to be left
//! alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::Clock;

/// The window of `requests_per_minute`.
const MINUTE: Duration = Duration::from_secs(60);

/// The longest time that a provider's `retry-after` holds the requests of others. Clients give up on a silent server after a
/// minute; a provider that wants more says so again.
const LONGEST_HOLD: Duration = Duration::from_secs(45);

/// The pace of one provider. Waiting is in the order of arrival, and whoever goes away while waiting leaves nothing behind.
#[derive(Debug)]
pub(super) struct Lane {
    clock: Arc<dyn Clock>,
    slots: Option<Arc<Semaphore>>,
    begun: Option<Begun>,
    held_until: Mutex<Duration>,
}

/// When the last requests began, as many as a minute may hold.
#[derive(Debug)]
struct Begun {
    limit: usize,
    // Held while waiting, so that waiters go one after the other: this lock is fair.
    times: tokio::sync::Mutex<VecDeque<Duration>>,
}

/// Leave to be under way. Ends when dropped.
#[derive(Debug)]
pub(super) struct Slot(#[expect(dead_code, reason = "held for its drop")] Option<OwnedSemaphorePermit>);

impl Lane {
    /// Makes the lane of a provider with these limits. A limit of 0 is one of 1: nothing would ever pass otherwise.
    pub(super) fn new(clock: Arc<dyn Clock>, concurrency: Option<usize>, per_minute: Option<u32>) -> Self {
        Self {
            clock,
            slots: concurrency.map(|most| Arc::new(Semaphore::new(most.clamp(1, Semaphore::MAX_PERMITS)))),
            begun: per_minute.map(|most| Begun {
                limit: usize::try_from(most).unwrap_or(usize::MAX).max(1),
                times: tokio::sync::Mutex::default(),
            }),
            held_until: Mutex::default(),
        }
    }

    /// Waits until a request may begin.
    pub(super) async fn enter(&self) -> Slot {
        let permit = match &self.slots {
            // The semaphore is never closed.
            Some(slots) => Arc::clone(slots).acquire_owned().await.ok(),
            None => None,
        };
        match &self.begun {
            None => self.wait_while_held().await,
            Some(begun) => {
                let mut times = begun.times.lock().await;
                self.wait_while_held().await;
                if times.len() >= begun.limit
                    && let Some(&oldest) = times.front()
                {
                    let free_at = oldest + MINUTE;
                    let now = self.clock.elapsed();
                    if now < free_at {
                        self.clock.sleep(free_at.saturating_sub(now)).await;
                    }
                    times.pop_front();
                    self.wait_while_held().await;
                }
                times.push_back(self.clock.elapsed());
            }
        }
        Slot(permit)
    }

    /// Lets no request begin for as long as the provider asked, within bounds.
    pub(super) fn hold(&self, asked: Duration) {
        let until = self.clock.elapsed() + asked.min(LONGEST_HOLD);
        let mut held = self.held_until.lock().unwrap_or_else(PoisonError::into_inner);
        *held = (*held).max(until);
    }

    async fn wait_while_held(&self) {
        loop {
            let until = *self.held_until.lock().unwrap_or_else(PoisonError::into_inner);
            let now = self.clock.elapsed();
            if now >= until {
                return;
            }
            self.clock.sleep(until.saturating_sub(now)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use futures_util::FutureExt;

    fn lane(clock: &ManualClock, concurrency: Option<usize>, per_minute: Option<u32>) -> Lane {
        Lane::new(Arc::new(clock.clone()), concurrency, per_minute)
    }

    #[tokio::test]
    async fn as_many_are_under_way_as_may_be_and_the_next_is_the_one_that_came_first() {
        let lane = lane(&ManualClock::default(), Some(2), None);
        let (one, _two) = (lane.enter().await, lane.enter().await);
        let mut third = Box::pin(lane.enter());
        let mut fourth = Box::pin(lane.enter());
        assert!((&mut third).now_or_never().is_none());
        assert!((&mut fourth).now_or_never().is_none());
        drop(one);
        assert!((&mut fourth).now_or_never().is_none(), "the third is before it");
        assert!((&mut third).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_goes_away_while_waiting_takes_no_place() {
        let lane = lane(&ManualClock::default(), Some(1), None);
        let one = lane.enter().await;
        let mut gone = Box::pin(lane.enter());
        assert!((&mut gone).now_or_never().is_none());
        let mut next = Box::pin(lane.enter());
        assert!((&mut next).now_or_never().is_none());
        drop(one);
        drop(gone);
        assert!((&mut next).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_minute_holds_as_many_as_it_may() {
        let clock = ManualClock::default();
        let lane = lane(&clock, None, Some(2));
        lane.enter().await;
        clock.advance(Duration::from_secs(20));
        lane.enter().await;
        let mut third = Box::pin(lane.enter());
        assert!((&mut third).now_or_never().is_none());
        clock.advance(Duration::from_secs(39));
        assert!((&mut third).now_or_never().is_none(), "59 s after the first");
        clock.advance(Duration::from_secs(1));
        assert!((&mut third).now_or_never().is_some());
        let mut fourth = Box::pin(lane.enter());
        assert!((&mut fourth).now_or_never().is_none());
        clock.advance(Duration::from_secs(20));
        assert!((&mut fourth).now_or_never().is_some(), "60 s after the second");
    }

    #[tokio::test]
    async fn a_provider_that_asks_for_a_pause_gets_it_within_bounds() {
        let clock = ManualClock::default();
        let lane = lane(&clock, None, None);
        lane.hold(Duration::from_secs(5));
        lane.hold(Duration::from_secs(2));
        let mut next = Box::pin(lane.enter());
        assert!((&mut next).now_or_never().is_none());
        clock.advance(Duration::from_secs(4));
        assert!((&mut next).now_or_never().is_none(), "the longer of both");
        clock.advance(Duration::from_secs(1));
        assert!((&mut next).now_or_never().is_some());
        lane.hold(Duration::from_secs(3600));
        clock.advance(LONGEST_HOLD);
        assert!(lane.enter().now_or_never().is_some());
    }
}
