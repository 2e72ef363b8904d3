//! The gateway as its owner sees it: started, asked for capabilities, shut down.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::capability::Capability;
use super::cassette::Cassette;
use super::error::GatewayError;
use super::headers;
use super::listen::Door;
use super::lobby::Lobby;
use super::options::{GatewayOptions, Grant, Listen, Provider};
use super::pace::Lane;
use super::proxies::{Proxies, Proxy, ProxyChoice, without_password};
use super::recorder::Recorder;
use super::serve;
use super::session::{Session, Terms};
use super::target::Base;
use super::tls;
use super::upstream::Upstream;

/// A running gateway. Clones are the same one; it runs until [`Gateway::shutdown`].
#[derive(Clone)]
pub struct Gateway {
    core: Arc<Core>,
}

/// What all requests share.
pub(super) struct Core {
    pub(super) options: GatewayOptions,
    pub(super) recorder: Arc<dyn Recorder>,
    pub(super) cassette: Option<Cassette>,
    pub(super) lobby: Arc<Lobby>,
    /// Owns what outlives a request: the listeners, the connections, what is being recorded.
    pub(super) tasks: TaskTracker,
    /// The runtime, for what is recorded when a future is dropped outside of it.
    pub(super) runtime: Handle,
    /// The end of the gateway.
    pub(super) cut: CancellationToken,
    addresses: Vec<Listen>,
    providers: HashMap<String, Known>,
    sessions: RwLock<HashMap<String, Arc<Session>>>,
    /// What is trusted, and who connects, by the proxy between.
    tls: ClientConfig,
    upstreams: Mutex<HashMap<Option<Proxy>, Arc<Upstream>>>,
}

/// A provider and its pace.
struct Known {
    base: Base,
    proxy: ProxyChoice,
    lane: Arc<Lane>,
}

impl Gateway {
    /// Starts a gateway: when this returns, it listens.
    ///
    /// Providers are trusted by the certificate authorities of the system.
    ///
    /// # Errors
    ///
    /// A [`GatewayError`]: an address that is taken or refused, a provider without a usable base URL.
    pub async fn start(options: GatewayOptions, recorder: Arc<dyn Recorder>) -> Result<Self, GatewayError> {
        Self::start_trusting(options, recorder, b"").await
    }

    /// Like [`Gateway::start`], and trusts these certificate authorities too: certificates in PEM form, one after the other.
    ///
    /// # Errors
    ///
    /// As [`Gateway::start`], and [`GatewayError::Authority`] for text that is no certificate.
    pub async fn start_trusting(
        options: GatewayOptions,
        recorder: Arc<dyn Recorder>,
        authorities: &[u8],
    ) -> Result<Self, GatewayError> {
        Self::start_with_cassette(options, recorder, authorities, None).await
    }

    /// Like [`Gateway::start_trusting`], and where there is a cassette it records what passes, or answers in the providers'
    /// place.
    ///
    /// An exchange that the cassette could not keep counts as one that could not be recorded. What a cassette answers costs
    /// nothing; its tokens are counted.
    ///
    /// # Errors
    ///
    /// As [`Gateway::start_trusting`].
    pub async fn start_with_cassette(
        options: GatewayOptions,
        recorder: Arc<dyn Recorder>,
        authorities: &[u8],
        cassette: Option<Cassette>,
    ) -> Result<Self, GatewayError> {
        if options.listen.is_empty() {
            return Err(GatewayError::NowhereToListen);
        }
        let providers = known(&options)?;
        let tls = tls::config(authorities)?;
        let mut doors = Vec::with_capacity(options.listen.len());
        for listen in &options.listen {
            doors.push(Door::open(listen).await?);
        }
        let core = Arc::new(Core {
            lobby: Arc::new(Lobby::new(&options.bounds)),
            addresses: doors.iter().map(|door| door.address().clone()).collect(),
            options,
            recorder,
            cassette,
            tls,
            upstreams: Mutex::default(),
            tasks: TaskTracker::new(),
            runtime: Handle::current(),
            cut: CancellationToken::new(),
            providers,
            sessions: RwLock::default(),
        });
        for door in doors {
            core.tasks.spawn(serve::welcome(Arc::clone(&core), door));
        }
        Ok(Self { core })
    }

    /// Returns where it listens, in the order of [`GatewayOptions::listen`], with the port that was found for a port 0.
    #[must_use]
    pub fn addresses(&self) -> &[Listen] {
        &self.core.addresses
    }

    /// Lets a session make requests until its capability is closed or dropped.
    ///
    /// # Errors
    ///
    /// [`GatewayError::UnknownProvider`], [`GatewayError::BaseUrl`] for a base URL of its own that is none,
    /// [`GatewayError::Key`] for a key that no header can hold, and [`GatewayError::Closed`] after [`Gateway::shutdown`].
    pub fn open(&self, grant: Grant) -> Result<Capability, GatewayError> {
        let core = &self.core;
        if core.cut.is_cancelled() {
            return Err(GatewayError::Closed);
        }
        let Grant { attribution, provider, key, base_url, guard, places } = grant;
        let Some(known) = core.providers.get(&provider) else {
            let mut names: Vec<&str> = core.providers.keys().map(String::as_str).collect();
            names.sort_unstable();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(GatewayError::UnknownProvider { provider, known });
        };
        // Found out at each request it would look like a provider that is overloaded.
        if let Some(Err(message)) = key.as_ref().map(headers::check_key) {
            return Err(GatewayError::Key { provider, message });
        }
        let base = match base_url {
            Some(url) => base(&provider, &url)?,
            None => known.base.clone(),
        };
        let upstream = core.upstream(way(&core.options.proxies, &provider, &known.proxy, &base)?);
        let terms = Terms { attribution, provider, base, key, guard, lane: Arc::clone(&known.lane), places, upstream };
        let session = Arc::new(Session::new(terms, core.cut.child_token()));
        core.sessions.write().unwrap_or_else(PoisonError::into_inner).insert(session.id.clone(), Arc::clone(&session));
        Ok(Capability::new(Arc::clone(core), session))
    }

    /// Ends the gateway: what is under way is cut and recorded as lost. Returns when all of it is on the books.
    pub async fn shutdown(&self) {
        self.core.cut.cancel();
        self.core.tasks.close();
        self.core.tasks.wait().await;
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("addresses", &self.core.addresses).finish_non_exhaustive()
    }
}

impl Core {
    /// Finds a session that may make requests.
    pub(super) fn session(&self, id: &str) -> Option<Arc<Session>> {
        self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    /// Forgets a session: its token is worth nothing from now on.
    pub(super) fn revoke(&self, session: &Session) {
        session.close();
        self.sessions.write().unwrap_or_else(PoisonError::into_inner).remove(&session.id);
    }

    /// Finds who connects to providers through a proxy, or directly.
    fn upstream(&self, proxy: Option<Proxy>) -> Arc<Upstream> {
        let mut all = self.upstreams.lock().unwrap_or_else(PoisonError::into_inner);
        let GatewayOptions { clock, stalls, .. } = &self.options;
        let make = || Arc::new(Upstream::new(self.tls.clone(), proxy.as_ref(), Arc::clone(clock), *stalls));
        let found = all.get(&proxy).cloned().unwrap_or_else(make);
        all.entry(proxy).or_insert(found).clone()
    }

    /// Time since some moment in the past; it never goes back.
    pub(super) fn elapsed(&self) -> Duration {
        self.options.clock.elapsed()
    }
}

fn base(provider: &str, url: &str) -> Result<Base, GatewayError> {
    Base::parse(url).map_err(|message| GatewayError::BaseUrl {
        provider: provider.to_owned(),
        base_url: url.to_owned(),
        message,
    })
}

/// Finds the proxy on the way to a provider.
fn way(proxies: &Proxies, provider: &str, choice: &ProxyChoice, base: &Base) -> Result<Option<Proxy>, GatewayError> {
    proxies.on_the_way(choice, base.uri()).map_err(|message| {
        let named = match choice {
            ProxyChoice::Through(proxy) => Some(proxy),
            _ if base.uri().scheme_str() == Some("https") => proxies.https.as_ref(),
            _ => proxies.http.as_ref(),
        };
        let proxy = named.map(|proxy| without_password(proxy)).unwrap_or_default();
        GatewayError::Proxy { provider: provider.to_owned(), proxy, message }
    })
}

fn known(options: &GatewayOptions) -> Result<HashMap<String, Known>, GatewayError> {
    let mut providers = HashMap::with_capacity(options.providers.len());
    for Provider { name, base_url, concurrency, requests_per_minute, proxy } in &options.providers {
        let lane = Lane::new(Arc::clone(&options.clock), *concurrency, *requests_per_minute);
        let base = base(name, base_url)?;
        way(&options.proxies, name, proxy, &base)?;
        let known = Known { base, proxy: proxy.clone(), lane: Arc::new(lane) };
        if providers.insert(name.clone(), known).is_some() {
            return Err(GatewayError::TwoOfOneName { provider: name.clone() });
        }
    }
    Ok(providers)
}
