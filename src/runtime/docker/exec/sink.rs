//! Where a command's output goes on the host.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tokio::sync::mpsc;

use crate::runtime::local::kept::Kept;
use crate::runtime::{Captured, Chunk, Output, RuntimeError, Stream};

/// The largest piece that a listener gets.
const CHUNK: usize = 64 * 1024;
/// How much of a spooled stream's end a report repeats.
const TAIL: u64 = 64 * 1024;

/// Keeps what comes.
#[derive(Debug)]
pub(super) enum Sink {
    /// In bounded memory: standard output, standard error.
    Captured(Box<[Kept; 2]>),
    /// In files.
    Spooled(Spool),
}

/// Both files, and who listens.
#[derive(Debug)]
pub(super) struct Spool {
    pub(super) files: [SpoolFile; 2],
    live: Option<mpsc::Sender<Chunk>>,
}

impl Sink {
    pub(super) fn open(output: Output) -> Result<Self, RuntimeError> {
        Ok(match output {
            Output::Capture { limit } => Self::Captured(Box::new([Kept::new(limit), Kept::new(limit)])),
            Output::Spool { stdout, stderr, live } => {
                // Standard output last: to a later host, its log is the sign that both are there.
                let stderr = SpoolFile::create(stderr)?;
                Self::Spooled(Spool { files: [SpoolFile::create(stdout)?, stderr], live })
            }
        })
    }

    /// Keeps a piece of a stream, and offers it to the listener.
    pub(super) fn take(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), RuntimeError> {
        match self {
            Self::Captured(kept) => kept[index(stream)].push(bytes),
            Self::Spooled(spool) => {
                spool.files[index(stream)].append(bytes)?;
                spool.offer();
            }
        }
        Ok(())
    }

    /// Sends the listener what it had no room for.
    pub(super) fn offer(&mut self) {
        if let Self::Spooled(spool) = self {
            spool.offer();
        }
    }

    /// Bytes of both streams.
    pub(super) fn total(&self) -> u64 {
        match self {
            Self::Captured(kept) => kept.iter().map(Kept::total).sum(),
            Self::Spooled(spool) => spool.files.iter().map(|file| file.length).sum(),
        }
    }

    /// Returns what was kept of standard output and standard error.
    pub(super) fn finish(mut self) -> Result<(Captured, Captured), RuntimeError> {
        self.offer();
        match self {
            Self::Captured(kept) => {
                let [out, err] = *kept;
                Ok((out.finish(), err.finish()))
            }
            Self::Spooled(spool) => {
                let [out, err] = spool.files;
                Ok((out.tail()?, err.tail()?))
            }
        }
    }
}

impl Spool {
    /// The files are what is sent from: a listener that falls behind costs no memory.
    fn offer(&mut self) {
        let Some(live) = &self.live else { return };
        let mut heard = true;
        for (file, stream) in self.files.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            heard &= file.send(stream, live);
        }
        if !heard {
            self.live = None;
        }
    }
}

/// A file of output. It is the host's own, so nobody else writes to it.
#[derive(Debug)]
pub(super) struct SpoolFile {
    path: PathBuf,
    file: File,
    pub(super) length: u64,
    sent: u64,
}

impl SpoolFile {
    fn create(path: PathBuf) -> Result<Self, RuntimeError> {
        let open = || -> io::Result<File> {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path)
        };
        match open() {
            Ok(file) => Ok(Self { path, file, length: 0, sent: 0 }),
            Err(source) => Err(RuntimeError::File { action: "create", path, source }),
        }
    }

    /// Opens the file that an earlier host has written to, to write behind its end. `None` where it is gone.
    pub(super) fn reopen(path: &Path) -> Result<Option<Self>, RuntimeError> {
        let open = || -> io::Result<(File, u64)> {
            let mut file = OpenOptions::new().read(true).write(true).open(path)?;
            let length = file.seek(SeekFrom::End(0))?;
            Ok((file, length))
        };
        match open() {
            Ok((file, length)) => Ok(Some(Self { path: path.to_owned(), file, length, sent: 0 })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RuntimeError::File { action: "open", path: path.to_owned(), source }),
        }
    }

    /// Says when it was last written to.
    pub(super) fn set_modified(&self, at: SystemTime) -> Result<(), RuntimeError> {
        self.file.set_modified(at).map_err(|source| self.failed("date", source))
    }

    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<(), RuntimeError> {
        // The page cache takes it: a trip to another thread would cost more.
        self.file.write_all(bytes).map_err(|source| self.failed("write", source))?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Makes an empty file beside this one.
    pub(super) fn beside(&self) -> Result<Self, RuntimeError> {
        let mut name = self.path.clone().into_os_string();
        name.push(".fetched");
        Self::create(name.into())
    }

    /// Takes the content of a file made [`SpoolFile::beside`] in place of its own, or behind it. What the listener has
    /// had is not sent again.
    pub(super) fn adopt(&mut self, other: Self, behind: bool) -> Result<(), RuntimeError> {
        if behind {
            let mut at = 0;
            while at < other.length {
                let bytes = other.read(at, CHUNK).map_err(|source| other.failed("read", source))?;
                at += bytes.len() as u64;
                self.append(&bytes)?;
            }
            return fs::remove_file(&other.path).map_err(|source| other.failed("remove", source));
        }
        fs::rename(&other.path, &self.path).map_err(|source| other.failed("rename", source))?;
        (self.file, self.length) = (other.file, other.length);
        Ok(())
    }

    /// Removes a file made [`SpoolFile::beside`].
    pub(super) fn discard(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a file was not removed");
        }
    }

    /// Sends what is new as long as there is room. `false`: nobody listens any more.
    fn send(&mut self, stream: Stream, live: &mpsc::Sender<Chunk>) -> bool {
        while self.sent < self.length {
            let permit = match live.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Full(())) => return true,
                Err(mpsc::error::TrySendError::Closed(())) => return false,
            };
            let Ok(bytes) = self.read(self.sent, CHUNK) else { return true };
            if bytes.is_empty() {
                break;
            }
            self.sent += bytes.len() as u64;
            permit.send(Chunk { stream, bytes });
        }
        true
    }

    fn read(&self, from: u64, most: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.length.saturating_sub(from)).unwrap_or(most);
        let mut bytes = vec![0; left.min(most)];
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read_at(&mut bytes[filled..], from + filled as u64)? {
                0 => break,
                length => filled += length,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    /// Returns its end.
    pub(super) fn tail(self) -> Result<Captured, RuntimeError> {
        let from = self.length.saturating_sub(TAIL);
        let bytes = self.read(from, CHUNK).map_err(|source| self.failed("read", source))?;
        Ok(Captured { bytes, total: self.length, cut: from > 0 })
    }

    fn failed(&self, action: &'static str, source: io::Error) -> RuntimeError {
        RuntimeError::File { action, path: self.path.clone(), source }
    }
}

fn index(stream: Stream) -> usize {
    usize::from(stream == Stream::Stderr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_is_a_log_of_standard_output_there_is_one_of_errors() {
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("file"), "").expect("written");
        // Nothing can be made below a file: what had to come before it is there.
        let (stdout, stderr) = (dir.path().join("file/out"), dir.path().join("err"));
        assert!(Sink::open(Output::Spool { stdout, stderr: stderr.clone(), live: None }).is_err());
        assert!(stderr.exists());
    }

    #[test]
    fn a_slow_listener_misses_nothing_that_it_finds_time_for_and_stalls_nobody() {
        let dir = tempfile::tempdir().expect("a folder");
        let (sender, mut listener) = mpsc::channel(1);
        let (stdout, stderr) = (dir.path().join("deep/out"), dir.path().join("deep/err"));
        let mut sink = Sink::open(Output::Spool { stdout: stdout.clone(), stderr, live: Some(sender) }).expect("opens");
        for _ in 0..10 {
            sink.take(Stream::Stdout, &vec![b'x'; CHUNK]).expect("kept");
        }
        sink.take(Stream::Stderr, b"error").expect("kept");
        let mut heard = 0;
        while let Ok(chunk) = listener.try_recv() {
            heard += chunk.bytes.len();
            sink.offer();
        }
        assert_eq!((heard, sink.total()), (10 * CHUNK + 5, 10 * CHUNK as u64 + 5));
        assert_eq!(fs::metadata(&stdout).expect("written").len(), 10 * CHUNK as u64);
        let (out, err) = sink.finish().expect("read back");
        assert_eq!((out.bytes.len(), out.cut, err.bytes), (CHUNK, true, b"error".to_vec()));
    }

    #[test]
    fn fetched_content_takes_the_place_of_what_was_streamed_or_stands_behind_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("out");
        let mut file = SpoolFile::create(path.clone()).expect("made");
        file.append(b"half").expect("kept");
        let mut whole = file.beside().expect("made");
        whole.append(b"half and half").expect("kept");
        file.adopt(whole, false).expect("adopted");
        let mut more = file.beside().expect("made");
        more.append(b", more").expect("kept");
        file.adopt(more, true).expect("adopted");
        assert_eq!(fs::read(&path).expect("read"), b"half and half, more");
        assert_eq!(file.length, 19);
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
    }
}
