//! Attempts of hosts that are gone: taken over by another one, or ended for a reason.

use jiff::Timestamp;
use rusqlite::{Connection, named_params};

use super::attempts::{self, Orphan};
use super::calls::{self, CallSums};
use super::error::Fault;
use super::ledger::{self, LedgerEntry, LedgerKind};
use super::owner::Owner;
use super::row::Columns;
use super::worker::Ticket;
use super::{Store, reserves};
use crate::domain::{AttemptId, Failure, Micros, ModelRole};

/// Why an attempt is given up, and what is known of its money.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GivenUp {
    /// Why it could not be gone on with.
    pub reason: String,
    /// Whether its host is dead and all that its sessions could spend passed the gateway: then its captured calls are what
    /// it cost, if they have all ended.
    pub metered: bool,
    /// By which roles of models its sessions stay off the budget; `None` stands for models that its script has named.
    pub exempt: Vec<Option<ModelRole>>,
}

impl Store {
    /// Returns every attempt under way by its row, of any run: what lies in their environments may still be needed.
    pub fn attempts_under_way(&self) -> Ticket<Vec<AttemptId>> {
        self.read(|tx| {
            let mut statement = tx.prepare_cached(
                "SELECT run_name, cell_id, attempt FROM attempts WHERE ended_at IS NULL ORDER BY run_name, cell_id",
            )?;
            let mut rows = statement.query([])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(attempts::attempt_id(&Columns::of(row))?);
            }
            Ok(found)
        })
    }

    /// Makes `owner` the one who runs an orphaned attempt; returns it with its new owner.
    ///
    /// Returns `None`, and changes nothing, if it has ended meanwhile or belongs to another process than `orphan` says:
    /// of several hosts that want it, one gets it.
    pub fn adopt_attempt(&self, orphan: &Orphan, owner: &Owner) -> Ticket<Option<Orphan>> {
        let (orphan, owner) = (orphan.clone(), owner.clone());
        self.write(move |tx| {
            let adopted = Orphan { owner: owner.clone(), ..orphan.clone() };
            Ok(adopt(tx, &orphan, &owner)?.then_some(adopted))
        })
    }

    /// Ends an orphaned attempt like [`Store::mark_orphaned`], and says why it could not be gone on with.
    pub fn give_up_orphan(&self, orphan: &Orphan, given_up: &GivenUp, at: Timestamp) -> Ticket<bool> {
        let (orphan, given_up) = (orphan.clone(), given_up.clone());
        self.write(move |tx| {
            let message = format!("{}; {}", Failure::HostLost, given_up.reason);
            attempts::mark_orphaned(tx, &orphan, (&message, &given_up), at)
        })
    }
}

/// Books what the gateway saw of an attempt that is given up, beyond its sessions on record, and lowers its reservation
/// by what counts against the budget: all but what is known to be `exempt`. Returns the sums of all that is in no session
/// on record.
pub(super) fn book_left(
    tx: &Connection,
    id: &AttemptId,
    exempt: &[Option<ModelRole>],
    at: Timestamp,
) -> Result<CallSums, Fault> {
    let roles: Vec<&str> = exempt.iter().map(|role| role.map_or("", ModelRole::as_str)).collect();
    for (reference, roles) in
        [("calls of a lost host, off the budget", Some(roles.as_slice())), ("calls of a lost host", None)]
    {
        if !ledger::has_spend(tx, id, reference)? {
            calls::book_left(tx, id, roles, reference)?;
        }
        let sums = calls::booked(tx, id, reference)?;
        if sums.calls > 0 {
            book_sums(tx, id, &sums, (reference, roles.is_some(), at))?;
        }
    }
    // What was cut off before, and booked then, is no session's either.
    let of_no_session = "run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND instr(booked_as, ' ') > 0";
    calls::sums_of(tx, of_no_session, (id.run.as_str(), id.cell.as_str(), id.number))
}

fn book_sums(
    tx: &Connection,
    id: &AttemptId,
    sums: &CallSums,
    (reference, exempt, at): (&str, bool, Timestamp),
) -> Result<(), Fault> {
    let entry = |kind, amount: Micros, billable: Micros| LedgerEntry {
        attempt: id.clone(),
        kind,
        reference: reference.to_owned(),
        amount: Some(amount),
        billable: Some(billable),
        at,
        note: Some(format!("{} calls that the gateway saw", sums.calls)),
    };
    let billable = if exempt { Micros::ZERO } else { sums.known_cost };
    ledger::append(tx, &entry(LedgerKind::Spend, sums.known_cost, billable))?;
    let freed = billable.min(reserves::held(tx, id)?);
    if freed > Micros::ZERO {
        ledger::append(tx, &entry(LedgerKind::Release, -freed, -freed))?;
    }
    Ok(())
}

fn adopt(tx: &Connection, orphan: &Orphan, owner: &Owner) -> Result<bool, Fault> {
    let (id, old) = (&orphan.id, &orphan.owner);
    let changed = tx
        .prepare_cached(
            "UPDATE attempts SET owner_pid = :new_pid, owner_started = :new_started, owner_boot_id = :new_boot,
               owner_host_id = :new_host
             WHERE run_name = :run AND cell_id = :cell AND attempt = :attempt AND ended_at IS NULL
               AND owner_pid = :pid AND owner_started = :started AND owner_boot_id = :boot AND owner_host_id = :host",
        )?
        .execute(named_params! {
            ":new_pid": owner.pid,
            ":new_started": super::row::count(owner.started),
            ":new_boot": owner.boot_id,
            ":new_host": owner.host_id,
            ":run": id.run.as_str(),
            ":cell": id.cell.as_str(),
            ":attempt": id.number,
            ":pid": old.pid,
            ":started": super::row::count(old.started),
            ":boot": old.boot_id,
            ":host": old.host_id,
        })?;
    Ok(changed > 0)
}
