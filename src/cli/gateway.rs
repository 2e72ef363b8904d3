//! `refrain gateway`: the meter alone, for programs that somebody starts by hand.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::run::{environment, eprint_line};
use super::{Failed, Outcome, exit, gateway_check};
use crate::config::gateway::{DEFAULT_PORT, KNOWN_PROVIDERS, KnownProvider, ProviderEntry, Recording};
use crate::config::{LoadOptions, RunPlan, load};
use crate::domain::{Micros, Trace, Usage};
use crate::host::{StandaloneDoor, StandaloneGateway, StandaloneOptions};
use crate::report::text;

/// How often the totals are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Run the gateway alone: a meter between programs that you start and their providers
///
/// It takes the providers' keys from the environment, and prints what to set in a program instead: an address and a
/// token that is good until the gateway ends. Whatever passes is counted, priced and kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain gateway\n  refrain gateway --provider anthropic --max-cost 2\n  \
                        refrain gateway --provider mine=http://127.0.0.1:8000/v1 --port 0\n  \
                        refrain gateway --check --provider anthropic --model claude-haiku-4-5\n\n\
                        Exit codes: 0 it ended as asked, 1 --check found a difference, 2 usage or configuration, such as \
                        a port that is taken, 4 store")]
pub(super) struct Args {
    /// A run file whose gateway address, port, database and providers are to be used
    file: Option<PathBuf>,
    /// The address to listen at (127.0.0.1)
    #[arg(long)]
    host: Option<IpAddr>,
    /// The port to listen at (8877); 0 for a free one
    #[arg(long)]
    port: Option<u16>,
    /// The database for what passes (`gateway.db`)
    #[arg(long, value_name = "FILE")]
    db: Option<PathBuf>,
    /// A provider, or one's own as NAME=URL; may be given several times. By default those whose keys are set
    #[arg(long, value_name = "NAME[=URL]")]
    provider: Vec<String>,
    /// Refuse further requests of a provider once they have cost so much
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Also keep what is asked and answered, redacted
    #[arg(long)]
    bodies: bool,
    /// Instead make one small request to each provider, and compare the meter with the provider's own numbers
    #[arg(long)]
    check: bool,
    /// The model of --check
    #[arg(long, requires = "check")]
    model: Option<String>,
}

pub(super) fn main(args: &Args) -> Outcome {
    let plan = match &args.file {
        Some(file) => Some(load(LoadOptions::new(file))?.0),
        None => None,
    };
    let mut providers = plan.as_ref().map_or_else(known, |plan| plan.providers.clone());
    let chosen = chosen(args, &mut providers)?;
    let options = options(args, plan.as_ref(), providers)?;
    let chosen = with_keys(chosen, &options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut gateway = StandaloneGateway::start(options).await?;
        let trace = if args.check { Trace::Check } else { Trace::Agent };
        for provider in &chosen {
            gateway.open(provider, trace)?;
        }
        if args.check {
            let code = gateway_check::run(&gateway, args.model.as_deref()).await;
            gateway.close().await;
            return code;
        }
        tell(&gateway)?;
        watch(&gateway).await?;
        for door in gateway.doors() {
            eprint_line(&format!("{:>12} {}", "Total", totals(door)));
        }
        gateway.close().await;
        Ok(exit::OK)
    })
}

fn known() -> Vec<ProviderEntry> {
    KNOWN_PROVIDERS.iter().map(ProviderEntry::known).collect()
}

/// Returns the names of the providers that were asked for; those with an address of their own are added.
fn chosen(args: &Args, providers: &mut Vec<ProviderEntry>) -> Result<Vec<String>, Failed> {
    let mut names = Vec::new();
    for asked in &args.provider {
        let (name, url) = asked.split_once('=').map_or((asked.as_str(), None), |(name, url)| (name, Some(url)));
        let at = providers.iter().position(|entry| entry.name == name);
        match (at, url) {
            (Some(at), Some(url)) => url.clone_into(&mut providers[at].base_url),
            (Some(_), None) => {}
            (None, Some(url)) => providers.push(ProviderEntry {
                name: name.to_owned(),
                base_url: url.to_owned(),
                concurrency: None,
                requests_per_minute: None,
                api_key_env: Some(format!("{}_API_KEY", name.to_uppercase().replace(['-', '.'], "_"))),
            }),
            (None, None) => {
                let known = providers.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Failed::usage(anyhow::anyhow!("there is no provider `{name}`; known: {known}"))
                    .with_hint(format!("one of your own has an address: `--provider {name}=https://…`")));
            }
        }
        names.push(name.to_owned());
    }
    Ok(names)
}

fn options(args: &Args, plan: Option<&RunPlan>, providers: Vec<ProviderEntry>) -> Result<StandaloneOptions, Failed> {
    let own = plan.map(|plan| &plan.gateway);
    let host = args.host.or_else(|| own?.host).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port = args.port.or_else(|| own?.port).unwrap_or(DEFAULT_PORT);
    let db = args.db.clone().or_else(|| own?.db.clone()).unwrap_or_else(|| PathBuf::from("gateway.db"));
    let bodies = args.bodies || own.is_some_and(|own| own.record == Recording::Bodies);
    let max_cost = args.max_cost.map(Micros::from_dollars).transpose().map_err(Failed::usage)?;
    let named = providers.iter().filter_map(|entry| entry.api_key_env.clone());
    let named: Vec<String> = named.collect();
    let keys: BTreeMap<_, _> = environment().filter(|(name, _)| named.contains(name)).collect();
    Ok(StandaloneOptions {
        listen: SocketAddr::new(host, port),
        db,
        providers,
        keys,
        record: if bodies { Recording::Bodies } else { Recording::Meta },
        max_cost,
    })
}

/// Without a choice those count whose keys are there; of two names for one provider the first.
fn with_keys(chosen: Vec<String>, options: &StandaloneOptions) -> Result<Vec<String>, Failed> {
    if !chosen.is_empty() {
        return Ok(chosen);
    }
    let mut found: Vec<&ProviderEntry> = Vec::new();
    for entry in &options.providers {
        let has_key = entry.api_key_env.as_ref().is_some_and(|name| options.keys.contains_key(name));
        if has_key && !found.iter().any(|other| other.base_url == entry.base_url) {
            found.push(entry);
        }
    }
    if found.is_empty() {
        let names = KNOWN_PROVIDERS.iter().map(|known| known.api_key_env).collect::<Vec<_>>().join(", ");
        return Err(Failed::usage(anyhow::anyhow!("no provider's key is set; looked for: {names}"))
            .with_hint("set one, or choose a provider that needs none: `--provider NAME=URL`"));
    }
    Ok(found.into_iter().map(|entry| entry.name.clone()).collect())
}

/// Prints what to set in a program. Here alone tokens are shown: whoever started the gateway is to use them.
fn tell(gateway: &StandaloneGateway) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    for door in gateway.doors() {
        writeln!(out, "# {}", door.provider())?;
        for (name, value) in settings(door) {
            writeln!(out, "export {name}={value}")?;
        }
    }
    out.flush()?;
    eprint_line(&format!("{:>12} at http://{}, until Ctrl-C", "Listening", gateway.listen()));
    Ok(())
}

/// The variables by which programs of a provider are pointed at the gateway.
fn settings(door: &StandaloneDoor) -> [(String, String); 2] {
    let known: Option<&KnownProvider> = KnownProvider::named(door.provider());
    // One of somebody's own speaks what most do.
    let (url, path, key) = known.map_or(("OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY"), |known| {
        (known.base_url_env, known.base_path, known.api_key_env)
    });
    [(url.to_owned(), format!("{}{path}", door.base_url())), (key.to_owned(), door.token().to_owned())]
}

/// Shows the totals when they change, until a signal ends it.
async fn watch(gateway: &StandaloneGateway) -> Result<(), Failed> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut shown: Vec<u32> = gateway.doors().iter().map(|_| 0).collect();
    loop {
        for (door, shown) in gateway.doors().iter().zip(&mut shown) {
            let (requests, ..) = door.spent();
            if requests != *shown {
                *shown = requests;
                eprint_line(&format!("{:>12} {}", "Passed", totals(door)));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
        }
    }
}

fn totals(door: &StandaloneDoor) -> String {
    let (requests, usage, cost) = door.spent();
    let Usage { input, output, cache_read, cache_write, .. } = usage;
    let show = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    format!(
        "{}: {requests} request(s), {} in, {} cached, {} written, {} out, {}",
        door.provider(),
        show(input),
        show(cache_read),
        show(cache_write),
        show(output),
        text::cost(cost)
    )
}
