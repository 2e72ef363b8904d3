//! pytest: `-v` lines, the short summary (`-rA`, failures), xdist lines, and the summary at the end.

use super::{Results, SuiteReport, leading_number};
use crate::domain::TestStatus;

const STATUSES: &[(&str, TestStatus)] = &[
    ("PASSED", TestStatus::Passed),
    ("FAILED", TestStatus::Failed),
    ("ERROR", TestStatus::Errored),
    ("SKIPPED", TestStatus::Skipped),
    ("XFAIL", TestStatus::Skipped),
    ("XPASS", TestStatus::Passed),
];

#[derive(Debug, Default, Clone, Copy)]
struct Summary {
    passed: u32,
    failed: u32,
    errored: u32,
    skipped: u32,
}

pub(super) fn read(text: &str) -> Option<SuiteReport> {
    let mut results = Results::default();
    let mut summary = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(found) = summary_line(line) {
            summary = Some(found);
        } else if let Some((id, status)) = test_line(line) {
            results.push(id, status);
        }
    }
    let Some(summary) = summary else {
        if results.is_empty() {
            return None;
        }
        return Some(SuiteReport { finished: false, ..SuiteReport::of(results) });
    };
    let conflict = contradiction(&results, summary);
    Some(SuiteReport {
        tests: results.worst(),
        passed: summary.passed,
        failed: summary.failed,
        errored: summary.errored,
        skipped: summary.skipped,
        finished: true,
        conflict,
    })
}

/// Lines may be fewer than the summary counts (`-q`, output in between), never more.
fn contradiction(results: &Results, summary: Summary) -> Option<String> {
    let claims = [
        (TestStatus::Passed, summary.passed),
        (TestStatus::Failed, summary.failed),
        (TestStatus::Errored, summary.errored),
        (TestStatus::Skipped, summary.skipped),
    ];
    claims.into_iter().find_map(|(status, counted)| {
        let named = results.distinct(status);
        (named > counted).then(|| format!("{named} tests are named as {status}, the last summary counts {counted}"))
    })
}

/// Reads `=== 1 failed, 2 passed in 0.12s ===`, with or without its frame.
fn summary_line(line: &str) -> Option<Summary> {
    let inner = line.trim_matches(|c| c == '=' || c == ' ');
    let (counts, time) = inner.rsplit_once(" in ")?;
    let seconds = time.split_whitespace().next()?.strip_suffix('s')?;
    seconds.parse::<f64>().ok()?;
    if counts == "no tests ran" {
        return Some(Summary::default());
    }
    let mut summary = Summary::default();
    for part in counts.split(", ") {
        let (number, word) = leading_number(part)?;
        let slot = match word.trim_start() {
            "passed" | "xpassed" => &mut summary.passed,
            "failed" => &mut summary.failed,
            "error" | "errors" => &mut summary.errored,
            "skipped" | "xfailed" => &mut summary.skipped,
            "deselected" | "warning" | "warnings" | "rerun" | "subtests passed" | "subtests skipped" => continue,
            _ => return None,
        };
        *slot = slot.saturating_add(number);
    }
    Some(summary)
}

fn test_line(line: &str) -> Option<(&str, TestStatus)> {
    if let Some(rest) = line.strip_prefix("[gw") {
        let (_, rest) = rest.split_once("] ")?;
        let rest = rest.split_once("] ").map_or(rest, |(_, rest)| rest);
        return short_line(rest);
    }
    short_line(line).or_else(|| verbose_line(line))
}

/// Reads `FAILED tests/test_a.py::test_x - AssertionError`.
fn short_line(line: &str) -> Option<(&str, TestStatus)> {
    let (word, rest) = line.split_once(' ')?;
    let status = match STATUSES.iter().find(|(name, _)| *name == word) {
        Some((_, status)) => *status,
        None if word.starts_with("SUBFAIL") => TestStatus::Failed,
        None => return None,
    };
    let rest = match (word, rest.split_once(") ")) {
        (w, Some((_, after))) if w.starts_with("SUBFAIL") && !w.ends_with(')') => after,
        _ => rest,
    };
    // The message starts after ` - `; a parameter may hold the same characters.
    let id = match (rest.find("] - "), rest.find(" - ")) {
        (Some(bracket), Some(dash)) if rest.find('[').is_some_and(|open| open < dash) => &rest[..=bracket],
        (_, Some(dash)) => &rest[..dash],
        (_, None) => rest,
    };
    is_id(id).then_some((id, status))
}

/// Reads `tests/test_a.py::test_x PASSED                  [ 50%]`.
fn verbose_line(line: &str) -> Option<(&str, TestStatus)> {
    STATUSES.iter().find_map(|(word, status)| {
        let at = line.rfind(&format!(" {word}"))?;
        let after = line[at + 1 + word.len()..].trim();
        let ends = after.is_empty() || after.starts_with('(') || (after.starts_with('[') && after.ends_with("%]"));
        let id = line[..at].trim_end();
        (ends && id.contains(".py::") && is_id(id)).then_some((id, *status))
    })
}

/// A node id: a Python file without spaces in its path, and what is inside it.
fn is_id(text: &str) -> bool {
    let file = text.split("::").next().unwrap_or(text);
    file.strip_suffix(".py").is_some_and(|stem| !stem.is_empty()) && !file.contains(char::is_whitespace)
}
