//! What the evaluator said of a final workspace.

use serde::{Deserialize, Serialize};

use super::failure::{ErrorClass, names};

/// The result of one test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestStatus {
    /// It passed.
    Passed,
    /// It failed.
    Failed,
    /// It could not run.
    Errored,
    /// It was left out; never counts as passed.
    Skipped,
    /// It is declared but no result was seen.
    NotRun,
}

names!(TestStatus {
    Passed => "passed",
    Failed => "failed",
    Errored => "errored",
    Skipped => "skipped",
    NotRun => "not_run",
});

/// One test and its result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TestResult {
    /// Its id as the test program prints it.
    pub id: String,
    /// Its result.
    pub status: TestStatus,
}

/// A verdict. `passed / total` is over the declared tests where a task declares some, else over all tests that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether the task is solved.
    pub solved: bool,
    /// Why it is what it is.
    pub class: ErrorClass,
    /// Tests that passed, of those that count.
    pub passed: u32,
    /// Tests that count.
    pub total: u32,
    /// The single results, where the test program named them.
    #[serde(default)]
    pub tests: Vec<TestResult>,
    /// Exit code of the test command.
    pub exit_code: Option<i32>,
    /// Which reader understood the output (`pytest`, `tap`, …).
    pub format: Option<String>,
    /// One line for people.
    pub summary: String,
    /// The test program's own words, redacted and cut to size.
    pub report: String,
}

impl Verdict {
    /// Returns the share of tests that passed; `None` where nothing was counted.
    #[must_use]
    pub fn score(&self) -> Option<f64> {
        (self.total > 0).then(|| f64::from(self.passed) / f64::from(self.total))
    }
}
