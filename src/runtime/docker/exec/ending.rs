//! What a command's end is, from the daemon, the wrapper's record and the log: each where it is the authority.
//!
//! The daemon tells the exit code, since no process in the container can make it lie. The record tells what the code
//! cannot: a signal, sizes, memory. The log tells what was printed.

use std::time::Duration;

use super::super::container::Container;
use super::daemon::{self, Fate};
use super::frame::{How as Ended, Record, closing_record};
use super::reap::{self, How, Whose};
use super::script::{base, program};
use super::session::Session;
use super::sink::{Sink, SpoolFile};
use super::{layout, log};
use crate::runtime::{ExecEnd, ExecReport, OutOfMemory, RuntimeError};

/// How long the daemon may take to note an end that the wrapper has reported.
const NOTED: Duration = Duration::from_secs(5);
/// How much later a daemon that is busy may note it once nobody is left of the command.
const LATE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);
/// How long a container that was killed may take to look it, once its processes are gone.
const FALL: Duration = Duration::from_secs(1);
/// The most that is fetched of a log where nothing else limits it: a file may claim any size.
const LONGEST_LOG: u64 = 1 << 30;
/// From here on a limit of memory is none.
const NO_LIMIT: u64 = 1 << 62;
/// The longest closing record.
const LONGEST_RECORD: u64 = 4096;

/// The end of a command's first process.
pub(super) struct Status {
    pub(super) end: ExecEnd,
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

/// The logs of a command in its container.
pub(super) struct Logs<'a> {
    pub(super) container: &'a Container,
    pub(super) id: &'a str,
    /// How large they are by the closing record: unknown without one, `None` where there is no log.
    pub(super) sizes: Option<[Option<u64>; 2]>,
    /// The most the command may print, in bytes.
    pub(super) most: Option<u64>,
    /// Whether a log that cannot be read is an error, and not only a note.
    pub(super) needed: bool,
}

/// Makes the report of a command that is over. `ours` is what of ours ended it.
pub(super) async fn report(mut session: Session<'_>, ours: Option<ExecEnd>) -> Result<ExecReport, RuntimeError> {
    let measured = session.clock.elapsed().saturating_sub(session.began);
    let mut notes = Vec::new();
    let fate = fate(&mut session, &mut notes).await?;
    if let Some(reason) = &session.heard.refused {
        return Err(refusal(&session, reason));
    }
    let record = match session.heard.ended.take() {
        Some(record) => Some(record),
        None => unreported(&mut session, fate, ours.is_some()).await?,
    };
    if ours.is_none() {
        session.check_capture()?;
    }
    // A record that says otherwise than the daemon is not the wrapper's last word.
    let record = record.filter(|record| match fate {
        Fate::Exited(code) => record.status == code,
        Fate::Running | Fate::Unknown => true,
    });
    let status = status(record.as_ref(), fate, &mut notes);
    // What is beyond the limit on output is nobody's, and nothing can be missing of a program that never began.
    let enough = matches!(ours, Some(ExecEnd::OutputLimit { .. })) || session.heard.begun.is_none();
    if !enough {
        complete_session(&mut session, record.as_ref(), &mut notes).await?;
    }
    let out_of_memory = match &record {
        Some(record) => out_of_memory(record),
        None => daemon::out_of_memory(session.container).await?,
    };
    let duration = match &record {
        Some(record) if ours.is_none() => record.duration.min(measured),
        _ => measured,
    };
    let end = ours.or_else(|| session.watch.over_output(session.sink.total())).unwrap_or(status.end);
    let longest_silence = session.watch.silence(session.began + duration);
    let (stdout, stderr) = session.sink.finish()?;
    Ok(ExecReport {
        end,
        exit_code: status.code,
        signal: status.signal,
        stdout,
        stderr,
        duration,
        longest_silence,
        leftovers: record.map_or(0, |record| record.killed),
        out_of_memory,
        notes,
    })
}

/// Asks the daemon for the end until it knows it.
async fn fate(session: &mut Session<'_>, notes: &mut Vec<String>) -> Result<Fate, RuntimeError> {
    let mut until = session.clock.elapsed() + NOTED;
    let mut gone = false;
    loop {
        let fate = session.fate().await?;
        if fate != Fate::Running {
            return Ok(fate);
        }
        if session.clock.elapsed() >= until {
            if gone {
                // Nobody is left of it, and the daemon does not come to know: the record has to do.
                return Ok(Fate::Unknown);
            }
            let whose = Whose::Command(session.id.clone(), None);
            if reap::reap(session.container, How::Count, &whose).await?.left > 0 {
                break;
            }
            (gone, until) = (true, until + LATE);
        }
        tokio::time::sleep(PAUSE).await;
    }
    // It has reported its end and lives on: those were not the wrapper's words.
    session.heard.ended = None;
    notes.push("it was still running after its end had been reported, and was killed".to_owned());
    session.end_with_wrapper().await?;
    session.fate().await
}

/// A command that has ended without the wrapper's word: the container was lost, the stream was, or the wrapper was
/// killed.
async fn unreported(session: &mut Session<'_>, fate: Fate, ours: bool) -> Result<Option<Record>, RuntimeError> {
    let container = session.container;
    let until = session.clock.elapsed() + FALL;
    let killed = fate == Fate::Exited(137) || fate == Fate::Unknown;
    loop {
        if let Some(cause) = daemon::cause_of_loss(container).await? {
            // What it had printed is kept for whoever reads the log later.
            let mut notes = Vec::new();
            if let Err(error) = complete_session(session, None, &mut notes).await {
                tracing::debug!(%error, "the log of a lost command was not fetched");
            }
            return Err(RuntimeError::Lost(cause));
        }
        if !killed || session.clock.elapsed() >= until {
            break;
        }
        tokio::time::sleep(PAUSE * 10).await;
    }
    let complaint = session.heard.complaint.trim();
    if session.heard.begun.is_none() && !complaint.is_empty() {
        if complaint.contains("executable file not found") || complaint.contains("no such file or directory") {
            let reason = format!("the image has no shell to start it with: {complaint}");
            return Err(RuntimeError::NotRunnable { program: program(session.command).to_owned(), reason });
        }
        let source = std::io::Error::other(complaint.to_owned());
        return Err(RuntimeError::Io { action: "start a command", source });
    }
    let record = closing_record(&record_file(container, &session.id).await?, &session.nonce);
    if record.is_none() && fate == Fate::Unknown && !ours {
        return Err(RuntimeError::Lost("the daemon has forgotten the command, and it has left no record".to_owned()));
    }
    Ok(record)
}

/// Fetches the file of the closing record; empty where there is none.
pub(super) async fn record_file(container: &Container, id: &str) -> Result<Vec<u8>, RuntimeError> {
    let mut file = Vec::new();
    let mut keep = |bytes: &[u8]| {
        file.extend_from_slice(bytes);
        Ok(())
    };
    log::fetch(container, &format!("{}.end", base(id)), LONGEST_RECORD, &mut keep).await?;
    Ok(file)
}

fn refusal(session: &Session<'_>, reason: &str) -> RuntimeError {
    let command = session.command;
    let name = program(command);
    let reason = match reason {
        "folder" => {
            let folder = std::path::Path::new(layout::WORKSPACE).join(command.cwd.as_deref().unwrap_or("".as_ref()));
            format!("its working directory `{}` does not exist or may not be entered", folder.display())
        }
        "directory" => format!("`{name}` is a directory"),
        "mode" => format!("`{name}` is not executable; `chmod +x` it"),
        "input" => "its standard input could not be written in the container".to_owned(),
        _ if name.contains('/') => format!("`{name}` does not exist"),
        _ => "there is no such program in PATH".to_owned(),
    };
    RuntimeError::NotRunnable { program: name.to_owned(), reason }
}

pub(super) fn status(record: Option<&Record>, fate: Fate, notes: &mut Vec<String>) -> Status {
    let code = match (fate, record) {
        (Fate::Exited(code), _) => code,
        (_, Some(record)) => record.status,
        // Killed by us, wrapper and all, and forgotten.
        (_, None) => 137,
    };
    let code = i32::try_from(code).unwrap_or(-1);
    let how = match record {
        Some(record) => record.how,
        // The wrapper's own end, of a signal that was not meant for it alone.
        None if code > 128 => Ended::Signal,
        None => Ended::Exit,
    };
    match how {
        Ended::Exit => Status { end: ExecEnd::Exited(code), code: Some(code), signal: None },
        Ended::Signal => Status { end: ExecEnd::Signaled(code - 128), code: None, signal: Some(code - 128) },
        Ended::Unknown => {
            notes.push("the shell that waited for it was killed: its own exit code is unknown".to_owned());
            Status { end: ExecEnd::Signaled(9), code: None, signal: Some(9) }
        }
    }
}

pub(super) fn out_of_memory(record: &Record) -> Option<OutOfMemory> {
    let limit = record.limit.filter(|&limit| limit < NO_LIMIT && record.hits > 0);
    (record.ooms > 0).then(|| limit.map_or(OutOfMemory::Machine, OutOfMemory::Limit))
}

/// Makes spooled output whole: the log is the authority, and where it is gone, what was streamed stands in.
async fn complete_session(
    session: &mut Session<'_>,
    record: Option<&Record>,
    notes: &mut Vec<String>,
) -> Result<(), RuntimeError> {
    let Sink::Spooled(spool) = &mut session.sink else { return Ok(()) };
    let logs = Logs {
        container: session.container,
        id: &session.id,
        sizes: record.map(|record| record.sizes),
        most: session.command.limits.output_bytes,
        needed: false,
    };
    complete(&mut spool.files, &logs, notes).await
}

/// The same for files of any host.
pub(super) async fn complete(
    files: &mut [SpoolFile; 2],
    logs: &Logs<'_>,
    notes: &mut Vec<String>,
) -> Result<(), RuntimeError> {
    let most = logs.most.map_or(LONGEST_LOG, |limit| limit.saturating_add(1));
    for (at, (name, suffix)) in [("standard output", "out"), ("standard error", "err")].into_iter().enumerate() {
        let file = &mut files[at];
        let size = logs.sizes.map(|sizes| sizes[at]);
        if size == Some(Some(file.length)) {
            continue;
        }
        if size == Some(None) {
            notes.push(format!("no log of its {name} could be made in the container: only the stream was kept"));
            continue;
        }
        let path = format!("{}.{suffix}", base(logs.id));
        let mut fetched = file.beside()?;
        let mut keep = |bytes: &[u8]| fetched.append(bytes);
        match log::fetch(logs.container, &path, most.max(file.length), &mut keep).await {
            Ok(Some(_)) => join(file, fetched, name, notes)?,
            Ok(None) => {
                fetched.discard();
                notes.push(format!("the log of its {name} is gone: what was streamed stands in for it"));
            }
            Err(error) => {
                fetched.discard();
                if logs.needed {
                    return Err(error);
                }
                notes.push(format!(
                    "the log of its {name} cannot be read ({error}): what was streamed stands in for it"
                ));
            }
        }
    }
    Ok(())
}

fn join(file: &mut SpoolFile, fetched: SpoolFile, name: &str, notes: &mut Vec<String>) -> Result<(), RuntimeError> {
    let (streamed, logged) = (file.length, fetched.length);
    if logged >= streamed {
        if logged > streamed {
            notes.push(format!("{} bytes of its {name} came from the log, not from the stream", logged - streamed));
        }
        return file.adopt(fetched, false);
    }
    notes.push(format!(
        "the log of its {name} was cut short by the command itself: {streamed} bytes were streamed before, and the {logged} \
         bytes of the log stand behind them"
    ));
    file.adopt(fetched, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(status: i64, how: Ended) -> Record {
        let duration = Duration::from_secs(1);
        Record { status, how, killed: 0, duration, ooms: 0, hits: 0, limit: Some(64), sizes: [Some(0), Some(0)] }
    }

    #[test]
    fn a_code_over_128_is_a_signal_only_where_one_was_sent() {
        let ends = |record: Option<&Record>, fate| status(record, fate, &mut Vec::new()).end;
        assert_eq!(ends(Some(&record(137, Ended::Exit)), Fate::Exited(137)), ExecEnd::Exited(137));
        assert_eq!(ends(Some(&record(137, Ended::Signal)), Fate::Exited(137)), ExecEnd::Signaled(9));
        assert_eq!(ends(None, Fate::Exited(137)), ExecEnd::Signaled(9));
        assert_eq!(ends(None, Fate::Exited(2)), ExecEnd::Exited(2));
        assert_eq!(ends(Some(&record(3, Ended::Exit)), Fate::Unknown), ExecEnd::Exited(3));
    }

    #[test]
    fn whose_want_of_memory_it_was() {
        let of = |ooms, hits, limit| out_of_memory(&Record { ooms, hits, limit, ..record(137, Ended::Signal) });
        assert_eq!(of(0, 5, Some(64)), None);
        assert_eq!(of(1, 5, Some(64)), Some(OutOfMemory::Limit(64)));
        assert_eq!(of(1, 0, Some(64)), Some(OutOfMemory::Machine));
        assert_eq!(of(1, 5, None), Some(OutOfMemory::Machine));
        assert_eq!(of(1, 5, Some(i64::MAX as u64)), Some(OutOfMemory::Machine));
    }
}
