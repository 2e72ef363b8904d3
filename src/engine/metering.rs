//! The gateway of a run: its sessions' capabilities, their ceilings while they run, and what of it is stored.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;

use super::reconcile::Seen;
use super::world::{Attempt, describe, lock};
use crate::config::RunPlan;
use crate::config::gateway::{CassetteMode, GatewayMode, Route, place_of};
use crate::domain::{Attribution, EventKind, Exchange, Failure, Key, Micros, Model, ModelRole, Trace, Usage};
use crate::gateway::cassette::{Cassette, Places};
use crate::gateway::{
    Bodies, Capability, Gateway, GatewayError, GatewayOptions, Grant, Guard, Listen, Recorder, RecorderError, Totals,
};
use crate::harness::ceiling::{Ceiling, Reached};
use crate::redact::printable;
use crate::runtime::GatewayDoors;
use crate::store::{CapturedBodies, Store};

/// The gateway of a run, where it has one.
#[derive(Default)]
pub struct Metering(Option<Running>);

struct Running {
    gateway: Gateway,
    /// Where sessions come in; none where it is there for a judge alone.
    doors: Option<GatewayDoors>,
    /// What this start's sessions have cost through it, as far as it is known, in micro-dollars.
    cost: Arc<AtomicI64>,
}

impl Metering {
    /// Starts a gateway whose exchanges are kept in `store`, and on a cassette or played from one where there is one. Where
    /// it is not `for_sessions`, they go by themselves: it is there for the host's own requests.
    ///
    /// # Errors
    ///
    /// As [`Gateway::start`].
    pub async fn start(
        options: GatewayOptions,
        store: Store,
        cassette: Option<Cassette>,
        for_sessions: bool,
    ) -> Result<Self, GatewayError> {
        let recorder = Arc::new(StoreRecorder { store });
        let gateway = Gateway::start_with_cassette(options, recorder, b"", cassette).await?;
        let mut doors = GatewayDoors::default();
        for address in gateway.addresses() {
            match address {
                Listen::Tcp(address) => doors.tcp = Some(*address),
                Listen::Unix(path) => doors.unix = Some(path.clone()),
            }
        }
        let doors = for_sessions.then_some(doors);
        Ok(Self(Some(Running { gateway, doors, cost: Arc::default() })))
    }

    /// Returns where sessions come in; `None` where none does.
    pub(crate) fn doors(&self) -> Option<GatewayDoors> {
        self.0.as_ref()?.doors.clone()
    }

    /// Returns the gateway itself, for the host's own requests.
    pub(crate) fn gateway(&self) -> Option<&Gateway> {
        self.0.as_ref().map(|running| &running.gateway)
    }

    /// Ends it, once nothing of the run needs it any more.
    pub(crate) async fn shutdown(&self) {
        if let Some(running) = &self.0 {
            running.gateway.shutdown().await;
        }
    }
}

/// Keeps exchanges in a store.
pub struct StoreRecorder {
    /// The store.
    pub store: Store,
}

#[async_trait]
impl Recorder for StoreRecorder {
    async fn begun(&self, exchange: &Exchange) -> Result<(), RecorderError> {
        let stored = self.store.begin_call(exchange).await;
        stored.map_err(|error| RecorderError { message: describe(&error) })
    }

    async fn ended(&self, exchange: Exchange, bodies: Option<Bodies>) -> Result<(), RecorderError> {
        let bodies = bodies.map(|Bodies { request, answer, cut }| CapturedBodies { request, answer, cut });
        let stored = self.store.end_call(&exchange, bodies).await;
        stored.map_err(|error| RecorderError { message: describe(&error) })
    }
}

/// A session that is about to begin.
pub(crate) struct Begins<'a> {
    pub(crate) index: u32,
    pub(crate) phase: Option<String>,
    pub(crate) role: Option<ModelRole>,
    pub(crate) model: &'a Model,
    pub(crate) harness: &'a str,
    pub(crate) max_cost: Option<Micros>,
}

/// A session's way through the gateway.
pub(crate) struct Metered {
    capability: Capability,
    base_url: String,
    ceiling: Arc<Ceiling>,
    seen: Arc<AtomicBool>,
}

impl Metered {
    /// Returns what stands for the model's key.
    pub(crate) fn token(&self) -> &str {
        self.capability.token()
    }

    /// Returns where the gateway stands for the provider, as the environment reaches it.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Returns what is reached when the session may spend no more.
    pub(crate) fn ceiling(&self) -> &Arc<Ceiling> {
        &self.ceiling
    }

    /// Returns a flag that is set once a request of the session has come.
    pub(crate) fn seen(&self) -> &Arc<AtomicBool> {
        &self.seen
    }

    /// Ends the session's leave; what it began is recorded when this returns.
    pub(crate) async fn close(self) -> Seen {
        let Totals { requests, billed, played, under_way, usage, cost, known_cost, broken, .. } =
            self.capability.close().await;
        // What did not end in time may still cost something.
        let (usage, cost) = if under_way == 0 { (usage, cost) } else { (Usage::UNKNOWN, None) };
        Seen { requests, billed: billed + under_way, played, usage, cost, known_cost, broken }
    }
}

/// Opens a session's way through the gateway; `None` where it goes by itself.
///
/// # Errors
///
/// The gateway cannot be reached from the environment, or does not know the model's provider.
pub(crate) async fn open(attempt: &Arc<Attempt>, begins: Begins<'_>) -> Result<Option<Metered>, Failure> {
    let services = &attempt.context.services;
    let (plan, model) = (&services.plan, begins.model);
    let Some(running) = services.metering.0.as_ref().filter(|running| running.doors.is_some()) else { return Ok(None) };
    let entry = plan.harnesses.iter().find(|entry| entry.name == begins.harness);
    if entry.is_none_or(|entry| plan.route(entry, model) != Route::Gateway) {
        return Ok(None);
    }
    let key = plan.key_variable(model).and_then(|variable| services.keys.get(variable)).map(Key::new);
    if key.is_none() && brings_its_own(plan, model) {
        let provider = &model.provider;
        attempt
            .warn(format!("session {}: the host has no key for `{provider}`: it goes past the gateway", begins.index));
        return Ok(None);
    }
    let address = attempt.env.gateway_address().await;
    let address = address.map_err(|error| Failure::Runtime { message: describe(&error) })?;
    let (ceiling, seen) = (Arc::new(Ceiling::default()), Arc::new(AtomicBool::new(false)));
    let guard = SessionGuard {
        attempt: Arc::clone(attempt),
        session: begins.index,
        own: begins.max_cost,
        ceiling: Arc::clone(&ceiling),
        seen: Arc::clone(&seen),
        run_cost: Arc::clone(&running.cost),
        told: Mutex::default(),
    };
    let grant = Grant {
        attribution: Attribution {
            run: attempt.id.run.clone(),
            cell: Some(attempt.id.cell.clone()),
            attempt: attempt.id.number,
            session: begins.index,
            phase: begins.phase,
            role: begins.role,
            trace: Trace::Agent,
        },
        provider: model.provider.clone(),
        key,
        base_url: place_of(model).map(str::to_owned),
        guard: Some(Arc::new(guard)),
        places: places(attempt.env.workspace(), attempt.env.home()),
    };
    let capability =
        running.gateway.open(grant).map_err(|error| Failure::Configuration { message: describe(&error) })?;
    let base_url = format!("{}{}", address.trim_end_matches('/'), capability.path());
    Ok(Some(Metered { capability, base_url, ceiling, seen }))
}

/// Says that a request is refused because nobody knows what it costs.
pub(crate) fn unpriced(model: Option<&str>, limit: Micros) -> String {
    let what = match model {
        Some(model) => format!("the model `{}` has no price", printable(model)),
        None => "the request names no model that can be read, so it has no price".to_owned(),
    };
    format!(
        "{what}, and a ceiling of {limit} applies to the session: nothing was sent; add its price to a file that `prices` \
         names, or set `allow_unpriced: true` in the run file to let it pass uncounted"
    )
}

/// The folders of a session, and what holds them both where that is no more than they.
fn places(workspace: &Path, home: &Path) -> Places {
    let around = workspace.parent().filter(|around| home.parent() == Some(around) && around.parent().is_some());
    let around = around.map(|around| ("environment", around));
    Places::new([("directory", workspace), ("home", home)].into_iter().chain(around))
}

/// Tells whether a harness that gets no key may have its own, such as a login in its image: a provider that wants a key would
/// refuse it without.
fn brings_its_own(plan: &RunPlan, model: &Model) -> bool {
    let wants_key = plan.provider(&model.provider).is_some_and(|provider| provider.api_key_env.is_some());
    let at_home = model.api_key_env.is_none() && place_of(model).is_none();
    // A tape is played without any key.
    plan.gateway.mode == GatewayMode::Auto && plan.gateway.cassette != CassetteMode::Replay && wants_key && at_home
}

/// The ceilings of a session: its own, and the purse that it shares.
struct SessionGuard {
    attempt: Arc<Attempt>,
    session: u32,
    own: Option<Micros>,
    ceiling: Arc<Ceiling>,
    seen: Arc<AtomicBool>,
    run_cost: Arc<AtomicI64>,
    /// What of the session's cost is in the run's.
    told: Mutex<Micros>,
}

impl Guard for SessionGuard {
    fn refuses(&self, totals: &Totals) -> Option<String> {
        self.seen.store(true, Ordering::SeqCst);
        let live = totals.charged();
        let shared = {
            let mut book = lock(&self.attempt.sessions);
            let spent = book.spent();
            book.purse.is_used_up(self.session, live, spent)
        };
        let limit = self.own.filter(|own| live >= *own).or(shared)?;
        // Before the harness hears of it: what it prints about it is not why the session ends.
        self.ceiling.reach(Reached::Cost { limit, spent: live });
        Some(format!("cost limit of {limit} reached: {live} spent"))
    }

    fn refuses_unpriced(&self, model: Option<&str>) -> Option<String> {
        self.seen.store(true, Ordering::SeqCst);
        if self.attempt.context.services.plan.allow_unpriced {
            return None;
        }
        let shared = {
            let book = lock(&self.attempt.sessions);
            book.purse.left_to(self.session, book.spent())
        };
        let limit = self.own.into_iter().chain(shared).min()?;
        let message = unpriced(model, limit);
        self.ceiling.reach(Reached::Unpriced(message.clone()));
        Some(message)
    }

    fn may_pass(&self, totals: &Totals, promised: Micros) -> bool {
        let live = totals.charged() + promised;
        let book = lock(&self.attempt.sessions);
        let shared = book.purse.left_to(self.session, book.spent());
        let mut limits = self.own.into_iter().chain(shared).peekable();
        // Without a ceiling any number may be under way. With one, the first exchange tells what one may cost.
        limits.peek().is_none() || (totals.dearest > Micros::ZERO && limits.all(|limit| live < limit))
    }

    fn spent(&self, totals: &Totals) {
        let live = totals.known_cost;
        let attempt_cost = {
            let mut book = lock(&self.attempt.sessions);
            let spent = book.spent();
            // Whether it is over its limit is asked before the next request.
            let _ = book.purse.spend(self.session, live, spent);
            spent.total + book.purse.live()
        };
        let more = {
            let mut told = lock(&self.told);
            let more = (live - *told).max(Micros::ZERO);
            *told += more;
            more
        };
        let run_cost = Micros::new(self.run_cost.fetch_add(more.get(), Ordering::SeqCst)) + more;
        self.attempt.context.events.emit(EventKind::SessionSpend {
            cell: self.attempt.id.cell.clone(),
            attempt: self.attempt.id.number,
            session: self.session,
            requests: totals.requests,
            usage: totals.usage,
            cost: totals.cost,
            attempt_cost,
            run_cost,
        });
    }
}
