//! `refrain run single`: one cell without a run file.

use std::path::PathBuf;

use super::run::{Progress, execute, show_advice, show_warnings};
use super::{Outcome, exit, output};
use crate::config::{self, SingleOptions};
use crate::domain::CellId;

/// Run one task once, without a run file
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  refrain run single fix-off-by-one --harness scripted --model scripted-small \\\n      \
                        --config play=runs/quickstart.play.yaml\n  \
                        refrain run single fix-off-by-one --harness claude-code --model claude-sonnet-4-5 \\\n      \
                        --provider anthropic --api-key-env ANTHROPIC_API_KEY --orchestrator refine\n\n\
                        Exit codes: 0 completed and solved, 1 not solved, whatever the reason, 2 usage or configuration, \
                        3 runtime unavailable, 4 store, 130 interrupted"
)]
pub(super) struct Args {
    /// The task's id
    task: String,
    /// A built-in harness, or the path of a harness directory
    #[arg(long)]
    harness: String,
    /// The model's id at its provider
    #[arg(long)]
    model: String,
    /// The model of review phases; by default the same
    #[arg(long)]
    review_model: Option<String>,
    /// The model's provider
    #[arg(long)]
    provider: Option<String>,
    /// The variable that holds the model's key
    #[arg(long, value_name = "VARIABLE")]
    api_key_env: Option<String>,
    /// The orchestrator; by default the track's own
    #[arg(long)]
    orchestrator: Option<String>,
    /// Set a parameter of the orchestrator; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    param: Vec<String>,
    /// Set a setting of the harness; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// Do not plant the task's mutation: the agent finds the repository as it was
    #[arg(long)]
    no_mutation: bool,
    /// The task library
    #[arg(long, value_name = "PATH")]
    tasks: Option<PathBuf>,
    /// Set any other field that a run file can have, as in `--set limits.sessions=3`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Also look for orchestrators in this directory; may be given several times
    #[arg(long, value_name = "PATH")]
    orchestrator_dir: Vec<PathBuf>,
    /// How many further attempts an infrastructure fault gets
    #[arg(long, value_name = "N", default_value_t = 0)]
    infrastructure_retries: u32,
    /// Where to execute
    #[arg(long, default_value = "local")]
    runtime: String,
    /// Print the run record as JSON
    #[arg(long)]
    json: bool,
    /// How to show progress
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    progress: Progress,
}

pub(super) fn main(args: &Args) -> Outcome {
    let options = SingleOptions {
        task: args.task.clone(),
        harness: args.harness.clone(),
        model: args.model.clone(),
        review_model: args.review_model.clone(),
        orchestrator: args.orchestrator.clone(),
        no_mutation: args.no_mutation,
        task_library: args.tasks.clone(),
        set: changes(args),
        params: args.param.clone(),
        orchestrator_dirs: super::list::orchestrator_path(&args.orchestrator_dir),
    };
    let (plan, warnings) = config::single(options)?;
    show_warnings(&warnings);
    show_advice(&plan);
    let (run, database) = (plan.name.clone(), plan.results_db.clone());
    let cell: Option<CellId> = plan.cells.first().map(|cell| cell.id.clone());
    // Whoever types a cell wants to see it run, also a second time.
    let summary = execute(plan, args.progress, |run| run.again(true))?;
    if let (true, Some(cell)) = (args.json, cell) {
        let record = super::show::record(&database, &run, &cell)?;
        output::write_json(&record)?;
    }
    Ok(match exit::of_run(&summary, None) {
        exit::INTERRUPTED => exit::INTERRUPTED,
        exit::OK if summary.passed == 1 => exit::OK,
        _ => exit::NOT_SOLVED,
    })
}

/// What the arguments say beyond the coordinates, as changes of the run. What was typed as `--set` comes last and wins.
fn changes(args: &Args) -> Vec<String> {
    let mut set =
        vec![format!("runtime={}", args.runtime), format!("retry.infrastructure={}", args.infrastructure_retries)];
    set.extend(args.provider.iter().map(|provider| format!("models.0.provider={provider}")));
    set.extend(args.api_key_env.iter().map(|variable| format!("models.0.api_key_env={variable}")));
    set.extend(args.config.iter().map(|setting| format!("harnesses.0.config.{setting}")));
    set.extend(args.set.iter().cloned());
    set
}
