//! Events: what the engine tells the world. Reporters, the store and embedders see the same values.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cell::CellId;
use super::failure::{ErrorClass, ExitClass};
use super::lifecycle::{AttemptState, Terminal};
use super::money::Micros;
use super::name::RunName;
use super::session::SessionStatus;
use super::usage::Usage;

/// The version of the event format.
pub const EVENT_SCHEMA: u32 = 1;

/// One event. `seq` counts from 0 without gaps within one start of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Version of this format: [`EVENT_SCHEMA`].
    pub schema: u32,
    /// Position in the stream.
    pub seq: u64,
    /// When, by the wall clock.
    pub at: Timestamp,
    /// The run.
    pub run: RunName,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened. Texts from agents and scripts are redacted and free of control characters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run begins.
    RunStarted {
        /// Cells of the whole matrix.
        total: usize,
        /// Cells that an earlier start decided.
        already_done: usize,
        /// How many cells run at once.
        parallel: usize,
    },
    /// A cell's attempt begins.
    AttemptStarted {
        /// The cell.
        cell: CellId,
        /// Which try.
        attempt: u32,
    },
    /// An attempt took a step.
    StateChanged {
        /// The cell.
        cell: CellId,
        /// Which try.
        attempt: u32,
        /// Where it is now.
        to: AttemptState,
        /// Why, or what a no-op step skipped.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        reason: Option<String>,
    },
    /// A session begins.
    SessionStarted {
        /// The cell.
        cell: CellId,
        /// Which try.
        attempt: u32,
        /// Which session of it, from 1.
        session: u32,
        /// The script's label.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        label: Option<String>,
        /// The phase.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        phase: Option<String>,
    },
    /// A session shows life: its latest message or tool.
    SessionProgress {
        /// The cell.
        cell: CellId,
        /// Which session, from 1.
        session: u32,
        /// One line.
        text: String,
    },
    /// The gateway saw a session spend: after each of its requests.
    SessionSpend {
        /// The cell.
        cell: CellId,
        /// Which try.
        attempt: u32,
        /// Which session, from 1.
        session: u32,
        /// Its requests so far, the refused ones included.
        requests: u32,
        /// Its tokens so far.
        usage: Usage,
        /// Its cost so far; unknown where that of one request is.
        cost: Option<Micros>,
        /// What this try has cost so far, as far as it is known.
        attempt_cost: Micros,
        /// What the requests of this start of the run have cost so far, as far as it is known.
        run_cost: Micros,
    },
    /// A session ended.
    SessionFinished {
        /// The cell.
        cell: CellId,
        /// Which try.
        attempt: u32,
        /// Which session, from 1.
        session: u32,
        /// How.
        status: SessionStatus,
        /// Why.
        reason: String,
        /// How long it ran.
        duration: Duration,
        /// Its tokens.
        usage: Usage,
        /// Its cost.
        cost: Option<Micros>,
    },
    /// A line that a script logged.
    ScriptLog {
        /// The cell.
        cell: CellId,
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The line.
        text: String,
    },
    /// An attempt ended in a fault that another may not meet.
    AttemptRetried {
        /// The cell.
        cell: CellId,
        /// The try that failed.
        attempt: u32,
        /// Why.
        reason: String,
        /// How long until the next.
        delay: Duration,
    },
    /// A cell is decided, or given up.
    CellFinished {
        /// The cell.
        cell: CellId,
        /// Its last try.
        attempt: u32,
        /// How it ended.
        terminal: Terminal,
        /// Coarse class.
        exit_class: ExitClass,
        /// Fine class.
        error_class: ErrorClass,
        /// Whether the task was solved; unknown without a verdict.
        solved: Option<bool>,
        /// One line for people.
        summary: String,
        /// How long the last try took.
        duration: Duration,
        /// Cost of all tries.
        cost: Option<Micros>,
    },
    /// A cell was not started.
    CellSkipped {
        /// The cell.
        cell: CellId,
        /// Why.
        reason: String,
    },
    /// Something a person should know that stops nothing.
    Warning {
        /// What.
        message: String,
    },
    /// The run ends.
    RunFinished {
        /// The totals.
        summary: RunSummary,
    },
}

/// The totals of a run, over all its starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RunSummary {
    /// Cells of the whole matrix.
    pub total: usize,
    /// Cells whose task was solved.
    pub passed: usize,
    /// Cells that the agent did not solve.
    pub failed: usize,
    /// Cells that ended in something that is not the agent's doing.
    pub errored: usize,
    /// Cells left out, with the reasons and how often each.
    pub skipped: Vec<(String, usize)>,
    /// Cells that this start did not get to.
    pub not_run: usize,
    /// Cost of every session of every attempt, the exempt ones included; a lower bound where `unknown_costs` > 0.
    pub total_cost: Micros,
    /// The part that counts against the budget; a lower bound where `unknown_costs` > 0.
    pub billable_cost: Micros,
    /// Sessions whose cost nobody knows.
    pub unknown_costs: usize,
    /// The cap.
    pub budget: Option<Micros>,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}
