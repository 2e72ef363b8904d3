//! `refrain results`: what came of a run.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;

use super::judged::{self, JsonJudge};
use super::{Failed, Outcome, exit, output};
use crate::domain::{CellId, Micros, RunName};
use crate::report::text;
use crate::store::{Judgement, LedgerKind, ResultFilter, ResultRow, SessionMetering, Store, is_of_a_judge};

/// Show the results of a run, by default of the latest
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain results\n  refrain results nightly\n  \
                        refrain results nightly --json | jq '.results[] | select(.success == false)'")]
pub(super) struct Args {
    /// The run
    run: Option<String>,
    /// The results database
    #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
    db: PathBuf,
    /// Print the figures of each cell as JSON
    #[arg(long)]
    json: bool,
}

/// Characters of a cell's id that are shown however narrow the terminal is.
const LEAST_ID: usize = 24;

/// Opens a store that must exist: reading never makes an empty one.
pub(super) fn open(db: &Path) -> Result<Store, Failed> {
    if !db.exists() {
        let error = anyhow::anyhow!("there is no store `{}`", db.display());
        let failed = Failed { code: exit::STORE, ..Failed::usage(error) };
        return Err(failed.with_hint("run something first, or name the store with `--db`"));
    }
    Ok(Store::open_read_only(db)?)
}

/// Finds the run that was asked for, or the latest.
pub(super) fn find_run(store: &Store, wanted: Option<&str>) -> Result<RunName, Failed> {
    let runs = store.runs().wait()?;
    let known = || runs.iter().map(|run| run.name.to_string()).collect::<Vec<_>>().join(", ");
    match wanted {
        Some(name) => runs.iter().map(|run| &run.name).find(|run| run.as_str() == name).cloned().ok_or_else(|| {
            Failed::usage(anyhow::anyhow!("the store has no run `{name}`")).with_hint(format!("it has: {}", known()))
        }),
        None => runs
            .iter()
            .max_by_key(|run| run.started_at)
            .map(|run| run.name.clone())
            .ok_or_else(|| Failed::usage(anyhow::anyhow!("the store holds no run yet"))),
    }
}

pub(super) fn main(args: &Args) -> Outcome {
    let store = open(&args.db)?;
    let run = find_run(&store, args.run.as_deref())?;
    let rows = store.results(Some(&run), &ResultFilter::default()).wait()?;
    let judgements = store.judgements(&run).wait()?;
    if args.json {
        let metering = store.metering(&run).wait()?;
        let results = rows.iter().map(|row| JsonRow::of(row, &metering, &judgements)).collect();
        output::write_json(&JsonResults { schema: 1, run: &run, results })?;
        return Ok(exit::OK);
    }
    let head = ["state", "cell", "sess", "tests", "time", "cost", "class"];
    let all: Vec<_> = rows.iter().map(cells).collect();
    let mut table = output::table(head, all.clone());
    if let Some(extra) = output::overhang(&table) {
        table = output::table(head, shortened(all, extra));
    }
    output::write(&table)?;
    output::write("\n")?;
    output::write(&output::table(
        ["orchestrator", "harness", "model", "solved", "rate", "errored", "cost"],
        grouped(&rows, &known_costs(&store, &run, &rows)?),
    ))?;
    if let Some(table) = judged::table(&rows, &judgements) {
        output::write(&format!("\n{table}"))?;
    }
    output::write(&differing(&rows, &store.metering(&run).wait()?))?;
    Ok(exit::OK)
}

/// Says in how many cells figures or models differ; nothing where none do.
fn differing(rows: &[ResultRow], metering: &[SessionMetering]) -> String {
    let differ: HashSet<(&CellId, u32)> = metering
        .iter()
        .filter(|session| !session.discrepancies.is_empty())
        .map(|session| (&session.cell, session.attempt))
        .collect();
    let mut cells = rows.iter().filter(|row| differ.contains(&(&row.cell, row.attempt))).map(|row| &row.cell);
    let Some(first) = cells.next() else { return String::new() };
    let count = 1 + cells.count();
    let line = format!("{count} of {} cells have figures or models that differ, such as {first}", rows.len());
    format!("\n{line}: `refrain show` lists them\n")
}

/// The machine-readable results: a public surface, so its names are written out here. They are those of the columns.
#[derive(Serialize)]
struct JsonResults<'a> {
    schema: u32,
    run: &'a RunName,
    results: Vec<JsonRow<'a>>,
}

/// One cell. What nobody measured is null.
#[derive(Serialize)]
struct JsonRow<'a> {
    cell_id: &'a str,
    attempt: u32,
    harness: &'a str,
    model: &'a str,
    review_model: Option<&'a str>,
    task_id: &'a str,
    track: &'static str,
    orchestrator: &'a str,
    repeat: u32,
    terminal_state: &'static str,
    exit_class: &'static str,
    error_class: &'static str,
    error_message: Option<&'a str>,
    success: Option<bool>,
    tests_passed: Option<u32>,
    tests_total: Option<u32>,
    num_sessions: u64,
    num_api_calls: Option<u64>,
    num_tool_calls: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_tokens: Option<u64>,
    cache_write_tokens: Option<u64>,
    reasoning_tokens: Option<u64>,
    total_cost_micros: Option<Micros>,
    billable_micros: Option<Micros>,
    /// `gateway`, `harness`, or `mixed` where the sessions differ.
    usage_source: Option<&'static str>,
    /// Where the harness's figures differ from those of the gateway, a line for each.
    discrepancies: Vec<&'a str>,
    /// What a judge said; its cost is in none of the figures above.
    judge: Option<JsonJudge<'a>>,
    cost_mode: Option<&'static str>,
    latency_ms: Option<u64>,
    duration_ms: u64,
    retry_count: u32,
    timestamp: Timestamp,
}

impl<'a> JsonRow<'a> {
    fn of(row: &'a ResultRow, metering: &'a [SessionMetering], judgements: &'a [Judgement]) -> Self {
        Self {
            cell_id: row.cell.as_str(),
            attempt: row.attempt,
            harness: &row.harness,
            model: &row.model,
            review_model: row.review_model.as_deref(),
            task_id: &row.task,
            track: row.track.as_str(),
            orchestrator: &row.orchestrator,
            repeat: row.repeat,
            terminal_state: row.terminal.as_str(),
            exit_class: row.exit_class.as_str(),
            error_class: row.error_class.as_str(),
            error_message: row.error_message.as_deref(),
            success: row.solved,
            tests_passed: row.tests_passed,
            tests_total: row.tests_total,
            num_sessions: row.num_sessions,
            num_api_calls: row.num_api_calls,
            num_tool_calls: row.num_tool_calls,
            input_tokens: row.usage.input,
            output_tokens: row.usage.output,
            cache_read_tokens: row.usage.cache_read,
            cache_write_tokens: row.usage.cache_write,
            reasoning_tokens: row.usage.reasoning,
            total_cost_micros: row.total_cost,
            billable_micros: row.billable_cost,
            usage_source: usage_source(row, metering),
            discrepancies: sessions_of(row, metering)
                .flat_map(|session| session.discrepancies.iter().map(String::as_str))
                .collect(),
            judge: JsonJudge::of(row, judgements),
            cost_mode: row.cost_mode.map(crate::domain::CostMode::as_str),
            latency_ms: row.latency_ms,
            duration_ms: row.duration_ms,
            retry_count: row.retry_count,
            timestamp: row.timestamp,
        }
    }
}

fn sessions_of<'a>(row: &ResultRow, metering: &'a [SessionMetering]) -> impl Iterator<Item = &'a SessionMetering> {
    let (cell, attempt) = (row.cell.clone(), row.attempt);
    metering.iter().filter(move |session| session.cell == cell && session.attempt == attempt)
}

/// Whose figures a cell's tokens and costs are.
fn usage_source(row: &ResultRow, metering: &[SessionMetering]) -> Option<&'static str> {
    let mut sources = sessions_of(row, metering).map(|session| session.source);
    let first = sources.next()??;
    Some(if sources.all(|source| source == Some(first)) { first.as_str() } else { "mixed" })
}

fn cells(row: &ResultRow) -> [String; 7] {
    let tests = match (row.tests_passed, row.tests_total) {
        (Some(passed), Some(total)) => format!("{passed}/{total}"),
        _ => "-".to_owned(),
    };
    [
        text::status_word(row.terminal, row.solved).to_owned(),
        row.cell.to_string(),
        row.num_sessions.to_string(),
        tests,
        text::duration(std::time::Duration::from_millis(row.duration_ms)),
        text::cost(row.total_cost),
        row.error_class.to_string(),
    ]
}

/// Shortens the cells' ids by what is too much for the terminal; pipes and files get them whole.
fn shortened(mut rows: Vec<[String; 7]>, extra: usize) -> Vec<[String; 7]> {
    let longest = rows.iter().map(|row| row[1].chars().count()).max().unwrap_or(0);
    let width = longest.saturating_sub(extra).max(LEAST_ID);
    for row in &mut rows {
        row[1] = text::end_of(&row[1], width);
    }
    rows
}

#[derive(Default)]
struct Group {
    passed: usize,
    decided: usize,
    errored: usize,
    cost: Micros,
    unknown: usize,
}

/// What is known of the costs of cells of which a part is unknown: the ledger has the sessions that told theirs.
fn known_costs(store: &Store, run: &RunName, rows: &[ResultRow]) -> Result<HashMap<CellId, Micros>, Failed> {
    let mut known = HashMap::new();
    if rows.iter().all(|row| row.total_cost.is_some()) {
        return Ok(known);
    }
    let of_the_agent = |kind, reference: &str| kind == LedgerKind::Spend && !is_of_a_judge(reference);
    for entry in store.ledger(run).wait()?.into_iter().filter(|entry| of_the_agent(entry.kind, &entry.reference)) {
        *known.entry(entry.attempt.cell).or_insert(Micros::ZERO) += entry.amount.unwrap_or(Micros::ZERO);
    }
    Ok(known)
}

/// One line for each strategy: the comparison that a run is made for. Errored cells never enter the rate.
fn grouped(rows: &[ResultRow], known: &HashMap<CellId, Micros>) -> Vec<[String; 7]> {
    let mut groups: BTreeMap<(&str, &str, &str), Group> = BTreeMap::new();
    for row in rows {
        let group = groups.entry((&row.orchestrator, &row.harness, &row.model)).or_default();
        match row.solved {
            Some(solved) => {
                group.decided += 1;
                group.passed += usize::from(solved);
            }
            None => group.errored += 1,
        }
        group.unknown += usize::from(row.total_cost.is_none());
        group.cost += row.total_cost.or_else(|| known.get(&row.cell).copied()).unwrap_or(Micros::ZERO);
    }
    groups
        .into_iter()
        .map(|((orchestrator, harness, model), group)| line(orchestrator, harness, model, &group))
        .collect()
}

fn line(orchestrator: &str, harness: &str, model: &str, group: &Group) -> [String; 7] {
    #[expect(clippy::cast_precision_loss, reason = "counts of cells are far below 2^52")]
    let rate = match group.decided {
        0 => "-".to_owned(),
        decided => format!("{:.0}%", 100.0 * group.passed as f64 / decided as f64),
    };
    [
        orchestrator.to_owned(),
        harness.to_owned(),
        model.to_owned(),
        format!("{}/{}", group.passed, group.decided),
        rate,
        group.errored.to_string(),
        text::bounded_cost(group.cost, group.unknown),
    ]
}
