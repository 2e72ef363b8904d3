//! One session as a trajectory: what its log showed and what is on record of it, put in order. Pure.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::atif::{Agent, FinalMetrics, ObservationResult, SCHEMA_VERSION, Step, StepSource, ToolCall, Trajectory};
use crate::domain::{AttemptId, SessionRecord, Usage};

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
}

/// Puts a session together. `notes` are what the reading of its log has to tell.
#[must_use]
pub fn trajectory(known: Known<'_>, happenings: Vec<Happening>, mut notes: Vec<String>) -> Trajectory {
    let record = known.record;
    let mut steps = Steps::default();
    steps.prompt(known);
    if known.prompt.is_none() {
        notes.push("the prompt is not stored".to_owned());
    }
    let empty = happenings.is_empty();
    for happening in happenings {
        steps.take(happening);
    }
    // What an agent said last may come in pieces that no line ended, and a log may be gone while the record is there.
    if let Some(text) = record.text.as_deref().filter(|text| !steps.says(text)) {
        steps.say(text.to_owned());
    }
    if empty {
        notes.push("the log shows no event".to_owned());
    }
    if steps.calls > 0 {
        notes.push(
            "of tool calls only the command or the file is known as an argument, and of results only whether and how fast \
             they came; which calls one request to the model made is not told"
                .to_owned(),
        );
    }
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
    let prompt = [input, cache_read, cache_write];
    FinalMetrics {
        total_prompt_tokens: prompt.into_iter().try_fold(0_u64, |sum, part| Some(sum.saturating_add(part?))),
        total_completion_tokens: output,
        total_cached_tokens: cache_read,
        total_cost_usd: record.cost.map(crate::domain::Micros::dollars),
        total_steps: steps,
        extra: known_only([
            ("usage_source", json!(record.usage_source)),
            ("input_tokens", json!(input)),
            ("cache_write_tokens", json!(cache_write)),
            ("reasoning_tokens", json!(reasoning)),
            ("api_calls", json!(record.api_calls)),
            ("turns", json!(record.turns)),
            ("reported_cost_usd", json!(record.reported_cost.map(crate::domain::Micros::dollars))),
        ]),
    }
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

/// The steps so far.
#[derive(Default)]
struct Steps {
    all: Vec<Step>,
    calls: usize,
    /// Calls whose end was not told: the tool, the step and the call's id.
    open: Vec<(String, usize, String)>,
    /// Whether what came last was a call whose command or file is not known yet.
    bare: bool,
}

impl Steps {
    fn prompt(&mut self, known: Known<'_>) {
        self.push(StepSource::User, known.prompt.unwrap_or(NO_PROMPT).to_owned());
        if let Some(step) = self.all.last_mut() {
            step.timestamp = Some(known.record.started_at.to_string());
            if known.prompt.is_none() {
                step.extra.insert("prompt_stored".to_owned(), false.into());
            }
        }
    }

    fn push(&mut self, source: StepSource, message: String) {
        self.all.push(Step {
            step_id: self.all.len() + 1,
            timestamp: None,
            source,
            message,
            tool_calls: Vec::new(),
            observation: None,
            extra: Map::new(),
        });
    }

    /// Tells whether the agent has said this, blank lines aside.
    fn says(&self, text: &str) -> bool {
        let text = without_blank_lines(text);
        let mut said = self.all.iter().filter(|step| step.source == StepSource::Agent);
        text.is_empty() || said.any(|step| without_blank_lines(&step.message).contains(&text))
    }

    fn say(&mut self, text: String) {
        self.push(StepSource::Agent, text);
    }

    fn take(&mut self, happening: Happening) {
        let bare = std::mem::take(&mut self.bare);
        match happening {
            Happening::Message(text) => self.say(text),
            Happening::Notice(text) => self.push(StepSource::System, text),
            Happening::Call { name, ok, duration } => {
                self.call(name, Map::new(), (ok, duration));
                self.bare = true;
            }
            Happening::CallEnd { name, ok, duration } => {
                let at = self.open.iter().position(|(open, ..)| *open == name);
                if let Some((_, step, id)) = at.map(|at| self.open.remove(at)) {
                    self.result(step, id, (ok, duration));
                }
            }
            Happening::FileEdit(path) => self.detail(bare, ("file_edit", "path", path), None),
            Happening::Command { line, ok } => self.detail(bare, ("command", "command", line), ok),
        }
    }

    /// Adds a call to the agent's latest step, or to one of its own where another call of that step has ended: it was
    /// asked for later then.
    fn call(&mut self, name: String, arguments: Map<String, Value>, told: (Option<bool>, Option<Duration>)) {
        let goes_on = |step: &Step| step.source == StepSource::Agent && step.observation.is_none();
        if !self.all.last().is_some_and(goes_on) {
            self.say(String::new());
        }
        self.calls += 1;
        let id = format!("call-{}", self.calls);
        let at = self.all.len() - 1;
        self.all[at].tool_calls.push(ToolCall { tool_call_id: id.clone(), function_name: name.clone(), arguments });
        if told == (None, None) {
            self.open.push((name, at, id));
        } else {
            self.result(at, id, told);
        }
    }

    /// Takes a command or a file: an argument of the call that the line before told, else a call of its own.
    fn detail(&mut self, bare: bool, (kind, argument, value): (&str, &str, String), ok: Option<bool>) {
        let Some(step) = self.all.last_mut().filter(|_| bare) else {
            let arguments = Map::from_iter([(argument.to_owned(), value.into())]);
            return self.call(kind.to_owned(), arguments, (ok, None));
        };
        let Some(call) = step.tool_calls.last_mut() else { return };
        call.arguments.insert(argument.to_owned(), value.into());
        let id = call.tool_call_id.clone();
        if let Some(at) = self.open.iter().position(|(_, _, open)| ok.is_some() && *open == id) {
            let (_, step, id) = self.open.remove(at);
            self.result(step, id, (ok, None));
        }
    }

    fn result(&mut self, step: usize, source_call_id: String, (ok, duration): (Option<bool>, Option<Duration>)) {
        let extra = known_only([("ok", json!(ok)), ("duration_ms", json!(duration.map(millis)))]);
        let observation = self.all[step].observation.get_or_insert_default();
        observation.results.push(ObservationResult { source_call_id, extra });
    }
}

#[cfg(test)]
mod tests;
