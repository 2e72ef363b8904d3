//! Settling by hand: what a person found out, or decides, about money that nobody has booked.
//!
//! Two kinds of entries wait for that: starts of sessions that were cut off, and the rest of a dead attempt's reservation,
//! which counts against the cap. A settlement adds a signed entry that says who settled, when and why; nothing is ever
//! removed, and of the entries that were unknown only that changes which any of them may see: they become known.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::error::Fault;
use super::ledger::{self, LedgerEntry, LedgerKind};
use super::reserves::{CUT_OFF, UNKNOWN_REST};
use super::row::{Columns, time};
use super::worker::Ticket;
use super::{Store, attempts, results};
use crate::domain::{AttemptId, Micros, RunName};

/// What a settlement with a cost is for.
const SETTLED: &str = "settled by hand";
/// What a settlement without one is for.
pub(super) const RELEASED: &str = "released by hand";
/// What takes a settlement back, once the attempt itself has told what it spent.
const WITHDRAWN: &str = "settlement withdrawn";

/// What is open of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsettled {
    /// Which attempt.
    pub attempt: AttemptId,
    /// Spends whose amount nobody knows.
    pub unknown: usize,
    /// What counts against the cap for them.
    pub assumed: Micros,
    /// Whether it is still under way: only its end tells what is open.
    pub under_way: bool,
}

/// What a person says about an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// Which attempt.
    pub attempt: AttemptId,
    /// What its unknown spends came to, all together; `None` leaves them unknown and only frees what counts against the
    /// cap for them.
    pub cost: Option<Micros>,
    /// Whether that cost stays off the budget.
    pub exempt: bool,
    /// Who says so.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// What a settlement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// It is on the ledger; so much more is left of a cap than before, negative where it is less.
    Booked {
        /// The difference.
        freed: Micros,
    },
    /// There was nothing to settle.
    NothingOpen,
    /// The attempt is under way, or waits to be gone on with.
    UnderWay,
}

impl Store {
    /// Returns the attempts of a run of which something is unknown.
    pub fn unsettled(&self, run: &RunName) -> Ticket<Vec<Unsettled>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT l.run_name, l.cell_id, l.attempt, count(*) - sum(l.reference LIKE ?2 OR l.reference = ?3) AS unknown,
                   coalesce(sum(l.billable_micros), 0) AS assumed,
                   EXISTS (SELECT 1 FROM attempts AS a WHERE a.run_name = l.run_name AND a.cell_id = l.cell_id
                     AND a.attempt = l.attempt AND a.ended_at IS NULL) AS under_way
                 FROM ledger AS l WHERE l.run_name = ?1 AND l.amount_micros IS NULL
                 GROUP BY l.cell_id, l.attempt ORDER BY l.cell_id, l.attempt",
            )?;
            let mut rows = statement.query(params![run.as_str(), format!("{RELEASED}%"), UNKNOWN_REST])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(Unsettled {
                    attempt: attempts::attempt_id(&row)?,
                    unknown: usize::try_from(row.number("unknown")?).unwrap_or(usize::MAX),
                    assumed: row.money("assumed")?.unwrap_or(Micros::ZERO),
                    under_way: row.flag("under_way")?.unwrap_or(false),
                });
            }
            Ok(found)
        })
    }

    /// Settles what is unknown of an ended attempt. Should the attempt itself come back with what it spent, the
    /// settlement is taken back by an entry of its own.
    pub fn settle(&self, settlement: &Settlement) -> Ticket<Settled> {
        let settlement = settlement.clone();
        self.write(move |tx| settle(tx, &settlement))
    }

    /// Returns the entries that people have made by hand, and those that took one back.
    pub fn settlements(&self, run: &RunName) -> Ticket<Vec<LedgerEntry>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut entries = ledger::entries(tx, &run)?;
            entries.retain(|entry| is_by_hand(&entry.reference));
            Ok(entries)
        })
    }
}

fn is_by_hand(reference: &str) -> bool {
    [SETTLED, RELEASED, WITHDRAWN].iter().any(|kind| reference.starts_with(kind))
}

/// What is unknown of an attempt: how many entries, what counts against the cap, and whether all of it is exempt.
fn open(tx: &Connection, id: &AttemptId) -> Result<(i64, Micros, bool), Fault> {
    let found = tx
        .prepare_cached(
            "SELECT count(*), coalesce(sum(billable_micros), 0), count(*) = sum(coalesce(billable_micros, 1) = 0)
             FROM ledger WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND amount_micros IS NULL",
        )?
        .query_row(params![id.run.as_str(), id.cell.as_str(), id.number], |row| {
            Ok((row.get(0)?, Micros::new(row.get(1)?), row.get::<_, Option<bool>>(2)?.unwrap_or(false)))
        })?;
    Ok(found)
}

fn settle(tx: &Connection, settlement: &Settlement) -> Result<Settled, Fault> {
    let id = &settlement.attempt;
    if attempts::is_under_way(tx, id)? {
        return Ok(Settled::UnderWay);
    }
    let (unknown, assumed, all_exempt) = open(tx, id)?;
    if unknown == 0 || (settlement.cost.is_none() && assumed == Micros::ZERO) {
        return Ok(Settled::NothingOpen);
    }
    let note = format!("by {}: {}", settlement.by, settlement.reason);
    let entry = |reference: &str, amount, billable| -> Result<LedgerEntry, Fault> {
        Ok(LedgerEntry {
            attempt: id.clone(),
            kind: LedgerKind::Spend,
            reference: ledger::unused(tx, id, LedgerKind::Spend, reference)?,
            amount,
            billable,
            at: settlement.at,
            note: Some(note.clone()),
        })
    };
    let Some(cost) = settlement.cost else {
        // Its amount stays unknown with the others'; together they count for nothing against the cap.
        ledger::append(tx, &entry(RELEASED, None, Some(-assumed))?)?;
        return Ok(Settled::Booked { freed: assumed });
    };
    let billable = if settlement.exempt || all_exempt { Micros::ZERO } else { cost };
    become_known(tx, id)?;
    ledger::append(tx, &entry(SETTLED, Some(cost), Some(billable))?)?;
    refresh(tx, id)?;
    Ok(Settled::Booked { freed: assumed - billable })
}

/// Makes what is unknown of an attempt known, as told by another entry.
fn become_known(tx: &Connection, id: &AttemptId) -> Result<(), Fault> {
    tx.prepare_cached(
        "UPDATE ledger SET amount_micros = 0, billable_micros = 0
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND amount_micros IS NULL",
    )?
    .execute(params![id.run.as_str(), id.cell.as_str(), id.number])?;
    Ok(())
}

/// Gives an attempt, and its cell, the cost that the ledger now knows.
pub(super) fn refresh(tx: &Connection, id: &AttemptId) -> Result<(), Fault> {
    tx.prepare_cached(
        "UPDATE attempts SET
           total_cost_micros = (SELECT sum(amount_micros) FROM ledger AS l WHERE l.run_name = ?1 AND l.cell_id = ?2
             AND l.attempt = ?3 AND l.kind = 'spend' AND l.reference NOT LIKE 'judge%'),
           billable_micros = (SELECT sum(billable_micros) FROM ledger AS l WHERE l.run_name = ?1 AND l.cell_id = ?2
             AND l.attempt = ?3 AND l.kind = 'spend' AND l.reference NOT LIKE 'judge%')
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3
           AND NOT EXISTS (SELECT 1 FROM ledger AS l WHERE l.run_name = ?1 AND l.cell_id = ?2 AND l.attempt = ?3
             AND l.kind = 'spend' AND l.amount_micros IS NULL)",
    )?
    .execute(params![id.run.as_str(), id.cell.as_str(), id.number])?;
    results::refresh_costs(tx, &id.run, &id.cell)
}

/// Takes back what people have settled of an attempt that was cut off and has told everything that it spent after all.
pub(super) fn withdraw(tx: &Connection, id: &AttemptId, at: Timestamp) -> Result<(), Fault> {
    let key = params![id.run.as_str(), id.cell.as_str(), id.number, CUT_OFF, format!("{SETTLED}%"), WITHDRAWN];
    // What was settled, and has not been taken back yet.
    let (amount, billable): (i64, i64) = tx
        .prepare_cached(
            "SELECT coalesce(sum(amount_micros), 0), coalesce(sum(billable_micros), 0) FROM ledger
             WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend'
               AND (reference LIKE ?5 OR reference LIKE ?6 || '%')
               AND EXISTS (SELECT 1 FROM ledger WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3
                 AND kind = 'spend' AND reference = ?4)",
        )?
        .query_row(key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    take_back_released(tx, id)?;
    if (amount, billable) == (0, 0) {
        return Ok(());
    }
    let entry = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference: ledger::unused(tx, id, LedgerKind::Spend, WITHDRAWN)?,
        amount: Some(Micros::new(-amount)),
        billable: Some(Micros::new(-billable)),
        at,
        note: Some(format!("what it spent was found out by {}", time(at))),
    };
    ledger::append(tx, &entry).map(|_| ())
}

/// Takes back what people have freed of the cap for an attempt, together with what it was freed of.
pub(super) fn take_back_released(tx: &Connection, id: &AttemptId) -> Result<(), Fault> {
    tx.prepare_cached(
        "UPDATE ledger SET amount_micros = 0, billable_micros = 0
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend' AND reference LIKE ?4
           AND amount_micros IS NULL",
    )?
    .execute(params![id.run.as_str(), id.cell.as_str(), id.number, format!("{RELEASED}%")])?;
    Ok(())
}
