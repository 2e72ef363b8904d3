//! `refrain resume`: goes on with a run by its name.

use std::path::PathBuf;

use super::results::{find_run, open};
use super::run::{self, Progress};
use super::started::Started;
use super::{Outcome, output};

/// Go on with a run: what is finished is skipped, what was cut off goes on where it was
///
/// Does what the command that started the run did, with the same run file, selection and settings. Finished sessions
/// answer from the journal and cost nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain resume\n  refrain resume nightly")]
pub(super) struct Args {
    /// The run; by default the latest
    run: Option<String>,
    /// Keep finished cells although task, script, parameters, harness or image have changed since
    #[arg(long)]
    accept_changes: bool,
    /// Print the totals as JSON
    #[arg(long)]
    json: bool,
    /// How to show progress
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    progress: Progress,
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    db: PathBuf,
}

pub(super) fn main(args: &Args) -> Outcome {
    let name = find_run(&open(&args.db)?, args.run.as_deref())?;
    let started = Started::read(&args.db, &name)?;
    let plan = started.load(&name)?;
    let db = plan.results_db.clone();
    let summary = run::execute(plan, args.progress, |run| {
        run.accept_changes(args.accept_changes).check_gateway(started.checks_gateway())
    })?;
    if args.json {
        output::write_json(&run::totals(&summary)?)?;
    } else {
        run::show_next(args.progress, &name, &db);
    }
    Ok(super::exit::of_run(&summary, None))
}
