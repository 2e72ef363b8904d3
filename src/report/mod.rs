//! Reporters: what a run looks like while it goes on and afterwards. They read events and the store, never the engine.
//!
//! A reporter that fails is dropped with one warning; it never stops a run. Start with [`Reporter`].

pub mod atif;
pub mod json;
pub mod lines;
#[cfg(feature = "cli")]
pub mod progress;
pub mod text;
pub mod trajectory;

use std::io;

pub use json::JsonReporter;
pub use lines::LineReporter;
#[cfg(feature = "cli")]
pub use progress::ProgressReporter;

use crate::domain::Event;

/// Shows events to somebody.
pub trait Reporter: Send {
    /// Takes the next event.
    ///
    /// # Errors
    ///
    /// Whatever the output refuses; the reporter is then dropped.
    fn event(&mut self, event: &Event) -> io::Result<()>;

    /// Says that no event follows.
    ///
    /// # Errors
    ///
    /// As for [`Reporter::event`].
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
