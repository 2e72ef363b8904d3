//! The embedding API: a [`Host`] turns a checked plan into a [`Run`], and a run into results.
//!
//! The library never prints, never exits, installs no signal handler and no logger, and starts no tokio runtime: a
//! [`Run`] is a future that the embedder drives on its own multi-thread runtime.
//!
//! Start with [`Host::builder`].

mod advice;
mod assemble;
mod builder;
#[cfg(feature = "gateway")]
mod calibrate;
mod error;
#[cfg(feature = "gateway")]
mod gateway;
mod images;
mod lua_adapter;
mod rehearsing;
mod reparsing;
mod reporting;
mod run;
#[cfg(feature = "gateway")]
mod standalone;
mod stored;

use std::path::Path;

use crate::config::plan::HarnessEntry;
use crate::harness::declarative::DeclarativeHarness;

pub use advice::advice;
pub use builder::{Host, HostBuilder};
#[cfg(feature = "gateway")]
pub use calibrate::{CalibrateOptions, ExampleScored};
pub use error::{Error, ErrorKind};
pub use images::ReadyHarness;
pub use reparsing::{ReparseOutcome, SessionReparse};
pub use run::Run;
#[cfg(feature = "gateway")]
pub use standalone::{StandaloneDoor, StandaloneGateway, StandaloneOptions};
pub use stored::{Adapter, read_stored};

/// Makes the harness that a run file declares, with its `adapter.lua` where it has one. `program` is the path of this
/// program, for harnesses that call it.
///
/// # Errors
///
/// An error of the configuration for a template that names what is not there, or an adapter that does not load.
pub fn declared_harness(entry: &HarnessEntry, program: &Path) -> Result<DeclarativeHarness, Error> {
    assemble::declared(entry, program)
}

pub use crate::budget::{Price, PriceTable};
pub use crate::engine::rehearsal::{Rehearsal, RehearsalEnd, Step};
pub use crate::engine::{CancelHandle, CancelLevel};
