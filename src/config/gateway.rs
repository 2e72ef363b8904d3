//! What a run file says of the gateway and of providers, and which sessions go through it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;

use crate::domain::Model;
use crate::domain::model::AuthMode;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::Node;
use super::nearest;
use super::plan::{HarnessEntry, RunPlan};

/// A provider that every run knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownProvider {
    /// The name that `models[].provider` gives.
    pub name: &'static str,
    /// Where it is.
    pub base_url: &'static str,
    /// The variable that usually holds its key.
    pub api_key_env: &'static str,
    /// The variable by which its clients are told another place.
    pub base_url_env: &'static str,
    /// What those clients want behind the place.
    pub base_path: &'static str,
}

/// The providers that every run knows.
pub const KNOWN_PROVIDERS: &[KnownProvider] = &[
    KnownProvider {
        name: "anthropic",
        base_url: "https://api.anthropic.com",
        api_key_env: "ANTHROPIC_API_KEY",
        base_url_env: "ANTHROPIC_BASE_URL",
        base_path: "",
    },
    KnownProvider {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        api_key_env: "OPENAI_API_KEY",
        base_url_env: "OPENAI_BASE_URL",
        base_path: "/v1",
    },
    KnownProvider {
        name: "gemini",
        base_url: "https://generativelanguage.googleapis.com",
        api_key_env: "GEMINI_API_KEY",
        base_url_env: "GOOGLE_GEMINI_BASE_URL",
        base_path: "",
    },
    KnownProvider {
        name: "google",
        base_url: "https://generativelanguage.googleapis.com",
        api_key_env: "GEMINI_API_KEY",
        base_url_env: "GOOGLE_GEMINI_BASE_URL",
        base_path: "",
    },
    KnownProvider {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        api_key_env: "OPENROUTER_API_KEY",
        base_url_env: "OPENROUTER_BASE_URL",
        base_path: "/v1",
    },
];

impl KnownProvider {
    /// Finds one by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        KNOWN_PROVIDERS.iter().find(|known| known.name == name)
    }
}

/// The port of `refrain gateway`, where nobody names another. Runs take a free one.
pub const DEFAULT_PORT: u16 = 8877;

/// Whether a run's requests go through the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GatewayMode {
    /// Those of sessions that can be pointed at it.
    #[default]
    Auto,
    /// All of them; a session that cannot is an error before anything starts.
    On,
    /// None.
    Off,
}

/// What is kept of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recording {
    /// Tokens, costs, times and states.
    #[default]
    Meta,
    /// Also what was asked and answered, redacted and cut.
    Bodies,
}

/// What is done with a tape of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CassetteMode {
    /// Nothing.
    #[default]
    Off,
    /// It is written.
    Record,
    /// It answers in place of the providers.
    Replay,
}

/// How a request finds its answer on a tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CassetteMatching {
    /// By an equal request.
    #[default]
    Exact,
    /// By an equal request, or else by the first that is built alike.
    Shape,
}

/// The gateway of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatewayPlan {
    /// Which requests go through it.
    pub mode: GatewayMode,
    /// The address it listens at; the runtime's choice where none is named.
    pub host: Option<IpAddr>,
    /// The port it listens at; a free one where none is named.
    pub port: Option<u16>,
    /// What is kept.
    pub record: Recording,
    /// Record and replay.
    pub cassette: CassetteMode,
    /// The tape, absolute; always there where `cassette` is not off.
    pub cassette_file: Option<PathBuf>,
    /// How requests find their answers on it.
    pub matching: CassetteMatching,
    /// The database of `refrain gateway`, absolute; a run keeps its traffic with its results.
    pub db: Option<PathBuf>,
}

/// A provider as a run declares it, or as every run knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderEntry {
    /// The name that `models[].provider` gives.
    pub name: String,
    /// Where it is.
    pub base_url: String,
    /// The most requests under way at a time.
    pub concurrency: Option<usize>,
    /// The most requests begun within a minute.
    pub requests_per_minute: Option<u32>,
    /// The variable with the key of models that name none.
    pub api_key_env: Option<String>,
    /// How it is reached.
    pub proxy: ProviderProxy,
}

/// How a provider is reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProviderProxy {
    /// As the variables `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY` say.
    #[default]
    Surroundings,
    /// Directly.
    Off,
    /// Through the proxy at this address.
    Through(String),
}

/// How the requests of a harness for a model get to the provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Through the gateway.
    Gateway,
    /// By themselves.
    Direct {
        /// Why, for a person; `None` where that is no news: the gateway is off, or there is nothing to be metered.
        why: Option<String>,
    },
}

/// Reads `providers`: what is known, changed and added to by the run.
pub(super) fn providers(root: &Node, out: &mut Diagnostics) -> Vec<ProviderEntry> {
    let mut all: Vec<ProviderEntry> = KNOWN_PROVIDERS.iter().map(ProviderEntry::known).collect();
    for entry in root.get("providers").map(Node::entries).unwrap_or_default() {
        let (node, known) = (&entry.value, all.iter().position(|known| known.name == entry.key));
        let base_url = node.get("base_url").and_then(|url| base_url(url, out));
        let at = match (known, base_url) {
            (Some(at), url) => {
                all[at].base_url = url.unwrap_or_else(|| all[at].base_url.clone());
                at
            }
            (None, Some(base_url)) => {
                let name = entry.key.clone();
                all.push(ProviderEntry {
                    name,
                    base_url,
                    concurrency: None,
                    requests_per_minute: None,
                    api_key_env: None,
                    proxy: ProviderProxy::Surroundings,
                });
                all.len() - 1
            }
            (None, None) => {
                if node.get("base_url").is_none() {
                    out.push(
                        Diagnostic::error(format!("provider `{}` has no `base_url`", entry.key))
                            .at(&entry.key_span, "where is it?")
                            .hint(nearest::hint(&entry.key, KNOWN_PROVIDERS.iter().map(|known| known.name))),
                    );
                }
                continue;
            }
        };
        all[at].concurrency = node.whole_of("concurrency");
        all[at].requests_per_minute = node.whole_of("requests_per_minute");
        all[at].proxy = node.get("proxy").map(|node| proxy(node, out)).unwrap_or_default();
        all[at].api_key_env = node.text_of("api_key_env").or_else(|| all[at].api_key_env.take());
    }
    all
}

impl ProviderEntry {
    /// Describes a provider that every run knows, as it is.
    #[must_use]
    pub fn known(known: &KnownProvider) -> Self {
        Self {
            name: known.name.to_owned(),
            base_url: known.base_url.to_owned(),
            concurrency: None,
            requests_per_minute: None,
            api_key_env: Some(known.api_key_env.to_owned()),
            proxy: ProviderProxy::Surroundings,
        }
    }
}

/// Takes the address of a proxy, or `off`.
fn proxy(node: &Node, out: &mut Diagnostics) -> ProviderProxy {
    let text = node.text().unwrap_or_default();
    if text == "off" {
        return ProviderProxy::Off;
    }
    let host = text.strip_prefix("http://").map(|host| host.trim_end_matches('/'));
    if host.is_none_or(|host| host.is_empty() || host.contains(['/', '?', '#', ' ', '@'])) {
        out.push(
            Diagnostic::error("`proxy` is no address of a proxy")
                .at(&node.span, "expected `http://host:port`, or `\"off\"`")
                .hint("a proxy that wants a name and a password is named with them by the variable `HTTPS_PROXY`"),
        );
    }
    ProviderProxy::Through(text.to_owned())
}

/// Takes the address of a provider: a URL of a host, with no more than a path behind it.
pub(super) fn base_url(node: &Node, out: &mut Diagnostics) -> Option<String> {
    let text = node.text()?;
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fits = |host: &str| {
        let place = host.split('/').next().unwrap_or_default();
        !place.is_empty() && !place.contains('@') && !host.contains(['?', '#', ' '])
    };
    if host.is_some_and(fits) {
        return Some(text.trim_end_matches('/').to_owned());
    }
    out.push(
        Diagnostic::error("`base_url` is no address of a provider")
            .at(&node.span, "expected `https://host` with an optional path")
            .hint("write it as the provider's documentation does, without key, query and fragment"),
    );
    None
}

/// Reads `gateway`, and the flat keys that stand for parts of it.
pub(super) fn gateway(root: &Node, out: &mut Diagnostics) -> GatewayPlan {
    let node = root.get("gateway");
    let inner = |key: &str| node.and_then(|node| node.get(key));
    let either = |key: &str, flat: &str, out: &mut Diagnostics| {
        if let (Some(inside), Some(flat_node)) = (inner(key), root.get(flat)) {
            out.push(
                Diagnostic::error(format!("`gateway.{key}` and `{flat}` are both given"))
                    .at(&inside.span, "here")
                    .also(&flat_node.span, "and here")
                    .hint(format!("keep `gateway.{key}`")),
            );
        }
        inner(key).or_else(|| root.get(flat)).cloned()
    };
    let choice = |key: &str| inner(key).and_then(Node::text).unwrap_or_default().to_owned();
    let plan = GatewayPlan {
        mode: match choice("mode").as_str() {
            "on" => GatewayMode::On,
            "off" => GatewayMode::Off,
            _ => GatewayMode::Auto,
        },
        host: either("host", "gateway_host", out).and_then(|node| address(&node, out)),
        port: either("port", "gateway_port", out).and_then(|node| port(&node)),
        record: if choice("record") == "bodies" { Recording::Bodies } else { Recording::Meta },
        cassette: match choice("cassette").as_str() {
            "record" => CassetteMode::Record,
            "replay" => CassetteMode::Replay,
            _ => CassetteMode::Off,
        },
        cassette_file: node.and_then(|node| node.path_of("cassette_file")),
        matching: if choice("matching") == "shape" { CassetteMatching::Shape } else { CassetteMatching::Exact },
        db: root.path_of("gateway_db"),
    };
    if let Some(cassette) = inner("cassette").filter(|_| plan.cassette != CassetteMode::Off) {
        if plan.cassette_file.is_none() {
            out.push(
                Diagnostic::error("the cassette has no file")
                    .at(&cassette.span, "which one?")
                    .hint("add `cassette_file` to `gateway`"),
            );
        } else if plan.mode == GatewayMode::Off {
            out.push(
                Diagnostic::error("a cassette needs the gateway, and `mode` is `off`")
                    .at(&cassette.span, "nothing would pass it")
                    .hint("leave `mode` out, or set it to `on`"),
            );
        }
    }
    plan
}

fn address(node: &Node, out: &mut Diagnostics) -> Option<IpAddr> {
    let text = node.text()?;
    let found = if text == "localhost" { Some(IpAddr::from([127, 0, 0, 1])) } else { text.parse().ok() };
    if found.is_none() {
        out.push(
            Diagnostic::error(format!("the gateway's host is an address of this machine, not `{text}`"))
                .at(&node.span, "no address")
                .hint("write `127.0.0.1` for this machine alone, or the address of a network that it shares"),
        );
    }
    found
}

/// Port 0 asks for a free one, as leaving it out does.
fn port(node: &Node) -> Option<u16> {
    match node.value {
        super::document::Value::Int(number) => u16::try_from(number).ok().filter(|port| *port != 0),
        _ => None,
    }
}

/// Decides how the requests of a harness for a model get to the provider.
fn route(gateway: &GatewayPlan, providers: &[ProviderEntry], harness: &HarnessEntry, model: &Model) -> Route {
    let direct = |why: String| Route::Direct { why: Some(why) };
    let place = place_of(model);
    let is_known = providers.iter().any(|known| known.name == model.provider) || place.is_some();
    // A model without provider, place and key is one that asks nobody: a play, a stand-in.
    let asks_nobody = !is_known && model.api_key_env.is_none();
    if gateway.mode == GatewayMode::Off || (gateway.mode == GatewayMode::Auto && asks_nobody) {
        return Route::Direct { why: None };
    }
    if !cfg!(feature = "gateway") {
        let why = (gateway.mode == GatewayMode::On).then(|| "this build of refrain has none".to_owned());
        return Route::Direct { why };
    }
    if !harness.takes_base_url() {
        return direct(format!(
            "harness `{}` cannot be pointed at it: nothing of it names `{{base_url}}`",
            harness.name
        ));
    }
    if model.auth_mode == AuthMode::Subscription {
        return direct(format!("model `{}` is used by a subscription, which has no key to be put in", model.name));
    }
    if !is_known {
        return direct(format!("provider `{}` is not known: add it to `providers`", model.provider));
    }
    Route::Gateway
}

fn pairs<'a>(
    harnesses: &'a [HarnessEntry],
    models: &'a [Model],
) -> impl Iterator<Item = (&'a HarnessEntry, &'a Model)> {
    harnesses.iter().flat_map(move |harness| models.iter().map(move |model| (harness, model)))
}

impl RunPlan {
    /// Returns how the requests of a harness for a model of this run get to the provider.
    #[must_use]
    pub fn route(&self, harness: &HarnessEntry, model: &Model) -> Route {
        route(&self.gateway, &self.providers, harness, model)
    }

    /// Finds a provider by its name.
    #[must_use]
    pub fn provider(&self, name: &str) -> Option<&ProviderEntry> {
        self.providers.iter().find(|known| known.name == name)
    }

    /// Tells whether any session of the run could go through the gateway.
    #[must_use]
    pub fn uses_gateway(&self) -> bool {
        pairs(&self.harnesses, &self.models).any(|(harness, model)| self.route(harness, model) == Route::Gateway)
    }

    /// Tells whether every session of the run goes through the gateway.
    #[must_use]
    pub fn is_all_metered(&self) -> bool {
        pairs(&self.harnesses, &self.models).all(|(harness, model)| self.route(harness, model) == Route::Gateway)
    }

    /// Returns the variable with the key that the gateway puts in for a model: its own, else that of its provider.
    #[must_use]
    pub fn key_variable<'a>(&'a self, model: &'a Model) -> Option<&'a str> {
        let of_provider = || self.provider(&model.provider)?.api_key_env.as_deref();
        // The usual key of a provider goes to the provider, and not to whatever place a model names.
        model.api_key_env.as_deref().or_else(|| of_provider().filter(|_| place_of(model).is_none()))
    }
}

/// The place that a model itself names for its provider.
#[must_use]
pub fn place_of(model: &Model) -> Option<&str> {
    model.config.get("base_url").and_then(serde_json::Value::as_str).filter(|url| !url.is_empty())
}

/// Says which sessions the gateway will not see: a warning once for each reason, an error where it has to see all.
pub(super) fn check_routes(
    (gateway, providers): (&GatewayPlan, &[ProviderEntry]),
    (harnesses, models): (&[HarnessEntry], &[Model]),
    root: &Node,
    out: &mut Diagnostics,
) {
    if out.has_errors() {
        return;
    }
    let routes = pairs(harnesses, models).map(|(harness, model)| route(gateway, providers, harness, model));
    let reasons: BTreeSet<String> = routes
        .filter_map(|route| match route {
            Route::Direct { why } => why,
            Route::Gateway => None,
        })
        .collect();
    let mode = root.get("gateway").and_then(|node| node.get("mode")).unwrap_or(root);
    for why in reasons {
        out.push(match gateway.mode {
            GatewayMode::On => Diagnostic::error(format!("the gateway is on, but {why}"))
                .at(&mode.span, "it has to see every session")
                .hint("`mode: auto` lets such sessions go past it"),
            GatewayMode::Auto | GatewayMode::Off => Diagnostic::warning(format!("sessions go past the gateway: {why}"))
                .in_file(root.span.source.shown())
                .hint("what they cost is then what the harness itself tells"),
        });
    }
}

#[cfg(test)]
#[path = "gateway/tests.rs"]
mod tests;
