//! The real world behind a script's port: answers its calls with sessions, checks, commands and files of one attempt.
//!
//! Work that a call begins is a task of the host: it goes on or is undone by the host, whatever happens to the script.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::accounts;
use super::checkpoints::Checkpoints;
use super::checks;
use super::journal::Reply;
use super::off_thread::off_thread;
use super::services::CellContext;
use super::session::{SessionBook, Setup};
use super::spaces::{SpaceError, Spaces};
use crate::domain::failure::Timer;
use crate::domain::{AttemptId, EventKind, Failure, Micros};
use crate::runtime::{Command, Environment, ExecEnd, Output, RuntimeError};
use crate::script::port::{BudgetAnswer, ExecAnswer, WorkspaceId};
use crate::script::{Answer, HostCall, HostError};
use crate::store::CallSums;
use crate::workspace::{Seeded, WorkspaceError, WorkspaceFiles, collect_at};

/// Bytes of output that an `exec` answer keeps of each stream.
const EXEC_KEPT: usize = 256 * 1024;

/// Bound of an `exec` that names none.
const EXEC_TIMEOUT: Duration = Duration::from_secs(600);

/// Lines of a script's log that the record keeps.
const LOG_LINES: usize = 1000;

/// When an attempt must end, and which timer says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    /// The timer.
    pub(crate) timer: Timer,
    /// Its value, from the start of the attempt's execution.
    pub(crate) limit: Duration,
}

/// Starts of sessions that were cut off when their host died.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CutOffStarts {
    /// Those whose cost nobody knows.
    pub(crate) unknown: u32,
    /// Those of them whose cost would count against the budget.
    pub(crate) unknown_billable: u32,
    /// What they have cost, as far as the gateway saw it.
    pub(crate) cost: Micros,
    /// The part that counts against the budget.
    pub(crate) billable: Micros,
}

impl CutOffStarts {
    /// Adds a start by what the gateway saw of it.
    pub(crate) fn add(&mut self, seen: &CallSums, exempt: bool) {
        let unknown = !seen.is_exact();
        self.unknown += u32::from(unknown);
        self.unknown_billable += u32::from(unknown && !exempt);
        self.cost += seen.known_cost;
        self.billable += if exempt { Micros::ZERO } else { seen.known_cost };
    }

    /// What all of them have cost, and what of it counts against the budget; unknown where that of one is.
    pub(crate) fn costs(&self) -> (Option<Micros>, Option<Micros>) {
        let (cost, billable) = (self.cost, self.billable);
        ((self.unknown == 0).then_some(cost), (self.unknown_billable == 0).then_some(billable))
    }
}

/// The state of one executing attempt.
pub(crate) struct Attempt {
    pub(crate) context: CellContext,
    pub(crate) id: AttemptId,
    pub(crate) env: Arc<dyn Environment>,
    pub(crate) seeded: Arc<Seeded>,
    /// The attempt's folder for what is kept.
    pub(crate) folder: PathBuf,
    /// The attempt's folder for what is thrown away.
    pub(crate) scratch: PathBuf,
    /// The clock's reading when execution began on this host.
    pub(crate) began: Duration,
    /// How long an earlier host had executed it.
    pub(crate) before: Duration,
    pub(crate) deadline: Deadline,
    /// How many tries of the cell came before, since the run was started.
    pub(crate) retries: u32,
    /// Ends sessions, checks and commands of this attempt.
    pub(crate) stop: CancellationToken,
    pub(crate) sessions: Mutex<SessionBook>,
    pub(crate) spaces: tokio::sync::Mutex<Spaces>,
    pub(crate) checkpoints: Checkpoints,
    /// What a reader of the record should know of the attempt's going on.
    pub(crate) warnings: Mutex<Vec<String>>,
    pub(crate) cut_off: Mutex<CutOffStarts>,
    pub(crate) diffs: AtomicU32,
    pub(crate) log: Mutex<Vec<String>>,
    pub(crate) tracker: TaskTracker,
    pub(crate) cause: OnceLock<Failure>,
    /// Whether the script or the runner has ended: sessions that it left are stopped, and that is no cause.
    pub(crate) over: AtomicBool,
}

/// Takes a lock whose holder cannot leave it half-changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Attempt {
    /// Ends the attempt for a cause; only the first cause counts.
    pub(crate) fn halt(&self, cause: Failure) -> HostError {
        let message = cause.to_string();
        // A second cause is a consequence of the first.
        let _ = self.cause.set(cause);
        self.stop.cancel();
        HostError::Stop { message }
    }

    /// Returns how long this attempt has executed, without the time that a host of it was down.
    pub(crate) fn elapsed(&self) -> Duration {
        self.before + self.context.services.clock.elapsed().saturating_sub(self.began)
    }

    /// Notes something for the record.
    pub(crate) fn warn(&self, warning: String) {
        lock(&self.warnings).push(warning);
    }

    /// Returns the time left.
    pub(crate) fn remaining(&self) -> Duration {
        self.deadline.limit.saturating_sub(self.elapsed())
    }

    /// Returns the failure of an attempt whose deadline has passed. An agent that was never asked has failed at nothing:
    /// the time was the script's.
    pub(crate) fn out_of_time(&self) -> Failure {
        let deadline = self.deadline;
        if lock(&self.sessions).is_empty() {
            let limit = deadline.limit.as_secs_f64();
            let message = format!("the script held no session before the deadline of {limit:.1} s");
            return Failure::OrchestratorError { message };
        }
        Failure::Timeout { timer: deadline.timer, limit: deadline.limit, elapsed: self.elapsed() }
    }

    /// Answers a call. A session comes with what was decided about it.
    pub(crate) async fn answer(self: Arc<Self>, call: HostCall, setup: Option<Box<Setup>>) -> Reply {
        match call {
            HostCall::Session(call) => match setup {
                Some(setup) => super::session::hold(&self, call, *setup).await,
                None => Err(HostError::Misuse { message: "the session was not set up".to_owned() }),
            },
            HostCall::Checks { workspace } => self.run_checks(workspace).await,
            HostCall::Exec { argv, timeout, workspace } => self.exec(argv, timeout, workspace).await,
            HostCall::Fork { from } => self.fork(from).await,
            HostCall::Merge { from, into } => self.merge(from, into).await,
            HostCall::Discard { workspace } => self.discard(workspace).await,
            HostCall::Sleep { duration } => self.sleep(duration).await,
            HostCall::Read { .. }
            | HostCall::Exists { .. }
            | HostCall::List { .. }
            | HostCall::Glob { .. }
            | HostCall::Diff { .. }
            | HostCall::Write { .. } => self.files(call).await,
            call @ (HostCall::Budget | HostCall::Remaining | HostCall::Now | HostCall::Log { .. }) => {
                self.observe(&call)
            }
        }
    }

    /// Answers a call that needs no waiting.
    pub(crate) fn observe(&self, call: &HostCall) -> Reply {
        Ok(match call {
            HostCall::Budget => Answer::Budget(self.budget()),
            HostCall::Remaining => Answer::Seconds(Some(self.remaining().as_secs_f64())),
            HostCall::Now => Answer::Seconds(Some(self.elapsed().as_secs_f64())),
            HostCall::Log { level, text } => self.log(level, text),
            other => return Err(HostError::Misuse { message: format!("`{}` takes time", other.function()) }),
        })
    }

    /// Returns where a workspace lies inside the environment.
    pub(crate) async fn path_of(&self, workspace: WorkspaceId) -> Result<PathBuf, HostError> {
        let spaces = self.spaces.lock().await;
        spaces.path(workspace.0).map(PathBuf::from).map_err(|error| self.refuse(error))
    }

    /// Refuses a workspace that is gone. One that is changing just now is taken for known.
    pub(crate) fn knows(&self, workspace: WorkspaceId) -> Result<(), HostError> {
        let Ok(spaces) = self.spaces.try_lock() else { return Ok(()) };
        spaces.path(workspace.0).map(|_| ()).map_err(|error| self.refuse(error))
    }

    async fn run_checks(&self, workspace: WorkspaceId) -> Result<Answer, HostError> {
        let path = self.path_of(workspace).await?;
        let services = &self.context.services;
        let task = &services.plan.tasks[self.context.cell().task];
        let remaining = self.remaining();
        let report = checks::run(&*self.env, &path, &task.checks, remaining, &services.redactor, &self.stop).await;
        report.map(Answer::Checks).map_err(|error| self.lost(error))
    }

    async fn exec(
        &self,
        argv: Vec<String>,
        timeout: Option<Duration>,
        workspace: WorkspaceId,
    ) -> Result<Answer, HostError> {
        let mut command = Command::new(argv);
        command.cwd = Some(self.path_of(workspace).await?);
        let own = timeout.unwrap_or(EXEC_TIMEOUT);
        command.limits.timeout = Some((Timer::Session, self.remaining().min(own)));
        let report = match self.env.exec(&command, Output::Capture { limit: EXEC_KEPT }, &self.stop).await {
            Ok(report) => report,
            // A program that is not there is the script's business, as it would be in a shell.
            Err(error @ RuntimeError::NotRunnable { .. }) => {
                return Ok(Answer::Exec(ExecAnswer { stderr: error.to_string(), ..ExecAnswer::default() }));
            }
            Err(error) => return Err(self.lost(error)),
        };
        let redactor = &self.context.services.redactor;
        let text = |bytes: &[u8]| redactor.redact(&String::from_utf8_lossy(bytes)).into_string();
        Ok(Answer::Exec(ExecAnswer {
            ok: report.success(),
            exit_code: report.exit_code,
            timed_out: matches!(report.end, ExecEnd::TimedOut { .. }),
            stdout: text(&report.stdout.bytes),
            stderr: text(&report.stderr.bytes),
        }))
    }

    async fn fork(&self, from: WorkspaceId) -> Result<Answer, HostError> {
        let fork = self.spaces.lock().await.fork(&*self.env, from.0).await;
        fork.map(|id| Answer::Workspace(WorkspaceId(id))).map_err(|error| self.refuse(error))
    }

    async fn merge(&self, from: WorkspaceId, into: WorkspaceId) -> Result<Answer, HostError> {
        let merged = self.spaces.lock().await.merge(&*self.env, from.0, into.0).await;
        merged.map(|()| Answer::Unit).map_err(|error| self.refuse(error))
    }

    async fn discard(&self, workspace: WorkspaceId) -> Result<Answer, HostError> {
        let discarded = self.spaces.lock().await.discard(&*self.env, workspace.0).await;
        discarded.map(|()| Answer::Unit).map_err(|error| self.refuse(error))
    }

    async fn sleep(&self, duration: Duration) -> Result<Answer, HostError> {
        tokio::select! {
            () = self.context.services.clock.sleep(duration) => Ok(Answer::Unit),
            () = self.stop.cancelled() => Err(HostError::Stop { message: "the attempt is over".to_owned() }),
        }
    }

    async fn files(&self, call: HostCall) -> Result<Answer, HostError> {
        let (HostCall::Read { workspace, .. }
        | HostCall::Exists { workspace, .. }
        | HostCall::List { workspace, .. }
        | HostCall::Glob { workspace, .. }
        | HostCall::Diff { workspace }
        | HostCall::Write { workspace, .. }) = &call
        else {
            return Err(HostError::Misuse { message: "not a file operation".to_owned() });
        };
        let root = self.path_of(*workspace).await?;
        let files = WorkspaceFiles::new(&*self.env, &root);
        let answer = match call {
            HostCall::Read { path, .. } => {
                files.read(&path).await.map(|bytes| bytes.map_or(Answer::Missing, Answer::Bytes))
            }
            HostCall::Exists { path, .. } => files.exists(&path).await.map(Answer::Bool),
            HostCall::List { path, .. } => {
                files.list(&path).await.map(|names| names.map_or(Answer::Missing, Answer::Names))
            }
            HostCall::Glob { pattern, .. } => files.glob(&pattern).await.map(Answer::Names),
            HostCall::Write { path, content, .. } => files.write(&path, &content).await.map(|()| Answer::Unit),
            _ => self.diff(&root).await.map(Answer::Bytes),
        };
        answer.map_err(|error| self.refuse(SpaceError::Workspace(error)))
    }

    /// Takes the diff of a workspace as it is now; the copy that it needs is thrown away.
    async fn diff(&self, root: &Path) -> Result<Vec<u8>, WorkspaceError> {
        let number = self.diffs.fetch_add(1, Ordering::Relaxed);
        let dest = self.scratch.join(format!("diff-{number}"));
        let collected = collect_at(&*self.env, root, &self.seeded, &dest).await;
        // What cannot be removed now goes with the attempt's scratch folder.
        let _ = off_thread(move || std::fs::remove_dir_all(&dest)).await;
        collected.map(|collected| self.context.services.redactor.redact_bytes(&collected.diff))
    }

    /// What the script may still spend is what is left of the purse: sessions under way count with what they may cost.
    pub(crate) fn budget(&self) -> BudgetAnswer {
        let mut book = lock(&self.sessions);
        let spent = book.spent();
        if book.is_empty() {
            book.purse.set_limits(self.context.services.plan.limits.cell_cost, None);
        }
        // What a paid model costs in an exempt cell is told by its refusal: this is about the cell's own model.
        let exempt = accounts::is_exempt(&self.context.services.plan, self.context.cell());
        let left = book.purse.left(spent, exempt);
        BudgetAnswer { remaining: left.map(|left| left.max(Micros::ZERO)), spent: spent.total }
    }

    pub(crate) fn log(&self, level: &str, text: &str) -> Answer {
        self.keep_line(level, text);
        let (cell, text) = (self.id.cell.clone(), self.context.services.redactor.redact(text).into_string());
        self.context.events.emit(EventKind::ScriptLog { cell, level: level.to_owned(), text });
        Answer::Unit
    }

    /// Adds a line to the script's log.
    pub(crate) fn keep_line(&self, level: &str, text: &str) {
        let text = self.context.services.redactor.redact(text);
        let mut log = lock(&self.log);
        if log.len() < LOG_LINES {
            log.push(format!("{level}: {text}"));
        }
    }

    /// A runtime that lost the environment ends the attempt; anything else too, since it is not the script's doing.
    pub(crate) fn lost(&self, error: RuntimeError) -> HostError {
        self.halt(Failure::Runtime { message: describe(&error) })
    }

    /// What a script did wrong is told to it; trouble of ours ends the attempt.
    fn refuse(&self, error: SpaceError) -> HostError {
        match error {
            SpaceError::Unknown(number) => HostError::Misuse { message: WorkspaceId(number).gone() },
            SpaceError::Workspace(error) if error.is_misuse() => HostError::Misuse { message: error.full_message() },
            SpaceError::Workspace(error) => self.halt(Failure::Workspace { message: error.full_message() }),
        }
    }
}

/// Writes an error with its causes in one line.
pub(crate) fn describe(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
