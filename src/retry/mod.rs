//! Whether a failed attempt is tried again, how long to wait first, and how a cell is booked when it is given up.
//!
//! Pure: the engine brings the failure, the number of retries already made and a random number, and carries the answer
//! out. An agent's outcome is never re-rolled; only `on_timeout` opts a run into retrying timeouts.
//! Start with [`decide`].

pub mod backoff;
pub mod decision;
pub mod pace;

pub use backoff::backoff;
pub use decision::{Decision, RetryPolicy, classify, decide};
pub use pace::Pace;
