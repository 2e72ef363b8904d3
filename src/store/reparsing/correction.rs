//! The money of a session whose cost another reading of its log has changed: entries that correct, never a change.

use rusqlite::{Connection, params};

use super::Telling;
use crate::domain::{AttemptId, Micros};
use crate::store::error::Fault;
use crate::store::ledger::{self, LedgerEntry, LedgerKind};
use crate::store::reserves;

/// Books what is between the entries of a session and what it cost: `cost`, all of it or, where it is `exempt`, nothing of
/// it against the budget. What was unknown becomes known; what is not known any more is taken back, and an unknown amount
/// stands in its place.
pub(super) fn book(
    tx: &Connection,
    id: &AttemptId,
    (session, cost, exempt): (u32, Option<Micros>, bool),
    telling: &Telling,
) -> Result<(), Fault> {
    let reference = ledger::unused(tx, id, LedgerKind::Spend, &format!("s{session} reparsed"))?;
    let booked = booked(tx, id, session)?;
    let entry = |reference: String, amount: Option<Micros>, billable: Option<Micros>| LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference,
        amount,
        billable,
        at: telling.at,
        note: Some(format!("its log was read once more by Refrain {}", telling.refrain_version)),
    };
    let counts = if exempt { Micros::ZERO } else { cost.unwrap_or(Micros::ZERO) };
    if cost.is_some() {
        become_known(tx, id, session)?;
    } else if booked.unknown == 0 {
        let nothing = exempt.then_some(Micros::ZERO);
        ledger::append(tx, &entry(ledger::open_rest(&reference), None, nothing))?;
    }
    let (amount, billable) = (cost.unwrap_or(Micros::ZERO) - booked.amount, counts - booked.billable);
    ledger::append(tx, &entry(reference, Some(amount), Some(billable)))?;
    // What stood for it while it was unknown stands no more.
    reserves::settle_rest(tx, id)
}

/// The sums of the entries of a session.
struct Booked {
    amount: Micros,
    billable: Micros,
    unknown: i64,
}

/// Which entries are those of a session: its own, the open rest beside it, and earlier corrections.
const OF_SESSION: &str = "run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend'
   AND (reference = 's' || ?4 OR reference = 's' || ?4 || ', open' OR reference LIKE 's' || ?4 || ' reparsed%')";

fn booked(tx: &Connection, id: &AttemptId, session: u32) -> Result<Booked, Fault> {
    let sums = format!(
        "SELECT coalesce(sum(amount_micros), 0), coalesce(sum(iif(amount_micros IS NULL, 0, billable_micros)), 0),
           count(*) - count(amount_micros) FROM ledger WHERE {OF_SESSION}"
    );
    let key = params![id.run.as_str(), id.cell.as_str(), id.number, session];
    Ok(tx.prepare_cached(&sums)?.query_row(key, |row| {
        Ok(Booked { amount: Micros::new(row.get(0)?), billable: Micros::new(row.get(1)?), unknown: row.get(2)? })
    })?)
}

/// Makes what is unknown of a session known, as told by another entry.
fn become_known(tx: &Connection, id: &AttemptId, session: u32) -> Result<(), Fault> {
    let update = format!(
        "UPDATE ledger SET amount_micros = 0, billable_micros = 0 WHERE {OF_SESSION} AND amount_micros IS NULL"
    );
    tx.prepare_cached(&update)?.execute(params![id.run.as_str(), id.cell.as_str(), id.number, session])?;
    Ok(())
}

/// Returns what an attempt has cost by the ledger without its judge, and what of it counts; unknown where one entry is.
pub(super) fn sums(tx: &Connection, id: &AttemptId) -> Result<(Option<Micros>, Option<Micros>), Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT iif(count(*) = count(amount_micros), coalesce(sum(amount_micros), 0), NULL),
           iif(count(*) = count(billable_micros), coalesce(sum(billable_micros), 0), NULL)
         FROM ledger WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend'
           AND reference NOT LIKE 'judge%'",
    )?;
    let found = statement.query_row(params![id.run.as_str(), id.cell.as_str(), id.number], |row| {
        Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
    })?;
    Ok((found.0.map(Micros::new), found.1.map(Micros::new)))
}

/// Tells whether a person has said what an attempt's unknown spends came to, and nobody has taken that back.
pub(super) fn is_settled(tx: &Connection, id: &AttemptId) -> Result<bool, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT coalesce(sum((reference LIKE 'settled by hand%') - (reference LIKE 'settlement withdrawn%')), 0) > 0
         FROM ledger WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend'",
    )?;
    Ok(statement.query_row(params![id.run.as_str(), id.cell.as_str(), id.number], |row| row.get(0))?)
}
