//! The Lua host: runs one orchestrator script in a sandbox against a [`ScriptPort`].
//!
//! This layer knows neither harness nor runtime. Everything a script does to the world is a [`HostCall`], and what the
//! world answers is an [`Answer`]: plain, serializable data. The engine implements [`ScriptPort`] with real sessions, the
//! mock world of strategy tests with scripted ones, and a journal can stand between, so a script cannot tell them apart.

pub mod port;

pub use port::{Answer, HostCall, HostError, ScriptPort};
