//! An exchange's entry on the books. Whatever happens to it, it is settled, and once.

use std::sync::Arc;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};
use tokio::task::JoinHandle;

use super::capture::Capture;
use super::cassette::{Cassette, Places, RecordedAnswer, RecordedRequest};
use super::pace::Slot;
use super::pause::PauseReader;
use super::protocol::{AnswerReader, Api, Asked, Fed, Route, Told};
use super::server::Core;
use super::session::Session;
use super::taping::Taping;
use crate::budget::Price;
use crate::domain::{Exchange, ExchangeEnd, Micros, Usage, is_same_model};
use crate::redact::printable;

/// The longest message that is kept, in characters.
const LONGEST_MESSAGE: usize = 2_000;

/// An exchange under way. One that is dropped unsettled ends as one whose client went away.
pub(super) struct Entry {
    core: Arc<Core>,
    session: Arc<Session>,
    api: Api,
    line: Option<Line>,
}

/// What becomes the record.
struct Line {
    exchange: Exchange,
    began: Duration,
    fingerprint: Option<String>,
    sent: bool,
    slot: Option<Slot>,
    reader: Option<AnswerReader>,
    capture: Option<Capture>,
    /// Where the provider may ask to be left alone.
    pause: Option<PauseReader>,
    taping: Option<Taping>,
    /// The answer comes from a cassette.
    free: bool,
    /// The session counts it among those that were let pass.
    passing: bool,
}

/// How an entry is settled.
#[derive(Debug)]
pub(super) enum Ending {
    /// The provider's answer came to its end: whole or not, what was read of it tells.
    Answered,
    /// Something else.
    Was(ExchangeEnd, String),
    /// The request was refused with a diff.
    Parted(String),
}

/// What is being recorded; ends once it is durable.
pub(super) struct Settling(Option<JoinHandle<Result<(), String>>>);

impl Settling {
    /// Waits until the exchange is on the books. The error says why it is not.
    pub(super) async fn done(self) -> Result<(), String> {
        match self.0 {
            Some(task) => task.await.unwrap_or_else(|error| Err(format!("the recorder broke: {error}"))),
            None => Ok(()),
        }
    }
}

impl Entry {
    /// Opens an entry for a request that has come; `None` once the session is closed.
    pub(super) fn open(core: Arc<Core>, session: Arc<Session>, route: &Route) -> Option<Self> {
        let number = session.begin()?;
        let terms = &session.terms;
        let exchange = Exchange {
            id: format!("{}-{number}", session.id),
            attribution: terms.attribution.clone(),
            number,
            provider: terms.provider.clone(),
            api: route.api.name().to_owned(),
            model_asked: route.model.clone(),
            model_served: None,
            status: None,
            end: ExchangeEnd::Lost,
            usage: Usage::ZERO,
            cost: Some(Micros::ZERO),
            retry: 0,
            started_at: core.options.clock.now(),
            first_byte: None,
            duration: Duration::ZERO,
            request_bytes: 0,
            answer_bytes: 0,
            message: None,
        };
        let line = Line {
            exchange,
            began: core.elapsed(),
            fingerprint: None,
            sent: false,
            slot: None,
            reader: None,
            capture: core.options.bodies.map(Capture::new),
            pause: None,
            taping: None,
            free: false,
            passing: false,
        };
        Some(Self { core, session, api: route.api, line: Some(line) })
    }

    /// Takes note of a piece of the request's body.
    pub(super) fn upload(&mut self, piece: &[u8]) {
        if let Some(line) = &mut self.line {
            line.exchange.request_bytes += piece.len() as u64;
        }
    }

    /// Keeps a piece of the request's body without compression; `None` once it cannot be read.
    pub(super) fn keeps(&mut self, plain: Option<&[u8]>) {
        if let Some(capture) = self.line.as_mut().and_then(|line| line.capture.as_mut()) {
            match plain {
                Some(piece) => capture.request(piece),
                None => capture.request_unread(),
            }
        }
    }

    /// Takes note of what the request asks for.
    pub(super) fn asked(&mut self, asked: &Asked) {
        if let Some(line) = &mut self.line {
            let exchange = &mut line.exchange;
            exchange.model_asked = exchange.model_asked.take().or_else(|| asked.model.clone());
            exchange.retry = self.session.failures(&asked.fingerprint);
            line.fingerprint = Some(asked.fingerprint.clone());
        }
    }

    /// Says why a request is refused whose model has no price, where ceilings are to hold.
    pub(super) fn unpriced(&self) -> Option<String> {
        let model = self.line.as_ref()?.exchange.model_asked.as_deref();
        let core = &self.core;
        let is_priced = model.is_some_and(|model| core.options.prices.find(model).is_some());
        let is_free = core.cassette.as_ref().is_some_and(Cassette::plays);
        if is_priced || is_free || self.session.terms.base.tells_cost() {
            return None;
        }
        self.session.terms.guard.as_ref()?.refuses_unpriced(model)
    }

    /// The exchange was let pass by the session's ceilings.
    pub(super) fn passes(&mut self) {
        if let Some(line) = &mut self.line {
            line.passing = true;
        }
    }

    /// Puts the exchange on the books before it is sent: what it costs is not known from here on. The error says why it
    /// may not be sent.
    pub(super) async fn sent(&mut self, slot: Slot) -> Result<(), String> {
        let Some(line) = &mut self.line else { return Ok(()) };
        let mut lost = line.exchange.clone();
        if self.api.is_billed() {
            (lost.usage, lost.cost) = (Usage::UNKNOWN, None);
        }
        lost.duration = self.core.elapsed().saturating_sub(line.began);
        self.core.recorder.begun(&lost).await.map_err(|error| error.message)?;
        (line.exchange.usage, line.exchange.cost) = (lost.usage, lost.cost);
        line.sent = true;
        line.slot = Some(slot);
        Ok(())
    }

    /// The exchange is to be kept on a cassette.
    pub(super) fn tape(&mut self, request: RecordedRequest) {
        if let Some(line) = &mut self.line {
            line.taping = Some(Taping::new(request));
        }
    }

    /// The exchange is answered from a cassette: its tokens count, and nobody bills them.
    pub(super) fn played(&mut self) {
        if let Some(line) = &mut self.line {
            line.sent = true;
            line.free = true;
        }
    }

    /// The answer's head has come.
    pub(super) fn answered(&mut self, status: u16, headers: &HeaderMap, first_byte: Duration) {
        if let Some(line) = &mut self.line {
            let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
            line.exchange.status = Some(status);
            line.exchange.first_byte = Some(first_byte);
            line.reader = Some(AnswerReader::new(self.api, status, text(CONTENT_TYPE), text(CONTENT_ENCODING)));
            // What asked for a pause when it was recorded is not there to be spared.
            line.pause = if line.free { None } else { PauseReader::of(status, headers, self.core.options.clock.now()) };
            if let Some(capture) = &mut line.capture {
                capture.coding(text(CONTENT_ENCODING));
            }
            if let Some(taping) = &mut line.taping {
                taping.answered(status, headers);
            }
        }
    }

    /// The client sees this status, of an answer of the gateway's own.
    pub(super) fn shows(&mut self, status: u16) {
        if let Some(line) = &mut self.line {
            line.exchange.status = Some(status);
        }
    }

    /// Reads a piece of the answer's body; true when with it the answer is whole.
    pub(super) fn read(&mut self, piece: &[u8]) -> bool {
        let Some(line) = &mut self.line else { return false };
        line.exchange.answer_bytes += piece.len() as u64;
        let Some(reader) = &mut line.reader else { return false };
        let Fed { terminal, .. } = reader.feed(piece);
        if let Some(pause) = &mut line.pause {
            pause.feed(piece);
        }
        if let Some(capture) = &mut line.capture {
            capture.answer(piece);
        }
        if let Some(taping) = &mut line.taping {
            taping.piece(piece);
        }
        terminal
    }

    /// Tells whether an answer may go on behind an event that ends it.
    pub(super) fn may_go_on(&self) -> bool {
        self.api == Api::GeminiStream
    }

    /// Tells whether the entry waits to be settled.
    pub(super) fn is_open(&self) -> bool {
        self.line.is_some()
    }

    /// Settles the entry: from here on its record is on the way to the books, whatever becomes of the request.
    pub(super) fn settle(&mut self, ending: Ending) -> Settling {
        let Some(line) = self.line.take() else { return Settling(None) };
        let (core, session) = (Arc::clone(&self.core), Arc::clone(&self.session));
        let Line { mut exchange, began, fingerprint, sent, slot, reader, capture, pause, taping, free, passing } = line;
        if let Some(pause) = pause.and_then(|mut reader| reader.pause()) {
            session.terms.lane.hold(pause);
        }
        let told = reader.map(AnswerReader::finish);
        exchange.duration = core.elapsed().saturating_sub(began);
        let is_diff = matches!(ending, Ending::Parted(_));
        let (end, message) = match ending {
            Ending::Was(end, message) => (end, Some(message)),
            Ending::Parted(message) => (ExchangeEnd::Refused, Some(message)),
            Ending::Answered => (end_of(exchange.status, told.as_ref()), None),
        };
        exchange.end = end;
        exchange.message = told
            .as_ref()
            .and_then(|told| told.message.clone())
            .or(message)
            .map(|message| core.options.redactor.redact(&message))
            .map(|message| if is_diff { lines(message.as_str()) } else { one_line(message.as_str()) });
        exchange.usage = if sent && self.api.is_billed() { usage(end, told.as_ref()) } else { Usage::ZERO };
        let (model, bill, long) =
            told.map_or((None, None, Some(0)), |told| (told.model, told.cost, told.cache_write_long));
        exchange.model_served = model;
        exchange.cost = if free { Some(Micros::ZERO) } else { cost(&core, &exchange, long).or(bill) };
        let taped = taping.filter(|_| sent).map(|taping| taping.ended(end));
        let least = || price(&core, &exchange).and_then(|price| price.cost(&exchange.usage.as_told()));
        let at_least = exchange.cost.or_else(least).unwrap_or_default();
        let billed = sent && self.api.is_billed();
        let assumed = if billed { assumed(&core, &exchange) } else { Micros::ZERO };
        if billed && free {
            session.played();
        }
        session.spent(&exchange, (billed, at_least, assumed), fingerprint.as_deref());
        if passing {
            session.leave();
        }
        let recording = async move {
            let bodies = capture.map(|capture| capture.redacted(&core.options.redactor));
            let kept = keep(&core, (&exchange, &session.terms.places), taped).await;
            let recorded = core.recorder.ended(exchange, bodies).await.map_err(|error| error.message);
            let outcome = recorded.and(kept);
            if let Err(error) = &outcome {
                tracing::error!(session = session.id, error, "an exchange was not recorded");
            }
            session.recorded(outcome.clone());
            outcome
        };
        // The provider is done with it.
        drop(slot);
        Settling(Some(self.core.tasks.spawn_on(recording, &self.core.runtime)))
    }

    /// Settles an entry that something broke off from outside.
    pub(super) fn break_off(&mut self) -> Settling {
        let (end, message) = if self.core.cut.is_cancelled() {
            (ExchangeEnd::Lost, "the gateway was shut down before the answer was whole")
        } else if self.session.cut.is_cancelled() {
            (ExchangeEnd::ClientGone, "the session ended before the answer was whole")
        } else {
            (ExchangeEnd::ClientGone, "the client went away before the answer was whole")
        };
        self.settle(Ending::Was(end, message.to_owned()))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.is_open() {
            drop(self.break_off());
        }
    }
}

/// Puts an exchange on the cassette, if one records.
async fn keep(
    core: &Core,
    (exchange, places): (&Exchange, &Places),
    taped: Option<(RecordedRequest, RecordedAnswer)>,
) -> Result<(), String> {
    let Some(((request, answer), cassette)) = taped.zip(core.cassette.as_ref()) else { return Ok(()) };
    let Exchange { attribution, number, .. } = exchange;
    cassette.keep((attribution, places), *number, &request, answer).await.map_err(|error| error.to_string())
}

/// How an exchange ended whose answer came to its end. An error has no final event.
fn end_of(status: Option<u16>, told: Option<&Told>) -> ExchangeEnd {
    if status.is_some_and(|status| status >= 300) || told.is_some_and(|told| told.complete) {
        ExchangeEnd::Complete
    } else {
        ExchangeEnd::UpstreamCut
    }
}

/// What a provider bills for an exchange that was sent: what it told; nothing where none was reached.
fn usage(end: ExchangeEnd, told: Option<&Told>) -> Usage {
    match told {
        Some(told) => told.usage,
        None if end == ExchangeEnd::Unreachable => Usage::ZERO,
        None => Usage::UNKNOWN,
    }
}

/// What an exchange costs by the price of its model; unknown without one. What a provider itself says that it cost counts
/// then.
fn cost(core: &Core, exchange: &Exchange, cache_write_long: Option<u64>) -> Option<Micros> {
    if exchange.usage == Usage::ZERO {
        return Some(Micros::ZERO);
    }
    price(core, exchange)?.cost_with_long(&exchange.usage, cache_write_long)
}

/// What must be assumed of an exchange beyond what is known for ceilings to hold: where it broke off before the provider told
/// anything, that its request was read; where another model than the one that was asked answered, and has no price, that
/// it costs as much as the one that was asked.
fn assumed(core: &Core, exchange: &Exchange) -> Micros {
    const BYTES_OF_A_TOKEN: u64 = 4;
    let own = price(core, exchange);
    let usage = match exchange.usage.input {
        _ if exchange.cost.is_some() => return Micros::ZERO,
        None => Usage { input: Some(exchange.request_bytes / BYTES_OF_A_TOKEN), ..Usage::ZERO },
        Some(_) if own.is_none() => exchange.usage.as_told(),
        Some(_) => return Micros::ZERO,
    };
    let asked = || exchange.model_asked.as_ref().and_then(|model| core.options.prices.find(model));
    own.or_else(asked).and_then(|price| price.cost(&usage)).unwrap_or_default()
}

/// Returns the price of the model that answered. That of the one that was asked counts where nothing tells of another one.
fn price<'a>(core: &'a Core, exchange: &Exchange) -> Option<&'a Price> {
    let find = |model: &String| core.options.prices.find(model);
    match (exchange.model_asked.as_ref(), exchange.model_served.as_ref()) {
        (Some(asked), Some(served)) => find(served).or_else(|| find(asked).filter(|_| is_same_model(asked, served))),
        (asked, served) => served.or(asked).and_then(find),
    }
}

/// A diff, whose lines say what they are by where they stand.
fn lines(message: &str) -> String {
    shortened(printable(message).trim_end().to_owned())
}

fn one_line(message: &str) -> String {
    let words = printable(message);
    shortened(words.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn shortened(mut line: String) -> String {
    if let Some((cut, _)) = line.char_indices().nth(LONGEST_MESSAGE) {
        line.truncate(cut);
        line.push('…');
    }
    line
}
