//! How results of strategy tests are written: for people, as JSON, as TAP.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use crate::redact::printable;
use crate::script::testing::{TestFile, TestProgress, TestReport, TestResult};

/// Writes results for people while they come: a line a test, failures with their reason and what was printed.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// A file of which nothing was written yet.
    file: Option<PathBuf>,
}

impl Lines {
    /// Returns what there is to write now.
    pub(super) fn next(&mut self, progress: &TestProgress<'_>) -> String {
        match progress {
            TestProgress::File(path) => {
                self.file = Some(path.to_path_buf());
                String::new()
            }
            TestProgress::Test(result) => self.head() + &one(result),
            TestProgress::FileEnd(file) => match &file.error {
                Some(error) => format!(
                    "{}  \x1b[1;31mFAILED\x1b[0m  the file itself\n{}",
                    self.head(),
                    indented(&error.to_string(), 10)
                ),
                None => String::new(),
            },
        }
    }

    fn head(&mut self) -> String {
        let file = self.file.take();
        file.map(|file| format!("{}\n", printable(&file.display().to_string()))).unwrap_or_default()
    }
}

fn one(result: &TestResult) -> String {
    let word = if result.ok { "\x1b[32mok\x1b[0m    " } else { "\x1b[1;31mFAILED\x1b[0m" };
    let mut text = format!("  {word}  {}\n{}", printable(&result.name), indented(&reason(result), 10));
    if !result.ok && !result.output.is_empty() {
        text.push_str(&format!("{:10}printed:\n{}", "", indented(&result.output.join("\n"), 12)));
    }
    text
}

/// Writes what comes after the last test: coverage and totals.
pub(super) fn summary(report: &TestReport) -> String {
    format!("{}{} passed, {} failed\n", coverage(report), report.passed(), report.failed())
}

/// Returns why a test failed, with its place; empty for one that passed.
fn reason(result: &TestResult) -> String {
    let message = result.message.as_deref().unwrap_or_default();
    match &result.place {
        Some(place) => format!("{place}: {message}"),
        None => message.to_owned(),
    }
}

fn indented(text: &str, by: usize) -> String {
    let mut indented = String::new();
    for line in text.lines() {
        indented.push_str(&format!("{:by$}{}\n", "", printable(line)));
    }
    indented
}

/// Sums up the coverage of all files: one orchestrator may have several test files.
fn merged(report: &TestReport) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let mut merged: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
    for file in &report.files {
        for (name, lines) in &file.coverage {
            let name = file.root.join(name).display().to_string();
            let counts = merged.entry(name).or_default();
            for (line, count) in lines {
                *counts.entry(*line).or_default() += count;
            }
        }
    }
    merged
}

fn coverage(report: &TestReport) -> String {
    let mut text = String::new();
    for (name, lines) in merged(report) {
        let ran = lines.values().filter(|count| **count > 0).count();
        let missed = ranges(lines.iter().filter(|(_, count)| **count == 0).map(|(line, _)| *line));
        let rest = if missed.is_empty() { String::new() } else { format!("; never: {missed}") };
        text.push_str(&format!("{}: {ran} of {} lines ran{rest}\n", printable(&name), lines.len()));
    }
    text
}

/// Writes rising numbers as `3, 7-9`.
fn ranges(numbers: impl Iterator<Item = u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let shown =
        runs.into_iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") });
    shown.collect::<Vec<_>>().join(", ")
}

/// Makes the results a JSON value.
pub(super) fn json(report: &TestReport) -> Value {
    let files: Vec<Value> = report.files.iter().map(file_json).collect();
    json!({
        "schema": 1,
        "ok": report.ok(),
        "passed": report.passed(),
        "failed": report.failed(),
        "files": files,
    })
}

fn file_json(file: &TestFile) -> Value {
    let tests: Vec<Value> = file
        .results
        .iter()
        .map(|test| {
            json!({
                "name": test.name,
                "ok": test.ok,
                "message": test.message,
                "place": test.place,
                "output": test.output,
                "duration_ms": millis(test.duration),
            })
        })
        .collect();
    json!({"path": file.path, "tests": tests, "error": file.error, "coverage": file.coverage})
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Writes the results in the Test Anything Protocol, version 14.
pub(super) fn tap(report: &TestReport) -> String {
    let mut text = format!("TAP version 14\n1..{}\n", report.passed() + report.failed());
    let mut number = 0;
    let mut point = |file: &TestFile, ok: bool, name: &str, reason: &str| {
        number += 1;
        let word = if ok { "ok" } else { "not ok" };
        // A `#` would begin a directive: a test must not skip itself by its name.
        let name = printable(&format!("{}: {name}", file.path.display())).replace('\\', "\\\\").replace('#', "\\#");
        text.push_str(&format!("{word} {number} - {}\n", name.replace('\n', " ")));
        if !reason.is_empty() {
            text.push_str(&format!("  ---\n  message: |-\n{}  ...\n", indented(reason, 4)));
        }
    };
    for file in &report.files {
        for result in &file.results {
            point(file, result.ok, &result.name, &reason(result));
        }
        if let Some(error) = &file.error {
            point(file, false, "the file itself", &error.to_string());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that is written for people.
    fn text(report: &TestReport) -> String {
        let mut lines = Lines::default();
        let mut text = String::new();
        for file in &report.files {
            text.push_str(&lines.next(&TestProgress::File(&file.path)));
            for result in &file.results {
                text.push_str(&lines.next(&TestProgress::Test(result)));
            }
            text.push_str(&lines.next(&TestProgress::FileEnd(file)));
        }
        text + &summary(report)
    }

    fn result(name: &str, message: Option<&str>) -> TestResult {
        TestResult {
            name: name.to_owned(),
            ok: message.is_none(),
            message: message.map(str::to_owned),
            place: message.map(|_| "a_test.lua:3".to_owned()),
            output: vec!["round 1".to_owned(), "[run 1] warn: \x1b[2Jlow".to_owned()],
            duration: Duration::from_millis(2),
        }
    }

    fn report() -> TestReport {
        let coverage = BTreeMap::from([("runner.lua".to_owned(), BTreeMap::from([(1, 2), (2, 0), (3, 0), (5, 0)]))]);
        let results = vec![result("works", None), result("# skip\x1b[2J\nnot ok", Some("expected 1\n  got 2"))];
        let file =
            TestFile { path: PathBuf::from("x/a_test.lua"), root: PathBuf::from("x"), results, error: None, coverage };
        TestReport { files: vec![file] }
    }

    #[test]
    fn people_see_the_reason_and_the_lines_that_never_ran() {
        let shown = text(&report());
        assert!(shown.contains("          a_test.lua:3: expected 1\n            got 2\n"), "{shown}");
        assert!(shown.contains("          printed:\n            round 1\n            [run 1] warn: "), "{shown}");
        assert_eq!(shown.matches("round 1").count(), 1, "only where a test failed: {shown}");
        assert!(shown.ends_with("x/runner.lua: 1 of 4 lines ran; never: 2-3, 5\n1 passed, 1 failed\n"), "{shown}");
        assert!(!shown.contains("\x1b[2J"), "{shown:?}");
    }

    #[test]
    fn a_name_cannot_forge_a_tap_line() {
        assert_eq!(
            tap(&report()),
            "TAP version 14\n1..2\nok 1 - x/a_test.lua: works\nnot ok 2 - x/a_test.lua: \\# skip not ok\n  ---\n  \
             message: |-\n    a_test.lua:3: expected 1\n      got 2\n  ...\n"
        );
    }
}
