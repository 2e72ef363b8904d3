//! Connections to providers.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{HttpConnector, capture_connection};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::options::Stalls;
use super::silence::{Pulse, Silence};
use super::upload::Upload;
use crate::clock::Clock;

/// How long a connection that nobody uses is kept. Providers close theirs after a minute or more; a request on a connection that is
/// being closed would be lost.
const KEPT: Duration = Duration::from_secs(30);

/// Sends requests to providers, over connections that are used again.
pub(super) struct Upstream {
    client: Client<HttpsConnector<HttpConnector>, Upload>,
    clock: Arc<dyn Clock>,
    stalls: Stalls,
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
    pub(super) fn new(connector: HttpsConnector<HttpConnector>, clock: Arc<dyn Clock>, stalls: Stalls) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .pool_idle_timeout(KEPT)
            .pool_timer(TokioTimer::new())
            .build(connector);
        Self { client, clock, stalls }
    }

    /// Sends a request whose body beats this pulse, and waits for the head of the answer. Dropping the future drops the connection.
    pub(super) async fn send(
        &self,
        mut request: Request<Upload>,
        pulse: Pulse,
    ) -> Result<Response<Incoming>, Unanswered> {
        let connection = capture_connection(&mut request);
        let mut answer = pin!(self.client.request(request));
        let mut unconnected = pin!(self.clock.sleep(self.stalls.connect));
        let mut silence = Silence::new(pulse, self.stalls.first_byte);
        let mut connecting = true;
        loop {
            tokio::select! {
                answered = &mut answer => {
                    return answered.map_err(|error| {
                        let causes = causes(&error);
                        if error.is_connect() { Unanswered::Unreachable(causes) } else { Unanswered::Cut(causes) }
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

    /// Returns the limit for silence within an answer.
    pub(super) fn idle(&self, pulse: Pulse) -> Silence {
        Silence::new(pulse, self.stalls.idle)
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
