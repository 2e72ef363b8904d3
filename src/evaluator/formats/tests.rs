use proptest::prelude::*;
use test_case::test_case;

use super::*;

/// Reads a text and returns passed, failed, errored, skipped.
fn counts(format: Format, text: &str) -> (u32, u32, u32, u32) {
    let report = read(format, text.as_bytes()).expect("recognised");
    assert_eq!(report.conflict, None, "no contradiction");
    assert!(report.finished, "the end was seen");
    (report.passed, report.failed, report.errored, report.skipped)
}

fn status(format: Format, text: &str, id: &str) -> Option<TestStatus> {
    let report = read(format, text.as_bytes()).expect("recognised");
    report.tests.iter().find(|test| test.id == id).map(|test| test.status)
}

fn conflict(format: Format, text: &str) -> String {
    read(format, text.as_bytes()).expect("recognised").conflict.expect("a contradiction")
}

fn unfinished(format: Format, text: &str) -> SuiteReport {
    let report = read(format, text.as_bytes()).expect("recognised");
    assert!(!report.finished, "the end is missing");
    report
}

// --- pytest ---------------------------------------------------------------------------------------------------------

const PYTEST: &str = "\
============================= test session starts ==============================
collecting ... collected 14 items

test_b.py::test_p[a b] PASSED                                            [  7%]
test_b.py::test_p[c/d] FAILED                                            [ 14%]
test_b.py::test_td PASSED                                                [ 21%]
test_b.py::test_td ERROR                                                 [ 21%]
test_b.py::test_xf XFAIL                                                 [ 28%]
test_b.py::test_xp XPASS                                                 [ 35%]
test_b.py::test_sk SKIPPED (no)                                          [ 42%]
test_a.py::T::test_doc PASSED                                            [ 50%]
test_a.py::T::test_err FAILED                                            [ 57%]
test_a.py::T::test_fail FAILED                                           [ 64%]
test_a.py::T::test_pass PASSED                                           [ 71%]
test_a.py::T::test_print PASSED                                          [ 78%]
test_a.py::T::test_skip SKIPPED (later)                                  [ 85%]
test_a.py::T::test_sub 
test_a.py::T::test_sub PASSED                                            [ 92%]
test_a.py::T::test_xf XFAIL                                              [100%]

=========================== short test summary info ============================
FAILED test_b.py::test_p[c/d] - AssertionError: assert 'c/d' == 'a b'
FAILED test_a.py::T::test_err - ValueError: x
FAILED test_a.py::T::test_fail - AssertionError: 1 != 2
SUBFAILED(i=1) test_a.py::T::test_sub - AssertionError: 1 == 1
= 4 failed, 6 passed, 2 skipped, 2 xfailed, 1 xpassed, 1 error, 2 subtests passed in 0.05s =
";

#[test]
fn pytest_with_every_kind_of_result() {
    assert_eq!(counts(Format::Pytest, PYTEST), (7, 4, 1, 4));
    let of = |id| status(Format::Pytest, PYTEST, id);
    assert_eq!(of("test_b.py::test_p[a b]"), Some(TestStatus::Passed));
    assert_eq!(of("test_b.py::test_p[c/d]"), Some(TestStatus::Failed));
    assert_eq!(of("test_b.py::test_td"), Some(TestStatus::Errored));
    assert_eq!(of("test_a.py::T::test_sub"), Some(TestStatus::Failed));
    assert_eq!(of("test_a.py::T::test_xf"), Some(TestStatus::Skipped));
}

#[test_case("1 failed, 2 passed, 1 skipped, 1 xfailed, 1 xpassed, 1 error in 0.02s", (3, 1, 1, 2); "quiet")]
#[test_case("===== 12 passed, 3 warnings in 72.31s (0:01:12) =====", (12, 0, 0, 0); "long time")]
#[test_case("==== 1 error in 0.09s ====", (0, 0, 1, 0); "collection")]
#[test_case("no tests ran in 0.00s", (0, 0, 0, 0); "nothing ran")]
#[test_case("=== 5 deselected in 0.01s ===", (0, 0, 0, 0); "all deselected")]
fn pytest_summaries(line: &str, expected: (u32, u32, u32, u32)) {
    assert_eq!(counts(Format::Pytest, line), expected);
}

#[test]
fn pytest_in_parallel_and_with_colour() {
    let text = "[gw0] [ 50%] \u{1b}[32mPASSED\u{1b}[0m t/test_a.py::test_x \r\n[gw1] [100%] FAILED t/test_a.py::test_y \n\
                \u{1b}[31m= \u{1b}[1m1 failed\u{1b}[0m, 1 passed in 0.10s =\u{1b}[0m\n";
    assert_eq!(counts(Format::Pytest, text), (1, 1, 0, 0));
    assert_eq!(status(Format::Pytest, text, "t/test_a.py::test_x"), Some(TestStatus::Passed));
}

#[test]
fn a_parameter_may_look_like_the_message() {
    let text = "FAILED t.py::test_x[a - b] - assert 0\n1 failed in 0.01s\n";
    assert_eq!(status(Format::Pytest, text, "t.py::test_x[a - b]"), Some(TestStatus::Failed));
}

#[test]
fn forged_passes_contradict_the_real_summary() {
    let text = "t.py::test_fake PASSED\nt.py::test_more PASSED\n100 passed in 0.01s\nt.py::test_x FAILED [100%]\n\
                === 1 failed in 0.01s ===\n";
    assert_eq!(conflict(Format::Pytest, text), "2 tests are named as passed, the last summary counts 0");
}

#[test]
fn a_forged_line_never_hides_a_failure() {
    let text = "t.py::test_x PASSED\nt.py::test_x FAILED [100%]\n=== 1 failed, 1 passed in 0.01s ===\n";
    assert_eq!(status(Format::Pytest, text, "t.py::test_x"), Some(TestStatus::Failed));
}

#[test]
fn bare_and_interleaved_words_are_no_results() {
    // All of these have been taken for results by somebody.
    assert_eq!(read(Format::Pytest, b"PASSED\nt1\nt2\nFAILED t1 PASSED\nt3 PAS"), None);
}

#[test]
fn a_run_that_is_cut_keeps_what_it_named() {
    let report = unfinished(Format::Pytest, "t.py::a PASSED [ 20%]\nt.py::b FAILED [ 40%]\nt.py::c PASS");
    assert_eq!((report.passed, report.failed), (1, 1));
}

// --- unittest -------------------------------------------------------------------------------------------------------

const UNITTEST: &str = "\
test_doc (test_a.T.test_doc)
A doc line. ... ok
test_err (test_a.T.test_err) ... ERROR
test_fail (test_a.T.test_fail) ... FAIL
test_pass (test_a.T.test_pass) ... ok
test_print (test_a.T.test_print) ... hello
ok
test_skip (test_a.T.test_skip) ... skipped 'later'
test_sub (test_a.T.test_sub) ... 
  test_sub (test_a.T.test_sub) (i=1) ... FAIL
test_xf (test_a.T.test_xf) ... expected failure

======================================================================
ERROR: test_err (test_a.T.test_err)
----------------------------------------------------------------------
Traceback (most recent call last):
ValueError: x

======================================================================
FAIL: test_fail (test_a.T.test_fail)
----------------------------------------------------------------------
AssertionError: 1 != 2

======================================================================
FAIL: test_sub (test_a.T.test_sub) (i=1)
----------------------------------------------------------------------
AssertionError: 1 == 1

----------------------------------------------------------------------
Ran 8 tests in 0.001s

FAILED (failures=2, errors=1, skipped=1, expected failures=1)
";

#[test]
fn unittest_with_every_kind_of_result() {
    assert_eq!(counts(Format::Unittest, UNITTEST), (3, 2, 1, 2));
    let of = |id| status(Format::Unittest, UNITTEST, id);
    assert_eq!(of("test_a.T.test_doc"), Some(TestStatus::Passed));
    assert_eq!(of("test_a.T.test_sub"), Some(TestStatus::Failed));
    assert_eq!(of("test_a.T.test_err"), Some(TestStatus::Errored));
    assert_eq!(of("test_a.T.test_xf"), Some(TestStatus::Skipped));
    // Its `ok` stands apart, and nobody knows whose it is.
    assert_eq!(of("test_a.T.test_print"), None);
}

#[test_case("..F.\nRan 4 tests in 0.1s\n\nFAILED (failures=1)\n", (3, 1, 0, 0); "dotted")]
#[test_case("....\nRan 1 test in 0.1s\n\nOK\n", (1, 0, 0, 0); "one")]
#[test_case("Ran 3 tests in 0.1s\n\nOK (skipped=3)\n", (0, 0, 0, 3); "all skipped")]
#[test_case("Ran 0 tests in 0.000s\n\nNO TESTS RAN\n", (0, 0, 0, 0); "none")]
#[test_case("Ran 2 tests in 0.1s\n\nFAILED (unexpected successes=1)\n", (1, 1, 0, 0); "unexpected success")]
fn unittest_summaries(text: &str, expected: (u32, u32, u32, u32)) {
    assert_eq!(counts(Format::Unittest, text), expected);
}

#[test]
fn unittest_of_older_versions_names_the_class_only() {
    let text = "test_x (tests.test_a.T) ... ok\nRan 1 test in 0.0s\n\nOK\n";
    assert_eq!(status(Format::Unittest, text, "tests.test_a.T.test_x"), Some(TestStatus::Passed));
}

#[test]
fn a_class_that_cannot_be_set_up_does_not_hide_what_passed() {
    let text = "test_x (m.A.test_x) ... ok\ntest_y (m.A.test_y) ... ok\nsetUpClass (m.B) ... ERROR\n\
                ERROR: setUpClass (m.B)\nRan 2 tests in 0.0s\n\nFAILED (errors=1)\n";
    assert_eq!(counts(Format::Unittest, text), (2, 0, 1, 0));
}

#[test]
fn the_last_unittest_summary_wins() {
    let text = "Ran 99 tests in 0.1s\n\nOK\nRan 2 tests in 0.1s\n\nFAILED (failures=2)\n";
    assert_eq!(counts(Format::Unittest, text), (0, 2, 0, 0));
    unfinished(Format::Unittest, "Ran 2 tests in 0.1s\n\nOK\nRan 3 tests in 0.1s\n");
}

#[test]
fn unittest_lines_must_fit_the_summary() {
    let text = "test_x (m.T.test_x) ... FAIL\nRan 1 test in 0.0s\n\nOK\n";
    assert_eq!(conflict(Format::Unittest, text), "1 tests are named as failed, the last summary counts 0");
}

// --- cargo test -----------------------------------------------------------------------------------------------------

const CARGO: &str = "\
running 3 tests
test tests::adds ... ok
test tests::fails ... FAILED
test tests::later ... ignored, needs a network

failures:

---- tests::fails stdout ----
thread 'tests::fails' panicked at src/lib.rs:9:5

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s


running 1 test
test outer ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s


running 1 test
test src/lib.rs - adds (line 3) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.25s

     Running unittests src/lib.rs (target/debug/deps/demo-0123456789abcdef)
   Doc-tests demo
error: test failed, to rerun pass `--lib`
";

#[test]
fn cargo_test_adds_up_its_binaries() {
    assert_eq!(counts(Format::Libtest, CARGO), (3, 1, 0, 1));
    assert_eq!(status(Format::Libtest, CARGO, "src/lib.rs - adds (line 3)"), Some(TestStatus::Passed));
    assert_eq!(status(Format::Libtest, CARGO, "tests::later"), Some(TestStatus::Skipped));
}

#[test]
fn a_binary_that_aborts_leaves_its_block_open() {
    let report = unfinished(Format::Libtest, "running 2 tests\ntest a ... ok\nerror: test failed (signal: 6)\n");
    assert_eq!(report.passed, 1);
}

#[test]
fn a_crate_that_does_not_compile_is_an_error_not_silence() {
    let text =
        "error[E0425]: cannot find function `add`\nerror: could not compile `demo` (test \"t\") due to 1 error\n";
    assert_eq!(counts(Format::Libtest, text), (0, 0, 1, 0));
}

#[test_case("running 1 test\ntest result: ok. 100 passed; 0 failed; 0 ignored; 0 measured\n",
    "1 tests were announced, the last summary counts 100"; "more than announced")]
#[test_case("running 2 tests\ntest a ... ok\ntest b ... ok\ntest result: FAILED. 1 passed; 1 failed; 0 ignored\n",
    "2 tests are named as passed and 0 as failed, the last summary counts 1 and 1"; "lines against summary")]
fn libtest_contradictions(text: &str, expected: &str) {
    assert_eq!(conflict(Format::Libtest, text), expected);
}

#[test]
fn panics_are_expected_where_the_name_says_so() {
    let text = "running 1 test\ntest t::boom - should panic ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";
    assert_eq!(status(Format::Libtest, text, "t::boom"), Some(TestStatus::Passed));
}

// --- go -------------------------------------------------------------------------------------------------------------

#[test]
fn go_verbose() {
    let text = "=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\n=== RUN   TestB/one_two\n\
                --- FAIL: TestB (0.00s)\n    --- FAIL: TestB/one_two (0.00s)\n--- SKIP: TestC (0.00s)\nFAIL\n\
                FAIL\texample.com/m\t0.003s\nok  \texample.com/m/sub\t0.002s\n?   \texample.com/m/none\t[no test files]\nFAIL\n";
    assert_eq!(counts(Format::Go, text), (2, 2, 0, 1));
    assert_eq!(status(Format::Go, text, "example.com/m.TestB/one_two"), Some(TestStatus::Failed));
    assert_eq!(status(Format::Go, text, "example.com/m/sub"), Some(TestStatus::Passed));
}

#[test_case("FAIL\texample.com/m [build failed]\nFAIL\n", (0, 0, 1, 0); "build")]
#[test_case("panic: boom\nFAIL\texample.com/m\t0.1s\n", (0, 0, 1, 0); "panic")]
#[test_case("--- PASS: TestA (0.00s)\nFAIL\texample.com/m\t0.1s\n", (1, 0, 1, 0); "passes, then exits 1")]
#[test_case("ok  \texample.com/m\t(cached) [no tests to run]\n", (0, 0, 0, 0); "nothing to run")]
#[test_case("?   \texample.com/m\t[no test files]\n", (0, 0, 0, 0); "no files")]
fn go_packages(text: &str, expected: (u32, u32, u32, u32)) {
    assert_eq!(counts(Format::Go, text), expected);
}

#[test]
fn go_json_survives_foreign_lines() {
    let text = "{\"Action\":\"start\",\"Package\":\"m\"}\nnoise {\n{\"Action\":\"run\",\"Package\":\"m\",\"Test\":\"TestA\"}\n\
                {\"Action\":\"pass\",\"Package\":\"m\",\"Test\":\"TestA\",\"Elapsed\":0.1}\n{\"broken\n\
                {\"Action\":\"fail\",\"Package\":\"m\",\"Test\":\"TestB\"}\n{\"Action\":\"fail\",\"Package\":\"m\"}\n";
    assert_eq!(counts(Format::Go, text), (1, 1, 0, 0));
    unfinished(Format::Go, "{\"Action\":\"pass\",\"Package\":\"m\",\"Test\":\"TestA\"}\n{\"Action\":\"pa");
}

#[test]
fn go_contradictions() {
    let text = "--- FAIL: TestA (0.00s)\nok  \tm\t0.1s\n";
    assert_eq!(conflict(Format::Go, text), "package `m` is `ok`, one of its tests failed");
}

// --- TAP ------------------------------------------------------------------------------------------------------------

const NODE_TAP: &str = "\
TAP version 13
# Subtest: math
    # Subtest: adds
    ok 1 - adds
      ---
      duration_ms: 0.6
      ...
    # Subtest: fails
    not ok 2 - fails
      ---
      error: '1 == 2'
      stack: |-
        ok 7 - a line of a trace
      ...
    ok 3 - skipped # SKIP
    not ok 4 - todo # TODO
    1..4
not ok 1 - math
  ---
  failureType: 'subtestsFailed'
  ...
# Subtest: top
ok 2 - top
1..2
# tests 5
";

#[test]
fn tap_counts_subtests_in_place_of_their_parents() {
    assert_eq!(counts(Format::Tap, NODE_TAP), (2, 1, 0, 2));
    assert_eq!(status(Format::Tap, NODE_TAP, "math > fails"), Some(TestStatus::Failed));
    assert_eq!(status(Format::Tap, NODE_TAP, "top"), Some(TestStatus::Passed));
}

#[test_case("1..3\nok 1 - a\nnot ok 2 - b\nok 3 c # skip no net\n", (1, 1, 0, 1); "plain")]
#[test_case("ok\nnot ok\n1..2\n", (1, 1, 0, 0); "neither number nor name")]
#[test_case("1..0 # SKIP nothing here\n", (0, 0, 0, 0); "all left out")]
#[test_case("1..3\nok 1\nBail out! database is down\n", (1, 0, 1, 0); "bail out")]
#[test_case("TAP version 14\n1..1\n    ok 1 - x\n    1..1\nnot ok 1 - parent\n", (1, 1, 0, 0); "parent alone fails")]
fn tap_streams(text: &str, expected: (u32, u32, u32, u32)) {
    assert_eq!(counts(Format::Tap, text), expected);
}

#[test_case("1..1\nok 1\nok 2\n", "1 tests were planned, 2 were seen"; "too many")]
#[test_case("ok 1 - a\nok 1 - b\n1..2\n", "a test number was seen twice"; "number twice")]
#[test_case("1..2\nok 1\nok 2\n1..3\n", "two plans disagree"; "plans")]
#[test_case("1..1\n    not ok 1 - x\n    1..1\nok 1 - parent\n", "`parent` is ok, one of its subtests is not"; "parent")]
fn tap_contradictions(text: &str, expected: &str) {
    assert_eq!(conflict(Format::Tap, text), expected);
}

#[test]
fn a_tap_stream_without_its_end() {
    assert_eq!(unfinished(Format::Tap, "1..5\nok 1\nok 2\nnot o").passed, 2);
    assert_eq!(unfinished(Format::Tap, "TAP version 13\nok 1 - a\n").passed, 1);
    // A log that happens to hold the word is no TAP.
    assert_eq!(read(Format::Tap, b"ok 1\nok then\nnot ok either\n"), None);
}

// --- jest, vitest, bun ----------------------------------------------------------------------------------------------

const JEST: &str = "\
FAIL ./math.test.js
  math
    \u{2713} adds (2 ms)
    \u{2715} fails (1 ms)
    \u{25cb} skipped later

  \u{25cf} math \u{203a} fails

    expect(received).toBe(expected)

PASS ./top.test.js
  \u{2713} top

Test Suites: 1 failed, 1 passed, 2 total
Tests:       1 failed, 1 skipped, 2 passed, 4 total
Snapshots:   0 total
Time:        0.5 s
";

#[test]
fn jest_nests_by_indentation() {
    assert_eq!(counts(Format::Jest, JEST), (2, 1, 0, 1));
    assert_eq!(status(Format::Jest, JEST, "math > fails"), Some(TestStatus::Failed));
    assert_eq!(status(Format::Jest, JEST, "top"), Some(TestStatus::Passed));
}

#[test]
fn a_jest_file_that_does_not_load_is_an_error() {
    let text = "FAIL ./a.test.js\n  \u{25cf} Test suite failed to run\n\nTest Suites: 1 failed, 1 total\nTests:       0 total\n";
    assert_eq!(counts(Format::Jest, text), (0, 0, 1, 0));
}

#[test]
fn vitest_names_the_path_of_a_test() {
    let text = " \u{2713} test/a.test.ts > math > adds 2ms\n \u{d7} test/a.test.ts > math > fails 3ms\n\
                \n Test Files  1 failed (1)\n      Tests  1 failed | 1 passed (2)\n";
    assert_eq!(counts(Format::Jest, text), (1, 1, 0, 0));
    assert_eq!(status(Format::Jest, text, "test/a.test.ts > math > adds"), Some(TestStatus::Passed));
    let quiet = " \u{2713} test/a.test.ts (2 tests) 5ms\n\n Test Files  1 passed (1)\n      Tests  2 passed (2)\n";
    assert_eq!(counts(Format::Jest, quiet), (2, 0, 0, 0));
}

#[test]
fn jest_contradictions() {
    let text = "  \u{2713} a\n  \u{2713} b\nTests:       1 failed, 1 passed, 2 total\n";
    assert_eq!(conflict(Format::Jest, text), "2 tests are named as passed, the last summary counts 1");
}

#[test]
fn bun_counts_and_names() {
    let text = "a.test.ts:\n(pass) math > adds [0.12ms]\n(fail) math > fails [0.30ms]\n(skip) math > later\n\n 1 pass\n \
                1 skip\n 1 fail\n 2 expect() calls\nRan 3 tests across 1 file. [10.00ms]\n";
    assert_eq!(counts(Format::Bun, text), (1, 1, 0, 1));
    assert_eq!(status(Format::Bun, text, "math > fails"), Some(TestStatus::Failed));
    let forged = "(pass) a\n(pass) b\n 1 pass\n 0 fail\nRan 1 test across 1 file. [1.00ms]\n";
    assert_eq!(conflict(Format::Bun, forged), "more tests are named than the last summary counts");
    unfinished(Format::Bun, "(pass) a [0.1ms]\n");
}

// --- JUnit ----------------------------------------------------------------------------------------------------------

#[test]
fn junit_with_nested_suites_and_entities() {
    let text = r#"<?xml version="1.0"?><testsuites><testsuite name="o" tests="5" failures="1" errors="1"><testsuite name="i">
        <testcase classname="t.A" name="x &lt;1&gt; &amp; &#233;"/>
        <testcase classname="t.A" name="f"><failure message="1 != 2">a &lt; b</failure></testcase>
        <testcase classname="t.A" name="e"><error/></testcase></testsuite>
        <testcase name="s"><skipped/></testcase>
        <testcase name="todo"><skipped type="todo"/><failure/></testcase>
        <system-out><![CDATA[<testcase name="forged"/>]]></system-out></testsuite></testsuites>"#;
    assert_eq!(counts(Format::Junit, text), (1, 1, 1, 2));
    assert_eq!(status(Format::Junit, text, "t.A.x <1> & \u{e9}"), Some(TestStatus::Passed));
    assert_eq!(status(Format::Junit, text, "forged"), None);
}

#[test]
fn an_entity_bomb_stays_small() {
    let text = r#"<!DOCTYPE t [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
        <!ENTITY x SYSTEM "file:///etc/passwd">]>
        <testsuite><testcase name="&b;"/><testcase name="&x;">&b;&x;</testcase></testsuite>"#;
    let report = read(Format::Junit, text.as_bytes()).expect("recognised");
    let ids: Vec<&str> = report.tests.iter().map(|test| test.id.as_str()).collect();
    assert_eq!(ids, ["&b;", "&x;"]);
}

#[test_case("<testsuite><testcase name=\"a\"/>"; "cut")]
#[test_case("<testsuite><testcase name=\"a\"></testsuite>"; "wrong end")]
#[test_case("<html><testcase name=\"a\"/></html>"; "other document")]
#[test_case("<testsuite/><testsuite/>"; "two roots")]
#[test_case(""; "empty")]
#[test_case("1 passed"; "text")]
fn what_is_no_junit_report(text: &str) {
    assert_eq!(read(Format::Junit, text.as_bytes()), None);
}

#[test]
fn a_junit_suite_that_claims_more_than_it_shows() {
    let text = "<testsuite tests=\"1\" failures=\"2\"><testcase name=\"a\"/></testsuite>";
    assert_eq!(conflict(Format::Junit, text), "a suite counts 2 failures, no test case shows one");
}

#[test]
fn deep_nesting_costs_no_stack() {
    let text = "<testsuite>".repeat(200_000) + &"</testsuite>".repeat(200_000);
    assert_eq!(counts(Format::Junit, &text), (0, 0, 0, 0));
}

// --- all ------------------------------------------------------------------------------------------------------------

#[test_case("python3 -m pytest -q tests/", &[Format::Pytest]; "pytest")]
#[test_case("cd x && /usr/bin/pytest; true", &[Format::Pytest]; "path")]
#[test_case("python3 -m unittest discover", &[Format::Unittest]; "unittest")]
#[test_case("cargo +nightly -q test --lib && cargo t --doc", &[Format::Libtest]; "cargo")]
#[test_case("cargo build", &[]; "cargo build")]
#[test_case("go test ./... && bun test", &[Format::Go, Format::Bun]; "two")]
#[test_case("npx jest --ci", &[Format::Jest]; "jest")]
#[test_case("sh -c 'pytest'", &[Format::Pytest]; "quoted")]
#[test_case("make check", &[]; "unknown")]
fn commands_name_their_formats(command: &str, expected: &[Format]) {
    assert_eq!(named_in(command), expected);
}

#[test]
fn merging_keeps_the_worst_of_one_id() {
    let one = read(Format::Libtest, CARGO.as_bytes()).expect("recognised");
    let other =
        read(Format::Libtest, b"running 1 test\ntest outer ... FAILED\ntest result: FAILED. 0 passed; 1 failed\n")
            .expect("recognised");
    let both = one.merged(other);
    assert_eq!((both.passed, both.failed), (3, 2));
    let outer = both.tests.iter().find(|test| test.id == "outer").expect("kept");
    assert_eq!(outer.status, TestStatus::Failed);
}

proptest! {
    #[test]
    fn no_reader_crashes_on_cut_or_shuffled_output(cut in 0usize..1200, seed in any::<u64>(), noise in ".{0,40}") {
        let samples = [PYTEST, UNITTEST, CARGO, NODE_TAP, JEST];
        for sample in samples {
            let mut lines: Vec<&str> = sample.lines().collect();
            let length = lines.len();
            let at = usize::try_from(seed % 1000).expect("small");
            lines.swap(at % length, (at * 7 + 3) % length);
            lines.insert(at % length, &noise);
            let bytes = lines.join("\n").into_bytes();
            let bytes = &bytes[..cut.min(bytes.len())];
            for format in Format::ALL {
                let report = read(*format, bytes);
                prop_assert!(report.is_none_or(|report| report.tests.len() <= length + 1));
            }
        }
    }

    #[test]
    fn no_reader_crashes_on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for format in Format::ALL {
            let report = read(*format, &bytes);
            prop_assert!(report.is_none_or(|report| report.passed <= 400));
        }
    }

    #[test]
    fn a_failing_line_is_never_lost(position in 0usize..6) {
        let mut lines = vec!["t.py::a PASSED", "t.py::b PASSED", "noise", "t.py::c SKIPPED (x)", "more noise"];
        lines.insert(position.min(lines.len()), "t.py::b FAILED [ 10%]");
        let report = read(Format::Pytest, lines.join("\n").as_bytes()).expect("recognised");
        let b = report.tests.iter().find(|test| test.id == "t.py::b").expect("kept");
        prop_assert_eq!(b.status, TestStatus::Failed);
    }
}
