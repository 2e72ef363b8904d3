//! A command's two output streams: captured through pipes, or spooled straight into files.
//!
//! Spooled output takes no pipe: the command writes into the file itself, so nothing here can cut it, stall it or hold
//! it up, and a listener that falls behind reads later from the same file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::sync::mpsc;

use super::kept::Kept;
use crate::runtime::{Captured, Chunk, Output, RuntimeError, Stream};

/// How much is read at a time.
const CHUNK: usize = 64 * 1024;
/// How much of a spooled stream's end a report repeats.
const SPOOL_TAIL: u64 = 64 * 1024;
/// How often files are looked at while somebody listens, and while nobody does.
const LISTENED: Duration = Duration::from_millis(20);
const UNHEARD: Duration = Duration::from_millis(50);
/// Chunks sent in one look, so that one command's flood does not hold up the others.
const BURST: usize = 32;

/// Where a command's output goes while it runs.
#[derive(Debug)]
pub(super) enum Streams {
    Captured(Box<Pipes>),
    Spooled(Spool),
}

impl Streams {
    /// Opens what `output` asks for and returns what the command gets as standard output and standard error.
    pub(super) fn open(output: Output) -> Result<(Self, Stdio, Stdio), RuntimeError> {
        match output {
            Output::Capture { limit } => {
                let pipes = Pipes { out: None, err: None, kept: [Kept::new(limit), Kept::new(limit)], buffers: None };
                Ok((Self::Captured(Box::new(pipes)), Stdio::piped(), Stdio::piped()))
            }
            Output::Spool { stdout, stderr, live } => {
                // Standard output last: to a later host, its log is the sign that both are there.
                let (err, err_end) = SpoolFile::create(Stream::Stderr, &stderr)?;
                let (out, out_end) = SpoolFile::create(Stream::Stdout, &stdout)?;
                Ok((Self::Spooled(Spool { files: [out, err], live }), out_end, err_end))
            }
        }
    }

    /// Takes the pipes of the command once it runs.
    pub(super) fn attach(&mut self, child: &mut Child) {
        if let Self::Captured(pipes) = self {
            pipes.out = child.stdout.take();
            pipes.err = child.stderr.take();
            pipes.buffers = Some([vec![0; CHUNK], vec![0; CHUNK]]);
        }
    }

    /// Waits for more output and returns how many bytes came; may return 0 now and then. Cancel-safe.
    pub(super) async fn progress(&mut self) -> u64 {
        match self {
            Self::Captured(pipes) => pipes.progress().await,
            Self::Spooled(spool) => {
                tokio::time::sleep(if spool.live.is_some() { LISTENED } else { UNHEARD }).await;
                spool.look()
            }
        }
    }

    /// Bytes written so far.
    pub(super) fn total(&self) -> u64 {
        match self {
            Self::Captured(pipes) => pipes.kept.iter().map(Kept::total).sum(),
            Self::Spooled(spool) => spool.files.iter().map(|file| file.length).sum(),
        }
    }

    /// Takes what is still under way once the command is gone, for `patience` at most. Returns how many bytes came.
    pub(super) async fn drain(&mut self, patience: Duration) -> u64 {
        let before = self.total();
        match self {
            Self::Captured(pipes) => {
                let rest = async {
                    while pipes.is_open() {
                        pipes.progress().await;
                    }
                };
                // Somebody who was not found may hold a pipe open for ever.
                let _ = tokio::time::timeout(patience, rest).await;
            }
            Self::Spooled(spool) => drop(spool.look()),
        }
        self.total().saturating_sub(before)
    }

    /// Returns what was kept of standard output and standard error.
    pub(super) fn finish(self) -> (Captured, Captured) {
        match self {
            Self::Captured(pipes) => {
                let [out, err] = pipes.kept;
                (out.finish(), err.finish())
            }
            Self::Spooled(spool) => {
                let [out, err] = spool.files;
                (out.tail(), err.tail())
            }
        }
    }
}

/// Both pipes, read into bounded memory.
#[derive(Debug)]
pub(super) struct Pipes {
    out: Option<ChildStdout>,
    err: Option<ChildStderr>,
    kept: [Kept; 2],
    buffers: Option<[Vec<u8>; 2]>,
}

impl Pipes {
    fn is_open(&self) -> bool {
        self.out.is_some() || self.err.is_some()
    }

    async fn progress(&mut self) -> u64 {
        let Some([out_buffer, err_buffer]) = &mut self.buffers else { return std::future::pending().await };
        if self.out.is_none() && self.err.is_none() {
            return std::future::pending().await;
        }
        // Reading either is cancel-safe: bytes are taken only when the future is ready.
        let (at, length) = tokio::select! {
            length = read(&mut self.out, out_buffer) => (0, length),
            length = read(&mut self.err, err_buffer) => (1, length),
        };
        let buffer = if at == 0 { &*out_buffer } else { &*err_buffer };
        if length == 0 {
            if at == 0 {
                self.out = None;
            } else {
                self.err = None;
            }
        }
        self.kept[at].push(&buffer[..length]);
        length as u64
    }
}

/// Reads from a pipe that is open; 0 means its end. A closed pipe never answers.
async fn read<R: AsyncRead + Unpin>(pipe: &mut Option<R>, buffer: &mut [u8]) -> usize {
    match pipe {
        Some(pipe) => pipe.read(buffer).await.unwrap_or(0),
        None => std::future::pending().await,
    }
}

/// Both files, and who listens.
#[derive(Debug)]
pub(super) struct Spool {
    files: [SpoolFile; 2],
    live: Option<mpsc::Sender<Chunk>>,
}

impl Spool {
    /// Looks at both files: a few system calls on files that the page cache holds, so it does not go to another thread.
    fn look(&mut self) -> u64 {
        let mut grown = 0;
        for file in &mut self.files {
            grown += file.grow();
            if let Some(live) = &self.live
                && !file.send(live)
            {
                self.live = None;
            }
        }
        grown
    }
}

#[derive(Debug)]
struct SpoolFile {
    stream: Stream,
    file: File,
    length: u64,
    sent: u64,
}

impl SpoolFile {
    fn create(stream: Stream, path: &Path) -> Result<(Self, Stdio), RuntimeError> {
        let open = || -> io::Result<(File, File)> {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            // Appending, so that several processes that inherit it never overwrite each other.
            let writer = OpenOptions::new().create(true).append(true).open(path)?;
            writer.set_len(0)?;
            Ok((writer, File::open(path)?))
        };
        let (writer, file) =
            open().map_err(|source| RuntimeError::File { action: "create", path: path.to_owned(), source })?;
        Ok((Self { stream, file, length: 0, sent: 0 }, Stdio::from(writer)))
    }

    fn grow(&mut self) -> u64 {
        let Ok(length) = self.file.metadata().map(|metadata| metadata.len()) else { return 0 };
        let grown = length.saturating_sub(self.length);
        // A command may truncate its own output.
        self.length = length;
        self.sent = self.sent.min(length);
        grown
    }

    /// Sends what is new as long as there is room; what finds none is sent at a later look. `false`: nobody listens.
    fn send(&mut self, live: &mpsc::Sender<Chunk>) -> bool {
        for _ in 0..BURST {
            if self.sent >= self.length {
                break;
            }
            let permit = match live.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Full(())) => break,
                Err(mpsc::error::TrySendError::Closed(())) => return false,
            };
            let mut bytes = vec![0; CHUNK];
            let Ok(length) = self.file.read_at(&mut bytes, self.sent) else { break };
            if length == 0 {
                break;
            }
            bytes.truncate(length);
            self.sent += length as u64;
            permit.send(Chunk { stream: self.stream, bytes });
        }
        true
    }

    fn tail(mut self) -> Captured {
        self.grow();
        let from = self.length.saturating_sub(SPOOL_TAIL);
        let mut bytes = vec![0; usize::try_from(self.length - from).unwrap_or(0)];
        let mut filled = 0;
        while let Some(length) =
            self.file.read_at(&mut bytes[filled..], from + filled as u64).ok().filter(|&length| length > 0)
        {
            filled += length;
        }
        bytes.truncate(filled);
        Captured { bytes, total: self.length, cut: from > 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_a_log_of_standard_output_there_is_one_of_errors() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("file"), "").expect("written");
        // Nothing can be made below a file: what had to come before it is there.
        let (stdout, stderr) = (dir.path().join("file/out"), dir.path().join("err"));
        assert!(Streams::open(Output::Spool { stdout, stderr: stderr.clone(), live: None }).is_err());
        assert!(stderr.exists());
    }
}
