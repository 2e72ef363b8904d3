//! `refrain run`: runs the cells of a run file.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Subcommand, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use super::started::Started;
use super::{Failed, Outcome, exit, output, single};
use crate::config::{self, LoadOptions, RunPlan, Warnings};
use crate::domain::RunName;
use crate::domain::event::RunSummary;
use crate::host::{CancelHandle, CancelLevel, Host, Run, advice};
use crate::redact::printable;
use crate::report::{JsonReporter, LineReporter, ProgressReporter, Reporter};
use crate::store::Store;

/// Run the cells of a run file that are not decided yet
///
/// The same command again goes on where the last one stopped: finished cells are skipped, everything else is run.
/// The first Ctrl-C starts nothing new, the second stops sessions and records them, the third kills.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  refrain run runs/quickstart.yaml\n  \
                        refrain run runs/nightly.yaml --dry-run\n  \
                        refrain run runs/nightly.yaml --only '*__fix-*' --set parallel_runs=8\n  \
                        refrain run single fix-off-by-one --harness scripted --model scripted-small\n\n\
                        Exit codes: 0 every cell reached a verdict, 2 usage or configuration, 3 runtime unavailable, \
                        4 store, 10 below --fail-under, 11 a cell ended in an error that is not the agent's, \
                        12 cells skipped for lack of budget, 130 interrupted")]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<RunCommand>,
    /// The run file
    #[arg(required = true)]
    file: Option<PathBuf>,
    /// Print the cells that would run, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the whole plan (with --dry-run) or the totals as JSON
    #[arg(long)]
    json: bool,
    /// Run only cells whose id matches the pattern; may be given several times
    #[arg(long, value_name = "GLOB")]
    only: Vec<String>,
    /// Set a field of the run file, as in `--set repeats=3`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Set a parameter of the orchestrators that have it; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    param: Vec<String>,
    /// Also look for orchestrators in this directory; may be given several times
    #[arg(long, value_name = "PATH")]
    orchestrator_dir: Vec<PathBuf>,
    /// Keep finished cells although task, script, parameters, harness or image have changed since
    #[arg(long, conflicts_with = "fork")]
    accept_changes: bool,
    /// Run under another name, beside the results that there are; without a name, the first free one
    #[arg(long, value_name = "NAME", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    fork: Option<String>,
    /// Exit with 10 if fewer than this percentage of the cells with a verdict are solved
    #[arg(long, value_name = "PERCENT")]
    fail_under: Option<f64>,
    /// A price file that goes before all others; may be given several times, the last goes first
    #[arg(long, value_name = "FILE")]
    prices: Vec<PathBuf>,
    /// Do not try, before the first cell, whether environments reach the gateway
    #[arg(long)]
    no_check_gateway: bool,
    /// How to show progress
    #[arg(long, value_enum, default_value_t = Progress::Auto)]
    progress: Progress,
}

#[derive(Debug, Subcommand)]
enum RunCommand {
    Single(single::Args),
}

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Progress {
    /// A bar on a terminal, lines elsewhere
    Auto,
    /// A bar and the running cells
    Bar,
    /// A line for each start and end
    Lines,
    /// Events as JSON lines on standard output
    Json,
    /// Nothing
    None,
}

impl Progress {
    /// Makes the reporters for this choice.
    pub(super) fn reporters(self) -> Vec<Box<dyn Reporter>> {
        let drawn = || Box::new(ProgressReporter::stderr()) as Box<dyn Reporter>;
        let lines = || Box::new(LineReporter::new(anstream::stderr())) as Box<dyn Reporter>;
        match self {
            Self::Auto if output::can_draw() => vec![drawn()],
            Self::Auto | Self::Lines => vec![lines()],
            Self::Bar => vec![drawn()],
            Self::Json => vec![Box::new(JsonReporter::new(std::io::stdout()))],
            Self::None => Vec::new(),
        }
    }
}

pub(super) fn main(args: Args) -> Outcome {
    if let Some(RunCommand::Single(single)) = &args.command {
        return single::main(single);
    }
    let Some(file) = args.file.clone() else {
        return Err(Failed::usage(anyhow::anyhow!("a run file is needed")));
    };
    if args.fail_under.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return Err(Failed::usage(anyhow::anyhow!("`--fail-under` takes a percentage from 0 to 100")));
    }
    let options = LoadOptions {
        set: args.set.clone(),
        params: args.param.clone(),
        orchestrator_dirs: super::list::orchestrator_path(&args.orchestrator_dir),
        only: args.only.clone(),
        ..LoadOptions::new(file)
    };
    let started = Started::of(&options, &args.prices, !args.no_check_gateway);
    let (mut plan, warnings) = config::load(options)?;
    show_warnings(&warnings);
    if let Some(name) = &args.fork {
        plan.name = fork_name(&plan, name)?;
        eprint_line(&format!("{:>12} as `{}`", "Forked", plan.name));
    }
    plan.prices.extend(args.prices.iter().cloned());
    show_advice(&plan);
    if args.dry_run {
        return dry_run(&plan, args.json);
    }
    started.save(&plan);
    let (name, db) = (plan.name.clone(), plan.results_db.clone());
    let summary = execute(plan, args.progress, |run| {
        run.accept_changes(args.accept_changes).check_gateway(!args.no_check_gateway)
    })?;
    if args.json {
        output::write_json(&totals(&summary)?)?;
    } else {
        show_next(args.progress, &name, &db);
    }
    Ok(exit::of_run(&summary, args.fail_under))
}

/// The totals of a run as they are printed with `--json`.
pub(super) fn totals(summary: &RunSummary) -> Result<serde_json::Value, Failed> {
    let mut totals = serde_json::to_value(summary).map_err(Failed::usage)?;
    totals["schema"] = 1.into();
    Ok(totals)
}

/// Says what to do after a run, to people. Commands that read look for the database in the current folder, and are told
/// where it is when it is elsewhere.
pub(super) fn show_next(progress: Progress, run: &RunName, db: &Path) {
    if progress == Progress::Json || progress == Progress::None {
        return;
    }
    let named = environment().find_map(|(name, value)| (name == "REFRAIN_DB").then_some(value));
    let found = Path::new(named.as_deref().unwrap_or("refrain.db"));
    let place = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let elsewhere = if place(found) == place(db) { String::new() } else { format!(" --db {}", quoted(db)) };
    eprint_line(&format!("{:>12} refrain results {run}{elsewhere}", "Next"));
}

/// A path as a shell reads it.
fn quoted(path: &Path) -> String {
    let text = printable(&path.display().to_string());
    let plain = |c: char| c.is_alphanumeric() || "/._-+,:@".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Returns the name that was asked for, or the run's own with the first number behind it that is free.
fn fork_name(plan: &RunPlan, asked: &str) -> Result<RunName, Failed> {
    if !asked.is_empty() {
        let named = RunName::new(asked).with_context(|| format!("`--fork={asked}` is no name for a run"));
        return named.map_err(Failed::usage);
    }
    let taken: Vec<String> = if plan.results_db.exists() {
        let runs = Store::open_read_only(&plan.results_db)?.runs().wait()?;
        runs.into_iter().map(|run| run.name.to_string()).collect()
    } else {
        Vec::new()
    };
    let names = (2_u32..).map(|number| format!("{}-{number}", plan.name));
    let free = names.into_iter().find(|name| !taken.contains(name));
    RunName::new(free.unwrap_or_default()).map_err(Failed::usage)
}

/// Says a line that is no data.
pub(super) fn eprint_line(line: &str) {
    anstream::eprintln!("{line}");
}

pub(super) fn show_warnings(warnings: &Warnings) {
    for warning in &warnings.0 {
        eprint_line(warning.render(true).trim_end());
    }
}

/// Says what the plan's author should know before it runs.
pub(super) fn show_advice(plan: &RunPlan) {
    for line in advice(plan) {
        eprint_line(&format!("\x1b[1;33mwarning\x1b[0m: {}", printable(&line)));
    }
}

/// Executes a plan, as `adjust` wants it, with signals turned into cancellation.
pub(super) fn execute(
    plan: RunPlan,
    progress: Progress,
    adjust: impl FnOnce(Run) -> Run,
) -> Result<RunSummary, Failed> {
    cancellable(|cancel| async move {
        let host = host(matches!(progress, Progress::Auto | Progress::Bar | Progress::Lines));
        let run = host.prepare_with(plan, progress.reporters(), cancel).await?;
        Ok(adjust(run).execute().await?)
    })
}

/// Starts what carries out async work.
pub(super) fn async_runtime() -> Result<tokio::runtime::Runtime, Failed> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().build().context("cannot start the async runtime");
    runtime.map_err(Failed::usage)
}

/// Does async work that signals can cancel.
pub(super) fn cancellable<T, F: Future<Output = Result<T, Failed>>>(
    work: impl FnOnce(CancelHandle) -> F,
) -> Result<T, Failed> {
    let runtime = async_runtime()?;
    let cancel = CancelHandle::new();
    let done = runtime.block_on(async {
        tokio::select! {
            done = work(cancel.clone()) => done,
            error = obey_signals(cancel) => Err(Failed::usage(error)),
        }
    });
    // Nothing of the work is left; a thread that blocks on a dead pipe must not hold the program.
    runtime.shutdown_background();
    done
}

/// A host in the world of this process. `tells` lets it say what takes a while before the first cell.
pub(super) fn host(tells: bool) -> Host {
    let mut builder = Host::builder().environment(environment());
    if tells {
        builder = builder.notice(|line| eprint_line(&format!("{:>12} {line}", "Preparing")));
    }
    match std::env::current_exe() {
        Ok(program) => builder.program(program),
        Err(_) => builder,
    }
    .build()
}

/// The variables of this process. Those that are no text can be neither a key nor a path that we pass on.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Turns Ctrl-C and SIGTERM into escalating cancellation; ends only if signals cannot be heard.
async fn obey_signals(cancel: CancelHandle) -> anyhow::Error {
    let (mut interrupt, mut terminate) = match (signal(SignalKind::interrupt()), signal(SignalKind::terminate())) {
        (Ok(interrupt), Ok(terminate)) => (interrupt, terminate),
        (Err(error), _) | (_, Err(error)) => return anyhow::Error::new(error).context("cannot listen for signals"),
    };
    loop {
        let level = tokio::select! {
            _ = interrupt.recv() => cancel.escalate(),
            _ = terminate.recv() => {
                cancel.raise(CancelLevel::Stop);
                cancel.level()
            }
        };
        eprint_line(match level {
            CancelLevel::None => continue,
            CancelLevel::Drain => "  Cancelling: running cells finish, nothing new starts (again: stop them)",
            CancelLevel::Stop => "  Stopping: sessions end now and are recorded (again: kill)",
            CancelLevel::Kill => "  Killing",
        });
    }
}

/// How many cells a dry run shows.
const SHOWN: usize = 20;

fn dry_run(plan: &RunPlan, json: bool) -> Outcome {
    let rows = plan.cells.iter().map(|cell| {
        let model = match cell.review_model {
            Some(review) => format!("{} + {}", plan.models[cell.model].name, plan.models[review].name),
            None => plan.models[cell.model].name.clone(),
        };
        [
            cell.id.to_string(),
            plan.harnesses[cell.harness].name.clone(),
            model,
            plan.tasks[cell.task].id.clone(),
            plan.orchestrators[cell.orchestrator].label.clone(),
            cell.repeat.to_string(),
        ]
    });
    if json {
        let cells: Vec<_> = rows
            .map(|[cell_id, harness, model, task, orchestrator, repeat]| {
                serde_json::json!({
                    "cell_id": cell_id, "harness": harness, "model": model, "task": task,
                    "orchestrator": orchestrator, "repeat": repeat.parse::<u32>().unwrap_or_default(),
                })
            })
            .collect();
        output::write_json(&serde_json::json!({"schema": 1, "run": plan.name, "total": cells.len(), "cells": cells}))?;
        return Ok(exit::OK);
    }
    let head = ["cell id", "harness", "model", "task", "orchestrator", "repeat"];
    output::write(&output::table(head, rows.take(SHOWN)))?;
    let total = plan.cells.len();
    if total > SHOWN {
        output::write(&format!("… and {} more (--json lists all)\n", total - SHOWN))?;
    }
    output::write(&format!("\n{total} cells\n"))?;
    Ok(exit::OK)
}
