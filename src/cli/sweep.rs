//! `refrain sweep`: removes what runs that were killed have left.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::{Failed, Outcome, exit, output, run};

/// Remove containers, processes and scratch files that no living run owns
///
/// Every run does this at its start. Results, records and prepared images stay.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain sweep\n  refrain sweep --workdir /data/refrain --json")]
pub(super) struct Args {
    /// The folder that runs keep their state in (`workdir` of the run file)
    #[arg(long, value_name = "PATH", default_value = ".refrain")]
    workdir: PathBuf,
    /// Print what was removed as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn main(args: &Args) -> Outcome {
    let workdir = std::path::absolute(&args.workdir).map_err(Failed::from)?;
    let all = run::cancellable(|_| async move { Ok(run::host(false).sweep(&workdir).await) })?;
    let removed: BTreeMap<&String, &Vec<String>> =
        all.iter().filter_map(|(name, swept)| Some((name, swept.as_ref().ok()?))).collect();
    let failed: BTreeMap<&String, String> =
        all.iter().filter_map(|(name, swept)| Some((name, swept.as_ref().err()?.to_string()))).collect();
    if args.json {
        output::write_json(&serde_json::json!({"schema": 1, "removed": removed, "unreachable": failed}))?;
        return Ok(exit::OK);
    }
    for (name, lines) in &removed {
        for line in *lines {
            output::write(&format!("{name}: {}\n", crate::redact::printable(line)))?;
        }
    }
    if removed.values().all(|lines| lines.is_empty()) {
        output::write("nothing was left behind\n")?;
    }
    // A machine without Docker has no containers to sweep: a note, no failure.
    for (name, why) in failed {
        run::eprint_line(&format!("note: the runtime `{name}` was not swept: {why}"));
    }
    Ok(exit::OK)
}
