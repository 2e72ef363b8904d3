//! The mock world: a [`ScriptPort`] with scripted sessions, a virtual clock, and files in memory.
//!
//! A strategy that would take an hour and cost dollars runs against it in milliseconds, the same way each time.
//! Start with [`MockWorld::new`] and [`MockWorld::play`]; strategy tests written in Lua use the same world.

mod clock;
mod files;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

pub use clock::VirtualClock;
pub use files::MockFiles;
use session::Cast;
pub use session::MockSession;

use super::bind::Files;
use super::limits::ScriptLimits;
use super::port::{
    Answer, BudgetAnswer, ChecksReport, ExecAnswer, HostCall, HostError, ScriptInputs, ScriptPort, SessionCall,
    TaskView, WorkspaceId,
};
use super::run::{ScriptOutcome, run_with};
use super::source::ScriptSource;
use super::stop::StopHandle;
use crate::domain::{Micros, SessionRecord};

/// Plays a session: gets the call and its number from 1, and may change the workspace that the session works in.
pub type SessionScript = Box<dyn FnMut(&SessionCall, u32, &mut MockFiles) -> Result<MockSession, String> + Send>;
/// Judges a workspace.
pub type ChecksScript = Box<dyn FnMut(&MockFiles) -> Result<ChecksReport, String> + Send>;
/// Runs a command.
pub type ExecScript = Box<dyn FnMut(&[String], &mut MockFiles) -> Result<ExecAnswer, String> + Send>;

/// What a mock world starts with.
#[derive(Default)]
pub struct MockSetup {
    /// Plays the sessions; without it every session completes at once.
    pub sessions: Option<SessionScript>,
    /// Judges the workspace; without it every check passes.
    pub checks: Option<ChecksScript>,
    /// Runs commands; without it every command ends with code 0 and no output.
    pub exec: Option<ExecScript>,
    /// Files of the workspace.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Virtual time until the script is ended.
    pub deadline: Option<Duration>,
    /// Money that may be spent.
    pub budget: Option<Micros>,
    /// The most host calls; more of them end the script with a defect of the test. `None`: no bound.
    pub max_calls: Option<u64>,
}

/// What a script did in a mock world.
#[derive(Debug, Clone, Default)]
pub struct MockReport {
    /// Every session: what was asked for and what it came to.
    pub sessions: Vec<(SessionCall, SessionRecord)>,
    /// Every log line: level and text.
    pub logs: Vec<(String, String)>,
    /// How often the checks ran.
    pub checks: u32,
    /// Commands that ran.
    pub commands: Vec<Vec<String>>,
    /// Money spent.
    pub spent: Micros,
    /// Virtual time that passed.
    pub elapsed: Duration,
    /// Files of the main workspace.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Forks that were neither merged nor thrown away.
    pub open_forks: usize,
}

struct State {
    sessions: Option<SessionScript>,
    checks: Option<ChecksScript>,
    exec: Option<ExecScript>,
    workspaces: BTreeMap<WorkspaceId, MockFiles>,
    next_workspace: u32,
    next_session: u32,
    budget: Option<Micros>,
    max_calls: Option<u64>,
    calls: u64,
    deadline: Option<Duration>,
    /// Models by name with their roles, and harnesses: those of the script's inputs.
    models: BTreeMap<String, String>,
    harnesses: Vec<String>,
    report: MockReport,
    /// A defect of the test itself, such as a session function that raised.
    defect: Option<String>,
}

/// A world for one script.
#[derive(Clone)]
pub struct MockWorld {
    clock: VirtualClock,
    state: Arc<Mutex<State>>,
}

impl MockWorld {
    /// Makes a world at virtual time 0.
    #[must_use]
    pub fn new(setup: MockSetup) -> Self {
        let state = State {
            sessions: setup.sessions,
            checks: setup.checks,
            exec: setup.exec,
            workspaces: BTreeMap::from([(WorkspaceId::MAIN, MockFiles::new(setup.files))]),
            next_workspace: 1,
            next_session: 1,
            budget: setup.budget,
            max_calls: setup.max_calls,
            calls: 0,
            deadline: setup.deadline,
            models: BTreeMap::new(),
            harnesses: Vec::new(),
            report: MockReport::default(),
            defect: None,
        };
        Self { clock: VirtualClock::new(), state: Arc::new(Mutex::new(state)) }
    }

    /// Makes inputs for a script: a task with this prompt, and nothing else.
    #[must_use]
    pub fn inputs(&self, prompt: &str) -> ScriptInputs {
        let deadline = self.lock().deadline;
        ScriptInputs {
            params: BTreeMap::new(),
            task: TaskView {
                id: "mock".to_owned(),
                name: "mock".to_owned(),
                prompt: prompt.to_owned(),
                track: "swe".to_owned(),
                checks: Vec::new(),
                phases: Vec::new(),
                metadata: serde_json::Map::new(),
            },
            models: BTreeMap::new(),
            harnesses: Vec::new(),
            deadline,
            seed: 1,
        }
    }

    /// Runs a script to its end in virtual time, on this thread, without any runtime.
    #[must_use]
    pub fn play(&self, source: &ScriptSource, inputs: ScriptInputs, limits: ScriptLimits) -> ScriptOutcome {
        let files = Files { source: source.clone(), extra: Vec::new(), coverage: None, tests: None };
        self.play_files(files, inputs, limits)
    }

    pub(in crate::script) fn play_files(
        &self,
        files: Files,
        inputs: ScriptInputs,
        limits: ScriptLimits,
    ) -> ScriptOutcome {
        let stop = StopHandle::new();
        {
            let mut state = self.lock();
            state.models.clone_from(&inputs.models);
            state.harnesses.clone_from(&inputs.harnesses);
        }
        if let Some(deadline) = self.lock().deadline {
            let stop = stop.clone();
            self.clock.at(deadline, move || stop.stop("deadline"));
        }
        let port: Arc<dyn ScriptPort> = Arc::new(self.clone());
        let stuck = stop.clone();
        self.clock
            .drive(run_with(files, inputs, port, limits, stop), move || stuck.stop("the script waits for nothing"))
    }

    /// Returns what the script did so far.
    #[must_use]
    pub fn report(&self) -> MockReport {
        let state = self.lock();
        let mut report = state.report.clone();
        report.elapsed = self.clock.now();
        report.open_forks = state.workspaces.len() - 1;
        report.files = state.workspaces.get(&WorkspaceId::MAIN).map(|files| files.all().clone()).unwrap_or_default();
        report
    }

    /// Returns the virtual clock.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// Returns what went wrong in the test's own functions.
    #[must_use]
    pub fn defect(&self) -> Option<String> {
        self.lock().defect.clone()
    }

    /// Returns the log lines after the first `seen`.
    pub(in crate::script) fn logs_since(&self, seen: usize) -> Vec<(String, String)> {
        self.lock().report.logs.iter().skip(seen).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn session(&self, call: SessionCall) -> Result<Answer, HostError> {
        let (played, cast, index) = self.lock().play_session(&call)?;
        let began = self.clock.now();
        let left = self.lock().deadline.map(|deadline| deadline.saturating_sub(began));
        let record = played.record(&call, cast, index, began)?;
        // A session that would outlive the deadline is cut off there, and so is the script.
        self.clock.sleep(left.map_or(record.duration, |left| left.min(record.duration))).await;
        let mut state = self.lock();
        state.finish_session(&call, &played, record.clone());
        Ok(Answer::Session(Box::new(record)))
    }
}

impl State {
    fn files(&mut self, id: WorkspaceId) -> Result<&mut MockFiles, HostError> {
        self.workspaces.get_mut(&id).ok_or_else(|| HostError::Misuse { message: id.gone() })
    }

    fn failed<T>(&mut self, message: String) -> Result<T, HostError> {
        self.defect.get_or_insert_with(|| message.clone());
        Err(HostError::Stop { message })
    }

    /// Counts a call: in virtual time a loop around calls can go on for ever.
    fn count(&mut self, call: &HostCall) -> Result<(), HostError> {
        self.calls += 1;
        match self.max_calls {
            Some(max) if self.calls > max => self.failed(format!(
                "the script made more than {max} host calls, the last one by `{}`; is there an endless loop? With a \
                 `deadline` it would end there",
                call.function()
            )),
            _ => Ok(()),
        }
    }

    fn play_session(&mut self, call: &SessionCall) -> Result<(MockSession, Cast, u32), HostError> {
        self.files(call.workspace)?;
        let cast = self.cast(call)?;
        let index = self.next_session;
        let Some(mut script) = self.sessions.take() else {
            self.next_session += 1;
            return Ok((MockSession::default(), cast, index));
        };
        let files = self.files(call.workspace)?;
        let played = script(call, index, files);
        self.sessions = Some(script);
        match played {
            Ok(played) => {
                if !played.is_refusal() {
                    self.next_session += 1;
                }
                Ok((played, cast, index))
            }
            Err(message) => self.failed(message),
        }
    }

    /// Finds who plays a session and what it may cost, and refuses what the engine refuses.
    fn cast(&self, call: &SessionCall) -> Result<Cast, HostError> {
        let (model, harness) = (self.model(call)?, self.harness(call));
        let remaining = self.remaining();
        if remaining.is_some_and(|left| left <= Micros::ZERO) {
            let message = format!("the cell's budget is used up ({} spent by this attempt)", self.report.spent);
            return Err(HostError::Refused { limit: "budget".to_owned(), message });
        }
        if let Some(earlier) = call.continue_from
            && !self.report.sessions.iter().any(|(_, record)| record.index == earlier)
        {
            let message = format!("session {earlier} has not finished, so it cannot be continued");
            return Err(HostError::Misuse { message });
        }
        Ok(Cast { model, harness, max_cost: [call.max_cost, remaining].into_iter().flatten().min() })
    }

    /// Of several models with a role, the first by name; a test that names none has one of every role.
    fn model(&self, call: &SessionCall) -> Result<String, HostError> {
        if let Some(model) = &call.model {
            return Ok(model.clone());
        }
        let role = call.role.as_deref().unwrap_or("implementation");
        let declared = self.models.iter().find(|(_, known)| *known == role).map(|(name, _)| name.clone());
        match declared {
            Some(model) => Ok(model),
            None if self.models.is_empty() => Ok(format!("mock-{role}")),
            None => Err(HostError::Misuse {
                message: format!(
                    "the run declares no model with `role: {role}`; declare one, or leave the option `role` out"
                ),
            }),
        }
    }

    fn harness(&self, call: &SessionCall) -> String {
        let harness = call.harness.as_ref().or(self.harnesses.first());
        harness.cloned().unwrap_or_else(|| "mock".to_owned())
    }

    fn remaining(&self) -> Option<Micros> {
        self.budget.map(|budget| (budget - self.report.spent).max(Micros::ZERO))
    }

    fn finish_session(&mut self, call: &SessionCall, played: &MockSession, record: SessionRecord) {
        if let Some(files) = self.workspaces.get_mut(&call.workspace) {
            files.apply(&played.files);
        }
        self.report.spent = self.report.spent.saturating_add(record.cost.unwrap_or_default());
        self.report.sessions.push((call.clone(), record));
    }

    fn check(&mut self, workspace: WorkspaceId) -> Result<Answer, HostError> {
        self.report.checks += 1;
        let mut script = self.checks.take();
        let Some(files) = self.workspaces.get(&workspace) else {
            return Err(HostError::Misuse { message: workspace.gone() });
        };
        let report = script
            .as_mut()
            .map_or_else(|| Ok(ChecksReport { ok: true, ..ChecksReport::default() }), |script| script(files));
        self.checks = script;
        match report {
            Ok(report) => Ok(Answer::Checks(report)),
            Err(message) => self.failed(message),
        }
    }

    fn command(&mut self, argv: &[String], workspace: WorkspaceId) -> Result<Answer, HostError> {
        self.report.commands.push(argv.to_vec());
        let Some(mut script) = self.exec.take() else {
            return Ok(Answer::Exec(ExecAnswer { ok: true, exit_code: Some(0), ..ExecAnswer::default() }));
        };
        let answer = self.files(workspace).map(|files| script(argv, files));
        self.exec = Some(script);
        match answer? {
            Ok(answer) => Ok(Answer::Exec(answer)),
            Err(message) => self.failed(message),
        }
    }

    /// Answers what needs no time.
    fn answer(&mut self, call: HostCall) -> Result<Answer, HostError> {
        Ok(match call {
            HostCall::Checks { workspace } => return self.check(workspace),
            HostCall::Exec { argv, workspace, .. } => return self.command(&argv, workspace),
            HostCall::Read { path, workspace } => self.files(workspace)?.read(&path)?,
            HostCall::Exists { path, workspace } => Answer::Bool(self.files(workspace)?.exists(&path)?),
            HostCall::List { path, workspace } => self.files(workspace)?.list(&path)?,
            HostCall::Glob { pattern, workspace } => Answer::Names(self.files(workspace)?.glob(&pattern)?),
            HostCall::Diff { workspace } => Answer::Bytes(self.files(workspace)?.diff().into_bytes()),
            HostCall::Write { path, content, workspace } => {
                self.files(workspace)?.write_scratch(&path, content)?;
                Answer::Unit
            }
            HostCall::Fork { from } => {
                let copy = self.files(from)?.clone();
                let id = WorkspaceId(self.next_workspace);
                self.next_workspace += 1;
                self.workspaces.insert(id, copy);
                Answer::Workspace(id)
            }
            HostCall::Merge { from, into } => {
                let winner = self.files(from)?.clone();
                self.files(into)?.merge(&winner);
                Answer::Unit
            }
            HostCall::Discard { workspace } => {
                self.files(workspace)?;
                self.workspaces.remove(&workspace);
                Answer::Unit
            }
            HostCall::Budget => Answer::Budget(BudgetAnswer { remaining: self.remaining(), spent: self.report.spent }),
            HostCall::Log { level, text } => {
                self.report.logs.push((level, text));
                Answer::Unit
            }
            HostCall::Session(_) | HostCall::Remaining | HostCall::Now | HostCall::Sleep { .. } => Answer::Unit,
        })
    }
}

#[async_trait]
impl ScriptPort for MockWorld {
    async fn call(&self, call: HostCall) -> Result<Answer, HostError> {
        self.lock().count(&call)?;
        match call {
            HostCall::Session(call) => self.session(call).await,
            HostCall::Sleep { duration } => {
                self.clock.sleep(duration).await;
                Ok(Answer::Unit)
            }
            HostCall::Now => Ok(Answer::Seconds(Some(self.clock.now().as_secs_f64()))),
            HostCall::Remaining => {
                let deadline = self.lock().deadline;
                Ok(Answer::Seconds(deadline.map(|deadline| deadline.saturating_sub(self.clock.now()).as_secs_f64())))
            }
            other => self.lock().answer(other),
        }
    }
}

impl std::fmt::Debug for MockWorld {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MockWorld").field("now", &self.clock.now()).finish_non_exhaustive()
    }
}
