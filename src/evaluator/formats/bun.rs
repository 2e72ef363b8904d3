//! `bun test`: `(pass) name [0.12ms]` and the counts at the end, closed by `Ran 3 tests across 1 file.`.

use super::{Results, SuiteReport, leading_number};
use crate::domain::TestStatus;

#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Counts {
    passed: u32,
    failed: u32,
    skipped: u32,
    errored: u32,
}

pub(super) fn read(text: &str) -> Option<SuiteReport> {
    let mut results = Results::default();
    let mut counts = Counts::default();
    let mut summary: Option<(Counts, u32)> = None;
    for line in text.lines().map(str::trim_end) {
        if let Some((name, status)) = test_line(line) {
            results.push(name, status);
            counts = Counts::default();
        } else if let Some(ran) = ran_line(line) {
            summary = Some((std::mem::take(&mut counts), ran));
        } else {
            count_line(line, &mut counts);
        }
    }
    let Some((counts, ran)) = summary else {
        // Without its last line this could be anything's output unless a test was named in bun's own way.
        return (!results.is_empty()).then(|| SuiteReport { finished: false, ..SuiteReport::of(results) });
    };
    let named = |status| results.distinct(status);
    let total = counts.passed.saturating_add(counts.failed).saturating_add(counts.skipped);
    let conflict = if total != ran {
        Some(format!("{ran} tests ran, the counts add up to {total}"))
    } else if named(TestStatus::Passed) > counts.passed || named(TestStatus::Failed) > counts.failed {
        Some("more tests are named than the last summary counts".to_owned())
    } else {
        None
    };
    Some(SuiteReport {
        tests: results.worst(),
        passed: counts.passed,
        failed: counts.failed,
        errored: counts.errored,
        skipped: counts.skipped,
        finished: true,
        conflict,
    })
}

fn test_line(line: &str) -> Option<(&str, TestStatus)> {
    const MARKS: &[(&str, TestStatus)] = &[
        ("(pass) ", TestStatus::Passed),
        ("(fail) ", TestStatus::Failed),
        ("(skip) ", TestStatus::Skipped),
        ("(todo) ", TestStatus::Skipped),
    ];
    let (name, status) = MARKS.iter().find_map(|(mark, status)| Some((line.strip_prefix(mark)?, *status)))?;
    let name = match name.rsplit_once(" [") {
        Some((before, time)) if time.ends_with("ms]") || time.ends_with("s]") => before,
        _ => name,
    };
    Some((name, status))
}

fn count_line(line: &str, counts: &mut Counts) {
    let Some((number, word)) = line.strip_prefix(' ').and_then(|rest| leading_number(rest.trim_start())) else {
        return;
    };
    match word {
        " pass" => counts.passed = number,
        " fail" => counts.failed = number,
        " skip" | " todo" => counts.skipped = counts.skipped.saturating_add(number),
        " error" | " errors" => counts.errored = number,
        _ => {}
    }
}

fn ran_line(line: &str) -> Option<u32> {
    let (count, rest) = leading_number(line.strip_prefix("Ran ")?)?;
    (rest.starts_with(" tests across ") || rest.starts_with(" test across ")).then_some(count)
}
