//! Reads what is left of a session whose host is not there any more: one that died, or one that has long ended.

use std::time::Duration;

use jiff::Timestamp;

use super::ending::{self, Evidence, Stop};
use super::logs::read_again;
use super::session::{SessionOptions, SessionResult, part_from_resumed, read_file, take_login};
use super::{Harness, HarnessError, Reading, SessionRequest};
use crate::domain::FromLog;
use crate::domain::session::SessionEnd;
use crate::runtime::{Captured, Environment, ExecEnd, ExecReport};

/// Reads what a session has left whose host died: its log, and the file that its harness kept in `env`. `resumed` tells
/// whether it went on with an earlier one, and then when it began. `None` where nothing proves that the agent had
/// finished: neither a terminal record in its log or file, nor what `env` knows of the command's end. Its processes must
/// be gone.
///
/// # Errors
///
/// [`HarnessError::File`] if the log cannot be read.
pub async fn read_left(
    env: &dyn Environment,
    (harness, request): (&dyn Harness, &SessionRequest),
    options: &SessionOptions,
    (resumed, started_at): (bool, Timestamp),
) -> Result<Option<SessionResult>, HarnessError> {
    let log = options.stdout_log();
    let Ok(metadata) = tokio::fs::metadata(&log).await else { return Ok(None) };
    let ended = env.ended(&log);
    let exit_code = ended.as_ref().and_then(|exec| exec.exit_code);
    let printed = read_again(harness.reader(), options, exit_code, None).await?;
    let mut reading = read_file(printed, env, (harness, request), options, exit_code).await?;
    let recorded = reading.outcome.is_some();
    if !recorded && ended.is_none() {
        return Ok(None);
    }
    // The host that would have taken it back is gone.
    let logins = if options.on_login.is_some() { harness.login_files(env.home()) } else { Vec::new() };
    let left = take_login(env, &logins, options).await;
    part_from_resumed(&mut reading, resumed);
    let stop = if ended.is_some() { None } else { Some(Stop::AfterRecord) };
    let exec = ended.unwrap_or_else(|| cut_off(&metadata, started_at));
    let evidence = Evidence {
        exec: &exec,
        stop: stop.as_ref(),
        // That it went on running is no news: its host did not end it.
        recorded: false,
        reading: &reading,
        deadline: None,
        printed: metadata.len() > 0,
    };
    let mut judged = Vec::new();
    let decision = ending::decide(evidence, &mut judged);
    reading.warnings.extend(judged);
    let from_log =
        FromLog { decides_end: decision.by_log, outlived_end: false, resumed, warnings: reading.warnings.clone() };
    reading.warnings.push("its host died; the log shows that it had finished".to_owned());
    reading.warnings.extend(left);
    reading.warnings.extend(exec.notes.iter().cloned());
    Ok(Some(SessionResult { end: decision.end, exec, reading, started_at, from_log }))
}

/// The report of a command that had printed its terminal record when it was ended.
fn cut_off(log: &std::fs::Metadata, started_at: Timestamp) -> ExecReport {
    // The host's clock stopped with it; the file system has noted when the agent wrote last.
    let last = log.modified().ok().and_then(|time| Timestamp::try_from(time).ok()).unwrap_or(started_at);
    let duration = Duration::try_from(last.duration_since(started_at)).unwrap_or_default();
    let stdout = Captured { bytes: Vec::new(), total: log.len(), cut: log.len() > 0 };
    report((ExecEnd::Stopped, None, None), duration, stdout, Captured::default())
}

fn report(
    (end, exit_code, signal): (ExecEnd, Option<i32>, Option<i32>),
    duration: Duration,
    stdout: Captured,
    stderr: Captured,
) -> ExecReport {
    let longest_silence = Duration::ZERO;
    let (leftovers, out_of_memory, notes) = (0, None, Vec::new());
    ExecReport { end, exit_code, signal, stdout, stderr, duration, longest_silence, leftovers, out_of_memory, notes }
}

/// What is on record of how a process ended whose log is read once more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether the host ended it after it had told its end.
    pub outlived_end: bool,
    /// The end of what it printed on standard error.
    pub stderr: Vec<u8>,
    /// Whether it printed anything on standard output.
    pub printed: bool,
}

/// Decides anew how a session ended whose end is the log's to tell, or the exit code's. What a reader should know of that
/// is appended to the warnings of the reading, which must have been parted from earlier sessions.
#[must_use]
pub fn end_again(reading: &mut Reading, process: ProcessEnd) -> SessionEnd {
    let end = match (process.outlived_end, process.signal, process.exit_code) {
        (true, ..) | (false, None, None) => ExecEnd::Stopped,
        (false, Some(signal), _) => ExecEnd::Signaled(signal),
        (false, None, Some(code)) => ExecEnd::Exited(code),
    };
    let stderr = Captured { total: process.stderr.len() as u64, bytes: process.stderr, cut: false };
    let exec = report((end, process.exit_code, process.signal), Duration::ZERO, Captured::default(), stderr);
    let evidence = Evidence {
        exec: &exec,
        // What nobody saw end was ended by us, and that the log decides says that it was not for a limit.
        stop: Some(&Stop::AfterRecord).filter(|_| exec.end == ExecEnd::Stopped),
        recorded: process.outlived_end,
        reading,
        deadline: None,
        printed: process.printed,
    };
    let mut warnings = Vec::new();
    let decision = ending::decide(evidence, &mut warnings);
    reading.warnings.extend(warnings);
    decision.end
}
