//! A ceiling on a session that something beside its stream watches, such as a gateway between it and its provider.

use std::sync::OnceLock;

use tokio_util::sync::CancellationToken;

use crate::domain::Micros;

/// Why a session may ask for nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// It wanted to go on when it had spent all that it may.
    Cost {
        /// The most it may spend.
        limit: Micros,
        /// What it had spent.
        spent: Micros,
    },
    /// What it asked for has no price, so that no ceiling can hold; the text says what, and what to do.
    Unpriced(String),
}

/// Says once that a session may spend no more. What the harness prints from then on is about that, whatever it says.
#[derive(Debug, Default)]
pub struct Ceiling {
    reached: OnceLock<Reached>,
    signal: CancellationToken,
}

impl Ceiling {
    /// Takes note of why the session may not go on. Only the first note counts. Call it before the harness learns of it.
    pub fn reach(&self, why: Reached) {
        if self.reached.set(why).is_ok() {
            self.signal.cancel();
        }
    }

    /// Returns why, once it is reached.
    #[must_use]
    pub fn reached(&self) -> Option<&Reached> {
        self.reached.get()
    }

    /// Waits until it is reached.
    pub async fn wait(&self) {
        self.signal.cancelled().await;
    }
}
