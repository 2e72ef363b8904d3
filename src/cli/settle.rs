//! `refrain store settle`: books what a person found out, or decides, about money that nobody knows.

use anyhow::anyhow;

use super::dollars::dollars;
use super::results::find_run;
use super::show::find_among;
use super::store::Place;
use super::{Failed, Outcome, exit, output};
use crate::clock::{Clock, SystemClock};
use crate::domain::{AttemptId, Micros, RunName};
use crate::store::{LedgerEntry, ResultFilter, Settled, Settlement, Store, Unsettled};

/// What is to be settled, and how.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The run
    run: String,
    /// The cell, or a part of its id that no other has; with `#N` its attempt N
    #[arg(value_name = "CELL[#ATTEMPT]")]
    cell: Option<String>,
    /// What the unknown spends of one attempt came to, in dollars
    #[arg(long, value_name = "DOLLARS", value_parser = dollars, allow_hyphen_values = true)]
    #[arg(requires = "reason", conflicts_with = "release")]
    cost: Option<Micros>,
    /// Leave them unknown, and free what counts against the cap for them
    #[arg(long, requires = "reason")]
    release: bool,
    /// That cost stays off the budget
    #[arg(long, requires = "cost")]
    exempt: bool,
    /// Why; kept with the entry
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: Option<String>,
    /// Who; kept with the entry
    #[arg(long, value_name = "NAME", env = "USER", hide_env_values = true, default_value = "somebody")]
    by: String,
    #[command(flatten)]
    pub(super) place: Place,
}

fn not_blank(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("say why".to_owned()) } else { Ok(text.trim().to_owned()) }
}

pub(super) fn main(args: &Args) -> Outcome {
    let settles = args.cost.is_some() || args.release;
    let store = if settles { args.place.write()? } else { args.place.read()? };
    let run = find_run(&store, Some(&args.run))?;
    let open = select(args, &store, &run)?;
    if !settles {
        return list(&store, &run, &open);
    }
    if args.cost.is_some() && open.len() > 1 {
        let error = anyhow!("a cost is that of one attempt, and {} are open", open.len());
        return Err(Failed::usage(error).with_hint(format!("name one: `refrain store settle {run}` lists them")));
    }
    let mut booked = 0;
    for one in &open {
        let settlement = Settlement {
            attempt: one.attempt.clone(),
            cost: args.cost,
            exempt: args.exempt,
            by: args.by.clone(),
            reason: args.reason.clone().unwrap_or_default(),
            at: SystemClock::new().now(),
        };
        let name = shown(&one.attempt);
        let line = match store.settle(&settlement).wait()? {
            Settled::Booked { freed } => {
                booked += 1;
                let cost = args.cost.map_or_else(|| "unknown".to_owned(), |cost| cost.to_string());
                format!("{name}: settled, its unknown part cost {cost}; {freed} more is left of a cap\n")
            }
            Settled::NothingOpen => format!("{name}: nothing counts against the cap for it\n"),
            Settled::UnderWay => format!("{name}: it is under way, or waits to be gone on with; nothing is changed\n"),
        };
        output::write(&line)?;
    }
    if booked > 0 {
        return Ok(exit::OK);
    }
    Err(Failed::usage(anyhow!("there is nothing to settle"))
        .with_hint(format!("an attempt is settled once it has ended; `refrain status {run}` shows what is under way")))
}

/// Takes those that the command names. What is not there is an error, and nothing that is settled.
fn select(args: &Args, store: &Store, run: &RunName) -> Result<Vec<Unsettled>, Failed> {
    let mut open = store.unsettled(run).wait()?;
    let Some(wanted) = &args.cell else { return Ok(open) };
    let (cell, number) = place(wanted)?;
    let mut cells: Vec<_> = open.iter().map(|one| one.attempt.cell.clone()).collect();
    cells.extend(store.results(Some(run), &ResultFilter::default()).wait()?.into_iter().map(|row| row.cell));
    cells.sort();
    cells.dedup();
    let cell = find_among(&cells, run, cell)?;
    if let Some(number) = number {
        let attempts: Vec<u32> = store.attempts(run, &cell).wait()?.iter().map(|row| row.id.number).collect();
        if !attempts.contains(&number) {
            let last = attempts.iter().max().copied().unwrap_or(0);
            return Err(Failed::usage(anyhow!("`{cell}` has no attempt {number}; its last one is {last}")));
        }
    }
    open.retain(|one| one.attempt.cell == cell && number.is_none_or(|number| one.attempt.number == number));
    Ok(open)
}

/// Takes `CELL#ATTEMPT` apart.
fn place(wanted: &str) -> Result<(&str, Option<u32>), Failed> {
    let Some((cell, number)) = wanted.rsplit_once('#') else { return Ok((wanted, None)) };
    match number.parse().ok().filter(|number| *number > 0) {
        Some(number) if !cell.is_empty() => Ok((cell, Some(number))),
        _ => Err(Failed::usage(anyhow!("`{wanted}` names no attempt of a cell"))
            .with_hint("write the cell, `#` and a number from 1, such as 'fix-sum__r1#2'")),
    }
}

/// Shows what is open, and what people have settled.
fn list(store: &Store, run: &RunName, open: &[Unsettled]) -> Outcome {
    for one in open {
        let way = if one.under_way { "; it is under way" } else { "" };
        let line = format!(
            "{:>12} {}: {} spend(s) of unknown amount, {} counts against the cap for them{way}\n",
            "open",
            shown(&one.attempt),
            one.unknown,
            one.assumed
        );
        output::write(&line)?;
    }
    for entry in store.settlements(run).wait()? {
        output::write(&format!("{:>12} {}\n", "by hand", describe(&entry)))?;
    }
    if open.is_empty() {
        output::write(&format!("run {run}: nothing is unknown\n"))?;
    }
    Ok(exit::OK)
}

fn shown(attempt: &AttemptId) -> String {
    format!("{}#{}", attempt.cell, attempt.number)
}

/// Says in one line what somebody has booked by hand.
pub(super) fn describe(entry: &LedgerEntry) -> String {
    let amount = entry.amount.map_or_else(
        || format!("{} of the cap freed", -entry.billable.unwrap_or(Micros::ZERO)),
        |amount| format!("{amount} ({} billable)", entry.billable.unwrap_or(amount)),
    );
    let (day, note) = (entry.at.strftime("%Y-%m-%d %H:%M"), entry.note.as_deref().unwrap_or_default());
    let line = format!("{}: {}, {amount}, {day} UTC {note}", shown(&entry.attempt), entry.reference);
    crate::redact::printable(&line).replace('\n', " ")
}
