//! A ceiling on a session that something beside its stream watches, such as a gateway between it and its provider.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

use crate::domain::Micros;

/// Says once that a session may spend no more. What the harness prints from then on is about that, whatever it says.
#[derive(Debug, Default)]
pub struct Ceiling {
    reached: OnceLock<(Micros, Micros)>,
    signal: CancellationToken,
}

impl Ceiling {
    /// Takes note that the session wanted to go on when it had spent `spent`, and `limit` was all it may. Only the first
    /// note counts. Call it before the harness learns of it.
    pub fn reach(&self, limit: Micros, spent: Micros) {
        if self.reached.set((limit, spent)).is_ok() {
            self.signal.cancel();
        }
    }

    /// Returns the limit and what was spent, once it is reached.
    #[must_use]
    pub fn reached(&self) -> Option<(Micros, Micros)> {
        self.reached.get().copied()
    }

    /// Waits until it is reached.
    pub async fn wait(&self) {
        self.signal.cancelled().await;
    }
}
