//! jest and vitest: the `Tests:` summary, files, and the marks of verbose lines.

use super::{Results, SuiteReport, leading_number};
use crate::domain::TestStatus;

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    passed: u32,
    failed: u32,
    skipped: u32,
}

pub(super) fn read(text: &str) -> Option<SuiteReport> {
    let mut results = Results::default();
    let mut tests = None;
    let mut files: Option<Counts> = None;
    let mut titles: Vec<(usize, String)> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(rest) = trimmed.strip_prefix("Test Suites:").or_else(|| trimmed.strip_prefix("Test Files ")) {
            files = counts(rest).or(files);
        } else if let Some(rest) = trimmed.strip_prefix("Tests:").or_else(|| trimmed.strip_prefix("Tests ")) {
            tests = counts(rest).or(tests);
        } else if let Some((name, status)) = marked(trimmed) {
            titles.retain(|(depth, _)| *depth < indent);
            if let Some(name) = name_of(name) {
                let mut parts: Vec<&str> = titles.iter().map(|(_, title)| title.as_str()).collect();
                parts.push(name);
                results.push(parts.join(" > "), status);
            }
        } else if trimmed.starts_with("PASS ") || trimmed.starts_with("FAIL ") || trimmed.is_empty() {
            titles.clear();
        } else if indent > 0 {
            titles.retain(|(depth, _)| *depth < indent);
            titles.push((indent, trimmed.to_owned()));
        }
    }
    match tests {
        Some(tests) => Some(report(results, tests, files.unwrap_or_default())),
        // Every file failed before its first test: jest still counts the files.
        None if files.is_some_and(|files| files.failed > 0) => {
            Some(report(results, Counts::default(), files.unwrap_or_default()))
        }
        None => None,
    }
}

fn report(results: Results, tests: Counts, files: Counts) -> SuiteReport {
    let conflict = [(TestStatus::Passed, tests.passed), (TestStatus::Failed, tests.failed)].into_iter().find_map(
        |(status, counted)| {
            let named = results.distinct(status);
            (named > counted).then(|| format!("{named} tests are named as {status}, the last summary counts {counted}"))
        },
    );
    SuiteReport {
        tests: results.worst(),
        passed: tests.passed,
        failed: tests.failed,
        // A file that failed although none of its tests did could not be loaded.
        errored: if tests.failed == 0 { files.failed } else { 0 },
        skipped: tests.skipped,
        finished: true,
        conflict,
    }
}

/// Reads `1 failed, 2 passed, 3 total` and `1 failed | 2 passed (3)`.
fn counts(text: &str) -> Option<Counts> {
    let text = text.trim();
    if text == "no tests" {
        return Some(Counts::default());
    }
    let mut found = Counts::default();
    let list = text.split(" (").next().unwrap_or(text);
    for part in list.split([',', '|']) {
        let (number, word) = leading_number(part.trim())?;
        let slot = match word.trim() {
            "passed" => &mut found.passed,
            "failed" => &mut found.failed,
            "skipped" | "todo" | "pending" => &mut found.skipped,
            "total" | "obsolete" => continue,
            _ => return None,
        };
        *slot = slot.saturating_add(number);
    }
    Some(found)
}

fn marked(trimmed: &str) -> Option<(&str, TestStatus)> {
    let mut chars = trimmed.chars();
    let status = match chars.next()? {
        '✓' | '√' => TestStatus::Passed,
        '✕' | '×' => TestStatus::Failed,
        '○' | '✎' | '↓' => TestStatus::Skipped,
        _ => return None,
    };
    Some((chars.as_str().strip_prefix(' ')?, status))
}

/// Cuts the time off; `None` for vitest's lines about whole files.
fn name_of(text: &str) -> Option<&str> {
    let text = text.strip_prefix("skipped ").or_else(|| text.strip_prefix("todo ")).unwrap_or(text);
    if text.contains(" test)") || text.contains(" tests)") || text.contains(" tests | ") {
        return None;
    }
    let is_time = |time: &str| {
        let digits = time.strip_suffix("ms").or_else(|| time.strip_suffix('s')).unwrap_or("").trim_end();
        !digits.is_empty() && digits.parse::<f64>().is_ok()
    };
    if let Some((name, time)) = text.rsplit_once(" (")
        && time.strip_suffix(')').is_some_and(is_time)
    {
        return Some(name);
    }
    match text.rsplit_once(' ') {
        Some((name, time)) if is_time(time) => Some(name.trim_end()),
        _ => Some(text),
    }
}
