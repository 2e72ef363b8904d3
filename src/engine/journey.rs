//! Walks an attempt through its lifecycle, logging and announcing every step.

use std::sync::Arc;

use super::events::EventSink;
use crate::clock::Clock;
use crate::domain::{AttemptId, AttemptState, EventKind, Failure, Terminal, Transition};

/// The state of an attempt and its append-only log.
#[derive(Debug)]
pub(crate) struct Journey {
    attempt: AttemptId,
    state: AttemptState,
    log: Vec<Transition>,
    clock: Arc<dyn Clock>,
    events: EventSink,
}

impl Journey {
    /// Begins at [`AttemptState::Pending`].
    pub(crate) fn begin(attempt: AttemptId, clock: Arc<dyn Clock>, events: EventSink) -> Self {
        Self { attempt, state: AttemptState::Pending, log: Vec::new(), clock, events }
    }

    /// Takes the step `to`.
    ///
    /// # Errors
    ///
    /// A [`Failure::Runtime`] that names the two states if the lifecycle has no such step: a fault of ours.
    pub(crate) fn step(&mut self, to: AttemptState) -> Result<(), Failure> {
        self.advance(to, None)
    }

    /// Takes the step `to`, which has nothing to do, and says why.
    ///
    /// # Errors
    ///
    /// As for [`Journey::step`].
    pub(crate) fn pass(&mut self, to: AttemptState, reason: impl Into<String>) -> Result<(), Failure> {
        self.advance(to, Some(reason.into()))
    }

    /// Ends the attempt and returns the log.
    pub(crate) fn end(&mut self, terminal: Terminal, reason: Option<String>) -> Vec<Transition> {
        if let Err(failure) = self.advance(AttemptState::Ended(terminal), reason) {
            tracing::error!(attempt = %self.attempt, %failure, "the lifecycle was left");
        }
        std::mem::take(&mut self.log)
    }

    fn advance(&mut self, to: AttemptState, reason: Option<String>) -> Result<(), Failure> {
        let from = self.state;
        self.state = from.advance(to).map_err(|illegal| Failure::Runtime { message: illegal.to_string() })?;
        self.log.push(Transition { from, to, at: self.clock.now(), reason: reason.clone() });
        self.events.emit(EventKind::StateChanged {
            cell: self.attempt.cell.clone(),
            attempt: self.attempt.number,
            to,
            reason,
        });
        Ok(())
    }
}
