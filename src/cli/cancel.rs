//! `refrain cancel`: stops a run from another terminal, through its store.

use std::path::PathBuf;

use super::results::{find_run, open};
use super::{Failed, Outcome, exit, output};
use crate::clock::{Clock, SystemClock};
use crate::store::{CancelRequest, HostRow, Store};

/// Cancel a run from another terminal, as Ctrl-C in its own would
///
/// The first time, running cells finish and nothing new starts; each further time goes one step on: sessions are stopped
/// and recorded, then everything is killed. `--now` begins with stopping sessions. The run stays consistent at each
/// step, and its `refrain run` goes on with it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain cancel\n  refrain cancel nightly --now\n\n\
                        Exit codes: 0 the run was asked, 2 nobody carries it out, 4 store")]
pub(super) struct Args {
    /// The run; by default the latest
    run: Option<String>,
    /// Stop sessions at once instead of letting them finish
    #[arg(long)]
    now: bool,
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    db: PathBuf,
}

pub(super) fn main(args: &Args) -> Outcome {
    let run = find_run(&open(&args.db)?, args.run.as_deref())?;
    let store = Store::open(&args.db)?;
    let now = SystemClock::new().now();
    let hosts = store.hosts(&run).wait()?;
    let alive: Vec<_> = hosts.iter().filter(|host| host.is_alive(now)).collect();
    if alive.is_empty() {
        return Err(nobody(run.as_str(), hosts.first()));
    }
    for host in alive {
        let request = match host.cancel {
            None if args.now => CancelRequest::Stop,
            None => CancelRequest::Drain,
            Some(present) => present.stronger(),
        };
        store.request_cancel(&host.handle, request, now).wait()?;
        let process = host.owner.as_ref().map_or(0, |owner| owner.pid);
        let what = match request {
            CancelRequest::Drain => "running cells finish, nothing new starts (again: stop them)",
            CancelRequest::Stop => "sessions end now and are recorded (again: kill)",
            CancelRequest::Kill => "everything is killed and recorded",
        };
        output::write(&format!("run `{run}`, process {process}: {what}\n"))?;
    }
    Ok(exit::OK)
}

fn nobody(run: &str, last: Option<&HostRow>) -> Failed {
    let why = match last {
        Some(host) if host.finished_at.is_some() => "its last start has ended".to_owned(),
        Some(host) => {
            let process = host.owner.as_ref().map_or_else(String::new, |owner| format!(" (process {})", owner.pid));
            format!("its host{process} is gone")
        }
        None => "it was never started".to_owned(),
    };
    Failed::usage(anyhow::anyhow!("nobody carries out the run `{run}`: {why}"))
        .with_hint(format!("`refrain status {run}` shows how it stands"))
}
