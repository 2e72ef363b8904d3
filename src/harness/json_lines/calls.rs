//! Tool calls whose beginning and end are told by different lines.

use std::collections::VecDeque;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::path::Path;
use super::rule::Rule;
use crate::harness::AgentEvent;

/// How many calls may be open; harnesses ask for a few at a time.
const MOST_OPEN: usize = 256;

/// Calls that were begun and have not ended.
#[derive(Debug, Default)]
pub(super) struct Calls(VecDeque<Open>);

#[derive(Debug)]
struct Open {
    id: String,
    name: String,
    /// In milliseconds.
    began: Option<f64>,
}

impl Calls {
    /// Takes the line that tells a call, and perhaps its end as well.
    pub(super) fn begin(&mut self, rule: &Rule, line: &Value, name: Option<String>) -> AgentEvent {
        let name = name.unwrap_or_else(|| "unknown".to_owned());
        if let Some(id) = rule.id.as_ref().and_then(|path| path.text(line)) {
            if self.0.len() == MOST_OPEN {
                self.0.pop_front();
            }
            self.0.push_back(Open { id, name: name.clone(), began: time(rule, line) });
        }
        AgentEvent::Tool { name, ok: rule.ok(line), duration: own_duration(rule, line) }
    }

    /// Takes the line that tells how a call ended.
    pub(super) fn end(&mut self, rule: &Rule, line: &Value, name: Option<String>) -> AgentEvent {
        let id = rule.id.as_ref().and_then(|path| path.text(line));
        let open = id.and_then(|id| self.0.iter().position(|open| open.id == id)).and_then(|at| self.0.remove(at));
        let began = open.as_ref().and_then(|open| open.began);
        let between = began.zip(time(rule, line)).and_then(|(began, ended)| milliseconds(ended - began));
        AgentEvent::ToolEnd {
            name: name.or(open.map(|open| open.name)).unwrap_or_else(|| "unknown".to_owned()),
            ok: rule.ok(line),
            duration: own_duration(rule, line).or(between),
        }
    }
}

fn own_duration(rule: &Rule, line: &Value) -> Option<Duration> {
    rule.duration_ms.as_ref().and_then(|sum| sum.number(line)).and_then(milliseconds)
}

fn milliseconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number / 1000.0).ok()
}

/// Returns when a line was written.
pub(super) fn moment(rule: &Rule, line: &Value) -> Option<Timestamp> {
    /// What is less is no number of milliseconds since 1970: it was in 1973, before any agent.
    const LEAST: f64 = 1e11;
    let number = time(rule, line)?;
    let milliseconds = if number < LEAST { number * 1000.0 } else { number };
    #[expect(clippy::cast_possible_truncation, reason = "what is out of range is no time, and is refused as one")]
    Timestamp::from_millisecond(milliseconds as i64).ok()
}

/// Returns when a line was written: a number of milliseconds, or a date with its time.
fn time(rule: &Rule, line: &Value) -> Option<f64> {
    let text = rule.time.as_ref().and_then(|path: &Path| path.text(line))?;
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
    let dated = || text.parse::<Timestamp>().ok().map(|time| time.as_millisecond() as f64);
    text.parse().ok().or_else(dated)
}
