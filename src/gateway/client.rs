//! Requests of the host itself: they pass the gateway like those of any session.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::handshake;
use hyper::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use super::capability::Capability;
use super::options::Listen;
use super::protocol::{self, Family};
use super::server::Gateway;

/// The most bytes of an answer that are taken.
const LONGEST_ANSWER: usize = 16 << 20;

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Vec<u8>,
}

/// A request of the host got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no answer through the gateway: {message}")]
pub struct PostError {
    /// Why.
    pub message: String,
}

impl Gateway {
    /// Sends a request with JSON on the account of a capability, by the first place where the gateway listens, and waits
    /// for the whole answer. The path is one of a provider's interfaces, such as `/v1/messages`.
    ///
    /// Dropping the future gives the request up, as any client may.
    ///
    /// # Errors
    ///
    /// [`PostError`] where no whole answer came. An answer that says no is an answer.
    pub async fn post(&self, capability: &Capability, path: &str, body: Vec<u8>) -> Result<Reply, PostError> {
        let failed = |error: &dyn std::fmt::Display| PostError { message: error.to_string() };
        let token = capability.token();
        let family = protocol::recognise("POST", path).map(|route| route.api.family());
        let shown = match family {
            Some(Family::Anthropic) => ("x-api-key", token.to_owned()),
            Some(Family::Gemini) => ("x-goog-api-key", token.to_owned()),
            _ => (AUTHORIZATION.as_str(), format!("Bearer {token}")),
        };
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{path}", capability.path()))
            .header(HOST, "gateway")
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT_ENCODING, "identity")
            .header("anthropic-version", "2023-06-01")
            .header(shown.0, shown.1)
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| failed(&error))?;
        match self.addresses().first() {
            Some(Listen::Tcp(address)) => {
                let stream = TcpStream::connect(reachable(*address)).await.map_err(|error| failed(&error))?;
                exchange(stream, request).await
            }
            Some(Listen::Unix(path)) => {
                let stream = UnixStream::connect(path).await.map_err(|error| failed(&error))?;
                exchange(stream, request).await
            }
            None => Err(failed(&"it listens nowhere")),
        }
    }
}

/// An address that stands for all of this machine is reached by its own.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    request: Request<Full<Bytes>>,
) -> Result<Reply, PostError> {
    let failed = |message: String| PostError { message };
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| failed(super::upstream::causes(&error)))?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| failed(super::upstream::causes(&error)))?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| failed(super::upstream::causes(&*error)))?;
        Ok(Reply { status, body: body.to_bytes().to_vec() })
    };
    tokio::pin!(answer, connection);
    let mut open = true;
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            // What has come by then is read to its end all the same.
            _ = &mut connection, if open => open = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("0.0.0.0:80", "127.0.0.1:80")]
    #[test_case("[::]:80", "[::1]:80")]
    #[test_case("172.17.0.1:80", "172.17.0.1:80")]
    fn all_addresses_are_reached_by_ones_own(address: &str, reached: &str) {
        assert_eq!(reachable(address.parse().expect("an address")).to_string(), reached);
    }
}
