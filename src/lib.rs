//! Refrain: an embeddable scripting host that evaluates coding agents.
//!
//! A **run** expands into a matrix of **cells** (harness × model × task × orchestrator × repeat). Each cell gets a fresh
//! workspace; in it an **orchestrator**, a Lua script in a sandbox, decides how many agent **sessions** to hold, what
//! each is told and when to stop. The Rust core does everything else.
//!
//! The layers, from the bottom up, import downwards only (`tests/architecture.rs` holds the table):
//!
//! | layer | modules |
//! |---|---|
//! | L5 | [`host`] |
//! | L4 | [`report`] |
//! | L3 | [`engine`] |
//! | L2 | [`runtime`], [`workspace`], [`harness`], [`evaluator`], [`script`], [`store`] |
//! | L1 | [`config`], [`budget`], [`retry`], [`clock`] |
//! | L0 | [`domain`], [`redact`] |

pub mod budget;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
pub mod clock;
pub mod config;
pub mod domain;
pub mod engine;
pub mod evaluator;
pub mod harness;
pub mod host;
pub mod redact;
pub mod report;
pub mod retry;
pub mod runtime;
pub mod script;
pub mod store;
pub mod workspace;
