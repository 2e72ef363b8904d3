//! `go test`: text with or without `-v`, and JSON lines (`-json`).
//!
//! A package whose tests are not named (no `-v`) counts as one test with the package as its id.

use serde::Deserialize;

use super::{Results, SuiteReport};
use crate::domain::TestStatus;

pub(super) fn read(text: &str) -> Option<SuiteReport> {
    read_json(text).or_else(|| read_text(text))
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "Action")]
    action: String,
    #[serde(rename = "Package", default)]
    package: String,
    #[serde(rename = "Test")]
    test: Option<String>,
}

fn read_json(text: &str) -> Option<SuiteReport> {
    let mut packages = Packages::default();
    let mut found = false;
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let Ok(event) = serde_json::from_str::<Event>(line) else { continue };
        let status = match event.action.as_str() {
            "pass" => TestStatus::Passed,
            "fail" => TestStatus::Failed,
            "skip" => TestStatus::Skipped,
            "start" | "run" => {
                found = true;
                packages.begin(&event.package);
                continue;
            }
            _ => continue,
        };
        found = true;
        match event.test {
            Some(name) => packages.test(&event.package, &name, status),
            None => packages.end(&event.package, status),
        }
    }
    found.then(|| packages.report())
}

fn read_text(text: &str) -> Option<SuiteReport> {
    let mut packages = Packages::default();
    let mut pending: Vec<(String, TestStatus)> = Vec::new();
    let mut found = false;
    for line in text.lines().map(str::trim_end) {
        if let Some((name, status)) = test_line(line) {
            pending.push((name.to_owned(), status));
        } else if let Some((package, status)) = package_line(line) {
            found = true;
            for (name, status) in pending.drain(..) {
                packages.test(package, &name, status);
            }
            if let Some(status) = status {
                packages.end(package, status);
            }
        }
    }
    if !pending.is_empty() {
        found = true;
        packages.begin("");
        for (name, status) in pending {
            packages.test("", &name, status);
        }
    }
    found.then(|| packages.report())
}

/// Reads `--- PASS: TestX (0.00s)`; subtests are indented.
fn test_line(line: &str) -> Option<(&str, TestStatus)> {
    let (word, rest) = line.trim_start().strip_prefix("--- ")?.split_once(": ")?;
    let status = match word {
        "PASS" => TestStatus::Passed,
        "FAIL" => TestStatus::Failed,
        "SKIP" => TestStatus::Skipped,
        _ => return None,
    };
    Some((rest.rsplit_once(" (").map_or(rest, |(name, _)| name), status))
}

/// Reads the lines about whole packages (`ok`, `FAIL`, `?`, a tab, the package, the rest); the status is `None` for a
/// package without tests.
fn package_line(line: &str) -> Option<(&str, Option<TestStatus>)> {
    let (word, rest) = line.split_once('\t')?;
    let package = rest.split(['\t', ' ']).next()?;
    let status = match word.trim_end() {
        "ok" if line.contains("[no tests to run]") => None,
        "ok" => Some(TestStatus::Passed),
        "FAIL" if line.contains("failed]") => Some(TestStatus::Errored),
        "FAIL" => Some(TestStatus::Failed),
        "?" => None,
        _ => return None,
    };
    (!package.is_empty()).then_some((package, status))
}

#[derive(Debug, Default)]
struct Package {
    name: String,
    tests: Vec<(String, TestStatus)>,
    end: Option<TestStatus>,
}

#[derive(Debug, Default)]
struct Packages(Vec<Package>);

impl Packages {
    fn begin(&mut self, name: &str) -> &mut Package {
        let at = self.0.iter().position(|package| package.name == name).unwrap_or_else(|| {
            self.0.push(Package { name: name.to_owned(), ..Package::default() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    fn test(&mut self, package: &str, test: &str, status: TestStatus) {
        self.begin(package).tests.push((test.to_owned(), status));
    }

    fn end(&mut self, package: &str, status: TestStatus) {
        self.begin(package).end = Some(status);
    }

    fn report(self) -> SuiteReport {
        let mut results = Results::default();
        let mut finished = true;
        let mut conflict = None;
        for package in self.0 {
            let bad = package.tests.iter().any(|(_, status)| *status == TestStatus::Failed);
            match package.end {
                None if package.tests.is_empty() => {}
                None => finished = false,
                Some(TestStatus::Passed) if bad => {
                    conflict = Some(format!("package `{}` is `ok`, one of its tests failed", package.name));
                }
                // It failed beyond its tests: a build, a panic, an early exit.
                Some(TestStatus::Failed | TestStatus::Errored) if !bad => {
                    results.push(package.name.clone(), TestStatus::Errored);
                }
                Some(TestStatus::Passed) if package.tests.is_empty() => {
                    results.push(package.name.clone(), TestStatus::Passed);
                }
                Some(_) => {}
            }
            for (test, status) in package.tests {
                let id = if package.name.is_empty() { test } else { format!("{}.{test}", package.name) };
                results.push(id, status);
            }
        }
        SuiteReport { finished, conflict, ..SuiteReport::of(results) }
    }
}
