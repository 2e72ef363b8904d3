//! The decision: what results, exit code and tree together say. Pure.
//!
//! | exit code | results | ruling |
//! |---|---|---|
//! | 0 | complete, nothing failed | solved where every test that counts passed |
//! | 0 | some failed, none at all, cut, or contradicting | undecided |
//! | not 0 | some failed | not solved, unless every *declared* test passed |
//! | not 0 | all passed | not solved, and the passes are not believed |
//! | not 0 | none at all | `crash`, or undecided where the command itself did not run |
//!
//! Whatever the tests say, an untouched tree solves nothing. A command that does not end in time solves nothing either where
//! the task declares its tests; elsewhere it decides nothing.

use super::formats::SuiteReport;
use super::matching::Index;
use crate::domain::verdict::TestResult;
use crate::domain::{ErrorClass, TestStatus};

/// What is known after the tests ran.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// What a reader understood; `None` where nothing was recognised.
    pub report: Option<&'a SuiteReport>,
    /// Whether results were to be expected: the command names a test program. The exit code alone then proves nothing.
    pub expects_report: bool,
    /// Exit code of the test command; `None` after a signal.
    pub exit: Option<i32>,
    /// Tests that fail before and must pass after.
    pub fail_to_pass: &'a [String],
    /// Tests that pass before and must still pass.
    pub pass_to_pass: &'a [String],
    /// Expected files that are not there.
    pub missing_files: &'a [String],
    /// Whether the tree differs from the baseline.
    pub changed: bool,
    /// Whether the task has visible checks that pass, and tests that the agent could not see.
    pub visible_pass: bool,
}

/// What the evidence says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// Whether the task is solved.
    pub solved: bool,
    /// Why it is what it is.
    pub class: ErrorClass,
    /// Tests that passed, of those that count.
    pub passed: u32,
    /// Tests that count.
    pub total: u32,
    /// Declared tests first, then the others that were named.
    pub tests: Vec<TestResult>,
    /// One line for people, without the exit code.
    pub summary: String,
}

/// The counts that a class is made from.
struct Score {
    passed: u32,
    total: u32,
    tests: Vec<TestResult>,
    /// Whether something passed that did not pass before, as far as the task says.
    gained: bool,
}

/// Decides.
///
/// # Errors
///
/// Why the evidence cannot be believed or decides nothing: an undecided evaluation, never a score.
pub fn classify(evidence: &Evidence<'_>) -> Result<Ruling, String> {
    if let Some(conflict) = evidence.report.and_then(|report| report.conflict.as_ref()) {
        return Err(format!("the test results contradict each other: {conflict}"));
    }
    let score = score(evidence);
    match evidence.report {
        Some(report) if report.ran() > 0 => judge(evidence, report, score),
        None if !evidence.expects_report && score.total == 0 => by_exit_code(evidence),
        report => nothing_ran(evidence, report, score),
    }
}

/// Judges a task that has no test command by its expected files.
///
/// # Errors
///
/// Why there is nothing to judge by.
pub fn classify_files(expected: &[String], missing: &[String], changed: bool) -> Result<Ruling, String> {
    if expected.is_empty() {
        return Err("the task has nothing to judge by: give it a `test_command` or `expected_files`".to_owned());
    }
    let results = expected.iter().map(|path| TestResult {
        id: path.clone(),
        status: if missing.contains(path) { TestStatus::Failed } else { TestStatus::Passed },
    });
    let tests: Vec<TestResult> = results.collect();
    let (passed, total) = (count(&tests, TestStatus::Passed), to_count(tests.len()));
    let solved = changed && missing.is_empty();
    let class = match (solved, changed) {
        (true, _) => ErrorClass::Success,
        (_, false) => ErrorClass::NoChange,
        _ if passed > 0 => ErrorClass::Partial,
        _ => ErrorClass::WrongApproach,
    };
    let mut summary = format!("{passed} of {total} expected files are there");
    note_files(&mut summary, missing);
    note_untouched(&mut summary, passed == total && !changed);
    Ok(Ruling { solved, class, passed, total, tests, summary })
}

/// Judges a test command that did not end in time: the tests that the task declares and that did not report did not run,
/// so the task is not solved. `None` where that cannot be said: no test is declared, or the tree is untouched, so that
/// the tests hang by themselves.
#[must_use]
pub fn classify_timeout(evidence: &Evidence<'_>, limit: std::time::Duration) -> Option<Ruling> {
    let declared = !evidence.fail_to_pass.is_empty() || !evidence.pass_to_pass.is_empty();
    if !declared || !evidence.changed {
        return None;
    }
    let Score { passed, total, tests, gained } = score(evidence);
    let mut summary = format!("the tests did not end within {limit:?}; until then {passed} of {total} passed");
    let missing = count(&tests, TestStatus::NotRun);
    if missing > 0 {
        summary = format!("{summary} and {missing} did not run");
    }
    note_files(&mut summary, evidence.missing_files);
    let crashed = evidence.report.is_none_or(|report| report.ran() == 0);
    let class = class(evidence, false, crashed, gained);
    Some(Ruling { solved: false, class, passed, total, tests, summary })
}

fn score(evidence: &Evidence<'_>) -> Score {
    let index = Index::of(evidence.report);
    let find = |ids: &[String]| ids.iter().map(|id| index.find(id)).collect::<Vec<_>>();
    let must_turn = find(evidence.fail_to_pass);
    let gained = count(&must_turn, TestStatus::Passed) > 0;
    let mut tests = must_turn;
    tests.extend(find(evidence.pass_to_pass));
    if tests.is_empty() {
        let (passed, total) = evidence.report.map_or((0, 0), |report| (report.passed, report.ran()));
        let tests = evidence.report.map(|report| report.tests.clone()).unwrap_or_default();
        return Score { passed, total, tests, gained: passed > 0 };
    }
    let (passed, total) = (count(&tests, TestStatus::Passed), to_count(tests.len()));
    let gained = if evidence.fail_to_pass.is_empty() { passed > 0 } else { gained };
    if let Some(report) = evidence.report {
        let declared: std::collections::HashSet<&str> =
            evidence.fail_to_pass.iter().chain(evidence.pass_to_pass).map(String::as_str).collect();
        tests.extend(report.tests.iter().filter(|test| !declared.contains(test.id.as_str())).cloned());
    }
    Score { passed, total, tests, gained }
}

/// Some test ran.
fn judge(evidence: &Evidence<'_>, report: &SuiteReport, mut score: Score) -> Result<Ruling, String> {
    let all = score.passed == score.total;
    let declared = !evidence.fail_to_pass.is_empty() || !evidence.pass_to_pass.is_empty();
    let mut believed = true;
    let passes = if evidence.exit == Some(0) {
        if report.bad() > 0 {
            return Err(format!(
                "the test command ended with exit code 0 although {} tests failed; let it pass the exit code of the tests on",
                report.bad()
            ));
        }
        if !report.finished {
            return Err("the test output ends before its summary although the exit code is 0".to_owned());
        }
        all
    } else if all && (report.bad() == 0 || !report.finished) {
        believed = false;
        false
    } else {
        // Tests that the task does not count may fail; ending by a signal is no way to pass.
        all && declared && evidence.exit.is_some_and(|code| code < 128)
    };
    let mut summary = format!("{} of {} tests pass", score.passed, score.total);
    if report.skipped > 0 {
        summary = format!("{summary}, {} skipped", report.skipped);
    }
    if !believed {
        summary = format!("all {} tests are reported as passed, but the test command failed", score.total);
        score.passed = 0;
        score.gained = false;
    }
    note_files(&mut summary, evidence.missing_files);
    note_untouched(&mut summary, passes && !evidence.changed);
    let solved = passes && evidence.changed && evidence.missing_files.is_empty();
    let crashed = !believed || (report.passed == 0 && report.failed == 0);
    let class = class(evidence, solved, crashed && !(evidence.visible_pass && believed), score.gained);
    Ok(Ruling { solved, class, passed: score.passed, total: score.total, tests: score.tests, summary })
}

/// Results were to be expected, and no test ran.
fn nothing_ran(evidence: &Evidence<'_>, report: Option<&SuiteReport>, score: Score) -> Result<Ruling, String> {
    match (evidence.exit, report) {
        (Some(0), None) => {
            return Err("the test command ended with exit code 0, but no test result was recognised in its output; \
                        have it write JUnit XML to `$REFRAIN_REPORT_DIR`"
                .to_owned());
        }
        (Some(0), Some(_)) => return Err("no test ran although the exit code is 0".to_owned()),
        (Some(code @ (126 | 127)), None) => {
            return Err(format!("the test command could not be run (exit code {code})"));
        }
        (Some(code), Some(report)) if report.finished => {
            return Err(format!("no test ran (exit code {code}); does the test command select the right tests?"));
        }
        _ => {}
    }
    let mut summary = "the tests crashed before the first of them ran".to_owned();
    note_files(&mut summary, evidence.missing_files);
    let class = class(evidence, false, true, false);
    Ok(Ruling { solved: false, class, passed: 0, total: score.total, tests: score.tests, summary })
}

/// Nothing is known but the exit code, and the task asks for no more.
fn by_exit_code(evidence: &Evidence<'_>) -> Result<Ruling, String> {
    if let Some(code @ (126 | 127)) = evidence.exit {
        return Err(format!("the test command could not be run (exit code {code})"));
    }
    let passes = evidence.exit == Some(0);
    let mut summary = format!("judged by the exit code alone: {}", if passes { "passed" } else { "failed" });
    note_files(&mut summary, evidence.missing_files);
    note_untouched(&mut summary, passes && !evidence.changed);
    let solved = passes && evidence.changed && evidence.missing_files.is_empty();
    let class = class(evidence, solved, evidence.exit.is_none(), passes);
    Ok(Ruling { solved, class, passed: u32::from(passes), total: 1, tests: Vec::new(), summary })
}

fn class(evidence: &Evidence<'_>, solved: bool, crashed: bool, gained: bool) -> ErrorClass {
    if solved {
        ErrorClass::Success
    } else if !evidence.changed {
        ErrorClass::NoChange
    } else if crashed {
        ErrorClass::Crash
    } else if evidence.visible_pass {
        ErrorClass::Overfit
    } else if gained {
        ErrorClass::Partial
    } else {
        ErrorClass::WrongApproach
    }
}

fn note_files(summary: &mut String, missing: &[String]) {
    if !missing.is_empty() {
        summary.push_str("; missing: ");
        summary.push_str(&missing.join(", "));
    }
}

fn note_untouched(summary: &mut String, passes_untouched: bool) {
    if passes_untouched {
        summary.push_str("; the untouched tree passes, so nothing was shown");
    }
}

fn count(tests: &[TestResult], status: TestStatus) -> u32 {
    to_count(tests.iter().filter(|test| test.status == status).count())
}

fn to_count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
