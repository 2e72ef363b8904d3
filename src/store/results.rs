//! The end of an attempt: everything it left, in one transaction.

use rusqlite::{Connection, named_params, params};

use super::error::Fault;
use super::fence::{self, Standing};
use super::ledger::{LedgerEntry, append};
use super::row::{count, known_count, money, sum_known, time, to_json, tokens};
use super::tail::{first_part, last_part};
use super::worker::Ticket;
use super::{Owner, Store, attempts, reserves, sessions};
use crate::domain::{CellId, CostMode, Micros, RunName, RunRecord, SessionRecord};

/// What an attempt left besides its record. Texts are redacted before they get here.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResultExtra {
    /// The diff; `None` where none could be taken. A column keeps its first 4 MiB.
    pub diff: Option<Vec<u8>>,
    /// What the tests printed; the verdict's report where `None`. A column keeps the last 50 KB.
    pub test_output: Option<Vec<u8>>,
    /// What the harness printed; a column keeps the last 50 KB.
    pub harness_stdout: Option<Vec<u8>>,
    /// What the harness printed on standard error; a column keeps the last 50 KB.
    pub harness_stderr: Option<Vec<u8>>,
    /// Milliseconds in sessions; unknown where nobody measured.
    pub latency_ms: Option<u64>,
    /// Milliseconds from the attempt's beginning to its first session; unknown where it had none.
    pub time_to_first_attempt_ms: Option<u64>,
    /// Infrastructure retries before this attempt.
    pub retry_count: u32,
    /// Who pays.
    pub cost_mode: Option<CostMode>,
    /// Spends that are no session's, such as a judge's.
    pub ledger: Vec<LedgerEntry>,
}

impl Store {
    /// Stores the end of an attempt in one transaction: its row, steps, sessions and their money, phases, the cell's
    /// result and state; and releases what it still held in reserve, unless something that counts against the budget is
    /// unknown of it: then that counts until it is known.
    ///
    /// Doing it again changes nothing. An attempt that is older than the cell's latest keeps its own rows and its
    /// costs, and leaves the cell's result to the later one. Write the record's file before
    /// ([`super::record_file::write_record`]).
    ///
    /// Answers `false` where another host has taken the attempt from the one that this handle acts for: then only the
    /// money is booked.
    pub fn finish_attempt(&self, record: &RunRecord, extra: ResultExtra) -> Ticket<bool> {
        let (acting, record) = (self.acting.clone(), record.clone());
        self.write(move |tx| finish(tx, acting.as_deref(), &record, &extra))
    }
}

/// What an attempt's row says of a record whose start nobody stored.
const NOBODY: &str = "";

/// Returns the part of a session's cost that counts against the budget. An older record does not say it of each session;
/// there all count or none, by the attempt's own figure.
pub(super) fn billable_of(record: &RunRecord, session: &SessionRecord) -> Option<Micros> {
    let exempt = session.exempt.is_none() && record.billable_cost == Some(Micros::ZERO);
    if exempt { Some(Micros::ZERO) } else { session.billable() }
}

/// Stores the end of an attempt, if it is still `acting`'s to end.
pub(super) fn finish(
    tx: &Connection,
    acting: Option<&Owner>,
    record: &RunRecord,
    extra: &ResultExtra,
) -> Result<bool, Fault> {
    let id = &record.attempt;
    let standing = fence::standing(tx, acting, id)?;
    if standing != Standing::Held {
        fence::book_record(tx, acting, record, standing)?;
        return Ok(false);
    }
    put_attempt(tx, record)?;
    for (seq, transition) in (0i64..).zip(&record.transitions) {
        attempts::put_transition(tx, id, seq, transition)?;
    }
    for session in &record.sessions {
        sessions::put(tx, acting, id, session, billable_of(record, session))?;
    }
    sessions::put_phases(tx, id, &record.sessions)?;
    for entry in &extra.ledger {
        append(tx, entry)?;
    }
    reserves::close(tx, id, record.finished_at)?;
    put_result(tx, record, extra)?;
    put_state(tx, record)?;
    refresh_costs(tx, &id.run, &id.cell)?;
    Ok(true)
}

fn put_attempt(tx: &Connection, record: &RunRecord) -> Result<(), Fault> {
    let id = &record.attempt;
    tx.prepare_cached(
        "INSERT INTO attempts (run_name, cell_id, attempt, cell_key, scratch_dir, owner_pid, owner_started,
           owner_boot_id, owner_host_id, started_at, ended_at, terminal_state, exit_class, error_class, error_message,
           success, duration_ms, total_cost_micros, billable_micros, record_json)
         VALUES (:run, :cell, :attempt, :key, :nobody, 0, 0, :nobody, :nobody, :started, :ended, :terminal, :exit,
           :error, :message, :success, :duration, :cost, :billable, :record)
         ON CONFLICT (run_name, cell_id, attempt) DO UPDATE SET
           ended_at = excluded.ended_at, terminal_state = excluded.terminal_state, exit_class = excluded.exit_class,
           error_class = excluded.error_class, error_message = excluded.error_message, success = excluded.success,
           orphaned = 0, duration_ms = excluded.duration_ms, total_cost_micros = excluded.total_cost_micros,
           billable_micros = excluded.billable_micros, record_json = excluded.record_json",
    )?
    .execute(named_params! {
        ":run": id.run.as_str(),
        ":cell": id.cell.as_str(),
        ":attempt": id.number,
        ":key": record.cell_key.as_str(),
        ":nobody": NOBODY,
        ":started": time(record.started_at),
        ":ended": time(record.finished_at),
        ":terminal": record.terminal.as_str(),
        ":exit": record.exit_class.as_str(),
        ":error": record.error_class.as_str(),
        ":message": record.failure.as_ref().map(ToString::to_string),
        ":success": record.solved,
        ":duration": count(record.duration_ms),
        ":cost": money(record.cost),
        ":billable": money(record.billable_cost),
        ":record": to_json("record_json", record)?,
    })?;
    Ok(())
}

/// What of a record has no column of its own.
fn metadata(record: &RunRecord) -> Result<String, Fault> {
    let inputs = &record.inputs;
    to_json(
        "harness_metadata",
        &serde_json::json!({
            "harness_version": inputs.harness_version,
            "image": inputs.image,
            "runtime": inputs.runtime,
            "orchestrator_hash": inputs.orchestrator_hash,
            "params": inputs.params,
            "cell_key": record.cell_key,
            "refrain_version": record.refrain_version,
            "workspace": record.workspace,
            "warnings": record.warnings,
        }),
    )
}

const PUT_RESULT: &str = "INSERT INTO run_results (run_name, cell_id, attempt, harness, model, review_model, task_id,
   track, repeat, orchestrator, terminal_state, exit_class, success, error_class, tests_passed, tests_total,
   input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, latency_ms,
   time_to_first_attempt_ms, duration_ms, num_sessions, num_api_calls, num_tool_calls, timestamp, retry_count,
   cost_mode, harness_metadata, error_message, test_output, harness_stdout, harness_stderr, diff)
 VALUES (:run, :cell, :attempt, :harness, :model, :review_model, :task, :track, :repeat, :orchestrator, :terminal,
   :exit, :success, :error, :passed, :total, :input, :output, :cache_read, :cache_write, :reasoning, :latency,
   :first_attempt, :duration, :sessions, :api_calls, :tool_calls, :at, :retries, :cost_mode, :metadata, :message,
   :test_output, :stdout, :stderr, :diff)
 ON CONFLICT (run_name, cell_id) DO UPDATE SET
   attempt = excluded.attempt, harness = excluded.harness, model = excluded.model,
   review_model = excluded.review_model, task_id = excluded.task_id, track = excluded.track, repeat = excluded.repeat,
   orchestrator = excluded.orchestrator, terminal_state = excluded.terminal_state, exit_class = excluded.exit_class,
   success = excluded.success, error_class = excluded.error_class, tests_passed = excluded.tests_passed,
   tests_total = excluded.tests_total, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
   cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
   reasoning_tokens = excluded.reasoning_tokens, latency_ms = excluded.latency_ms,
   time_to_first_attempt_ms = excluded.time_to_first_attempt_ms, duration_ms = excluded.duration_ms,
   num_sessions = excluded.num_sessions, num_api_calls = excluded.num_api_calls,
   num_tool_calls = excluded.num_tool_calls, timestamp = excluded.timestamp, retry_count = excluded.retry_count,
   cost_mode = excluded.cost_mode, harness_metadata = excluded.harness_metadata,
   error_message = excluded.error_message, test_output = excluded.test_output,
   harness_stdout = excluded.harness_stdout, harness_stderr = excluded.harness_stderr, diff = excluded.diff
 WHERE excluded.attempt >= run_results.attempt";

fn put_result(tx: &Connection, record: &RunRecord, extra: &ResultExtra) -> Result<(), Fault> {
    let (id, inputs, verdict) = (&record.attempt, &record.inputs, record.verdict.as_ref());
    let [input, output, cache_read, cache_write, reasoning] = tokens(&record.usage);
    let text = |output: &Option<Vec<u8>>| output.as_deref().map(last_part);
    let test_output = text(&extra.test_output).or_else(|| verdict.map(|verdict| last_part(verdict.report.as_bytes())));
    tx.prepare_cached(PUT_RESULT)?.execute(named_params! {
        ":run": id.run.as_str(),
        ":cell": id.cell.as_str(),
        ":attempt": id.number,
        ":harness": inputs.harness,
        ":model": inputs.model,
        ":review_model": inputs.review_model,
        ":task": inputs.task,
        ":track": inputs.track,
        ":repeat": inputs.repeat,
        ":orchestrator": inputs.orchestrator,
        ":terminal": record.terminal.as_str(),
        ":exit": record.exit_class.as_str(),
        ":success": record.solved,
        ":error": record.error_class.as_str(),
        ":passed": verdict.map(|verdict| verdict.passed),
        ":total": verdict.map(|verdict| verdict.total),
        ":input": input,
        ":output": output,
        ":cache_read": cache_read,
        ":cache_write": cache_write,
        ":reasoning": reasoning,
        ":latency": known_count(extra.latency_ms),
        ":first_attempt": known_count(extra.time_to_first_attempt_ms),
        ":duration": count(record.duration_ms),
        ":sessions": count(record.sessions.len() as u64),
        ":api_calls": known_count(sum_known(record.sessions.iter().map(|session| session.api_calls.or(session.turns)))),
        ":tool_calls": known_count(sum_known(record.sessions.iter().map(|session| session.tool_calls))),
        ":at": time(record.finished_at),
        ":retries": extra.retry_count,
        ":cost_mode": extra.cost_mode.map(CostMode::as_str),
        ":metadata": metadata(record)?,
        ":message": record.failure.as_ref().map(ToString::to_string),
        ":test_output": test_output,
        ":stdout": text(&extra.harness_stdout),
        ":stderr": text(&extra.harness_stderr),
        ":diff": extra.diff.as_deref().map(first_part),
    })?;
    Ok(())
}

fn put_state(tx: &Connection, record: &RunRecord) -> Result<(), Fault> {
    let id = &record.attempt;
    tx.prepare_cached(
        "INSERT INTO run_state (run_name, cell_id, cell_key, state, attempt, exit_class, error_class, success,
           updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
         ON CONFLICT (run_name, cell_id) DO UPDATE SET
           cell_key = excluded.cell_key, state = excluded.state, attempt = excluded.attempt,
           exit_class = excluded.exit_class, error_class = excluded.error_class, success = excluded.success,
           skip_reason = NULL, updated_at = excluded.updated_at
         WHERE run_state.attempt IS NULL OR excluded.attempt >= run_state.attempt",
    )?
    .execute(params![
        id.run.as_str(),
        id.cell.as_str(),
        record.cell_key.as_str(),
        record.terminal.as_str(),
        id.number,
        record.exit_class.as_str(),
        record.error_class.as_str(),
        record.solved,
        time(record.finished_at)
    ])?;
    Ok(())
}

/// Sets a cell's cost to the sum over its ended attempts, failed and retried ones included; unknown where one is.
pub(super) fn refresh_costs(tx: &Connection, run: &RunName, cell: &CellId) -> Result<(), Fault> {
    let sums: (Option<i64>, Option<i64>) = tx
        .prepare_cached(
            "SELECT CASE WHEN count(*) = count(total_cost_micros) THEN sum(total_cost_micros) END,
               CASE WHEN count(*) = count(billable_micros) THEN sum(billable_micros) END
             FROM attempts WHERE run_name = ?1 AND cell_id = ?2 AND ended_at IS NOT NULL",
        )?
        .query_row([run.as_str(), cell.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let dollars = sums.0.map(|micros| Micros::new(micros).dollars());
    tx.prepare_cached(
        "UPDATE run_results SET total_cost = ?3, total_cost_micros = ?4, billable_micros = ?5
         WHERE run_name = ?1 AND cell_id = ?2",
    )?
    .execute(params![run.as_str(), cell.as_str(), dollars, sums.0, sums.1])?;
    Ok(())
}
