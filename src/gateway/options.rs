//! What a gateway is told: where to listen, which providers there are, and what each session may do.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::cassette::Places;
use super::proxies::{Proxies, ProxyChoice};
use crate::budget::PriceTable;
use crate::clock::Clock;
use crate::domain::{Attribution, Key, Micros, Usage};
use crate::redact::Redactor;

/// A place to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address; port 0 takes a free one.
    Tcp(SocketAddr),
    /// A Unix socket, for environments without a network. A file that is there and answers nobody is replaced.
    Unix(PathBuf),
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

/// A provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    /// The name by which grants refer to it.
    pub name: String,
    /// Where it is, as its documentation gives it: `https://api.anthropic.com`, `https://openrouter.ai/api/v1`.
    pub base_url: String,
    /// The most requests under way at a time, over all sessions.
    pub concurrency: Option<usize>,
    /// The most requests begun within a minute, over all sessions.
    pub requests_per_minute: Option<u32>,
    /// How it is reached.
    pub proxy: ProxyChoice,
}

/// How long a provider may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stalls {
    /// Until a connection stands.
    pub connect: Duration,
    /// From the request's last byte to the answer's first.
    pub first_byte: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
}

impl Default for Stalls {
    /// Longer than what the clients wait for by themselves: 30 s, 15 min, 10 min.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(30),
            first_byte: Duration::from_secs(15 * 60),
            idle: Duration::from_secs(10 * 60),
        }
    }
}

/// What clients may take of a gateway: they are programs that nobody vouches for.
///
/// A request line with its headers may have 256 KiB (what of more comes at once is taken too) and 128 headers, the path 64 KiB;
/// what is longer gets a 431 or 414.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The most connections at a time. Where they are taken, the oldest that has shown no token is closed for a newcomer, and
    /// where there is none the newcomer gets a 503.
    pub connections: usize,
    /// The most connections of one session at a time. Requests on further ones get a 429.
    pub connections_per_session: usize,
    /// How long a connection may take to say what it asks for, the first time and between requests.
    pub head: Duration,
    /// How long a request's body may pause. It then gets a 408.
    pub body: Duration,
    /// The most bytes of a request's body, with and without compression. It is held in memory until its end has come, since
    /// only then is it known what it asks for. Larger ones get a 413.
    pub request: u64,
    /// The most bytes of requests of one session that are held in memory at a time; what goes beyond gets a 413.
    pub held: u64,
}

impl Default for Bounds {
    /// A quarter of the files that this process may open, at most 8,192 and at least 64, and half of them for one session, at
    /// most 2,048: each connection has another one towards the provider, and the host needs files of its own. Two minutes for a
    /// head, one for a pause in a body, 512 MiB for a request and for all of a session.
    fn default() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
        let connections = (files / 4).clamp(64, 8_192);
        Self {
            connections,
            connections_per_session: (connections / 2).min(2_048),
            head: Duration::from_secs(120),
            body: Duration::from_secs(60),
            request: 512 << 20,
            held: 512 << 20,
        }
    }
}

/// What a gateway works with.
#[derive(Clone)]
pub struct GatewayOptions {
    /// Where it listens; at least one place.
    pub listen: Vec<Listen>,
    /// The providers.
    pub providers: Vec<Provider>,
    /// What tokens cost.
    pub prices: PriceTable,
    /// Takes secrets out of messages and recorded bodies.
    pub redactor: Arc<Redactor>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// How long providers may be silent.
    pub stalls: Stalls,
    /// What clients may take of it.
    pub bounds: Bounds,
    /// Proxies on the way to providers.
    pub proxies: Proxies,
    /// The most bytes of each body that are handed to the recorder; none are where it is `None`.
    pub bodies: Option<usize>,
}

impl fmt::Debug for GatewayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listen, providers, stalls, bounds, bodies, .. } = self;
        f.debug_struct("GatewayOptions")
            .field("listen", listen)
            .field("providers", providers)
            .field("stalls", stalls)
            .field("bounds", bounds)
            .field("bodies", bodies)
            .finish_non_exhaustive()
    }
}

/// What a session has spent so far, as the gateway saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// Requests that came, the refused ones included.
    pub requests: u32,
    /// Requests that were refused before they reached the provider.
    pub refused: u32,
    /// Requests for tokens that went to the provider, or to the cassette in its place; those that have ended.
    pub billed: u32,
    /// Those of them that a cassette answered: they cost nothing, whatever their tokens.
    pub played: u32,
    /// Requests under way.
    pub under_way: u32,
    /// Tokens of all finished exchanges; a class that one of them does not tell is unknown.
    pub usage: Usage,
    /// Their price; unknown where that of one exchange is.
    pub cost: Option<Micros>,
    /// What they cost at least: where the price of one is unknown, that of the tokens of it that are known.
    pub known_cost: Micros,
    /// What must be assumed beyond that for ceilings to hold: the input of exchanges that broke off before the provider told
    /// anything, by the size of their requests.
    pub assumed: Micros,
    /// The dearest of them, by what is known.
    pub dearest: Micros,
    /// Whether one could not be recorded: the session has no more requests then.
    pub broken: bool,
}

impl Totals {
    /// Nothing was asked yet.
    pub const NONE: Self = Self {
        requests: 0,
        refused: 0,
        billed: 0,
        played: 0,
        under_way: 0,
        usage: Usage::ZERO,
        cost: Some(Micros::ZERO),
        known_cost: Micros::ZERO,
        assumed: Micros::ZERO,
        dearest: Micros::ZERO,
        broken: false,
    };
}

impl Totals {
    /// Returns what ceilings are held against.
    #[must_use]
    pub fn charged(&self) -> Micros {
        self.known_cost + self.assumed
    }
}

/// Says before each request whether it may pass, and hears what a session has spent after each exchange.
///
/// Called on the path of a request: it must neither block nor take long.
pub trait Guard: Send + Sync {
    /// Returns why the next request of a session with these totals is refused; `None` lets it pass.
    fn refuses(&self, totals: &Totals) -> Option<String>;

    /// Returns why a request for a model without a price is refused, where a ceiling in money is to hold: nobody could tell
    /// what of it is used up. `model` is `None` where the request names none that can be read. By default it passes.
    ///
    /// Not asked where nobody bills, nor where the provider tells in each answer what that cost.
    fn refuses_unpriced(&self, model: Option<&str>) -> Option<String> {
        let _ = model;
        None
    }

    /// Tells whether a billed request may pass beside others that are under way, which will probably cost `promised`; if
    /// not, it waits until one of them has ended. So no burst of requests passes a ceiling.
    fn may_pass(&self, totals: &Totals, promised: Micros) -> bool;

    /// Hears the totals after an exchange.
    fn spent(&self, totals: &Totals);
}

/// What a capability is made for.
#[derive(Clone)]
pub struct Grant {
    /// On whose account its requests go.
    pub attribution: Attribution,
    /// The provider that they go to, by its name in [`GatewayOptions::providers`].
    pub provider: String,
    /// The provider's key.
    pub key: Option<Key>,
    /// Where the provider is for this session, over its own address: a model of the run with a base URL of its own.
    pub base_url: Option<String>,
    /// Its ceilings.
    pub guard: Option<Arc<dyn Guard>>,
    /// Its folders, for a cassette.
    pub places: Places,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attribution, provider, base_url, .. } = self;
        f.debug_struct("Grant")
            .field("attribution", attribution)
            .field("provider", provider)
            .field("base_url", base_url)
            .finish_non_exhaustive()
    }
}
