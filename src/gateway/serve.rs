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
use super::lobby::Seat;
use super::server::Core;

/// The pause after a connection could not be taken: the system is out of file descriptors, most likely.
const BREATH: Duration = Duration::from_millis(50);

/// The most bytes of a request line with its headers, and what is read of a body at a time.
const LARGEST_HEAD: usize = 256 << 10;

/// The most headers of a request.
const MOST_HEADERS: usize = 128;

/// What a client reads for which there is no place.
const FULL: &str = "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 112\r\n\
    retry-after: 1\r\nconnection: close\r\n\r\n\
    {\"error\":{\"type\":\"overloaded_error\",\"message\":\"the gateway has as many connections as it may; try again later\"}}";

fn server(core: &Core) -> http1::Builder {
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(core.options.bounds.head)
        .max_headers(MOST_HEADERS)
        .max_buf_size(LARGEST_HEAD);
    server
}

/// How long connections get to end by themselves, once their session or the gateway has.
const FAREWELL: Duration = Duration::from_secs(2);

/// Lets everybody in until the gateway ends.
pub(super) async fn welcome(core: Arc<Core>, door: Door) {
    loop {
        let visitor = tokio::select! {
            () = core.cut.cancelled() => return,
            visitor = door.next() => visitor,
        };
        let seated = visitor.map(|visitor| (core.lobby.enter(), visitor));
        match seated {
            Ok((Some(seat), Visitor::Tcp(stream))) => {
                drop(core.tasks.spawn(attend(Arc::clone(&core), Arc::new(seat), stream)));
            }
            Ok((Some(seat), Visitor::Unix(stream))) => {
                drop(core.tasks.spawn(attend(Arc::clone(&core), Arc::new(seat), stream)));
            }
            Ok((None, visitor)) => {
                tracing::warn!(
                    most = core.options.bounds.connections,
                    "a connection was turned away: there are too many"
                );
                visitor.tell(FULL.as_bytes());
            }
            Err(error) => {
                tracing::warn!(%error, "a connection to the gateway was not taken");
                core.options.clock.sleep(BREATH).await;
            }
        }
    }
}

/// Serves one connection.
async fn attend(core: Arc<Core>, seat: Arc<Seat>, stream: impl AsyncRead + AsyncWrite + Unpin) {
    let service = service_fn(|request| {
        let (core, seat) = (Arc::clone(&core), Arc::clone(&seat));
        async move { Ok::<_, Infallible>(admit::handle(core, &seat, request).await) }
    });
    let mut connection = pin!(server(&core).serve_connection(TokioIo::new(stream), service));
    let over = async {
        tokio::select! {
            () = core.cut.cancelled() => {}
            () = seat.over() => {}
        }
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        // Nothing was begun here.
        () = seat.needed() => return,
        () = over => {
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
