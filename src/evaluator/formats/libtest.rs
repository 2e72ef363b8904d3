//! Rust's test harness under `cargo test`: one block for each binary and for the doc tests, from `running 3 tests` to
//! `test result: …`.

use super::{Results, SuiteReport, leading_number};
use crate::domain::TestStatus;

#[derive(Debug, Default, Clone, Copy)]
struct Summary {
    passed: u32,
    failed: u32,
    skipped: u32,
}

#[derive(Debug, Default)]
struct Block {
    announced: u32,
    results: Results,
    /// The last one wins: a test may print a line that looks like it.
    summary: Option<Summary>,
}

pub(super) fn read(text: &str) -> Option<SuiteReport> {
    let mut report = SuiteReport { finished: true, ..SuiteReport::default() };
    let mut block: Option<Block> = None;
    let mut found = false;
    for line in text.lines().map(str::trim_end) {
        if let Some(announced) = running_line(line) {
            found = true;
            report = close(report, block.take());
            block = Some(Block { announced, ..Block::default() });
        } else if line.starts_with("error: could not compile ") {
            found = true;
            report.errored = report.errored.saturating_add(1);
        } else if let Some(block) = &mut block {
            if let Some(summary) = result_line(line) {
                block.summary = Some(summary);
            } else if let Some((id, status)) = test_line(line) {
                block.results.push(id, status);
            }
        }
    }
    found.then(|| close(report, block))
}

fn close(report: SuiteReport, block: Option<Block>) -> SuiteReport {
    let Some(block) = block else { return report };
    let Some(summary) = block.summary else {
        return report.merged(SuiteReport { finished: false, ..SuiteReport::of(block.results) });
    };
    let total = summary.passed.saturating_add(summary.failed).saturating_add(summary.skipped);
    let named = |status| block.results.distinct(status);
    let conflict = if total != block.announced {
        Some(format!("{} tests were announced, the last summary counts {total}", block.announced))
    } else if named(TestStatus::Passed) > summary.passed || named(TestStatus::Failed) > summary.failed {
        Some(format!(
            "{} tests are named as passed and {} as failed, the last summary counts {} and {}",
            named(TestStatus::Passed),
            named(TestStatus::Failed),
            summary.passed,
            summary.failed
        ))
    } else {
        None
    };
    report.merged(SuiteReport {
        tests: block.results.worst(),
        passed: summary.passed,
        failed: summary.failed,
        errored: 0,
        skipped: summary.skipped,
        finished: true,
        conflict,
    })
}

fn running_line(line: &str) -> Option<u32> {
    let (count, rest) = leading_number(line.strip_prefix("running ")?)?;
    matches!(rest, " tests" | " test").then_some(count)
}

/// Reads `test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s`.
fn result_line(line: &str) -> Option<Summary> {
    let rest = line.strip_prefix("test result: ")?;
    let rest = rest.strip_prefix("ok. ").or_else(|| rest.strip_prefix("FAILED. "))?;
    let mut summary = Summary::default();
    for part in rest.split("; ") {
        let Some((number, word)) = leading_number(part) else { continue };
        let slot = match word.trim_start() {
            "passed" | "measured" => &mut summary.passed,
            "failed" => &mut summary.failed,
            "ignored" => &mut summary.skipped,
            _ => continue,
        };
        *slot = slot.saturating_add(number);
    }
    Some(summary)
}

/// Reads `test tests::adds ... ok`.
fn test_line(line: &str) -> Option<(&str, TestStatus)> {
    let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let status = if word == "ok" || word.starts_with("ok <") || word.starts_with("bench:") {
        TestStatus::Passed
    } else if word == "FAILED" || word.starts_with("FAILED <") {
        TestStatus::Failed
    } else if word == "ignored" || word.starts_with("ignored, ") {
        TestStatus::Skipped
    } else {
        return None;
    };
    Some((name.strip_suffix(" - should panic").unwrap_or(name), status))
}
