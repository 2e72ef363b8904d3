//! What of an exchange goes on a cassette.

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER};

use super::cassette::{RecordedAnswer, RecordedRequest};
use crate::domain::ExchangeEnd;

/// Headers of an answer that clients act on.
static ACTED_ON: [HeaderName; 5] = [
    CONTENT_TYPE,
    CONTENT_ENCODING,
    RETRY_AFTER,
    HeaderName::from_static("retry-after-ms"),
    HeaderName::from_static("x-should-retry"),
];

/// An exchange that is being recorded. Held in memory until it ends.
#[derive(Debug)]
pub(super) struct Taping {
    request: RecordedRequest,
    status: Option<u16>,
    headers: Vec<(String, String)>,
    pieces: Vec<Bytes>,
}

impl Taping {
    /// Begins with a request.
    pub(super) fn new(request: RecordedRequest) -> Self {
        Self { request, status: None, headers: Vec::new(), pieces: Vec::new() }
    }

    /// The answer's head has come.
    pub(super) fn answered(&mut self, status: u16, headers: &HeaderMap) {
        self.status = Some(status);
        for name in &ACTED_ON {
            for value in headers.get_all(name) {
                if let Ok(value) = value.to_str() {
                    self.headers.push((name.as_str().to_owned(), value.to_owned()));
                }
            }
        }
    }

    /// A piece of the answer has come.
    pub(super) fn piece(&mut self, piece: &[u8]) {
        self.pieces.push(Bytes::copy_from_slice(piece));
    }

    /// The exchange has ended.
    pub(super) fn ended(self, end: ExchangeEnd) -> (RecordedRequest, RecordedAnswer) {
        let Self { request, status, headers, pieces } = self;
        (request, RecordedAnswer { status, headers, pieces, end })
    }
}
