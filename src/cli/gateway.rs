//! `refrain gateway`: the meter alone, for programs that somebody starts by hand.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::dollars::dollars;
use super::providers::{self, Choice};
use super::run::eprint_line;
use super::{Failed, Outcome, canary, exit};
use crate::config::gateway::{DEFAULT_PORT, KnownProvider, Recording};
use crate::domain::{Micros, Trace, Usage};
use crate::host::{StandaloneDoor, StandaloneGateway};
use crate::report::text;

/// How often the totals are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Run the gateway alone: a meter between programs that you start and their providers
///
/// It takes the providers' keys from the environment, and prints what to set in a program instead: an address and a
/// token that is good until the gateway ends. Whatever passes is counted, priced and kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain gateway\n  refrain gateway --provider anthropic --max-cost 2\n  \
                        LAB_API_KEY=… refrain gateway --provider lab=http://127.0.0.1:8000/v1 --port 0\n  \
                        refrain gateway runs/nightly.yaml\n\n\
                        Exit codes: 0 it ended as asked, 1 --check found a difference, 2 usage or configuration, such as \
                        a port that is taken, 4 store")]
pub(super) struct Args {
    #[command(flatten)]
    choice: providers::Args,
    /// The address to listen at (127.0.0.1)
    #[arg(long)]
    host: Option<IpAddr>,
    /// The port to listen at (8877); 0 for a free one
    #[arg(long)]
    port: Option<u16>,
    /// Refuse further requests of a provider once they have cost so much, and requests for models without a price
    #[arg(long, value_name = "USD", value_parser = dollars, allow_hyphen_values = true)]
    max_cost: Option<Micros>,
    /// Let requests for models without a price pass although --max-cost does not hold them
    #[arg(long)]
    allow_unpriced: bool,
    /// Also keep what is asked and answered, redacted
    #[arg(long)]
    bodies: bool,
    /// Instead do what `refrain canary` does
    #[arg(long)]
    check: bool,
    /// The model of --check
    #[arg(long, requires = "check")]
    model: Option<String>,
}

pub(super) fn main(args: &Args) -> Outcome {
    let mut choice = args.choice.choose(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    let own = choice.plan.as_ref().map(|plan| &plan.gateway);
    let host = args.host.or_else(|| own?.host).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let port = args.port.or_else(|| own?.port).unwrap_or(DEFAULT_PORT);
    choice.options.listen = SocketAddr::new(host, port);
    choice.options.max_cost = args.max_cost;
    choice.options.allow_unpriced |= args.allow_unpriced;
    if args.bodies {
        choice.options.record = Recording::Bodies;
    }
    if args.check {
        return canary::run(choice, &canary::Wish { model: args.model.clone(), ..canary::Wish::default() });
    }
    serve(choice)
}

fn serve(choice: Choice) -> Outcome {
    let Choice { names, options, .. } = choice;
    let runtime = super::run::async_runtime()?;
    runtime.block_on(async {
        let mut gateway = StandaloneGateway::start(options).await?;
        for provider in &names {
            gateway.open(provider, Trace::Agent)?;
        }
        // Before anybody is told that it runs: who is told may end it at once.
        let signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tell(&gateway)?;
        watch(&gateway, signals).await?;
        for door in gateway.doors() {
            eprint_line(&format!("{:>12} {}", "Total", totals(door)));
        }
        gateway.close().await;
        Ok(exit::OK)
    })
}

/// Prints what to set in a program. Here alone tokens are shown: whoever started the gateway is to use them.
fn tell(gateway: &StandaloneGateway) -> Result<(), Failed> {
    let mut out = std::io::stdout().lock();
    let doors = gateway.doors().iter().map(|door| (door.provider(), door.base_url(), door.token()));
    write!(out, "{}", settings(doors))?;
    out.flush()?;
    let (listen, home) = (gateway.listen(), gateway.address());
    eprint_line(&format!("{:>12} at http://{listen}, until Ctrl-C", "Listening"));
    if listen != home {
        let ip = home.ip();
        eprint_line(&format!(
            "{:>12} programs on other machines and in containers put an address of this machine in the place of {ip}",
            "Note"
        ));
    }
    Ok(())
}

/// The variables by which programs of each provider are pointed at the gateway. Where two would have the same ones, later
/// providers have some of their own, and it is said what they are for.
fn settings<'a>(doors: impl Iterator<Item = (&'a str, &'a str, &'a str)>) -> String {
    let (mut text, mut taken) = (String::new(), Vec::new());
    for (name, base_url, token) in doors {
        // One of somebody's own speaks what most do.
        let (url, path, key) = KnownProvider::named(name)
            .map_or(("OPENAI_BASE_URL", "/v1", "OPENAI_API_KEY"), |known| {
                (known.base_url_env, known.base_path, known.api_key_env)
            });
        let (mut own_url, mut own_key) = (url.to_owned(), key.to_owned());
        let mut about = String::new();
        if taken.contains(&own_url) || taken.contains(&own_key) {
            own_url = providers::variable(name, "BASE_URL");
            own_key = providers::variable(name, "API_KEY");
            about = format!(": what a program that is to ask it needs as {url} and {key}");
        }
        text.push_str(&format!("# {name}{about}\nexport {own_url}={base_url}{path}\nexport {own_key}={token}\n"));
        taken.extend([own_url, own_key]);
    }
    text
}

/// Shows the totals when they change, until a signal ends it.
async fn watch(gateway: &StandaloneGateway, (mut interrupt, mut terminate): (Signal, Signal)) -> Result<(), Failed> {
    let mut shown: Vec<(u32, usize)> = gateway.doors().iter().map(|_| (0, 0)).collect();
    loop {
        for (door, shown) in gateway.doors().iter().zip(&mut shown) {
            look(door, shown);
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
        }
    }
    for (door, shown) in gateway.doors().iter().zip(&mut shown) {
        look(door, shown);
    }
    Ok(())
}

/// Shows what is new: how many requests came, and what they asked for that has no price.
fn look(door: &StandaloneDoor, (requests, models): &mut (u32, usize)) {
    let now = door.spent().0;
    if now != *requests {
        *requests = now;
        eprint_line(&format!("{:>12} {}", "Passed", totals(door)));
    }
    let unpriced = door.unpriced();
    if unpriced.len() != *models {
        *models = unpriced.len();
        let (names, provider) = (unpriced.join(", "), door.provider());
        let (word, what) = if door.refuses_unpriced() {
            ("Refused", "--max-cost cannot hold what has no price: give a price file by --prices, or --allow-unpriced")
        } else {
            ("Unpriced", "what it costs is unknown, and no ceiling holds it")
        };
        eprint_line(&format!("{word:>12} {provider}: {names}: {what}"));
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
        cost.map_or_else(|| "cost unknown".to_owned(), |cost| text::cost(Some(cost)))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_is_set_twice() {
        let doors = [("openai", "http://g/1", "a"), ("my-lab", "http://g/2", "b"), ("anthropic", "http://g/3", "c")];
        let told = settings(doors.into_iter());
        assert_eq!(
            told,
            "# openai\nexport OPENAI_BASE_URL=http://g/1/v1\nexport OPENAI_API_KEY=a\n\
             # my-lab: what a program that is to ask it needs as OPENAI_BASE_URL and OPENAI_API_KEY\n\
             export MY_LAB_BASE_URL=http://g/2/v1\nexport MY_LAB_API_KEY=b\n\
             # anthropic\nexport ANTHROPIC_BASE_URL=http://g/3\nexport ANTHROPIC_API_KEY=c\n"
        );
        let alone = settings([("my-lab", "http://g/2", "b")].into_iter());
        assert!(alone.starts_with("# my-lab\nexport OPENAI_BASE_URL=http://g/2/v1\n"), "{alone}");
    }
}
