//! `refrain calibrate`: how far a run's judge agrees with people.

use std::path::PathBuf;

use serde::Serialize;

use super::run::eprint_line;
use super::{Failed, Outcome, exit, judged, output, run};
use crate::config::examples::{Example, examples};
use crate::config::{self, LoadOptions};
use crate::domain::Micros;
use crate::host::{CalibrateOptions, ExampleScored};
use crate::judge::Calibration;
use crate::redact::printable;
use crate::report::text;

/// Let a run's judge score work that people have scored, and compare
///
/// The examples lie in folders, each with an `example.yaml`: the task, the work as a diff, and the points that people gave.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain calibrate runs/nightly.yaml calibration\n  \
                        refrain calibrate runs/nightly.yaml calibration --min-agreement 0.8 --max-cost 2\n\n\
                        Exit codes: 0 the judge scored all of it, 10 below --min-agreement, 11 an example has no score, \
                        2 usage or configuration, 4 store")]
pub(super) struct Args {
    /// The run file with the judge and the tasks
    file: PathBuf,
    /// The folder with the examples
    examples: PathBuf,
    /// How far scores may lie apart and count as the same, in points
    #[arg(long, value_name = "POINTS", default_value_t = 1.0)]
    tolerance: f64,
    /// The least share of scores within the tolerance, from 0 to 1; less is exit code 10
    #[arg(long, value_name = "SHARE")]
    min_agreement: Option<f64>,
    /// The most dollars that all of it may cost
    #[arg(long, value_name = "USD")]
    max_cost: Option<f64>,
    /// Set a field of the run file, as in `--set judge.samples=3`; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// What was found, for machines.
#[derive(Serialize)]
struct Json<'a> {
    schema: u32,
    calibrations: &'a [Calibration],
}

pub(super) fn main(args: &Args) -> Outcome {
    let in_range = |share: f64| (0.0..=1.0).contains(&share);
    if args.min_agreement.is_some_and(|share| !in_range(share)) {
        return Err(Failed::usage(anyhow::anyhow!("`--min-agreement` is a share from 0 to 1")));
    }
    if !args.tolerance.is_finite() || args.tolerance < 0.0 {
        return Err(Failed::usage(anyhow::anyhow!("`--tolerance` is a number of points, 0 or more")));
    }
    let options = CalibrateOptions { tolerance: args.tolerance, max_cost: args.max_cost.map(dollars).transpose()? };
    let load = LoadOptions { set: args.set.clone(), ..LoadOptions::new(&args.file) };
    let (plan, warnings) = config::load(load)?;
    run::show_warnings(&warnings);
    if plan.judge.is_none() {
        let error = anyhow::anyhow!("`{}` has no `judge` to calibrate", args.file.display());
        return Err(Failed::usage(error).with_hint("add `judge` with a `model` and its `provider`"));
    }
    let examples: Vec<Example> = examples(&args.examples, &plan)?;
    let found = run::cancellable(|cancel| async move {
        let host = run::host(false);
        Ok(host.calibrate(&plan, &examples, options, &cancel, |scored| eprint_line(&told(scored))).await?)
    })?;
    if args.json {
        output::write_json(&Json { schema: 1, calibrations: &found })?;
    } else {
        let lines: String = found.iter().map(shown).collect();
        output::write(&lines)?;
    }
    Ok(code(&found, args.min_agreement))
}

fn dollars(amount: f64) -> Result<Micros, Failed> {
    let wrong = || Failed::usage(anyhow::anyhow!("`--max-cost` is an amount of dollars, 0 or more"));
    Micros::from_dollars(amount).ok().filter(|amount| *amount >= Micros::ZERO).ok_or_else(wrong)
}

/// Says what came of one example.
fn told(scored: &ExampleScored) -> String {
    let judged = match (scored.asked.score, &scored.asked.error) {
        (Some(score), _) => format!("people {:.2}, judge {score:.2}", scored.expected),
        (None, error) => format!("no score: {}", error.as_deref().unwrap_or("unknown")),
    };
    printable(&format!("{} ({}): {judged}", scored.name, scored.task)).replace('\n', " ")
}

fn shown(found: &Calibration) -> String {
    let (task, model, provider) = (printable(&found.task), printable(&found.model), printable(&found.provider));
    let mut lines = format!(
        "{task}: judge {} ({model} of {provider}), rubric version {}\n  {}\n  cost {}\n",
        found.judge_version,
        found.rubric_version,
        judged::calibrated(found),
        text::cost(found.cost)
    );
    for error in &found.errors {
        lines.push_str(&format!("  not judged: {}\n", printable(error).replace('\n', " ")));
    }
    lines
}

/// A share over what happened to be judged proves nothing: an example without a score is told first.
fn code(found: &[Calibration], least: Option<f64>) -> u8 {
    if found.iter().any(|calibration| !calibration.errors.is_empty()) {
        return exit::ERRORED;
    }
    let misses = |least| found.iter().any(|calibration| calibration.proven().is_none_or(|share| share < least));
    if least.is_some_and(misses) { exit::THRESHOLD } else { exit::OK }
}
