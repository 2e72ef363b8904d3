//! The run record: the audit trail of one attempt.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::cell::{AttemptId, CellKey};
use super::failure::{ErrorClass, ExitClass, Failure};
use super::judgement::JudgeRecord;
use super::lifecycle::{Terminal, Transition};
use super::money::Micros;
use super::orchestrator::Params;
use super::session::SessionRecord;
use super::usage::Usage;
use super::verdict::Verdict;

/// The version of the record's format.
pub const RECORD_SCHEMA: u32 = 1;

/// What an attempt was made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Inputs {
    /// Harness name.
    pub harness: String,
    /// Version that the harness's probe printed, where it was probed.
    pub harness_version: Option<String>,
    /// Implementation model.
    pub model: String,
    /// Review model.
    pub review_model: Option<String>,
    /// Task id.
    pub task: String,
    /// Track.
    pub track: String,
    /// Orchestrator label.
    pub orchestrator: String,
    /// Hash of the whole orchestrator directory.
    pub orchestrator_hash: String,
    /// Its parameters, defaults filled in.
    pub params: Params,
    /// Which repeat.
    pub repeat: u32,
    /// Runtime name.
    pub runtime: String,
    /// Image digest, where there is an image.
    pub image: Option<String>,
}

/// What the workspace was and became.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WorkspaceRecord {
    /// The single commit the agent started from, as git names it.
    pub base_commit: Option<String>,
    /// Fingerprint of the tree before.
    pub base_fingerprint: Option<String>,
    /// Fingerprint of the tree after.
    pub final_fingerprint: Option<String>,
    /// Files that differ.
    pub files_changed: Option<u64>,
    /// Lines added.
    pub lines_added: Option<u64>,
    /// Lines removed.
    pub lines_removed: Option<u64>,
    /// Entries that were left out, with why (device nodes, sockets, files over the size limit).
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The audit trail of one attempt, written to `run_record.json` and mirrored in the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Version of this format: [`RECORD_SCHEMA`].
    pub schema: u32,
    /// Version of Refrain that wrote it.
    pub refrain_version: String,
    /// Which attempt.
    pub attempt: AttemptId,
    /// What the cell means.
    pub cell_key: CellKey,
    /// What it was made of.
    pub inputs: Inputs,
    /// How it ended.
    pub terminal: Terminal,
    /// Coarse class.
    pub exit_class: ExitClass,
    /// Fine class.
    pub error_class: ErrorClass,
    /// Why, where it is not simply a verdict.
    pub failure: Option<Failure>,
    /// Whether the task was solved; unknown without a verdict.
    pub solved: Option<bool>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Timestamp,
    /// Milliseconds from first to last step, by the monotonic clock.
    pub duration_ms: u64,
    /// The workspace.
    pub workspace: WorkspaceRecord,
    /// Every session in order of its number.
    pub sessions: Vec<SessionRecord>,
    /// Sum over the sessions; a class is unknown where one session's is.
    pub usage: Usage,
    /// Sum over the sessions' costs; unknown where one is.
    pub cost: Option<Micros>,
    /// The part of the cost that counts against the budget.
    pub billable_cost: Option<Micros>,
    /// The verdict, with the evaluator's own words.
    pub verdict: Option<Verdict>,
    /// What the judge said, where one was asked.
    #[serde(default)]
    pub judge: Option<JudgeRecord>,
    /// What the script returned as `note`.
    pub note: Option<String>,
    /// The script's own log lines, oldest first, cut to size.
    #[serde(default)]
    pub script_log: Vec<String>,
    /// Every step with its time.
    pub transitions: Vec<Transition>,
    /// What a reader should know.
    #[serde(default)]
    pub warnings: Vec<String>,
}
