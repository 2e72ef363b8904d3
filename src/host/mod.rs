//! The embedding API: a [`Host`] turns a checked plan into a [`Run`], and a run into results.
//!
//! The library never prints, never exits, installs no signal handler and no logger, and starts no tokio runtime: a
//! [`Run`] is a future that the embedder drives on its own multi-thread runtime.
//!
//! Start with [`Host::builder`].

mod advice;
mod assemble;
mod builder;
mod error;
mod images;
mod rehearsing;
mod reporting;
mod run;

pub use advice::advice;
pub use builder::{Host, HostBuilder};
pub use error::{Error, ErrorKind};
pub use images::ReadyHarness;
pub use run::Run;

pub use crate::engine::rehearsal::{Rehearsal, RehearsalEnd, Step};
pub use crate::engine::{CancelHandle, CancelLevel};
