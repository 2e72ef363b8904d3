//! Readers of what test programs print or write: pure functions from text to a [`SuiteReport`], one file each.
//!
//! No reader crashes on cut, interleaved or forged lines. Where an output has a summary, the last one wins, and it must
//! agree with the single lines: a contradiction is kept in [`SuiteReport::conflict`] and never resolved by guessing.
//! Start with [`read`]; [`named_in`] finds out which formats a test command leads one to expect.

mod bun;
mod go;
mod jest;
mod junit;
mod libtest;
mod pytest;
mod tap;
mod unittest;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

pub(super) use unittest::dotted;

use crate::domain::TestStatus;
use crate::domain::failure::names;
use crate::domain::verdict::TestResult;

/// A format that a reader understands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// JUnit XML, from files.
    Junit,
    /// pytest on a terminal or in a log.
    Pytest,
    /// Python's unittest.
    Unittest,
    /// Rust's built-in test harness, as `cargo test` shows it.
    Libtest,
    /// `go test`, as text or as JSON lines.
    Go,
    /// The Test Anything Protocol, versions 12 to 14.
    Tap,
    /// jest and vitest.
    Jest,
    /// `bun test`.
    Bun,
}

names!(Format {
    Junit => "junit",
    Pytest => "pytest",
    Unittest => "unittest",
    Libtest => "libtest",
    Go => "go",
    Tap => "tap",
    Jest => "jest",
    Bun => "bun",
});

/// What a reader understood.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SuiteReport {
    /// The single results that the output names, each id once, with the worst status seen for it.
    pub tests: Vec<TestResult>,
    /// Tests that passed. The counts may be larger than what `tests` names: terse outputs name failures only.
    pub passed: u32,
    /// Tests that failed.
    pub failed: u32,
    /// Tests, or whole files, that could not run.
    pub errored: u32,
    /// Tests that were left out, or were expected to fail and did.
    pub skipped: u32,
    /// Whether the output has the end that its format promises.
    pub finished: bool,
    /// A contradiction inside the output.
    pub conflict: Option<String>,
}

impl SuiteReport {
    /// Makes a report from single results alone.
    fn of(results: Results) -> Self {
        let tests = results.worst();
        let count = |status| to_count(tests.iter().filter(|test| test.status == status).count());
        Self {
            passed: count(TestStatus::Passed),
            failed: count(TestStatus::Failed),
            errored: count(TestStatus::Errored),
            skipped: count(TestStatus::Skipped),
            finished: true,
            conflict: None,
            tests,
        }
    }

    /// Returns how many tests ran, whatever their result.
    #[must_use]
    pub fn ran(&self) -> u32 {
        self.passed.saturating_add(self.bad())
    }

    /// Returns how many tests failed or could not run.
    #[must_use]
    pub fn bad(&self) -> u32 {
        self.failed.saturating_add(self.errored)
    }

    /// Adds another report: several files, or several programs in one command.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let mut results = Results::default();
        for test in self.tests.into_iter().chain(other.tests) {
            results.push(test.id, test.status);
        }
        Self {
            tests: results.worst(),
            passed: self.passed.saturating_add(other.passed),
            failed: self.failed.saturating_add(other.failed),
            errored: self.errored.saturating_add(other.errored),
            skipped: self.skipped.saturating_add(other.skipped),
            finished: self.finished && other.finished,
            conflict: self.conflict.or(other.conflict),
        }
    }
}

/// Single results in the order they were seen.
#[derive(Debug, Default)]
struct Results(Vec<TestResult>);

impl Results {
    /// More than this nobody reads, and an output may be made to be large.
    const MAX: usize = 200_000;

    fn push(&mut self, id: impl Into<String>, status: TestStatus) {
        if self.0.len() < Self::MAX {
            self.0.push(TestResult { id: id.into(), status });
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts the different ids that were seen with a status.
    fn distinct(&self, status: TestStatus) -> u32 {
        let ids: std::collections::HashSet<&str> =
            self.0.iter().filter(|test| test.status == status).map(|test| test.id.as_str()).collect();
        to_count(ids.len())
    }

    /// Keeps each id once, with its worst status: a line that claims a pass never hides a failure.
    fn worst(self) -> Vec<TestResult> {
        let mut place: HashMap<String, usize> = HashMap::new();
        let mut kept: Vec<TestResult> = Vec::new();
        for test in self.0 {
            if let Some(&at) = place.get(&test.id) {
                if severity(test.status) > severity(kept[at].status) {
                    kept[at].status = test.status;
                }
            } else {
                place.insert(test.id.clone(), kept.len());
                kept.push(test);
            }
        }
        kept
    }
}

/// How bad a status is; where a test was seen with several, the worst counts.
#[must_use]
pub fn severity(status: TestStatus) -> u8 {
    match status {
        TestStatus::Passed => 0,
        TestStatus::Skipped => 1,
        TestStatus::NotRun => 2,
        TestStatus::Errored => 3,
        TestStatus::Failed => 4,
    }
}

/// Reads one text in one format; `None` where it holds nothing of the format.
#[must_use]
pub fn read(format: Format, bytes: &[u8]) -> Option<SuiteReport> {
    if format == Format::Junit {
        return junit::read(bytes);
    }
    let text = plain(bytes);
    match format {
        Format::Junit => None,
        Format::Pytest => pytest::read(&text),
        Format::Unittest => unittest::read(&text),
        Format::Libtest => libtest::read(&text),
        Format::Go => go::read(&text),
        Format::Tap => tap::read(&text),
        Format::Jest => jest::read(&text),
        Format::Bun => bun::read(&text),
    }
}

/// Returns the formats that a shell command leads one to expect, by the test programs it names.
///
/// The command is the task's, not the agent's: that makes it a better witness than anything in the output.
#[must_use]
pub fn named_in(command: &str) -> Vec<Format> {
    let words: Vec<&str> = command
        .split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '(' | ')' | '"' | '\'' | '`'))
        .filter(|word| !word.is_empty())
        .map(|word| word.rsplit('/').next().unwrap_or(word))
        .collect();
    let mut formats = Vec::new();
    for (at, word) in words.iter().enumerate() {
        // Options and toolchain selectors may stand between a program and its subcommand.
        let subcommand =
            || words.get(at + 1..).unwrap_or_default().iter().find(|next| !next.starts_with(['-', '+'])).copied();
        let format = match *word {
            "pytest" | "py.test" => Format::Pytest,
            "unittest" => Format::Unittest,
            "manage.py" if subcommand() == Some("test") => Format::Unittest,
            "cargo" if matches!(subcommand(), Some("test" | "t")) => Format::Libtest,
            "go" if subcommand() == Some("test") => Format::Go,
            "bun" if subcommand() == Some("test") => Format::Bun,
            "jest" | "vitest" => Format::Jest,
            _ => continue,
        };
        if !formats.contains(&format) {
            formats.push(format);
        }
    }
    formats
}

/// Makes text of bytes: escape sequences of terminals and carriage returns go, invalid UTF-8 is replaced.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.peek() {
                Some('[') => {
                    chars.next();
                    // A control sequence ends at its first letter-like character; one that is cut ends at the line.
                    while let Some(&next) = chars.peek() {
                        if next == '\n' {
                            break;
                        }
                        chars.next();
                        if ('@'..='~').contains(&next) {
                            break;
                        }
                    }
                }
                Some(_) => {
                    chars.next();
                }
                None => {}
            },
            '\r' => {}
            _ => out.push(c),
        }
    }
    out
}

fn to_count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// Splits `12 rest` into the number and what follows it.
fn leading_number(text: &str) -> Option<(u32, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end)?.parse().ok()?;
    Some((number, text.get(end..)?))
}

#[cfg(test)]
mod tests;
