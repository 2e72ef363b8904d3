//! Runs a plan: decides which cells still need work, runs them side by side, and keeps what comes of it.
//!
//! Two parts, as in the models of this field: the [`dispatcher`] alone owns the state of the run and decides
//! synchronously; the [`executor`] carries cells through their attempts and reports back. An `attempt` walks the
//! validated lifecycle; while it executes, a `world` answers its script's calls. The engine never prints: it emits
//! [`crate::domain::Event`]s. The store is no reporter: when it cannot write, the run stops.

pub(crate) mod accounts;
pub(crate) mod attempt;
pub mod cancel;
pub(crate) mod casting;
pub(crate) mod checkpoints;
pub(crate) mod checks;
pub(crate) mod claims;
pub(crate) mod desk;
pub mod dispatcher;
pub(crate) mod ending;
pub mod error;
pub(crate) mod evaluation;
pub mod events;
pub mod executor;
pub(crate) mod finish;
pub(crate) mod journal;
pub(crate) mod journey;
#[cfg(feature = "gateway")]
pub mod judging;
pub(crate) mod keepsake;
pub(crate) mod lease;
#[cfg(feature = "gateway")]
pub mod metering;
#[cfg(not(feature = "gateway"))]
#[path = "unmetered.rs"]
pub mod metering;
pub(crate) mod off_thread;
pub mod pacing;
pub(crate) mod port;
pub(crate) mod preflight;
pub(crate) mod purse;
pub(crate) mod reconcile;
pub(crate) mod recovery;
pub mod rehearsal;
pub(crate) mod reread;
pub(crate) mod resume;
pub(crate) mod runner;
pub mod services;
pub(crate) mod session;
pub(crate) mod setup;
pub(crate) mod spaces;
pub(crate) mod spool;
pub mod worklist;
pub(crate) mod world;

pub use cancel::{CancelHandle, CancelLevel};
pub use error::EngineError;
pub use executor::run;
pub use keepsake::{is_left_over, remove_scratch};
pub use services::Services;
pub use setup::agent_environment;
