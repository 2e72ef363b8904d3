//! JSON lines read by the rules of a manifest. See `docs/harnesses.md` for what a rule can say.

mod path;
mod tally;

use std::time::Duration;

use serde_json::Value;

use self::path::{Condition, Expression, Path, TextPath};
use self::tally::Tally;
use super::{AgentEvent, Outcome, OutputReader, Reading};
use crate::config::harness_manifest::{JsonLinesSpec, LineMeaning, LineRule, UsageMode};
use crate::domain::failure::{LimitKind, ProviderFault};
use crate::domain::{Micros, Usage};
use crate::runtime::Stream;

/// A rule with its paths taken apart.
#[derive(Debug)]
struct Rule {
    when: Vec<Condition>,
    is: LineMeaning,
    text: Option<TextPath>,
    ok: Option<Path>,
    usage: Vec<(String, Expression)>,
    mode: UsageMode,
    cost: Option<Expression>,
    turns: Option<Expression>,
    wait_ms: Option<Expression>,
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
    counts_tools: bool,
    started: bool,
    records: Vec<Record>,
    text: Option<String>,
    tally: Tally,
    turns: Option<u64>,
    tools: u64,
    session: Option<String>,
    cut: bool,
}

impl JsonLinesReader {
    /// Makes a reader for the rules of a manifest.
    #[must_use]
    pub fn new(spec: &JsonLinesSpec) -> Self {
        let rules: Vec<Rule> = spec.rules.iter().map(Rule::new).collect();
        Self {
            counts_tools: rules.iter().any(|rule| rule.is == LineMeaning::Tool),
            rules,
            started: false,
            records: Vec::new(),
            text: None,
            tally: Tally::default(),
            turns: None,
            tools: 0,
            session: None,
            cut: false,
        }
    }

    fn apply(&mut self, index: usize, line: &Value, ended: &mut bool, events: &mut Vec<AgentEvent>) {
        let rule = &self.rules[index];
        let text = rule.text.as_ref().and_then(|path| path.text(line));
        if let Some(turns) = rule.turns.as_ref().and_then(|turns| turns.whole(line)) {
            self.turns = Some(turns);
        }
        if let Some(usage) = self.tally.usage(rule.mode, rule.usage(line)) {
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
        match rule.is {
            LineMeaning::Data | LineMeaning::Throttled => {}
            LineMeaning::Message => {
                if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
                    events.push(AgentEvent::Message(text.clone()));
                    self.text = Some(text);
                }
            }
            LineMeaning::Tool => {
                let ok = rule.ok.as_ref().and_then(|path| path.flag(line));
                events.push(AgentEvent::Tool { name: text.unwrap_or_else(|| "unknown".to_owned()), ok });
                self.tools += 1;
            }
            LineMeaning::SessionId => {
                if let Some(id) = text.filter(|id| !id.is_empty() && self.session.as_ref() != Some(id)) {
                    events.push(AgentEvent::SessionId(id.clone()));
                    self.session = Some(id);
                }
            }
            // Of several terminal rules that fit one line, the first one speaks: the special before the general.
            is if !*ended => {
                if is == LineMeaning::Completed && text.as_ref().is_some_and(|text| !text.trim().is_empty()) {
                    self.text.clone_from(&text);
                }
                let turns = rule.turns.as_ref().and_then(|turns| turns.whole(line));
                if let Some(outcome) = outcome(is, text) {
                    self.records.push(Record { outcome, turns });
                    *ended = true;
                    events.push(AgentEvent::Finished);
                }
            }
            _ => {}
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
        if stream == Stream::Stderr || line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        // Bytes that are no UTF-8 are replaced, so that one bad byte in a tool's output does not cost the record.
        let parsed: Result<Value, _> = serde_json::from_str(&String::from_utf8_lossy(line));
        let Ok(value @ Value::Object(_)) = parsed else {
            self.cut = line.first() == Some(&b'{');
            return;
        };
        self.cut = false;
        self.started = true;
        let mut ended = false;
        for index in 0..self.rules.len() {
            if self.rules[index].fits(&value) {
                self.apply(index, &value, &mut ended, events);
            }
        }
    }

    fn finish(mut self: Box<Self>, _exit_code: Option<i32>) -> Reading {
        let mut warnings = Vec::new();
        let outcome = self.outcome(&mut warnings);
        if self.cut {
            warnings.push("the last line of the output is cut".to_owned());
        }
        Reading {
            started: self.started,
            outcome,
            text: self.text,
            usage: self.tally.total_usage(),
            cost: self.tally.total_cost(),
            turns: self.turns,
            tool_calls: (self.started && self.counts_tools).then_some(self.tools),
            harness_session: self.session,
            cumulative: self.tally.is_cumulative(),
            warnings,
        }
    }
}

impl Rule {
    fn new(rule: &LineRule) -> Self {
        Self {
            when: rule.when.iter().map(|(path, wanted)| Condition::new(path, wanted)).collect(),
            is: rule.is,
            text: rule.text.as_deref().map(TextPath::parse),
            ok: rule.ok.as_deref().map(Path::parse),
            usage: rule.usage.iter().map(|(class, path)| (class.clone(), Expression::parse(path))).collect(),
            mode: rule.usage_mode,
            cost: rule.cost.as_deref().map(Expression::parse),
            turns: rule.turns.as_deref().map(Expression::parse),
            wait_ms: rule.wait_ms.as_deref().map(Expression::parse),
        }
    }

    fn fits(&self, line: &Value) -> bool {
        self.when.iter().all(|condition| condition.fits(line))
    }

    fn usage(&self, line: &Value) -> Usage {
        let mut usage = Usage::UNKNOWN;
        for (class, expression) in &self.usage {
            let tokens = expression.whole(line);
            match class.as_str() {
                "input" => usage.input = tokens,
                "output" => usage.output = tokens,
                "cache_read" => usage.cache_read = tokens,
                "cache_write" => usage.cache_write = tokens,
                "reasoning" => usage.reasoning = tokens,
                _ => {}
            }
        }
        usage
    }
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
        LineMeaning::Data
        | LineMeaning::Throttled
        | LineMeaning::Message
        | LineMeaning::Tool
        | LineMeaning::SessionId => return None,
    })
}

#[cfg(test)]
mod tests;
