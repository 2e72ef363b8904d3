//! How fast sessions may begin at each provider: what one cell is told to wait, all cells wait.

use std::collections::BTreeMap;
use std::time::Duration;

use super::backoff::{FIRST, RETRY_AFTER_CAP, backoff};

/// The pace of every provider of a run. Moments are times since any fixed one, such as the start of the process.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    providers: BTreeMap<String, Slot>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    /// Nobody begins before.
    until: Duration,
    /// How often it was throttled since something went through.
    strikes: u32,
}

impl Pace {
    /// Takes note at `now` that a provider has refused for too many requests. Without a time of its own, each refusal in a
    /// row doubles the wait; a longer wait that is on already stays.
    pub fn throttled(&mut self, provider: &str, now: Duration, retry_after: Option<Duration>) {
        let slot = self.providers.entry(provider.to_owned()).or_default();
        // Refusals that come while everybody waits answer requests from before.
        if now >= slot.until {
            slot.strikes = slot.strikes.saturating_add(1);
        }
        let asked =
            retry_after.map_or_else(|| backoff(slot.strikes.max(1), 0.5, None), |asked| asked.min(RETRY_AFTER_CAP));
        slot.until = slot.until.max(now.saturating_add(asked));
    }

    /// Takes note that a provider has served a whole session.
    pub fn served(&mut self, provider: &str) {
        if let Some(slot) = self.providers.get_mut(provider) {
            slot.strikes = 0;
        }
    }

    /// Returns how long a session that would begin at `now` has to wait; `None` if it may begin. `random` in `[0, 1)`
    /// spreads those who wait over some seconds, so that they do not return together.
    #[must_use]
    pub fn wait(&self, provider: &str, now: Duration, random: f64) -> Option<Duration> {
        let until = self.providers.get(provider)?.until;
        let left = until.checked_sub(now).filter(|left| !left.is_zero())?;
        let random = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.5 };
        Some(left + FIRST.mul_f64(random))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_one_is_told_all_wait_and_nobody_else_does() {
        let mut pace = Pace::default();
        assert_eq!(pace.wait("a", s(10), 0.5), None);
        pace.throttled("a", s(10), Some(s(20)));
        assert_eq!(pace.wait("a", s(15), 0.0), Some(s(15)));
        assert_eq!(pace.wait("a", s(15), 0.5), Some(s(16)), "spread over the seconds behind it");
        assert_eq!(pace.wait("b", s(15), 0.0), None);
        assert_eq!(pace.wait("a", s(30), 0.9), None, "the time is over");
    }

    #[test]
    fn a_shorter_wait_does_not_end_a_longer_one() {
        let mut pace = Pace::default();
        pace.throttled("a", s(0), Some(s(60)));
        pace.throttled("a", s(1), Some(s(2)));
        assert_eq!(pace.wait("a", s(1), 0.0), Some(s(59)));
    }

    #[test]
    fn without_a_time_each_refusal_in_a_row_doubles_it() {
        let mut pace = Pace::default();
        let mut now = s(0);
        for expected in [2, 4, 8, 16] {
            pace.throttled("a", now, None);
            assert_eq!(pace.wait("a", now, 0.0), Some(s(expected)));
            // Another request from before the wait says nothing new.
            pace.throttled("a", now + s(1), None);
            now += s(expected + 1);
        }
        pace.served("a");
        pace.throttled("a", now + s(60), None);
        assert_eq!(pace.wait("a", now + s(60), 0.0), Some(s(2)));
    }

    #[test]
    fn a_provider_cannot_park_a_run_for_ever() {
        let mut pace = Pace::default();
        pace.throttled("a", s(0), Some(Duration::MAX));
        assert_eq!(pace.wait("a", s(0), 0.0), Some(RETRY_AFTER_CAP));
    }
}
