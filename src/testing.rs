//! What tests of embedders need: a world without agents, a runtime that answers as told, a clock that they turn.
//!
//! - [`MockWorld`] plays a script against mock sessions in virtual time, and [`run_dir`] runs tests written in Lua.
//! - [`FakeRuntime`] answers commands as a test says; what it does not answer runs for real.
//! - [`ManualClock`] stands still until it is advanced.
//! - [`conformance`] is the suite that every [`Runtime`](crate::runtime::Runtime) must pass, also one of your own.
//!
//! `examples/test_a_strategy.rs` shows the first two.

pub use crate::clock::ManualClock;
pub use crate::runtime::conformance;
pub use crate::runtime::fake::{Answer as FakeAnswer, FakeRuntime};
pub use crate::script::mock::{MockFiles, MockReport, MockSession, MockSetup, MockWorld, VirtualClock};
pub use crate::script::testing::{
    Listener, TestFile, TestOptions, TestProgress, TestReport, TestResult, run_dir, run_dir_with,
};
