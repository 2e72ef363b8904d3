//! How long to wait before the next attempt.

use std::time::Duration;

/// The wait before the first retry; each further one doubles it.
pub const FIRST: Duration = Duration::from_secs(2);

/// The longest wait that doubling leads to.
pub const CAP: Duration = Duration::from_secs(60);

/// The longest wait that a provider's `Retry-After` can ask for.
pub const RETRY_AFTER_CAP: Duration = Duration::from_secs(15 * 60);

/// Returns the wait before retry number `retry` (from 1): 2, 4, 8, … seconds, at most [`CAP`], moved by up to a quarter
/// either way so that cells that failed together do not return together.
///
/// `random` lies in `[0, 1)`; anything else is brought there. A provider's `Retry-After` is a lower bound: the jitter
/// comes on top of it, so that nobody returns too early.
#[must_use]
pub fn backoff(retry: u32, random: f64, retry_after: Option<Duration>) -> Duration {
    let random = if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.5 };
    let doublings = retry.saturating_sub(1).min(31);
    let plain = FIRST.saturating_mul(1 << doublings).min(CAP);
    let own = plain.mul_f64(0.75 + random / 2.0);
    match retry_after {
        Some(asked) => own.max(asked.min(RETRY_AFTER_CAP) + FIRST.mul_f64(random)),
        None => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_middle_of_the_jitter_is_two_four_eight() {
        let waits: Vec<u64> = (1..=4).map(|retry| backoff(retry, 0.5, None).as_secs()).collect();
        assert_eq!(waits, [2, 4, 8, 16]);
    }

    #[test]
    fn doubling_ends_at_the_cap() {
        assert_eq!(backoff(6, 0.5, None), CAP);
        assert_eq!(backoff(u32::MAX, 0.5, None), CAP);
    }

    #[test]
    fn a_provider_is_not_asked_again_before_it_said() {
        assert_eq!(backoff(1, 0.0, Some(Duration::from_secs(30))), Duration::from_secs(30));
        assert!(backoff(1, 0.9, Some(Duration::from_secs(30))) > Duration::from_secs(30));
        // A short request does not shorten our own wait.
        assert_eq!(backoff(3, 0.5, Some(Duration::from_secs(1))), Duration::from_secs(8));
    }

    #[test]
    fn a_provider_cannot_park_a_cell_for_ever() {
        assert_eq!(backoff(1, 0.0, Some(Duration::MAX)), RETRY_AFTER_CAP);
    }

    proptest! {
        #[test]
        fn every_wait_is_within_its_bounds(retry in 0u32..80, random in any::<f64>()) {
            let plain = FIRST.saturating_mul(1 << retry.saturating_sub(1).min(20)).min(CAP);
            let wait = backoff(retry, random, None);
            prop_assert!(wait >= plain.mul_f64(0.74) && wait <= plain.mul_f64(1.26));
        }
    }
}
