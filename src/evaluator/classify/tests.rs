use proptest::prelude::*;
use test_case::test_case;

use super::*;

fn report(passed: u32, failed: u32, errored: u32, skipped: u32) -> SuiteReport {
    SuiteReport { passed, failed, errored, skipped, finished: true, ..SuiteReport::default() }
}

fn named(tests: &[(&str, TestStatus)]) -> SuiteReport {
    let tests: Vec<TestResult> =
        tests.iter().map(|(id, status)| TestResult { id: (*id).to_owned(), status: *status }).collect();
    let of = |status| count(&tests, status);
    SuiteReport {
        passed: of(TestStatus::Passed),
        failed: of(TestStatus::Failed),
        errored: of(TestStatus::Errored),
        skipped: of(TestStatus::Skipped),
        finished: true,
        conflict: None,
        tests,
    }
}

fn changed(report: &SuiteReport, exit: i32) -> Evidence<'_> {
    Evidence { report: Some(report), expects_report: true, exit: Some(exit), changed: true, ..Evidence::default() }
}

fn ids(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn ruled(evidence: &Evidence<'_>) -> (bool, ErrorClass, u32, u32) {
    let ruling = classify(evidence).expect("decided");
    (ruling.solved, ruling.class, ruling.passed, ruling.total)
}

fn undecided(evidence: &Evidence<'_>) -> String {
    classify(evidence).expect_err("undecided")
}

#[test]
fn all_tests_pass_and_the_exit_code_agrees() {
    let results = report(3, 0, 0, 1);
    assert_eq!(ruled(&changed(&results, 0)), (true, ErrorClass::Success, 3, 3));
    assert_eq!(classify(&changed(&results, 0)).expect("decided").summary, "3 of 3 tests pass, 1 skipped");
}

#[test_case(report(2, 1, 0, 0), ErrorClass::Partial, 2, 3; "some pass")]
#[test_case(report(0, 3, 0, 0), ErrorClass::WrongApproach, 0, 3; "none pass")]
#[test_case(report(0, 0, 1, 0), ErrorClass::Crash, 0, 1; "only errors")]
#[test_case(report(0, 1, 2, 0), ErrorClass::WrongApproach, 0, 3; "failures and errors")]
fn failing_tests_with_an_exit_code_that_agrees(results: SuiteReport, class: ErrorClass, passed: u32, total: u32) {
    assert_eq!(ruled(&changed(&results, 1)), (false, class, passed, total));
}

#[test]
fn printed_passes_without_the_exit_code_are_not_believed() {
    // An agent's code printed a pass for every test; the test program ended with 1.
    let results = report(12, 0, 0, 0);
    assert_eq!(ruled(&changed(&results, 1)), (false, ErrorClass::Crash, 0, 12));
    let signal = Evidence { exit: None, ..changed(&results, 0) };
    assert_eq!(ruled(&signal), (false, ErrorClass::Crash, 0, 12));
}

#[test]
fn failures_with_exit_code_0_decide_nothing() {
    let message = undecided(&changed(&report(2, 1, 0, 0), 0));
    assert!(message.contains("exit code 0 although 1 tests failed"), "{message}");
}

#[test_case(Some(report(0, 0, 0, 0)), 0; "zero tests")]
#[test_case(Some(report(0, 0, 0, 5)), 0; "all skipped")]
#[test_case(Some(report(0, 0, 0, 0)), 5; "nothing collected")]
#[test_case(None, 0; "silence")]
#[test_case(None, 127; "no such program")]
#[test_case(None, 126; "not executable")]
fn zero_tests_are_never_a_pass(results: Option<SuiteReport>, exit: i32) {
    let evidence = Evidence {
        report: results.as_ref(),
        expects_report: true,
        exit: Some(exit),
        changed: true,
        ..Evidence::default()
    };
    undecided(&evidence);
    // Declared tests change nothing about that.
    let wanted = ids(&["t1"]);
    undecided(&Evidence { fail_to_pass: &wanted, expects_report: false, ..evidence });
}

#[test]
fn a_crash_before_the_first_test() {
    let wanted = ids(&["t1", "t2"]);
    let evidence = Evidence { exit: Some(101), fail_to_pass: &wanted, changed: true, ..Evidence::default() };
    assert_eq!(ruled(&evidence), (false, ErrorClass::Crash, 0, 2));
    let tests = classify(&evidence).expect("decided").tests;
    assert!(tests.iter().all(|test| test.status == TestStatus::NotRun));
    assert_eq!(ruled(&Evidence { changed: false, ..evidence }).1, ErrorClass::NoChange);
}

#[test]
fn an_output_without_its_end_and_exit_code_0() {
    // The tested code ended the test program.
    let results = SuiteReport { finished: false, ..report(2, 0, 0, 0) };
    assert!(undecided(&changed(&results, 0)).contains("ends before its summary"));
}

#[test]
fn a_contradiction_decides_nothing_whatever_the_exit_code() {
    let results = SuiteReport { conflict: Some("2 against 1".to_owned()), ..report(2, 0, 0, 0) };
    for exit in [0, 1] {
        assert!(undecided(&changed(&results, exit)).contains("contradict each other: 2 against 1"));
    }
}

#[test]
fn the_score_is_over_the_declared_tests() {
    use TestStatus::{Failed, Passed, Skipped};
    let results = named(&[("m::new", Passed), ("m::old", Failed), ("m::left", Skipped), ("m::other", Failed)]);
    let (turn, stay) = (ids(&["new", "gone"]), ids(&["old", "left"]));
    let evidence = Evidence { fail_to_pass: &turn, pass_to_pass: &stay, ..changed(&results, 1) };
    assert_eq!(ruled(&evidence), (false, ErrorClass::Partial, 1, 4));
    let tests = classify(&evidence).expect("decided").tests;
    let shown: Vec<_> = tests.iter().take(4).map(|test| (test.id.as_str(), test.status)).collect();
    assert_eq!(
        shown,
        [("new", Passed), ("gone", TestStatus::NotRun), ("old", Failed), ("left", Skipped)],
        "a declared test that was skipped or did not run has not passed"
    );
}

#[test]
fn tests_that_nobody_declared_may_fail() {
    use TestStatus::{Failed, Passed};
    let results = named(&[("new", Passed), ("other", Failed)]);
    let turn = ids(&["new"]);
    let evidence = Evidence { fail_to_pass: &turn, ..changed(&results, 1) };
    assert_eq!(ruled(&evidence), (true, ErrorClass::Success, 1, 1));
    assert!(!ruled(&Evidence { exit: None, ..evidence }).0, "not by a signal");
    assert!(!ruled(&Evidence { exit: Some(139), ..evidence }).0, "not by a signal that a shell reports");
    let cut = SuiteReport { finished: false, ..results.clone() };
    assert!(!ruled(&Evidence { report: Some(&cut), ..evidence }).0, "not without the end");
}

#[test]
fn tests_that_passed_before_are_no_progress() {
    use TestStatus::{Failed, Passed};
    let results = named(&[("new", Failed), ("old", Passed)]);
    let (turn, stay) = (ids(&["new"]), ids(&["old"]));
    let evidence = Evidence { fail_to_pass: &turn, pass_to_pass: &stay, ..changed(&results, 1) };
    assert_eq!(ruled(&evidence), (false, ErrorClass::WrongApproach, 1, 2));
}

#[test]
fn visible_checks_pass_and_hidden_tests_do_not() {
    for results in [report(0, 3, 0, 0), report(2, 1, 0, 0), report(0, 0, 1, 0)] {
        let evidence = Evidence { visible_pass: true, ..changed(&results, 1) };
        assert_eq!(ruled(&evidence).1, ErrorClass::Overfit);
    }
    let forged = report(3, 0, 0, 0);
    assert_eq!(ruled(&Evidence { visible_pass: true, ..changed(&forged, 1) }).1, ErrorClass::Crash);
}

#[test]
fn an_untouched_tree_solves_nothing() {
    let results = report(3, 0, 0, 0);
    let evidence = Evidence { changed: false, ..changed(&results, 0) };
    assert_eq!(ruled(&evidence), (false, ErrorClass::NoChange, 3, 3));
    assert!(classify(&evidence).expect("decided").summary.contains("the untouched tree passes"));
}

#[test]
fn a_missing_file_is_not_made_up_for_by_tests() {
    let results = report(3, 0, 0, 0);
    let missing = ids(&["docs/a.md"]);
    let evidence = Evidence { missing_files: &missing, ..changed(&results, 0) };
    assert_eq!(ruled(&evidence), (false, ErrorClass::Partial, 3, 3));
    assert_eq!(classify(&evidence).expect("decided").summary, "3 of 3 tests pass; missing: docs/a.md");
}

#[test]
fn the_exit_code_alone_where_nothing_else_was_asked_for() {
    let plain = |exit| Evidence { exit, changed: true, ..Evidence::default() };
    assert_eq!(ruled(&plain(Some(0))), (true, ErrorClass::Success, 1, 1));
    assert_eq!(ruled(&plain(Some(1))), (false, ErrorClass::WrongApproach, 0, 1));
    assert_eq!(ruled(&plain(None)), (false, ErrorClass::Crash, 0, 1));
    undecided(&plain(Some(127)));
    let summary = classify(&plain(Some(0))).expect("decided").summary;
    assert_eq!(summary, "judged by the exit code alone: passed");
}

#[test]
fn expected_files_alone() {
    let (wanted, missing) = (ids(&["a", "b"]), ids(&["b"]));
    let ruling = classify_files(&wanted, &missing, true).expect("decided");
    assert_eq!((ruling.solved, ruling.class, ruling.passed, ruling.total), (false, ErrorClass::Partial, 1, 2));
    assert_eq!(ruling.summary, "1 of 2 expected files are there; missing: b");
    assert!(classify_files(&wanted, &[], true).expect("decided").solved);
    assert_eq!(classify_files(&wanted, &wanted, true).expect("decided").class, ErrorClass::WrongApproach);
    assert_eq!(classify_files(&wanted, &[], false).expect("decided").class, ErrorClass::NoChange);
    assert!(classify_files(&[], &[], true).is_err());
}

proptest! {
    #[test]
    fn nothing_is_solved_without_a_passing_test_an_agreeing_exit_code_and_a_change(
        (passed, failed, errored, skipped) in (0u32..3, 0u32..3, 0u32..3, 0u32..3),
        exit in proptest::option::of(-1i32..140),
        (finished, expects, was_changed, visible, conflicting, recognised) in any::<(bool, bool, bool, bool, bool, bool)>(),
        declared in 0usize..3,
    ) {
        let mut results = report(passed, failed, errored, skipped);
        results.finished = finished;
        results.conflict = conflicting.then(|| "x".to_owned());
        let wanted: Vec<String> = (0..declared).map(|n| format!("t{n}")).collect();
        let evidence = Evidence {
            report: recognised.then_some(&results),
            expects_report: expects,
            exit,
            fail_to_pass: &wanted,
            changed: was_changed,
            visible_pass: visible,
            ..Evidence::default()
        };
        if let Ok(ruling) = classify(&evidence) {
            prop_assert!(ruling.passed <= ruling.total);
            prop_assert_eq!(ruling.solved, ruling.class == ErrorClass::Success);
            if ruling.solved {
                prop_assert!(was_changed && exit == Some(0) && ruling.passed > 0 && ruling.passed == ruling.total);
                // None of the reports names a test, so a declared one never passed.
                prop_assert!(declared == 0);
                prop_assert!(!recognised || (finished && failed + errored == 0));
            }
        }
    }
}
