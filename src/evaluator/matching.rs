//! Finds declared test ids among those that a test program printed.
//!
//! One test has many spellings: `tests/test_a.py::T::test_x` on pytest's terminal, `tests.test_a.T` + `test_x` in its
//! JUnit file, `test_x (tests.test_a.T)` from unittest. All are brought to one dotted form. A declared id may leave out
//! leading parts (`test_x` for `m::tests::test_x`); where it then fits several tests, the worst result counts.

use std::collections::HashMap;

use super::formats::{self, SuiteReport};
use crate::domain::TestStatus;
use crate::domain::verdict::TestResult;

pub(super) struct Index {
    /// Results by the last part of their id.
    by_last: HashMap<String, Vec<(String, TestStatus)>>,
}

impl Index {
    pub(super) fn of(report: Option<&SuiteReport>) -> Self {
        let mut by_last: HashMap<String, Vec<(String, TestStatus)>> = HashMap::new();
        for test in report.map(|report| report.tests.as_slice()).unwrap_or_default() {
            let id = canonical(&test.id);
            by_last.entry(last_part(&id).to_owned()).or_default().push((id, test.status));
        }
        Self { by_last }
    }

    /// Returns the result of a declared test.
    pub(super) fn find(&self, declared: &str) -> TestResult {
        let wanted = canonical(declared);
        let fits = |id: &str| id == wanted || id.strip_suffix(&wanted).is_some_and(|rest| rest.ends_with('.'));
        let candidates = self.by_last.get(last_part(&wanted)).map(Vec::as_slice).unwrap_or_default();
        let exact: Vec<TestStatus> = statuses(candidates, |id| id == wanted);
        let found = if exact.is_empty() { statuses(candidates, fits) } else { exact };
        let status = found.into_iter().max_by_key(|status| formats::severity(*status)).unwrap_or(TestStatus::NotRun);
        TestResult { id: declared.to_owned(), status }
    }
}

fn statuses(candidates: &[(String, TestStatus)], fits: impl Fn(&str) -> bool) -> Vec<TestStatus> {
    candidates.iter().filter(|(id, _)| fits(id)).map(|(_, status)| *status).collect()
}

fn canonical(id: &str) -> String {
    let id = id.trim().trim_start_matches("./");
    if let Some(dotted) = formats::dotted(id) {
        return dotted;
    }
    // A parameter keeps its characters.
    let (head, parameter) = id.find('[').map_or((id, ""), |at| id.split_at(at));
    let head = head.replace(".py::", ".").replace("::", ".").replace(" > ", ".").replace(" \u{203a} ", ".");
    head.replace('/', ".") + parameter
}

/// The part after the last dot before any parameter.
fn last_part(id: &str) -> &str {
    let head = id.find('[').map_or(id, |at| &id[..at]);
    let start = head.rfind('.').map_or(0, |at| at + 1);
    &id[start..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn index(tests: &[(&str, TestStatus)]) -> Index {
        let tests = tests.iter().map(|(id, status)| TestResult { id: (*id).to_owned(), status: *status }).collect();
        Index::of(Some(&SuiteReport { tests, ..SuiteReport::default() }))
    }

    #[test_case("tests/test_a.py::T::test_x[a/b]", "tests.test_a.T.test_x[a/b]"; "pytest in a JUnit file")]
    #[test_case("./tests/test_a.py::test_x", "tests/test_a.py::test_x"; "leading dot")]
    #[test_case("test_x (tests.test_a.T)", "tests.test_a.T.test_x"; "unittest, old")]
    #[test_case("test_x (tests.test_a.T.test_x)", "tests.test_a.T.test_x"; "unittest, new")]
    #[test_case("milliseconds_alone", "tests::milliseconds_alone"; "leading parts left out")]
    #[test_case("TestB/one", "example.com/m.TestB/one"; "go without its package")]
    #[test_case("math > adds", "test/a.test.ts > math > adds"; "vitest without its file")]
    #[test_case("math \u{203a} adds", "math > adds"; "jest")]
    #[test_case("with spaces, v1.2", "with spaces, v1.2"; "a sentence")]
    fn spellings_of_one_test(declared: &str, printed: &str) {
        assert_eq!(index(&[(printed, TestStatus::Passed)]).find(declared).status, TestStatus::Passed);
    }

    #[test_case("test_x", "test_xy"; "longer name")]
    #[test_case("x", "test_x"; "part of a word")]
    #[test_case("t.py::test_x[1]", "t.py::test_x[2]"; "other parameter")]
    #[test_case("a.T.test_x", "test_x"; "printed with less")]
    fn different_tests(declared: &str, printed: &str) {
        assert_eq!(index(&[(printed, TestStatus::Passed)]).find(declared).status, TestStatus::NotRun);
    }

    #[test]
    fn the_exact_id_decides_and_else_the_worst_of_all_that_fit() {
        let both = index(&[("a::works", TestStatus::Passed), ("b::works", TestStatus::Failed)]);
        assert_eq!(both.find("works").status, TestStatus::Failed);
        assert_eq!(both.find("a::works").status, TestStatus::Passed);
        let exact = index(&[("works", TestStatus::Passed), ("b::works", TestStatus::Failed)]);
        assert_eq!(exact.find("works").status, TestStatus::Passed);
    }
}
