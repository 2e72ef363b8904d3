//! Why a gateway does not start, or gives no capability.

use std::io;

use super::options::Listen;

/// A gateway does not start, or gives no capability.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// No place to listen was named.
    #[error("the gateway has no address to listen on; name one, such as 127.0.0.1:0")]
    NowhereToListen,
    /// A place is taken by a program that answers there.
    #[error(
        "the gateway cannot listen on {listen}: another program does; name another address, or port 0 for a free one"
    )]
    Taken {
        /// The place.
        listen: Listen,
    },
    /// A place cannot be listened on.
    #[error("the gateway cannot listen on {listen}")]
    Bind {
        /// The place.
        listen: Listen,
        /// What the system says.
        source: io::Error,
    },
    /// A provider's address is none.
    #[error("the base URL `{base_url}` of provider `{provider}` {message}; write it as in https://api.example.com/v1")]
    BaseUrl {
        /// The provider's name.
        provider: String,
        /// Its base URL as given.
        base_url: String,
        /// What is wrong with it.
        message: String,
    },
    /// A proxy cannot be used. The error does not show its password.
    #[error(
        "the proxy `{proxy}` on the way to provider `{provider}` {message}; write it as in http://proxy.example.com:3128"
    )]
    Proxy {
        /// The provider's name.
        provider: String,
        /// The proxy, as far as it may be shown.
        proxy: String,
        /// What is wrong with it.
        message: String,
    },
    /// Two providers have one name.
    #[error("two providers are named `{provider}`; give each a name of its own")]
    TwoOfOneName {
        /// The name.
        provider: String,
    },
    /// A grant names a provider that the gateway does not have.
    #[error("the gateway has no provider `{provider}`; it has {known}")]
    UnknownProvider {
        /// The name in the grant.
        provider: String,
        /// The names that there are.
        known: String,
    },
    /// A key cannot be put into a request. The error does not show it.
    #[error("the key of provider `{provider}` {message}; store it without that")]
    Key {
        /// The provider's name.
        provider: String,
        /// What is wrong with it.
        message: &'static str,
    },
    /// An extra certificate authority cannot be read.
    #[error("an extra certificate authority is no certificate: {message}; give it in PEM form")]
    Authority {
        /// What is wrong with it.
        message: String,
    },
    /// The encryption of connections cannot be set up.
    #[error("encrypted connections cannot be set up: {message}")]
    Tls {
        /// Why.
        message: String,
    },
    /// The gateway was shut down.
    #[error("the gateway was shut down and gives no more capabilities")]
    Closed,
}
