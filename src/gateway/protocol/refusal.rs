//! What the gateway says in a provider's place, in that provider's shape.

use std::time::Duration;

use serde_json::json;

use super::api::Family;

/// Why the gateway answers by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefusalKind {
    /// No token, an unknown one, or one whose session is over.
    Unauthorized,
    /// No interface has this path.
    NotFound,
    /// The session has spent what it may.
    Limit,
    /// The model has no price, and a ceiling is to hold.
    Unpriced,
    /// The pieces in which the request's body comes cannot be told apart.
    Malformed,
    /// Too many requests; all cells wait together.
    RateLimited {
        /// How long to wait.
        retry_after: Option<Duration>,
    },
    /// No connection to the provider.
    Unreachable,
    /// The provider was silent for too long.
    Stalled,
    /// The gateway cannot serve now: it ends, or could not write its books.
    Unavailable,
    /// The request's body did not come to its end in time.
    Slow,
    /// The request's body is larger than what is taken.
    TooLarge,
    /// The cassette that is played has no answer to the request.
    Parted,
}

impl RefusalKind {
    /// The status that says so.
    ///
    /// [`RefusalKind::Limit`] is 403 for all. A client that tries again spends minutes on a session that is over: 429 and
    /// every 5xx are tried again for up to five minutes, and 401 for three by Claude Code, which takes it for a token to be
    /// renewed. After a 403 Claude Code, Gemini CLI, opencode and mini-swe-agent make no further request; Codex makes five
    /// within seconds. [`RefusalKind::Parted`] and [`RefusalKind::Unpriced`] are as final.
    const fn status(self) -> u16 {
        match self {
            Self::Unauthorized => 401,
            Self::NotFound => 404,
            Self::Limit | Self::Unpriced | Self::Parted => 403,
            Self::Malformed => 400,
            Self::RateLimited { .. } => 429,
            Self::Unreachable => 502,
            Self::Stalled => 504,
            Self::Unavailable => 503,
            Self::Slow => 408,
            Self::TooLarge => 413,
        }
    }

    const fn anthropic(self) -> &'static str {
        match self {
            Self::Unauthorized => "authentication_error",
            Self::NotFound => "not_found_error",
            Self::Limit | Self::Unpriced | Self::Parted => "permission_error",
            Self::Malformed => "invalid_request_error",
            Self::RateLimited { .. } => "rate_limit_error",
            Self::Unreachable | Self::Unavailable => "api_error",
            Self::Stalled | Self::Slow => "timeout_error",
            Self::TooLarge => "request_too_large",
        }
    }

    /// Type and code.
    const fn openai(self) -> (&'static str, Option<&'static str>) {
        match self {
            Self::Unauthorized => ("invalid_request_error", Some("invalid_api_key")),
            Self::NotFound => ("invalid_request_error", Some("not_found")),
            Self::Limit => ("invalid_request_error", Some("spend_limit_reached")),
            Self::Unpriced => ("invalid_request_error", Some("model_without_price")),
            Self::Malformed => ("invalid_request_error", Some("malformed_request")),
            Self::Parted => ("invalid_request_error", Some("cassette_parted")),
            Self::RateLimited { .. } => ("requests", Some("rate_limit_exceeded")),
            Self::Unreachable | Self::Stalled | Self::Unavailable => ("server_error", None),
            Self::Slow => ("invalid_request_error", Some("request_timeout")),
            Self::TooLarge => ("invalid_request_error", Some("request_too_large")),
        }
    }

    const fn gemini(self) -> &'static str {
        match self {
            Self::Unauthorized => "UNAUTHENTICATED",
            Self::NotFound => "NOT_FOUND",
            Self::Limit | Self::Unpriced | Self::Parted => "PERMISSION_DENIED",
            Self::RateLimited { .. } => "RESOURCE_EXHAUSTED",
            Self::Unreachable | Self::Unavailable => "UNAVAILABLE",
            Self::Stalled | Self::Slow => "DEADLINE_EXCEEDED",
            Self::Malformed | Self::TooLarge => "INVALID_ARGUMENT",
        }
    }
}

/// Returns status and JSON body of a refusal, as the clients of this family expect an error.
///
/// The waiting time of [`RefusalKind::RateLimited`] is in the body where the family has it there (Gemini); the caller
/// puts it into the `retry-after` header for all.
#[must_use]
pub fn refusal(family: Family, kind: RefusalKind, message: &str) -> (u16, String) {
    let status = kind.status();
    let body = match family {
        Family::Anthropic => json!({"type": "error", "error": {"type": kind.anthropic(), "message": message}}),
        Family::OpenAi => {
            let (name, code) = kind.openai();
            json!({"error": {"message": message, "type": name, "param": null, "code": code}})
        }
        Family::Gemini => {
            let details = match kind {
                RefusalKind::RateLimited { retry_after: Some(wait) } => json!([{
                    "@type": "type.googleapis.com/google.rpc.RetryInfo",
                    "retryDelay": format!("{}s", wait.as_secs_f64()),
                }]),
                _ => json!([]),
            };
            json!({"error": {"code": status, "message": message, "status": kind.gemini(), "details": details}})
        }
    };
    (status, body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_in_its_own_shape() {
        let wait = RefusalKind::RateLimited { retry_after: Some(Duration::from_millis(1500)) };
        let (status, body) = refusal(Family::Anthropic, wait, "wait");
        assert_eq!(status, 429);
        assert_eq!(body, r#"{"type":"error","error":{"type":"rate_limit_error","message":"wait"}}"#);
        let (status, body) = refusal(Family::OpenAi, RefusalKind::Unauthorized, "no \"token\"");
        assert_eq!(status, 401);
        assert_eq!(
            body,
            r#"{"error":{"message":"no \"token\"","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#
        );
        let (status, body) = refusal(Family::Gemini, wait, "wait");
        assert_eq!(status, 429);
        assert_eq!(
            body,
            r#"{"error":{"code":429,"message":"wait","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"1.5s"}]}}"#
        );
    }

    #[test]
    fn a_limit_is_final_for_every_client() {
        for family in [Family::Anthropic, Family::OpenAi, Family::Gemini] {
            assert_eq!(refusal(family, RefusalKind::Limit, "spent").0, 403);
        }
    }
}
