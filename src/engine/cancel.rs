//! Cancellation in three levels, each stronger than the one before.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How far a run is to be stopped. Only an escalation has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum CancelLevel {
    /// Not at all.
    #[default]
    None,
    /// Start nothing new, let what runs finish.
    Drain,
    /// Stop sessions, collect and record what is there.
    Stop,
    /// Kill everything and record that.
    Kill,
}

/// Raises the level of a run. Clones share it.
#[derive(Debug, Clone)]
pub struct CancelHandle {
    level: watch::Sender<CancelLevel>,
    stop: CancellationToken,
    kill: CancellationToken,
}

impl Default for CancelHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl CancelHandle {
    /// Makes a handle at [`CancelLevel::None`].
    #[must_use]
    pub fn new() -> Self {
        let stop = CancellationToken::new();
        Self { level: watch::Sender::new(CancelLevel::None), kill: CancellationToken::new(), stop }
    }

    /// Raises the level to `level`; returns whether that was an escalation.
    #[expect(clippy::must_use_candidate, reason = "raising is the point; the answer is for messages")]
    pub fn raise(&self, level: CancelLevel) -> bool {
        let raised = self.level.send_if_modified(|current| {
            let raised = level > *current;
            *current = level.max(*current);
            raised
        });
        if level >= CancelLevel::Stop {
            self.stop.cancel();
        }
        if level >= CancelLevel::Kill {
            self.kill.cancel();
        }
        raised
    }

    /// Raises the level by one, as each Ctrl-C does, and returns the new level.
    #[expect(clippy::must_use_candidate, reason = "raising is the point; the answer is for messages")]
    pub fn escalate(&self) -> CancelLevel {
        let next = match self.level() {
            CancelLevel::None => CancelLevel::Drain,
            CancelLevel::Drain => CancelLevel::Stop,
            CancelLevel::Stop | CancelLevel::Kill => CancelLevel::Kill,
        };
        self.raise(next);
        next
    }

    /// Returns the level.
    #[must_use]
    pub fn level(&self) -> CancelLevel {
        *self.level.borrow()
    }

    /// Waits for the next escalation.
    pub(crate) fn subscribe(&self) -> watch::Receiver<CancelLevel> {
        self.level.subscribe()
    }

    /// Returns the token that ends sessions.
    pub(crate) fn stop_token(&self) -> &CancellationToken {
        &self.stop
    }

    /// Returns the token that ends collection and evaluation too.
    pub(crate) fn kill_token(&self) -> &CancellationToken {
        &self.kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_escalation_counts() {
        let handle = CancelHandle::new();
        assert!(handle.raise(CancelLevel::Stop));
        assert!(!handle.raise(CancelLevel::Drain));
        assert_eq!(handle.level(), CancelLevel::Stop);
        assert!(handle.stop_token().is_cancelled());
        assert!(!handle.kill_token().is_cancelled());
    }

    #[test]
    fn each_signal_goes_one_level_up() {
        let handle = CancelHandle::new();
        let levels = [handle.escalate(), handle.escalate(), handle.escalate(), handle.escalate()];
        assert_eq!(levels, [CancelLevel::Drain, CancelLevel::Stop, CancelLevel::Kill, CancelLevel::Kill]);
    }
}
