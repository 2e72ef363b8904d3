//! Sessions whose logs were read once more: their records change, the money that stood on the harness's word is corrected
//! by entries of its own, and what was there before stays.
//!
//! Ends of attempts and verdicts are never touched, nor what the gateway counted.

mod correction;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, named_params, params};

use super::error::Fault;
use super::row::{Columns, known_count, money, sum_known, time, to_json, tokens, unknown};
use super::worker::Ticket;
use super::{Store, attempts, hosts, results, sessions};
use crate::domain::{AttemptId, Micros, RunName, RunRecord, SessionRecord, Usage};

/// A session on record, for whoever reads its log once more.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSession {
    /// Its attempt.
    pub attempt: AttemptId,
    /// What is on record of it.
    pub record: SessionRecord,
    /// Whether its attempt is under way, or waits to be gone on with.
    pub under_way: bool,
    /// Whether a part of what its attempt cost was settled by hand.
    pub settled: bool,
}

/// A record that takes the place of another.
#[derive(Debug, Clone, PartialEq)]
pub struct Reparse {
    /// The attempt.
    pub attempt: AttemptId,
    /// What must be on record for it to be replaced.
    pub former: SessionRecord,
    /// What takes its place.
    pub record: SessionRecord,
    /// A digest of the manifest and adapter that read the log.
    pub adapter: String,
    /// The version of the real program that they were tried with.
    pub verified: Option<String>,
}

/// What became of a [`Reparse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReparsedSession {
    /// It is on record.
    Written,
    /// Nothing is changed; why.
    Refused(&'static str),
}

/// Who changes records, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Telling {
    /// The version of Refrain.
    pub refrain_version: String,
    /// When.
    pub at: Timestamp,
}

/// One time that a session's record was changed.
#[derive(Debug, Clone, PartialEq)]
pub struct ReparsedRow {
    /// The attempt.
    pub attempt: AttemptId,
    /// Which time of this session, from 1.
    pub seq: u32,
    /// When.
    pub at: Timestamp,
    /// The version of Refrain that did it.
    pub refrain_version: String,
    /// A digest of the manifest and adapter that read the log.
    pub adapter: String,
    /// The version of the real program that they were tried with.
    pub verified: Option<String>,
    /// What was on record before.
    pub former: SessionRecord,
    /// What was put in its place.
    pub record: SessionRecord,
}

/// Why nothing is changed.
const CHANGED_MEANWHILE: &str = "its record was changed meanwhile: give the command again";
const UNDER_WAY: &str = "its attempt is under way, or waits to be gone on with";
const HOST_ALIVE: &str = "a host carries out its run";
const SETTLED: &str = "what its attempt cost was settled by hand";

impl Store {
    /// Returns the sessions of every attempt of a run, in order.
    pub fn stored_sessions(&self, run: &RunName) -> Ticket<Vec<StoredSession>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT s.run_name, s.cell_id, s.attempt, s.record_json, a.ended_at IS NULL AS under_way
                 FROM sessions AS s JOIN attempts AS a USING (run_name, cell_id, attempt)
                 WHERE s.run_name = ?1 ORDER BY s.cell_id, s.attempt, s.session",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                let attempt = attempts::attempt_id(&row)?;
                found.push(StoredSession {
                    record: row.json("record_json")?,
                    under_way: row.flag("under_way")?.unwrap_or(false),
                    settled: correction::is_settled(tx, &attempt)?,
                    attempt,
                });
            }
            Ok(found)
        })
    }

    /// Puts records in the place of others, all in one transaction: sessions, sums over them, the records of their attempts
    /// and their money. One that another process has changed since, or that cannot be changed now, stays as it is.
    pub fn reparse(&self, run: &RunName, reparses: Vec<Reparse>, telling: &Telling) -> Ticket<Vec<ReparsedSession>> {
        let (run, telling) = (run.clone(), telling.clone());
        self.write(move |tx| {
            if hosts::any_alive(tx, &run, telling.at)? {
                return Ok(vec![ReparsedSession::Refused(HOST_ALIVE); reparses.len()]);
            }
            reparses.iter().map(|reparse| put(tx, reparse, &telling)).collect()
        })
    }

    /// Returns how sessions of a run were changed, in order.
    pub fn reparsed(&self, run: &RunName) -> Ticket<Vec<ReparsedRow>> {
        let run = run.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT * FROM reparsed_sessions WHERE run_name = ?1 ORDER BY cell_id, attempt, session, seq",
            )?;
            let mut rows = statement.query([run.as_str()])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(ReparsedRow {
                    attempt: attempts::attempt_id(&row)?,
                    seq: row.small("seq")?,
                    at: row.time("at")?,
                    refrain_version: row.text("refrain_version")?,
                    adapter: row.text("adapter")?,
                    verified: row.known_text("verified")?,
                    former: row.json("former_json")?,
                    record: row.json("record_json")?,
                });
            }
            Ok(found)
        })
    }
}

fn put(tx: &Connection, reparse: &Reparse, telling: &Telling) -> Result<ReparsedSession, Fault> {
    let Reparse { attempt, former, record, .. } = reparse;
    if attempts::is_under_way(tx, attempt)? {
        return Ok(ReparsedSession::Refused(UNDER_WAY));
    }
    let Some((stored, billable)) = stored(tx, attempt, former.index)? else {
        return Ok(ReparsedSession::Refused(CHANGED_MEANWHILE));
    };
    if stored != *former {
        return Ok(ReparsedSession::Refused(CHANGED_MEANWHILE));
    }
    let costs = (former.cost, record.cost);
    if costs.0 != costs.1 && (costs.0.is_none() || costs.1.is_none()) && correction::is_settled(tx, attempt)? {
        return Ok(ReparsedSession::Refused(SETTLED));
    }
    keep_former(tx, reparse, telling)?;
    // What stayed off the budget stays off it.
    let exempt = billable == Some(Micros::ZERO) && former.cost != Some(Micros::ZERO) || former.exempt == Some(true);
    let new_billable = if exempt { Some(Micros::ZERO) } else { record.cost };
    put_session(tx, attempt, record, new_billable)?;
    if costs.0 != costs.1 {
        correction::book(tx, attempt, (record.index, record.cost, exempt), telling)?;
    }
    put_attempt(tx, attempt, former, record, (billable, new_billable))?;
    Ok(ReparsedSession::Written)
}

/// Returns what is on record of a session, and what of it counts against the budget.
fn stored(
    tx: &Connection,
    attempt: &AttemptId,
    session: u32,
) -> Result<Option<(SessionRecord, Option<Micros>)>, Fault> {
    let mut statement = tx.prepare_cached(
        "SELECT record_json, billable_micros FROM sessions
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND session = ?4",
    )?;
    let mut rows = statement.query(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number, session])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let row = Columns::of(row);
    Ok(Some((row.json("record_json")?, row.money("billable_micros")?)))
}

fn keep_former(tx: &Connection, reparse: &Reparse, telling: &Telling) -> Result<(), Fault> {
    let Reparse { attempt, former, record, adapter, verified } = reparse;
    tx.prepare_cached(
        "INSERT INTO reparsed_sessions (run_name, cell_id, attempt, session, seq, at, refrain_version, harness, adapter,
           verified, former_json, record_json)
         VALUES (:run, :cell, :attempt, :session, 1 + (SELECT count(*) FROM reparsed_sessions WHERE run_name = :run
           AND cell_id = :cell AND attempt = :attempt AND session = :session), :at, :version, :harness, :adapter,
           :verified, :former, :record)",
    )?
    .execute(named_params! {
        ":run": attempt.run.as_str(),
        ":cell": attempt.cell.as_str(),
        ":attempt": attempt.number,
        ":session": record.index,
        ":at": time(telling.at),
        ":version": telling.refrain_version,
        ":harness": record.harness,
        ":adapter": adapter,
        ":verified": verified,
        ":former": to_json("former_json", former)?,
        ":record": to_json("record_json", record)?,
    })?;
    Ok(())
}

fn put_session(
    tx: &Connection,
    attempt: &AttemptId,
    record: &SessionRecord,
    billable: Option<Micros>,
) -> Result<(), Fault> {
    let [input, output, cache_read, cache_write, reasoning] = tokens(&record.usage);
    tx.prepare_cached(
        "UPDATE sessions SET status = :status, input_tokens = :input, output_tokens = :output,
           cache_read_tokens = :cache_read, cache_write_tokens = :cache_write, reasoning_tokens = :reasoning,
           cost_micros = :cost, billable_micros = :billable, reported_cost_micros = :reported, turns = :turns,
           tool_calls = :tools, record_json = :record
         WHERE run_name = :run AND cell_id = :cell AND attempt = :attempt AND session = :session",
    )?
    .execute(named_params! {
        ":status": record.status().as_str(),
        ":input": input,
        ":output": output,
        ":cache_read": cache_read,
        ":cache_write": cache_write,
        ":reasoning": reasoning,
        ":cost": money(record.cost),
        ":billable": money(billable),
        ":reported": money(record.reported_cost),
        ":turns": known_count(record.turns),
        ":tools": known_count(record.tool_calls),
        ":record": to_json("record_json", record)?,
        ":run": attempt.run.as_str(),
        ":cell": attempt.cell.as_str(),
        ":attempt": attempt.number,
        ":session": record.index,
    })?;
    Ok(())
}

/// Brings the record of an attempt, and the sums over its sessions, into line with a session's new record.
fn put_attempt(
    tx: &Connection,
    id: &AttemptId,
    former: &SessionRecord,
    record: &SessionRecord,
    billable: (Option<Micros>, Option<Micros>),
) -> Result<(), Fault> {
    let key = params![id.run.as_str(), id.cell.as_str(), id.number];
    let mut statement = tx.prepare_cached(
        "SELECT record_json, total_cost_micros, billable_micros FROM attempts
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3",
    )?;
    let found = statement
        .query_row(key, |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, Option<i64>>(2)?))
        })
        .optional()?;
    let Some((json, cost, counted)) = found else { return Ok(()) };
    let (by_ledger, counts) = correction::sums(tx, id)?;
    let moved = |sum: Option<Micros>, (old, new): (Option<Micros>, Option<Micros>), all: Option<Micros>| match sum {
        _ if old == new => sum,
        Some(sum) => old.zip(new).map(|(old, new)| sum - old + new),
        // Something was unknown: the ledger tells whether anything still is.
        None => all,
    };
    let costs = (former.cost, record.cost);
    let json = match json {
        Some(text) => {
            let mut told: RunRecord =
                serde_json::from_str(&text).map_err(|error| unknown("record_json", &error.to_string()))?;
            if let Some(place) = told.sessions.iter_mut().find(|session| session.index == record.index) {
                place.clone_from(record);
            }
            told.usage = told.sessions.iter().map(|session| session.usage).fold(Usage::ZERO, Usage::plus);
            told.cost = moved(told.cost, costs, by_ledger);
            told.billable_cost = moved(told.billable_cost, billable, counts);
            sessions::put_phases(tx, id, &told.sessions)?;
            put_result(tx, &told)?;
            Some(to_json("record_json", &told)?)
        }
        None => None,
    };
    tx.prepare_cached(
        "UPDATE attempts SET record_json = ?4, total_cost_micros = ?5, billable_micros = ?6
         WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3",
    )?
    .execute(params![
        id.run.as_str(),
        id.cell.as_str(),
        id.number,
        json,
        money(moved(cost.map(Micros::new), costs, by_ledger)),
        money(moved(counted.map(Micros::new), billable, counts)),
    ])?;
    results::refresh_costs(tx, &id.run, &id.cell)
}

/// Brings the figures of a cell's result into line, where it is that of this attempt.
fn put_result(tx: &Connection, record: &RunRecord) -> Result<(), Fault> {
    let (id, sessions) = (&record.attempt, &record.sessions);
    let [input, output, cache_read, cache_write, reasoning] = tokens(&record.usage);
    tx.prepare_cached(
        "UPDATE run_results SET input_tokens = :input, output_tokens = :output, cache_read_tokens = :cache_read,
           cache_write_tokens = :cache_write, reasoning_tokens = :reasoning, num_api_calls = :calls,
           num_tool_calls = :tools
         WHERE run_name = :run AND cell_id = :cell AND attempt = :attempt",
    )?
    .execute(named_params! {
        ":input": input,
        ":output": output,
        ":cache_read": cache_read,
        ":cache_write": cache_write,
        ":reasoning": reasoning,
        ":calls": known_count(sum_known(sessions.iter().map(|session| session.api_calls.or(session.turns)))),
        ":tools": known_count(sum_known(sessions.iter().map(|session| session.tool_calls))),
        ":run": id.run.as_str(),
        ":cell": id.cell.as_str(),
        ":attempt": id.number,
    })?;
    Ok(())
}
