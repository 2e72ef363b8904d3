//! The Agent Trajectory Interchange Format: the shape of its documents, as Harbor reads them.
//!
//! What is not known is left out: the format's readers take a zero for a measured one.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value};

/// The version of the format that documents say they have.
pub const SCHEMA_VERSION: &str = "ATIF-v1.7";

/// One session, from its prompt to its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trajectory {
    /// [`SCHEMA_VERSION`].
    pub schema_version: &'static str,
    /// The attempt; its sessions share it.
    pub session_id: String,
    /// This session alone.
    pub trajectory_id: String,
    /// Who acted.
    pub agent: Agent,
    /// What happened, in order. Never empty.
    pub steps: Vec<Step>,
    /// What a reader should know, such as what is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
    /// The figures of the whole session.
    pub final_metrics: FinalMetrics,
    /// What the format has no field for.
    pub extra: Map<String, Value>,
}

/// The agent of a trajectory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// The harness.
    pub name: String,
    /// Its version; `unknown` where nothing told it, because the format wants a text.
    pub version: String,
    /// The model that it was told to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_name: Option<String>,
}

/// Who did a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepSource {
    /// Neither the agent nor who asked it: notices, refusals of a provider.
    System,
    /// Who asked.
    User,
    /// The agent.
    Agent,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Its number, from 1.
    pub step_id: usize,
    /// When, in RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<String>,
    /// Who did it.
    pub source: StepSource,
    /// What was said; empty where tools were used without a word.
    pub message: String,
    /// What the agent thought, where it prints that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_content: Option<String>,
    /// The tools that were used.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// What came of them, as far as it was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observation: Option<Observation>,
    /// What it has used, where that is told of single steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// What the format has no field for.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// The use of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolCall {
    /// Its id, which no other call of the trajectory has.
    pub tool_call_id: String,
    /// The tool.
    pub function_name: String,
    /// What it was given, as far as it is known.
    pub arguments: Map<String, Value>,
}

/// What came of the tools of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Observation {
    /// One for each call that told how it ended.
    pub results: Vec<ObservationResult>,
}

/// How a call ended, and what it came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ObservationResult {
    /// Which call.
    pub source_call_id: String,
    /// Its output; a long one has a line in its middle that says how much is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// `ok` and `duration_ms`, where they are known.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// The figures of a step.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Metrics {
    /// All input tokens, those from and into a cache included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_tokens: Option<u64>,
    /// Output tokens, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_tokens: Option<u64>,
    /// Input tokens from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_tokens: Option<u64>,
    /// Dollars: by the price that the session's cost was computed by, else what the harness says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The classes of tokens that the format has no field for, and the harness's own cost.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// The figures of a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FinalMetrics {
    /// All input tokens, those from and into a cache included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_prompt_tokens: Option<u64>,
    /// Output tokens, reasoning included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_completion_tokens: Option<u64>,
    /// Input tokens from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_cached_tokens: Option<u64>,
    /// Dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_cost_usd: Option<f64>,
    /// Steps of this document.
    pub total_steps: usize,
    /// Who counted, and the classes of tokens that the format has no field for.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

/// Writes a trajectory as one document.
///
/// # Errors
///
/// What the output refuses.
pub fn write_document(trajectory: &Trajectory, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, trajectory)?;
    out.write_all(b"\n")
}

/// Writes a trajectory as lines: first everything but its steps, then each step.
///
/// # Errors
///
/// What the output refuses.
pub fn write_lines(trajectory: &Trajectory, out: &mut dyn Write) -> io::Result<()> {
    let mut head = serde_json::to_value(trajectory)?;
    if let Some(fields) = head.as_object_mut() {
        fields.remove("steps");
    }
    serde_json::to_writer(&mut *out, &head)?;
    out.write_all(b"\n")?;
    for step in &trajectory.steps {
        serde_json::to_writer(&mut *out, step)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}
