//! Where requests go: a provider's base URL, checked, and the address of an API below it.

use hyper::Uri;
use hyper::http::uri::{Authority, Scheme};

use super::protocol::Route;
use crate::budget::tells_cost;

/// A provider's base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Base {
    url: String,
    authority: Authority,
    uri: Uri,
}

impl Base {
    /// Reads a base URL. The error says what is wrong with it and reads after its name.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let url = url.trim();
        let uri: Uri = url.parse().map_err(|error| format!("is none: {error}"))?;
        if !matches!(uri.scheme(), Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS) {
            return Err("begins with neither http:// nor https://".to_owned());
        }
        let authority = uri.authority().cloned().ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("holds a user name or a key".to_owned());
        }
        if uri.query().is_some() {
            return Err("holds a query".to_owned());
        }
        Ok(Self { url: url.to_owned(), authority, uri })
    }

    /// Returns the address itself.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    /// Returns the host and port, for the `host` header.
    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Tells whether this is Anthropic's own address, which takes keys in one header only.
    pub(super) fn is_anthropic(&self) -> bool {
        let host = self.authority.host();
        host == "anthropic.com" || host.ends_with(".anthropic.com")
    }

    /// Tells whether its answers say what they cost.
    pub(super) fn tells_cost(&self) -> bool {
        tells_cost(&self.url)
    }

    /// Returns the address of a route.
    pub(super) fn address(&self, route: &Route) -> Result<Uri, String> {
        route.below(&self.url).parse().map_err(|error| format!("the request's path is none: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("api.anthropic.com", "neither"; "no scheme")]
    #[test_case("ftp://x", "neither"; "another scheme")]
    #[test_case("https://key@x", "a key"; "key inside")]
    #[test_case("https://x/v1?key=1", "query"; "query")]
    #[test_case("https://", "is none"; "no host")]
    fn a_base_that_is_none_is_told(base: &str, message: &str) {
        let told = Base::parse(base).expect_err("no base");
        assert!(told.contains(message), "{told}");
    }

    #[test_case("https://api.anthropic.com", true; "itself")]
    #[test_case("https://api.anthropic.com:443/v1", true; "with a port")]
    #[test_case("https://anthropic.com.example.org", false; "another")]
    fn anthropic_is_known(base: &str, expected: bool) {
        assert_eq!(Base::parse(base).expect("a base").is_anthropic(), expected);
    }
}
