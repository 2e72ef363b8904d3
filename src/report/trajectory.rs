//! One session as a trajectory: what its log showed and what is on record of it, put in order. Pure.

mod steps;

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use self::steps::Steps;
use super::atif::{Agent, FinalMetrics, SCHEMA_VERSION, Trajectory};
use crate::domain::{AttemptId, Micros, SessionRecord, Usage};

/// What stands in the place of a prompt that nobody knows.
const NO_PROMPT: &str = "[the prompt is not stored]";

/// Something that a session's log shows. Texts are redacted before they get here.
#[derive(Debug, Clone, PartialEq)]
pub enum Happening {
    /// The agent said something.
    Message(String),
    /// The agent used a tool.
    Call {
        /// The tool.
        name: String,
        /// Whether it worked; `None` where that is not told, or not yet.
        ok: Option<bool>,
        /// How long it took; `None` where that is not told, or not yet.
        duration: Option<Duration>,
    },
    /// A tool that was used before has ended.
    CallEnd {
        /// The tool.
        name: String,
        /// Whether it worked.
        ok: Option<bool>,
        /// How long it took.
        duration: Option<Duration>,
    },
    /// The agent changed a file.
    FileEdit(String),
    /// The agent ran a command.
    Command {
        /// The command line.
        line: String,
        /// Whether it worked.
        ok: Option<bool>,
    },
    /// Neither the agent nor its user: an error, a provider that refuses.
    Notice(String),
    /// The request to the model that what comes next is part of.
    Request(String),
    /// The harness's id of the call that the next happening is about.
    CallId(String),
    /// What the agent thought.
    Thinking(String),
    /// What the tool was given that was told last.
    Input(Value),
    /// What the tool came to that was told last, or whose end was.
    Output(String),
    /// All that the agent said is told by what follows: what it printed is the same for people.
    AllTold,
    /// A line of the log has ended.
    LineEnd {
        /// When it was written.
        at: Option<Timestamp>,
        /// The request that its figures are those of; unknown: that of the latest step.
        request: Option<String>,
        /// Tokens of this step alone.
        usage: Usage,
        /// What the harness says that this step cost.
        cost: Option<Micros>,
    },
}

/// Prices the tokens of a step, as those of its session were.
#[derive(Clone, Copy)]
pub struct StepPrice<'a>(pub &'a dyn Fn(&Usage) -> Option<Micros>);

impl fmt::Debug for StepPrice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StepPrice")
    }
}

/// What is known of a session besides its log.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The attempt that it belongs to.
    pub attempt: &'a AttemptId,
    /// What is on record of it.
    pub record: &'a SessionRecord,
    /// The version of its harness.
    pub harness_version: Option<&'a str>,
    /// Its prompt.
    pub prompt: Option<&'a str>,
    /// What its cost was computed by, where that is still known.
    pub price: Option<StepPrice<'a>>,
}

/// Puts a session together. `notes` are what the reading of its log has to tell.
#[must_use]
pub fn trajectory(known: Known<'_>, happenings: Vec<Happening>, mut notes: Vec<String>) -> Trajectory {
    let record = known.record;
    let mut steps = Steps::new(known);
    if known.prompt.is_none() {
        notes.push("the prompt is not stored".to_owned());
    }
    let (empty, all_told) = (happenings.is_empty(), happenings.contains(&Happening::AllTold));
    for happening in happenings {
        steps.take(happening);
    }
    steps.finish();
    // What an agent said last may come in pieces that no line ended, and a log may be gone while the record is there.
    if let Some(text) = record.text.as_deref().filter(|text| !all_told && !steps.says(text)) {
        steps.say(text.to_owned());
    }
    if empty {
        notes.push("the log shows no event".to_owned());
    }
    notes.extend(steps.notes());
    if record.usage.is_unknown() {
        notes.push("tokens are unknown".to_owned());
    }
    if record.cost.is_none() {
        notes.push("the cost is unknown".to_owned());
    }
    notes.extend(record.discrepancies.iter().chain(&record.warnings).cloned());
    let attempt = format!("{}/{}/a{}", known.attempt.run, known.attempt.cell, known.attempt.number);
    Trajectory {
        schema_version: SCHEMA_VERSION,
        trajectory_id: format!("{attempt}/s{}", record.index),
        session_id: attempt,
        agent: Agent {
            name: record.harness.clone(),
            version: known.harness_version.unwrap_or("unknown").to_owned(),
            model_name: Some(record.model.clone()).filter(|name| !name.is_empty()),
        },
        final_metrics: metrics(record, steps.all.len()),
        steps: steps.all,
        notes: (!notes.is_empty()).then(|| notes.join("\n")),
        extra: extra(record),
    }
}

fn metrics(record: &SessionRecord, steps: usize) -> FinalMetrics {
    let Usage { input, output, cache_read, cache_write, reasoning } = record.usage;
    FinalMetrics {
        total_prompt_tokens: prompt_tokens(&record.usage),
        total_completion_tokens: output,
        total_cached_tokens: cache_read,
        total_cost_usd: record.cost.map(Micros::dollars),
        total_steps: steps,
        extra: known_only([
            ("usage_source", json!(record.usage_source)),
            ("input_tokens", json!(input)),
            ("cache_write_tokens", json!(cache_write)),
            ("reasoning_tokens", json!(reasoning)),
            ("api_calls", json!(record.api_calls)),
            ("turns", json!(record.turns)),
            ("reported_cost_usd", json!(record.reported_cost.map(Micros::dollars))),
        ]),
    }
}

/// All input tokens; unknown where one class is.
fn prompt_tokens(usage: &Usage) -> Option<u64> {
    let classes = [usage.input, usage.cache_read, usage.cache_write];
    classes.into_iter().try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?)))
}

fn extra(record: &SessionRecord) -> Map<String, Value> {
    known_only([
        ("status", json!(record.status().as_str())),
        ("reason", json!((!record.ok()).then(|| record.end.reason()))),
        ("exit_code", json!(record.exit_code)),
        ("duration_ms", json!(millis(record.duration))),
        ("phase", json!(record.phase)),
        ("label", json!(record.label)),
        ("harness_session", json!(record.harness_session)),
    ])
}

fn without_blank_lines(text: &str) -> String {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n").trim().to_owned()
}

fn known_only<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| (name.to_owned(), value)).collect()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
