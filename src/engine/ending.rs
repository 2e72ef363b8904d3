//! The one cause of an attempt's end, as a pure decision.
//!
//! The order is fixed: what stopped the attempt from outside (a watchdog, a limit, the deadline, a cancellation, a lost
//! environment) comes before what the script said, and that before what the sessions' logs say.

use crate::domain::session::SessionEnd;
use crate::domain::{ErrorClass, ExitClass, Failure, SessionRecord, SessionStatus, Terminal, Verdict};
use crate::retry;

/// How the script itself ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ScriptEnd {
    /// It returned.
    Returned,
    /// It did not load.
    NotLoaded(String),
    /// It raised an error.
    Raised(String),
    /// The host ended it; the cause is known apart.
    Stopped,
}

/// Decides why an attempt did not simply reach its verdict; `None` where it did.
pub(crate) fn cause(stopped: Option<Failure>, script: &ScriptEnd, sessions: &[SessionRecord]) -> Option<Failure> {
    if stopped.is_some() {
        return stopped;
    }
    match script {
        ScriptEnd::NotLoaded(message) => Some(Failure::OrchestratorLoad { message: message.clone() }),
        ScriptEnd::Raised(message) => Some(Failure::OrchestratorError { message: message.clone() }),
        ScriptEnd::Stopped => Some(Failure::Runtime { message: "the script was stopped without a cause".to_owned() }),
        ScriptEnd::Returned => from_sessions(sessions),
    }
}

/// Why an attempt ended whose sessions were all refused for want of the run's money, whatever its script made of that: no
/// agent had a chance, and nothing is decided.
pub(crate) fn unfunded() -> Failure {
    Failure::Unfunded {
        message: "Budget cap reached: the run's budget was used up before its first session".to_owned(),
    }
}

/// A script that returned is judged by its work if one session completed; else the last session's end is the attempt's.
fn from_sessions(sessions: &[SessionRecord]) -> Option<Failure> {
    if sessions.iter().any(|session| session.status() == SessionStatus::Completed) {
        return None;
    }
    sessions.last().and_then(|session| of_session(&session.end))
}

/// Turns a session's end into the failure of an attempt that has nothing better.
pub(crate) fn of_session(end: &SessionEnd) -> Option<Failure> {
    Some(match end.clone() {
        SessionEnd::Completed => return None,
        SessionEnd::AgentFailed { message } => Failure::Agent { message },
        SessionEnd::Refused { message } => Failure::Refusal { message },
        SessionEnd::TimedOut { timer, limit, elapsed } => Failure::Timeout { timer, limit, elapsed },
        SessionEnd::Limit { limit, message } => Failure::Limit { limit, message },
        SessionEnd::NotStarted { message } => Failure::NotStarted { message },
        SessionEnd::Provider { fault, message } => Failure::Provider { fault, message },
        // Whatever the agent asked for: what it costs is for the run's author to say.
        SessionEnd::Misconfigured { message } => Failure::Configuration { message },
        SessionEnd::Lost { message } => Failure::LogLost { message },
        SessionEnd::Cancelled => Failure::Cancelled,
    })
}

/// Tells whether the tree is worth a verdict: it is whenever the agent had its chance, also after a timeout.
pub(crate) fn is_judged(cause: Option<&Failure>) -> bool {
    cause.is_none_or(|failure| failure.blame() == crate::domain::Blame::Agent)
}

/// The classes of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Classes {
    /// The terminal state.
    pub(crate) terminal: Terminal,
    /// The coarse class.
    pub(crate) exit: ExitClass,
    /// The fine class.
    pub(crate) error: ErrorClass,
    /// Whether the task was solved; unknown where the agent had no fair chance.
    pub(crate) solved: Option<bool>,
}

/// Decides the classes from cause and verdict. A tree that would pass does not count where the agent was stopped: the
/// verdict stays on record beside the score.
pub(crate) fn classify(cause: Option<&Failure>, verdict: Option<&Verdict>, retries: u32) -> Classes {
    let Some(failure) = cause else {
        let Some(verdict) = verdict else {
            return Classes {
                terminal: Terminal::EvaluationError,
                exit: ExitClass::NonRetryableKill,
                error: ErrorClass::Evaluation,
                solved: None,
            };
        };
        let exit = if verdict.solved { ExitClass::Pass } else { ExitClass::Fail };
        return Classes { terminal: Terminal::Completed, exit, error: verdict.class, solved: Some(verdict.solved) };
    };
    let terminal = failure.terminal();
    let agents = failure.blame() == crate::domain::Blame::Agent;
    let (exit, error) = retry::classify(failure, retries);
    Classes { terminal, exit, error, solved: agents.then_some(false) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;
    use crate::domain::Blame;
    use crate::domain::failure::{ProviderFault, Timer};

    fn session(end: SessionEnd) -> SessionRecord {
        SessionRecord { end, ..SessionRecord::completed(1, Timestamp::UNIX_EPOCH, "") }
    }

    fn failed() -> SessionRecord {
        session(SessionEnd::AgentFailed { message: "exit 1".to_owned() })
    }

    fn verdict(solved: bool) -> Verdict {
        Verdict {
            solved,
            class: if solved { ErrorClass::Success } else { ErrorClass::WrongApproach },
            passed: u32::from(solved),
            total: 1,
            tests: Vec::new(),
            exit_code: Some(i32::from(!solved)),
            format: None,
            summary: String::new(),
            report: String::new(),
        }
    }

    #[test]
    fn what_stopped_the_attempt_comes_before_what_the_script_said() {
        let cause = cause(Some(Failure::Cancelled), &ScriptEnd::Raised("x".to_owned()), &[failed()]);
        assert_eq!(cause, Some(Failure::Cancelled));
    }

    #[test]
    fn one_completed_session_makes_the_work_worth_a_verdict() {
        let sessions = [session(SessionEnd::Completed), failed()];
        assert_eq!(cause(None, &ScriptEnd::Returned, &sessions), None);
        assert_eq!(cause(None, &ScriptEnd::Returned, &[]), None);
    }

    #[test]
    fn without_a_completed_session_the_last_one_decides() {
        let silent = session(SessionEnd::NotStarted { message: "exit 127".to_owned() });
        let failure = cause(None, &ScriptEnd::Returned, &[silent]).expect("a failure");
        assert_eq!(failure.blame(), Blame::Infrastructure);
        let failure = cause(None, &ScriptEnd::Returned, &[failed()]).expect("a failure");
        assert_eq!(failure.blame(), Blame::Agent);
    }

    #[test]
    fn a_script_error_is_neither_the_agents_nor_judged() {
        let failure = cause(None, &ScriptEnd::Raised("runner.lua:3: x".to_owned()), &[]);
        assert!(!is_judged(failure.as_ref()));
        assert_eq!(classify(failure.as_ref(), None, 0).solved, None);
    }

    #[test]
    fn a_timeout_is_judged_but_never_counts_as_solved() {
        let timeout =
            Failure::Timeout { timer: Timer::Task, limit: Duration::from_secs(1), elapsed: Duration::from_secs(1) };
        assert!(is_judged(Some(&timeout)));
        let classes = classify(Some(&timeout), Some(&verdict(true)), 0);
        assert_eq!((classes.terminal, classes.exit, classes.solved), (Terminal::Timeout, ExitClass::Fail, Some(false)));
    }

    #[test]
    fn infrastructure_never_reaches_a_score() {
        let failure = Failure::Provider { fault: ProviderFault::RateLimited, message: String::new() };
        let classes = classify(Some(&failure), None, 0);
        assert_eq!((classes.exit, classes.solved), (ExitClass::RetryableKill, None));
    }

    #[test]
    fn verdicts_pass_or_fail() {
        assert_eq!(classify(None, Some(&verdict(true)), 0).exit, ExitClass::Pass);
        assert_eq!(classify(None, Some(&verdict(false)), 0).exit, ExitClass::Fail);
        assert_eq!(classify(None, None, 0).terminal, Terminal::EvaluationError);
    }
}
