//! Where an answer comes from: a provider, or a cassette.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use memchr::{memchr, memmem};

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

/// Takes out how long to wait before the next try: nobody is there to be spared. Zero would mean to some clients that nothing was said.
fn hastened(answer: RecordedAnswer) -> RecordedAnswer {
    let RecordedAnswer { status, mut headers, mut pieces, end } = answer;
    let wait = |name: &str| name == "retry-after" || name == "retry-after-ms";
    if headers.iter().any(|(name, _)| wait(name)) {
        headers.retain(|(name, _)| !wait(name));
        headers
            .extend([("retry-after", "0"), ("retry-after-ms", "1")].map(|(name, value)| (name.into(), value.into())));
    }
    // Gemini tells it in the error.
    if status.is_some_and(|status| status >= 400) {
        let whole = pieces.concat();
        if let Some(value) = retry_delay(&whole) {
            pieces = vec![[&whole[..value.start], b"0.001s", &whole[value.end..]].concat().into()];
        }
    }
    RecordedAnswer { status, headers, pieces, end }
}

/// Where the value of `"retryDelay": "34.5s"` stands.
fn retry_delay(body: &[u8]) -> Option<Range<usize>> {
    const KEY: &[u8] = b"\"retryDelay\"";
    let after = memmem::find(body, KEY)? + KEY.len();
    let begin = after + body[after..].iter().position(|byte| !matches!(byte, b':' | b' ' | b'\n' | b'\t' | b'\r'))? + 1;
    let length = memchr(b'"', body.get(begin..)?)?;
    (body[begin - 1] == b'"').then_some(begin..begin + length)
}

/// Makes an answer of what is on a cassette; `None` where no answer had come.
pub(super) fn recorded(answer: RecordedAnswer) -> Option<Response<Source>> {
    let RecordedAnswer { status, headers, pieces, end } = hastened(answer);
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

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case(429, r#"{"x":[{"retryDelay": "34.5s"}]}"#, r#"{"x":[{"retryDelay": "0.001s"}]}"#; "in an error")]
    #[test_case(200, r#"{"retryDelay":"34.5s"}"#, r#"{"retryDelay":"34.5s"}"#; "in no error")]
    #[test_case(429, r#"{"retryDelay":34}"#, r#"{"retryDelay":34}"#; "another value")]
    #[test_case(429, r#"{"retryDelay":"#, r#"{"retryDelay":"#; "cut off")]
    #[test_case(429, r#"{"retryDelay":"3"#, r#"{"retryDelay":"3"#; "cut off in the value")]
    fn what_is_played_asks_for_no_pause(status: u16, recorded: &str, expected: &str) {
        let (first, second) = recorded.split_at(recorded.len() / 2);
        let pieces = [first, second].map(|piece| Bytes::copy_from_slice(piece.as_bytes())).to_vec();
        let header = |value: &str| ("retry-after".to_owned(), value.to_owned());
        let answer =
            RecordedAnswer { status: Some(status), headers: vec![header("7")], pieces, end: ExchangeEnd::Complete };
        let RecordedAnswer { headers, pieces, .. } = hastened(answer);
        assert_eq!(headers, [header("0"), ("retry-after-ms".to_owned(), "1".to_owned())]);
        assert_eq!(String::from_utf8(pieces.concat()).expect("text"), expected);
    }
}
