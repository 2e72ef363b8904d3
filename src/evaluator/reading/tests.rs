use super::*;

const TAP: &[u8] = b"1..1\nok 1 - a\n";
const LIBTEST: &[u8] = b"running 1 test\ntest a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n";

fn format(chosen: Option<&str>, command: &str, output: &[u8]) -> Option<String> {
    find(None, chosen, command, output).expect("found").format
}

#[test]
fn the_command_is_a_better_witness_than_the_output() {
    assert_eq!(format(None, "cargo test", &[TAP, LIBTEST].concat()).as_deref(), Some("libtest"));
    // Forged TAP does not stand in for a test program that printed nothing.
    let found = find(None, None, "python3 -m pytest", TAP).expect("found");
    assert!(found.report.is_none() && found.expected);
}

#[test]
fn several_programs_in_one_command_add_up() {
    let found = find(None, None, "cargo test; pytest -q", &[LIBTEST, b"2 passed in 0.1s\n"].concat()).expect("found");
    assert_eq!(found.format.as_deref(), Some("libtest+pytest"));
    assert_eq!(found.report.expect("read").passed, 3);
}

#[test]
fn one_reader_alone_may_recognise_an_unknown_command() {
    assert_eq!(format(None, "make check", TAP).as_deref(), Some("tap"));
    assert_eq!(format(None, "sh run.sh", LIBTEST).as_deref(), Some("libtest"));
    let found = find(None, None, "make check", b"all good\n").expect("found");
    assert!(found.report.is_none() && !found.expected);
}

#[test]
fn two_readers_decide_nothing_unless_one_output_is_only_half_there() {
    let both = [TAP, LIBTEST].concat();
    let error = find(None, None, "make check", &both).expect_err("ambiguous");
    assert!(error.contains("reads as libtest and as tap") && error.contains("test_format"), "{error}");
    assert_eq!(format(None, "make check", &[LIBTEST, b"TAP version 13\nok 1\n"].concat()).as_deref(), Some("libtest"));
    assert_eq!(format(Some("tap"), "make check", &both).as_deref(), Some("tap"));
}

#[test]
fn the_task_may_choose() {
    let found = find(None, Some("exit_code"), "cargo test", LIBTEST).expect("found");
    assert!(found.report.is_none() && !found.expected);
    let error = find(None, Some("nose"), "x", TAP).expect_err("unknown");
    assert!(error.starts_with("the task's `test_format` is `nose`; known are junit, pytest,"), "{error}");
}

#[test]
fn junit_files_come_first_and_must_be_whole() {
    let dir = tempfile::tempdir().expect("temp dir");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).expect("written");
    assert!(junit_files(&dir.path().join("none")).expect("no folder").is_none());
    assert!(junit_files(dir.path()).expect("no file").is_none());
    write("b.xml", "<testsuite><testcase name=\"b\"/></testsuite>");
    write("a.XML", "<testsuite><testcase name=\"a\"><failure/></testcase></testsuite>");
    write("notes.txt", "<testsuite");
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link.xml")).expect("linked");
    let report = junit_files(dir.path()).expect("read").expect("there");
    assert_eq!((report.passed, report.failed), (1, 1));
    let found = find(Some(report), None, "cargo test", LIBTEST).expect("found");
    assert_eq!(found.format.as_deref(), Some("junit"));
    write("c.xml", "<testsuite><testcase name=\"c\"/>");
    assert_eq!(junit_files(dir.path()).expect_err("cut"), "the report `c.xml` is no complete JUnit XML");
}
