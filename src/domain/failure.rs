//! Every way an attempt can go wrong, with whose fault it is and whether trying again can help.
//!
//! Nothing outside the adapters decides by the text of a message: adapters turn what they see into a [`Failure`], and
//! from there on a `match` without a wildcard decides blame, terminal state, retry and class.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lifecycle::Terminal;

/// Whose doing a failure is. Only [`Blame::Agent`] counts in a score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blame {
    /// The coding agent.
    Agent,
    /// The Lua script.
    Orchestrator,
    /// What the user wrote: run file, task, harness, key.
    Configuration,
    /// Runtime, network, provider, host.
    Infrastructure,
    /// Tests or judge.
    Evaluation,
    /// The user stopped the run, or what it may spend ended it.
    User,
}

/// Which limit stopped a session or an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Dollars.
    Cost,
    /// Tokens.
    Tokens,
    /// Turns.
    Turns,
    /// Bytes of output.
    Output,
    /// Sessions of one attempt.
    Sessions,
    /// Bytes of memory.
    Memory,
}

/// Which timer ended something. Messages always name the timer and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timer {
    /// `timeout_seconds` of the task, or of one of its phases.
    Task,
    /// `max_runtime_seconds` of the run.
    Run,
    /// `timeout` of one session.
    Session,
    /// No output and no CPU time for `idle_timeout`.
    Idle,
    /// The setup script's own bound.
    Setup,
    /// The test command's own bound.
    Evaluation,
}

/// What a model provider refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderFault {
    /// Key missing, wrong or expired.
    Authentication,
    /// Too many requests.
    RateLimited,
    /// Overloaded or failing on its side.
    Overloaded,
    /// Not reachable, or the connection broke for good.
    Unreachable,
    /// No such model for this key.
    UnknownModel,
}

/// Why an attempt did not simply reach its verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Failure {
    /// Run file, task, harness or orchestrator cannot work together.
    #[error("{message}")]
    Configuration {
        /// What is wrong and what to do.
        message: String,
    },
    /// The orchestrator's script did not load.
    #[error("the orchestrator did not load: {message}")]
    OrchestratorLoad {
        /// Error and place in the script.
        message: String,
    },
    /// The orchestrator's script raised an error while it ran.
    #[error("the orchestrator failed: {message}")]
    OrchestratorError {
        /// Error and trace in the script.
        message: String,
    },
    /// The harness ended without having called a model or printed an event.
    #[error("the harness did not start: {message}")]
    NotStarted {
        /// What it left: exit code and last lines.
        message: String,
    },
    /// The provider refused; the agent had no chance.
    #[error("the model provider failed ({fault:?}): {message}")]
    Provider {
        /// What kind of refusal.
        fault: ProviderFault,
        /// The provider's words.
        message: String,
    },
    /// The runtime could not do its part, or the environment vanished.
    #[error("the runtime failed: {message}")]
    Runtime {
        /// What happened.
        message: String,
    },
    /// Seeding, mutation or collection of the workspace failed.
    #[error("the workspace failed: {message}")]
    Workspace {
        /// What happened.
        message: String,
    },
    /// The task's setup script failed or ran out of its time.
    #[error("the setup script failed: {message}")]
    Setup {
        /// Exit and last lines.
        message: String,
    },
    /// A session's log has no closing record: connection or host were lost.
    #[error("the session log was lost: {message}")]
    LogLost {
        /// Which sessions are open, and what is known.
        message: String,
    },
    /// The host died while the attempt ran; found by a later start.
    #[error("the host that ran this attempt is gone")]
    HostLost,
    /// The store could not keep the result.
    #[error("the store failed: {message}")]
    Store {
        /// What SQLite or the disk said.
        message: String,
    },
    /// The agent reported a failure, or crashed, and nothing else of it succeeded.
    #[error("the agent failed: {message}")]
    Agent {
        /// The agent's reason.
        message: String,
    },
    /// The agent declined the task.
    #[error("the agent declined: {message}")]
    Refusal {
        /// The agent's words.
        message: String,
    },
    /// A limit on money, tokens, turns or output was reached.
    #[error("the {limit:?} limit was reached: {message}")]
    Limit {
        /// Which.
        limit: LimitKind,
        /// Its value and what was measured.
        message: String,
    },
    /// A timer ran out while the agent worked.
    #[error("{timer:?} timeout: limit {:.1} s, after {:.1} s", .limit.as_secs_f64(), .elapsed.as_secs_f64())]
    Timeout {
        /// Which timer.
        timer: Timer,
        /// Its value.
        limit: Duration,
        /// What was measured.
        elapsed: Duration,
    },
    /// The run's budget was used up before the attempt could hold a session: nothing was tried.
    #[error("{message}")]
    Unfunded {
        /// What was used up.
        message: String,
    },
    /// Tests or judge could not give a verdict.
    #[error("evaluation failed: {message}")]
    Evaluation {
        /// What happened.
        message: String,
    },
    /// The judge of open work gave no usable answer: refused, unreachable, out of money, or unreadable.
    #[error("the judge failed: {message}")]
    Judge {
        /// What happened.
        message: String,
    },
    /// The user stopped it.
    #[error("cancelled")]
    Cancelled,
}

impl Failure {
    /// Returns whose doing it is.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Configuration { .. } | Self::OrchestratorLoad { .. } => Blame::Configuration,
            Self::OrchestratorError { .. } => Blame::Orchestrator,
            Self::Provider { fault: ProviderFault::Authentication | ProviderFault::UnknownModel, .. } => {
                Blame::Configuration
            }
            Self::NotStarted { .. }
            | Self::Provider { .. }
            | Self::Runtime { .. }
            | Self::Workspace { .. }
            | Self::Setup { .. }
            | Self::LogLost { .. }
            | Self::HostLost
            | Self::Store { .. } => Blame::Infrastructure,
            Self::Agent { .. } | Self::Refusal { .. } | Self::Limit { .. } | Self::Timeout { .. } => Blame::Agent,
            Self::Evaluation { .. } | Self::Judge { .. } => Blame::Evaluation,
            Self::Cancelled | Self::Unfunded { .. } => Blame::User,
        }
    }

    /// Returns the terminal state of an attempt that ends so.
    #[must_use]
    pub fn terminal(&self) -> Terminal {
        match self {
            Self::Timeout { .. } => Terminal::Timeout,
            _ => match self.blame() {
                Blame::Agent | Blame::Orchestrator => Terminal::Failed,
                Blame::Configuration => Terminal::InvalidConfiguration,
                Blame::Infrastructure => Terminal::InfrastructureError,
                Blame::Evaluation => Terminal::EvaluationError,
                Blame::User => Terminal::Cancelled,
            },
        }
    }

    /// Tells whether another attempt may go better. An agent's outcome is never re-rolled.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NotStarted { .. } | Self::Runtime { .. } | Self::LogLost { .. } | Self::HostLost => true,
            Self::Provider { fault, .. } => match fault {
                ProviderFault::RateLimited | ProviderFault::Overloaded | ProviderFault::Unreachable => true,
                ProviderFault::Authentication | ProviderFault::UnknownModel => false,
            },
            Self::Configuration { .. }
            | Self::OrchestratorLoad { .. }
            | Self::OrchestratorError { .. }
            | Self::Workspace { .. }
            | Self::Setup { .. }
            | Self::Store { .. }
            | Self::Agent { .. }
            | Self::Refusal { .. }
            | Self::Limit { .. }
            | Self::Timeout { .. }
            | Self::Evaluation { .. }
            | Self::Unfunded { .. }
            | Self::Judge { .. }
            | Self::Cancelled => false,
        }
    }

    /// Returns the error class of the store.
    #[must_use]
    pub fn error_class(&self) -> ErrorClass {
        match self {
            Self::Timeout { .. } => ErrorClass::Timeout,
            Self::Limit { .. } => ErrorClass::Limit,
            Self::Refusal { .. } => ErrorClass::Refusal,
            Self::Agent { .. } => ErrorClass::AgentFailure,
            Self::OrchestratorError { .. } => ErrorClass::OrchestratorError,
            Self::Evaluation { .. } => ErrorClass::Evaluation,
            Self::Judge { .. } => ErrorClass::JudgeError,
            Self::Cancelled | Self::Unfunded { .. } => ErrorClass::Cancelled,
            _ => match self.blame() {
                Blame::Configuration => ErrorClass::Configuration,
                _ => ErrorClass::Infrastructure,
            },
        }
    }
}

/// The coarse class of a result: what a score looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitClass {
    /// Solved.
    Pass,
    /// Not solved, and that is the agent's result.
    Fail,
    /// Stopped by something that another try may not meet.
    RetryableKill,
    /// Stopped by something that stays until a person acts.
    NonRetryableKill,
}

/// The fine class of a result: why it is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Solved.
    Success,
    /// Some of the declared tests pass.
    Partial,
    /// Visible checks pass, hidden tests do not.
    Overfit,
    /// The tree changed, no declared test passes.
    WrongApproach,
    /// The tree did not change.
    NoChange,
    /// The agent declined.
    Refusal,
    /// Out of time.
    Timeout,
    /// Out of money, tokens or turns.
    Limit,
    /// The changed tree crashes the tests.
    Crash,
    /// The agent reported a failure.
    AgentFailure,
    /// The script failed.
    OrchestratorError,
    /// Not the agent's doing.
    Infrastructure,
    /// Not the agent's doing, and every retry met it again.
    RetryExhausted,
    /// What the user wrote cannot run.
    Configuration,
    /// No verdict could be had.
    Evaluation,
    /// The judge gave no usable answer.
    JudgeError,
    /// The user stopped it.
    Cancelled,
}

macro_rules! names {
    ($type:ident { $($variant:ident => $name:literal),* $(,)? }) => {
        impl $type {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the name used in SQL, JSON and on screen.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }

            /// Finds a value by its name.
            #[must_use]
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == name)
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use names;

names!(ExitClass {
    Pass => "pass",
    Fail => "fail",
    RetryableKill => "retryable_kill",
    NonRetryableKill => "non_retryable_kill",
});

names!(ErrorClass {
    Success => "success",
    Partial => "partial",
    Overfit => "overfit",
    WrongApproach => "wrong_approach",
    NoChange => "no_change",
    Refusal => "refusal",
    Timeout => "timeout",
    Limit => "limit",
    Crash => "crash",
    AgentFailure => "agent_failure",
    OrchestratorError => "orchestrator_error",
    Infrastructure => "infrastructure",
    RetryExhausted => "retry_exhausted",
    Configuration => "configuration",
    Evaluation => "evaluation",
    JudgeError => "judge_error",
    Cancelled => "cancelled",
});

#[cfg(test)]
mod tests {
    use super::*;

    fn provider(fault: ProviderFault) -> Failure {
        Failure::Provider { fault, message: String::new() }
    }

    fn timeout() -> Failure {
        Failure::Timeout { timer: Timer::Task, limit: Duration::from_secs(1), elapsed: Duration::from_secs(2) }
    }

    #[test]
    fn an_agents_outcome_is_never_retried() {
        let agent = [
            Failure::Agent { message: String::new() },
            Failure::Refusal { message: String::new() },
            Failure::Limit { limit: LimitKind::Cost, message: String::new() },
            timeout(),
        ];
        for failure in agent {
            assert_eq!(failure.blame(), Blame::Agent);
            assert!(!failure.is_retryable(), "{failure:?}");
        }
    }

    #[test]
    fn a_provider_that_is_busy_is_infrastructure_and_a_wrong_key_is_configuration() {
        assert_eq!(provider(ProviderFault::RateLimited).terminal(), Terminal::InfrastructureError);
        assert!(provider(ProviderFault::Overloaded).is_retryable());
        assert_eq!(provider(ProviderFault::Authentication).terminal(), Terminal::InvalidConfiguration);
        assert!(!provider(ProviderFault::Authentication).is_retryable());
    }

    #[test]
    fn a_silent_harness_is_not_an_agent_that_did_nothing() {
        let failure = Failure::NotStarted { message: String::new() };
        assert_eq!(failure.terminal(), Terminal::InfrastructureError);
        assert_eq!(failure.error_class(), ErrorClass::Infrastructure);
    }

    #[test]
    fn a_script_error_is_the_orchestrators() {
        let failure = Failure::OrchestratorError { message: String::new() };
        assert_eq!((failure.blame(), failure.terminal()), (Blame::Orchestrator, Terminal::Failed));
        assert_eq!(timeout().terminal(), Terminal::Timeout);
    }

    #[test]
    fn an_attempt_without_money_decides_nothing() {
        let failure = Failure::Unfunded { message: String::new() };
        assert!(!failure.terminal().is_decided() && !failure.is_retryable());
    }

    #[test]
    fn class_names_agree_with_serde() {
        for class in ErrorClass::ALL {
            assert_eq!(serde_json::to_string(class).expect("serializes"), format!("\"{class}\""));
            assert_eq!(ErrorClass::parse(class.as_str()), Some(*class));
        }
        for class in ExitClass::ALL {
            assert_eq!(serde_json::to_string(class).expect("serializes"), format!("\"{class}\""));
        }
    }
}
