//! The Lua host: runs one orchestrator script in a sandbox against a [`ScriptPort`].
//!
//! This layer knows neither harness nor runtime. Everything a script does to the world is a [`HostCall`], and what the
//! world answers is an [`Answer`]: plain, serializable data. The engine implements [`ScriptPort`] with real sessions, the
//! mock world of strategy tests with scripted ones, and a journal can stand between, so a script cannot tell them apart.
//!
//! Start with [`ScriptPool::run`], or with [`run()`] where a thread is at hand already.
//!
//! Invariants: one VM per script; scripts are loaded as text only; every way to the world goes through
//! [`ScriptPort::call`]; once a script is to end, no Lua code of it can prevent or even see it.

pub mod adapter;
pub mod api;
mod bind;
pub mod check;
mod compiled;
mod control;
mod convert;
mod error;
mod frames;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
mod garbage;
mod gate;
mod idle;
mod library;
mod limits;
pub mod mock;
pub mod port;
pub mod reference;
mod run;
pub mod scaffold;
mod source;
mod stop;
pub mod testing;
mod thread;
mod vm;
mod waiting;

pub use error::{Frame, ScriptError, ScriptErrorKind};
pub use limits::ScriptLimits;
pub use port::{Answer, HostCall, HostError, ScriptInputs, ScriptPort};
pub use run::{ScriptEnd, ScriptOutcome, run};
pub use source::{ScriptFiles, ScriptSource, SourceError};
pub use stop::StopHandle;
pub use thread::{ScriptJob, ScriptPool};
