//! A gateway without a run: for programs that somebody starts by hand, and for checks of the meter.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::assemble::price_table;
use super::error::Error;
use super::gateway::{BODY_LIMIT, failed, provider};
use crate::clock::SystemClock;
use crate::config::gateway::{ProviderEntry, Recording};
use crate::domain::{Attribution, Key, Micros, RunName, Trace, Usage};
use crate::engine::metering::StoreRecorder;
use crate::gateway::cassette::Places;
use crate::gateway::{Bounds, Capability, Gateway, GatewayOptions, Grant, Guard, Listen, Proxies, Stalls, Totals};
use crate::redact::{Redactor, printable};
use crate::store::{Owner, Store};

/// The name under which the exchanges of a gateway without a run are kept.
const RUN: &str = "gateway";

/// What a gateway without a run works with.
#[derive(Debug, Clone)]
pub struct StandaloneOptions {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The database for its exchanges.
    pub db: PathBuf,
    /// The providers.
    pub providers: Vec<ProviderEntry>,
    /// Proxies on the way to them.
    pub proxies: Proxies,
    /// Values of the variables with keys. They go to the providers and nowhere else.
    pub keys: BTreeMap<String, Key>,
    /// What is kept of each exchange.
    pub record: Recording,
    /// The most that what goes through one door may cost.
    pub max_cost: Option<Micros>,
    /// Price files that go before the bundled ones; the last goes first.
    pub prices: Vec<PathBuf>,
    /// Lets requests for models without a price pass although there is a `max_cost`, which does not hold them.
    pub allow_unpriced: bool,
}

/// A gateway without a run. It ends with [`StandaloneGateway::close`].
pub struct StandaloneGateway {
    gateway: Gateway,
    listen: SocketAddr,
    options: StandaloneOptions,
    doors: Vec<StandaloneDoor>,
}

/// A way through it to one provider.
#[derive(Debug)]
pub struct StandaloneDoor {
    provider: String,
    capability: Capability,
    base_url: String,
    cap: Arc<Cap>,
}

impl StandaloneDoor {
    /// Returns the name of the provider.
    #[must_use]
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// Returns where the provider is for the programs that use this door.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns what those programs use as their key.
    #[must_use]
    pub fn token(&self) -> &str {
        self.capability.token()
    }

    /// Returns how many requests came, what they used and what they cost so far.
    #[must_use]
    pub fn spent(&self) -> (u32, Usage, Option<Micros>) {
        let totals = self.capability.totals();
        (totals.requests, totals.usage, totals.cost)
    }

    /// Returns what programs have asked for that has no price, in alphabetical order.
    #[must_use]
    pub fn unpriced(&self) -> Vec<String> {
        self.cap.unpriced().iter().cloned().collect()
    }

    /// Tells whether requests for models without a price are refused.
    #[must_use]
    pub fn refuses_unpriced(&self) -> bool {
        self.cap.most.is_some() && !self.cap.allow_unpriced
    }
}

impl StandaloneGateway {
    /// Starts it: when this returns, it listens.
    ///
    /// # Errors
    ///
    /// An [`Error`] about the address, a provider, or the database.
    pub async fn start(options: StandaloneOptions) -> Result<Self, Error> {
        let prices = price_table(None, &options.prices)?;
        let store = Store::open(&options.db)?.acting_as(Owner::current());
        let providers = options.providers.iter().map(provider);
        let secrets = options.keys.iter().map(|(name, key)| (name.clone(), key.expose().to_owned()));
        let gateway = GatewayOptions {
            listen: vec![Listen::Tcp(options.listen)],
            providers: providers.collect(),
            prices,
            redactor: Arc::new(Redactor::new(secrets)),
            clock: Arc::new(SystemClock::new()),
            stalls: Stalls::default(),
            bounds: Bounds::default(),
            proxies: options.proxies.clone(),
            bodies: (options.record == Recording::Bodies).then_some(BODY_LIMIT),
        };
        let gateway = Gateway::start(gateway, Arc::new(StoreRecorder { store })).await.map_err(failed)?;
        let listen = gateway.addresses().iter().find_map(|address| match address {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        });
        let listen = listen.unwrap_or(options.listen);
        Ok(Self { gateway, listen, options, doors: Vec::new() })
    }

    /// Returns where it listens.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Returns where programs on this machine reach it: one that listens at every address is at home at each.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let home = match self.listen.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        SocketAddr::new(home, self.listen.port())
    }

    /// Opens a way to a provider.
    ///
    /// # Errors
    ///
    /// An [`Error`] for a provider that it does not know.
    pub fn open(&mut self, provider: &str, trace: Trace) -> Result<&StandaloneDoor, Error> {
        let run = RunName::new(RUN).map_err(|error| Error::configuration(error.to_string()))?;
        let known = self.options.providers.iter().find(|entry| entry.name == provider);
        let variable = known.and_then(|entry| entry.api_key_env.as_ref());
        let session = u32::try_from(self.doors.len()).unwrap_or(u32::MAX).saturating_add(1);
        let StandaloneOptions { max_cost: most, allow_unpriced, .. } = self.options;
        let cap = Arc::new(Cap { most, allow_unpriced, unpriced: Mutex::default() });
        let grant = Grant {
            attribution: Attribution { run, cell: None, attempt: 1, session, phase: None, role: None, trace },
            provider: provider.to_owned(),
            key: variable.and_then(|variable| self.options.keys.get(variable)).cloned(),
            base_url: None,
            guard: Some(Arc::clone(&cap) as Arc<dyn Guard>),
            places: Places::default(),
        };
        let capability = self.gateway.open(grant).map_err(failed)?;
        let base_url = format!("http://{}{}", self.address(), capability.path());
        let at = self.doors.len();
        self.doors.push(StandaloneDoor { provider: provider.to_owned(), capability, base_url, cap });
        Ok(&self.doors[at])
    }

    /// Returns the ways that are open.
    #[must_use]
    pub fn doors(&self) -> &[StandaloneDoor] {
        &self.doors
    }

    /// Ends it. What was under way is recorded when this returns.
    pub async fn close(self) {
        drop(self.doors);
        self.gateway.shutdown().await;
    }
}

/// The most names of models that are kept: a program may ask for any number.
const MOST_NAMES: usize = 100;

/// A ceiling on each way.
#[derive(Debug)]
struct Cap {
    most: Option<Micros>,
    allow_unpriced: bool,
    unpriced: Mutex<BTreeSet<String>>,
}

impl Cap {
    fn unpriced(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.unpriced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guard for Cap {
    fn refuses(&self, totals: &Totals) -> Option<String> {
        let (most, spent) = (self.most?, totals.charged());
        (spent >= most).then(|| format!("cost limit of {most} reached: {spent} spent"))
    }

    fn refuses_unpriced(&self, model: Option<&str>) -> Option<String> {
        let name = model.map_or_else(|| "a model that is not named".to_owned(), printable);
        {
            let mut unpriced = self.unpriced();
            if unpriced.len() < MOST_NAMES {
                unpriced.insert(name.clone());
            }
        }
        let most = self.most.filter(|_| !self.allow_unpriced)?;
        Some(format!(
            "`{name}` has no price, and no more than {most} may be spent here: nothing was sent; give a price file by \
             `--prices`, or `--allow-unpriced` to let it pass uncounted"
        ))
    }

    fn may_pass(&self, totals: &Totals, promised: Micros) -> bool {
        self.most.is_none_or(|most| totals.dearest > Micros::ZERO && totals.charged() + promised < most)
    }

    fn spent(&self, _: &Totals) {}
}
