//! An answer on its way to the client: each piece passes as it comes, and the last one only when the exchange is on the books.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use hyper::{Response, Version};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::entry::{Ending, Entry};
use super::headers;
use super::protocol::UsageFilter;
use super::reply::{Answer, Broken};
use super::server::Core;
use super::silence::{Pulse, Silence};
use super::source::Source;
use crate::clock::Clock;
use crate::domain::ExchangeEnd;

/// How long the end of an answer is waited for behind a piece that seems to be the last one.
const GRACE: Duration = Duration::from_secs(1);

/// Passes an answer whose head has come. `hides_usage`: the usage in it was asked for here and is not shown.
pub(super) async fn pass(
    mut entry: Entry,
    core: &Arc<Core>,
    cut: CancellationToken,
    answer: Response<Source>,
    hides_usage: bool,
) -> Response<Answer> {
    let (mut parts, body) = answer.into_parts();
    let filter = (hides_usage && headers::is_plain(&parts.headers)).then(UsageFilter::new);
    headers::towards_client(parts.status, &mut parts.headers, filter.is_some());
    // How the provider frames its answer is a matter of its own connection.
    parts.version = Version::HTTP_11;
    if body.is_over() {
        // Nobody will ask for the pieces of a body that has none.
        let body = match entry.settle(Ending::Answered).done().await {
            Ok(()) => Empty::new().map_err(|never| match never {}).boxed_unsync(),
            Err(error) => StreamBody::new(stream::iter([Err(Broken::Unrecorded(error))])).boxed_unsync(),
        };
        return Response::from_parts(parts, body);
    }
    let clock = Arc::clone(&core.options.clock);
    let passage = Box::new(Passage {
        entry,
        body,
        filter,
        silence: Silence::new(Pulse::new(Arc::clone(&clock)), core.options.stalls.idle),
        cut: Box::pin(cut.cancelled_owned()),
        held: None,
        finished: false,
        breaks: None,
        clock,
        over: false,
    });
    let pieces = stream::unfold(passage, |mut passage| async move {
        let piece = passage.next().await?;
        Some((piece.map(Frame::data), passage))
    });
    Response::from_parts(parts, StreamBody::new(pieces).boxed_unsync())
}

/// An answer under way.
struct Passage {
    entry: Entry,
    body: Source,
    filter: Option<UsageFilter>,
    silence: Silence,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    /// A piece that may be the last one, and how long it is kept for that.
    held: Option<(Bytes, Grace)>,
    /// What has come may be all: an answer that ends here was whole.
    finished: bool,
    /// The error that comes behind the last piece.
    breaks: Option<Broken>,
    clock: Arc<dyn Clock>,
    over: bool,
}

type Grace = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What happens next to an answer.
enum Step {
    Piece(Bytes),
    End,
    /// Nothing came behind the piece that is held.
    Quiet,
    Broke(ExchangeEnd, String),
    Cut,
}

impl Passage {
    /// Returns the next piece for the client. Dropping the answer settles its entry.
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        while !self.over {
            let passed = match self.step().await {
                Step::Piece(piece) => self.piece(piece).await,
                Step::End => self.end().await,
                // More may come: other candidates of the answer, and a later usage with them.
                Step::Quiet => Ok(self.unheld()),
                Step::Broke(end, message) => self.broke(end, message).await,
                Step::Cut => {
                    self.over = true;
                    // Its record is under way, and whoever cut waits for that.
                    drop(if self.finished { self.entry.settle(Ending::Answered) } else { self.entry.break_off() });
                    Err(Broken::Ended)
                }
            };
            match passed {
                Ok(piece) if piece.is_empty() => {}
                Ok(piece) => return Some(Ok(piece)),
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        self.breaks.take().map(Err)
    }

    async fn step(&mut self) -> Step {
        // Time in which the client took nothing is no silence of the provider.
        self.silence.heard();
        loop {
            let grace = self.held.as_mut().map(|(_, grace)| grace);
            let next = tokio::select! {
                biased;
                () = &mut self.cut => return Step::Cut,
                next = self.body.next() => next,
                () = self.silence.exceeded() => {
                    let message = "the provider was silent for too long within its answer";
                    return Step::Broke(ExchangeEnd::UpstreamStalled, message.to_owned());
                }
                () = async { if let Some(grace) = grace { grace.await } else { std::future::pending().await } } => {
                    return Step::Quiet;
                }
            };
            match next {
                None => return Step::End,
                Some(Err(message)) => return Step::Broke(ExchangeEnd::UpstreamCut, message),
                Some(Ok(piece)) => {
                    self.silence.heard();
                    if let Some(piece) = piece {
                        return Step::Piece(piece);
                    }
                }
            }
        }
    }

    async fn piece(&mut self, piece: Bytes) -> Result<Bytes, Broken> {
        let whole = self.entry.read(&piece);
        // A body of known length has reached it: the client will see that as soon as we do.
        let last = self.body.is_over();
        let shown = match &mut self.filter {
            Some(filter) => filter.pass(piece),
            None => piece,
        };
        let before = self.unheld();
        self.finished = whole && !last && self.entry.may_go_on();
        if self.finished {
            let clock = Arc::clone(&self.clock);
            self.held = Some((shown, Box::pin(async move { clock.sleep(GRACE).await })));
            return Ok(before);
        }
        if whole || last {
            self.settle().await?;
        }
        let shown = joined(before, shown);
        if !last {
            return Ok(shown);
        }
        self.over = true;
        Ok(joined(shown, self.rest()))
    }

    async fn end(&mut self) -> Result<Bytes, Broken> {
        self.over = true;
        self.settle().await?;
        let held = self.unheld();
        Ok(joined(held, self.rest()))
    }

    async fn broke(&mut self, end: ExchangeEnd, message: String) -> Result<Bytes, Broken> {
        self.over = true;
        if self.finished {
            // It was whole before it broke.
            self.settle().await?;
        } else {
            let settling = self.entry.settle(Ending::Was(end, message.clone()));
            settling.done().await.map_err(Broken::Unrecorded)?;
        }
        self.breaks = Some(Broken::Upstream(message));
        Ok(self.unheld())
    }

    /// The piece that was held.
    fn unheld(&mut self) -> Bytes {
        self.held.take().map_or_else(Bytes::new, |(piece, _)| piece)
    }

    async fn settle(&mut self) -> Result<(), Broken> {
        self.entry.settle(Ending::Answered).done().await.map_err(Broken::Unrecorded)
    }

    /// What the filter has kept back.
    fn rest(&mut self) -> Bytes {
        self.filter.take().map_or_else(Bytes::new, UsageFilter::finish)
    }
}

impl Drop for Passage {
    /// A client may go away behind what ends an answer, and whether it was the last of it nobody else tells.
    fn drop(&mut self) {
        if self.finished {
            drop(self.entry.settle(Ending::Answered));
        }
    }
}

fn joined(first: Bytes, second: Bytes) -> Bytes {
    if first.is_empty() {
        return second;
    }
    if second.is_empty() {
        return first;
    }
    let mut both = BytesMut::with_capacity(first.len() + second.len());
    both.extend_from_slice(&first);
    both.extend_from_slice(&second);
    both.freeze()
}
