//! The nouns of Refrain: plain data with its invariants, and nothing that touches a disk, a clock or a process.
//!
//! Everything above this layer speaks in these types. They serialize, compare and print; none of them does I/O.
//! Start with [`cell`] (what is run), [`lifecycle`] (how an attempt lives) and [`failure`] (how it can end).

pub mod cell;
pub mod container;
pub mod event;
pub mod exchange;
pub mod failure;
pub mod judgement;
pub mod key;
pub mod lifecycle;
pub mod model;
pub mod money;
pub mod name;
pub mod orchestrator;
pub mod record;
pub mod rubric;
pub mod served;
pub mod session;
pub mod task;
pub mod usage;
pub mod verdict;

pub use cell::{AttemptId, Cell, CellId, CellKey, KeyPart};
pub use container::{ContainerOptions, Network, Pull};
pub use event::{Event, EventKind};
pub use exchange::{Attribution, Exchange, ExchangeEnd, Trace, UsageSource};
pub use failure::{Blame, ErrorClass, ExitClass, Failure};
pub use judgement::JudgeRecord;
pub use key::Key;
pub use lifecycle::{AttemptState, IllegalTransition, Terminal, Transition};
pub use model::{CostMode, Model, ModelRole};
pub use money::Micros;
pub use name::RunName;
pub use orchestrator::{ParamValue, Params};
pub use record::RunRecord;
pub use rubric::Rubric;
pub use served::is_same_model;
pub use session::{FromLog, PriceSource, SessionRecord, SessionStatus};
pub use task::{Phase, PhaseInput, Task, Track};
pub use usage::Usage;
pub use verdict::{TestStatus, Verdict};
