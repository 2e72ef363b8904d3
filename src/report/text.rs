//! Words for states, times and money, the same in every reporter.

use std::time::Duration;

use crate::domain::event::RunSummary;
use crate::domain::{Blame, Failure, Micros, Terminal};

/// Returns the status word of a finished cell: `PASSED`, `FAILED`, `TIMEOUT`, `CANCELLED` or `ERRORED`.
#[must_use]
pub fn status_word(terminal: Terminal, solved: Option<bool>) -> &'static str {
    match (terminal, solved) {
        (Terminal::Completed, Some(true)) => "PASSED",
        (Terminal::Completed | Terminal::Failed, Some(false)) => "FAILED",
        (Terminal::Timeout, _) => "TIMEOUT",
        (Terminal::Cancelled, _) => "CANCELLED",
        _ => "ERRORED",
    }
}

/// Shows a duration as `0.4s`, `12.3s`, `3m05s` or `2h07m`.
#[must_use]
pub fn duration(value: Duration) -> String {
    let seconds = value.as_secs();
    match seconds {
        0..60 => format!("{:.1}s", value.as_secs_f64()),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Shortens an id to `width` characters from its left: its end tells cells apart, and `refrain show` takes a part of it.
#[must_use]
pub fn end_of(id: &str, width: usize) -> String {
    let length = id.chars().count();
    if length <= width {
        return id.to_owned();
    }
    std::iter::once('…').chain(id.chars().skip(length + 1 - width.max(1))).collect()
}

/// Shows an amount that may be unknown; unknown is `-`, never zero.
#[must_use]
pub fn cost(value: Option<Micros>) -> String {
    value.map_or_else(|| "-".to_owned(), |micros| micros.to_string())
}

/// Shows a sum of which some parts may be unknown: a lower bound, and no amount at all where nothing of it is known.
#[must_use]
pub fn at_least(known: Micros, is_whole: bool) -> String {
    match (is_whole, known) {
        (true, known) => known.to_string(),
        (false, Micros::ZERO) => "unknown".to_owned(),
        (false, known) => format!("at least {known}"),
    }
}

/// Shows a sum of which some parts are unknown: a lower bound, with how many are missing.
#[must_use]
pub fn bounded_cost(known: Micros, unknown: usize) -> String {
    match unknown {
        0 => known.to_string(),
        unknown if known == Micros::ZERO => format!("? ({unknown} unknown)"),
        unknown => format!("≥ {known} ({unknown} unknown)"),
    }
}

/// Says whose doing a failure is, for people.
#[must_use]
pub fn blame(failure: &Failure) -> &'static str {
    match failure.blame() {
        Blame::Agent => "agent",
        Blame::Orchestrator => "orchestrator",
        Blame::Configuration => "configuration",
        Blame::Infrastructure => "infrastructure",
        Blame::Evaluation => "evaluation",
        Blame::User => "user",
    }
}

/// Returns the closing lines of a run.
#[must_use]
pub fn summary(summary: &RunSummary) -> Vec<String> {
    let mut lines = vec![format!(
        "{:>12} {} {}: {} passed, {} failed, {} errored, {} skipped{}",
        "Summary",
        summary.total,
        if summary.total == 1 { "cell" } else { "cells" },
        summary.passed,
        summary.failed,
        summary.errored,
        summary.skipped.iter().map(|(_, count)| count).sum::<usize>(),
        if summary.not_run > 0 { format!(", {} not run", summary.not_run) } else { String::new() },
    )];
    for (reason, count) in &summary.skipped {
        lines.push(format!("{:>12} {count} × {reason}", "Skipped"));
    }
    let shown = |known| at_least(known, summary.unknown_costs == 0);
    lines.push(format!(
        "{:>12} Total cost (informational, includes budget-exempt cells): {}",
        "Cost",
        shown(summary.total_cost)
    ));
    let cap = summary.budget.map_or_else(|| "no".to_owned(), |budget| budget.to_string());
    lines.push(format!("{:>12} Billable cost: {} / {cap} budget cap", "", shown(summary.billable_cost)));
    if summary.unknown_costs > 0 {
        lines.push(format!(
            "{:>12} {} session(s) told no usage that has a price: their cost is unknown, not zero",
            "", summary.unknown_costs
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        let shown: Vec<_> = [0, 12, 185, 7620].map(|s| duration(Duration::from_secs(s))).to_vec();
        assert_eq!(shown, ["0.0s", "12.0s", "3m05s", "2h07m"]);
    }

    #[test]
    fn a_long_id_keeps_its_end() {
        assert_eq!(end_of("h__m__task__r1", 14), "h__m__task__r1");
        assert_eq!(end_of("h__m__täsk__r1", 9), "…täsk__r1");
        assert_eq!(end_of("abc", 1), "…");
    }

    #[test]
    fn an_unknown_cost_is_a_lower_bound_and_never_zero() {
        assert_eq!(cost(None), "-");
        let lines = summary(&RunSummary { total: 2, passed: 1, failed: 1, unknown_costs: 1, ..RunSummary::default() });
        assert_eq!(lines[0], "     Summary 2 cells: 1 passed, 1 failed, 0 errored, 0 skipped");
        assert!(lines.iter().any(|line| line.contains("Billable cost: unknown / no budget cap")), "{lines:?}");
        assert_eq!(at_least(Micros::new(10_000), false), "at least $0.0100");
        assert_eq!(at_least(Micros::ZERO, true), "$0.0000");
        assert_eq!(bounded_cost(Micros::ZERO, 2), "? (2 unknown)");
    }

    #[test]
    fn trouble_is_never_called_failed() {
        assert_eq!(status_word(Terminal::InfrastructureError, None), "ERRORED");
        assert_eq!(status_word(Terminal::Failed, None), "ERRORED");
        assert_eq!(status_word(Terminal::Failed, Some(false)), "FAILED");
    }
}
