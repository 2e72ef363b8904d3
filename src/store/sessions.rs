//! Sessions: their rows, and their money in the same transaction.

use jiff::Timestamp;
use rusqlite::{Connection, named_params, params};

use super::error::Fault;
use super::fence::{self, Standing};
use super::ledger::{self, SessionCost};
use super::owner::Owner;
use super::row::{Columns, count, known_count, money, time, to_json, tokens};
use super::worker::Ticket;
use super::{Store, calls};
use crate::domain::{AttemptId, Micros, SessionRecord};

impl Store {
    /// Stores a session as soon as it ends, books its cost, and lowers the attempt's reservation by it.
    ///
    /// `billable` is what counts against the budget: the cost, zero where the cell is exempt, `None` where the cost is
    /// unknown. Storing a session again updates its row and books nothing twice.
    pub fn add_session(&self, attempt: &AttemptId, session: &SessionRecord, billable: Option<Micros>) -> Ticket<()> {
        let (acting, attempt, session) = (self.acting.clone(), attempt.clone(), session.clone());
        self.write(move |tx| match fence::standing(tx, acting.as_deref(), &attempt)? {
            Standing::Held | Standing::GivenUp => put(tx, acting.as_deref(), &attempt, &session, billable),
            Standing::Taken => fence::book_session(tx, acting.as_deref(), &attempt, &session, billable),
        })
    }

    /// Returns the sessions of an attempt in order.
    pub fn sessions(&self, attempt: &AttemptId) -> Ticket<Vec<SessionRecord>> {
        let attempt = attempt.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT record_json FROM sessions
                 WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 ORDER BY session",
            )?;
            let mut rows = statement.query(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                found.push(Columns::of(row).json("record_json")?);
            }
            Ok(found)
        })
    }
}

/// When a session ended, as far as the wall clock can be believed.
fn end_of(session: &SessionRecord) -> Timestamp {
    jiff::SignedDuration::try_from(session.duration)
        .ok()
        .and_then(|duration| session.started_at.checked_add(duration).ok())
        .unwrap_or(session.started_at)
}

/// Milliseconds of a duration.
pub(super) fn millis(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Tells whether this very session is on record: not only its number.
pub(super) fn is_stored(tx: &Connection, attempt: &AttemptId, session: &SessionRecord) -> Result<bool, Fault> {
    Ok(tx
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM sessions WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3
               AND session = ?4 AND started_at = ?5)",
        )?
        .query_row(
            params![
                attempt.run.as_str(),
                attempt.cell.as_str(),
                attempt.number,
                session.index,
                time(session.started_at)
            ],
            |row| row.get(0),
        )?)
}

/// Returns what the sessions of an attempt count for against the budget, as far as it is known.
pub(super) fn billed(tx: &Connection, attempt: &AttemptId) -> Result<Micros, Fault> {
    let sum = tx
        .prepare_cached(
            "SELECT coalesce(sum(billable_micros), 0) FROM ledger
             WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 AND kind = 'spend' AND instr(reference, ' ') = 0
               AND reference NOT LIKE 'judge%'",
        )?
        .query_row(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number], |row| row.get(0))?;
    Ok(Micros::new(sum))
}

/// Stores a session and books its cost.
pub(super) fn put(
    tx: &Connection,
    acting: Option<&Owner>,
    attempt: &AttemptId,
    session: &SessionRecord,
    billable: Option<Micros>,
) -> Result<(), Fault> {
    let [input, output, cache_read, cache_write, reasoning] = tokens(&session.usage);
    tx.prepare_cached(
        "INSERT INTO sessions (run_name, cell_id, attempt, session, phase, label, harness, model, status, exit_code,
           input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, cost_micros,
           billable_micros, reported_cost_micros, turns, tool_calls, started_at, duration_ms, record_json)
         VALUES (:run, :cell, :attempt, :session, :phase, :label, :harness, :model, :status, :exit_code, :input,
           :output, :cache_read, :cache_write, :reasoning, :cost, :billable, :reported, :turns, :tools, :at, :duration,
           :record)
         ON CONFLICT (run_name, cell_id, attempt, session) DO UPDATE SET
           phase = excluded.phase, label = excluded.label, harness = excluded.harness, model = excluded.model,
           status = excluded.status, exit_code = excluded.exit_code, input_tokens = excluded.input_tokens,
           output_tokens = excluded.output_tokens, cache_read_tokens = excluded.cache_read_tokens,
           cache_write_tokens = excluded.cache_write_tokens, reasoning_tokens = excluded.reasoning_tokens,
           cost_micros = excluded.cost_micros, billable_micros = coalesce(billable_micros, excluded.billable_micros),
           reported_cost_micros = excluded.reported_cost_micros, turns = excluded.turns,
           tool_calls = excluded.tool_calls, started_at = excluded.started_at, duration_ms = excluded.duration_ms,
           record_json = excluded.record_json",
    )?
    .execute(named_params! {
        ":run": attempt.run.as_str(),
        ":cell": attempt.cell.as_str(),
        ":attempt": attempt.number,
        ":session": session.index,
        ":phase": session.phase,
        ":label": session.label,
        ":harness": session.harness,
        ":model": session.model,
        ":status": session.status().as_str(),
        ":exit_code": session.exit_code,
        ":input": input,
        ":output": output,
        ":cache_read": cache_read,
        ":cache_write": cache_write,
        ":reasoning": reasoning,
        ":cost": money(session.cost),
        ":billable": money(billable),
        ":reported": money(session.reported_cost),
        ":turns": known_count(session.turns),
        ":tools": known_count(session.tool_calls),
        ":at": time(session.started_at),
        ":duration": millis(session.duration),
        ":record": to_json("record_json", session)?,
    })?;
    let reference = format!("s{}", session.index);
    calls::book_session(tx, acting, (attempt, session.index), (&reference, end_of(session)))?;
    let (index, at_least) = (session.index, session.cost_at_least);
    let cost = SessionCost { index, cost: session.cost, at_least, billable, at: end_of(session) };
    ledger::spend(tx, attempt, &cost)
}

/// The sum over the sessions of one named phase.
struct PhaseSum<'a> {
    phase: &'a str,
    sessions: Vec<&'a SessionRecord>,
}

/// Stores the sums of each named phase, in the order in which the phases began.
pub(super) fn put_phases(tx: &Connection, attempt: &AttemptId, sessions: &[SessionRecord]) -> Result<(), Fault> {
    let mut phases: Vec<PhaseSum<'_>> = Vec::new();
    for session in sessions {
        let Some(name) = session.phase.as_deref() else { continue };
        match phases.iter_mut().find(|sum| sum.phase == name) {
            Some(sum) => sum.sessions.push(session),
            None => phases.push(PhaseSum { phase: name, sessions: vec![session] }),
        }
    }
    phases.iter().enumerate().try_for_each(|(position, sum)| put_phase(tx, attempt, position, sum))
}

fn put_phase(tx: &Connection, attempt: &AttemptId, position: usize, sum: &PhaseSum<'_>) -> Result<(), Fault> {
    let Some(last) = sum.sessions.last() else { return Ok(()) };
    let usage = sum.sessions.iter().fold(crate::domain::Usage::ZERO, |usage, session| usage.plus(session.usage));
    let [input, output, cache_read, cache_write, reasoning] = tokens(&usage);
    let cost: Option<Micros> = sum.sessions.iter().map(|session| session.cost).sum();
    let latency = sum.sessions.iter().map(|session| session.duration).sum();
    tx.prepare_cached(
        "INSERT INTO phase_results (run_name, cell_id, attempt, phase, position, model, status, sessions, input_tokens,
           output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, total_cost, total_cost_micros,
           latency_ms)
         VALUES (:run, :cell, :attempt, :phase, :position, :model, :status, :sessions, :input, :output, :cache_read,
           :cache_write, :reasoning, :dollars, :cost, :latency)
         ON CONFLICT (run_name, cell_id, attempt, phase) DO UPDATE SET
           position = excluded.position, model = excluded.model, status = excluded.status,
           sessions = excluded.sessions, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
           cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
           reasoning_tokens = excluded.reasoning_tokens, total_cost = excluded.total_cost,
           total_cost_micros = excluded.total_cost_micros, latency_ms = excluded.latency_ms",
    )?
    .execute(named_params! {
        ":run": attempt.run.as_str(),
        ":cell": attempt.cell.as_str(),
        ":attempt": attempt.number,
        ":phase": sum.phase,
        ":position": count(position as u64),
        ":model": last.model,
        ":status": last.status().as_str(),
        ":sessions": count(sum.sessions.len() as u64),
        ":input": input,
        ":output": output,
        ":cache_read": cache_read,
        ":cache_write": cache_write,
        ":reasoning": reasoning,
        ":dollars": cost.map(Micros::dollars),
        ":cost": money(cost),
        ":latency": millis(latency),
    })?;
    Ok(())
}
