//! Runs and where their cells stand: starts, skips, what resume needs to know, and the totals.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use rusqlite::{Connection, named_params, params};

use super::error::Fault;
use super::owner::Owner;
use super::row::{Columns, count, money, time, to_json};
use super::worker::Ticket;
use super::{Store, hosts, ledger};
use crate::domain::event::RunSummary;
use crate::domain::{CellId, CellKey, ErrorClass, ExitClass, Micros, RunName, Terminal};

/// What a start of a run is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct RunMeta {
    /// The run.
    pub name: RunName,
    /// The run file as it was written; names of variables, never values of keys.
    pub config_json: serde_json::Value,
    /// A digest of what of it decides results.
    pub config_digest: String,
    /// The version of Refrain.
    pub refrain_version: String,
    /// Cells of the whole matrix.
    pub total_cells: usize,
    /// The cap; `Some(0)` is a real cap.
    pub budget: Option<Micros>,
    /// Digests of the images, by the names that the run file uses.
    pub image_digests: BTreeMap<String, String>,
    /// The process that runs it.
    pub owner: Option<Owner>,
    /// When.
    pub started_at: Timestamp,
}

/// One start of a run: events are numbered within it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RunHandle {
    /// The run.
    pub run: RunName,
    /// Which start, from 1.
    pub start: u32,
}

/// A cell that a resumed run leaves alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedCell {
    /// What the cell meant when it was decided.
    pub key: CellKey,
    /// How it ended; [`Terminal::is_decided`] holds.
    pub terminal: Terminal,
    /// Coarse class.
    pub exit_class: ExitClass,
    /// Fine class.
    pub error_class: ErrorClass,
    /// Whether the task was solved; unknown without a verdict.
    pub solved: Option<bool>,
    /// The attempt that decided it.
    pub attempt: u32,
}

/// Where a cell stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellState {
    /// The cell.
    pub cell: CellId,
    /// The name of a step or an end, or `skipped`.
    pub state: String,
    /// The latest attempt; `None` for a cell that was never tried.
    pub attempt: Option<u32>,
    /// Why it was skipped.
    pub skip_reason: Option<String>,
}

/// A run in a list of runs. The figures of the plan are those of its latest start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    /// The run.
    pub name: RunName,
    /// How often it was started.
    pub starts: u32,
    /// When it was first started.
    pub first_started_at: Timestamp,
    /// When it was last started.
    pub started_at: Timestamp,
    /// When that start ended; `None` where it runs or was killed.
    pub finished_at: Option<Timestamp>,
    /// Digest of the configuration.
    pub config_digest: String,
    /// The version of Refrain.
    pub refrain_version: String,
    /// The totals.
    pub summary: RunSummary,
}

impl Store {
    /// Records a start of a run. Earlier starts, with another configuration perhaps, stay on record.
    pub fn begin_run(&self, meta: &RunMeta) -> Ticket<RunHandle> {
        let meta = meta.clone();
        self.write(move |tx| begin_run(tx, &meta))
    }

    /// Returns the run file of a run as it was when it was last started.
    pub fn run_config(&self, run: &RunName) -> Ticket<Option<serde_json::Value>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT config_json FROM run_metadata WHERE run_name = ?1 ORDER BY start DESC LIMIT 1",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            rows.next()?.map(|row| Columns::of(row).json("config_json")).transpose()
        })
    }

    /// Records the end of a start.
    pub fn end_run(&self, handle: &RunHandle, interrupted: bool, at: Timestamp) -> Ticket<()> {
        let handle = handle.clone();
        self.write(move |tx| {
            tx.prepare_cached(
                "UPDATE run_metadata SET finished_at = ?3, interrupted = ?4 WHERE run_name = ?1 AND start = ?2",
            )?
            .execute(params![handle.run.as_str(), handle.start, time(at), interrupted])?;
            Ok(())
        })
    }

    /// Records that a cell was not started. A cell that is decided or under way stays as it is.
    pub fn skip_cell(&self, run: &RunName, cell: &CellId, key: &CellKey, reason: &str, at: Timestamp) -> Ticket<()> {
        let (run, cell, key, reason) = (run.clone(), cell.clone(), key.clone(), reason.to_owned());
        self.write(move |tx| {
            let ended = Terminal::ALL.into_iter().filter(|terminal| !terminal.is_decided()).map(Terminal::as_str);
            let replaceable: Vec<&str> = ended.chain(["skipped"]).collect();
            tx.prepare_cached(
                "INSERT INTO run_state (run_name, cell_id, cell_key, state, skip_reason, updated_at)
                 VALUES (?1, ?2, ?3, 'skipped', ?4, ?5)
                 ON CONFLICT (run_name, cell_id) DO UPDATE SET
                   cell_key = excluded.cell_key, state = excluded.state, exit_class = NULL, error_class = NULL,
                   success = NULL, skip_reason = excluded.skip_reason, updated_at = excluded.updated_at
                 WHERE state IN (SELECT value FROM json_each(?6))",
            )?
            .execute(params![
                run.as_str(),
                cell.as_str(),
                key.as_str(),
                reason,
                time(at),
                to_json("state", &replaceable)?
            ])?;
            Ok(())
        })
    }

    /// Returns the cells that a resumed run leaves alone, with what they meant.
    pub fn decided(&self, run: &RunName) -> Ticket<HashMap<CellId, DecidedCell>> {
        let run = run.clone();
        self.read(move |tx| decided(tx, &run))
    }

    /// Returns the number of the latest attempt of each cell that was ever tried. Numbers are never used again.
    pub fn last_attempts(&self, run: &RunName) -> Ticket<HashMap<CellId, u32>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT cell_id, max(attempt) AS attempt FROM attempts WHERE run_name = ?1 GROUP BY cell_id",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            let mut found = HashMap::new();
            while let Some(row) = rows.next()? {
                found.insert(CellId::from_stored(row.get::<_, String>(0)?), row.get(1)?);
            }
            Ok(found)
        })
    }

    /// Returns where every cell stands that a start has touched.
    pub fn states(&self, run: &RunName) -> Ticket<Vec<CellState>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT cell_id, state, attempt, skip_reason FROM run_state WHERE run_name = ?1 ORDER BY cell_id",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(CellState {
                    cell: CellId::from_stored(row.get::<_, String>(0)?),
                    state: row.get(1)?,
                    attempt: row.get(2)?,
                    skip_reason: row.get(3)?,
                });
            }
            Ok(found)
        })
    }

    /// Returns the totals of a run over all its starts; all zero for a run that was never started.
    pub fn summary(&self, run: &RunName) -> Ticket<RunSummary> {
        let run = run.clone();
        self.read(move |tx| summary(tx, &run))
    }

    /// Returns every run, the latest start first.
    pub fn runs(&self) -> Ticket<Vec<RunRow>> {
        self.read(runs)
    }
}

fn begin_run(tx: &Connection, meta: &RunMeta) -> Result<RunHandle, Fault> {
    let start: u32 = tx
        .prepare_cached("SELECT coalesce(max(start), 0) + 1 FROM run_metadata WHERE run_name = ?1")?
        .query_row([meta.name.as_str()], |row| row.get(0))?;
    let owner = meta.owner.as_ref().map(|owner| to_json("owner", owner)).transpose()?;
    tx.prepare_cached(
        "INSERT INTO run_metadata (run_name, start, config_digest, refrain_version, total_cells, budget_micros, owner,
           started_at, image_digests, config_json)
         VALUES (:run, :start, :digest, :version, :total, :budget, :owner, :at, :images, :config)",
    )?
    .execute(named_params! {
        ":run": meta.name.as_str(),
        ":start": start,
        ":digest": meta.config_digest,
        ":version": meta.refrain_version,
        ":total": count(meta.total_cells as u64),
        ":budget": money(meta.budget),
        ":owner": owner,
        ":at": time(meta.started_at),
        ":images": to_json("image_digests", &meta.image_digests)?,
        ":config": to_json("config_json", &meta.config_json)?,
    })?;
    let handle = RunHandle { run: meta.name.clone(), start };
    if let Some(owner) = &meta.owner {
        hosts::begin(tx, &handle, owner, meta.started_at)?;
    }
    Ok(handle)
}

fn decided(tx: &Connection, run: &RunName) -> Result<HashMap<CellId, DecidedCell>, Fault> {
    // Columns by position: this reads a hundred thousand rows at the start of a resumed run.
    let mut statement = tx.prepare_cached(
        "SELECT cell_id, cell_key, state, exit_class, error_class, success, attempt FROM run_state WHERE run_name = ?1",
    )?;
    let mut rows = statement.query([run.as_str()])?;
    let mut found = HashMap::new();
    while let Some(row) = rows.next()? {
        let state = row.get_ref(2)?.as_str().map_err(rusqlite::Error::from)?;
        let Some(terminal) = Terminal::parse(state).filter(|terminal| terminal.is_decided()) else { continue };
        let name = |index: usize, column: &'static str| -> Result<&str, Fault> {
            row.get_ref(index)?.as_str().map_err(|_| super::row::unknown(column, "NULL"))
        };
        let exit_class = name(3, "exit_class")?;
        let error_class = name(4, "error_class")?;
        let cell = DecidedCell {
            key: CellKey::new(row.get::<_, String>(1)?),
            terminal,
            exit_class: ExitClass::parse(exit_class).ok_or_else(|| super::row::unknown("exit_class", exit_class))?,
            error_class: ErrorClass::parse(error_class)
                .ok_or_else(|| super::row::unknown("error_class", error_class))?,
            solved: row.get(5)?,
            attempt: row.get(6)?,
        };
        found.insert(CellId::from_stored(row.get::<_, String>(0)?), cell);
    }
    Ok(found)
}

/// Counts cells by how they stand, with the names of the domain and no pattern on ids.
fn summary(tx: &Connection, run: &RunName) -> Result<RunSummary, Fault> {
    let mut summary = RunSummary::default();
    let mut latest = tx.prepare_cached(
        "SELECT total_cells, budget_micros, interrupted FROM run_metadata WHERE run_name = ?1
         ORDER BY start DESC LIMIT 1",
    )?;
    let mut rows = latest.query([run.as_str()])?;
    if let Some(row) = rows.next()? {
        let row = Columns::of(row);
        summary.total = usize::try_from(row.number("total_cells")?).unwrap_or(usize::MAX);
        summary.budget = row.money("budget_micros")?;
        summary.interrupted = row.flag("interrupted")?.unwrap_or(false);
    }
    let mut counts = tx.prepare_cached(
        "SELECT exit_class, skip_reason, count(*) AS cells FROM run_state WHERE run_name = ?1
         GROUP BY exit_class, skip_reason ORDER BY cells DESC, skip_reason",
    )?;
    let mut rows = counts.query([run.as_str()])?;
    while let Some(row) = rows.next()? {
        let row = Columns::of(row);
        let cells = usize::try_from(row.number("cells")?).unwrap_or(usize::MAX);
        if let Some(reason) = row.known_text("skip_reason")? {
            summary.skipped.push((reason, cells));
            continue;
        }
        match row.known_named("exit_class", ExitClass::parse)? {
            Some(ExitClass::Pass) => summary.passed += cells,
            Some(ExitClass::Fail) => summary.failed += cells,
            Some(ExitClass::RetryableKill | ExitClass::NonRetryableKill) => summary.errored += cells,
            // Under way.
            None => {}
        }
    }
    let skipped: usize = summary.skipped.iter().map(|(_, cells)| cells).sum();
    summary.not_run =
        summary.total.saturating_sub(summary.passed + summary.failed + summary.errored).saturating_sub(skipped);
    let totals = ledger::totals(tx, run)?;
    summary.total_cost = totals.total;
    summary.billable_cost = totals.billable_spent;
    summary.unknown_costs = totals.unknown;
    Ok(summary)
}

fn runs(tx: &Connection) -> Result<Vec<RunRow>, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT m.*, f.started_at AS first_started_at FROM run_metadata AS m
         JOIN run_metadata AS f ON f.run_name = m.run_name AND f.start = 1
         WHERE m.start = (SELECT max(start) FROM run_metadata AS n WHERE n.run_name = m.run_name)
         ORDER BY m.started_at DESC, m.run_name",
    )?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let row = Columns::of(row);
        let name = row.run()?;
        found.push(RunRow {
            summary: summary(tx, &name)?,
            name,
            starts: row.small("start")?,
            first_started_at: row.time("first_started_at")?,
            started_at: row.time("started_at")?,
            finished_at: row.known_time("finished_at")?,
            config_digest: row.text("config_digest")?,
            refrain_version: row.text("refrain_version")?,
        });
    }
    Ok(found)
}
