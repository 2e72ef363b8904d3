//! Who may pass: a request's path says whose session it claims to be, its token proves that.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONNECTION, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};

use super::forward;
use super::lobby::Seat;
use super::protocol::{self, Family, RefusalKind, Route};
use super::reply::{self, Answer};
use super::server::Core;
use super::session::{Session, Token};

/// The most of an unwanted request that is read before it is answered: a client that still writes would miss the answer.
const POLITE: u64 = 32 << 20;

/// How a client showed its token. A request to the provider shows the key alike where an API leaves the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// `x-api-key`.
    ApiKey,
    /// `authorization: Bearer`.
    Bearer,
    /// `x-goog-api-key`, or `key` in the query.
    Google,
}

/// A request that may pass.
pub(super) struct Admitted {
    pub(super) session: Arc<Session>,
    pub(super) route: Route,
    pub(super) shown: Shown,
}

/// Answers a request.
pub(super) async fn handle(core: Arc<Core>, seat: &Seat, request: Request<Incoming>) -> Response<Answer> {
    let (parts, body) = request.into_parts();
    match admit(&core, &parts).and_then(|admitted| seated(&core, seat, admitted)) {
        Ok(admitted) => forward::exchange(core, admitted, parts, body).await,
        Err(answer) => {
            tokio::select! {
                () = reply::drain(body, POLITE) => {}
                () = core.options.clock.sleep(core.options.bounds.body) => {}
            }
            *answer
        }
    }
}

/// Makes the connection one of the session's, if it may have another.
fn seated(core: &Core, seat: &Seat, admitted: Admitted) -> Result<Admitted, Box<Response<Answer>>> {
    if seat.belongs_to(&admitted.session) {
        return Ok(admitted);
    }
    let most = core.lobby.per_session();
    tracing::warn!(session = admitted.session.id, most, "a connection was refused: its session has too many");
    let message = format!("this session has {most} connections, as many as it may; close those that are not in use");
    let kind = RefusalKind::RateLimited { retry_after: None };
    let mut answer = reply::refusal(admitted.route.api.family(), kind, &message);
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Err(Box::new(answer))
}

fn admit(core: &Core, parts: &Parts) -> Result<Admitted, Box<Response<Answer>>> {
    let path = parts.uri.path();
    let looks = matches!(parts.method, Method::GET | Method::HEAD);
    if looks && path == "/healthz" {
        return Err(Box::new(reply::json(StatusCode::OK, r#"{"status":"ok"}"#.to_owned())));
    }
    let Some((id, rest)) = split(path) else {
        let message = format!("this is a gateway without `{path}`; use the base URL of a session, /session/<id>");
        return Err(Box::new(reply::refusal(guess(&parts.headers), RefusalKind::NotFound, &message)));
    };
    // Some clients look whether their base URL answers before they use it. That tells nothing.
    if looks && matches!(rest, "" | "/") {
        return Err(Box::new(reply::json(StatusCode::OK, r#"{"status":"ok"}"#.to_owned())));
    }
    let asked = match parts.uri.query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    let route = protocol::recognise(parts.method.as_str(), &asked);
    let family = route.as_ref().map_or_else(|| guess(&parts.headers), |route| route.api.family());
    let session = core.session(id);
    let shown = session.as_ref().and_then(|session| shown(&session.token, &parts.headers, parts.uri.query()));
    let (Some(session), Some(shown)) = (session, shown) else {
        let message = "the token is not that of a session under way; each session has a base URL and a key of its own";
        return Err(Box::new(reply::refusal(family, RefusalKind::Unauthorized, message)));
    };
    let Some(route) = route else {
        let message = format!("the gateway does not pass {} {rest} on to a provider", parts.method);
        return Err(Box::new(reply::refusal(family, RefusalKind::NotFound, &message)));
    };
    Ok(Admitted { session, route, shown })
}

/// Splits `/session/<id>/<rest>` into the id and `/<rest>`.
fn split(path: &str) -> Option<(&str, &str)> {
    let after = path.strip_prefix("/session/")?;
    let end = after.find('/').unwrap_or(after.len());
    (end > 0).then(|| after.split_at(end))
}

/// Looks for the token in all places where clients put keys: some send an older key beside it.
fn shown(token: &Token, headers: &HeaderMap, query: Option<&str>) -> Option<Shown> {
    let is =
        |name: &str| headers.get_all(name).iter().any(|value| value.to_str().is_ok_and(|text| token.is(text.trim())));
    if is("x-api-key") {
        return Some(Shown::ApiKey);
    }
    if is("x-goog-api-key") {
        return Some(Shown::Google);
    }
    let bears = |text: &str| {
        text.split_once(' ')
            .is_some_and(|(scheme, rest)| scheme.eq_ignore_ascii_case("bearer") && token.is(rest.trim()))
    };
    if headers.get_all(AUTHORIZATION).iter().any(|value| value.to_str().is_ok_and(bears)) {
        return Some(Shown::Bearer);
    }
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| name == "key" && token.is(value)).then_some(Shown::Google)
}

/// Guesses whose error body a client understands, where the path does not tell.
fn guess(headers: &HeaderMap) -> Family {
    if headers.contains_key("x-goog-api-key") {
        Family::Gemini
    } else if headers.contains_key("x-api-key") || headers.contains_key("anthropic-version") {
        Family::Anthropic
    } else {
        Family::OpenAi
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("/session/ab/v1/messages", Some(("ab", "/v1/messages")); "usual")]
    #[test_case("/session/ab", Some(("ab", "")); "bare")]
    #[test_case("/session/ab/", Some(("ab", "/")); "slash")]
    #[test_case("/session//v1", None; "no id")]
    #[test_case("/v1/messages", None; "no session")]
    fn splits(path: &str, expected: Option<(&str, &str)>) {
        assert_eq!(split(path), expected);
    }
}
