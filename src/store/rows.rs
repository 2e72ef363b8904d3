//! Results as they are read back: every column that is no long text.

use jiff::Timestamp;
use rusqlite::{Connection, named_params, params};
use serde::Serialize;

use super::Store;
use super::error::Fault;
use super::row::Columns;
use super::worker::Ticket;
use crate::domain::{
    AttemptId, CellId, CostMode, ErrorClass, ExitClass, Micros, RunName, SessionStatus, Terminal, Track, Usage,
};

/// The result of a cell: that of its latest ended attempt.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultRow {
    /// The run.
    pub run: RunName,
    /// The cell.
    pub cell: CellId,
    /// The attempt that this is the result of.
    pub attempt: u32,
    /// Harness name.
    pub harness: String,
    /// Implementation model.
    pub model: String,
    /// Review model.
    pub review_model: Option<String>,
    /// Task id.
    pub task: String,
    /// Track.
    pub track: Track,
    /// Which repeat.
    pub repeat: u32,
    /// Orchestrator label.
    pub orchestrator: String,
    /// How it ended.
    pub terminal: Terminal,
    /// Coarse class.
    pub exit_class: ExitClass,
    /// Fine class.
    pub error_class: ErrorClass,
    /// Why, where it is not simply a verdict.
    pub error_message: Option<String>,
    /// Whether the task was solved; unknown without a verdict.
    pub solved: Option<bool>,
    /// Tests that passed, of those that count.
    pub tests_passed: Option<u32>,
    /// Tests that count.
    pub tests_total: Option<u32>,
    /// Tokens of this attempt.
    pub usage: Usage,
    /// Cost of all attempts of the cell; unknown where one's is.
    pub total_cost: Option<Micros>,
    /// The part that counts against the budget.
    pub billable_cost: Option<Micros>,
    /// Milliseconds in sessions.
    pub latency_ms: Option<u64>,
    /// Milliseconds to the first change of the workspace.
    pub time_to_first_attempt_ms: Option<u64>,
    /// Milliseconds from first to last step.
    pub duration_ms: u64,
    /// Sessions of this attempt.
    pub num_sessions: u64,
    /// Requests of this attempt as the gateway saw them; model turns as the harness tells them where it saw none.
    pub num_api_calls: Option<u64>,
    /// Tool calls of this attempt.
    pub num_tool_calls: Option<u64>,
    /// When it ended.
    pub timestamp: Timestamp,
    /// Infrastructure retries before this attempt.
    pub retry_count: u32,
    /// Who pays.
    pub cost_mode: Option<CostMode>,
    /// Versions, image, parameters, workspace, warnings.
    pub harness_metadata: serde_json::Value,
}

/// The long texts of a result.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ResultTexts {
    /// What the tests printed.
    pub test_output: Option<String>,
    /// What the harness printed.
    pub harness_stdout: Option<String>,
    /// What the harness printed on standard error.
    pub harness_stderr: Option<String>,
}

/// Which results to read; what is `None` does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResultFilter {
    /// One cell.
    pub cell: Option<CellId>,
    /// A harness by name.
    pub harness: Option<String>,
    /// A model by name.
    pub model: Option<String>,
    /// A task by id.
    pub task: Option<String>,
    /// An orchestrator by label.
    pub orchestrator: Option<String>,
    /// A coarse class.
    pub exit_class: Option<ExitClass>,
    /// A fine class.
    pub error_class: Option<ErrorClass>,
}

/// The sums over the sessions of one phase of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseRow {
    /// Its name.
    pub phase: String,
    /// The model of its last session.
    pub model: String,
    /// How its last session ended.
    pub status: SessionStatus,
    /// How many sessions it had.
    pub sessions: u64,
    /// Tokens; a class is unknown where one session's is.
    pub usage: Usage,
    /// Cost; unknown where one session's is.
    pub cost: Option<Micros>,
    /// Milliseconds in sessions.
    pub latency_ms: u64,
}

impl Store {
    /// Returns results, of one run or of all, ordered by run and cell.
    pub fn results(&self, run: Option<&RunName>, filter: &ResultFilter) -> Ticket<Vec<ResultRow>> {
        let (run, filter) = (run.cloned(), filter.clone());
        self.read(move |tx| results(tx, run.as_ref(), &filter))
    }

    /// Returns the diff of a cell's result; `None` where there is none.
    pub fn diff(&self, run: &RunName, cell: &CellId) -> Ticket<Option<Vec<u8>>> {
        let (run, cell) = (run.clone(), cell.clone());
        self.read(move |tx| {
            let mut statement =
                tx.prepare_cached("SELECT diff FROM run_results WHERE run_name = ?1 AND cell_id = ?2")?;
            let mut rows = statement.query([run.as_str(), cell.as_str()])?;
            Ok(rows.next()?.map(|row| row.get(0)).transpose()?.flatten())
        })
    }

    /// Returns the long texts of a cell's result; `None` for a cell without a result.
    pub fn texts(&self, run: &RunName, cell: &CellId) -> Ticket<Option<ResultTexts>> {
        let (run, cell) = (run.clone(), cell.clone());
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT test_output, harness_stdout, harness_stderr FROM run_results
                 WHERE run_name = ?1 AND cell_id = ?2",
            )?;
            let mut rows = statement.query([run.as_str(), cell.as_str()])?;
            let Some(row) = rows.next()? else { return Ok(None) };
            let [test_output, harness_stdout, harness_stderr] = [row.get(0)?, row.get(1)?, row.get(2)?];
            Ok(Some(ResultTexts { test_output, harness_stdout, harness_stderr }))
        })
    }

    /// Returns the phases of an attempt in the order in which they began.
    pub fn phases(&self, attempt: &AttemptId) -> Ticket<Vec<PhaseRow>> {
        let attempt = attempt.clone();
        self.read(move |tx| {
            let mut statement = tx.prepare_cached(
                "SELECT * FROM phase_results WHERE run_name = ?1 AND cell_id = ?2 AND attempt = ?3 ORDER BY position",
            )?;
            let mut rows = statement.query(params![attempt.run.as_str(), attempt.cell.as_str(), attempt.number])?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let row = Columns::of(row);
                found.push(PhaseRow {
                    phase: row.text("phase")?,
                    model: row.text("model")?,
                    status: row.named("status", SessionStatus::parse)?,
                    sessions: row.number("sessions")?,
                    usage: row.usage()?,
                    cost: row.money("total_cost_micros")?,
                    latency_ms: row.number("latency_ms")?,
                });
            }
            Ok(found)
        })
    }
}

/// Every column but the long ones, which would be read from disk only to be thrown away; in the order of
/// [`result_row`].
const RESULTS: &str = "SELECT run_name, cell_id, attempt, harness, model, review_model, task_id, track, repeat,
   orchestrator, terminal_state, exit_class, error_class, error_message, success, tests_passed, tests_total,
   input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, reasoning_tokens, total_cost_micros,
   billable_micros, latency_ms, time_to_first_attempt_ms, duration_ms, num_sessions, num_api_calls, num_tool_calls,
   timestamp, retry_count, cost_mode, harness_metadata
 FROM run_results
 WHERE (:run IS NULL OR run_name = :run) AND (:cell IS NULL OR cell_id = :cell)
   AND (:harness IS NULL OR harness = :harness) AND (:model IS NULL OR model = :model)
   AND (:task IS NULL OR task_id = :task) AND (:orchestrator IS NULL OR orchestrator = :orchestrator)
   AND (:exit IS NULL OR exit_class = :exit) AND (:error IS NULL OR error_class = :error)
 ORDER BY run_name, cell_id";

fn results(tx: &Connection, run: Option<&RunName>, filter: &ResultFilter) -> Result<Vec<ResultRow>, Fault> {
    let mut statement = tx.prepare_cached(RESULTS)?;
    let mut rows = statement.query(named_params! {
        ":run": run.map(RunName::as_str),
        ":cell": filter.cell.as_ref().map(CellId::as_str),
        ":harness": filter.harness,
        ":model": filter.model,
        ":task": filter.task,
        ":orchestrator": filter.orchestrator,
        ":exit": filter.exit_class.map(ExitClass::as_str),
        ":error": filter.error_class.map(ErrorClass::as_str),
    })?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(result_row(&Columns::of(row))?);
    }
    Ok(found)
}

fn result_row(row: &Columns<'_>) -> Result<ResultRow, Fault> {
    let tests = |column| Ok::<_, Fault>(row.known_number(column)?.and_then(|count| u32::try_from(count).ok()));
    Ok(ResultRow {
        run: row.run()?,
        cell: row.cell()?,
        attempt: row.small("attempt")?,
        harness: row.text("harness")?,
        model: row.text("model")?,
        review_model: row.known_text("review_model")?,
        task: row.text("task_id")?,
        track: row.named("track", Track::parse)?,
        repeat: row.small("repeat")?,
        orchestrator: row.text("orchestrator")?,
        terminal: row.named("terminal_state", Terminal::parse)?,
        exit_class: row.named("exit_class", ExitClass::parse)?,
        error_class: row.named("error_class", ErrorClass::parse)?,
        error_message: row.known_text("error_message")?,
        solved: row.flag("success")?,
        tests_passed: tests("tests_passed")?,
        tests_total: tests("tests_total")?,
        usage: row.usage()?,
        total_cost: row.money("total_cost_micros")?,
        billable_cost: row.money("billable_micros")?,
        latency_ms: row.known_number("latency_ms")?,
        time_to_first_attempt_ms: row.known_number("time_to_first_attempt_ms")?,
        duration_ms: row.number("duration_ms")?,
        num_sessions: row.number("num_sessions")?,
        num_api_calls: row.known_number("num_api_calls")?,
        num_tool_calls: row.known_number("num_tool_calls")?,
        timestamp: row.time("timestamp")?,
        retry_count: row.small("retry_count")?,
        cost_mode: row.known_named("cost_mode", CostMode::parse)?,
        harness_metadata: row.json("harness_metadata")?,
    })
}
