//! Connections to providers.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

use super::options::Stalls;
use super::proxies::Proxy;
use super::silence::{Pulse, Silence};
use super::tls;
use super::upload::Upload;
use crate::clock::Clock;

/// How long a connection that nobody uses is kept. Providers close theirs after a minute or more; a request on a connection that is
/// being closed would be lost.
const KEPT: Duration = Duration::from_secs(30);

/// Sends requests to providers, over connections that are used again.
pub(super) struct Upstream {
    way: Way,
    clock: Arc<dyn Clock>,
    stalls: Stalls,
}

/// How connections are made.
enum Way {
    Direct(Client<HttpsConnector<HttpConnector>, Upload>),
    /// A proxy connects, and what passes it is encrypted for the provider.
    Through(Box<Client<HttpsConnector<Tunnel<HttpConnector>>, Upload>>, Uri),
}

/// A request got no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unanswered {
    /// No connection: nothing was sent.
    #[error("no connection to the provider: {0}")]
    Unreachable(String),
    /// The connection broke after something was sent.
    #[error("the connection to the provider broke before it answered: {0}")]
    Cut(String),
    /// Nothing was heard for too long.
    #[error("the provider did not begin to answer within {0:?}")]
    Stalled(Duration),
}

impl Upstream {
    pub(super) fn new(config: ClientConfig, proxy: Option<&Proxy>, clock: Arc<dyn Clock>, stalls: Stalls) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_idle_timeout(KEPT).pool_timer(TokioTimer::new());
        let way = match proxy {
            None => Way::Direct(builder.build(tls::over(config, tls::tcp()))),
            Some(Proxy { address, authorization }) => {
                let tunnel = Tunnel::new(address.clone(), tls::tcp());
                let tunnel = match authorization {
                    Some(authorization) => tunnel.with_auth(authorization.clone()),
                    None => tunnel,
                };
                Way::Through(Box::new(builder.build(tls::over(config, tunnel))), address.clone())
            }
        };
        Self { way, clock, stalls }
    }

    /// Sends a request whose body beats this pulse, and waits for the head of the answer. Dropping the future drops the connection.
    pub(super) async fn send(
        &self,
        mut request: Request<Upload>,
        pulse: Pulse,
    ) -> Result<Response<Incoming>, Unanswered> {
        if let Way::Through(..) = self.way {
            tell_port(request.uri_mut());
        }
        let connection = capture_connection(&mut request);
        let mut answer = pin!(match &self.way {
            Way::Direct(client) => client.request(request),
            Way::Through(client, _) => client.request(request),
        });
        let mut unconnected = pin!(self.clock.sleep(self.stalls.connect));
        let mut silence = Silence::new(pulse, self.stalls.first_byte);
        let mut connecting = true;
        loop {
            tokio::select! {
                answered = &mut answer => {
                    return answered.map_err(|error| {
                        let causes = causes(&error);
                        match &self.way {
                            _ if !error.is_connect() => Unanswered::Cut(causes),
                            Way::Direct(_) => Unanswered::Unreachable(causes),
                            Way::Through(_, proxy) => {
                                Unanswered::Unreachable(format!("through the proxy {proxy}: {causes}"))
                            }
                        }
                    });
                }
                () = &mut unconnected, if connecting => {
                    if connection.connection_metadata().is_none() {
                        return Err(Unanswered::Unreachable(format!("none stood within {:?}", self.stalls.connect)));
                    }
                    connecting = false;
                }
                () = silence.exceeded() => return Err(Unanswered::Stalled(self.stalls.first_byte)),
            }
        }
    }
}

/// Puts the port into an address without one: a tunnel takes all of those for encrypted ones.
fn tell_port(uri: &mut Uri) {
    if uri.port().is_some() || uri.scheme_str() != Some("http") {
        return;
    }
    let mut parts = uri.clone().into_parts();
    parts.authority = parts.authority.and_then(|host| format!("{host}:80").parse().ok());
    if let Ok(told) = Uri::from_parts(parts) {
        *uri = told;
    }
}

/// Tells an error with all that caused it: the outermost says little.
pub(super) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        told.push_str(": ");
        told.push_str(&cause.to_string());
        next = cause.source();
    }
    told
}
