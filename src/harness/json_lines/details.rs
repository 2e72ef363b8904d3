//! What a line tells beyond events: for trajectories.

use serde_json::Value;

use super::calls::moment;
use super::rule::Rule;
use crate::config::harness_manifest::LineMeaning;
use crate::domain::{Micros, Usage};
use crate::harness::{AgentEvent, Detail, LineEnd};

/// Takes what a rule tells before its event: the request that it is part of, the call that it is about, when, and what
/// that has used.
pub(super) fn of_rule(
    rule: &Rule,
    line: &Value,
    request: Option<&String>,
    line_end: &mut LineEnd,
    events: &mut Vec<AgentEvent>,
) {
    line_end.at = line_end.at.or_else(|| moment(rule, line));
    if rule.is == LineMeaning::Data {
        line_end.request = line_end.request.take().or_else(|| request.cloned());
    } else if let Some(request) = request {
        events.push(AgentEvent::Detail(Detail::Request(request.clone())));
    }
    if matches!(rule.is, LineMeaning::Tool | LineMeaning::ToolEnd)
        && let Some(id) = rule.id.as_ref().and_then(|path| path.text(line))
    {
        events.push(AgentEvent::Detail(Detail::Call(id)));
    }
    // Other rules tell figures of a session, or of no step in particular.
    if rule.trajectory && rule.mode.is_sum() {
        let usage = rule.usage(line);
        line_end.usage = if line_end.usage == Usage::UNKNOWN { usage } else { line_end.usage.overlaid_by(usage) };
        let cost = rule.cost.as_ref().and_then(|cost| cost.number(line));
        let cost = cost.and_then(|cost| Micros::from_dollars(cost).ok()).filter(|cost| *cost >= Micros::ZERO);
        line_end.cost = line_end.cost.or(cost);
    }
}

/// Takes what a rule tells of a call after its event: what the tool was given, and what it came to.
pub(super) fn of_call(rule: &Rule, line: &Value, events: &mut Vec<AgentEvent>) {
    if let Some(input) = rule.input.as_ref().and_then(|path| path.find(line).into_iter().next()) {
        events.push(AgentEvent::Detail(Detail::Input(input.clone())));
    }
    let Some(output) = &rule.output else { return };
    if let Some(text) = output.all_texts(line) {
        events.push(AgentEvent::Detail(Detail::Output(crate::harness::excerpt::of(&text).into_owned())));
    }
}
