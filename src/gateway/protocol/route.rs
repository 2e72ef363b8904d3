//! Paths: which interface a request speaks.

use super::api::Api;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The interface.
    pub api: Api,
    /// The path with one version segment, and the query without what carries a key: `/v1/messages?beta=true`.
    pub path: String,
    /// The model, where the path names it (Gemini).
    pub model: Option<String>,
}

impl Route {
    /// Returns the address below a provider's base address.
    ///
    /// Clients and documentation disagree on whether a base address ends with the version. Where the base has a version
    /// anywhere in its path (`https://openrouter.ai/api/v1`), it stands, and that of the path is left out.
    #[must_use]
    pub fn below(&self, base_url: &str) -> String {
        let base = base_url.trim_end_matches('/');
        let after_host = base.find("://").map_or(base, |at| &base[at + 3..]);
        let versioned = after_host.split('/').skip(1).any(is_version);
        let path = if versioned { self.path.trim_start_matches('/').split_once('/') } else { None };
        match path {
            Some((_version, rest)) => format!("{base}/{rest}"),
            None => format!("{base}{}", self.path),
        }
    }
}

/// Finds the interface of a request by its method and its path, which may have a query.
///
/// A missing version segment is put in and one too many is left out, because base addresses are configured both ways.
/// `None` is a path that no interface has, or one with steps upwards in it.
#[must_use]
pub fn recognise(method: &str, path: &str) -> Option<Route> {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let versions = segments.iter().take_while(|segment| is_version(segment)).count();
    let version = versions.checked_sub(1).map(|last| segments[last]);
    segments.drain(..versions);

    let (api, model) = interface(method, &segments)?;
    let version = version.unwrap_or(match api {
        Api::GeminiGenerate | Api::GeminiStream | Api::GeminiCountTokens => "v1beta",
        _ => "v1",
    });
    let mut path = format!("/{version}/{}", segments.join("/"));
    if let Some(query) = query.map(without_keys).filter(|query| !query.is_empty()) {
        path.push('?');
        path.push_str(&query);
    }
    Some(Route { api, path, model })
}

fn interface(method: &str, segments: &[&str]) -> Option<(Api, Option<String>)> {
    match (method, segments) {
        ("POST", ["messages"]) => Some((Api::AnthropicMessages, None)),
        ("POST", ["messages", "count_tokens"]) => Some((Api::AnthropicCountTokens, None)),
        ("POST", ["responses"] | ["responses", "compact"]) => Some((Api::OpenAiResponses, None)),
        ("POST", ["chat", "completions"]) => Some((Api::OpenAiChat, None)),
        ("POST", [.., "models" | "tunedModels", last]) if segments.iter().all(|segment| is_plain(segment)) => {
            let (model, action) = last.rsplit_once(':')?;
            let api = match action {
                "generateContent" => Api::GeminiGenerate,
                "streamGenerateContent" => Api::GeminiStream,
                "countTokens" => Api::GeminiCountTokens,
                _ => return None,
            };
            Some((api, Some(percent_decoded(model))))
        }
        ("GET" | "HEAD", ["models", rest @ ..]) if rest.iter().all(|segment| is_plain(segment)) => {
            Some((Api::Models, None))
        }
        _ => None,
    }
}

/// `v1`, `v1beta`, `v4`: a `v`, a digit, and then letters and digits.
fn is_version(segment: &str) -> bool {
    let mut bytes = segment.bytes();
    bytes.next() == Some(b'v')
        && bytes.next().is_some_and(|byte| byte.is_ascii_digit())
        && bytes.all(|byte| byte.is_ascii_alphanumeric())
}

/// A segment that stays one whatever a server makes of it: no step upwards and no hidden separator.
fn is_plain(segment: &str) -> bool {
    let decoded = percent_decoded(segment);
    !decoded.contains(['\\', '\0', '?', '#', '%']) && decoded.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| after.get(at).and_then(|digit| char::from(*digit).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (byte, digit(0), digit(1)) {
            bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
            rest = &after[2..];
        } else {
            bytes.push(byte);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The query without the parameters in which a key can stand.
fn without_keys(query: &str) -> String {
    let is_key = |pair: &&str| {
        let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
        matches!(percent_decoded(name).as_str(), "key" | "access_token" | "api_key")
    };
    query.split('&').filter(|pair| !pair.is_empty() && !is_key(pair)).collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("POST", "/v1/messages?beta=true", Api::AnthropicMessages, "/v1/messages?beta=true")]
    #[test_case("POST", "/messages", Api::AnthropicMessages, "/v1/messages")]
    #[test_case("POST", "/v1/v1/messages", Api::AnthropicMessages, "/v1/messages")]
    #[test_case("POST", "//v1/messages/", Api::AnthropicMessages, "/v1/messages")]
    #[test_case(
        "POST",
        "/v1/messages/count_tokens?beta=true",
        Api::AnthropicCountTokens,
        "/v1/messages/count_tokens?beta=true"
    )]
    #[test_case("POST", "/responses", Api::OpenAiResponses, "/v1/responses")]
    #[test_case("POST", "/v1/responses/compact", Api::OpenAiResponses, "/v1/responses/compact")]
    #[test_case("POST", "/chat/completions", Api::OpenAiChat, "/v1/chat/completions")]
    #[test_case("POST", "/v4/chat/completions", Api::OpenAiChat, "/v4/chat/completions")]
    #[test_case("GET", "/models", Api::Models, "/v1/models")]
    #[test_case("GET", "/v1/models/openai/gpt-6/endpoints", Api::Models, "/v1/models/openai/gpt-6/endpoints")]
    #[test_case("GET", "/v1beta/models?key=AIza&pageSize=5", Api::Models, "/v1beta/models?pageSize=5")]
    fn paths_with_one_version(method: &str, path: &str, api: Api, canonical: &str) {
        let route = recognise(method, path).expect("is recognised");
        assert_eq!((route.api, route.path.as_str(), route.model), (api, canonical, None));
    }

    #[test_case(
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&key=AIza",
        Api::GeminiStream,
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        "gemini-2.5-pro"
    )]
    #[test_case("/models/m:generateContent", Api::GeminiGenerate, "/v1beta/models/m:generateContent", "m")]
    #[test_case(
        "/v1/models/m%3A1:countTokens?%6Bey=AIza",
        Api::GeminiCountTokens,
        "/v1/models/m%3A1:countTokens",
        "m:1"
    )]
    #[test_case(
        "/v1/publishers/google/models/m:generateContent",
        Api::GeminiGenerate,
        "/v1/publishers/google/models/m:generateContent",
        "m"
    )]
    fn paths_with_a_model(path: &str, api: Api, canonical: &str, model: &str) {
        let route = recognise("POST", path).expect("is recognised");
        assert_eq!((route.api, route.path.as_str(), route.model.as_deref()), (api, canonical, Some(model)));
    }

    #[test_case("GET", "/v1/messages")]
    #[test_case("HEAD", "/api/hello")]
    #[test_case("POST", "/v1/files")]
    #[test_case("POST", "/v1/models/m:batchGenerateContent")]
    #[test_case("POST", "/v1beta/models/..%2f..%2ffiles:generateContent")]
    #[test_case("POST", "/v1beta/../models/m:generateContent")]
    #[test_case("GET", "/v1/models/../files")]
    #[test_case("GET", "/v1/models/%2e%2e/files")]
    #[test_case("GET", "/v1/models/%252e%252e/files")]
    #[test_case("POST", "")]
    fn anything_else_is_unknown(method: &str, path: &str) {
        assert_eq!(recognise(method, path), None);
    }

    #[test_case("https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages")]
    #[test_case("https://api.anthropic.com/", "/messages", "https://api.anthropic.com/v1/messages")]
    #[test_case(
        "https://openrouter.ai/api/v1",
        "/v1/chat/completions",
        "https://openrouter.ai/api/v1/chat/completions"
    )]
    #[test_case(
        "https://g.example/v1beta/openai",
        "/chat/completions",
        "https://g.example/v1beta/openai/chat/completions"
    )]
    #[test_case("http://v1:8080", "/responses", "http://v1:8080/v1/responses")]
    fn the_version_of_a_base_address_stands(base: &str, path: &str, address: &str) {
        assert_eq!(recognise("POST", path).expect("is recognised").below(base), address);
    }
}
