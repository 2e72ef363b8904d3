//! The one cause of a session's end, from everything that is known about it. Pure: no clock, no disk.
//!
//! The order is fixed: our watchdog or limit, our deadline, what the log says, the exit code. One thing goes before all
//! of them: a terminal record that was there before we stopped anything. What is ended then is a process that had
//! nothing left to do, and the outcome stays that of the record.

use std::time::Duration;

use super::{Outcome, Reading};
use crate::domain::Micros;
use crate::domain::failure::{LimitKind, Timer};
use crate::domain::session::SessionEnd;
use crate::runtime::{Captured, ExecEnd, ExecReport, OutOfMemory};

/// Why the session's own watch stopped the command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// It cost more than it may.
    Cost {
        /// The most it may cost.
        limit: Micros,
        /// What it had cost.
        spent: Micros,
    },
    /// It asked for a model without a price although a ceiling is to hold.
    Unpriced(String),
    /// It printed nothing at all for so long.
    Silent(Duration),
    /// It had printed its terminal record and did not end.
    AfterRecord,
}

/// What is known about a session at its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evidence<'a> {
    pub(super) exec: &'a ExecReport,
    /// Whether and why the session's watch stopped it.
    pub(super) stop: Option<&'a Stop>,
    /// Whether a terminal record was there before anything of ours stopped it.
    pub(super) recorded: bool,
    pub(super) reading: &'a Reading,
    /// The wall-clock limit it ran under.
    pub(super) deadline: Option<(Timer, Duration)>,
    /// Whether anything was printed on standard output.
    pub(super) printed: bool,
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) end: SessionEnd,
    /// Whether the log or the exit code said so, and nothing of ours.
    pub(super) by_log: bool,
}

/// Decides the end and appends what a reader should know.
pub(super) fn decide(evidence: Evidence<'_>, warnings: &mut Vec<String>) -> Decision {
    let by_log = |end| Decision { end, by_log: true };
    let by_us = evidence.stop.is_some() || !matches!(evidence.exec.end, ExecEnd::Exited(_) | ExecEnd::Signaled(_));
    if by_us
        && evidence.recorded
        && let Some(end) = by_record(evidence, warnings)
    {
        warnings.push("killed after its result: the harness had reported its end and went on running".to_owned());
        return by_log(end);
    }
    if let Some(end) = by_limit(evidence).or_else(|| by_deadline(evidence)) {
        return Decision { end, by_log: false };
    }
    if let Some(end) = by_record(evidence, warnings) {
        return by_log(end);
    }
    match by_memory(evidence) {
        Some(end) => Decision { end, by_log: false },
        None => by_log(by_exit(evidence, warnings)),
    }
}

/// A command that failed without a record while processes were killed for want of memory: its own want, or the
/// machine's.
fn by_memory(evidence: Evidence<'_>) -> Option<SessionEnd> {
    let how = match evidence.exec.end {
        ExecEnd::Exited(0) => return None,
        ExecEnd::Signaled(signal) => format!("it ended by signal {signal}"),
        _ => "it failed".to_owned(),
    };
    Some(match evidence.exec.out_of_memory? {
        OutOfMemory::Limit(limit) => {
            let message = format!("memory limit of {limit} bytes reached: processes were killed, and {how}");
            SessionEnd::Limit { limit: LimitKind::Memory, message }
        }
        OutOfMemory::Machine => {
            let message = format!("the machine ran out of memory and killed processes of the session, and {how}");
            SessionEnd::Lost { message }
        }
    })
}

/// What we stopped.
fn by_limit(evidence: Evidence<'_>) -> Option<SessionEnd> {
    match evidence.stop {
        Some(Stop::Cost { limit, spent }) => {
            let message = format!("cost limit of {limit} reached: {spent} spent");
            return Some(SessionEnd::Limit { limit: LimitKind::Cost, message });
        }
        Some(Stop::Unpriced(message)) => return Some(SessionEnd::Misconfigured { message: message.clone() }),
        Some(Stop::Silent(limit)) => {
            let message = format!("it printed nothing within {:.1} s", limit.as_secs_f64());
            return Some(SessionEnd::NotStarted { message });
        }
        Some(Stop::AfterRecord) | None => {}
    }
    match evidence.exec.end {
        ExecEnd::OutputLimit { limit } => {
            let written = evidence.exec.stdout.total.saturating_add(evidence.exec.stderr.total);
            let message = format!("output limit of {limit} bytes reached: {written} bytes written");
            Some(SessionEnd::Limit { limit: LimitKind::Output, message })
        }
        ExecEnd::TimedOut { timer, limit } => {
            Some(SessionEnd::TimedOut { timer, limit, elapsed: evidence.exec.duration })
        }
        ExecEnd::Stopped if evidence.stop.is_none() => Some(SessionEnd::Cancelled),
        ExecEnd::Stopped | ExecEnd::Exited(_) | ExecEnd::Signaled(_) => None,
    }
}

/// A failing exit at or after the deadline is the deadline's, whoever was faster.
fn by_deadline(evidence: Evidence<'_>) -> Option<SessionEnd> {
    let (timer, limit) = evidence.deadline?;
    let elapsed = evidence.exec.duration;
    let failed = evidence.exec.exit_code != Some(0);
    let completed = evidence.reading.outcome == Some(Outcome::Completed);
    (failed && elapsed >= limit && !completed).then_some(SessionEnd::TimedOut { timer, limit, elapsed })
}

/// What the log says, if it holds a terminal record.
fn by_record(evidence: Evidence<'_>, warnings: &mut Vec<String>) -> Option<SessionEnd> {
    let reading = evidence.reading;
    Some(match reading.outcome.clone()? {
        Outcome::Completed if reading.usage.total() == Some(0) && reading.turns.unwrap_or(0) == 0 => {
            // Gateways have been seen to turn a refusal into an answer: no token was spent, so no model answered.
            let said =
                reading.text.as_deref().map(|text| format!(", and said: {}", shortened(text))).unwrap_or_default();
            SessionEnd::NotStarted { message: format!("it reported success without a single token{said}") }
        }
        Outcome::Completed => {
            if evidence.stop.is_none() {
                warnings.extend(odd_exit(evidence.exec));
            }
            SessionEnd::Completed
        }
        Outcome::Failed(message) => SessionEnd::AgentFailed { message: with_stderr(&message, evidence.exec) },
        Outcome::Refused(message) => SessionEnd::Refused { message },
        Outcome::Limit(limit, message) => SessionEnd::Limit { limit, message },
        Outcome::Provider(fault, message) => SessionEnd::Provider { fault, message },
        Outcome::Misconfigured(message) => SessionEnd::NotStarted { message },
    })
}

fn odd_exit(exec: &ExecReport) -> Option<String> {
    match exec.end {
        ExecEnd::Exited(code) if code != 0 => Some(format!("exit code {code} after a completed turn")),
        ExecEnd::Signaled(signal) => Some(format!("signal {signal} after a completed turn")),
        ExecEnd::Exited(_) | ExecEnd::TimedOut { .. } | ExecEnd::OutputLimit { .. } | ExecEnd::Stopped => None,
    }
}

/// No record: the exit code, and whether anything shows that it began.
fn by_exit(evidence: Evidence<'_>, warnings: &mut Vec<String>) -> SessionEnd {
    let exec = evidence.exec;
    let how = match exec.end {
        ExecEnd::Signaled(signal) => format!("signal {signal}, which was not ours"),
        _ => exec.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}")),
    };
    if !evidence.reading.started {
        let what = if evidence.printed { "nothing in its output shows that it began" } else { "it printed nothing" };
        return SessionEnd::NotStarted { message: with_stderr(&format!("{how}, and {what}"), exec) };
    }
    if exec.success() && evidence.reading.text.is_some() {
        warnings.push("no terminal record: the exit code and a message are all that shows the end".to_owned());
        return SessionEnd::Completed;
    }
    let message = if exec.success() { format!("{how}, but neither a result nor a message") } else { how };
    SessionEnd::AgentFailed { message: with_stderr(&message, exec) }
}

/// Adds the last lines of standard error, where the reason usually is.
fn with_stderr(message: &str, exec: &ExecReport) -> String {
    match last_lines(&exec.stderr) {
        Some(lines) => format!("{message}; last on standard error: {lines}"),
        None => message.to_owned(),
    }
}

fn last_lines(captured: &Captured) -> Option<String> {
    let text = String::from_utf8_lossy(&captured.bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(5)..];
    (!last.is_empty()).then(|| shortened(&last.join("\n")))
}

/// Keeps the end of a long text, where an error usually names its cause.
fn shortened(text: &str) -> String {
    const MOST: usize = 600;
    let mut start = text.len().saturating_sub(MOST);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    if start == 0 { text.to_owned() } else { format!("…{}", &text[start..]) }
}

#[cfg(test)]
mod tests;
