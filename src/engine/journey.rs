//! Walks an attempt through its lifecycle, logging and announcing every step.

use std::sync::Arc;

use super::events::EventSink;
use crate::clock::Clock;
use crate::domain::{AttemptId, AttemptState, EventKind, Failure, Terminal, Transition};
use crate::store::{Store, Ticket};

/// The state of an attempt and its append-only log.
#[derive(Debug)]
pub(crate) struct Journey {
    attempt: AttemptId,
    state: AttemptState,
    log: Vec<Transition>,
    /// How many steps of the log an earlier host has taken. They are not taken again.
    inherited: usize,
    clock: Arc<dyn Clock>,
    events: EventSink,
    store: Store,
    unsettled: Option<Ticket<()>>,
    /// Why the next step is taken, if it says nothing itself.
    because: Option<String>,
}

impl Journey {
    /// Begins at [`AttemptState::Pending`].
    pub(crate) fn begin(attempt: AttemptId, clock: Arc<dyn Clock>, events: EventSink, store: Store) -> Self {
        Self {
            attempt,
            state: AttemptState::Pending,
            log: Vec::new(),
            inherited: 0,
            clock,
            events,
            store,
            unsettled: None,
            because: None,
        }
    }

    /// Returns the attempt.
    pub(crate) fn attempt(&self) -> &AttemptId {
        &self.attempt
    }

    /// Goes on where an earlier host has left an attempt, by the steps on record.
    pub(crate) fn go_on(self, log: Vec<Transition>) -> Self {
        let state = log.last().map_or(AttemptState::Pending, |last| last.to);
        Self { state, inherited: log.len(), log, ..self }
    }

    /// Says why the next step is taken.
    pub(crate) fn because(mut self, reason: Option<String>) -> Self {
        self.because = reason;
        self
    }

    /// Takes the step `to`.
    ///
    /// # Errors
    ///
    /// A [`Failure::Runtime`] that names the two states if the lifecycle has no such step: a fault of ours.
    pub(crate) fn step(&mut self, to: AttemptState) -> Result<(), Failure> {
        let reason = self.because.take();
        self.advance(to, reason)
    }

    /// Takes the step `to`, which has nothing to do, and says why.
    ///
    /// # Errors
    ///
    /// As for [`Journey::step`].
    pub(crate) fn pass(&mut self, to: AttemptState, reason: impl Into<String>) -> Result<(), Failure> {
        self.advance(to, Some(reason.into()))
    }

    /// Waits until the last step is on the disk. A host that finds a crashed attempt later knows by its step whether
    /// money may have been spent, so the step to [`AttemptState::Executing`] must be there before the first session.
    ///
    /// # Errors
    ///
    /// [`Failure::Store`] if the store cannot keep it.
    pub(crate) async fn settle(&mut self) -> Result<(), Failure> {
        match self.unsettled.take() {
            Some(ticket) => ticket.await.map_err(|error| Failure::Store { message: error.to_string() }),
            None => Ok(()),
        }
    }

    /// Ends the attempt and returns the log.
    pub(crate) fn end(&mut self, terminal: Terminal, reason: Option<String>) -> Vec<Transition> {
        if let Err(failure) = self.advance(AttemptState::Ended(terminal), reason) {
            tracing::error!(attempt = %self.attempt, %failure, "the lifecycle was left");
        }
        std::mem::take(&mut self.log)
    }

    /// Tells whether an earlier host has taken a step.
    pub(crate) fn had_come_to(&self, step: AttemptState) -> bool {
        self.log[..self.inherited].iter().any(|transition| transition.to == step)
    }

    fn advance(&mut self, to: AttemptState, reason: Option<String>) -> Result<(), Failure> {
        if self.had_come_to(to) {
            return Ok(());
        }
        let from = self.state;
        self.state = from.advance(to).map_err(|illegal| Failure::Runtime { message: illegal.to_string() })?;
        let transition = Transition { from, to, at: self.clock.now(), reason: reason.clone() };
        if !to.is_terminal() {
            // The end is stored with the whole record; the steps before it show how far a crashed attempt had come.
            self.unsettled = Some(self.store.add_transition(&self.attempt, &transition));
        }
        self.log.push(transition);
        self.events.emit(EventKind::StateChanged {
            cell: self.attempt.cell.clone(),
            attempt: self.attempt.number,
            to,
            reason,
        });
        Ok(())
    }
}
