//! The gateway of a run, started before its first cell.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::builder::Parts;
use super::error::Error;
use crate::budget::PriceTable;
use crate::config::RunPlan;
use crate::config::gateway::{
    CassetteMatching, CassetteMode, GatewayMode, ProviderEntry, ProviderProxy, Recording, place_of,
};
use crate::domain::Network;
use crate::engine::EngineError;
use crate::engine::metering::Metering;
use crate::gateway::cassette::{Cassette, Matching};
use crate::gateway::{Bounds, GatewayError, GatewayOptions, Listen, Provider, Proxies, ProxyChoice, Stalls};
use crate::redact::Redactor;
use crate::runtime::{GatewayDoors, Runtime};
use crate::store::{Layout, Store};

/// The most bytes of a body that are kept.
pub(super) const BODY_LIMIT: usize = 1024 * 1024;

/// What a gateway is started with, beside the plan.
pub(super) struct Around<'a> {
    pub(super) runtime: &'a dyn Runtime,
    pub(super) layout: &'a Layout,
    pub(super) store: &'a Store,
    pub(super) prices: &'a PriceTable,
    pub(super) redactor: &'a Arc<Redactor>,
}

/// Starts the gateway of a run, if any of its sessions goes through one.
pub(super) async fn start(parts: &Parts, plan: &RunPlan, around: Around<'_>) -> Result<Metering, Error> {
    if !plan.uses_gateway() {
        return for_a_judge(parts, plan, around).await;
    }
    let doors = match around.runtime.gateway_doors(plan.container.network, &around.layout.scratch_root()).await {
        Ok(doors) => doors,
        // Sessions that reach nothing but the gateway cannot go past it.
        Err(error) if plan.gateway.mode == GatewayMode::On || plan.container.network == Network::GatewayOnly => {
            return Err(EngineError::Runtime { name: plan.runtime.clone(), source: error }.into());
        }
        Err(error) => {
            tracing::warn!(%error, "sessions go past the gateway");
            return for_a_judge(parts, plan, around).await;
        }
    };
    let listen = listen(plan, &doors);
    if listen.is_empty() {
        // Environments without any way out ask no provider either.
        return for_a_judge(parts, plan, around).await;
    }
    listening(parts, plan, around, (listen, true)).await
}

/// Starts a gateway that sessions do not go through, where the run's judge needs one.
async fn for_a_judge(parts: &Parts, plan: &RunPlan, around: Around<'_>) -> Result<Metering, Error> {
    if !plan.asks_a_judge() {
        return Ok(Metering::default());
    }
    let own = Listen::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));
    listening(parts, plan, around, (vec![own], false)).await
}

async fn listening(
    parts: &Parts,
    plan: &RunPlan,
    around: Around<'_>,
    (listen, for_sessions): (Vec<Listen>, bool),
) -> Result<Metering, Error> {
    let cassette = cassette(plan, around.redactor)?;
    let options = GatewayOptions {
        listen,
        providers: providers(plan),
        prices: around.prices.clone(),
        redactor: Arc::clone(around.redactor),
        clock: Arc::clone(&parts.clock),
        stalls: Stalls::default(),
        bounds: Bounds::default(),
        proxies: Proxies::from_variables(|name| parts.environment.get(name).cloned()),
        bodies: (plan.gateway.record == Recording::Bodies).then_some(BODY_LIMIT),
    };
    Metering::start(options, around.store.clone(), cassette, for_sessions).await.map_err(failed)
}

/// Opens the cassette that the run records on or plays.
fn cassette(plan: &RunPlan, redactor: &Redactor) -> Result<Option<Cassette>, Error> {
    let Some(path) = &plan.gateway.cassette_file else { return Ok(None) };
    let opened = match plan.gateway.cassette {
        CassetteMode::Off => return Ok(None),
        CassetteMode::Record => Cassette::record(path, redactor.clone()),
        CassetteMode::Replay => {
            let matching = match plan.gateway.matching {
                CassetteMatching::Exact => Matching::Exact,
                CassetteMatching::Shape => Matching::Shape,
            };
            Cassette::replay(path, matching, redactor.clone())
        }
    };
    opened.map(Some).map_err(|error| {
        let hint = "`gateway.cassette_file` names a file that `cassette: record` wrote, or is to write";
        Error::configuration(error.to_string()).hinting(hint.to_owned())
    })
}

/// Says why a gateway did not start, and what to do.
pub(super) fn failed(error: GatewayError) -> Error {
    let hint = match &error {
        GatewayError::Taken { .. } => {
            "leave the port (`gateway.port`, `--port`) out for the usual one, or name another one"
        }
        GatewayError::Bind { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            "ports below 1024 are for the system: name a higher one, or 0 for a free one"
        }
        GatewayError::Bind { .. } => {
            "the host (`gateway.host`, `--host`) must be an address of this machine: leave it out for the usual one"
        }
        _ => "see docs/guide/gateway.md",
    };
    let failed = Error::configuration(error.to_string()).hinting(hint.to_owned());
    match error {
        GatewayError::Bind { source, .. } => failed.caused_by(source),
        // Its words are all that there is.
        _ => failed,
    }
}

/// Where the runtime's environments reach it, as far as the run says nothing else.
fn listen(plan: &RunPlan, doors: &GatewayDoors) -> Vec<Listen> {
    let own = (plan.gateway.host, plan.gateway.port);
    let tcp = doors.tcp.map(|address| {
        let host: IpAddr = own.0.unwrap_or(address.ip());
        Listen::Tcp(SocketAddr::new(host, own.1.unwrap_or(address.port())))
    });
    tcp.into_iter().chain(doors.unix.clone().map(Listen::Unix)).collect()
}

/// How the gateway knows a provider.
pub(super) fn provider(known: &ProviderEntry) -> Provider {
    Provider {
        name: known.name.clone(),
        base_url: known.base_url.clone(),
        concurrency: known.concurrency,
        requests_per_minute: known.requests_per_minute,
        proxy: proxy_choice(&known.proxy),
    }
}

/// How a provider is reached, by what a run says.
fn proxy_choice(proxy: &ProviderProxy) -> ProxyChoice {
    match proxy {
        ProviderProxy::Surroundings => ProxyChoice::Surroundings,
        ProviderProxy::Off => ProxyChoice::Direct,
        ProviderProxy::Through(address) => ProxyChoice::Through(address.clone()),
    }
}

/// The providers of a run, and those that only a model's own address says where they are.
pub(super) fn providers(plan: &RunPlan) -> Vec<Provider> {
    let mut all: Vec<Provider> = plan.providers.iter().map(provider).collect();
    for model in plan.models.iter().chain(plan.judge.as_ref().map(|judge| &judge.model)) {
        let Some(place) = place_of(model) else { continue };
        if !all.iter().any(|known| known.name == model.provider) {
            let (name, base_url) = (model.provider.clone(), place.to_owned());
            all.push(Provider {
                name,
                base_url,
                concurrency: None,
                requests_per_minute: None,
                proxy: ProxyChoice::default(),
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn an_address_that_is_refused_is_told_once_with_what_to_do() {
        let bind = |kind: ErrorKind| {
            let listen = Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 80)));
            failed(GatewayError::Bind { listen, source: kind.into() })
        };
        let error = bind(ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "the gateway cannot listen on 127.0.0.1:80");
        assert!(error.hint().is_some_and(|hint| hint.contains("below 1024")), "{error:?}");
        let cause = error.source().map(ToString::to_string);
        assert_eq!(cause, Some("permission denied".to_owned()));
        assert!(bind(ErrorKind::AddrNotAvailable).hint().is_some_and(|hint| hint.contains("`--host`")));
    }
}
