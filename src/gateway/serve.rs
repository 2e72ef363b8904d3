//! Connections of harnesses.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use super::admit;
use super::listen::{Door, Visitor};
use super::server::Core;

/// The pause after a connection could not be taken: the system is out of file descriptors, most likely.
const BREATH: Duration = Duration::from_millis(50);

/// How long a connection may take to say what it wants. A client that says nothing holds a file descriptor of the host.
const INTRODUCTION: Duration = Duration::from_secs(120);

fn server() -> http1::Builder {
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(INTRODUCTION);
    server
}

/// How long connections get to say that they end, once the gateway does.
const FAREWELL: Duration = Duration::from_secs(2);

/// Lets everybody in until the gateway ends.
pub(super) async fn welcome(core: Arc<Core>, door: Door) {
    loop {
        let visitor = tokio::select! {
            () = core.cut.cancelled() => return,
            visitor = door.next() => visitor,
        };
        match visitor {
            Ok(Visitor::Tcp(stream)) => drop(core.tasks.spawn(attend(Arc::clone(&core), stream))),
            Ok(Visitor::Unix(stream)) => drop(core.tasks.spawn(attend(Arc::clone(&core), stream))),
            Err(error) => {
                tracing::warn!(%error, "a connection to the gateway was not taken");
                core.options.clock.sleep(BREATH).await;
            }
        }
    }
}

/// Serves one connection.
async fn attend(core: Arc<Core>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let service = service_fn(|request| {
        let core = Arc::clone(&core);
        async move { Ok::<_, Infallible>(admit::handle(core, request).await) }
    });
    let mut connection = pin!(server().serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = core.cut.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection.as_mut() => ended,
                () = core.options.clock.sleep(FAREWELL) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        // Clients that are killed leave like this all the time.
        tracing::debug!(%error, "a connection to the gateway broke");
    }
}
