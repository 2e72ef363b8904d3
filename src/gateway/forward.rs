//! One exchange: the request is read, let through, sent to the provider, and its answer passed back.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::CONTENT_ENCODING;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Request, Response};

use super::admit::{Admitted, Shown};
use super::answer;
use super::cassette::{Cassette, RecordedRequest};
use super::entry::{Ending, Entry};
use super::headers;
use super::protocol::{Asked, RefusalKind, RequestReader, Route};
use super::reply::{self, Answer};
use super::server::Core;
use super::session::{Held, Session, Stop};
use super::silence::{Pulse, Silence};
use super::source::{self, Source};
use super::upload::{Pieces, Upload, splice};
use super::upstream::{Unanswered, causes};
use crate::domain::ExchangeEnd;
use crate::redact::printable;

/// A request on its way.
struct Exchange {
    core: Arc<Core>,
    session: Arc<Session>,
    route: Route,
    entry: Entry,
    held: Held,
}

/// Why a request is answered here.
enum Halt {
    /// The gateway refuses; nothing was sent.
    Refused(RefusalKind, String),
    /// The provider gave no answer.
    Failed(ExchangeEnd, RefusalKind, String),
    /// The session or the gateway ended, or the client did.
    Ended,
}

/// Answers a request that was admitted.
pub(super) async fn exchange(core: Arc<Core>, admitted: Admitted, parts: Parts, body: Incoming) -> Response<Answer> {
    let Admitted { session, route, shown } = admitted;
    let Some(entry) = Entry::open(Arc::clone(&core), Arc::clone(&session), &route) else {
        return reply::refusal(route.api.family(), RefusalKind::Unauthorized, "the session has ended");
    };
    let held = Held::nothing(Arc::clone(&session));
    let mut exchange = Exchange { core, session, route, entry, held };
    let cut = exchange.session.cut.clone();
    let passed = tokio::select! {
        biased;
        () = cut.cancelled() => Err(Halt::Ended),
        passed = exchange.pass(parts, body, shown) => passed,
    };
    match passed {
        Ok((answer, hides_usage)) => answer::pass(exchange.entry, &exchange.core, cut, answer, hides_usage).await,
        Err(halt) => exchange.halt(halt).await,
    }
}

/// How a request's body is compressed.
fn coding(headers: &HeaderMap) -> Option<String> {
    let named: Vec<String> = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .map(|name| String::from_utf8_lossy(name.as_bytes()).into_owned())
        .collect();
    (!named.is_empty()).then(|| named.join(", "))
}

/// Tells whether a body broke off because it is framed wrongly, such as by a chunk size that is no number, rather than
/// because its client went away.
fn is_malformed(error: &hyper::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        let kind = inner.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        if matches!(kind, Some(ErrorKind::InvalidInput | ErrorKind::InvalidData)) {
            return true;
        }
        cause = inner.source();
    }
    false
}

impl Exchange {
    /// Brings the request to the provider and returns the head of its answer, and whether the client must not see the usage.
    async fn pass(&mut self, parts: Parts, body: Incoming, shown: Shown) -> Result<(Response<Source>, bool), Halt> {
        let (pieces, plain, asked) = self.read(body, coding(&parts.headers)).await?;
        self.entry.asked(&asked);
        self.admit().await?;
        let hides_usage = asked.usage_splice.is_some();
        if let Some(cassette) = self.core.cassette.clone() {
            let request = self.taped(plain, &asked);
            if cassette.plays() {
                return self.play(&cassette, &request).map(|answer| (answer, hides_usage));
            }
            self.entry.tape(request);
        }
        let slot = self.session.terms.lane.enter().await;
        // Others of the session may have ended while this one waited.
        self.stop()?;
        let pulse = Pulse::new(Arc::clone(&self.core.options.clock));
        let request = self.request(parts, pieces, &asked, (shown, pulse.clone()))?;
        self.entry.sent(slot).await.map_err(|message| {
            self.session.broke(&message);
            Self::halted(Stop::Broken(message))
        })?;
        let answer = self.session.terms.upstream.send(request, pulse.clone()).await.map_err(|error| {
            let message = error.to_string();
            match error {
                Unanswered::Unreachable(_) => Halt::Failed(ExchangeEnd::Unreachable, RefusalKind::Unreachable, message),
                Unanswered::Cut(_) => Halt::Failed(ExchangeEnd::UpstreamCut, RefusalKind::Unreachable, message),
                Unanswered::Stalled(_) => Halt::Failed(ExchangeEnd::UpstreamStalled, RefusalKind::Stalled, message),
            }
        })?;
        self.entry.answered(answer.status().as_u16(), answer.headers(), pulse.since());
        Ok((answer.map(Source::Provider), hides_usage))
    }

    /// The request as cassettes know it.
    fn taped(&self, plain: Vec<u8>, asked: &Asked) -> RecordedRequest {
        RecordedRequest {
            api: self.route.api.name().to_owned(),
            path: self.route.path.clone(),
            fingerprint: asked.fingerprint.clone(),
            body: plain.into(),
        }
    }

    /// Answers from a cassette.
    fn play(&mut self, cassette: &Cassette, request: &RecordedRequest) -> Result<Response<Source>, Halt> {
        let recorded = cassette.answer(&self.session.terms.attribution, &self.session.terms.places, request).map_err(
            |parted| {
                let message = self.core.options.redactor.redact(&parted.message).into_string();
                tracing::warn!(session = self.session.id, "{}", printable(&message));
                Halt::Refused(RefusalKind::Parted, message)
            },
        )?;
        self.entry.played();
        let end = recorded.end;
        let Some(answer) = source::recorded(recorded) else {
            let kind =
                if end == ExchangeEnd::UpstreamStalled { RefusalKind::Stalled } else { RefusalKind::Unreachable };
            return Err(Halt::Failed(end, kind, "no answer had come when the cassette was recorded".to_owned()));
        };
        self.entry.answered(answer.status().as_u16(), answer.headers(), Duration::ZERO);
        Ok(answer)
    }

    /// Reads the request's body, and returns it as it came, and for a cassette what it is without compression.
    async fn read(
        &mut self,
        mut body: Incoming,
        coding: Option<String>,
    ) -> Result<(VecDeque<Bytes>, Vec<u8>, Asked), Halt> {
        let bounds = self.core.options.bounds;
        let refused = |kind, message: String| Err(Halt::Refused(kind, message));
        let too_large = || {
            let message = format!("the request is larger than {} MiB", bounds.request >> 20);
            refused(RefusalKind::TooLarge, message)
        };
        let mut reader = RequestReader::encoded(self.route.api, coding.as_deref());
        let (mut pieces, mut plain) = (Pieces::default(), Vec::new());
        let (mut length, mut unpacked) = (0_u64, 0_u64);
        let is_taped = self.core.cassette.is_some();
        let mut silence = Silence::new(Pulse::new(Arc::clone(&self.core.options.clock)), bounds.body);
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = silence.exceeded() => {
                    let message = format!("nothing of the request's body came for {:?}", bounds.body);
                    return refused(RefusalKind::Slow, message);
                }
            };
            silence.heard();
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| {
                tracing::debug!(error = causes(&error), "a request did not come to its end");
                if is_malformed(&error) {
                    let message = format!("the request's body cannot be read: {}", causes(&error));
                    return Halt::Refused(RefusalKind::Malformed, message);
                }
                Halt::Ended
            })?;
            let Ok(piece) = frame.into_data() else { continue };
            length += piece.len() as u64;
            if length > bounds.request {
                return too_large();
            }
            let before = unpacked;
            self.entry.upload(&piece);
            let entry = &mut self.entry;
            let is_read = reader.feed_through(&piece, |bytes| {
                unpacked += bytes.len() as u64;
                entry.keeps(Some(bytes));
                if is_taped && unpacked <= bounds.request {
                    plain.extend_from_slice(bytes);
                }
            });
            if unpacked > bounds.request {
                return too_large();
            }
            if !is_read {
                self.entry.keeps(None);
                plain = b"a body that is compressed in a way that is not read".to_vec();
            }
            let kept = if is_taped { unpacked - before } else { 0 };
            if !self.held.more(piece.len() as u64 + kept, bounds.held) {
                let message = format!("the requests of this session hold more than {} MiB", bounds.held >> 20);
                return refused(RefusalKind::TooLarge, message);
            }
            pieces.push(piece);
        }
        Ok((pieces.finish(), plain, reader.finish()))
    }

    /// Waits until the session may make another request. Requests that nobody bills wait for none.
    async fn admit(&mut self) -> Result<(), Halt> {
        if !self.route.api.is_billed() {
            return self.stop();
        }
        self.tape_holds()?;
        if let Some(message) = self.entry.unpriced() {
            return Err(Halt::Refused(RefusalKind::Unpriced, message));
        }
        self.session.pass().await.map_err(Self::halted)?;
        self.entry.passes();
        Ok(())
    }

    /// Looks whether the session may make another request.
    fn stop(&self) -> Result<(), Halt> {
        self.tape_holds()?;
        self.session.stop().map_or(Ok(()), |stop| Err(Self::halted(stop)))
    }

    /// Looks whether what a cassette is to keep can still be kept: an answer that is paid for would be lost.
    fn tape_holds(&self) -> Result<(), Halt> {
        self.core.cassette.as_ref().and_then(Cassette::broken).map_or(Ok(()), |message| {
            Err(Halt::Refused(RefusalKind::Limit, format!("no exchange can be recorded any more: {message}")))
        })
    }

    /// Both are final: clients must not try again for minutes.
    fn halted(stop: Stop) -> Halt {
        let message = match stop {
            Stop::Limit(message) => message,
            Stop::Broken(message) => {
                format!("an exchange of this session could not be recorded, so it has no more: {message}")
            }
        };
        Halt::Refused(RefusalKind::Limit, message)
    }

    /// Makes the request to the provider: as the client made it, with another address and another key.
    fn request(
        &self,
        mut parts: Parts,
        pieces: VecDeque<Bytes>,
        asked: &Asked,
        (shown, pulse): (Shown, Pulse),
    ) -> Result<Request<Upload>, Halt> {
        let refused = |message: String| Halt::Refused(RefusalKind::Unavailable, message);
        let terms = &self.session.terms;
        // A cassette holds text that can be read, and secrets can be found in.
        let plain = asked.usage_splice.is_some() || self.core.cassette.is_some();
        headers::towards_provider(&mut parts.headers, &terms.base, plain);
        if let Some(key) = &terms.key {
            headers::put_key(&mut parts.headers, key, self.route.api, (shown, &terms.base))
                .map_err(|message| refused(message.to_owned()))?;
        }
        let pieces = match &asked.usage_splice {
            Some(change) => splice(pieces, change),
            None => pieces,
        };
        let mut request = Request::new(Upload::new(pieces, pulse));
        *request.method_mut() = parts.method;
        *request.uri_mut() = terms.base.address(&self.route).map_err(refused)?;
        *request.headers_mut() = parts.headers;
        Ok(request)
    }

    /// Answers in the provider's place, when that is on the books.
    async fn halt(mut self, halt: Halt) -> Response<Answer> {
        let family = self.route.api.family();
        let (kind, message, ending) = match halt {
            Halt::Refused(kind @ RefusalKind::Parted, message) => {
                (kind, message.clone(), Some(Ending::Parted(message)))
            }
            Halt::Refused(kind, message) => (kind, message.clone(), Some(Ending::Was(ExchangeEnd::Refused, message))),
            Halt::Failed(end, kind, message) => (kind, message.clone(), Some(Ending::Was(end, message))),
            Halt::Ended => (RefusalKind::Unavailable, "the session has ended".to_owned(), None),
        };
        let message = self.core.options.redactor.redact(&message).into_string();
        let answer = reply::refusal(family, kind, &message);
        let settling = match ending {
            Some(ending) => {
                self.entry.shows(answer.status().as_u16());
                self.entry.settle(ending)
            }
            None => self.entry.break_off(),
        };
        match settling.done().await {
            Ok(()) => answer,
            Err(error) => {
                let message = format!("the exchange could not be recorded: {error}");
                reply::refusal(family, RefusalKind::Limit, &self.core.options.redactor.redact(&message).into_string())
            }
        }
    }
}
