//! Bytes to lines, in bounded memory: for a live stream and for a log on disk alike.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The longest line that is read; harnesses repeat tool output in a line (785 kB was seen).
pub const LONGEST_LINE: usize = 8 * 1024 * 1024;

/// Cuts a stream into lines. Newlines are `\n` or `\r\n`; a line over the limit is skipped and counted.
#[derive(Debug)]
pub struct LineSplitter {
    pending: Vec<u8>,
    limit: usize,
    skipping: bool,
    skipped: u64,
}

impl LineSplitter {
    /// Makes a splitter for lines of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { pending: Vec::new(), limit, skipping: false, skipped: 0 }
    }

    /// Takes bytes, cut anywhere, and hands on each line that they complete.
    pub fn push(&mut self, bytes: &[u8], on_line: &mut dyn FnMut(&[u8])) {
        let mut rest = bytes;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, after) = (&rest[..at], &rest[at + 1..]);
            if self.skipping {
                self.skipping = false;
            } else if self.pending.len() + line.len() > self.limit {
                self.skipped += 1;
                self.pending.clear();
            } else if self.pending.is_empty() {
                on_line(trimmed(line));
            } else {
                self.pending.extend_from_slice(line);
                on_line(trimmed(&self.pending));
                self.pending.clear();
            }
            rest = after;
        }
        if self.skipping {
            return;
        }
        if self.pending.len() + rest.len() > self.limit {
            self.skipping = true;
            self.skipped += 1;
            self.pending = Vec::new();
        } else {
            self.pending.extend_from_slice(rest);
        }
    }

    /// Hands on a last line that no newline ended, and returns how many lines were too long.
    pub fn finish(mut self, on_line: &mut dyn FnMut(&[u8])) -> u64 {
        if !self.pending.is_empty() {
            on_line(trimmed(&std::mem::take(&mut self.pending)));
        }
        self.skipped
    }
}

impl Default for LineSplitter {
    fn default() -> Self {
        Self::new(LONGEST_LINE)
    }
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Reads a log line by line, whatever its size, and returns how many lines were too long.
///
/// # Errors
///
/// What the operating system says. A log that is not there is an error.
pub fn read_log(path: &Path, on_line: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
    read_lines(&mut File::open(path)?, on_line)
}

/// Reads a source line by line, whatever its size, and returns how many lines were too long.
///
/// # Errors
///
/// What the source says.
pub fn read_lines(source: &mut dyn Read, on_line: &mut dyn FnMut(&[u8])) -> io::Result<u64> {
    let mut splitter = LineSplitter::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(splitter.finish(on_line)),
            Ok(length) => splitter.push(&buffer[..length], on_line),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(limit: usize, pieces: &[&[u8]]) -> (Vec<String>, u64) {
        let mut lines = Vec::new();
        let mut splitter = LineSplitter::new(limit);
        let mut keep = |line: &[u8]| lines.push(String::from_utf8_lossy(line).into_owned());
        for piece in pieces {
            splitter.push(piece, &mut keep);
        }
        let skipped = splitter.finish(&mut keep);
        (lines, skipped)
    }

    #[test]
    fn a_last_line_without_newline_is_kept() {
        assert_eq!(split(99, &[b"a\r\nb", b"b\n\nc"]), (vec!["a".into(), "bb".into(), String::new(), "c".into()], 0));
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_and_reading_goes_on() {
        let expected = (vec!["ok".to_owned(), "after".to_owned()], 1);
        assert_eq!(split(5, &[b"ok\n123456\nafter"]), expected);
        assert_eq!(split(5, &[b"ok\n123", b"456", b"789\nafter\n"]), expected);
        assert_eq!(split(5, &[b"123456"]), (vec![], 1));
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_does_not_matter(text in "[a-c\n\r]{0,60}", cut in 0_usize..60, limit in 1_usize..8) {
            let bytes = text.as_bytes();
            let (first, second) = bytes.split_at(cut.min(bytes.len()));
            prop_assert_eq!(split(limit, &[bytes]), split(limit, &[first, second]));
        }
    }
}
