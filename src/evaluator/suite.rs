//! The evaluator of tasks with tests: overlay, environment, test command, results, ruling.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use super::classify::{self, Evidence, Ruling};
use super::formats::SuiteReport;
use super::overlay::{self, Overlaid};
use super::reading::{self, Found};
use super::{EvaluationError, EvaluationInput, Evaluator};
use crate::domain::failure::Timer;
use crate::domain::task::{EvaluateIn, HiddenTests};
use crate::domain::{Task, Verdict};
use crate::runtime::{Command, Environment, EnvironmentSpec, ExecEnd, ExecReport, Limits, Output, RuntimeError};

/// The variable that names the folder for JUnit files.
pub const REPORT_DIR: &str = "REFRAIN_REPORT_DIR";

/// The most bytes that a test command may print.
const OUTPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Bound of the small commands around the test command.
const CHORE: Duration = Duration::from_secs(60);

/// The most single results that a verdict keeps, the declared ones first.
const MAX_TESTS: usize = 5000;

/// The most bytes of each stream that a verdict keeps.
const REPORT_BYTES: usize = 24 * 1024;

/// Judges by hidden tests, a test command and expected files.
///
/// Tests run in a fresh environment with a copy of the final tree and nothing else: what the task's `setup_script` or
/// the agent left outside the workspace is not there. A task whose tests need that asks for `evaluate: same`, and trusts
/// the agent's environment.
#[derive(Debug, Clone)]
pub struct TestSuiteEvaluator {
    timeout: Duration,
}

/// What is left of a test command.
struct Ran {
    report: ExecReport,
    /// Where JUnit files were copied to; may not exist.
    reports: PathBuf,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl TestSuiteEvaluator {
    /// Makes an evaluator whose test commands may run for `timeout`.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self { timeout }
    }
}

#[async_trait]
impl Evaluator for TestSuiteEvaluator {
    async fn evaluate(&self, input: EvaluationInput<'_>) -> Result<Verdict, EvaluationError> {
        let task = input.task;
        // Before the overlay: a file that the tests bring along is no work of the agent.
        let missing = missing_files(input.tree, &task.expected_files);
        let Some(command) = &task.test_command else {
            let ruling = classify::classify_files(&task.expected_files, &missing, input.changed)
                .map_err(|message| undecided(message, String::new()))?;
            return Ok(verdict(ruling, None, None, String::new()));
        };
        if input.stop.is_cancelled() {
            return Err(EvaluationError::Cancelled);
        }
        let overlaid = lay(&input).await?;
        let ran = match task.evaluate {
            EvaluateIn::Fresh => self.in_fresh(&input, command).await?,
            EvaluateIn::Same => self.in_same(&input, command, &overlaid).await?,
        };
        judge(&input, command, &missing, &ran)
    }
}

impl TestSuiteEvaluator {
    async fn in_fresh(&self, input: &EvaluationInput<'_>, command: &str) -> Result<Ran, EvaluationError> {
        let spec = EnvironmentSpec {
            attempt: input.attempt.clone(),
            purpose: "evaluation",
            scratch: input.scratch.join("environment"),
            env: Vec::new(),
            image: input.image.map(str::to_owned),
            container: input.container.clone(),
            gateway: None,
        };
        let environment = input.runtime.open(spec).await?;
        let ran = async {
            environment.put(input.tree, environment.workspace()).await?;
            self.run(input, environment.as_ref(), command).await
        }
        .await;
        if let Err(error) = environment.close().await {
            // What is left is found by the sweep; the results are no worse for it.
            tracing::warn!(attempt = %input.attempt, %error, "the evaluation's environment was not removed");
        }
        ran
    }

    async fn in_same(
        &self,
        input: &EvaluationInput<'_>,
        command: &str,
        overlaid: &Overlaid,
    ) -> Result<Ran, EvaluationError> {
        let environment = input.environment;
        if !overlaid.wiped.is_empty() {
            let mut argv = vec!["rm".to_owned(), "-rf".to_owned(), "--".to_owned()];
            argv.extend(overlaid.wiped.iter().map(|path| path.display().to_string()));
            chore(input, environment, argv, "clear the way for the hidden tests").await?;
        }
        if !overlaid.written.is_empty() {
            let staging = input.scratch.join("staging");
            overlay::stage(overlaid, input.tree, &staging)?;
            environment.put(&staging, environment.workspace()).await?;
        }
        self.run(input, environment, command).await
    }

    async fn run(
        &self,
        input: &EvaluationInput<'_>,
        environment: &dyn Environment,
        command: &str,
    ) -> Result<Ran, EvaluationError> {
        // Outside the workspace, and under a name that the agent could not know when it wrote its code.
        let report_dir = environment.home().join(format!("refrain-report-{}", uuid::Uuid::new_v4().simple()));
        let argv = ["mkdir", "-p", "--"].map(str::to_owned).into_iter().chain([report_dir.display().to_string()]);
        chore(input, environment, argv.collect(), "make the folder for reports").await?;
        let (stdout, stderr) = (input.scratch.join("tests.stdout"), input.scratch.join("tests.stderr"));
        std::fs::create_dir_all(input.scratch).map_err(|source| file_error("create", input.scratch, source))?;
        let command = Command {
            env: vec![(REPORT_DIR.to_owned(), report_dir.display().to_string())],
            limits: Limits {
                timeout: Some((Timer::Evaluation, self.timeout)),
                output_bytes: Some(OUTPUT_BYTES),
                ..Limits::default()
            },
            ..Command::shell(command)
        };
        let output = Output::Spool { stdout: stdout.clone(), stderr: stderr.clone(), live: None };
        let report = environment.exec(&command, output, input.stop).await?;
        let reports = input.scratch.join("reports");
        match environment.get(&report_dir, &reports).await {
            Ok(_) => {}
            Err(error @ (RuntimeError::Lost(_) | RuntimeError::Unavailable { .. })) => return Err(error.into()),
            // The tests may have removed the folder; then there are no reports.
            Err(error) => tracing::debug!(attempt = %input.attempt, %error, "no reports were collected"),
        }
        let read = |path: &Path| {
            reading::read_bounded(path).map(|(bytes, _)| bytes).map_err(|source| file_error("read", path, source))
        };
        Ok(Ran { stdout: read(&stdout)?, stderr: read(&stderr)?, report, reports })
    }
}

fn judge(
    input: &EvaluationInput<'_>,
    command: &str,
    missing: &[String],
    ran: &Ran,
) -> Result<Verdict, EvaluationError> {
    let task = input.task;
    let words = own_words(ran);
    let mut late = None;
    let exit = match ran.report.end {
        ExecEnd::Exited(code) => Some(code),
        ExecEnd::Signaled(_) => None,
        ExecEnd::Stopped => return Err(EvaluationError::Cancelled),
        ExecEnd::TimedOut { limit, .. } => {
            late = Some(limit);
            None
        }
        ExecEnd::OutputLimit { limit } => {
            return Err(undecided(format!("the test command printed more than {limit} bytes"), words));
        }
    };
    let found = match (found(task, command, ran), late) {
        (Ok(found), _) => found,
        // What was cut off in the middle may not be readable.
        (Err(_), Some(_)) => Found::default(),
        (Err(message), None) => return Err(undecided(message, words)),
    };
    let evidence = Evidence {
        report: found.report.as_ref(),
        expects_report: found.expected,
        exit,
        fail_to_pass: &task.fail_to_pass,
        pass_to_pass: &task.pass_to_pass,
        missing_files: missing,
        changed: input.changed,
        visible_pass: input.checks_pass == Some(true) && !task.checks.is_empty() && task.hidden != HiddenTests::None,
    };
    if let Some(limit) = late {
        return match classify::classify_timeout(&evidence, limit) {
            Some(ruling) => Ok(verdict(ruling, None, found.format, words)),
            None => Err(EvaluationError::Timeout { limit, partial: partial(found.report.as_ref()), output: words }),
        };
    }
    let mut ruling = classify::classify(&evidence).map_err(|message| undecided(message, words.clone()))?;
    let how = found.format.as_deref().map(|format| format!("{format}, ")).unwrap_or_default();
    let end = match (exit, ran.report.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    };
    ruling.summary = format!("{} ({how}{end})", ruling.summary);
    Ok(verdict(ruling, exit, found.format, words))
}

/// Files are read and written off the reactor's thread: an overlay may be large.
async fn lay(input: &EvaluationInput<'_>) -> Result<Overlaid, EvaluationError> {
    let hidden = input.task.hidden.clone();
    let tree = input.tree.to_path_buf();
    let base = input.base.map(Path::to_path_buf);
    let failed = tree.clone();
    tokio::task::spawn_blocking(move || overlay::lay(&hidden, &tree, base.as_deref()))
        .await
        .map_err(|error| file_error("lay the tests over", &failed, std::io::Error::other(error)))?
}

/// Runs a small command of ours.
async fn chore(
    input: &EvaluationInput<'_>,
    environment: &dyn Environment,
    argv: Vec<String>,
    purpose: &str,
) -> Result<(), EvaluationError> {
    let mut command = Command::new(argv);
    command.limits.timeout = Some((Timer::Evaluation, CHORE));
    let report = environment.exec(&command, Output::capture(), input.stop).await?;
    match report.end {
        ExecEnd::Exited(0) => Ok(()),
        ExecEnd::Stopped => Err(EvaluationError::Cancelled),
        end => Err(undecided(
            format!("cannot {purpose} in the environment ({end:?})"),
            String::from_utf8_lossy(&report.stderr.bytes).into_owned(),
        )),
    }
}

fn found(task: &Task, command: &str, ran: &Ran) -> Result<Found, String> {
    let chosen = match task.metadata.get("test_format") {
        None => None,
        Some(serde_json::Value::String(word)) => Some(word.as_str()),
        Some(other) => return Err(format!("the task's `test_format` is `{other}`; it must be a word")),
    };
    // Each stream is whole in itself, so one after the other no line is torn.
    let mut output = ran.stdout.clone();
    output.push(b'\n');
    output.extend_from_slice(&ran.stderr);
    reading::find(reading::junit_files(&ran.reports)?, chosen, command, &output)
}

/// Says what had been seen before the time ran out.
fn partial(report: Option<&SuiteReport>) -> String {
    report
        .map(|report| format!("; until then {} tests passed and {} failed", report.passed, report.bad()))
        .unwrap_or_default()
}

/// Returns the expected paths that are no file or folder of the tree. A symlink is neither: it may lead anywhere.
fn missing_files(tree: &Path, expected: &[String]) -> Vec<String> {
    let there = |path: &&String| {
        let metadata = overlay::entry(tree, Path::new(path.as_str()));
        metadata.is_some_and(|metadata| metadata.is_dir() || (metadata.is_file() && !path.ends_with('/')))
    };
    expected.iter().filter(|path| !there(path)).cloned().collect()
}

fn verdict(ruling: Ruling, exit_code: Option<i32>, format: Option<String>, report: String) -> Verdict {
    let mut tests = ruling.tests;
    tests.truncate(MAX_TESTS);
    Verdict {
        solved: ruling.solved,
        class: ruling.class,
        passed: ruling.passed,
        total: ruling.total,
        tests,
        exit_code,
        format,
        summary: ruling.summary,
        report,
    }
}

/// Both streams, cut to size.
fn own_words(ran: &Ran) -> String {
    let mut words = excerpt(&ran.stdout);
    let errors = excerpt(&ran.stderr);
    if !errors.is_empty() {
        if !words.is_empty() && !words.ends_with('\n') {
            words.push('\n');
        }
        words.push_str(&errors);
    }
    words
}

/// Keeps the first quarter from the beginning and the rest from the end, where the summary is.
fn excerpt(bytes: &[u8]) -> String {
    if bytes.len() <= REPORT_BYTES {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let (head, tail) = (REPORT_BYTES / 4, REPORT_BYTES - REPORT_BYTES / 4);
    let left_out = bytes.len() - REPORT_BYTES;
    format!(
        "{}\n[{left_out} bytes left out]\n{}",
        String::from_utf8_lossy(&bytes[..head]),
        String::from_utf8_lossy(&bytes[bytes.len() - tail..])
    )
}

fn undecided(message: String, output: String) -> EvaluationError {
    EvaluationError::Undecided { message, output }
}

fn file_error(action: &'static str, path: &Path, source: std::io::Error) -> EvaluationError {
    EvaluationError::File { action, path: path.to_path_buf(), source }
}
