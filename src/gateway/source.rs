//! Where an answer comes from: a provider, or a cassette.

use std::collections::VecDeque;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};

use super::cassette::RecordedAnswer;
use super::upstream::causes;
use crate::domain::ExchangeEnd;

/// The body of an answer.
pub(super) enum Source {
    /// It comes from the provider.
    Provider(Incoming),
    /// It lies on a cassette, whole or up to where it broke off.
    Cassette { pieces: VecDeque<Bytes>, whole: bool },
}

impl Source {
    /// Tells whether it is known that nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Provider(body) => body.is_end_stream(),
            Self::Cassette { pieces, whole } => pieces.is_empty() && *whole,
        }
    }

    /// Returns what comes next: a piece, or something that is none. The error says how the answer broke off. May be dropped
    /// and called again.
    pub(super) async fn next(&mut self) -> Option<Result<Option<Bytes>, String>> {
        match self {
            Self::Provider(body) => {
                let frame = body.frame().await?;
                Some(frame.map(|frame| frame.into_data().ok()).map_err(|error| causes(&error)))
            }
            Self::Cassette { pieces, whole } => match pieces.pop_front() {
                Some(piece) => Some(Ok(Some(piece))),
                None if *whole => None,
                None => Some(Err("the answer on the cassette breaks off here".to_owned())),
            },
        }
    }
}

/// Makes an answer of what is on a cassette; `None` where no answer had come.
pub(super) fn recorded(answer: RecordedAnswer) -> Option<Response<Source>> {
    let RecordedAnswer { status, headers, pieces, end } = answer;
    let whole = end == ExchangeEnd::Complete;
    let mut response = Response::new(Source::Cassette { pieces: pieces.into(), whole });
    *response.status_mut() = StatusCode::from_u16(status?).ok()?;
    for (name, value) in headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().append(name, value);
        }
    }
    Some(response)
}
