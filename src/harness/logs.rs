//! Reads what a session has left: its logs from their start, and the file that the harness kept.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::lines::{LineSplitter, read_lines, read_log};
use super::session::SessionOptions;
use super::session_file::SessionFile;
use super::{AgentEvent, HarnessError, OutputReader, Reading};
use crate::domain::{Micros, Usage};
use crate::runtime::{ExecReport, Stream};

/// Reads the whole log with a fresh reader, and the harness's own file after it.
pub(super) async fn read_again(
    reader: Box<dyn OutputReader>,
    options: &SessionOptions,
    exit_code: Option<i32>,
    file: Option<(SessionFile, PathBuf)>,
) -> Result<Reading, HarnessError> {
    let logs = [(Stream::Stdout, options.stdout_log()), (Stream::Stderr, options.stderr_log())];
    let work = tokio::task::spawn_blocking(move || {
        let file = file.as_ref().map(|(file, copy)| (file, copy.as_path()));
        read_all(reader, &logs, file, exit_code)
    });
    let failed = |source| HarnessError::File { action: "read", path: options.folder.clone(), source };
    work.await.map_err(|error| failed(error.into()))?
}

/// Reads what the runtime has kept of a log that is gone. Tokens count only where that is all of it.
pub(super) fn read_kept(mut reader: Box<dyn OutputReader>, exec: &ExecReport) -> Reading {
    let mut events = Vec::new();
    let mut whole = true;
    for (stream, kept) in [(Stream::Stdout, &exec.stdout), (Stream::Stderr, &exec.stderr)] {
        whole &= kept.bytes.len() as u64 == kept.total;
        let mut lines = LineSplitter::default();
        let mut on_line = |line: &[u8]| {
            reader.line(stream, line, &mut events);
            events.clear();
        };
        lines.push(&kept.bytes, &mut on_line);
        lines.finish(&mut on_line);
    }
    let mut reading = conclude(reader, exec.exit_code);
    if !whole {
        (reading.usage, reading.cost) = (Usage::UNKNOWN, None);
    }
    reading.warnings.push("the log was removed during the session; what was kept of its end was read".to_owned());
    reading
}

/// Reads logs as a session's output: also for logs of earlier runs, after a reader was mended.
///
/// # Errors
///
/// [`HarnessError::File`] with the log that cannot be read.
pub fn read_logs(
    reader: Box<dyn OutputReader>,
    logs: &[(Stream, PathBuf)],
    exit_code: Option<i32>,
) -> Result<Reading, HarnessError> {
    read_all(reader, logs, None, exit_code)
}

/// Reads logs as [`read_logs`] does, and after them a copy of the file that the harness kept of the session.
///
/// # Errors
///
/// [`HarnessError::File`] with the log or the copy that cannot be read.
pub fn read_all(
    mut reader: Box<dyn OutputReader>,
    logs: &[(Stream, PathBuf)],
    file: Option<(&SessionFile, &Path)>,
    exit_code: Option<i32>,
) -> Result<Reading, HarnessError> {
    let mut skipped = 0;
    for (stream, path) in logs {
        skipped += read_one(&mut *reader, *stream, path)?;
    }
    let failed = |path: &Path, source| HarnessError::File { action: "read", path: path.to_owned(), source };
    let note = match file {
        Some((file, copy)) => file.read(&mut *reader, copy).map_err(|source| failed(copy, source))?,
        None => None,
    };
    let mut reading = conclude(reader, exit_code);
    reading.warnings.extend(note);
    if skipped > 0 {
        reading.warnings.push(format!("{skipped} lines were too long to be read"));
    }
    Ok(reading)
}

/// Ends the reading of a session; what no reader can know of its program alone is put right.
#[must_use]
pub fn conclude(reader: Box<dyn OutputReader>, exit_code: Option<i32>) -> Reading {
    measured(reader.finish(exit_code))
}

/// Takes a cost of 0 out of a reading that does not tell at the same time that nothing was used: programs say 0 of a model
/// whose price they do not know.
fn measured(mut reading: Reading) -> Reading {
    reading.cost = reading.cost.filter(|cost| *cost != Micros::ZERO || reading.usage.total() == Some(0));
    reading
}

/// Reads one stream of a session from wherever it is kept, and hands on each event that it shows.
///
/// # Errors
///
/// What the source says.
pub fn read_events(
    reader: &mut dyn OutputReader,
    stream: Stream,
    source: &mut dyn Read,
    on_event: &mut dyn FnMut(AgentEvent),
) -> io::Result<()> {
    let mut events = Vec::new();
    let mut on_line = |line: &[u8]| {
        reader.line(stream, line, &mut events);
        events.drain(..).for_each(&mut *on_event);
    };
    read_lines(source, &mut on_line).map(|_| ())
}

fn read_one(reader: &mut dyn OutputReader, stream: Stream, path: &Path) -> Result<u64, HarnessError> {
    let mut events = Vec::new();
    let mut on_line = |line: &[u8]| {
        reader.line(stream, line, &mut events);
        events.clear();
    };
    read_log(path, &mut on_line).map_err(|source| HarnessError::File { action: "read", path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    const USED: Usage = Usage { input: Some(5), ..Usage::ZERO };

    #[test_case(0, USED, None; "tokens for nothing")]
    #[test_case(0, Usage::UNKNOWN, None; "nothing is known")]
    #[test_case(0, Usage::ZERO, Some(0); "nothing was used")]
    #[test_case(7, USED, Some(7); "a price")]
    #[test_case(7, Usage::UNKNOWN, Some(7); "a cost alone")]
    fn a_cost_of_nothing_is_none(cost: i64, usage: Usage, expected: Option<i64>) {
        let reading = measured(Reading { cost: Some(Micros::new(cost)), usage, ..Reading::default() });
        assert_eq!(reading.cost, expected.map(Micros::new));
    }
}
