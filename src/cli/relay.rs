//! `refrain relay`: what containers without a network reach the host's gateway by. Hidden: the host starts it in them.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::Outcome;
use crate::runtime::docker::relay::{Relay, parts};

/// Pass connections on to a Unix socket (started in containers of `network: gateway-only`)
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", required_unless_present = "parts")]
    listen: Option<SocketAddr>,
    /// The socket to pass connections on to
    #[arg(long, value_name = "SOCKET", required_unless_present = "parts")]
    to: Option<PathBuf>,
    /// Wait until a relay there and its socket answer, for as many seconds
    #[arg(long, value_name = "SECONDS")]
    check: Option<u64>,
    /// Print which files this program needs to run elsewhere
    #[arg(long, conflicts_with_all = ["listen", "to", "check"])]
    parts: bool,
}

pub(super) fn main(args: Args) -> Outcome {
    use std::io::Write;

    let (Some(listen), Some(to)) = (args.listen, args.to) else {
        std::io::stdout().write_all(parts::to_text(&parts::own()?).as_bytes())?;
        return Ok(0);
    };
    raise_limit_of_files();
    let relay = Relay { listen, to };
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        match args.check {
            Some(seconds) => relay.check(Duration::from_secs(seconds)).await,
            None => relay.serve().await,
        }
    })?;
    Ok(0)
}

/// Each connection takes two descriptors, and the usual limit is meant for programs that use few.
fn raise_limit_of_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Fewer connections at a time are no reason to have none.
    let _ = setrlimit(Resource::Nofile, limit);
}
