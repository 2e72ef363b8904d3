//! Answers of the gateway's own.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};

use super::headers;
use super::protocol::{self, Family, RefusalKind};

/// The body of an answer.
pub(super) type Answer = UnsyncBoxBody<Bytes, Broken>;

/// An answer ends before it is whole; the client sees its connection break.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    /// The provider's part broke.
    #[error("the provider's answer broke off: {0}")]
    Upstream(String),
    /// What passed could not be recorded.
    #[error("the exchange could not be recorded: {0}")]
    Unrecorded(String),
    /// The session or the gateway ended.
    #[error("the session ended before the answer was whole")]
    Ended,
}

/// Makes an answer of JSON text.
pub(super) fn json(status: StatusCode, text: String) -> Response<Answer> {
    let mut response = Response::new(Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Makes a refusal in the words of an API.
pub(super) fn refusal(family: Family, kind: RefusalKind, message: &str) -> Response<Answer> {
    let (status, text) = protocol::refusal(family, kind, message);
    let mut response = json(StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY), text);
    if !worth_another_try(kind) {
        // Two providers' own clients obey this; without it some of them try a 401 again for minutes.
        response.headers_mut().insert(headers::SHOULD_RETRY, HeaderValue::from_static("false"));
    }
    response
}

fn worth_another_try(kind: RefusalKind) -> bool {
    match kind {
        RefusalKind::RateLimited { .. }
        | RefusalKind::Unreachable
        | RefusalKind::Slow
        | RefusalKind::Stalled
        | RefusalKind::Unavailable => true,
        RefusalKind::Unauthorized
        | RefusalKind::NotFound
        | RefusalKind::Limit
        | RefusalKind::Unpriced
        | RefusalKind::Malformed
        | RefusalKind::TooLarge
        | RefusalKind::Parted => false,
    }
}

/// Reads what is left of a request and throws it away, up to a limit.
pub(super) async fn drain(mut body: Incoming, limit: u64) {
    let mut seen = 0_u64;
    while !body.is_end_stream() && seen < limit {
        match body.frame().await {
            Some(Ok(frame)) => seen += frame.data_ref().map_or(0, |data| data.len() as u64),
            Some(Err(_)) | None => return,
        }
    }
}
