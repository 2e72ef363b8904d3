//! The gateway, between a client and a provider that do whatever a test wants, byte by byte.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod admission;
mod books;
mod bounds;
mod cassettes;
mod client;
mod faults;
mod limits;
mod packed;
mod posting;
mod prices;
mod provider;
mod proxies;
mod streaming;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;

use refrain::budget::PriceTable;
use refrain::clock::{Clock, SystemClock};
use refrain::domain::{Attribution, RunName, Trace};
use refrain::gateway::cassette::{Cassette, Places};
use refrain::gateway::{
    Bounds, Capability, Gateway, GatewayOptions, Grant, Guard, Key, Listen, Provider, Proxies, ProxyChoice, Stalls,
};
use refrain::redact::Redactor;

use books::Books;

/// The provider's key. It may be seen by the provider and by nobody else.
const REAL_KEY: &str = "sk-real-0123456789abcdef0123456789";

/// Four dollars a million tokens in, twenty out.
const PRICES: &str = r#"
[[price]]
model = "model-1"
input = 4.0
cache_read = 1.0
cache_write = 5.0
output = 20.0
date = "2026-01-01"
source = "test"

[[price]]
model = "model-2"
input = 4.0
cache_read = 1.0
cache_write = 5.0
cache_write_long = 8.0
output = 20.0
date = "2026-01-01"
source = "test"
"#;

/// A gateway with one provider and one session.
struct Bench {
    gateway: Gateway,
    books: Books,
    capability: Capability,
}

/// What a test changes.
struct Setup {
    provider: Provider,
    stalls: Stalls,
    bounds: Bounds,
    proxies: Proxies,
    bodies: Option<usize>,
    clock: Arc<dyn Clock>,
    guard: Option<Arc<dyn Guard>>,
    books: Books,
    cassette: Option<Cassette>,
}

impl Setup {
    fn new(base_url: String) -> Self {
        Self {
            provider: Provider {
                name: "scripted".into(),
                base_url,
                concurrency: None,
                requests_per_minute: None,
                proxy: ProxyChoice::default(),
            },
            stalls: Stalls::default(),
            bounds: Bounds::default(),
            proxies: Proxies::default(),
            bodies: None,
            clock: Arc::new(SystemClock::new()),
            guard: None,
            books: Books::default(),
            cassette: None,
        }
    }

    /// What a gateway is started with, and its books.
    fn options(self) -> (GatewayOptions, Books) {
        let Self { provider, stalls, bounds, proxies, bodies, clock, books, .. } = self;
        let options = GatewayOptions {
            listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))],
            providers: vec![provider],
            prices: PriceTable::parse("test.toml", PRICES).expect("prices"),
            redactor: Arc::new(Redactor::new([("KEY", REAL_KEY)])),
            clock,
            stalls,
            bounds,
            proxies,
            bodies,
        };
        (options, books)
    }

    async fn start(mut self) -> Bench {
        let (guard, cassette) = (self.guard.take(), self.cassette.take());
        let (options, books) = self.options();
        let recorder = Arc::new(books.clone());
        let gateway = Gateway::start_with_cassette(options, recorder, b"", cassette).await.expect("a gateway starts");
        let capability = gateway.open(grant(guard)).expect("a capability");
        Bench { gateway, books, capability }
    }
}

impl Bench {
    async fn start(base_url: String) -> Self {
        Setup::new(base_url).start().await
    }

    fn address(&self) -> SocketAddr {
        match self.gateway.addresses() {
            [Listen::Tcp(address)] => *address,
            other => panic!("{other:?}"),
        }
    }

    fn post(&self, path: &str) -> client::Request {
        client::Request::post(self.address(), &format!("{}{path}", self.capability.path()))
            .header("x-api-key", self.capability.token())
    }
}

fn grant(guard: Option<Arc<dyn Guard>>) -> Grant {
    Grant {
        attribution: Attribution {
            run: RunName::new("test").expect("a name"),
            cell: None,
            attempt: 1,
            session: 1,
            phase: Some("plan".into()),
            role: None,
            trace: Trace::Agent,
        },
        provider: "scripted".into(),
        key: Some(Key::new(REAL_KEY)),
        base_url: None,
        guard,
        places: Places::default(),
    }
}

/// A request to Anthropic Messages.
fn messages(stream: bool) -> String {
    format!(r#"{{"model":"model-1","max_tokens":64,"stream":{stream},"messages":[{{"role":"user","content":"hi"}}]}}"#)
}
