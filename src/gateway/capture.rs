//! What is kept of bodies, where they are asked for.

use std::io::Read;

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

use super::recorder::Bodies;
use crate::redact::Redactor;

/// How much more than the limit is kept until secrets are taken out: one that lies across the limit is then seen whole.
const SLACK: usize = 16 << 10;

/// Both bodies of an exchange, up to a limit.
pub(super) struct Capture {
    limit: usize,
    request: Vec<u8>,
    answer: Vec<u8>,
    /// How the answer is compressed.
    coding: Option<String>,
    /// The request is compressed in a way that is not read: secrets in it could not be found.
    request_unread: bool,
}

impl Capture {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, request: Vec::new(), answer: Vec::new(), coding: None, request_unread: false }
    }

    /// Takes a piece of the request, without compression.
    pub(super) fn request(&mut self, piece: &[u8]) {
        keep(&mut self.request, piece, self.limit);
    }

    /// The request cannot be read: nothing of it is kept.
    pub(super) fn request_unread(&mut self) {
        self.request_unread = true;
    }

    /// Takes note of how the answer is compressed.
    pub(super) fn coding(&mut self, content_encoding: Option<&str>) {
        self.coding = content_encoding.map(str::to_ascii_lowercase);
    }

    /// Takes a piece of the answer.
    pub(super) fn answer(&mut self, piece: &[u8]) {
        keep(&mut self.answer, piece, self.limit);
    }

    /// Takes secrets out, and then what is over the limit.
    pub(super) fn redacted(self, redactor: &Redactor) -> Bodies {
        let Self { limit, mut request, mut answer, coding, request_unread } = self;
        if request_unread {
            request.clear();
        }
        let answer_unread = !is_read(coding.as_deref()) && !answer.is_empty();
        if answer_unread {
            answer.clear();
        }
        let answer = unpacked(answer, coding.as_deref(), limit.saturating_add(SLACK));
        let cut = request_unread || answer_unread || request.len() > limit || answer.len() > limit;
        let clean = |raw: Vec<u8>| {
            let mut clean = redactor.redact_bytes(&raw);
            clean.truncate(limit);
            clean
        };
        Bodies { request: clean(request), answer: clean(answer), cut }
    }
}

fn keep(kept: &mut Vec<u8>, piece: &[u8], limit: usize) {
    let room = limit.saturating_add(SLACK).saturating_sub(kept.len());
    kept.extend_from_slice(&piece[..piece.len().min(room)]);
}

/// Tells whether secrets can be found in a body of this coding.
fn is_read(coding: Option<&str>) -> bool {
    matches!(coding.unwrap_or_default().trim(), "" | "identity" | "gzip" | "x-gzip" | "deflate")
}

/// Undoes the coding of a body that is known in it, as far as it goes: the end may be cut off.
pub(super) fn unpacked(body: Vec<u8>, coding: Option<&str>, most: usize) -> Vec<u8> {
    let bytes = body.as_slice();
    let read: &mut dyn Read = match coding.unwrap_or_default().trim() {
        "gzip" | "x-gzip" => &mut MultiGzDecoder::new(bytes),
        // With a head that begins with the method, or bare.
        "deflate" if bytes.first().is_some_and(|byte| byte & 0x0F == 8) => &mut ZlibDecoder::new(bytes),
        "deflate" => &mut DeflateDecoder::new(bytes),
        _ => return body,
    };
    let mut out = Vec::new();
    if let Err(error) = read.take(most as u64).read_to_end(&mut out) {
        tracing::debug!(%error, "an answer was not unpacked to its end");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_across_the_limit_leaves_nothing_behind() {
        let redactor = Redactor::new([("KEY", "very-secret-value")]);
        let mut capture = Capture::new(10);
        for piece in [b"12345ve".as_slice(), b"ry-secret", b"-value, and more"] {
            capture.request(piece);
        }
        capture.answer(b"short");
        let bodies = capture.redacted(&redactor);
        assert_eq!(bodies.request, b"12345[reda");
        assert_eq!(bodies.answer, b"short");
        assert!(bodies.cut);
    }

    #[test]
    fn what_cannot_be_searched_is_not_kept() {
        let mut capture = Capture::new(100);
        capture.request(b"packed");
        capture.request_unread();
        capture.coding(Some("BR"));
        capture.answer(b"packed too");
        assert_eq!(
            capture.redacted(&Redactor::default()),
            Bodies { request: Vec::new(), answer: Vec::new(), cut: true }
        );
    }

    #[test]
    fn what_fits_is_whole() {
        let mut capture = Capture::new(4);
        capture.request(b"1234");
        let bodies = capture.redacted(&Redactor::default());
        assert_eq!((bodies.request.as_slice(), bodies.cut), (b"1234".as_slice(), false));
    }

    #[test]
    fn memory_is_bounded() {
        let mut capture = Capture::new(100);
        for _ in 0..100 {
            capture.answer(&[b'x'; 4096]);
        }
        assert_eq!(capture.answer.len(), 100 + SLACK);
        assert_eq!(capture.redacted(&Redactor::default()).answer.len(), 100);
    }
}
