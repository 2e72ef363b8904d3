//! What an attempt holds in reserve, and what becomes of that at its end.

use jiff::Timestamp;
use rusqlite::{Connection, params};

use super::error::Fault;
use super::ledger::{LedgerEntry, LedgerKind, append, has_spend, unused};
use super::settling;
use crate::domain::{AttemptId, Micros, SessionStatus};

/// Tells whether the amount of a spend of an attempt is unknown.
pub(super) fn has_unknown(tx: &Connection, id: &AttemptId) -> Result<bool, Fault> {
    let mut found = tx.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM ledger
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend' AND amount_micros IS NULL)",
    )?;
    Ok(found.query_row(params![id.run.as_str(), id.cell.as_str(), id.number], |row| row.get(0))?)
}

/// Releases whatever an attempt still holds.
pub(super) fn release_rest(tx: &Connection, id: &AttemptId, why: &str, at: Timestamp) -> Result<(), Fault> {
    let rest = held(tx, id)?;
    if rest <= Micros::ZERO {
        return Ok(());
    }
    let entry = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Release,
        reference: unused(tx, id, LedgerKind::Release, why)?,
        amount: Some(-rest),
        billable: Some(-rest),
        at,
        note: None,
    };
    append(tx, &entry).map(|_| ())
}

/// What an entry of an attempt that was cut off is for.
pub(super) const CUT_OFF: &str = "cut off";

/// Settles an attempt whose host died while a session may have run: what it still held is no promise any more, but a
/// spend of unknown amount that counts against the cap with what was held.
pub(super) fn cut_off(tx: &Connection, id: &AttemptId, note: &str, at: Timestamp) -> Result<(), Fault> {
    let rest = held(tx, id)?;
    release_rest(tx, id, CUT_OFF, at)?;
    let entry = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference: CUT_OFF.to_owned(),
        amount: None,
        billable: (rest > Micros::ZERO).then_some(rest),
        at,
        note: Some(note.to_owned()),
    };
    append(tx, &entry).map(|_| ())
}

/// What an entry of an ended attempt is for that stands for sessions whose cost nobody knows.
pub(super) const UNKNOWN_REST: &str = "unknown rest";

/// Ends what an attempt holds in reserve, now that its record has told what it spent. Where that leaves out something
/// that counts against the budget, what it still held is no promise any more, but counts until the figure is known. Doing
/// it again changes nothing.
pub(super) fn close(tx: &Connection, id: &AttemptId, at: Timestamp) -> Result<(), Fault> {
    if !has_unmeasured(tx, id)? {
        release_rest(tx, id, "ended", at)?;
        return settle_cut_off(tx, id, at);
    }
    let rest = held(tx, id)?;
    release_rest(tx, id, UNKNOWN_REST, at)?;
    if rest <= Micros::ZERO {
        return Ok(());
    }
    let entry = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference: UNKNOWN_REST.to_owned(),
        amount: None,
        billable: Some(rest),
        at,
        note: Some("what it held in reserve, for sessions whose cost nobody knows".to_owned()),
    };
    append(tx, &entry).map(|_| ())
}

/// Tells whether something that counts against the budget is unknown of an attempt, besides what stands for it. A session
/// that never began is no such thing.
fn has_unmeasured(tx: &Connection, id: &AttemptId) -> Result<bool, Fault> {
    let mut found = tx.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM ledger AS l
         WHERE l.run_name = ?1 AND l.cell_id = ?2 AND l.attempt = ?3 AND l.kind = 'spend' AND l.amount_micros IS NULL
           AND l.billable_micros IS NULL AND l.reference <> ?4
           AND NOT EXISTS (SELECT 1 FROM sessions AS s WHERE s.run_name = ?1 AND s.cell_id = ?2 AND s.attempt = ?3
             AND l.reference = format('s%d', s.session) AND s.status = ?5))",
    )?;
    let silent = SessionStatus::NotStarted.as_str();
    Ok(found.query_row(params![id.run.as_str(), id.cell.as_str(), id.number, CUT_OFF, silent], |row| row.get(0))?)
}

/// Frees what stands for sessions of an ended attempt whose cost nobody knew, once the last of them is known, and what
/// people have freed of it by hand.
pub(super) fn settle_rest(tx: &Connection, id: &AttemptId) -> Result<(), Fault> {
    if !has_spend(tx, id, UNKNOWN_REST)? || has_unmeasured(tx, id)? {
        return Ok(());
    }
    become_nothing(tx, id, UNKNOWN_REST)?;
    settling::take_back_released(tx, id)
}

/// Takes note that an attempt which was cut off, or ended with something unknown, has told everything that it spent.
fn settle_cut_off(tx: &Connection, id: &AttemptId, at: Timestamp) -> Result<(), Fault> {
    become_nothing(tx, id, CUT_OFF)?;
    become_nothing(tx, id, UNKNOWN_REST)?;
    settling::withdraw(tx, id, at)
}

/// Makes a spend of unknown amount known, as told by others.
fn become_nothing(tx: &Connection, id: &AttemptId, reference: &str) -> Result<(), Fault> {
    tx.prepare_cached(
        "UPDATE ledger SET amount_micros = 0, billable_micros = 0
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend' AND reference = ?4
           AND amount_micros IS NULL",
    )?
    .execute(params![id.run.as_str(), id.cell.as_str(), id.number, reference])?;
    Ok(())
}

/// What an attempt holds in reserve.
pub(super) fn held(tx: &Connection, id: &AttemptId) -> Result<Micros, Fault> {
    let sum: i64 = tx
        .prepare_cached(
            "SELECT coalesce(sum(billable_micros), 0) FROM ledger
             WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind <> ?4",
        )?
        .query_row(params![id.run.as_str(), id.cell.as_str(), id.number, LedgerKind::Spend.as_str()], |row| {
            row.get(0)
        })?;
    Ok(Micros::new(sum))
}
