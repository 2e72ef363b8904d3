//! The record of a session, told anew by another reading of its log. Pure.
//!
//! What the harness reported, and what follows from that alone, is the reading's. What the gateway counted, a timer or a
//! limit decided, or nobody but the host knew, stays as it was.

use super::reconcile;
use super::session::redact_end;
use crate::budget::Price;
use crate::domain::failure::LimitKind;
use crate::domain::session::SessionEnd;
use crate::domain::{Micros, PriceSource, SessionRecord, Usage, UsageSource};
use crate::harness::Reading;
use crate::harness::session::{ProcessEnd, end_again, part_from_resumed};
use crate::redact::Redactor;

/// What a log says today, and what is known besides.
pub(crate) struct Again<'a> {
    pub(crate) reading: Reading,
    /// How its process ended, by its record and the stored log.
    pub(crate) process: ProcessEnd,
    /// The price of its model in today's tables.
    pub(crate) price: Option<&'a Price>,
    /// The share by which the harness's figures may differ from the gateway's.
    pub(crate) tolerance: f64,
    /// Whether the harness can resume a session: only then is an id of use.
    pub(crate) can_resume: bool,
    /// Whether it went on with an earlier session, as far as others tell; its own record goes first.
    pub(crate) seems_resumed: bool,
    pub(crate) redactor: &'a Redactor,
}

/// Tells a record anew.
///
/// # Errors
///
/// Why its figures cannot be told anew; it stays as it is then.
pub(crate) fn tell(former: &SessionRecord, again: Again<'_>) -> Result<SessionRecord, String> {
    let Again { mut reading, process, price, tolerance, can_resume, seems_resumed, redactor } = again;
    if former.usage_source.is_none() && matches!(former.end, SessionEnd::Lost { .. }) {
        return Err("it was lost while it ran: its log does not hold all that it spent".to_owned());
    }
    let redact = |text: &String| redactor.redact(text).into_string();
    let resumed = former.from_log.as_ref().map_or(seems_resumed, |from_log| from_log.resumed);
    part_from_resumed(&mut reading, resumed);
    let mut record = former.clone();
    if decides_end(former) {
        let outlived_end = former.from_log.as_ref().is_some_and(|from_log| from_log.outlived_end);
        record.end = redact_end(end_again(&mut reading, ProcessEnd { outlived_end, ..process }), redact);
    }
    record.text = reading.text.as_ref().map(redact);
    (record.turns, record.tool_calls) = (reading.turns, reading.tool_calls);
    record.harness_session = session_id(former, &reading).filter(|_| can_resume);
    tell_figures(&mut record, former, &reading, price)?;
    let warnings: Vec<_> = reading.warnings.iter().map(redact).collect();
    record.warnings = merged(former, &warnings);
    if let Some(from_log) = &mut record.from_log {
        from_log.warnings = warnings;
    }
    reconcile::compare_again(&mut record, tolerance);
    Ok(record)
}

/// Tells whether the log or the exit code decides how a session ended.
fn decides_end(record: &SessionRecord) -> bool {
    match (&record.from_log, &record.end) {
        (Some(from_log), _) => from_log.decides_end,
        // Older records do not say it. What may have been ours stays.
        (
            None,
            SessionEnd::TimedOut { .. }
            | SessionEnd::Lost { .. }
            | SessionEnd::Cancelled
            | SessionEnd::Misconfigured { .. },
        ) => false,
        (None, SessionEnd::Limit { limit, .. }) => matches!(limit, LimitKind::Turns | LimitKind::Tokens),
        (None, SessionEnd::NotStarted { .. }) => record.exit_code.is_some() || record.signal.is_some(),
        (
            None,
            SessionEnd::Completed
            | SessionEnd::AgentFailed { .. }
            | SessionEnd::Refused { .. }
            | SessionEnd::Provider { .. },
        ) => true,
    }
}

/// The id that the harness told; where the stored log has lost it to redaction, the one on record.
fn session_id(former: &SessionRecord, reading: &Reading) -> Option<String> {
    match &reading.harness_session {
        Some(told) if told.contains("[redacted") => former.harness_session.clone(),
        told => told.clone(),
    }
}

/// Takes the figures of the harness, and where they are the session's, those of the session.
fn tell_figures(
    record: &mut SessionRecord,
    former: &SessionRecord,
    reading: &Reading,
    today: Option<&Price>,
) -> Result<(), String> {
    // Older records hold the harness's figures as the session's alone.
    let older = former.usage_source.is_none();
    let told = if older { former.usage } else { former.reported_usage };
    let same_tokens = told == reading.usage;
    let priced = if same_tokens {
        if older { former.price.as_ref().and(former.cost) } else { former.reported_priced }
    } else {
        price_again(former, &told, &reading.usage, today)?
    };
    record.reported_cost = reading.cost;
    if !older {
        (record.reported_usage, record.reported_priced) = (reading.usage, priced);
    }
    if former.usage_source == Some(UsageSource::Gateway) || same_tokens && former.reported_cost == reading.cost {
        return Ok(());
    }
    record.usage = reading.usage;
    record.cost = priced.or(reading.cost);
    record.cost_at_least = None;
    record.price = match (priced, same_tokens) {
        (None, _) => None,
        (Some(_), true) => former.price.clone(),
        (Some(_), false) => today.map(Price::origin),
    };
    Ok(())
}

/// Prices tokens by the entry that the record names. A record that names none has no price, unless its tokens were the
/// reason.
fn price_again(
    former: &SessionRecord,
    told: &Usage,
    tells: &Usage,
    today: Option<&Price>,
) -> Result<Option<Micros>, String> {
    match (&former.price, today) {
        (Some(origin), Some(price)) if price.origin() == *origin => Ok(price.cost(tells)),
        (Some(PriceSource { file, model, date, .. }), _) => Err(format!(
            "its tokens have changed, and the price that it was computed by (`{model}` of {date} in `{file}`) is not in \
             today's tables"
        )),
        (None, Some(price)) if price.cost(told) == former.reported_priced => Ok(price.cost(tells)),
        (None, _) => Ok(None),
    }
}

/// Puts the warnings of a reading in the place of those of the former one. Which these are an older record does not say;
/// there nothing is taken away.
fn merged(former: &SessionRecord, told: &[String]) -> Vec<String> {
    let mut warnings = former.warnings.clone();
    let Some(from_log) = &former.from_log else {
        warnings.extend(told.iter().filter(|warning| !former.warnings.contains(warning)).cloned());
        return warnings;
    };
    let mut place = None;
    for old in &from_log.warnings {
        if let Some(at) = warnings.iter().position(|warning| warning == old) {
            warnings.remove(at);
            place = Some(place.map_or(at, |place: usize| place.min(at)));
        }
    }
    let place = place.unwrap_or(warnings.len());
    warnings.splice(place..place, told.iter().cloned());
    warnings
}

#[cfg(test)]
mod tests;
