//! `refrain reparse`: reads the stored logs of sessions once more, through today's adapters.

mod difference;

use serde::Serialize;

use self::difference::Difference;
use super::results::find_run;
use super::show::find_among;
use super::started::Started;
use super::store::Place;
use super::{Failed, Outcome, exit, output, run};
use crate::domain::{CellId, RunName, SessionRecord};
use crate::host::{ReparseOutcome, SessionReparse};
use crate::report::text;

/// Read the stored logs of sessions once more, through today's adapters
///
/// Shows what that changes in each session's record: tokens, costs, how it ended, and what else its log tells. With
/// `--write` it is put on record, in one transaction; what was there before is kept beside it. Verdicts, how attempts
/// ended, and what the gateway counted are never changed. Where the ledger stands on the harness's word, entries correct
/// it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  refrain reparse nightly\n  refrain reparse nightly --cell fix-sum__r1 --write\n  \
                        refrain reparse --json | jq '.sessions[] | select(.outcome == \"skipped\")'"
)]
pub(super) struct Args {
    /// The run; by default the latest
    run: Option<String>,
    /// Only this cell: its id, or a part of it that only one cell has; may be given several times
    #[arg(long)]
    cell: Vec<String>,
    /// Put on record what has changed
    #[arg(long)]
    write: bool,
    /// Print all of it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) fn main(args: &Args) -> Outcome {
    let store = if args.write { args.place.write()? } else { args.place.read()? };
    let name = find_run(&store, args.run.as_deref())?;
    let plan = Started::read(&args.place.db, &name).and_then(|started| started.load(&name));
    let plan = plan.map_err(|failed| one_line(&failed));
    let (host, layout) = (run::host(false), args.place.layout());
    let mut sessions = host.reparse(&store, &layout, &name, plan.as_ref().map_err(String::as_str))?;
    if !args.cell.is_empty() {
        keep_cells(&mut sessions, &name, &args.cell)?;
    }
    if args.write {
        host.write_reparsed(&store, &layout, &name, &mut sessions)?;
    }
    if args.json {
        output::write_json(&Told::of(&name, args.write, &sessions))?;
        return Ok(exit::OK);
    }
    show(&sessions)?;
    output::write(&summary(&name, args.write, &sessions))?;
    if !args.write && count(&sessions, is_changed) > 0 {
        run::eprint_line(&format!("nothing is written; `refrain reparse {name} --write` puts it on record"));
    }
    Ok(exit::OK)
}

/// Says why a plan cannot be loaded, in a line.
fn one_line(failed: &Failed) -> String {
    let text = crate::redact::printable(&format!("{:#}", failed.error));
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().to_owned()
}

fn keep_cells(sessions: &mut Vec<SessionReparse>, run: &RunName, wanted: &[String]) -> Result<(), Failed> {
    let mut cells: Vec<CellId> = sessions.iter().map(|session| session.attempt.cell.clone()).collect();
    cells.dedup();
    let wanted = wanted.iter().map(|cell| find_among(&cells, run, cell)).collect::<Result<Vec<_>, _>>()?;
    sessions.retain(|session| wanted.contains(&session.attempt.cell));
    Ok(())
}

fn shown(session: &SessionReparse) -> String {
    format!("{}#{}/s{}", session.attempt.cell, session.attempt.number, session.session)
}

/// Shows what has changed, field by field, and what could not be read.
fn show(sessions: &[SessionReparse]) -> Result<(), Failed> {
    let mut rows = Vec::new();
    for session in sessions {
        let ReparseOutcome::Changed(reparse) = &session.outcome else { continue };
        let differences = Difference::between(&reparse.former, &reparse.record);
        let shown_fields = differences.iter().filter(|difference| !difference.is_told_twice(&reparse.record));
        for (at, difference) in shown_fields.enumerate() {
            let whose = if at == 0 { shown(session) } else { String::new() };
            let [old, new] = difference.words();
            rows.push([whose, difference.field.clone(), old, "→".to_owned(), new]);
        }
    }
    if !rows.is_empty() {
        output::write(&output::table(["session", "field", "was", "", "is"], rows))?;
        output::write("\n")?;
    }
    let mut skipped = Vec::new();
    for session in sessions {
        if let ReparseOutcome::Skipped(why) = &session.outcome {
            skipped.push([shown(session), why.clone()]);
        }
    }
    if !skipped.is_empty() {
        output::write(&output::table(["skipped", "why"], skipped))?;
        output::write("\n")?;
    }
    Ok(())
}

fn is_changed(outcome: &ReparseOutcome) -> bool {
    matches!(outcome, ReparseOutcome::Changed(_))
}

fn count(sessions: &[SessionReparse], of: fn(&ReparseOutcome) -> bool) -> usize {
    sessions.iter().filter(|session| of(&session.outcome)).count()
}

fn summary(run: &RunName, written: bool, sessions: &[SessionReparse]) -> String {
    let changed = count(sessions, is_changed);
    let skipped = count(sessions, |outcome| matches!(outcome, ReparseOutcome::Skipped(_)));
    let same = sessions.len() - changed - skipped;
    let verb = if written { "changed" } else { "would change" };
    let mut line = format!("run {run}: {changed} session(s) {verb}, {same} stay as they are, {skipped} skipped");
    let pairs = || {
        sessions.iter().filter_map(|session| match &session.outcome {
            ReparseOutcome::Changed(reparse) => Some((&reparse.former, &reparse.record)),
            _ => None,
        })
    };
    if pairs().any(|(former, record)| former.cost != record.cost) {
        let sum = |records: Vec<&SessionRecord>| {
            let known = records.iter().map(|record| record.known_cost()).sum();
            text::bounded_cost(known, records.iter().filter(|record| record.cost.is_none()).count())
        };
        let (before, after) = (sum(pairs().map(|pair| pair.0).collect()), sum(pairs().map(|pair| pair.1).collect()));
        line.push_str(&format!("; their cost: {before} → {after}"));
    }
    line + "\n"
}

/// All of it, for programs: a public surface, so its names are written out here.
#[derive(Serialize)]
struct Told<'a> {
    schema: u32,
    run: &'a RunName,
    written: bool,
    changed: usize,
    unchanged: usize,
    skipped: usize,
    sessions: Vec<ToldSession<'a>>,
}

#[derive(Serialize)]
struct ToldSession<'a> {
    cell_id: &'a str,
    attempt: u32,
    session: u32,
    harness: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Difference>,
}

impl<'a> Told<'a> {
    fn of(run: &'a RunName, written: bool, sessions: &'a [SessionReparse]) -> Self {
        let told: Vec<_> = sessions.iter().map(ToldSession::of).collect();
        let having = |outcome| told.iter().filter(|session| session.outcome == outcome).count();
        let (changed, unchanged, skipped) = (having("changed"), having("unchanged"), having("skipped"));
        Self { schema: 1, run, written, changed, unchanged, skipped, sessions: told }
    }
}

impl<'a> ToldSession<'a> {
    fn of(session: &'a SessionReparse) -> Self {
        let (outcome, reason, changes) = match &session.outcome {
            ReparseOutcome::Changed(reparse) => {
                ("changed", None, Difference::between(&reparse.former, &reparse.record))
            }
            ReparseOutcome::Skipped(why) => ("skipped", Some(why.as_str()), Vec::new()),
            _ => ("unchanged", None, Vec::new()),
        };
        Self {
            cell_id: session.attempt.cell.as_str(),
            attempt: session.attempt.number,
            session: session.session,
            harness: &session.harness,
            outcome,
            reason,
            changes,
        }
    }
}
