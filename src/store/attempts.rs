//! Attempts: claimed before anything starts, found again when their process is gone, and their transition log.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, named_params, params};

use super::adoption::GivenUp;
use super::error::{Fault, StoreError};
use super::fence::{self, Standing};
use super::owner::Owner;
use super::row::{Columns, parse_state, time};
use super::worker::Ticket;
use super::{Store, adoption, hosts, reserves, results, settling};
use crate::domain::{
    AttemptId, AttemptState, CellId, CellKey, ErrorClass, ExitClass, Failure, Micros, RunName, RunRecord, Terminal,
    Transition,
};

/// What is known of an attempt before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptStart {
    /// Which attempt.
    pub id: AttemptId,
    /// What the cell means.
    pub key: CellKey,
    /// The folder on the host for its homes, workspaces and spools.
    pub scratch: std::path::PathBuf,
    /// The process that runs it.
    pub owner: Owner,
    /// When.
    pub started_at: Timestamp,
    /// Whether the cell may be claimed although it is decided.
    pub again: bool,
}

/// An attempt that is under way by its row while the process that ran it is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Which attempt.
    pub id: AttemptId,
    /// What the cell meant.
    pub key: CellKey,
    /// The folder to sweep.
    pub scratch: std::path::PathBuf,
    /// The process that ran it.
    pub owner: Owner,
    /// The last step on record.
    pub state: AttemptState,
    /// When it began.
    pub started_at: Timestamp,
}

/// An attempt in a list of attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptRow {
    /// Which attempt.
    pub id: AttemptId,
    /// What the cell meant.
    pub key: CellKey,
    /// The process that ran it.
    pub owner: Owner,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; `None` while it is under way.
    pub ended_at: Option<Timestamp>,
    /// How it ended.
    pub terminal: Option<Terminal>,
    /// Coarse class.
    pub exit_class: Option<ExitClass>,
    /// Fine class.
    pub error_class: Option<ErrorClass>,
    /// Why, where it is not simply a verdict.
    pub error_message: Option<String>,
    /// Whether the task was solved; unknown without a verdict.
    pub solved: Option<bool>,
    /// Whether its process was found gone.
    pub orphaned: bool,
    /// Its cost; unknown where a session's is.
    pub cost: Option<Micros>,
    /// The part that counts against the budget.
    pub billable: Option<Micros>,
}

impl Store {
    /// Claims a cell for an attempt and records it. Await this before anything of the attempt starts.
    ///
    /// Fails with [`StoreError::Claimed`] if the attempt is on record already, if another one of the cell is under way in
    /// this or any other process, or if the cell is decided and not to be tried again; with [`StoreError::LeaseLost`] if
    /// the owner was declared lost.
    pub fn begin_attempt(&self, start: &AttemptStart) -> Ticket<()> {
        let start = start.clone();
        self.write(move |tx| begin(tx, &start))
    }

    /// Appends a step to an attempt's log and shows it as the cell's state. Await the step to
    /// [`AttemptState::Executing`] before the first session: it tells a later recovery that money may have been spent.
    pub fn add_transition(&self, attempt: &AttemptId, transition: &Transition) -> Ticket<()> {
        let (acting, attempt, transition) = (self.acting.clone(), attempt.clone(), transition.clone());
        self.write(move |tx| match fence::standing(tx, acting.as_deref(), &attempt)? {
            Standing::Held => add_transition(tx, &attempt, &transition),
            Standing::GivenUp | Standing::Taken => Ok(()),
        })
    }

    /// Returns the attempts of a run that are under way although `is_alive` says that their process is not.
    ///
    /// Import finished ones with [`Store::recover`] first; then [`Store::mark_orphaned`] gives their cells back.
    pub fn orphaned_attempts<F>(&self, run: &RunName, is_alive: F) -> Ticket<Vec<Orphan>>
    where
        F: Fn(&Owner) -> bool + Send + 'static,
    {
        let run = run.clone();
        self.read(move |tx| {
            let mut open = under_way(tx, &run)?;
            open.retain(|orphan| !is_alive(&orphan.owner));
            Ok(open)
        })
    }

    /// Ends an orphaned attempt as an infrastructure error, so that its cell can be claimed again.
    ///
    /// Returns `false`, and changes nothing, if the attempt has ended meanwhile or belongs to another process than
    /// `orphan` says. Its reservation is released. If it has not come to [`AttemptState::Executing`] by now, whatever
    /// `orphan` says of that, nothing was spent and its cost is zero. Otherwise its cost is unknown, and what it still held in reserve becomes a debt
    /// ([`super::LedgerTotals::assumed`]) until somebody finds out what it spent.
    pub fn mark_orphaned(&self, orphan: &Orphan, at: Timestamp) -> Ticket<bool> {
        let orphan = orphan.clone();
        self.write(move |tx| mark_orphaned(tx, &orphan, (&Failure::HostLost.to_string(), &GivenUp::default()), at))
    }

    /// Returns the attempts of a cell, oldest first.
    pub fn attempts(&self, run: &RunName, cell: &CellId) -> Ticket<Vec<AttemptRow>> {
        let (run, cell) = (run.clone(), cell.clone());
        self.read(move |tx| {
            let mut statement =
                tx.prepare_cached("SELECT * FROM attempts WHERE run_name = ?1 AND cell_id = ?2 ORDER BY attempt")?;
            let mut rows = statement.query([run.as_str(), cell.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(attempt_row(&Columns::of(row))?);
            }
            Ok(found)
        })
    }

    /// Returns the record of an ended attempt; `None` for one that is under way, orphaned or unknown.
    pub fn record(&self, attempt: &AttemptId) -> Ticket<Option<RunRecord>> {
        let attempt = attempt.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT record_json FROM attempts
                 WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND record_json IS NOT NULL",
            )?;
            let mut rows = statement.query(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number])?;
            rows.next()?.map(|row| Columns::of(row).json("record_json")).transpose()
        })
    }

    /// Returns the steps of an attempt in order.
    pub fn transitions(&self, attempt: &AttemptId) -> Ticket<Vec<Transition>> {
        let attempt = attempt.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT from_state, to_state, at, reason FROM transitions
                 WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 ORDER BY seq",
            )?;
            let mut rows = statement.query(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(Transition {
                    from: row.named("from_state", parse_state)?,
                    to: row.named("to_state", parse_state)?,
                    at: row.time("at")?,
                    reason: row.known_text("reason")?,
                });
            }
            Ok(found)
        })
    }
}

pub(super) fn begin(tx: &Connection, start: &AttemptStart) -> Result<(), Fault> {
    let (id, owner) = (&start.id, &start.owner);
    if hosts::is_lost(tx, &id.run, owner)? {
        return Err(StoreError::LeaseLost { run: id.run.clone() }.into());
    }
    if let Some(present) = decided_by(tx, id)?.filter(|_| !start.again) {
        return Err(StoreError::Claimed { attempt: id.clone(), present, state: "decided" }.into());
    }
    let inserted = tx
        .prepare_cached(
            "INSERT INTO attempts (run_name, cell_id, attempt, cell_key, scratch_dir, owner_pid, owner_started,
               owner_boot_id, owner_host_id, started_at)
             VALUES (:run, :cell, :attempt, :key, :scratch, :pid, :started, :boot, :host, :at)
             ON CONFLICT DO NOTHING",
        )?
        .execute(named_params! {
            ":run": id.run.as_str(),
            ":cell": id.cell.as_str(),
            ":attempt": id.number,
            ":key": start.key.as_str(),
            ":scratch": start.scratch.to_string_lossy(),
            ":pid": owner.pid,
            ":started": super::row::count(owner.started),
            ":boot": owner.boot_id,
            ":host": owner.host_id,
            ":at": time(start.started_at),
        })?;
    if inserted == 0 {
        return Err(in_the_way(tx, id)?);
    }
    tx.prepare_cached(
        "INSERT INTO run_state (run_name, cell_id, cell_key, state, attempt, updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (run_name, cell_id) DO UPDATE SET
           cell_key = excluded.cell_key, state = excluded.state, attempt = excluded.attempt, exit_class = NULL,
           error_class = NULL, success = NULL, skip_reason = NULL, updated_at = excluded.updated_at",
    )?
    .execute(params![
        id.run.as_str(),
        id.cell.as_str(),
        start.key.as_str(),
        AttemptState::Pending.as_str(),
        id.number,
        time(start.started_at)
    ])?;
    Ok(())
}

/// Returns the attempt that has decided a cell.
fn decided_by(tx: &Connection, id: &AttemptId) -> Result<Option<u32>, Fault> {
    let mut statement =
        tx.prepare_cached("SELECT state, attempt FROM run_state WHERE run_name = ?1 AND cell_id = ?2")?;
    let mut rows = statement.query([id.run.as_str(), id.cell.as_str()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let state = Terminal::parse(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    Ok(if state.is_some_and(Terminal::is_decided) { row.get(1)? } else { None })
}

/// Says which attempt keeps `wanted` from being claimed.
fn in_the_way(tx: &Connection, wanted: &AttemptId) -> Result<Fault, Fault> {
    let (present, ended): (u32, bool) = tx.query_row(
        "SELECT attempt, ended_at IS NOT NULL FROM attempts
         WHERE run_name = ?1 AND cell_id = ?2 AND (attempt = ?3 OR ended_at IS NULL) ORDER BY ended_at IS NULL DESC",
        params![wanted.run.as_str(), wanted.cell.as_str(), wanted.number],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let state = if ended { "ended" } else { "under way" };
    Ok(StoreError::Claimed { attempt: wanted.clone(), present, state }.into())
}

/// Tells whether an attempt has begun and not ended.
pub(super) fn is_under_way(tx: &Connection, id: &AttemptId) -> Result<bool, Fault> {
    Ok(tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM attempts
               WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND ended_at IS NULL)",
        )?
        .query_row(params![id.run.as_str(), id.cell.as_str(), id.number], |row| row.get(0))?)
}

fn add_transition(tx: &Connection, attempt: &AttemptId, transition: &Transition) -> Result<(), Fault> {
    let key = params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number];
    let seq: i64 = tx
        .prepare_cached(
            "SELECT coalesce(max(seq), -1) + 1 FROM transitions
             WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3",
        )?
        .query_row(key, |row| row.get(0))?;
    put_transition(tx, attempt, seq, transition)?;
    tx.prepare_cached(
        "UPDATE run_state SET state = ?4, updated_at = ?5
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND exit_class IS NULL",
    )?
    .execute(params![
        attempt.run.as_str(),
        attempt.cell.as_str(),
        attempt.number,
        transition.to.as_str(),
        time(transition.at)
    ])?;
    Ok(())
}

/// Writes one line of the log, unless it is there.
pub(super) fn put_transition(
    tx: &Connection,
    attempt: &AttemptId,
    seq: i64,
    transition: &Transition,
) -> Result<(), Fault> {
    tx.prepare_cached(
        "INSERT INTO transitions (run_name, cell_id, attempt, seq, from_state, to_state, at, reason)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (run_name, cell_id, attempt, seq) DO NOTHING",
    )?
    .execute(params![
        attempt.run.as_str(),
        attempt.cell.as_str(),
        attempt.number,
        seq,
        transition.from.as_str(),
        transition.to.as_str(),
        time(transition.at),
        transition.reason
    ])?;
    Ok(())
}

/// Returns the last step of an attempt on record.
fn last_step(tx: &Connection, id: &AttemptId) -> Result<AttemptState, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT to_state FROM transitions WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3
         ORDER BY seq DESC LIMIT 1",
    )?;
    let mut rows = statement.query(params![id.run.as_str(), id.cell.as_str(), id.number])?;
    rows.next()?.map_or(Ok(AttemptState::Pending), |row| Columns::of(row).named("to_state", parse_state))
}

fn under_way(tx: &Connection, run: &RunName) -> Result<Vec<Orphan>, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT a.*, coalesce((SELECT t.to_state FROM transitions AS t
             WHERE t.run_name = a.run_name AND t.cell_id = a.cell_id AND t.attempt = a.attempt
             ORDER BY t.seq DESC LIMIT 1), 'pending') AS state
         FROM attempts AS a WHERE a.run_name = ?1 AND a.ended_at IS NULL ORDER BY a.cell_id",
    )?;
    let mut rows = statement.query([run.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Columns::of(row);
        found.push(Orphan {
            id: attempt_id(&row)?,
            key: CellKey::new(row.text("cell_key")?),
            scratch: row.text("scratch_dir")?.into(),
            owner: owner(&row)?,
            state: row.named("state", parse_state)?,
            started_at: row.time("started_at")?,
        });
    }
    Ok(found)
}

/// Ends an orphaned attempt; `message` says why.
pub(super) fn mark_orphaned(
    tx: &Connection,
    orphan: &Orphan,
    (message, given_up): (&str, &GivenUp),
    at: Timestamp,
) -> Result<bool, Fault> {
    let (id, owner, failure) = (&orphan.id, &orphan.owner, Failure::HostLost);
    // As of now: a host that was only suspended may have gone on since the orphan was found.
    let state = last_step(tx, id)?;
    let untouched = AttemptState::STEPS.into_iter().take_while(|step| *step != AttemptState::Executing);
    let cost = untouched.into_iter().any(|step| step == state).then_some(0);
    let changed = tx
        .prepare_cached(
            "UPDATE attempts SET ended_at = :at, terminal_state = :terminal, exit_class = :exit, error_class = :error,
               error_message = :message, orphaned = 1, total_cost_micros = :cost, billable_micros = :cost
             WHERE run_name = :run AND cell_id = :cell AND attempt = :attempt AND ended_at IS NULL
               AND owner_pid = :pid AND owner_started = :started AND owner_boot_id = :boot AND owner_host_id = :host",
        )?
        .execute(named_params! {
            ":at": time(at),
            ":terminal": failure.terminal().as_str(),
            ":exit": ExitClass::RetryableKill.as_str(),
            ":error": failure.error_class().as_str(),
            ":message": message,
            ":cost": cost,
            ":run": id.run.as_str(),
            ":cell": id.cell.as_str(),
            ":attempt": id.number,
            ":pid": owner.pid,
            ":started": super::row::count(owner.started),
            ":boot": owner.boot_id,
            ":host": owner.host_id,
        })?;
    if changed == 0 {
        return Ok(false);
    }
    tx.prepare_cached(
        "UPDATE run_state SET state = ?4, exit_class = ?5, error_class = ?6, updated_at = ?7
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3",
    )?
    .execute(params![
        id.run.as_str(),
        id.cell.as_str(),
        id.number,
        failure.terminal().as_str(),
        ExitClass::RetryableKill.as_str(),
        failure.error_class().as_str(),
        time(at)
    ])?;
    if cost.is_some() {
        reserves::release_rest(tx, id, "orphaned", at)?;
    } else {
        let seen = adoption::book_left(tx, id, &given_up.exempt, at)?;
        if given_up.metered && seen.is_exact() && !reserves::has_unknown(tx, id)? {
            reserves::release_rest(tx, id, "orphaned", at)?;
            settling::refresh(tx, id)?;
        } else {
            // What its open session has cost beyond that nobody knows: the run's sums are lower bounds from here on.
            reserves::cut_off(tx, id, message, at)?;
        }
    }
    results::refresh_costs(tx, &id.run, &id.cell)?;
    Ok(true)
}

pub(super) fn attempt_id(row: &Columns<'_>) -> Result<AttemptId, Fault> {
    Ok(AttemptId { run: row.run()?, cell: row.cell()?, number: row.small("attempt")? })
}

pub(super) fn owner(row: &Columns<'_>) -> Result<Owner, Fault> {
    Ok(Owner {
        pid: row.small("owner_pid")?,
        started: row.number("owner_started")?,
        boot_id: row.text("owner_boot_id")?,
        host_id: row.text("owner_host_id")?,
    })
}

fn attempt_row(row: &Columns<'_>) -> Result<AttemptRow, Fault> {
    Ok(AttemptRow {
        id: attempt_id(row)?,
        key: CellKey::new(row.text("cell_key")?),
        owner: owner(row)?,
        started_at: row.time("started_at")?,
        ended_at: row.known_time("ended_at")?,
        terminal: row.known_named("terminal_state", Terminal::parse)?,
        exit_class: row.known_named("exit_class", ExitClass::parse)?,
        error_class: row.known_named("error_class", ErrorClass::parse)?,
        error_message: row.known_text("error_message")?,
        solved: row.flag("success")?,
        orphaned: row.flag("orphaned")?.unwrap_or(false),
        cost: row.money("total_cost_micros")?,
        billable: row.money("billable_micros")?,
    })
}

/// Returns the attempts of a run that ended without a record, or have not ended.
pub(super) fn without_record(tx: &Connection, run: &RunName) -> Result<Vec<AttemptId>, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT run_name, cell_id, attempt FROM attempts WHERE run_name = ?1 AND record_json IS NULL",
    )?;
    let mut rows = statement.query([run.as_str()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(attempt_id(&Columns::of(row))?);
    }
    Ok(found)
}

/// Tells whether an attempt's record is stored.
pub(super) fn has_record(tx: &Connection, attempt: &AttemptId) -> Result<bool, Fault> {
    let found = tx
        .prepare_cached(
            "SELECT record_json IS NOT NULL FROM attempts WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3",
        )?
        .query_row(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(false))
}
