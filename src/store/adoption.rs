//! Attempts of hosts that are gone: taken over by another one, or ended for a reason.

use jiff::Timestamp;
use rusqlite::{Connection, named_params};

use super::Store;
use super::attempts::{self, Orphan};
use super::error::Fault;
use super::owner::Owner;
use super::row::Columns;
use super::worker::Ticket;
use crate::domain::{AttemptId, Failure};

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

    /// Ends an orphaned attempt like [`Store::mark_orphaned`], and says why it could not be gone on with. `metered` says that
    /// its host is dead and that all its sessions could spend passed the gateway: then its captured calls are what it cost,
    /// if they have all ended.
    pub fn give_up_orphan(&self, orphan: &Orphan, reason: &str, metered: bool, at: Timestamp) -> Ticket<bool> {
        let (orphan, message) = (orphan.clone(), format!("{}; {reason}", Failure::HostLost));
        self.write(move |tx| attempts::mark_orphaned(tx, &orphan, (&message, metered), at))
    }
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
