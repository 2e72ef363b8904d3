//! `refrain show`: everything that is on record about one cell.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::results::{find_run, open};
use super::started::state_beside;
use super::{Failed, Outcome, exit, judged, output};
use crate::domain::{AttemptId, CellId, RunName, RunRecord, SessionRecord, Usage, UsageSource};
use crate::redact::printable;
use crate::report::text;
use crate::store::{AttemptRow, Layout, ResultFilter, Store};

/// Show one cell: record, transitions, sessions, verdict, diff
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain show scripted__scripted-small__fix-off-by-one__r1\n  \
                        refrain show fix-off-by-one__r1 --attempt 1\n  refrain show fix-off-by-one__r1 --diff | git apply")]
pub(super) struct Args {
    /// The cell's id, or a part of it that only one cell has
    cell: String,
    /// The run; by default the latest
    #[arg(long)]
    run: Option<String>,
    /// Which attempt; by default the last
    #[arg(long)]
    attempt: Option<u32>,
    /// Print the run record as JSON
    #[arg(long, conflicts_with = "diff")]
    json: bool,
    /// Print the diff only
    #[arg(long)]
    diff: bool,
    /// Print what was said and done in each session only; `refrain export` writes it to files
    #[arg(long, conflicts_with_all = ["diff", "json"])]
    trajectory: bool,
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    db: PathBuf,
}

/// Reads the record of a cell's last attempt.
pub(super) fn record(db: &Path, run: &RunName, cell: &CellId) -> Result<RunRecord, Failed> {
    let store = open(db)?;
    read(&store, run, cell, None)
}

pub(super) fn main(args: &Args) -> Outcome {
    let store = open(&args.db)?;
    let run = find_run(&store, args.run.as_deref())?;
    let cell = find_cell(&store, &run, &args.cell)?;
    let attempts = store.attempts(&run, &cell).wait()?;
    let record = read(&store, &run, &cell, args.attempt)?;
    if args.json {
        output::write_json(&record)?;
        return Ok(exit::OK);
    }
    if args.trajectory {
        for trajectory in super::trajectory::Sources::new(&args.db, &run)?.of(&record) {
            output::write(&super::trajectory::shown(&trajectory))?;
        }
        return Ok(exit::OK);
    }
    let latest = attempts.iter().filter(|attempt| has_record(attempt)).map(|attempt| attempt.id.number).max();
    let diff = if latest == Some(record.attempt.number) {
        store.diff(&run, &cell).wait()?
    } else {
        earlier_diff(&args.db, &record.attempt)
    };
    if !args.diff {
        let judge = record.judge.as_ref();
        let judged = judge.map(|judge| judged::lines(judge, judged::calibration(&args.db, &judge.version).as_ref()));
        let shown = report(&record, &attempts, (judged.unwrap_or_default(), diff.as_deref().unwrap_or_default()));
        output::write(&shown)?;
        for entry in store.settlements(&run).wait()?.iter().filter(|entry| entry.attempt.cell == cell) {
            output::write(&format!("{:>12} {}\n", "by hand", super::settle::describe(entry)))?;
        }
        return Ok(exit::OK);
    }
    std::io::stdout().write_all(diff.as_deref().unwrap_or_default())?;
    Ok(exit::OK)
}

fn has_record(attempt: &AttemptRow) -> bool {
    attempt.ended_at.is_some() && !attempt.orphaned
}

/// The store keeps the diff of a cell's latest attempt; those of earlier ones lie beside their records, in the state
/// folder that is beside the database unless the run file says otherwise.
fn earlier_diff(db: &Path, attempt: &AttemptId) -> Option<Vec<u8>> {
    std::fs::read(Layout::new(state_beside(db)).diff_path(attempt)).ok()
}

fn find_cell(store: &Store, run: &RunName, wanted: &str) -> Result<CellId, Failed> {
    let rows = store.results(Some(run), &ResultFilter::default()).wait()?;
    let ids: Vec<CellId> = rows.into_iter().map(|row| row.cell).collect();
    find_among(&ids, run, wanted)
}

/// Finds the one cell that a text means.
pub(super) fn find_among(ids: &[CellId], run: &RunName, wanted: &str) -> Result<CellId, Failed> {
    if let Some(exact) = ids.iter().find(|id| id.as_str() == wanted) {
        return Ok(exact.clone());
    }
    // Tables on narrow terminals show the ends of ids.
    let wanted = wanted.trim_start_matches('…');
    let mut endings = ids.iter().filter(|id| id.as_str().ends_with(wanted));
    if let (Some(only), None) = (endings.next(), endings.next()) {
        return Ok(only.clone());
    }
    let mut matches = ids.iter().filter(|id| id.as_str().contains(wanted));
    match (matches.next(), matches.next()) {
        (Some(only), None) => Ok(only.clone()),
        (None, _) => Err(Failed::usage(anyhow::anyhow!("run `{run}` has no cell `{wanted}` with a result"))
            .with_hint(format!("`refrain results {run}` lists them"))),
        (Some(first), Some(second)) => Err(Failed::usage(anyhow::anyhow!("`{wanted}` is part of several cell ids"))
            .with_hint(format!("such as `{first}` and `{second}`"))),
    }
}

/// Reads the record of an attempt, by default of a cell's last one.
pub(super) fn read(store: &Store, run: &RunName, cell: &CellId, attempt: Option<u32>) -> Result<RunRecord, Failed> {
    let attempts = store.attempts(run, cell).wait()?;
    let last = || attempts.iter().rfind(|attempt| has_record(attempt)).map(|attempt| attempt.id.number);
    let number = attempt.or_else(last);
    let record = match number {
        Some(number) => store.record(&AttemptId { run: run.clone(), cell: cell.clone(), number }).wait()?,
        None => None,
    };
    record.ok_or_else(|| {
        let which = attempt.map_or_else(String::new, |attempt| format!(" attempt {attempt} of"));
        let failed = Failed::usage(anyhow::anyhow!("there is no record of{which} `{cell}` in run `{run}`"));
        let recorded = attempts.iter().filter(|attempt| has_record(attempt));
        let numbers: Vec<String> = recorded.map(|attempt| attempt.id.number.to_string()).collect();
        if numbers.is_empty() {
            return failed;
        }
        failed.with_hint(format!("there is one of attempt {}", numbers.join(", ")))
    })
}

fn report(record: &RunRecord, attempts: &[AttemptRow], (judged, diff): (Vec<String>, &[u8])) -> String {
    let mut out = String::new();
    head(&mut out, record);
    if attempts.len() > 1 {
        section(&mut out, "attempts", attempts.iter().map(|row| attempt(row, record.attempt.number)));
    }
    section(&mut out, "sessions", record.sessions.iter().map(session));
    section(
        &mut out,
        "transitions",
        record.transitions.iter().map(|step| {
            let reason = step.reason.as_deref().map(|reason| format!("  ({})", one_line(reason))).unwrap_or_default();
            format!("{}  {} → {}{reason}", step.at.strftime("%H:%M:%S%.3f"), step.from, step.to)
        }),
    );
    section(&mut out, "script log", record.script_log.iter().map(|line| one_line(line)));
    if let Some(verdict) = &record.verdict {
        section(&mut out, "verdict", std::iter::once(verdict.summary.clone()));
        section(
            &mut out,
            "tests",
            verdict.tests.iter().map(|test| format!("{:<8} {}", test.status, one_line(&test.id))),
        );
        if !verdict.report.trim().is_empty() {
            section(&mut out, "test output", printable(&verdict.report).lines().map(str::to_owned));
        }
    }
    section(&mut out, "judge", judged.into_iter());
    section(&mut out, "warnings", record.warnings.iter().map(|line| one_line(line)));
    let diff = printable(&String::from_utf8_lossy(diff));
    section(&mut out, "diff", diff.lines().map(str::to_owned));
    out
}

fn head(out: &mut String, record: &RunRecord) {
    let inputs = &record.inputs;
    let mut line = |name: &str, value: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name:<13} {value}");
    };
    line("cell", record.attempt.cell.to_string());
    line("run", format!("{}, attempt {}", record.attempt.run, record.attempt.number));
    let word = text::status_word(record.terminal, record.solved);
    line("state", format!("{word} ({}, {}, {})", record.terminal, record.exit_class, record.error_class));
    if let Some(failure) = &record.failure {
        line("cause", format!("{} [{}]", one_line(&failure.to_string()), text::blame(failure)));
    }
    let version = inputs.harness_version.as_deref().map(|version| format!(" ({version})")).unwrap_or_default();
    line("harness", format!("{}{version} on {}", inputs.harness, inputs.runtime));
    line(
        "model",
        match &inputs.review_model {
            Some(review) => format!("{}, review by {review}", inputs.model),
            None => inputs.model.clone(),
        },
    );
    line("task", format!("{} ({})", inputs.task, inputs.track));
    let hash: String = inputs.orchestrator_hash.chars().take(12).collect();
    line("orchestrator", format!("{} [{hash}]", inputs.orchestrator));
    if let Some(note) = &record.note {
        line("note", one_line(note));
    }
    line("time", format!("{} from {}", text::duration(Duration::from_millis(record.duration_ms)), record.started_at));
    line("tokens", tokens(&record.usage));
    line("cost", format!("{} (billable {})", text::cost(record.cost), text::cost(record.billable_cost)));
    if let Some(judge) = &record.judge {
        line("judge cost", text::cost(judge.cost));
    }
    let changed = record.workspace.files_changed.map_or_else(|| "-".to_owned(), |files| files.to_string());
    let lines = |count: Option<u64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let (added, removed) = (lines(record.workspace.lines_added), lines(record.workspace.lines_removed));
    line("changes", if changed == "-" { changed } else { format!("{changed} file(s), +{added} −{removed}") });
}

/// One attempt in the list of a cell's attempts; the one that is shown has a mark.
fn attempt(row: &AttemptRow, shown: u32) -> String {
    let mark = if row.id.number == shown { '>' } else { ' ' };
    let state = match (row.terminal, row.orphaned) {
        (_, true) => "orphaned".to_owned(),
        (Some(terminal), false) => terminal.to_string(),
        (None, false) => "under way".to_owned(),
    };
    let at = row.started_at.strftime("%Y-%m-%d %H:%M:%S");
    let mut line = format!("{mark} {}  {at}  {state:<21}  {:>9}", row.id.number, text::cost(row.cost));
    if let Some(message) = &row.error_message {
        line.push_str(&format!("  ({})", one_line(message)));
    }
    line
}

fn session(session: &SessionRecord) -> String {
    let label = session.label.as_deref().or(session.phase.as_deref()).unwrap_or("-");
    let mut line = format!(
        "{}  {:<11} {:>7}  {:>9}  {}  [{}]  {}",
        session.index,
        session.status(),
        text::duration(session.duration),
        text::cost(session.cost),
        one_line(label),
        who(session),
        tokens(&session.usage),
    );
    if !session.ok() {
        line.push_str(&format!("  ({})", one_line(&session.end.reason())));
    }
    if let Some(calls) = session.api_calls.filter(|_| session.usage_source == Some(UsageSource::Gateway)) {
        line.push_str(&format!("\n     counted: by the gateway ({calls} requests)"));
        let reported = text::cost(session.reported_cost);
        if !session.reported_usage.is_unknown() || session.reported_cost.is_some() {
            let (tokens, priced) = (tokens(&session.reported_usage), text::cost(session.reported_priced));
            line.push_str(&format!("\n     reported: {tokens}; its cost {reported}, by the price table {priced}"));
        }
    }
    for difference in &session.discrepancies {
        line.push_str(&format!("\n     differs: {}", one_line(difference)));
    }
    for warning in &session.warnings {
        line.push_str(&format!("\n     warning: {}", one_line(warning)));
    }
    line
}

/// Which model held the session, as what, for which phase.
fn who(session: &SessionRecord) -> String {
    let role = session.role.map(|role| format!(", role {role}")).unwrap_or_default();
    let phase = session.phase.as_deref().map(|phase| format!(", phase {phase}")).unwrap_or_default();
    one_line(&format!("{}{role}{phase}", session.model))
}

fn tokens(usage: &Usage) -> String {
    let show = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    format!(
        "in {} cached {} written {} out {} (reasoning {})",
        show(usage.input),
        show(usage.cache_read),
        show(usage.cache_write),
        show(usage.output),
        show(usage.reasoning)
    )
}

fn section(out: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return;
    }
    out.push_str(&format!("\n{title}\n"));
    for line in lines {
        out.push_str(&format!("  {line}\n"));
    }
}

fn one_line(text: &str) -> String {
    printable(text).lines().collect::<Vec<_>>().join(" ⏎ ")
}
