//! The visible checks of a task, run in the environment as the agent could run them.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::domain::failure::Timer;
use crate::redact::Redactor;
use crate::runtime::{Command, Environment, ExecEnd, ExecReport, Output, RuntimeError};
use crate::script::port::{CheckResult, ChecksReport};

/// Bound of one check.
const CHECK_TIMEOUT: Duration = Duration::from_secs(300);

/// Bytes of output that a report keeps of each check; more would drown a prompt.
const KEPT: usize = 8 * 1024;

/// Runs every check in order and reports on all of them.
pub(crate) async fn run(
    env: &dyn Environment,
    workspace: &Path,
    checks: &[String],
    remaining: Duration,
    redactor: &Redactor,
    stop: &CancellationToken,
) -> Result<ChecksReport, RuntimeError> {
    let mut results = Vec::with_capacity(checks.len());
    for check in checks {
        let mut command = Command::shell(check.clone());
        command.cwd = Some(workspace.to_owned());
        let limit = remaining.min(CHECK_TIMEOUT);
        command.limits.timeout = Some((Timer::Evaluation, limit));
        let report = env.exec(&command, Output::Capture { limit: KEPT }, stop).await?;
        results.push(CheckResult {
            command: check.clone(),
            ok: report.success(),
            exit_code: report.exit_code,
            output: redactor.redact(&both_streams(&report)).into_string(),
        });
    }
    Ok(summarize(results))
}

fn both_streams(report: &ExecReport) -> String {
    let mut text = String::from_utf8_lossy(&report.stdout.bytes).into_owned();
    let errors = String::from_utf8_lossy(&report.stderr.bytes);
    if !text.is_empty() && !text.ends_with('\n') && !errors.is_empty() {
        text.push('\n');
    }
    text.push_str(&errors);
    if let ExecEnd::TimedOut { limit, .. } = &report.end {
        text.push_str(&format!("\n(stopped after {} s)", limit.as_secs()));
    }
    text
}

fn summarize(checks: Vec<CheckResult>) -> ChecksReport {
    let passed = checks.iter().filter(|check| check.ok).count();
    let mut output = String::new();
    for check in checks.iter().filter(|check| !check.ok) {
        let code = check.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
        output.push_str(&format!("$ {}\n{}\n({code})\n", check.command, check.output.trim_end()));
    }
    ChecksReport {
        ok: passed == checks.len(),
        passed: u32::try_from(passed).unwrap_or(u32::MAX),
        total: u32::try_from(checks.len()).unwrap_or(u32::MAX),
        output,
        checks,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(command: &str, ok: bool) -> CheckResult {
        CheckResult { command: command.to_owned(), ok, exit_code: Some(i32::from(!ok)), output: "out\n".to_owned() }
    }

    #[test]
    fn the_report_quotes_only_what_failed() {
        let report = summarize(vec![check("sh a.sh", true), check("sh b.sh", false)]);
        assert_eq!((report.ok, report.passed, report.total), (false, 1, 2));
        assert_eq!(report.output, "$ sh b.sh\nout\n(exit code 1)\n");
    }

    #[test]
    fn no_checks_pass() {
        assert!(summarize(Vec::new()).ok);
    }
}
