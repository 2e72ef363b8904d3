//! What follows from a failure: another attempt, or a class for the store.

use std::time::Duration;

use super::backoff::backoff;
use crate::domain::{Blame, ErrorClass, ExitClass, Failure};

/// How a run retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How many further attempts infrastructure faults get.
    pub infrastructure: u32,
    /// Whether timeouts of the agent are retried too, within the same number.
    pub on_timeout: bool,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { infrastructure: 3, on_timeout: false }
    }
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Try again.
    Retry {
        /// After this wait.
        delay: Duration,
    },
    /// The failure stands.
    GiveUp {
        /// The coarse class.
        exit_class: ExitClass,
        /// The fine class.
        error_class: ErrorClass,
    },
}

/// Decides what follows from the failure of an attempt.
///
/// `retries` is how many retries this cell has already had since the run was last started: attempts that an earlier
/// start made do not use them up. `random` in `[0, 1)` is the jitter, `retry_after` what the provider asked for.
#[must_use]
pub fn decide(
    failure: &Failure,
    retries: u32,
    policy: RetryPolicy,
    random: f64,
    retry_after: Option<Duration>,
) -> Decision {
    if worth_another_try(failure, policy) && retries < policy.infrastructure {
        return Decision::Retry { delay: backoff(retries.saturating_add(1), random, retry_after) };
    }
    let (exit_class, error_class) = classify(failure, retries);
    Decision::GiveUp { exit_class, error_class }
}

fn worth_another_try(failure: &Failure, policy: RetryPolicy) -> bool {
    failure.is_retryable() || (policy.on_timeout && matches!(failure, Failure::Timeout { .. }))
}

/// Returns how a failure that stands is booked.
///
/// `retries` is how many retries met it; a retryable fault after at least one is `retry_exhausted`. Only an agent's own
/// failure is `fail`: everything else stays out of scores.
#[must_use]
pub fn classify(failure: &Failure, retries: u32) -> (ExitClass, ErrorClass) {
    match failure.blame() {
        Blame::Agent => (ExitClass::Fail, failure.error_class()),
        Blame::Infrastructure if failure.is_retryable() => {
            let class = if retries > 0 { ErrorClass::RetryExhausted } else { failure.error_class() };
            (ExitClass::RetryableKill, class)
        }
        // The user stopped it; starting the run again takes it up.
        Blame::User => (ExitClass::RetryableKill, failure.error_class()),
        Blame::Infrastructure | Blame::Configuration | Blame::Orchestrator | Blame::Evaluation => {
            (ExitClass::NonRetryableKill, failure.error_class())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::failure::{LimitKind, ProviderFault, Timer};
    use test_case::test_case;

    fn text() -> String {
        "why".to_owned()
    }

    fn timeout() -> Failure {
        Failure::Timeout { timer: Timer::Session, limit: Duration::from_secs(2), elapsed: Duration::from_secs(2) }
    }

    fn provider(fault: ProviderFault) -> Failure {
        Failure::Provider { fault, message: text() }
    }

    const THREE: RetryPolicy = RetryPolicy { infrastructure: 3, on_timeout: false };

    fn gives_up(failure: &Failure, retries: u32, policy: RetryPolicy) -> Option<(ExitClass, ErrorClass)> {
        match decide(failure, retries, policy, 0.5, None) {
            Decision::Retry { .. } => None,
            Decision::GiveUp { exit_class, error_class } => Some((exit_class, error_class)),
        }
    }

    #[test]
    fn an_infrastructure_fault_waits_two_four_eight_and_is_then_exhausted() {
        let failure = Failure::Runtime { message: text() };
        let waits: Vec<_> = (0..3).map(|retries| decide(&failure, retries, THREE, 0.5, None)).collect();
        let expected: Vec<_> =
            [2, 4, 8].map(|seconds| Decision::Retry { delay: Duration::from_secs(seconds) }).into_iter().collect();
        assert_eq!(waits, expected);
        assert_eq!(gives_up(&failure, 3, THREE), Some((ExitClass::RetryableKill, ErrorClass::RetryExhausted)));
    }

    #[test]
    fn without_retries_nothing_was_exhausted() {
        let none = RetryPolicy { infrastructure: 0, on_timeout: true };
        let failure = Failure::LogLost { message: text() };
        assert_eq!(gives_up(&failure, 0, none), Some((ExitClass::RetryableKill, ErrorClass::Infrastructure)));
        assert_eq!(gives_up(&timeout(), 0, none), Some((ExitClass::Fail, ErrorClass::Timeout)));
    }

    #[test]
    fn a_timeout_is_an_outcome_unless_the_run_says_otherwise() {
        assert_eq!(gives_up(&timeout(), 0, THREE), Some((ExitClass::Fail, ErrorClass::Timeout)));
        let opted_in = RetryPolicy { on_timeout: true, ..THREE };
        assert_eq!(gives_up(&timeout(), 2, opted_in), None);
        // The last one still counts as the agent's.
        assert_eq!(gives_up(&timeout(), 3, opted_in), Some((ExitClass::Fail, ErrorClass::Timeout)));
    }

    #[test]
    fn a_rate_limit_waits_as_long_as_the_provider_asks() {
        let limited = provider(ProviderFault::RateLimited);
        let decision = decide(&limited, 0, THREE, 0.0, Some(Duration::from_secs(20)));
        assert_eq!(decision, Decision::Retry { delay: Duration::from_secs(20) });
    }

    #[test_case(Failure::Agent { message: text() }, ExitClass::Fail, ErrorClass::AgentFailure; "agent")]
    #[test_case(Failure::Refusal { message: text() }, ExitClass::Fail, ErrorClass::Refusal; "refusal")]
    #[test_case(Failure::Limit { limit: LimitKind::Cost, message: text() }, ExitClass::Fail, ErrorClass::Limit; "limit")]
    #[test_case(Failure::Configuration { message: text() }, ExitClass::NonRetryableKill, ErrorClass::Configuration; "configuration")]
    #[test_case(Failure::OrchestratorLoad { message: text() }, ExitClass::NonRetryableKill, ErrorClass::Configuration; "script does not load")]
    #[test_case(Failure::OrchestratorError { message: text() }, ExitClass::NonRetryableKill, ErrorClass::OrchestratorError; "script fails")]
    #[test_case(provider(ProviderFault::Authentication), ExitClass::NonRetryableKill, ErrorClass::Configuration; "key")]
    #[test_case(provider(ProviderFault::UnknownModel), ExitClass::NonRetryableKill, ErrorClass::Configuration; "model")]
    #[test_case(Failure::Setup { message: text() }, ExitClass::NonRetryableKill, ErrorClass::Infrastructure; "setup")]
    #[test_case(Failure::Workspace { message: text() }, ExitClass::NonRetryableKill, ErrorClass::Infrastructure; "workspace")]
    #[test_case(Failure::Store { message: text() }, ExitClass::NonRetryableKill, ErrorClass::Infrastructure; "store")]
    #[test_case(Failure::Evaluation { message: text() }, ExitClass::NonRetryableKill, ErrorClass::Evaluation; "evaluation")]
    #[test_case(Failure::Cancelled, ExitClass::RetryableKill, ErrorClass::Cancelled; "cancelled")]
    fn what_no_retry_helps_is_booked_at_once(failure: Failure, exit: ExitClass, class: ErrorClass) {
        let eager = RetryPolicy { infrastructure: 9, on_timeout: false };
        assert_eq!(gives_up(&failure, 0, eager), Some((exit, class)));
    }

    #[test_case(Failure::NotStarted { message: text() }; "not started")]
    #[test_case(Failure::HostLost; "host lost")]
    #[test_case(provider(ProviderFault::Overloaded); "overloaded")]
    #[test_case(provider(ProviderFault::Unreachable); "unreachable")]
    fn what_another_try_may_not_meet_is_tried_again(failure: Failure) {
        assert_eq!(gives_up(&failure, 2, THREE), None);
        assert_eq!(gives_up(&failure, 3, THREE), Some((ExitClass::RetryableKill, ErrorClass::RetryExhausted)));
    }
}
