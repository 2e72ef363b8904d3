//! A request's body on its way to the provider: the pieces as they came, none of them copied.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use super::protocol::Splice;
use super::silence::Pulse;

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
