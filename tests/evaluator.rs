//! The evaluator against real test programs: shell scripts that print TAP, `cargo test`, Python's unittest.
//!
//! The runtime is a small one of this file, over temporary folders: the evaluator sees nothing but the traits.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "a test that cannot run here says so")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use refrain::domain::task::{EvaluateIn, HiddenTests, Seed};
use refrain::domain::{AttemptId, CellId, ContainerOptions, ErrorClass, RunName, Task, TestStatus, Track, Verdict};
use refrain::evaluator::{EvaluationError, EvaluationInput, Evaluator, TestSuiteEvaluator};
use refrain::runtime::{
    Captured, Command, Environment, EnvironmentSpec, ExecEnd, ExecReport, Output, Quiescence, Runtime, RuntimeError,
    RuntimeInfo,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

// --- a runtime over folders -----------------------------------------------------------------------------------------

#[derive(Default)]
struct Folders {
    opened: AtomicUsize,
    closed: Arc<AtomicUsize>,
}

struct Folder {
    workspace: PathBuf,
    home: PathBuf,
    closed: Arc<AtomicUsize>,
}

impl Folder {
    fn new(root: &Path, closed: Arc<AtomicUsize>) -> Self {
        let folder = Self { workspace: root.join("work"), home: root.join("home"), closed };
        fs::create_dir_all(&folder.workspace).unwrap();
        fs::create_dir_all(&folder.home).unwrap();
        folder
    }
}

#[async_trait]
impl Runtime for Folders {
    fn name(&self) -> &'static str {
        "folders"
    }

    async fn preflight(&self) -> Result<RuntimeInfo, RuntimeError> {
        Ok(RuntimeInfo::default())
    }

    async fn open(&self, spec: EnvironmentSpec) -> Result<Box<dyn Environment>, RuntimeError> {
        assert_eq!(spec.purpose, "evaluation");
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Folder::new(&spec.scratch, Arc::clone(&self.closed))))
    }

    async fn sweep(&self, _root: &Path) -> Result<Vec<String>, RuntimeError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl Environment for Folder {
    fn workspace(&self) -> &Path {
        &self.workspace
    }

    fn home(&self) -> &Path {
        &self.home
    }

    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        Some(path.to_path_buf())
    }

    async fn exec(
        &self,
        command: &Command,
        output: Output,
        stop: &CancellationToken,
    ) -> Result<ExecReport, RuntimeError> {
        let dir = tempfile::tempdir().unwrap();
        let (out, err) = match output {
            Output::Spool { stdout, stderr, .. } => (stdout, stderr),
            Output::Capture { .. } => (dir.path().join("out"), dir.path().join("err")),
        };
        let mut child = tokio::process::Command::new(&command.argv[0])
            .args(&command.argv[1..])
            .envs(command.env.iter().cloned())
            .current_dir(&self.workspace)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(fs::File::create(&out).unwrap())
            .stderr(fs::File::create(&err).unwrap())
            .spawn()
            .unwrap();
        let group = child.id().unwrap();
        let (timer, limit) = command.limits.timeout.expect("the evaluator sets a limit on everything it runs");
        let end = tokio::select! {
            status = child.wait() => {
                let status = status.unwrap();
                status.code().map_or_else(|| ExecEnd::Signaled(status.signal().unwrap()), ExecEnd::Exited)
            }
            () = tokio::time::sleep(limit) => ExecEnd::TimedOut { timer, limit },
            () = stop.cancelled() => ExecEnd::Stopped,
        };
        if matches!(end, ExecEnd::TimedOut { .. } | ExecEnd::Stopped) {
            // The whole group, by its own id.
            let group = rustix::process::Pid::from_raw(group.cast_signed()).unwrap();
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
            child.wait().await.unwrap();
        }
        let captured = |path: &Path| {
            let bytes = fs::read(path).unwrap();
            Captured { total: bytes.len() as u64, bytes, cut: false }
        };
        Ok(ExecReport {
            exit_code: if let ExecEnd::Exited(code) = end { Some(code) } else { None },
            signal: if let ExecEnd::Signaled(signal) = end { Some(signal) } else { None },
            end,
            stdout: captured(&out),
            stderr: captured(&err),
            duration: Duration::ZERO,
            longest_silence: Duration::ZERO,
            leftovers: 0,
            out_of_memory: None,
            notes: Vec::new(),
        })
    }

    async fn put(&self, from: &Path, to: &Path) -> Result<(), RuntimeError> {
        copy_tree(from, to);
        Ok(())
    }

    async fn put_file(&self, content: &[u8], to: &Path, _executable: bool) -> Result<(), RuntimeError> {
        fs::write(to, content).unwrap();
        Ok(())
    }

    async fn get(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
        if !from.is_dir() {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(RuntimeError::File { action: "copy", path: from.to_path_buf(), source });
        }
        copy_tree(from, to);
        Ok(Vec::new())
    }

    async fn quiesce(&self) -> Result<Quiescence, RuntimeError> {
        Ok(Quiescence::default())
    }

    async fn close(&self) -> Result<(), RuntimeError> {
        self.closed.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

fn copy_tree(from: &Path, to: &Path) {
    let status = std::process::Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status().unwrap();
    assert!(status.success());
}

// --- a bed for one evaluation ---------------------------------------------------------------------------------------

struct Bed {
    dir: TempDir,
    task: Task,
    runtime: Folders,
    timeout: Duration,
    changed: bool,
    checks_pass: Option<bool>,
    stop: CancellationToken,
}

impl Bed {
    fn new(test_command: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["tree", "base", "hidden", "scratch", "agent"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        let task = Task {
            id: "t".into(),
            name: "t".into(),
            track: Track::Swe,
            difficulty: None,
            description: None,
            seed: Seed::Empty,
            mutation: None,
            setup_script: None,
            prompt: String::new(),
            checks: vec!["true".into()],
            test_command: Some(test_command.to_owned()).filter(|command| !command.is_empty()),
            hidden: HiddenTests::Overlay { path: dir.path().join("hidden") },
            fail_to_pass: Vec::new(),
            pass_to_pass: Vec::new(),
            expected_files: Vec::new(),
            rubric: None,
            timeout: Duration::from_secs(60),
            multi_session: true,
            evaluate: EvaluateIn::Fresh,
            phases: Vec::new(),
            metadata: serde_json::Map::new(),
            source: PathBuf::new(),
        };
        Self {
            dir,
            task,
            runtime: Folders::default(),
            timeout: Duration::from_secs(300),
            changed: true,
            checks_pass: None,
            stop: CancellationToken::new(),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn write(self, path: &str, content: &str) -> Self {
        let full = self.at(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(full, content).unwrap();
        self
    }

    fn declare(mut self, fail_to_pass: &[&str], pass_to_pass: &[&str]) -> Self {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        (self.task.fail_to_pass, self.task.pass_to_pass) = (owned(fail_to_pass), owned(pass_to_pass));
        self
    }

    async fn evaluate(&self) -> Result<Verdict, EvaluationError> {
        let attempt =
            AttemptId { run: RunName::new("run").unwrap(), cell: CellId::from_stored("h__m__t__r1"), number: 1 };
        let agent = Folder::new(&self.at("agent"), Arc::default());
        if self.task.evaluate == EvaluateIn::Same {
            copy_tree(&self.at("tree"), agent.workspace());
        }
        let input = EvaluationInput {
            task: &self.task,
            attempt: &attempt,
            tree: &self.at("tree"),
            base: Some(&self.at("base")),
            scratch: &self.at("scratch"),
            changed: self.changed,
            checks_pass: self.checks_pass,
            runtime: &self.runtime,
            environment: &agent,
            image: None,
            container: &ContainerOptions::default(),
            stop: &self.stop,
        };
        let result = TestSuiteEvaluator::new(self.timeout).evaluate(input).await;
        let (opened, closed) = (self.runtime.opened.load(Ordering::SeqCst), self.runtime.closed.load(Ordering::SeqCst));
        assert_eq!(opened, closed, "every environment that was opened was closed");
        result
    }

    async fn verdict(&self) -> Verdict {
        self.evaluate().await.expect("a verdict")
    }

    async fn undecided(&self) -> (String, String) {
        match self.evaluate().await.expect_err("no verdict") {
            EvaluationError::Undecided { message, output } => (message, output),
            other => panic!("{other:?}"),
        }
    }
}

/// Hidden TAP tests of a shell program `greet.sh`.
const GREET: &str = "\
n=0; bad=0
is() { n=$((n + 1)); if [ \"$2\" = \"$3\" ]; then echo \"ok $n - $1\"; else bad=1; echo \"not ok $n - $1\"; fi; }
is 'greets the world' 'hello world' \"$(sh greet.sh)\"
is 'greets by name' 'hello ada' \"$(sh greet.sh ada)\"
echo \"1..$n\"
exit $bad
";

fn greet(program: &str) -> Bed {
    Bed::new("sh tests/greet.t")
        .write("hidden/tests/greet.t", GREET)
        .write("tree/greet.sh", program)
        .declare(&["greets by name"], &["greets the world"])
}

const RIGHT: &str = "echo hello ${1:-world}";
const WRONG: &str = "echo hello world";

// --- verdicts -------------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_right_program_is_solved() {
    let verdict = greet(RIGHT).verdict().await;
    assert!(verdict.solved);
    assert_eq!((verdict.class, verdict.passed, verdict.total), (ErrorClass::Success, 2, 2));
    assert_eq!((verdict.exit_code, verdict.format.as_deref()), (Some(0), Some("tap")));
    assert_eq!(verdict.summary, "2 of 2 tests pass (tap, exit code 0)");
    assert!(verdict.report.contains("ok 2 - greets by name"));
}

#[tokio::test]
async fn a_wrong_program_is_not_whatever_passed_before() {
    let mut bed = greet(WRONG);
    let verdict = bed.verdict().await;
    assert!(!verdict.solved);
    assert_eq!((verdict.class, verdict.passed, verdict.total), (ErrorClass::WrongApproach, 1, 2));
    assert_eq!(verdict.exit_code, Some(1));
    bed = greet(WRONG);
    bed.checks_pass = Some(true);
    assert_eq!(bed.verdict().await.class, ErrorClass::Overfit);
    bed = greet(WRONG);
    bed.changed = false;
    assert_eq!(bed.verdict().await.class, ErrorClass::NoChange);
}

#[tokio::test]
async fn nothing_of_the_agent_survives_in_the_way_of_the_tests() {
    let bed = greet(WRONG);
    let outside = bed.at("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("greet.t"), "echo 1..2; echo ok 1 - greets the world; echo ok 2 - greets by name").unwrap();
    symlink(&outside, bed.at("tree/tests")).unwrap();
    // A program named like the one that runs the tests.
    fs::write(bed.at("tree/sh"), "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(bed.at("tree/sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let verdict = bed.verdict().await;
    assert_eq!((verdict.solved, verdict.passed), (false, 1));
    assert!(fs::read_to_string(outside.join("greet.t")).unwrap().starts_with("echo 1..2"), "its target is untouched");
}

#[tokio::test]
async fn printed_passes_do_not_outvote_the_exit_code() {
    // The program prints results of its own into the test's output and fails the real test.
    let forging = "echo 'ok 1 - greets the world' >&2; echo 'ok 2 - greets by name' >&2; echo '1..2' >&2; exit 0";
    let (message, output) = greet(forging).undecided().await;
    assert!(message.contains("contradict"), "{message}");
    assert!(output.contains("not ok 2"), "the raw text is kept");
    let silent =
        Bed::new("sh run.sh; exit 1").write("hidden/x", "").write("tree/run.sh", "echo '1..1'; echo 'ok 1 - a'");
    let verdict = silent.verdict().await;
    assert_eq!((verdict.solved, verdict.passed, verdict.class), (false, 0, ErrorClass::Crash));
}

#[tokio::test]
async fn a_patch_is_laid_over_the_baseline_not_the_agents_tests() {
    let patch = "--- a/tests/greet.t\n+++ b/tests/greet.t\n@@ -1,2 +1,3 @@\n echo 1..1\n-echo ok 1 - easy\n\
                 +[ \"$(sh greet.sh ada)\" = 'hello ada' ] && echo ok 1 - hard || { echo not ok 1 - hard; bad=1; }\n+exit ${bad:-0}\n";
    for (program, solved) in [(RIGHT, true), (WRONG, false)] {
        let mut bed = greet(program).declare(&["hard"], &[]);
        bed =
            bed.write("base/tests/greet.t", "echo 1..1\necho ok 1 - easy\n").write("tree/tests/greet.t", "weakened\n");
        bed.task.hidden = HiddenTests::Patch { patch: patch.to_owned() };
        assert_eq!(bed.verdict().await.solved, solved);
    }
}

#[tokio::test]
async fn tests_may_run_where_the_agent_worked() {
    for (program, solved) in [(RIGHT, true), (WRONG, false)] {
        let mut bed = greet(program);
        bed.task.evaluate = EvaluateIn::Same;
        fs::create_dir(bed.at("elsewhere")).unwrap();
        symlink(bed.at("elsewhere"), bed.at("tree/tests")).unwrap();
        assert_eq!(bed.verdict().await.solved, solved);
        assert_eq!(bed.runtime.opened.load(Ordering::SeqCst), 0);
        assert_eq!(fs::read_dir(bed.at("elsewhere")).unwrap().count(), 0, "nothing was written through the link");
    }
}

#[tokio::test]
async fn junit_files_are_the_first_witness() {
    let command = "case \"$REFRAIN_REPORT_DIR\" in \"$PWD\"*) exit 9;; esac; \
                   echo '<testsuite><testcase name=\"a\"/><testcase name=\"b\"><failure/></testcase></testsuite>' \
                   > \"$REFRAIN_REPORT_DIR/r.xml\"; echo '1..9'; exit 1";
    let verdict = Bed::new(command).write("hidden/x", "").verdict().await;
    assert_eq!((verdict.passed, verdict.total, verdict.format.as_deref()), (1, 2, Some("junit")));
    assert_eq!(verdict.class, ErrorClass::Partial);
}

#[tokio::test]
async fn the_report_folder_has_another_name_each_time() {
    let bed = Bed::new("echo dir=$REFRAIN_REPORT_DIR; echo 1..1; echo ok").write("hidden/x", "");
    let first = bed.verdict().await.report;
    let second = bed.verdict().await.report;
    assert!(first.starts_with("dir=/"));
    assert_ne!(first, second);
}

#[tokio::test]
async fn exit_code_alone() {
    let passing = Bed::new("true").write("hidden/x", "").verdict().await;
    assert!(passing.solved);
    assert_eq!(passing.summary, "judged by the exit code alone: passed (exit code 0)");
    let failing = Bed::new("exit 3").write("hidden/x", "").verdict().await;
    assert_eq!((failing.passed, failing.total, failing.class), (0, 1, ErrorClass::WrongApproach));
}

// --- no verdict -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn zero_tests_are_never_a_pass() {
    for command in ["true", "echo 1..0", "no-such-program-anywhere", "echo '<testsuite/>' > $REFRAIN_REPORT_DIR/a.xml"]
    {
        Bed::new(command).write("hidden/x", "").declare(&["t1"], &[]).undecided().await;
    }
    // A test program that is named must be heard of.
    Bed::new("true unittest").write("hidden/x", "").undecided().await;
}

#[tokio::test]
async fn a_timeout_fails_the_declared_tests_and_keeps_what_was_seen() {
    let command = "echo 1..5; echo ok 1 - a; echo not ok 2 - b; sleep 600; echo ok 3 - c";
    let mut bed = Bed::new(command).write("hidden/x", "").declare(&["a", "b", "c"], &["d", "e"]);
    bed.timeout = Duration::from_secs(1);
    let verdict = bed.verdict().await;
    assert_eq!((verdict.solved, verdict.passed, verdict.total, verdict.exit_code), (false, 1, 5, None));
    assert_eq!(verdict.class, ErrorClass::Partial);
    assert_eq!(verdict.summary, "the tests did not end within 1s; until then 1 of 5 passed and 3 did not run");
    let statuses: Vec<_> = verdict.tests.iter().map(|test| test.status).collect();
    let not_run = TestStatus::NotRun;
    assert_eq!(statuses, [TestStatus::Passed, TestStatus::Failed, not_run, not_run, not_run]);
    assert!(verdict.report.contains("not ok 2 - b"));
}

#[tokio::test]
async fn a_change_that_hangs_the_tests_at_once_is_not_left_out_of_the_score() {
    let mut bed = Bed::new("sleep 600").write("hidden/x", "").declare(&["a"], &[]);
    bed.timeout = Duration::from_secs(1);
    let verdict = bed.verdict().await;
    assert_eq!((verdict.solved, verdict.class, verdict.total), (false, ErrorClass::Crash, 1));
    bed.changed = false;
    // Nobody touched the tree: the tests hang by themselves.
    assert!(matches!(bed.evaluate().await, Err(EvaluationError::Timeout { .. })));
}

#[tokio::test]
async fn a_timeout_without_declared_tests_decides_nothing() {
    let mut bed = Bed::new("echo 1..5; echo ok 1 - a; echo not ok 2 - b; sleep 600").write("hidden/x", "");
    bed.timeout = Duration::from_secs(1);
    let error = bed.evaluate().await.expect_err("no verdict");
    assert_eq!(error.to_string(), "the test command did not end within 1s; until then 1 tests passed and 1 failed");
    let EvaluationError::Timeout { output, .. } = error else { panic!("{error:?}") };
    assert!(output.contains("not ok 2 - b"));
}

#[tokio::test]
async fn a_cancelled_evaluation_ends_and_cleans_up() {
    let bed = Bed::new("sleep 600").write("hidden/x", "");
    let stop = bed.stop.clone();
    let (result, ()) = tokio::join!(bed.evaluate(), async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stop.cancel();
    });
    assert!(matches!(result, Err(EvaluationError::Cancelled)));
    assert!(matches!(bed.evaluate().await, Err(EvaluationError::Cancelled)), "and does not even start afterwards");
    assert_eq!(bed.runtime.opened.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn tests_that_do_not_fit_are_the_tasks_fault() {
    let mut bed = greet(RIGHT);
    bed.task.hidden = HiddenTests::Patch { patch: "--- a/none\n+++ b/none\n@@ -1 +1 @@\n-a\n+b\n".to_owned() };
    assert!(matches!(bed.evaluate().await, Err(EvaluationError::Overlay(_))));
}

#[tokio::test]
async fn a_command_that_ends_by_a_signal_passes_nothing() {
    let verdict = Bed::new("echo 1..1; echo ok 1 - a; kill -SEGV $$").write("hidden/x", "").verdict().await;
    assert_eq!((verdict.solved, verdict.passed, verdict.class), (false, 0, ErrorClass::Crash));
    assert!(verdict.summary.ends_with("(tap, ended by signal 11)"), "{}", verdict.summary);
}

// --- expected files -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn expected_files_are_real_files_of_the_agent() {
    let mut bed = Bed::new("").write("tree/docs/a.md", "a");
    bed.task.track = Track::OpenEnded;
    bed.task.hidden = HiddenTests::None;
    bed.task.expected_files = vec!["docs/a.md".into(), "docs/".into()];
    assert!(bed.verdict().await.solved);
    symlink("/etc/hostname", bed.at("tree/docs/b.md")).unwrap();
    bed.task.expected_files =
        ["docs/a.md", "docs/b.md", "../base", "docs/a.md/", "/etc/hostname"].map(str::to_owned).into();
    let verdict = bed.verdict().await;
    assert_eq!((verdict.solved, verdict.passed, verdict.total), (false, 1, 5));
    assert_eq!(verdict.class, ErrorClass::Partial);
    bed.task.expected_files.clear();
    let (message, _) = bed.undecided().await;
    assert!(message.contains("nothing to judge by"), "{message}");
}

#[tokio::test]
async fn a_file_that_the_tests_bring_along_is_not_the_agents() {
    let mut bed = greet(RIGHT);
    bed.task.expected_files = vec!["tests/greet.t".into()];
    let verdict = bed.verdict().await;
    assert_eq!((verdict.solved, verdict.class), (false, ErrorClass::Partial));
    assert!(verdict.summary.contains("missing: tests/greet.t"));
}

// --- real test programs ---------------------------------------------------------------------------------------------

fn cargo_bed(code: &str) -> Bed {
    Bed::new("CARGO_TARGET_DIR=../target cargo test --offline")
        .write("tree/Cargo.toml", "[package]\nname = \"demo\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n")
        .write("tree/src/lib.rs", code)
        .write("hidden/tests/hidden.rs", "#[test]\nfn adds() { assert_eq!(demo::add(2, 2), 4); }\n#[test]\nfn zero() { assert_eq!(demo::add(0, 0), 0); }\n")
        .declare(&["adds"], &["zero"])
}

#[tokio::test]
async fn cargo_test() {
    let right = cargo_bed(
        "/// ```\n/// assert_eq!(demo::add(1, 1), 2);\n/// ```\npub fn add(a: u32, b: u32) -> u32 { a + b }\n",
    );
    let verdict = right.verdict().await;
    assert!(verdict.solved, "{}", verdict.report);
    assert_eq!((verdict.passed, verdict.total, verdict.format.as_deref()), (2, 2, Some("libtest")));
    assert_eq!(verdict.tests.iter().filter(|test| test.status == TestStatus::Passed).count(), 3, "and a doc test");
    let wrong = cargo_bed("pub fn add(a: u32, b: u32) -> u32 { a * b + a * b }\n").verdict().await;
    assert_eq!((wrong.solved, wrong.class, wrong.passed), (false, ErrorClass::WrongApproach, 1));
    let broken = cargo_bed("pub fn add(a: u32 -> u32 { }\n").verdict().await;
    assert_eq!((broken.solved, broken.class, broken.passed, broken.total), (false, ErrorClass::Crash, 0, 2));
    assert!(broken.tests.iter().all(|test| test.status == TestStatus::NotRun));
}

/// Tells whether a program is here, and says so on the test's output where it is not.
fn has(program: &[&str]) -> bool {
    let out = std::process::Command::new(program[0]).args(&program[1..]).arg("--version").output();
    let there = out.is_ok_and(|out| out.status.success());
    if !there {
        eprintln!("skipped: this machine has no `{}`", program.join(" "));
    }
    there
}

fn unittest_bed(code: &str) -> Bed {
    let tests = "import unittest\nfrom calc import add\nclass T(unittest.TestCase):\n    def test_adds(self):\n        \
                 self.assertEqual(add(2, 2), 4)\n    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n";
    Bed::new("python3 -B -m unittest -v tests.test_calc")
        .write("tree/calc.py", code)
        .write("hidden/tests/__init__.py", "")
        .write("hidden/tests/test_calc.py", tests)
        .declare(&["test_adds (tests.test_calc.T)"], &["tests.test_calc.T.test_zero"])
}

#[tokio::test]
async fn python_unittest() {
    if !has(&["python3"]) {
        return;
    }
    let right = unittest_bed("def add(a, b): return a + b\n").verdict().await;
    assert!(right.solved, "{}", right.report);
    assert_eq!((right.passed, right.total, right.format.as_deref()), (2, 2, Some("unittest")));
    let wrong = unittest_bed("def add(a, b): return a * b + a * b\n").verdict().await;
    assert_eq!((wrong.solved, wrong.passed, wrong.class), (false, 1, ErrorClass::WrongApproach));
    let broken = unittest_bed("def add(a, b) return\n").verdict().await;
    assert_eq!((broken.solved, broken.passed, broken.class), (false, 0, ErrorClass::Crash));
}

#[tokio::test]
async fn python_code_that_tries_to_end_or_replace_the_tests() {
    if !has(&["python3"]) {
        return;
    }
    // Ends the test program with success while it loads.
    unittest_bed("import sys\nsys.exit(0)\n").undecided().await;
    // Prints a summary of its own, then lets the real tests fail.
    let forged = "print('Ran 2 tests in 0.001s\\n\\nOK')\ndef add(a, b): return 7\n";
    assert_eq!(unittest_bed(forged).verdict().await.class, ErrorClass::WrongApproach);
    // Stands in for the module that runs the tests.
    let shadow = unittest_bed("def add(a, b): return 7\n")
        .write("tree/unittest/__init__.py", "")
        .write("tree/unittest/__main__.py", "import sys\nprint('Ran 2 tests in 0.001s\\n\\nOK', file=sys.stderr)\n")
        .verdict()
        .await;
    assert_eq!((shadow.solved, shadow.class), (false, ErrorClass::WrongApproach));
}

fn pytest_bed(code: &str, options: &str) -> Bed {
    let tests = "import pytest\nfrom calc import add\n@pytest.mark.parametrize('a, b', [(2, 2), (1, 3)])\n\
                 def test_adds(a, b): assert add(a, b) == 4\ndef test_zero(): assert add(0, 0) == 0\n";
    Bed::new(&format!("python3 -B -m pytest -p no:cacheprovider {options} tests"))
        .write("tree/calc.py", code)
        .write("hidden/tests/test_calc.py", tests)
        .declare(&["tests/test_calc.py::test_adds[2-2]", "tests/test_calc.py::test_adds[1-3]"], &["test_zero"])
}

#[tokio::test]
async fn pytest() {
    if !has(&["python3", "-m", "pytest"]) {
        return;
    }
    for (options, format) in [("-v", "pytest"), ("-q -rA", "pytest"), ("--junitxml=$REFRAIN_REPORT_DIR/r.xml", "junit")]
    {
        let right = pytest_bed("def add(a, b): return a + b\n", options).verdict().await;
        assert!(right.solved, "{}", right.report);
        assert_eq!((right.passed, right.total, right.format.as_deref()), (3, 3, Some(format)));
        let wrong = pytest_bed("def add(a, b): return a * b\n", options).verdict().await;
        assert_eq!((wrong.solved, wrong.passed, wrong.class), (false, 2, ErrorClass::Partial), "{}", wrong.report);
        let broken = pytest_bed("def add(a, b) return\n", options).verdict().await;
        assert_eq!((broken.solved, broken.passed, broken.class), (false, 0, ErrorClass::Crash), "{}", broken.report);
    }
    // Files that pytest would load by itself, and a module in its place.
    let skip_all = "import pytest\ndef pytest_collection_modifyitems(items):\n    items.clear()\n\
                    def pytest_sessionfinish(session):\n    session.exitstatus = 0\n";
    let hijacked = pytest_bed("def add(a, b): return a * b\n", "-v")
        .write("tree/conftest.py", skip_all)
        .write("tree/tests/conftest.py", skip_all)
        .write("tree/pytest.py", "print('3 passed in 0.01s')\n")
        .verdict()
        .await;
    assert_eq!((hijacked.solved, hijacked.passed), (false, 2), "{}", hijacked.report);
}

#[tokio::test]
async fn node_test() {
    if !has(&["node"]) {
        return;
    }
    let tests = "const test = require('node:test'); const assert = require('node:assert'); const add = require('../add.js');\n\
                 test('sums', async (t) => { await t.test('adds', () => assert.equal(add(2, 2), 4)); \
                 await t.test('big', () => assert.equal(add(2, 3), 5)); });\n";
    let bed = |code: &str| {
        Bed::new("node --test --test-reporter=tap tests/add.test.js")
            .write("tree/add.js", code)
            .write("hidden/tests/add.test.js", tests)
            .declare(&["adds", "sums > big"], &[])
    };
    let right = bed("module.exports = (a, b) => a + b;\n").verdict().await;
    assert!(right.solved, "{}", right.report);
    assert_eq!(right.format.as_deref(), Some("tap"));
    let wrong = bed("module.exports = (a, b) => a * b;\n").verdict().await;
    assert_eq!((wrong.solved, wrong.passed, wrong.class), (false, 1, ErrorClass::Partial), "{}", wrong.report);
    let broken = bed("module.exports = (a, b => a;\n").verdict().await;
    assert_eq!((broken.solved, broken.passed), (false, 0), "{}", broken.report);
}
