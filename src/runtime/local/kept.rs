//! What is kept of a stream in bounded memory: its beginning and its end.

use std::collections::VecDeque;

use crate::runtime::Captured;

/// A stream's first quarter and last three quarters of `limit` bytes; everything between is counted and dropped.
#[derive(Debug)]
pub(in crate::runtime) struct Kept {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_limit: usize,
    tail_limit: usize,
    total: u64,
}

impl Kept {
    pub(in crate::runtime) fn new(limit: usize) -> Self {
        let head_limit = limit / 4;
        Self { head: Vec::new(), tail: VecDeque::new(), head_limit, tail_limit: limit - head_limit, total: 0 }
    }

    pub(in crate::runtime) fn push(&mut self, bytes: &[u8]) {
        self.total = self.total.saturating_add(bytes.len() as u64);
        let room = self.head_limit - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.tail_limit)..];
        let excess = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    pub(in crate::runtime) fn total(&self) -> u64 {
        self.total
    }

    pub(in crate::runtime) fn finish(self) -> Captured {
        let mut bytes = self.head;
        bytes.extend(self.tail);
        let cut = (bytes.len() as u64) < self.total;
        Captured { bytes, total: self.total, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(8, &["abc", "def"], "abcdef", false; "fits")]
    #[test_case(8, &["abcdefgh"], "abcdefgh", false; "exactly")]
    #[test_case(8, &["abcdefghi"], "abdefghi", true; "one too many")]
    #[test_case(8, &["a", "b", "0123456789", "yz"], "ab6789yz", true; "in pieces")]
    #[test_case(0, &["abc"], "", true; "nothing kept")]
    fn keeps_head_and_tail(limit: usize, pieces: &[&str], expected: &str, cut: bool) {
        let mut kept = Kept::new(limit);
        for piece in pieces {
            kept.push(piece.as_bytes());
        }
        let total: usize = pieces.iter().map(|piece| piece.len()).sum();
        let captured = kept.finish();
        assert_eq!(String::from_utf8(captured.bytes).expect("text"), expected);
        assert_eq!((captured.total, captured.cut), (total as u64, cut));
    }
}
