//! The record of a session: what it was, how it ended, what it cost. Nothing secret gets past here.

use std::time::Duration;

use jiff::Timestamp;

use super::super::accounts;
use super::super::casting::own_reviewer;
use super::super::world::{Attempt, describe};
use super::Setup;
use crate::budget::Price;
use crate::domain::session::SessionEnd;
use crate::domain::{Failure, FromLog, Micros, SessionRecord, Usage, UsageSource};
use crate::harness::HarnessError;
use crate::harness::session::SessionResult;
use crate::runtime::RuntimeError;
use crate::script::port::SessionCall;

/// The record of a session that was held to its end.
pub(super) fn of_result(attempt: &Attempt, setup: &Setup, call: &SessionCall, result: &SessionResult) -> SessionRecord {
    let redact = |text: &String| attempt.context.services.redactor.redact(text).into_string();
    let reading = &result.reading;
    let price = attempt.context.services.prices.find(&setup.model.name);
    // Where the harness does not tell the two apart, all of it counts as kept for the usual time.
    let long = reading.cache_write_long.or(Some(0));
    let priced = price.and_then(|price| price.cost_with_long(&reading.usage, long));
    SessionRecord {
        index: setup.index,
        phase: call.phase.clone(),
        label: call.label.as_ref().map(redact),
        role: setup.role,
        harness: setup.harness.name().to_owned(),
        model: setup.model.name.clone(),
        end: redact_end(effective_end(attempt, &result.end), redact),
        exit_code: result.exec.exit_code,
        signal: result.exec.signal,
        text: reading.text.as_ref().map(redact),
        usage: reading.usage,
        cost: priced.or(reading.cost),
        cost_at_least: None,
        reported_cost: reading.cost,
        usage_source: Some(UsageSource::Harness),
        api_calls: None,
        reported_usage: reading.usage,
        reported_priced: priced,
        discrepancies: Vec::new(),
        price: price.filter(|_| priced.is_some()).map(Price::origin),
        exempt: Some(is_exempt(attempt, setup)),
        turns: reading.turns,
        tool_calls: reading.tool_calls,
        // An id is kept only where something can be done with it: scripts see it as `resumable`. What holds a secret is none.
        harness_session: reading
            .harness_session
            .clone()
            .filter(|id| setup.harness.can_resume() && attempt.context.services.redactor.redact(id).as_str() == id),
        started_at: result.started_at,
        duration: result.exec.duration,
        longest_silence: Some(result.exec.longest_silence),
        warnings: own_reviewer(attempt, &setup.model, setup.role)
            .into_iter()
            .chain(reading.warnings.iter().map(redact))
            .collect(),
        from_log: Some(FromLog {
            warnings: result.from_log.warnings.iter().map(redact).collect(),
            ..result.from_log.clone()
        }),
    }
}

/// The record of a session without a result. Where the agent may have run, what it spent is unknown, and the attempt's
/// cost with it: a sum that leaves it out would be too low.
pub(super) fn broken_off(
    attempt: &Attempt,
    setup: &Setup,
    call: &SessionCall,
    (started_at, began): (Timestamp, Duration),
    error: &HarnessError,
) -> SessionRecord {
    let redactor = &attempt.context.services.redactor;
    let message = redactor.redact(&describe(error)).into_string();
    let ran = match error {
        HarnessError::Unsupported { .. }
        | HarnessError::Template { .. }
        | HarnessError::Runtime(RuntimeError::NotRunnable { .. }) => false,
        HarnessError::Runtime(_) | HarnessError::File { .. } => true,
    };
    SessionRecord {
        index: setup.index,
        phase: call.phase.clone(),
        label: call.label.as_ref().map(|label| redactor.redact(label).into_string()),
        role: setup.role,
        harness: setup.harness.name().to_owned(),
        model: setup.model.name.clone(),
        end: if ran { SessionEnd::Lost { message } } else { SessionEnd::NotStarted { message } },
        exit_code: None,
        signal: None,
        text: None,
        usage: if ran { Usage::UNKNOWN } else { Usage::ZERO },
        cost: (!ran).then_some(Micros::ZERO),
        cost_at_least: None,
        reported_cost: None,
        usage_source: None,
        api_calls: None,
        reported_usage: Usage::UNKNOWN,
        reported_priced: None,
        discrepancies: Vec::new(),
        price: None,
        exempt: Some(is_exempt(attempt, setup)),
        turns: None,
        tool_calls: None,
        harness_session: None,
        started_at,
        duration: attempt.elapsed().saturating_sub(began),
        longest_silence: None,
        warnings: own_reviewer(attempt, &setup.model, setup.role).into_iter().collect(),
        from_log: None,
    }
}

fn is_exempt(attempt: &Attempt, setup: &Setup) -> bool {
    accounts::is_exempt_session(&attempt.context.services.plan, attempt.context.cell(), &setup.model.name)
}

/// A session that was stopped because the attempt ran out of time has timed out; it was not cancelled.
fn effective_end(attempt: &Attempt, end: &SessionEnd) -> SessionEnd {
    match (end, attempt.cause.get()) {
        (SessionEnd::Cancelled, Some(Failure::Timeout { timer, limit, elapsed })) => {
            SessionEnd::TimedOut { timer: *timer, limit: *limit, elapsed: *elapsed }
        }
        _ => end.clone(),
    }
}

pub(crate) fn redact_end(end: SessionEnd, redact: impl Fn(&String) -> String) -> SessionEnd {
    match end {
        SessionEnd::AgentFailed { message } => SessionEnd::AgentFailed { message: redact(&message) },
        SessionEnd::Refused { message } => SessionEnd::Refused { message: redact(&message) },
        SessionEnd::Limit { limit, message } => SessionEnd::Limit { limit, message: redact(&message) },
        SessionEnd::NotStarted { message } => SessionEnd::NotStarted { message: redact(&message) },
        SessionEnd::Provider { fault, message } => SessionEnd::Provider { fault, message: redact(&message) },
        SessionEnd::Misconfigured { message } => SessionEnd::Misconfigured { message: redact(&message) },
        SessionEnd::Lost { message } => SessionEnd::Lost { message: redact(&message) },
        end @ (SessionEnd::Completed | SessionEnd::TimedOut { .. } | SessionEnd::Cancelled) => end,
    }
}
