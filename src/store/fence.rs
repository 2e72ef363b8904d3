//! Fencing: a host that was given up cannot decide what another one decides now, and loses no money either.
//!
//! A claim belongs to the process in its row. A handle that acts for another process, or for one whose attempt was ended
//! as orphaned, has lost it: whatever it still writes reaches the ledger, and nothing else that a result is made of.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::Fault;
use super::ledger::{self, LedgerEntry, LedgerKind};
use super::owner::Owner;
use super::row::{money, to_json};
use super::worker::Ticket;
use super::{Store, calls, reserves, results, sessions};
use crate::domain::{AttemptId, Micros, RunRecord, SessionRecord};

/// What a writer is to an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It may write.
    Held,
    /// The attempt was ended as orphaned: its rows are still its own, its cell is not.
    GivenUp,
    /// Another host goes on with the attempt: not even its rows are its own.
    Taken,
}

impl Store {
    /// Tells whether the host that this handle acts for may still decide an attempt. Ask before writing files that a
    /// successor might write too.
    pub fn holds(&self, attempt: &AttemptId) -> Ticket<bool> {
        let (acting, attempt) = (self.acting.clone(), attempt.clone());
        self.read(move |tx| Ok(standing(tx, acting.as_deref(), &attempt)? == Standing::Held))
    }
}

/// Finds out what a writer is to an attempt.
///
/// An import acts for nobody. It may decide an orphaned attempt after all, unless the cell has a later one.
pub(super) fn standing(tx: &Connection, acting: Option<&Owner>, id: &AttemptId) -> Result<Standing, Fault> {
    let found = tx
        .prepare_cached(
            "SELECT orphaned, owner_pid, owner_started, owner_boot_id, owner_host_id,
               EXISTS (SELECT 1 FROM attempts AS l
                 WHERE l.run_name = a.run_name AND l.cell_id = a.cell_id AND l.attempt > a.attempt)
             FROM attempts AS a WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3",
        )?
        .query_row(params![id.run.as_str(), id.cell.as_str(), id.number], |row| {
            let owner = Owner {
                pid: row.get(1)?,
                started: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                boot_id: row.get(3)?,
                host_id: row.get(4)?,
            };
            Ok((row.get::<_, bool>(0)?, owner, row.get::<_, bool>(5)?))
        })
        .optional()?;
    Ok(match (found, acting) {
        (None, _) | (Some((false, ..) | (true, _, false)), None) => Standing::Held,
        (Some((true, _, true)), None) => Standing::GivenUp,
        (Some((orphaned, owner, _)), Some(acting)) => match (owner == *acting, orphaned) {
            (true, false) => Standing::Held,
            (true, true) => Standing::GivenUp,
            (false, _) => Standing::Taken,
        },
    })
}

/// Books a session that a lost host has held over an attempt that another one goes on with. Its number may by now be
/// that of another session, so the entry has a name of its own.
pub(super) fn book_session(
    tx: &Connection,
    acting: Option<&Owner>,
    id: &AttemptId,
    session: &SessionRecord,
    billable: Option<Micros>,
) -> Result<(), Fault> {
    if sessions::is_stored(tx, id, session)? {
        return Ok(());
    }
    let host = blake3::hash(to_json("owner", &acting)?.as_bytes()).to_hex();
    let entry = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference: format!("s{} of lost host {}", session.index, &host[..8]),
        amount: session.cost,
        billable,
        at: session.started_at,
        note: Some("held by a host that had lost the attempt".to_owned()),
    };
    calls::book_session(tx, acting, (id, session.index), (&entry.reference, entry.at))?;
    ledger::append_spend(tx, &entry, session.cost_at_least).map(|_| ())
}

/// Books what the record of a lost attempt tells of money, and keeps the record of one that was given up with it.
pub(super) fn book_record(
    tx: &Connection,
    acting: Option<&Owner>,
    record: &RunRecord,
    standing: Standing,
) -> Result<(), Fault> {
    let id = &record.attempt;
    for session in &record.sessions {
        let billable = results::billable_of(record, session);
        match standing {
            Standing::Held | Standing::GivenUp => sessions::put(tx, acting, id, session, billable)?,
            Standing::Taken => book_session(tx, acting, id, session, billable)?,
        }
    }
    if standing == Standing::Taken {
        return Ok(());
    }
    // With its sessions on the ledger, nothing of what it spent is unknown any more, unless one of them is.
    reserves::close(tx, id, record.finished_at)?;
    tx.prepare_cached(
        "UPDATE attempts SET total_cost_micros = ?4, billable_micros = ?5, record_json = ?6
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3",
    )?
    .execute(params![
        id.run.as_str(),
        id.cell.as_str(),
        id.number,
        money(record.cost),
        money(record.billable_cost),
        to_json("record_json", record)?
    ])?;
    results::refresh_costs(tx, &id.run, &id.cell)
}
