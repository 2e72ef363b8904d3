//! The life of an attempt as a validated state machine.
//!
//! ```text
//! pending → preparing → validating → configuring_runtime → creating_workspace → starting_agent
//!         → executing → collecting → evaluating → finalizing → completed
//! ```
//!
//! A step cannot be skipped and a terminal state cannot be left. Which terminal state may end which step is one table,
//! [`AttemptState::may_end_as`].

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A step of an attempt, or its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Admitted, not started.
    Pending,
    /// Names, folders and keys are being made ready.
    Preparing,
    /// Harness, orchestrator and task are checked against each other.
    Validating,
    /// The environment is being opened.
    ConfiguringRuntime,
    /// The workspace is being seeded and its baseline taken.
    CreatingWorkspace,
    /// The harness and the script are being readied; setup scripts run here.
    StartingAgent,
    /// The script runs and holds sessions.
    Executing,
    /// Tree, logs and usage are being collected.
    Collecting,
    /// The evaluator judges the collected tree.
    Evaluating,
    /// The record is being written.
    Finalizing,
    /// The end.
    Ended(Terminal),
}

/// How an attempt ended. Agent failures count in scores; everything else never does and is shown beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Terminal {
    /// Reached the evaluator and got a verdict, which may be "not solved".
    Completed,
    /// The agent or the orchestrator script failed.
    Failed,
    /// A deadline of the task or the run passed while the agent worked.
    Timeout,
    /// The user stopped it.
    Cancelled,
    /// Something broke that is not the agent's doing.
    InfrastructureError,
    /// What the user wrote cannot be run.
    InvalidConfiguration,
    /// The tests or the judge could not give a verdict.
    EvaluationError,
}

/// One line of the append-only transition log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transition {
    /// Where the attempt was.
    pub from: AttemptState,
    /// Where it went.
    pub to: AttemptState,
    /// When, by the wall clock.
    pub at: Timestamp,
    /// Why, or what a no-op step skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A transition that the table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an attempt cannot go from {from} to {to}")]
pub struct IllegalTransition {
    /// Where the attempt was.
    pub from: AttemptState,
    /// Where it was sent.
    pub to: AttemptState,
}

impl AttemptState {
    /// All steps in order, without the ends.
    pub const STEPS: [Self; 10] = [
        Self::Pending,
        Self::Preparing,
        Self::Validating,
        Self::ConfiguringRuntime,
        Self::CreatingWorkspace,
        Self::StartingAgent,
        Self::Executing,
        Self::Collecting,
        Self::Evaluating,
        Self::Finalizing,
    ];

    /// Returns the step after this one; `None` at the last step and at an end.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        let here = Self::STEPS.iter().position(|step| *step == self)?;
        Self::STEPS.get(here + 1).copied()
    }

    /// Goes to `to` if the table allows it.
    ///
    /// # Errors
    ///
    /// [`IllegalTransition`] for a skipped step, a step back, a terminal state that is left, or an end that this step
    /// cannot have.
    pub fn advance(self, to: Self) -> Result<Self, IllegalTransition> {
        let legal = match to {
            Self::Ended(terminal) => self.may_end_as(terminal),
            _ => self.next() == Some(to),
        };
        if legal { Ok(to) } else { Err(IllegalTransition { from: self, to }) }
    }

    /// Tells whether an attempt can end as `terminal` straight from this step.
    #[must_use]
    pub fn may_end_as(self, terminal: Terminal) -> bool {
        use AttemptState as S;
        match terminal {
            Terminal::Cancelled | Terminal::InfrastructureError => !self.is_terminal(),
            Terminal::InvalidConfiguration => {
                matches!(self, S::Preparing | S::Validating | S::ConfiguringRuntime | S::CreatingWorkspace)
                    || matches!(self, S::StartingAgent | S::Executing | S::Finalizing)
            }
            Terminal::Failed | Terminal::Timeout | Terminal::Completed | Terminal::EvaluationError => {
                self == S::Finalizing
            }
        }
    }

    /// Tells whether this is an end.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Ended(_))
    }

    /// Returns the name used in records, SQL and on screen.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Preparing => "preparing",
            Self::Validating => "validating",
            Self::ConfiguringRuntime => "configuring_runtime",
            Self::CreatingWorkspace => "creating_workspace",
            Self::StartingAgent => "starting_agent",
            Self::Executing => "executing",
            Self::Collecting => "collecting",
            Self::Evaluating => "evaluating",
            Self::Finalizing => "finalizing",
            Self::Ended(terminal) => terminal.as_str(),
        }
    }
}

impl Terminal {
    /// All ends.
    pub const ALL: [Self; 7] = [
        Self::Completed,
        Self::Failed,
        Self::Timeout,
        Self::Cancelled,
        Self::InfrastructureError,
        Self::InvalidConfiguration,
        Self::EvaluationError,
    ];

    /// Returns the name used in records, SQL and on screen.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::InfrastructureError => "infrastructure_error",
            Self::InvalidConfiguration => "invalid_configuration",
            Self::EvaluationError => "evaluation_error",
        }
    }

    /// Finds an end by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|terminal| terminal.as_str() == name)
    }

    /// Tells whether the cell is decided: the agent had its chance, so a resumed run leaves it alone.
    ///
    /// Everything else is run again by the same command.
    #[must_use]
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Timeout)
    }
}

impl fmt::Display for AttemptState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_states() -> Vec<AttemptState> {
        AttemptState::STEPS.into_iter().chain(Terminal::ALL.map(AttemptState::Ended)).collect()
    }

    #[test]
    fn steps_are_taken_one_by_one() {
        for (i, from) in AttemptState::STEPS.into_iter().enumerate() {
            for (j, to) in AttemptState::STEPS.into_iter().enumerate() {
                assert_eq!(from.advance(to).is_ok(), j == i + 1, "{from} to {to}");
            }
        }
    }

    #[test]
    fn ends_are_final() {
        for from in Terminal::ALL.map(AttemptState::Ended) {
            for to in all_states() {
                assert_eq!(from.advance(to), Err(IllegalTransition { from, to }));
            }
        }
    }

    #[test]
    fn a_verdict_needs_every_step() {
        for from in AttemptState::STEPS {
            for terminal in [Terminal::Completed, Terminal::Failed, Terminal::Timeout, Terminal::EvaluationError] {
                let legal = from.advance(AttemptState::Ended(terminal)).is_ok();
                assert_eq!(legal, from == AttemptState::Finalizing, "{from} to {terminal}");
            }
        }
    }

    #[test]
    fn trouble_can_end_any_step() {
        for from in AttemptState::STEPS {
            assert!(from.may_end_as(Terminal::InfrastructureError), "{from}");
            assert!(from.may_end_as(Terminal::Cancelled), "{from}");
        }
        assert!(!AttemptState::Collecting.may_end_as(Terminal::InvalidConfiguration));
    }

    #[test]
    fn names_are_unique_and_parse_back() {
        for terminal in Terminal::ALL {
            assert_eq!(Terminal::parse(terminal.as_str()), Some(terminal));
        }
        let mut names: Vec<_> = all_states().into_iter().map(AttemptState::as_str).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 17);
    }
}
