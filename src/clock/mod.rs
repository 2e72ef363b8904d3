//! Time, behind a trait: so that limits use a clock that never jumps, and tests use one that they turn themselves.
//!
//! Limits and durations come from [`Clock::elapsed`], which is monotonic; [`Clock::now`] is a label for people.
//! Start with [`SystemClock`]; with the feature `test-util`, `ManualClock` is its fake.

#[cfg(any(test, feature = "test-util"))]
mod manual;
mod system;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

#[cfg(any(test, feature = "test-util"))]
pub use manual::ManualClock;
pub use system::SystemClock;

/// A source of time.
#[async_trait]
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// Returns the wall clock's time. It may jump; nothing may be decided by it.
    fn now(&self) -> Timestamp;

    /// Returns the time since this clock was made. It never goes back and never jumps.
    fn elapsed(&self) -> Duration;

    /// Waits. Dropping the future ends the wait.
    async fn sleep(&self, duration: Duration);
}
