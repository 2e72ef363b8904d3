//! Refrain: an embeddable scripting host that evaluates coding agents.
//!
//! A **run** expands into a matrix of **cells** (harness × model × task × orchestrator × repeat). Each cell gets a fresh
//! workspace; in it an **orchestrator**, a Lua script in a sandbox, decides how many agent **sessions** to hold, what
//! each is told and when to stop. The Rust core does everything else.
//!
//! # A script and a closure
//!
//! A script needs no run, no runtime and no agent: whoever answers its calls is its world. Here sessions are a closure.
//!
//! ```
//! use refrain::script::mock::{MockSession, MockSetup, MockWorld};
//! use refrain::script::{ScriptEnd, ScriptLimits, ScriptSource};
//!
//! let world = MockWorld::new(MockSetup {
//!     sessions: Some(Box::new(|call, number, _files| Ok(MockSession::saying(&format!("{number}: {}", call.prompt))))),
//!     ..MockSetup::default()
//! });
//! let script = ScriptSource::from_text(
//!     "runner.lua",
//!     r#"
//!     local draft = session(task.prompt)
//!     local review = session("Review: " .. draft.text)
//!     return { note = review.text }
//!     "#,
//! );
//! let outcome = world.play(&script, world.inputs("Fix the bug."), ScriptLimits::default());
//!
//! let ScriptEnd::Returned { note, .. } = outcome.end else { panic!("{outcome:?}") };
//! assert_eq!(note.as_deref(), Some("2: Review: 1: Fix the bug."));
//! assert_eq!(world.report().sessions.len(), 2);
//! ```
//!
//! # Where to start
//!
//! | to | see | example |
//! |---|---|---|
//! | run a script in a world of your own | [`script::ScriptPort`], [`script::ScriptPool`] | `examples/embed.rs` |
//! | run a plan from a run file | [`host::Host::load`], [`host::Host::prepare`] | `examples/custom_reporter.rs` |
//! | add an agent | [`harness::Harness`], [`harness::OutputReader`] | `examples/custom_harness.rs` |
//! | add a place to run | [`runtime::Runtime`], [`runtime::Environment`] | `examples/custom_runtime.rs` |
//! | add a judge, a display | [`evaluator::Evaluator`], [`report::Reporter`] | `examples/custom_reporter.rs` |
//! | test a strategy, or code around this crate | [`script::testing`], and `refrain::testing` behind the feature `test-util` | `examples/test_a_strategy.rs` |
//!
//! The library never prints, never exits, installs no logger and no signal handler, takes no setting from the process's
//! environment (git, and the search for certificate authorities, see it), and starts no tokio runtime: all of that is its
//! embedder's.
//!
//! # Features
//!
//! | feature | what it adds | default |
//! |---|---|---|
//! | `cli` | the program `refrain` | yes |
//! | `docker` | `runtime::docker`: containers as a runtime | yes |
//! | `gateway` | `gateway`: the meter between harnesses and model providers | yes |
//! | `test-util` | `refrain::testing`: fakes of the clock and the runtime, the conformance suite of runtimes | no |
//!
//! # Layers
//!
//! The layers, from the bottom up, import downwards only (`tests/architecture.rs` holds the table):
//!
//! | layer | modules |
//! |---|---|
//! | L5 | [`host`] |
//! | L4 | [`report`] |
//! | L3 | [`engine`] |
//! | L2 | [`runtime`], [`workspace`], [`harness`], [`evaluator`], [`judge`], [`script`], [`store`], `gateway` |
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
#[cfg(feature = "gateway")]
pub mod gateway;
pub mod harness;
pub mod host;
pub mod judge;
pub mod redact;
pub mod report;
pub mod retry;
pub mod runtime;
pub mod script;
pub mod store;
#[cfg(any(test, feature = "test-util"))]
pub mod testing;
pub mod workspace;
