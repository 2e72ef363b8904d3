//! `refrain replay`: runs a cell's script again over its journal.

use std::path::PathBuf;

use super::results::{find_run, open};
use super::show::find_among;
use super::started::Started;
use super::{Failed, Outcome, exit, output, run};
use crate::domain::AttemptId;
use crate::host::{Rehearsal, RehearsalEnd, Step};
use crate::redact::printable;
use crate::script::{Answer, HostCall, HostError};

/// Run a cell's script again over its journal, free of charge
///
/// Prints every call and its answer. Nothing is begun and nothing is changed. With another script it shows where that
/// script would part from history.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  refrain replay fix-off-by-one__r1__orch-refine\n  refrain replay fix-off-by-one__r1 --with ./refine-2\n\n\
                        Exit codes: 0 the script did what the journal tells, 1 it parted from it or failed"
)]
pub(super) struct Args {
    /// The cell's id, or a part of it that only one cell has
    cell: String,
    /// The run; by default the latest
    #[arg(long)]
    run: Option<String>,
    /// Which attempt; by default the last
    #[arg(long)]
    attempt: Option<u32>,
    /// Run the orchestrator in this folder instead
    #[arg(long, value_name = "DIR")]
    with: Option<PathBuf>,
    /// Print calls and answers as JSON
    #[arg(long)]
    json: bool,
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    db: PathBuf,
}

pub(super) fn main(args: &Args) -> Outcome {
    let store = open(&args.db)?;
    let name = find_run(&store, args.run.as_deref())?;
    // Also a cell that is under way has a journal.
    let tried: Vec<_> = store.states(&name).wait()?.into_iter().map(|state| state.cell).collect();
    let cell = find_among(&tried, &name, &args.cell)?;
    let last = store.attempts(&name, &cell).wait()?.last().map(|attempt| attempt.id.number);
    let number = args.attempt.or(last).unwrap_or(1);
    let plan = Started::read(&args.db, &name)?.load(&name)?;
    let attempt = AttemptId { run: name, cell, number };
    let runtime = run::async_runtime()?;
    let rehearsal = runtime.block_on(run::host(false).rehearse(&plan, &attempt, args.with.as_deref()))?;
    if args.json {
        let mut value = serde_json::to_value(&rehearsal).map_err(Failed::usage)?;
        value["schema"] = 1.into();
        output::write_json(&value)?;
    } else {
        output::write(&shown(&rehearsal))?;
    }
    Ok(match rehearsal.end {
        RehearsalEnd::Returned { .. } | RehearsalEnd::JournalEnds { .. } => exit::OK,
        _ => exit::NOT_SOLVED,
    })
}

fn shown(rehearsal: &Rehearsal) -> String {
    let mut text: String = rehearsal.steps.iter().map(step).collect();
    text.push_str(&match &rehearsal.end {
        RehearsalEnd::Returned { value } => format!("\nreturned {}\n", short(&value.to_string())),
        RehearsalEnd::Failed { message } => format!("\nfailed: {}\n", printable(message)),
        RehearsalEnd::Parted { reason } => format!("\nparts from the journal here: {}\n", printable(reason)),
        RehearsalEnd::JournalEnds { next } => {
            let next: Vec<String> = next.iter().map(asked).collect();
            format!("\nthe journal ends here; the script goes on with {}\n", next.join(", "))
        }
    });
    text
}

fn step(step: &Step) -> String {
    let reply = match &step.reply {
        Ok(answer) => answered(answer),
        Err(HostError::Misuse { message } | HostError::Stop { message }) => format!("raised: {message}"),
        Err(HostError::Refused { limit, message }) => format!("refused ({limit}): {message}"),
    };
    format!("{:>5}  {}\n       → {}\n", step.seq, asked(&step.call), short(&reply))
}

fn asked(call: &HostCall) -> String {
    let arguments = match call {
        HostCall::Session(call) => format!("{:?}", call.prompt),
        HostCall::Exec { argv, .. } => format!("{argv:?}"),
        HostCall::Read { path, .. } | HostCall::Exists { path, .. } | HostCall::List { path, .. } => {
            format!("{path:?}")
        }
        HostCall::Write { path, content, .. } => format!("{path:?}, {} bytes", content.len()),
        HostCall::Glob { pattern, .. } => format!("{pattern:?}"),
        HostCall::Fork { from } => from.0.to_string(),
        HostCall::Merge { from, into } => format!("{} into {}", from.0, into.0),
        HostCall::Discard { workspace } => workspace.0.to_string(),
        HostCall::Sleep { duration } => format!("{} s", duration.as_secs_f64()),
        HostCall::Log { level, text } => format!("{level}: {text}"),
        _ => String::new(),
    };
    format!("{}({})", call.function(), short(&arguments))
}

fn answered(answer: &Answer) -> String {
    match answer {
        Answer::Unit => "done".to_owned(),
        Answer::Missing => "nothing there".to_owned(),
        Answer::Bool(yes) => yes.to_string(),
        Answer::Seconds(Some(seconds)) => format!("{seconds:.3} s"),
        Answer::Seconds(None) => "no limit".to_owned(),
        Answer::Bytes(bytes) => format!("{} bytes: {}", bytes.len(), String::from_utf8_lossy(bytes)),
        Answer::Names(names) => names.join(", "),
        Answer::Session(record) => {
            let cost = record.cost.map_or_else(|| "unknown cost".to_owned(), |cost| cost.to_string());
            let text = record.text.as_deref().unwrap_or("no text");
            format!("session {}: {}, {cost}, {text}", record.index, record.status())
        }
        Answer::Checks(report) => format!("{} of {} checks pass", report.passed, report.total),
        Answer::Exec(end) => {
            let code = end.exit_code.map_or_else(|| "no exit code".to_owned(), |code| format!("exit code {code}"));
            format!("{code}: {}{}", end.stdout, end.stderr)
        }
        Answer::Workspace(id) => format!("workspace {}", id.0),
        Answer::Budget(budget) => match budget.remaining {
            Some(remaining) => format!("{remaining} remaining, {} spent", budget.spent),
            None => format!("no cap, {} spent", budget.spent),
        },
    }
}

/// One line of a text, cut to what a terminal shows.
fn short(text: &str) -> String {
    const MOST: usize = 140;
    let line = printable(text).replace('\n', " ");
    match line.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
