//! Harnesses whose output is read by Lua: puts the sandbox of `script` behind the readers of `harness`.
//!
//! The two layers do not know each other. What an adapter tells is plain data; here it becomes events and a reading, and an
//! adapter that fails costs numbers, never the session.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::error::Error;
use crate::domain::failure::ProviderFault;
use crate::domain::{Micros, Usage};
use crate::harness::json_lines::outcome_named;
use crate::harness::text::TextReader;
use crate::harness::{AgentEvent, Detail, OutputReader, ReaderFactory, Reading, excerpt};
use crate::runtime::Stream;
use crate::script::adapter::{Adapter, AdapterLimits};

/// What messages call the file.
const NAME: &str = "adapter.lua";

/// Makes readers of one adapter.
#[derive(Debug)]
pub(super) struct LuaReaders {
    text: Arc<str>,
}

impl LuaReaders {
    /// Takes an adapter, and loads it once to see that it does.
    pub(super) fn new(harness: &str, text: &str) -> Result<Self, Error> {
        let tried = Adapter::load(NAME, text, &AdapterLimits::default());
        tried.map_err(|error| {
            Error::configuration(format!("the adapter of harness `{harness}` does not load: {error}"))
        })?;
        Ok(Self { text: text.into() })
    }
}

impl ReaderFactory for LuaReaders {
    fn reader(&self) -> Box<dyn OutputReader> {
        let adapter = Adapter::load(NAME, &self.text, &AdapterLimits::default()).map_err(|error| error.to_string());
        Box::new(LuaReader { adapter, plain: TextReader::default(), said: None, session: None, warnings: Vec::new() })
    }
}

/// Reads one session.
struct LuaReader {
    /// The adapter, or why there is none any more.
    adapter: Result<Adapter, String>,
    /// What is left where the adapter fails.
    plain: TextReader,
    said: Option<String>,
    session: Option<String>,
    warnings: Vec<String>,
}

impl LuaReader {
    /// Notes what makes no sense, once for each kind.
    fn warn(&mut self, what: String) {
        const MOST: usize = 10;
        let warning = format!("{NAME}: {what}");
        if self.warnings.len() < MOST && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }

    fn take(&mut self, told: Value, events: &mut Vec<AgentEvent>) {
        let details = details(&told);
        match serde_json::from_value::<Told>(told).map_err(|error| error.to_string()).and_then(Told::event) {
            Ok(event) => {
                match &event {
                    AgentEvent::Message(text) => self.said = Some(text.clone()),
                    AgentEvent::SessionId(id) => self.session = Some(id.clone()),
                    _ => {}
                }
                events.push(event);
                events.extend(details.into_iter().map(AgentEvent::Detail));
            }
            Err(why) => self.warn(format!("an event is left out: {why}")),
        }
    }
}

impl OutputReader for LuaReader {
    fn line(&mut self, stream: Stream, line: &[u8], events: &mut Vec<AgentEvent>) {
        self.plain.line(stream, line, &mut Vec::new());
        let Ok(adapter) = &self.adapter else { return };
        let name = if stream == Stream::Stderr { "stderr" } else { "stdout" };
        match adapter.line(name, line) {
            Ok(told) => told.into_iter().for_each(|told| self.take(told, events)),
            Err(error) => self.adapter = Err(error.to_string()),
        }
    }

    fn file_line(&mut self, line: &[u8]) {
        if let Ok(adapter) = &self.adapter
            && let Err(error) = adapter.file_line(line)
        {
            self.adapter = Err(error.to_string());
        }
    }

    fn finish(mut self: Box<Self>, exit_code: Option<i32>) -> Reading {
        let report = match &self.adapter {
            Ok(adapter) => adapter.finish(exit_code).map_err(|error| error.to_string()),
            Err(why) => Err(why.clone()),
        };
        let report = report.and_then(|told| serde_json::from_value::<Report>(told).map_err(|error| error.to_string()));
        let plain = Box::new(std::mem::take(&mut self.plain)).finish(exit_code);
        match report {
            Ok(report) => self.reading(report, plain),
            Err(why) => {
                self.warn(format!("it failed, so tokens and cost are unknown: {why}"));
                // The agent's work is there all the same: what a plain reading shows counts.
                Reading {
                    text: self.said.or(plain.text),
                    harness_session: self.session,
                    warnings: self.warnings,
                    started: plain.started,
                    outcome: plain.outcome,
                    ..Reading::default()
                }
            }
        }
    }
}

impl LuaReader {
    fn reading(mut self: Box<Self>, report: Report, plain: Reading) -> Reading {
        let outcome = match &report.outcome {
            None => None,
            Some(name) => {
                let outcome = outcome_named(name, report.message.clone());
                if outcome.is_none() {
                    self.warn(format!("`{name}` is no outcome"));
                }
                outcome
            }
        };
        let mut warnings = self.warnings;
        let own = report.warnings.as_array().into_iter().flatten().filter_map(Value::as_str);
        warnings.extend(own.map(str::to_owned));
        Reading {
            started: report.started.unwrap_or(plain.started),
            outcome,
            text: report.text.or(self.said).filter(|text| !text.trim().is_empty()),
            usage: report.usage.map(Counts::usage).unwrap_or_default(),
            cache_write_long: None,
            cost: report.cost.and_then(dollars),
            turns: report.turns.and_then(whole),
            tool_calls: report.tool_calls.and_then(whole),
            harness_session: report.session.or(self.session),
            cumulative: report.cumulative,
            warnings,
        }
    }
}

/// What an event of a tool tells for trajectories: `input` and `output`.
fn details(told: &Value) -> Vec<Detail> {
    let cut = |text: &str| excerpt::of(text).into_owned();
    let input = told.get("input").filter(|input| input.is_string() || input.is_object()).cloned();
    let output = told.get("output").and_then(Value::as_str).map(cut);
    match told["kind"].as_str() {
        Some("tool") => input.map(Detail::Input).into_iter().chain(output.map(Detail::Output)).collect(),
        Some("tool_end") => output.map(Detail::Output).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// An event as adapters tell it.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Told {
    SessionId { id: String },
    Message { text: String },
    Tool { name: String, ok: Option<bool>, seconds: Option<f64> },
    ToolEnd { name: String, ok: Option<bool>, seconds: Option<f64> },
    FileEdit { path: String },
    Command { line: String, ok: Option<bool> },
    Error { text: String },
    Thinking { text: String },
    Usage(Counts),
    Cost { usd: f64 },
    Throttled { seconds: Option<f64> },
    Finished,
}

impl Told {
    fn event(self) -> Result<AgentEvent, String> {
        Ok(match self {
            Self::SessionId { id } => AgentEvent::SessionId(id),
            Self::Message { text } => AgentEvent::Message(text),
            Self::Tool { name, ok, seconds } => AgentEvent::Tool { name, ok, duration: duration(seconds) },
            Self::ToolEnd { name, ok, seconds } => AgentEvent::ToolEnd { name, ok, duration: duration(seconds) },
            Self::FileEdit { path } => AgentEvent::FileEdit(path),
            Self::Command { line, ok } => AgentEvent::Command { line, ok },
            Self::Error { text } => AgentEvent::Error(text),
            Self::Thinking { text } => AgentEvent::Detail(Detail::Thinking(excerpt::of(&text).into_owned())),
            Self::Usage(counts) => AgentEvent::Usage(counts.usage()),
            Self::Cost { usd } => {
                AgentEvent::Cost(dollars(usd).ok_or_else(|| format!("`{usd}` is no cost in dollars"))?)
            }
            Self::Throttled { seconds } => {
                AgentEvent::Retrying { fault: ProviderFault::RateLimited, retry_after: duration(seconds) }
            }
            Self::Finished => AgentEvent::Finished,
        })
    }
}

/// Token counts as adapters tell them: what is left out is unknown.
#[derive(Debug, Deserialize)]
struct Counts {
    input: Option<f64>,
    output: Option<f64>,
    cache_read: Option<f64>,
    cache_write: Option<f64>,
    reasoning: Option<f64>,
}

impl Counts {
    fn usage(self) -> Usage {
        Usage {
            input: self.input.and_then(whole),
            output: self.output.and_then(whole),
            cache_read: self.cache_read.and_then(whole),
            cache_write: self.cache_write.and_then(whole),
            reasoning: self.reasoning.and_then(whole),
        }
    }
}

/// What `finish` returns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Report {
    started: Option<bool>,
    outcome: Option<String>,
    message: Option<String>,
    text: Option<String>,
    usage: Option<Counts>,
    cost: Option<f64>,
    turns: Option<f64>,
    tool_calls: Option<f64>,
    session: Option<String>,
    #[serde(default)]
    cumulative: bool,
    /// A list, or Lua's empty table, which is an object.
    #[serde(default)]
    warnings: Value,
}

/// Returns a count; what is negative or no whole number is none.
fn whole(number: f64) -> Option<u64> {
    let is_count = number >= 0.0 && number.fract() == 0.0 && number < 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
    is_count.then_some(number as u64)
}

fn dollars(usd: f64) -> Option<Micros> {
    Micros::from_dollars(usd).ok().filter(|cost| *cost >= Micros::ZERO)
}

fn duration(seconds: Option<f64>) -> Option<Duration> {
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

#[cfg(test)]
mod tests;
