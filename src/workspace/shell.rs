//! Work inside an environment whose files do not lie on the host: a few lines of POSIX shell.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::WorkspaceError;
use crate::runtime::{Command, Environment, ExecEnd, ExecReport, Output, RuntimeError, Stdin};

/// The script's way to say that there is no such file.
pub(super) const ABSENT: i32 = 43;
/// The script's way to say that a path leads out.
pub(super) const OUTSIDE: i32 = 44;

/// Runs a script with arguments (`$1`, `$2`, …) and keeps `limit` bytes of its output.
pub(super) async fn run(
    env: &dyn Environment,
    script: &str,
    args: &[&str],
    input: Option<Vec<u8>>,
    limit: usize,
) -> Result<ExecReport, WorkspaceError> {
    let words = ["sh", "-c", script, "sh"].into_iter().chain(args.iter().copied());
    let command = Command { stdin: input.map_or(Stdin::Null, Stdin::Bytes), ..Command::new(words) };
    Ok(env.exec(&command, Output::Capture { limit }, &CancellationToken::new()).await?)
}

/// Runs a script that must succeed.
pub(super) async fn must(
    env: &dyn Environment,
    action: &'static str,
    script: &str,
    args: &[&str],
) -> Result<(), WorkspaceError> {
    let report = run(env, script, args, None, 64 * 1024).await?;
    if report.success() { Ok(()) } else { Err(failed(action, &report)) }
}

/// Returns the script's own exit code.
pub(super) fn code(report: &ExecReport) -> Option<i32> {
    match report.end {
        ExecEnd::Exited(code) => Some(code),
        ExecEnd::Signaled(_) | ExecEnd::TimedOut { .. } | ExecEnd::OutputLimit { .. } | ExecEnd::Stopped => None,
    }
}

pub(super) fn failed(action: &'static str, report: &ExecReport) -> WorkspaceError {
    let said = String::from_utf8_lossy(&report.stderr.bytes).trim().to_owned();
    let source = std::io::Error::other(if said.is_empty() { format!("{:?}", report.end) } else { said });
    RuntimeError::Io { action, source }.into()
}

/// A path inside an environment as a word of a command.
pub(super) fn word(path: &Path) -> Result<&str, WorkspaceError> {
    path.to_str().ok_or_else(|| WorkspaceError::Path {
        path: path.to_string_lossy().into_owned(),
        reason: "is not valid UTF-8, which a path inside the environment must be",
    })
}
