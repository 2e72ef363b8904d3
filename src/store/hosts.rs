//! Hosts: the processes that carry out a run, how long each is believed to live, and what they were asked to do.
//!
//! A process of this machine is alive while it exists. Of any other machine only its lease tells: it is renewed while
//! the host works, and once it has run out another host may declare it lost, which cannot be taken back. A lost host can
//! neither renew its lease nor claim a cell, and what it says of its attempts is fenced (see [`super::fence`]).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, params};

use super::Store;
use super::error::Fault;
use super::owner::Owner;
use super::row::{Columns, time, to_json};
use super::runs::RunHandle;
use super::worker::Ticket;
use crate::domain::RunName;

/// How long a lease holds without being renewed.
pub const LEASE: Duration = Duration::from_secs(60);

/// How often a host renews its lease.
pub const LEASE_RENEWAL: Duration = Duration::from_secs(10);

/// How far a host is asked to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CancelRequest {
    /// Start nothing new, let what runs finish.
    Drain,
    /// Stop sessions, collect and record what is there.
    Stop,
    /// Kill everything and record that.
    Kill,
}

impl CancelRequest {
    /// All requests, the weakest first.
    pub const ALL: [Self; 3] = [Self::Drain, Self::Stop, Self::Kill];

    /// Returns the name used in SQL and JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "drain",
            Self::Stop => "stop",
            Self::Kill => "kill",
        }
    }

    /// Finds a request by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|request| request.as_str() == name)
    }

    /// Returns the next stronger one; the strongest stays.
    #[must_use]
    pub fn stronger(self) -> Self {
        match self {
            Self::Drain => Self::Stop,
            Self::Stop | Self::Kill => Self::Kill,
        }
    }
}

/// Where a host's lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Whether the host is still believed; once `false`, it stays so.
    pub held: bool,
    /// How far somebody asked it to stop.
    pub cancel: Option<CancelRequest>,
}

/// The host of one start of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRow {
    /// Which start.
    pub handle: RunHandle,
    /// The process; unknown where it did not say.
    pub owner: Option<Owner>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it said that it had ended.
    pub finished_at: Option<Timestamp>,
    /// Until when it is believed; `None` for a start of a version without leases.
    pub lease_expires_at: Option<Timestamp>,
    /// When another host declared it lost.
    pub lost_at: Option<Timestamp>,
    /// How far somebody asked it to stop.
    pub cancel: Option<CancelRequest>,
}

impl HostRow {
    /// Tells whether this host is at work.
    #[must_use]
    pub fn is_alive(&self, now: Timestamp) -> bool {
        let Some(owner) = &self.owner else { return false };
        if self.finished_at.is_some() || self.lost_at.is_some() {
            return false;
        }
        if owner.is_local() { owner.is_alive() } else { self.lease_expires_at.is_some_and(|until| until > now) }
    }
}

impl Store {
    /// Returns the hosts of every start of a run, the latest first.
    pub fn hosts(&self, run: &RunName) -> Ticket<Vec<HostRow>> {
        let run = run.clone();
        self.read(move |tx| hosts(tx, &run))
    }

    /// Returns where a lease stands. Cheap: one row by its key.
    pub fn lease(&self, handle: &RunHandle) -> Ticket<Lease> {
        let handle = handle.clone();
        self.read(move |tx| lease(tx, &handle))
    }

    /// Renews a lease for [`LEASE`] from `now` on, unless it was declared lost, and returns where it stands.
    pub fn renew_lease(&self, handle: &RunHandle, now: Timestamp) -> Ticket<Lease> {
        let handle = handle.clone();
        self.write(move |tx| {
            tx.prepare_cached(
                "UPDATE hosts SET lease_expires_at = ?3 WHERE run_name = ?1 AND start = ?2 AND lost_at IS NULL",
            )?
            .execute(params![handle.run.as_str(), handle.start, time(lease_end(now))])?;
            lease(tx, &handle)
        })
    }

    /// Asks a host to stop; a weaker request than one it has already changes nothing. Returns what it is asked now.
    pub fn request_cancel(
        &self,
        handle: &RunHandle,
        request: CancelRequest,
        at: Timestamp,
    ) -> Ticket<Option<CancelRequest>> {
        let handle = handle.clone();
        self.write(move |tx| {
            if lease(tx, &handle)?.cancel.is_none_or(|present| present < request) {
                tx.prepare_cached("UPDATE hosts SET cancel = ?3, cancel_at = ?4 WHERE run_name = ?1 AND start = ?2")?
                    .execute(params![handle.run.as_str(), handle.start, request.as_str(), time(at)])?;
            }
            Ok(lease(tx, &handle)?.cancel)
        })
    }

    /// Declares the hosts of other machines lost whose leases have run out by `now`, and returns those that are still
    /// believed. Await it before [`Store::orphaned_attempts`], and judge owners by [`Owner::is_vouched_for`].
    pub fn believed_hosts(&self, run: &RunName, now: Timestamp) -> Ticket<Vec<Owner>> {
        let run = run.clone();
        self.write(move |tx| {
            let mut believed = Vec::new();
            for host in hosts(tx, &run)? {
                let Some(owner) = &host.owner else { continue };
                if host.is_alive(now) {
                    believed.push(owner.clone());
                } else if host.finished_at.is_none() && host.lost_at.is_none() && !owner.is_local() {
                    declare_lost(tx, &host.handle, now)?;
                }
            }
            Ok(believed)
        })
    }
}

/// Until when a lease that is renewed now holds.
fn lease_end(now: Timestamp) -> Timestamp {
    SignedDuration::try_from(LEASE).ok().and_then(|lease| now.checked_add(lease).ok()).unwrap_or(Timestamp::MAX)
}

/// Gives a new start its lease.
pub(super) fn begin(tx: &Connection, handle: &RunHandle, owner: &Owner, now: Timestamp) -> Result<(), Fault> {
    tx.prepare_cached("INSERT INTO hosts (run_name, start, owner, lease_expires_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![handle.run.as_str(), handle.start, to_json("owner", owner)?, time(lease_end(now))])?;
    Ok(())
}

/// Tells whether a process was declared lost as a host of this run, and has not started it anew since.
pub(super) fn is_lost(tx: &Connection, run: &RunName, owner: &Owner) -> Result<bool, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT lost_at IS NOT NULL FROM hosts WHERE run_name = ?1 AND owner = ?2 ORDER BY start DESC LIMIT 1",
    )?;
    let mut rows = statement.query(params![run.as_str(), to_json("owner", owner)?])?;
    Ok(rows.next()?.map(|row| row.get(0)).transpose()?.unwrap_or(false))
}

fn declare_lost(tx: &Connection, handle: &RunHandle, now: Timestamp) -> Result<(), Fault> {
    tx.prepare_cached("UPDATE hosts SET lost_at = ?3 WHERE run_name = ?1 AND start = ?2 AND lost_at IS NULL")?
        .execute(params![handle.run.as_str(), handle.start, time(now)])?;
    Ok(())
}

fn lease(tx: &Connection, handle: &RunHandle) -> Result<Lease, Fault> {
    let mut statement = tx.prepare_cached("SELECT lost_at, cancel FROM hosts WHERE run_name = ?1 AND start = ?2")?;
    let mut rows = statement.query(params![handle.run.as_str(), handle.start])?;
    // A start without an owner has no lease: nobody waits for it, and nobody can take it away.
    let Some(row) = rows.next()? else { return Ok(Lease { held: true, cancel: None }) };
    let row = Columns::of(row);
    Ok(Lease { held: row.known_time("lost_at")?.is_none(), cancel: row.known_named("cancel", CancelRequest::parse)? })
}

/// Tells whether a host is at work on a run.
pub(super) fn any_alive(tx: &Connection, run: &RunName, now: Timestamp) -> Result<bool, Fault> {
    Ok(hosts(tx, run)?.iter().any(|host| host.is_alive(now)))
}

fn hosts(tx: &Connection, run: &RunName) -> Result<Vec<HostRow>, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT m.run_name, m.start, m.owner, m.started_at, m.finished_at, h.lease_expires_at, h.lost_at, h.cancel
         FROM run_metadata AS m LEFT JOIN hosts AS h ON h.run_name = m.run_name AND h.start = m.start
         WHERE m.run_name = ?1 ORDER BY m.start DESC",
    )?;
    let mut rows = statement.query([run.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Columns::of(row);
        found.push(HostRow {
            handle: RunHandle { run: row.run()?, start: row.small("start")? },
            owner: row.known_named("owner", |text| serde_json::from_str(text).ok())?,
            started_at: row.time("started_at")?,
            finished_at: row.known_time("finished_at")?,
            lease_expires_at: row.known_time("lease_expires_at")?,
            lost_at: row.known_time("lost_at")?,
            cancel: row.known_named("cancel", CancelRequest::parse)?,
        });
    }
    Ok(found)
}
