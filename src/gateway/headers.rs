//! Headers on their way through: what belongs to one connection stays behind, and so do the client's credentials.

use hyper::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderName,
    HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use hyper::{HeaderMap, StatusCode};

use super::admit::Shown;
use super::protocol::{Api, Family};
use super::target::Base;
use crate::domain::Key;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const GOOGLE_KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// What says something about one connection only.
static HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Codings of answers that the meter reads.
const CODINGS: &[&str] = &["gzip", "deflate", "identity"];

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Makes a client's headers those of the request to the provider. `plain` asks for an answer without compression.
pub(super) fn towards_provider(headers: &mut HeaderMap, base: &Base, plain: bool) {
    remove_hop_by_hop(headers);
    for name in [AUTHORIZATION, API_KEY, GOOGLE_KEY, HeaderName::from_static("api-key"), CONTENT_LENGTH, EXPECT, HOST] {
        headers.remove(name);
    }
    let codings = if plain { HeaderValue::from_static("identity") } else { codings(headers) };
    headers.insert(ACCEPT_ENCODING, codings);
    if let Ok(host) = HeaderValue::from_str(base.authority().as_str()) {
        headers.insert(HOST, host);
    }
}

/// Keeps of the codings that a client takes those that the meter reads too.
fn codings(headers: &HeaderMap) -> HeaderValue {
    let asked = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let kept: Vec<&str> = asked
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|coding| {
            let name = coding.split(';').next().unwrap_or(coding).trim();
            CODINGS.iter().any(|known| name.eq_ignore_ascii_case(known))
        })
        .collect();
    HeaderValue::from_str(&kept.join(", "))
        .ok()
        .filter(|value| !value.is_empty())
        .unwrap_or(HeaderValue::from_static("identity"))
}

/// Tells whether a key can be put into a header. The error does not show it.
pub(super) fn check_key(key: &Key) -> Result<(), &'static str> {
    match HeaderValue::from_str(key.expose()) {
        Ok(_) => Ok(()),
        Err(_) if key.expose().ends_with(['\n', '\r']) => Err("ends with a line break, which no HTTP header can hold"),
        Err(_) => Err("has a character in it that no HTTP header can hold"),
    }
}

/// Puts the provider's key in, where its API expects it. The error does not show it.
pub(super) fn put_key(
    headers: &mut HeaderMap,
    key: &Key,
    api: Api,
    (shown, base): (Shown, &Base),
) -> Result<(), &'static str> {
    let place = match api.family() {
        // One path of all providers.
        _ if api == Api::Models => shown,
        Family::OpenAi => Shown::Bearer,
        Family::Gemini => Shown::Google,
        // Others that speak Anthropic's API take one or the other; the client's settings tell which.
        Family::Anthropic if shown == Shown::Bearer && !base.is_anthropic() => Shown::Bearer,
        Family::Anthropic => Shown::ApiKey,
    };
    let (name, text) = match place {
        Shown::ApiKey => (API_KEY, key.expose().to_owned()),
        Shown::Google => (GOOGLE_KEY, key.expose().to_owned()),
        Shown::Bearer => (AUTHORIZATION, format!("Bearer {}", key.expose())),
    };
    let mut value =
        HeaderValue::from_str(&text).map_err(|_| "the provider's key holds characters that no header can")?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

/// What two providers' own clients obey: `false` ends their tries.
pub(super) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

/// Makes a provider's headers those of the answer to the client. `edited` says that the body's length may change.
pub(super) fn towards_client(status: StatusCode, headers: &mut HeaderMap, edited: bool) {
    remove_hop_by_hop(headers);
    // It would lead clients around the gateway.
    headers.remove(HeaderName::from_static("alt-svc"));
    if edited {
        headers.remove(CONTENT_LENGTH);
    }
    // The key is the gateway's, and does not change while a session runs. Clients that take a 401 for a token to be renewed
    // would ask again for minutes.
    if status == StatusCode::UNAUTHORIZED && !headers.contains_key(SHOULD_RETRY) {
        headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    }
}

/// Tells whether a body passes as it is, without compression.
pub(super) fn is_plain(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_ENCODING).is_none_or(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn base() -> Base {
        Base::parse("https://api.example.com:8443/v1").expect("a base")
    }

    #[test_case(401, &[], Some("false"); "a key that is refused")]
    #[test_case(401, &[("x-should-retry", "true")], Some("true"); "the provider knows better")]
    #[test_case(429, &[], None; "a refusal that passes")]
    fn a_refused_key_is_not_asked_with_again(status: u16, sent: &[(&'static str, &'static str)], told: Option<&str>) {
        let mut headers = headers(sent);
        towards_client(StatusCode::from_u16(status).expect("a status"), &mut headers, false);
        assert_eq!(headers.get(SHOULD_RETRY).map(|value| value.to_str().expect("text")), told);
    }

    #[test]
    fn what_belongs_to_a_connection_or_is_a_credential_stays_behind() {
        let mut sent = headers(&[
            ("connection", "keep-alive, X-Private"),
            ("x-private", "1"),
            ("transfer-encoding", "chunked"),
            ("authorization", "Bearer sk-refrain-1"),
            ("x-api-key", "sk-refrain-1"),
            ("x-goog-api-key", "sk-refrain-1"),
            ("content-length", "7"),
            ("expect", "100-continue"),
            ("host", "127.0.0.1:8877"),
            ("anthropic-version", "2023-06-01"),
        ]);
        towards_provider(&mut sent, &base(), false);
        let expected = headers(&[
            ("anthropic-version", "2023-06-01"),
            ("accept-encoding", "identity"),
            ("host", "api.example.com:8443"),
        ]);
        assert_eq!(sent, expected);
    }

    #[test_case("gzip, deflate, br, zstd", "gzip, deflate"; "usual")]
    #[test_case("br;q=1.0, gzip;q=0.8, *;q=0.1", "gzip;q=0.8"; "weights")]
    #[test_case("br", "identity"; "none that the meter reads")]
    fn codings_are_those_that_the_meter_reads(asked: &'static str, expected: &str) {
        let mut sent = headers(&[("accept-encoding", asked)]);
        towards_provider(&mut sent, &base(), false);
        assert_eq!(sent["accept-encoding"], expected);
    }

    #[test_case("sk-0123", None; "usual")]
    #[test_case("sk-0123\n", Some("ends with a line break"); "a file that ends with a line")]
    #[test_case("sk-\n0123", Some("has a character in it"); "two lines")]
    fn a_key_that_fits_no_header_is_found(key: &str, told: Option<&str>) {
        let found = check_key(&Key::new(key)).err();
        assert_eq!(found.is_some(), told.is_some());
        assert!(found.unwrap_or_default().starts_with(told.unwrap_or_default()), "{found:?}");
        assert!(!found.unwrap_or_default().contains("0123"), "{found:?}");
    }

    #[test_case(Api::AnthropicMessages, Shown::ApiKey, "https://api.anthropic.com", "x-api-key", "k1"; "anthropic")]
    #[test_case(Api::AnthropicMessages, Shown::Bearer, "https://api.anthropic.com", "x-api-key", "k1"; "anthropic itself has one place")]
    #[test_case(Api::AnthropicMessages, Shown::Bearer, "https://x/api", "authorization", "Bearer k1"; "another that speaks its API")]
    #[test_case(Api::OpenAiResponses, Shown::ApiKey, "https://x", "authorization", "Bearer k1"; "openai")]
    #[test_case(Api::GeminiStream, Shown::Bearer, "https://x", "x-goog-api-key", "k1"; "gemini")]
    #[test_case(Api::Models, Shown::Google, "https://x", "x-goog-api-key", "k1"; "models as the client did")]
    fn a_key_goes_where_the_api_expects_it(api: Api, shown: Shown, url: &str, name: &str, value: &str) {
        let mut sent = HeaderMap::new();
        let base = Base::parse(url).expect("a base");
        put_key(&mut sent, &Key::new("k1"), api, (shown, &base)).expect("a key");
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[name], value);
        assert!(!format!("{sent:?}").contains("k1"), "it does not show itself");
    }
}
