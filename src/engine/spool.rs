//! Turns a session's raw output into what is kept: redacted, compressed, with a size cap.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::off_thread::off_thread;
use crate::harness::session_file::SESSION_LOG;
use crate::redact::Redactor;
use crate::store::MAX_TEXT;

/// Bytes of each stream that are kept, from its beginning; sessions rarely print a hundredth of it.
const CAP: u64 = 256 * 1024 * 1024;

/// The redacted ends of a session's two streams; `None` where a stream is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) stdout: Option<Vec<u8>>,
    pub(crate) stderr: Option<Vec<u8>>,
}

/// Moves `stdout.log`, `stderr.log` and the harness's own `session.log` from `spool` to compressed files in `folder`; empty
/// streams leave no file. Returns how the two streams end.
///
/// # Errors
///
/// What the disk refuses. The raw files stay where they were then.
pub(crate) async fn keep(spool: &Path, folder: &Path, redactor: &Arc<Redactor>) -> io::Result<Ends> {
    let (spool, folder, redactor) = (spool.to_owned(), folder.to_owned(), Arc::clone(redactor));
    off_thread(move || keep_all(&spool, &folder, &redactor)).await
}

fn keep_all(spool: &Path, folder: &Path, redactor: &Redactor) -> io::Result<Ends> {
    let mut ends = Ends::default();
    let mut unseen = None;
    let files = [("stdout.log", &mut ends.stdout), ("stderr.log", &mut ends.stderr), (SESSION_LOG, &mut unseen)];
    for (name, end) in files {
        let raw = spool.join(name);
        match fs::metadata(&raw) {
            Ok(metadata) if metadata.len() > 0 => {
                fs::create_dir_all(folder)?;
                *end = Some(compress(&raw, &folder.join(format!("{name}.gz")), redactor)?);
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        }
        fs::remove_file(&raw)?;
    }
    Ok(ends)
}

/// Compresses a stream and returns its end.
fn compress(raw: &Path, kept: &Path, redactor: &Redactor) -> io::Result<Vec<u8>> {
    let file = File::open(raw)?;
    let total = file.metadata()?.len();
    let mut source = BufReader::with_capacity(64 * 1024, file).take(CAP);
    let mut sink = GzEncoder::new(File::create(kept)?, Compression::fast());
    let mut stream = redactor.stream();
    let mut buffer = vec![0; 64 * 1024];
    let mut tail = Tail::default();
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        let safe = stream.push(&buffer[..read]);
        sink.write_all(&safe)?;
        tail.push(&safe);
    }
    let safe = stream.finish();
    sink.write_all(&safe)?;
    tail.push(&safe);
    if total > CAP {
        writeln!(sink, "\n[refrain: {} of {total} bytes left out]", total - CAP)?;
    }
    sink.finish()?;
    Ok(tail.finish())
}

/// The last bytes of a stream that goes by in pieces.
#[derive(Default)]
struct Tail {
    bytes: Vec<u8>,
    left_out: usize,
}

impl Tail {
    /// Leaves room for the notice in what the store's column holds.
    const KEPT: usize = MAX_TEXT - 64;

    fn push(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        // Twice the length, so that bytes are not moved for each piece.
        if self.bytes.len() > 2 * Self::KEPT {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let extra = self.bytes.len().saturating_sub(Self::KEPT);
        self.bytes.drain(..extra);
        self.left_out += extra;
    }

    fn finish(mut self) -> Vec<u8> {
        if self.left_out == 0 && self.bytes.len() <= MAX_TEXT {
            return self.bytes;
        }
        self.cut();
        // The cut may lie inside a character; up to three bytes of UTF-8 continue one.
        let rest = self.bytes.iter().take(3).take_while(|byte| (**byte & 0b1100_0000) == 0b1000_0000).count();
        let notice = format!("[the first {} bytes are left out]\n", self.left_out + rest);
        [notice.as_bytes(), &self.bytes[rest..]].concat()
    }
}

#[cfg(test)]
mod tests {
    use flate2::read::GzDecoder;

    use super::*;

    /// One thread for everything: a task that waits for the disk there would stop all others.
    #[tokio::test]
    async fn other_tasks_go_on_while_a_long_log_is_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("stdout.log"), "a line of output\n".repeat(200_000)).expect("written");
        let redactor = Arc::new(Redactor::new([("KEY", "a-secret-value")]));
        let folder = dir.path().join("kept");
        let mut turns = 0;
        let other = async {
            loop {
                turns += 1;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            biased;
            kept = keep(dir.path(), &folder, &redactor) => drop(kept.expect("kept")),
            () = other => {}
        }
        assert!(turns > 10, "{turns}");
    }

    #[tokio::test]
    async fn what_is_kept_holds_no_secret_and_the_raw_file_is_gone() {
        let dir = tempfile::tempdir().expect("a folder");
        let (spool, folder) = (dir.path().join("raw"), dir.path().join("kept"));
        fs::create_dir_all(&spool).expect("a folder");
        fs::write(spool.join("stdout.log"), "before hunter2-hunter2 after\n").expect("written");
        fs::write(spool.join("stderr.log"), "").expect("written");
        let redactor = Arc::new(Redactor::new([("PASSWORD".to_owned(), "hunter2-hunter2".to_owned())]));
        let ends = keep(&spool, &folder, &redactor).await.expect("kept");
        let end = b"before [redacted:PASSWORD] after\n".to_vec();
        assert_eq!(ends, Ends { stdout: Some(end), stderr: None });
        let mut text = String::new();
        let file = File::open(folder.join("stdout.log.gz")).expect("kept");
        GzDecoder::new(file).read_to_string(&mut text).expect("valid");
        assert_eq!(text, "before [redacted:PASSWORD] after\n");
        assert!(!folder.join("stderr.log.gz").exists());
        assert!(!spool.join("stdout.log").exists());
    }

    #[test]
    fn the_end_of_a_long_stream_fits_the_column_and_says_what_is_missing() {
        let mut tail = Tail::default();
        for _ in 0..9 {
            tail.push("ä".repeat(10_000).as_bytes());
        }
        tail.push(b"end");
        let kept = String::from_utf8(tail.finish()).expect("cut between characters");
        assert!(kept.len() <= MAX_TEXT && kept.ends_with("äend"));
        let (notice, rest) = kept.split_once('\n').expect("two lines");
        let left_out: usize = notice.split(' ').nth(2).expect("a number").parse().expect("a number");
        assert_eq!(left_out + rest.len(), 180_003);
    }
}
