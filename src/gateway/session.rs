//! What the gateway knows of a session: whose it is, where its requests go, and what it has spent.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::cassette::Places;
use super::options::{Guard, Totals};
use super::pace::Lane;
use super::target::Base;
use super::upstream::Upstream;
use crate::domain::{Attribution, Exchange, ExchangeEnd, Key, Micros};

/// What stands before the random part of a token: programs that check the look of a key take it for one.
const TOKEN_PREFIX: &str = "sk-refrain-";

/// The secret of a session. It never shows itself.
pub(super) struct Token(String);

impl Token {
    fn random() -> Self {
        // Two random identifiers hold 244 bits from the system's generator.
        Self(format!("{TOKEN_PREFIX}{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not tell how much of the text was right.
    pub(super) fn is(&self, text: &str) -> bool {
        let (own, other) = (self.0.as_bytes(), text.as_bytes());
        own.len() == other.len() && own.iter().zip(other).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// Where a session's requests go, and who watches them.
pub(super) struct Terms {
    pub(super) attribution: Attribution,
    pub(super) provider: String,
    pub(super) base: Base,
    pub(super) key: Option<Key>,
    pub(super) guard: Option<Arc<dyn Guard>>,
    pub(super) lane: Arc<Lane>,
    pub(super) places: Places,
    pub(super) upstream: Arc<Upstream>,
}

/// A session.
pub(super) struct Session {
    pub(super) id: String,
    pub(super) token: Token,
    pub(super) terms: Terms,
    /// Ends what is under way.
    pub(super) cut: CancellationToken,
    state: Mutex<State>,
    under_way: watch::Sender<u32>,
    connections: AtomicUsize,
    /// Bytes of requests that are held in memory.
    held: AtomicU64,
}

/// Memory that a request of a session holds. It is given back when dropped.
pub(super) struct Held {
    session: Arc<Session>,
    bytes: u64,
}

impl Held {
    pub(super) fn nothing(session: Arc<Session>) -> Self {
        Self { session, bytes: 0 }
    }

    /// Takes more; `false` where all requests of the session then hold more than they may.
    pub(super) fn more(&mut self, bytes: u64, most: u64) -> bool {
        self.bytes += bytes;
        self.session.held.fetch_add(bytes, Ordering::Relaxed) + bytes <= most
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.session.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct State {
    closed: bool,
    broken: Option<String>,
    /// Billed requests that were let pass and have not ended.
    passing: u32,
    next: u32,
    totals: Totals,
    /// How many requests with the same body came to nothing.
    failures: HashMap<String, u32>,
}

/// Why a session lets no request pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    /// A ceiling was reached.
    Limit(String),
    /// An exchange could not be recorded.
    Broken(String),
}

impl Session {
    pub(super) fn new(terms: Terms, cut: CancellationToken) -> Self {
        Self {
            id: Uuid::new_v4().simple().to_string(),
            token: Token::random(),
            terms,
            cut,
            state: Mutex::new(State {
                closed: false,
                broken: None,
                passing: 0,
                next: 1,
                totals: Totals::NONE,
                failures: HashMap::new(),
            }),
            under_way: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
            held: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn totals(&self) -> Totals {
        let state = self.state();
        Totals { under_way: *self.under_way.borrow(), broken: state.broken.is_some(), ..state.totals }
    }

    /// Takes a connection; `false` where there are as many as there may be.
    pub(super) fn connect(&self, most: usize) -> bool {
        let more = |count: usize| (count < most).then_some(count + 1);
        self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A connection has ended.
    pub(super) fn disconnect(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// Takes the number of a request that has come; `None` once the session is closed.
    pub(super) fn begin(&self) -> Option<u32> {
        let mut state = self.state();
        if state.closed {
            return None;
        }
        let number = state.next;
        state.next = state.next.saturating_add(1);
        state.totals.requests = state.totals.requests.saturating_add(1);
        self.under_way.send_modify(|count| *count += 1);
        Some(number)
    }

    /// Says why the next request may not pass.
    pub(super) fn stop(&self) -> Option<Stop> {
        if let Some(message) = self.state().broken.clone() {
            return Some(Stop::Broken(message));
        }
        let guard = self.terms.guard.as_ref()?;
        guard.refuses(&self.totals()).map(Stop::Limit)
    }

    /// Lets a billed request pass, once those under way leave room for it below the ceilings. Whoever has passed must
    /// [`Session::leave`].
    pub(super) async fn pass(&self) -> Result<(), Stop> {
        let mut changes = self.under_way.subscribe();
        loop {
            if let Some(stop) = self.stop() {
                return Err(stop);
            }
            changes.mark_unchanged();
            if self.passes() {
                return Ok(());
            }
            // The sender lives in `self`.
            let _ = changes.changed().await;
        }
    }

    fn passes(&self) -> bool {
        let mut state = self.state();
        let others = state.passing;
        let promised = Micros::new(state.totals.dearest.get().saturating_mul(i64::from(others)));
        let room = others == 0 || self.terms.guard.as_ref().is_none_or(|guard| guard.may_pass(&state.totals, promised));
        state.passing += u32::from(room);
        room
    }

    /// A request that was let pass has ended, and what it cost is among what is spent.
    pub(super) fn leave(&self) {
        let mut state = self.state();
        state.passing = state.passing.saturating_sub(1);
        drop(state);
        self.under_way.send_modify(|_| {});
    }

    /// Lets no request pass any more: the books cannot be kept.
    pub(super) fn broke(&self, message: &str) {
        self.state().broken.get_or_insert_with(|| message.to_owned());
    }

    /// Returns how many requests with this body came to nothing so far.
    pub(super) fn failures(&self, fingerprint: &str) -> u32 {
        self.state().failures.get(fingerprint).copied().unwrap_or(0)
    }

    /// A cassette has answered a request for tokens.
    pub(super) fn played(&self) {
        let mut state = self.state();
        state.totals.played = state.totals.played.saturating_add(1);
    }

    /// Adds an exchange that has ended. It stays under way until [`Session::recorded`].
    ///
    /// `billed` says that it went for tokens to the provider, `at_least` what it cost as far as that is known, and `assumed`
    /// what is to be assumed beyond that.
    pub(super) fn spent(
        &self,
        exchange: &Exchange,
        (billed, at_least, assumed): (bool, Micros, Micros),
        fingerprint: Option<&str>,
    ) {
        let refused = exchange.end == ExchangeEnd::Refused;
        // A provider that fails within a stream says so in a whole answer.
        let failed = exchange.end != ExchangeEnd::Complete || exchange.message.is_some();
        let mut state = self.state();
        let totals = &mut state.totals;
        totals.refused = totals.refused.saturating_add(u32::from(refused));
        totals.usage = totals.usage.plus(exchange.usage);
        totals.cost = totals.cost.zip(exchange.cost).map(|(sum, cost)| sum + cost);
        totals.billed = totals.billed.saturating_add(u32::from(billed));
        totals.known_cost += at_least;
        totals.assumed += assumed;
        totals.dearest = totals.dearest.max(at_least);
        if failed
            && !refused
            && let Some(fingerprint) = fingerprint
        {
            let failures = state.failures.entry(fingerprint.to_owned()).or_default();
            *failures = failures.saturating_add(1);
        }
        drop(state);
        if !refused && let Some(guard) = &self.terms.guard {
            guard.spent(&self.totals());
        }
    }

    /// An exchange is on the books, or could not be put there.
    pub(super) fn recorded(&self, outcome: Result<(), String>) {
        if let Err(message) = outcome {
            self.state().broken.get_or_insert(message);
        }
        self.under_way.send_modify(|count| *count = count.saturating_sub(1));
    }

    /// Lets no further request begin.
    pub(super) fn close(&self) {
        self.state().closed = true;
    }

    /// Waits until nothing is under way.
    pub(super) async fn idle(&self) {
        // The sender lives in `self`: the wait ends only by reaching the state.
        let _ = self.under_way.subscribe().wait_for(|count| *count == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_shows_itself_to_nobody_and_matches_itself_only() {
        let (one, other) = (Token::random(), Token::random());
        assert!(one.expose().starts_with("sk-refrain-"));
        assert_eq!(one.expose().len(), "sk-refrain-".len() + 64);
        assert_eq!(format!("{one:?}"), "Token(…)");
        assert!(one.is(one.expose()));
        assert!(!one.is(other.expose()) && !one.is("") && !one.is(&one.expose()[..20]));
    }
}
