//! A request's body on its way to the provider: the pieces as they came, and only small ones copied.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use hyper::body::{Body, Frame, SizeHint};

use super::protocol::Splice;
use super::silence::Pulse;

/// Pieces up to this size are put together: a client that sends single bytes would have each of them held with all that belongs to
/// a piece.
const SMALL: usize = 4 << 10;

/// Takes the pieces of a body as they come.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    whole: VecDeque<Bytes>,
    small: BytesMut,
}

impl Pieces {
    /// Takes the next piece.
    pub(super) fn push(&mut self, piece: Bytes) {
        if piece.len() <= SMALL {
            self.small.extend_from_slice(&piece);
            if self.small.len() > SMALL * 4 {
                self.whole.push_back(self.small.split().freeze());
            }
            return;
        }
        if !self.small.is_empty() {
            self.whole.push_back(self.small.split().freeze());
        }
        self.whole.push_back(piece);
    }

    /// Returns all of them.
    pub(super) fn finish(mut self) -> VecDeque<Bytes> {
        if !self.small.is_empty() {
            self.whole.push_back(self.small.freeze());
        }
        self.whole
    }
}

/// A body in pieces.
#[derive(Debug)]
pub(super) struct Upload {
    pieces: VecDeque<Bytes>,
    left: u64,
    pulse: Pulse,
}

impl Upload {
    /// Makes a body; the pulse beats with each piece that is taken.
    pub(super) fn new(pieces: VecDeque<Bytes>, pulse: Pulse) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, left, pulse }
    }
}

/// Makes a change to a body in pieces. Nothing is put behind its end.
pub(super) fn splice(pieces: VecDeque<Bytes>, change: &Splice) -> VecDeque<Bytes> {
    let mut out = VecDeque::with_capacity(pieces.len() + 2);
    let mut skip = change.skip;
    let mut before = 0_u64;
    for mut piece in pieces {
        let length = piece.len() as u64;
        let inside = change.at.checked_sub(before).filter(|offset| *offset < length);
        before += length;
        if let Some(offset) = inside.and_then(|offset| usize::try_from(offset).ok()) {
            let rest = piece.split_off(offset);
            out.push_back(piece);
            out.push_back(Bytes::from_static(change.insert));
            piece = rest;
        }
        if before > change.at && skip > 0 {
            let left_out = skip.min(piece.len() as u64);
            skip -= left_out;
            piece.advance(usize::try_from(left_out).unwrap_or(usize::MAX));
        }
        out.push_back(piece);
    }
    out.retain(|piece| !piece.is_empty());
    out
}

impl Body for Upload {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        this.pulse.beat();
        let Some(piece) = this.pieces.pop_front() else { return Poll::Ready(None) };
        this.left = this.left.saturating_sub(piece.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test]
    fn small_pieces_are_put_together_and_the_order_stays() {
        let mut pieces = Pieces::default();
        let large = Bytes::from(vec![b'l'; SMALL + 1]);
        let sent = [&b"a"[..], b"b", &large, b"c", &large, &large].map(Bytes::copy_from_slice);
        for piece in &sent {
            pieces.push(piece.clone());
        }
        let held = pieces.finish();
        assert_eq!(held.iter().map(Bytes::len).collect::<Vec<_>>(), [2, SMALL + 1, 1, SMALL + 1, SMALL + 1]);
        assert_eq!(held.into_iter().flatten().collect::<Vec<_>>(), sent.concat());
        let mut pieces = Pieces::default();
        for _ in 0..1_000_000 {
            pieces.push(Bytes::from_static(b"x"));
        }
        let held = pieces.finish();
        assert!(held.len() < 100 && held.iter().map(Bytes::len).sum::<usize>() == 1_000_000, "{}", held.len());
    }

    #[test_case(1, 0, "a+bcdef"; "within the first piece")]
    #[test_case(3, 0, "abc+def"; "between pieces")]
    #[test_case(5, 0, "abcde+f"; "within the second")]
    #[test_case(0, 0, "+abcdef"; "at the start")]
    #[test_case(6, 0, "abcdef"; "behind the end")]
    #[test_case(1, 1, "a+cdef"; "in the place of a byte")]
    #[test_case(2, 2, "ab+ef"; "in the place of bytes of two pieces")]
    #[test_case(3, 3, "abc+"; "in the place of a whole piece")]
    fn splices(at: u64, skip: u64, expected: &str) {
        let pieces = VecDeque::from([Bytes::from_static(b"abc"), Bytes::from_static(b"def")]);
        let out: Vec<u8> = splice(pieces, &Splice { at, skip, insert: b"+" }).into_iter().flatten().collect();
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
