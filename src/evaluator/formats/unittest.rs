//! Python's unittest: verbose lines, headings of failures, and `Ran 3 tests in 0.001s` with the word after it.

use super::{Results, SuiteReport, leading_number};
use crate::domain::TestStatus;

#[derive(Debug, Default, Clone, Copy)]
struct Summary {
    ran: u32,
    failed: u32,
    errored: u32,
    skipped: u32,
}

pub(super) fn read(text: &str) -> Option<SuiteReport> {
    let mut results = Results::default();
    let mut summary = None;
    // `Ran …` without the word that follows: cut, or printed by somebody else.
    let mut ran = None;
    let mut previous = None;
    for line in text.lines().map(str::trim_end) {
        if let Some(count) = ran_line(line) {
            ran = Some(count);
        } else if let Some(found) = ran.and_then(|count| end_line(line, count)) {
            summary = Some(found);
            ran = None;
        } else if !line.is_empty() {
            // A docstring stands on a line of its own, below the name and before the status.
            if let Some((id, status)) = heading(line).or_else(|| verbose_line(line, previous)) {
                results.push(id, status);
            }
            previous = Some(line);
        }
    }
    let Some(summary) = summary.filter(|_| ran.is_none()) else {
        if results.is_empty() && ran.is_none() {
            return None;
        }
        return Some(SuiteReport { finished: false, ..SuiteReport::of(results) });
    };
    Some(report(results, summary))
}

fn report(results: Results, summary: Summary) -> SuiteReport {
    let named_passed = results.distinct(TestStatus::Passed);
    let named_bad = results.distinct(TestStatus::Failed) + results.distinct(TestStatus::Errored);
    let bad = summary.failed.saturating_add(summary.errored);
    let left = summary.ran.saturating_sub(summary.skipped);
    // One test may fail several times (subtests), and a class may fail outside every test: the summary's counts do not
    // add up exactly where something is bad, and must where nothing is.
    let conflict = if named_bad > bad {
        Some(format!("{named_bad} tests are named as failed, the last summary counts {bad}"))
    } else if named_passed > left {
        Some(format!("{named_passed} tests are named as passed, the last summary counts {left}"))
    } else {
        None
    };
    SuiteReport {
        tests: results.worst(),
        passed: left.saturating_sub(bad).max(if bad > 0 { named_passed.min(left) } else { 0 }),
        failed: summary.failed,
        errored: summary.errored,
        skipped: summary.skipped,
        finished: true,
        conflict,
    }
}

/// Reads `Ran 3 tests in 0.001s`.
fn ran_line(line: &str) -> Option<u32> {
    let (count, rest) = leading_number(line.strip_prefix("Ran ")?)?;
    let time = rest.strip_prefix(" tests in ").or_else(|| rest.strip_prefix(" test in "))?;
    time.strip_suffix('s')?.parse::<f64>().ok()?;
    Some(count)
}

/// Reads `OK (skipped=1)`, `FAILED (failures=2, errors=1)` or `NO TESTS RAN`.
fn end_line(line: &str, ran: u32) -> Option<Summary> {
    let (word, list) = match line.split_once(" (") {
        Some((word, list)) => (word, list.strip_suffix(')')?),
        None => (line, ""),
    };
    if !matches!(word, "OK" | "FAILED" | "NO TESTS RAN") {
        return None;
    }
    let mut summary = Summary { ran, ..Summary::default() };
    for part in list.split(", ").filter(|part| !part.is_empty()) {
        let (name, number) = part.split_once('=')?;
        let number: u32 = number.parse().ok()?;
        let slot = match name {
            "failures" | "unexpected successes" => &mut summary.failed,
            "errors" => &mut summary.errored,
            "skipped" | "expected failures" => &mut summary.skipped,
            _ => return None,
        };
        *slot = slot.saturating_add(number);
    }
    // `FAILED` without a number has failed all the same.
    if word == "FAILED" && summary.failed == 0 && summary.errored == 0 {
        summary.failed = 1;
    }
    Some(summary)
}

/// Reads `FAIL: test_a (tests.T.test_a)` and `ERROR: setUpClass (tests.T)`.
fn heading(line: &str) -> Option<(String, TestStatus)> {
    let (status, rest) = if let Some(rest) = line.strip_prefix("FAIL: ") {
        (TestStatus::Failed, rest)
    } else if let Some(rest) = line.strip_prefix("ERROR: ") {
        (TestStatus::Errored, rest)
    } else {
        return None;
    };
    Some((dotted(rest)?, status))
}

fn verbose_line(line: &str, previous: Option<&str>) -> Option<(String, TestStatus)> {
    let (name, word) = line.rsplit_once(" ... ")?;
    let status = match word {
        "ok" => TestStatus::Passed,
        "FAIL" | "unexpected success" => TestStatus::Failed,
        "ERROR" => TestStatus::Errored,
        "expected failure" => TestStatus::Skipped,
        _ if word.starts_with("skipped") => TestStatus::Skipped,
        _ => return None,
    };
    Some((dotted(name.trim_start()).or_else(|| dotted(previous?))?, status))
}

/// Makes `tests.T.test_a` of `test_a (tests.T.test_a)` and of `test_a (tests.T)`, which older versions print; what
/// follows (a subtest's values) is left out.
pub(in crate::evaluator) fn dotted(text: &str) -> Option<String> {
    let (name, rest) = text.split_once(" (")?;
    let (path, _) = rest.split_once(')')?;
    let word = |part: &str| {
        !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '<' | '>'))
    };
    if !word(name) || !word(path) || name.contains('.') {
        return None;
    }
    if path.rsplit('.').next() == Some(name) && path.contains('.') {
        return Some(path.to_owned());
    }
    Some(format!("{path}.{name}"))
}
