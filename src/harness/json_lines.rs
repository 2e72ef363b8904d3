//! JSON lines read by the rules of a manifest. See `docs/harnesses.md` for what a rule can say.

mod calls;
mod details;
mod excerpts;
mod path;
mod projection;
mod rule;
mod tally;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use self::calls::Calls;
use self::path::Path;
use self::projection::Projection;
use self::rule::Rule;
use self::tally::Tally;
use super::{AgentEvent, Detail, LineEnd, Outcome, OutputReader, Reading, excerpt};
use crate::config::harness_manifest::{JsonLinesSpec, LineMeaning};
use crate::domain::Micros;
use crate::domain::failure::{LimitKind, ProviderFault};
use crate::runtime::Stream;

/// The longest message that is put together from pieces; what comes after is left out.
const LONGEST_MESSAGE: usize = 1 << 20;

/// Which rules a reader that tells everything goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    All,
    /// Those that are there for trajectories alone.
    ForTrajectories,
}

/// A terminal record.
#[derive(Debug)]
struct Record {
    outcome: Outcome,
    turns: Option<u64>,
}

/// Reads JSON lines.
#[derive(Debug)]
pub struct JsonLinesReader {
    rules: Vec<Rule>,
    exit_codes: BTreeMap<i32, LineMeaning>,
    projection: Projection,
    calls: Calls,
    counts_tools: bool,
    started: bool,
    records: Vec<Record>,
    text: Option<String>,
    /// Pieces of a message that is not complete.
    parts: String,
    tally: Tally,
    /// What of the cache writes is kept for an hour.
    long_writes: Tally,
    turns: Option<u64>,
    tools: u64,
    session: Option<String>,
    cut: bool,
    /// The lists to whose items rules apply, each once.
    lists: Vec<Path>,
    /// What the line at hand tells of its step; `None` for a reader that tells no details.
    line_end: Option<LineEnd>,
}

impl JsonLinesReader {
    /// Makes a reader for the rules of a manifest.
    #[must_use]
    pub fn new(spec: &JsonLinesSpec) -> Self {
        let told = spec.rules.iter().filter(|rule| !rule.trajectory && rule.is != LineMeaning::Thinking);
        Self::of(spec, told.map(|rule| Rule::new(rule, false)).collect(), false)
    }

    /// Makes a reader that tells everything, [`AgentEvent::Detail`] too.
    #[must_use]
    pub fn detailed(spec: &JsonLinesSpec, which: Which) -> Self {
        let told = spec.rules.iter().filter(|rule| which == Which::All || rule.trajectory);
        Self::of(spec, told.map(|rule| Rule::new(rule, true)).collect(), true)
    }

    fn of(spec: &JsonLinesSpec, rules: Vec<Rule>, detailed: bool) -> Self {
        Self {
            counts_tools: rules.iter().any(|rule| rule.is == LineMeaning::Tool),
            projection: Projection::of(rules.iter().flat_map(Rule::paths), rules.iter().flat_map(Rule::excerpts)),
            line_end: detailed.then(LineEnd::default),
            lists: lists_of(&rules),
            calls: Calls::default(),
            rules,
            exit_codes: spec.exit_codes.clone(),
            started: false,
            records: Vec::new(),
            text: None,
            parts: String::new(),
            tally: Tally::default(),
            long_writes: Tally::default(),
            turns: None,
            tools: 0,
            session: None,
            cut: false,
        }
    }

    fn apply(&mut self, index: usize, line: &Value, ended: &mut bool, events: &mut Vec<AgentEvent>) {
        let rule = &self.rules[index];
        if rule.is == LineMeaning::Restart {
            // What came before belongs to sessions that this one resumed.
            (self.tally, self.long_writes) = (Tally::default(), Tally::default());
            self.records.clear();
            (self.text, self.turns, self.tools) = (None, None, 0);
            return;
        }
        if rule.is == LineMeaning::GoesOn {
            self.records.clear();
        }
        let text = rule.text.as_ref().and_then(|path| path.text(line));
        if rule.is == LineMeaning::MessagePart {
            let room = LONGEST_MESSAGE.saturating_sub(self.parts.len());
            self.parts.extend(text.filter(|text| text.len() <= room));
            return;
        }
        if rule.is != LineMeaning::Data {
            self.join_parts(events);
        }
        let rule = &self.rules[index];
        if let Some(turns) = rule.turns.as_ref().and_then(|turns| turns.whole(line)) {
            self.turns = Some(turns);
        }
        let once = rule.once.as_ref().and_then(|path| path.text(line));
        self.long_writes.usage(rule.mode, once.clone(), rule.long_writes(line));
        if let Some(line_end) = &mut self.line_end {
            details::of_rule(rule, line, once.as_ref(), line_end, events);
        }
        if let Some(usage) = self.tally.usage(rule.mode, once, rule.usage(line)) {
            events.push(AgentEvent::Usage(usage));
        }
        let cost = rule.cost.as_ref().and_then(|cost| cost.number(line));
        if let Some(cost) = self.tally.cost(rule.mode, cost.and_then(|cost| Micros::from_dollars(cost).ok())) {
            events.push(AgentEvent::Cost(cost));
        }
        if matches!(rule.is, LineMeaning::Throttled | LineMeaning::RateLimited) {
            let wait = rule.wait_ms.as_ref().and_then(|wait| wait.whole(line)).map(Duration::from_millis);
            events.push(AgentEvent::Retrying { fault: ProviderFault::RateLimited, retry_after: wait });
        }
        if ends_a_turn(rule.is) {
            // Of several terminal rules that fit one line, the first one speaks: the special before the general.
            if !std::mem::replace(ended, true) {
                self.end(index, line, text, events);
            }
        } else {
            self.note(index, line, text, events);
        }
        if self.line_end.is_some() {
            details::of_call(&self.rules[index], line, events);
        }
    }

    /// Makes a message of the pieces that came.
    fn join_parts(&mut self, events: &mut Vec<AgentEvent>) {
        let text = std::mem::take(&mut self.parts);
        if !text.trim().is_empty() {
            events.push(AgentEvent::Message(text.clone()));
            self.text = Some(text);
        }
    }

    /// Takes what a line tells besides numbers and ends.
    fn note(&mut self, index: usize, line: &Value, text: Option<String>, events: &mut Vec<AgentEvent>) {
        let rule = &self.rules[index];
        let text = text.filter(|text| !text.trim().is_empty());
        match (rule.is, text) {
            (LineMeaning::Message, Some(text)) => {
                events.push(AgentEvent::Message(text.clone()));
                self.text = Some(text);
            }
            (LineMeaning::Tool, name) => {
                self.tools += 1;
                events.push(self.calls.begin(rule, line, name));
            }
            (LineMeaning::ToolEnd, name) => events.push(self.calls.end(rule, line, name)),
            (LineMeaning::Thinking, Some(text)) => {
                events.push(AgentEvent::Detail(Detail::Thinking(excerpt::of(&text).into_owned())));
            }
            (LineMeaning::FileEdit, Some(path)) => events.push(AgentEvent::FileEdit(path)),
            (LineMeaning::Command, Some(command)) => {
                events.push(AgentEvent::Command { line: command, ok: rule.ok(line) });
            }
            (LineMeaning::Error, Some(text)) => events.push(AgentEvent::Error(text)),
            (LineMeaning::SessionId, Some(id)) if self.session.as_ref() != Some(&id) => {
                events.push(AgentEvent::SessionId(id.clone()));
                self.session = Some(id);
            }
            _ => {}
        }
    }

    fn end(&mut self, index: usize, line: &Value, text: Option<String>, events: &mut Vec<AgentEvent>) {
        let rule = &self.rules[index];
        if rule.is == LineMeaning::Completed && text.as_ref().is_some_and(|text| !text.trim().is_empty()) {
            self.text.clone_from(&text);
        }
        let turns = rule.turns.as_ref().and_then(|turns| turns.whole(line));
        let says_why = text.as_ref().is_some_and(|text| !text.trim().is_empty());
        if let Some(outcome) = outcome(rule.is, text) {
            // A failure that does not say why leaves an end as it is that an earlier line explained.
            if rule.is == LineMeaning::Failed
                && !says_why
                && self.records.last().is_some_and(|last| last.outcome != Outcome::Completed)
            {
                events.push(AgentEvent::Finished);
                return;
            }
            self.records.push(Record { outcome, turns });
            events.push(AgentEvent::Finished);
        }
    }

    /// Picks the record that counts: the last one, unless it is an error without a turn that follows a success with
    /// turns.
    fn outcome(&mut self, warnings: &mut Vec<String>) -> Option<Outcome> {
        let kinds: Vec<_> = self.records.iter().map(|record| std::mem::discriminant(&record.outcome)).collect();
        if kinds.windows(2).any(|pair| pair[0] != pair[1]) {
            warnings.push("conflicting results: the output holds terminal records that disagree".to_owned());
        }
        let last = self.records.pop()?;
        let empty = last.outcome != Outcome::Completed && last.turns == Some(0);
        let worked = |record: &Record| record.outcome == Outcome::Completed && record.turns != Some(0);
        if empty && self.records.iter().any(worked) {
            return Some(Outcome::Completed);
        }
        Some(last.outcome)
    }
}

impl OutputReader for JsonLinesReader {
    fn line(&mut self, stream: Stream, line: &[u8], events: &mut Vec<AgentEvent>) {
        if stream == Stream::Stdout {
            self.record(line, events);
        }
    }

    fn finish(self: Box<Self>, exit_code: Option<i32>) -> Reading {
        let meaning = exit_code.and_then(|code| self.exit_codes.get(&code).copied());
        let mut reading = self.conclude();
        if reading.started && reading.outcome.is_none() {
            reading.outcome = meaning.and_then(|meaning| outcome(meaning, None));
        }
        reading
    }
}

impl JsonLinesReader {
    /// Reads one record, whichever file or stream it is from.
    pub(super) fn record(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        // Bytes that are no UTF-8 are replaced, so that one bad byte in a tool's output does not cost the record.
        let parsed = self.projection.read(&String::from_utf8_lossy(line));
        let Some(value @ Value::Object(_)) = parsed else {
            self.cut = line.first() == Some(&b'{');
            return;
        };
        self.cut = false;
        self.started = true;
        self.take(&value, None, events);
        for list in self.lists.clone() {
            for item in list.find(&value).into_iter().flat_map(|items| items.as_array().into_iter().flatten()) {
                self.take(item, Some(&list), events);
            }
        }
    }

    /// Applies the rules for a line, or for the items of `each`.
    fn take(&mut self, value: &Value, each: Option<&Path>, events: &mut Vec<AgentEvent>) {
        let (mut ended, before) = (false, events.len());
        for index in 0..self.rules.len() {
            if self.rules[index].each.as_ref() == each && self.rules[index].fits(value) {
                self.apply(index, value, &mut ended, events);
            }
        }
        if let Some(line_end) = self.line_end.as_mut().map(std::mem::take)
            && (events.len() > before || line_end != LineEnd::default())
        {
            events.push(AgentEvent::Detail(Detail::LineEnd(line_end)));
        }
    }

    /// Says what all records meant.
    pub(super) fn conclude(mut self) -> Reading {
        let mut warnings = Vec::new();
        self.join_parts(&mut Vec::new());
        let outcome = self.outcome(&mut warnings);
        if self.cut {
            warnings.push("the last line of the output is cut".to_owned());
        }
        Reading {
            started: self.started,
            outcome,
            text: self.text,
            usage: self.tally.total_usage(),
            cache_write_long: self.long_writes.total_usage().cache_write,
            cost: self.tally.total_cost(),
            turns: self.turns,
            tool_calls: (self.started && self.counts_tools).then_some(self.tools),
            harness_session: self.session,
            cumulative: self.tally.is_cumulative(),
            warnings,
        }
    }
}

fn lists_of(rules: &[Rule]) -> Vec<Path> {
    let mut lists: Vec<Path> = Vec::new();
    for list in rules.iter().filter_map(|rule| rule.each.as_ref()) {
        if !lists.contains(list) {
            lists.push(list.clone());
        }
    }
    lists
}

/// Turns a terminal meaning and its text into an outcome; `None` for meanings that end nothing.
fn outcome(is: LineMeaning, text: Option<String>) -> Option<Outcome> {
    let said =
        |otherwise: &str| text.clone().filter(|text| !text.trim().is_empty()).unwrap_or_else(|| otherwise.to_owned());
    let limit = |kind, words: &str| Outcome::Limit(kind, said(words));
    let provider = |fault, words: &str| Outcome::Provider(fault, said(words));
    Some(match is {
        LineMeaning::Completed => Outcome::Completed,
        LineMeaning::Failed => Outcome::Failed(said("the harness reported a failure without a reason")),
        LineMeaning::Refused => Outcome::Refused(said("the agent declined without a reason")),
        LineMeaning::AuthFailed => provider(ProviderFault::Authentication, "the provider refused the key"),
        LineMeaning::RateLimited => provider(ProviderFault::RateLimited, "the provider refused: too many requests"),
        LineMeaning::Overloaded => provider(ProviderFault::Overloaded, "the provider is overloaded"),
        LineMeaning::Unreachable => provider(ProviderFault::Unreachable, "the provider cannot be reached"),
        LineMeaning::UnknownModel => provider(ProviderFault::UnknownModel, "the provider has no such model"),
        LineMeaning::TurnLimit => limit(LimitKind::Turns, "the harness's own limit on turns"),
        LineMeaning::CostLimit => limit(LimitKind::Cost, "the harness's own limit on money"),
        LineMeaning::TokenLimit => limit(LimitKind::Tokens, "the harness's own limit on tokens"),
        LineMeaning::Misconfigured => Outcome::Misconfigured(said("the harness cannot run as it is configured")),
        _ => return None,
    })
}

/// Turns the name of an end, as rules have it, into an outcome; `None` where it is none.
#[must_use]
pub fn outcome_named(name: &str, text: Option<String>) -> Option<Outcome> {
    outcome(LineMeaning::parse(name)?, text)
}

/// Tells whether a meaning is that of a terminal record.
fn ends_a_turn(is: LineMeaning) -> bool {
    outcome(is, None).is_some()
}

#[cfg(test)]
mod tests;
