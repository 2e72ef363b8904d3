//! Proxies between the gateway and providers, as companies have them.

use std::fmt;
use std::net::IpAddr;

use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::proxy::matcher::Matcher;

/// The proxies that the surroundings name. Providers on this machine's own addresses are asked directly.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For providers at `https://`.
    pub https: Option<String>,
    /// For providers at `http://`.
    pub http: Option<String>,
    /// Hosts that are asked directly, parted by commas: names with all below them, addresses, networks, `*`.
    pub except: Option<String>,
}

/// How a provider is reached.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum ProxyChoice {
    /// As the surroundings say.
    #[default]
    Surroundings,
    /// Directly.
    Direct,
    /// Through this proxy: `http://proxy.example.com:3128`.
    Through(String),
}

/// A proxy through which a provider is reached.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Proxy {
    pub(super) address: Uri,
    pub(super) authorization: Option<HeaderValue>,
}

impl Proxies {
    /// Takes `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in capitals or small letters, from what looks variables up.
    pub fn from_variables(mut look_up: impl FnMut(&str) -> Option<String>) -> Self {
        let mut value = |name: &str| {
            let found = look_up(name).or_else(|| look_up(&name.to_ascii_lowercase()));
            found.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let all = value("ALL_PROXY");
        Self {
            https: value("HTTPS_PROXY").or_else(|| all.clone()),
            http: value("HTTP_PROXY").or(all),
            except: value("NO_PROXY"),
        }
    }

    /// Returns the proxy on the way to a place. The error says what is wrong with it, and shows no password.
    pub(super) fn on_the_way(&self, choice: &ProxyChoice, place: &Uri) -> Result<Option<Proxy>, String> {
        let is_here = place.host().is_some_and(|host| {
            let host = host.trim_matches(['[', ']']);
            host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        });
        let none = String::new();
        let (named, matcher) = match choice {
            ProxyChoice::Direct => return Ok(None),
            ProxyChoice::Through(proxy) => (proxy, Matcher::builder().all(proxy.clone()).build()),
            ProxyChoice::Surroundings if is_here => return Ok(None),
            ProxyChoice::Surroundings => {
                let secure = place.scheme_str() == Some("https");
                let named = if secure { &self.https } else { &self.http }.as_ref().unwrap_or(&none);
                let except = self.except.clone().unwrap_or_default();
                // An exception is no proxy that is none.
                let any = Matcher::builder().all("http://any").no(except.clone()).build();
                if named.is_empty() || any.intercept(place).is_none() {
                    return Ok(None);
                }
                (named, Matcher::builder().all(named.clone()).no(except).build())
            }
        };
        let found = matcher.intercept(place).ok_or("is no address of a proxy")?;
        if named.contains("://") && !named.starts_with("http://") {
            return Err("is none that is spoken to in plain HTTP".to_owned());
        }
        Ok(Some(Proxy { address: found.uri().clone(), authorization: found.basic_auth().cloned() }))
    }
}

impl fmt::Debug for Proxies {
    /// Shows no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { https, http, except } = self;
        let told = |proxy: &Option<String>| proxy.as_deref().map(without_password);
        f.debug_struct("Proxies")
            .field("https", &told(https))
            .field("http", &told(http))
            .field("except", except)
            .finish()
    }
}

impl fmt::Debug for ProxyChoice {
    /// Shows no password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Surroundings => f.write_str("Surroundings"),
            Self::Direct => f.write_str("Direct"),
            Self::Through(proxy) => f.debug_tuple("Through").field(&without_password(proxy)).finish(),
        }
    }
}

/// The address of a proxy without what comes before its host.
pub(super) fn without_password(proxy: &str) -> String {
    match (proxy.split_once("://"), proxy.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        _ => proxy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use test_case::test_case;

    use super::*;

    fn around(variables: &[(&str, &str)]) -> Proxies {
        let variables: HashMap<&str, &str> = variables.iter().copied().collect();
        Proxies::from_variables(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    fn way(proxies: &Proxies, choice: &ProxyChoice, place: &str) -> Result<Option<String>, String> {
        let found = proxies.on_the_way(choice, &place.parse().expect("a place"))?;
        Ok(found.map(|proxy| format!("{} {:?}", proxy.address, proxy.authorization.is_some())))
    }

    #[test_case("https://api.example.com/v1", Some("http://proxy:3128/ true"); "encrypted")]
    #[test_case("http://api.example.com", Some("http://plain:8080/ false"); "plain")]
    #[test_case("https://models.lab.example.org", None; "below an exception")]
    #[test_case("https://10.1.2.3:8443", None; "in an excepted network")]
    #[test_case("https://127.0.0.1:8443", None; "here")]
    #[test_case("https://[::1]:8443", None; "here by the later protocol")]
    #[test_case("http://localhost:8443", None; "here by name")]
    fn the_surroundings(place: &str, expected: Option<&str>) {
        let proxies = around(&[
            ("HTTPS_PROXY", "http://me:secret@proxy:3128"),
            ("http_proxy", "plain:8080"),
            ("NO_PROXY", "lab.example.org, 10.0.0.0/8"),
        ]);
        assert_eq!(way(&proxies, &ProxyChoice::Surroundings, place), Ok(expected.map(str::to_owned)));
        assert!(!format!("{proxies:?}").contains("secret"));
    }

    #[test]
    fn a_provider_may_have_its_own() {
        let proxies = around(&[("ALL_PROXY", "http://proxy:3128"), ("no_proxy", "*")]);
        let through = ProxyChoice::Through("http://other:1".to_owned());
        assert_eq!(way(&proxies, &through, "https://127.0.0.1"), Ok(Some("http://other:1/ false".to_owned())));
        assert_eq!(way(&proxies, &ProxyChoice::Surroundings, "https://api.example.com"), Ok(None));
        assert_eq!(way(&proxies, &ProxyChoice::Direct, "https://api.example.com"), Ok(None));
        assert_eq!(format!("{:?}", ProxyChoice::Through("http://a:b@c:1".into())), r#"Through("http://c:1")"#);
    }

    #[test_case("socks5://proxy:1080"; "another protocol")]
    #[test_case("https://proxy:3128"; "encrypted")]
    #[test_case("http://"; "nothing")]
    fn proxies_that_are_none(named: &str) {
        let proxies = around(&[("HTTPS_PROXY", named)]);
        assert!(way(&proxies, &ProxyChoice::Surroundings, "https://api.example.com").is_err());
        assert_eq!(way(&proxies, &ProxyChoice::Surroundings, "http://api.example.com"), Ok(None));
    }
}
