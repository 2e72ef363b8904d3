//! Whether a cell may start, and which cells are free of the budget.

use crate::domain::{CostMode, Micros, Track};

/// The answer to "may this cell start?".
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Run,
    /// It may not.
    Skip {
        /// Why, with the dollars; the text that the store and the reporters show.
        reason: String,
    },
}

/// Decides whether a cell may start.
///
/// A cell is skipped exactly when it is not exempt, there is a cap, and either nothing is left or less is left than
/// the cell will probably cost. `remaining` is `None` without a cap and negative where the run is in debt.
#[must_use]
pub fn admit(remaining: Option<Micros>, estimate: Micros, exempt: bool) -> Admission {
    let Some(remaining) = remaining else { return Admission::Run };
    if exempt || (remaining > Micros::ZERO && remaining >= estimate) {
        return Admission::Run;
    }
    let reason = if remaining < estimate {
        format!("Budget cap reached ({remaining} remaining < {estimate} estimated)")
    } else {
        format!("Budget cap reached ({remaining} remaining)")
    };
    Admission::Skip { reason }
}

/// Tells whether a cell is free of the budget.
///
/// All or nothing: its implementation model is on a subscription, its review model is absent or on one as well, and
/// its track needs no paid judge (`open_ended` does).
#[must_use]
pub fn is_exempt(implementation: CostMode, review: Option<CostMode>, track: Track) -> bool {
    let review_is_free = match review {
        None | Some(CostMode::Subscription) => true,
        Some(CostMode::Platform) => false,
    };
    implementation == CostMode::Subscription && review_is_free && track != Track::OpenEnded
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn skip(reason: &str) -> Admission {
        Admission::Skip { reason: reason.to_owned() }
    }

    #[test]
    fn the_reason_carries_the_dollars() {
        let decision = admit(Some(Micros::new(12_300)), Micros::new(50_000), false);
        assert_eq!(decision, skip("Budget cap reached ($0.0123 remaining < $0.0500 estimated)"));
    }

    #[test]
    fn a_cap_of_zero_is_a_cap_even_when_the_estimate_is_zero() {
        assert_eq!(admit(Some(Micros::ZERO), Micros::ZERO, false), skip("Budget cap reached ($0.0000 remaining)"));
    }

    #[test]
    fn a_debt_is_shown_as_one() {
        let decision = admit(Some(Micros::new(-700_000)), Micros::new(850_000), false);
        assert_eq!(decision, skip("Budget cap reached (-$0.7000 remaining < $0.8500 estimated)"));
    }

    #[test]
    fn what_is_left_must_cover_the_estimate() {
        // 85 cents once fit a cap of one dollar twice, because the gate only asked whether anything was left.
        assert_eq!(admit(Some(Micros::new(1_000_000)), Micros::new(850_000), false), Admission::Run);
        assert_ne!(admit(Some(Micros::new(150_000)), Micros::new(850_000), false), Admission::Run);
        assert_eq!(admit(Some(Micros::new(850_000)), Micros::new(850_000), false), Admission::Run);
    }

    #[test]
    fn exemption_is_a_flag_and_no_cap_is_no_limit() {
        assert_eq!(admit(Some(Micros::new(-1)), Micros::new(5), true), Admission::Run);
        assert_eq!(admit(None, Micros::new(i64::MAX), false), Admission::Run);
    }

    #[test_case(CostMode::Subscription, None, Track::Swe, true; "subscription alone")]
    #[test_case(CostMode::Subscription, Some(CostMode::Subscription), Track::MultiPhase, true; "both on subscription")]
    #[test_case(CostMode::Subscription, Some(CostMode::Platform), Track::MultiPhase, false; "paid review")]
    #[test_case(CostMode::Platform, Some(CostMode::Subscription), Track::MultiPhase, false; "paid implementation")]
    #[test_case(CostMode::Platform, None, Track::Swe, false; "paid")]
    #[test_case(CostMode::Subscription, None, Track::OpenEnded, false; "the judge is paid")]
    fn exemption(implementation: CostMode, review: Option<CostMode>, track: Track, expected: bool) {
        assert_eq!(is_exempt(implementation, review, track), expected);
    }
}
