//! Commands that were under way when their host died.
//!
//! Of each command whose output goes into files a note lies in the environment's folder on the host. A later host that
//! still finds those files completes them from the command's log, and learns from its closing record whether it had ended
//! by itself.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::container::Container;
use super::super::deed::file_error;
use super::daemon::Fate;
use super::ending::{self, Logs};
use super::frame::{How, Record, closing_record};
use super::log;
use super::script::{Script, base};
use super::sink::SpoolFile;
use super::{PAUSE, TRIES};
use crate::runtime::{Command, ExecEnd, ExecReport, Output, RuntimeError};

const PREFIX: &str = "command-";

/// What is noted of a command.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    id: String,
    /// Proves that a closing record is the wrapper's; `None` once its host has begun to end it, because its end is not its
    /// own then.
    nonce: Option<String>,
    stdout: PathBuf,
    stderr: PathBuf,
    /// The most it may print, in bytes.
    output_bytes: Option<u64>,
}

/// The note of a command. It stays when the command is over: its host may die before it has taken the files away.
#[derive(Debug)]
pub(super) struct Noted {
    path: PathBuf,
    note: Note,
}

impl Noted {
    /// Notes a command whose output goes into files. `None` for any other, and for containers that nobody takes over.
    pub(super) fn down(
        container: &Container,
        command: &Command,
        script: &Script,
        output: &Output,
    ) -> Result<Option<Self>, RuntimeError> {
        let (Output::Spool { stdout, stderr, .. }, Some(folder)) = (output, &container.folder) else { return Ok(None) };
        let (stdout, stderr) = (absolute(stdout), absolute(stderr));
        let noted = Self {
            // By its file: one that is begun anew takes the place of its earlier start.
            path: folder
                .join(format!("{PREFIX}{}", &blake3::hash(stdout.as_os_str().as_encoded_bytes()).to_hex()[..16])),
            note: Note {
                id: script.id.clone(),
                nonce: Some(script.nonce.clone()),
                stdout,
                stderr,
                output_bytes: command.limits.output_bytes,
            },
        };
        noted.write()?;
        Ok(Some(noted))
    }

    /// Notes that the command's end will be its host's doing.
    pub(super) fn is_ended(&mut self) -> Result<(), RuntimeError> {
        self.note.nonce = None;
        self.write()
    }

    fn write(&self) -> Result<(), RuntimeError> {
        let write = || {
            // In one step: a note that is there is whole.
            let new = self.path.with_file_name(format!("new-{}", self.note.id));
            fs::write(&new, serde_json::to_vec(&self.note)?)?;
            fs::rename(new, &self.path)
        };
        write().map_err(|source| file_error("write", &self.path, source))
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Completes what commands had printed whose host is gone; nothing of them may run any more. Returns how those had ended
/// that had ended by themselves, by the files of their standard output. Doing it again comes to the same.
pub(in crate::runtime::docker) async fn settle(
    container: &Container,
) -> Result<HashMap<PathBuf, ExecReport>, RuntimeError> {
    let mut ended = HashMap::new();
    let Some(folder) = &container.folder else { return Ok(ended) };
    let entries = fs::read_dir(folder).map_err(|source| file_error("read", folder, source))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(PREFIX) {
            continue;
        }
        let Some(note) = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok()) else {
            continue;
        };
        if let Some(report) = settle_patiently(container, &note).await? {
            ended.insert(note.stdout, report);
        }
    }
    Ok(ended)
}

/// Tries again where the daemon is busy: a session that had finished must not be taken for one that had not.
async fn settle_patiently(container: &Container, note: &Note) -> Result<Option<ExecReport>, RuntimeError> {
    for _ in 1..TRIES {
        match settle_one(container, note).await {
            Err(RuntimeError::Io { .. }) => tokio::time::sleep(PAUSE).await,
            settled => return settled,
        }
    }
    settle_one(container, note).await
}

async fn settle_one(container: &Container, note: &Note) -> Result<Option<ExecReport>, RuntimeError> {
    // Whoever takes a file away has read it.
    let (Some(stdout), Some(stderr)) = (SpoolFile::reopen(&note.stdout)?, SpoolFile::reopen(&note.stderr)?) else {
        return Ok(None);
    };
    let mut files = [stdout, stderr];
    let record = record(container, note).await?;
    let mut notes = Vec::new();
    let logs = Logs {
        container,
        id: &note.id,
        sizes: record.as_ref().map(|record| record.sizes),
        most: note.output_bytes,
        needed: true,
    };
    ending::complete(&mut files, &logs, &mut notes).await?;
    for (file, suffix) in files.iter().zip(["out", "err"]) {
        // The host's own clock stood still meanwhile.
        if let Some(at) = log::modified(container, &format!("{}.{suffix}", base(&note.id))).await {
            file.set_modified(at)?;
        }
    }
    let Some(record) = record.filter(|record| record.how != How::Unknown) else { return Ok(None) };
    report(&record, files, note.output_bytes, notes).map(Some)
}

/// Returns the closing record of a command, unless its end was a host's doing.
async fn record(container: &Container, note: &Note) -> Result<Option<Record>, RuntimeError> {
    let Some(nonce) = &note.nonce else { return Ok(None) };
    Ok(closing_record(&ending::record_file(container, &note.id).await?, nonce))
}

fn report(
    record: &Record,
    [out, err]: [SpoolFile; 2],
    limit: Option<u64>,
    mut notes: Vec<String>,
) -> Result<ExecReport, RuntimeError> {
    let status = ending::status(Some(record), Fate::Unknown, &mut notes);
    let over = limit.filter(|limit| out.length + err.length > *limit);
    Ok(ExecReport {
        end: over.map_or(status.end, |limit| ExecEnd::OutputLimit { limit }),
        exit_code: status.code,
        signal: status.signal,
        stdout: out.tail()?,
        stderr: err.tail()?,
        duration: record.duration,
        longest_silence: Duration::ZERO,
        leftovers: record.killed,
        out_of_memory: ending::out_of_memory(record),
        notes,
    })
}
