//! The border between a script and whoever answers it.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::domain::{Micros, SessionRecord};

/// A copy of the workspace that a script made with `fork`; 0 is the workspace itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkspaceId(pub u32);

impl WorkspaceId {
    /// The attempt's own workspace.
    pub const MAIN: Self = Self(0);

    /// Says that there is no such workspace any more, and what to do.
    #[must_use]
    pub fn gone(self) -> String {
        format!(
            "workspace {} was thrown away; use it before `fork.discard`, or take another one: `fork.create()`, \
             `workspace.main`",
            self.0
        )
    }
}

/// What `session(prompt, options)` asks for. Prompts are text; bytes that are no UTF-8 are refused before they get here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SessionCall {
    /// The prompt.
    pub prompt: String,
    /// Model by role: `implementation` or `review`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Model by name, among those of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Harness by name, among those of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub harness: Option<String>,
    /// Phase it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its own limit; the attempt's deadline still holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The most it may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Micros>,
    /// Index of an earlier session of this attempt that the harness is to resume.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "continue")]
    pub continue_from: Option<u32>,
    /// Where it works.
    #[serde(default)]
    pub workspace: WorkspaceId,
}

/// Everything a script can ask of its host, apart from what it knows from the start.
///
/// Each call is one journal entry: it serializes, its arguments hash, and its answer can be fed to a script again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "call", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostCall {
    /// Hold a session. Answer: [`Answer::Session`].
    Session(SessionCall),
    /// Run the task's visible checks. Answer: [`Answer::Checks`].
    Checks {
        /// Where.
        workspace: WorkspaceId,
    },
    /// Run a command in the environment. Answer: [`Answer::Exec`].
    Exec {
        /// Program and arguments.
        argv: Vec<String>,
        /// Its limit.
        timeout: Option<Duration>,
        /// Where.
        workspace: WorkspaceId,
    },
    /// Read a file of the workspace. Answer: [`Answer::Bytes`] or [`Answer::Missing`].
    Read {
        /// Path relative to the workspace.
        path: String,
        /// Where.
        workspace: WorkspaceId,
    },
    /// Ask whether a path exists. Answer: [`Answer::Bool`].
    Exists {
        /// Path relative to the workspace.
        path: String,
        /// Where.
        workspace: WorkspaceId,
    },
    /// List the entries of a folder, sorted. Answer: [`Answer::Names`] or [`Answer::Missing`].
    List {
        /// Path relative to the workspace.
        path: String,
        /// Where.
        workspace: WorkspaceId,
    },
    /// Find files by a pattern, sorted. Answer: [`Answer::Names`].
    Glob {
        /// Pattern such as `src/**/*.rs`.
        pattern: String,
        /// Where.
        workspace: WorkspaceId,
    },
    /// The diff of the workspace against its baseline. Answer: [`Answer::Bytes`].
    Diff {
        /// Where.
        workspace: WorkspaceId,
    },
    /// Write a file below `.refrain/`, which is no part of the result. Answer: [`Answer::Unit`].
    Write {
        /// Path relative to `.refrain/`.
        path: String,
        /// Content.
        #[serde(with = "content")]
        content: Vec<u8>,
        /// Where.
        workspace: WorkspaceId,
    },
    /// Copy a workspace. Answer: [`Answer::Workspace`].
    Fork {
        /// What to copy.
        from: WorkspaceId,
    },
    /// Replace the content of one workspace by that of another. Answer: [`Answer::Unit`].
    Merge {
        /// The winner.
        from: WorkspaceId,
        /// Usually [`WorkspaceId::MAIN`].
        into: WorkspaceId,
    },
    /// Throw a fork away. Answer: [`Answer::Unit`].
    Discard {
        /// Which.
        workspace: WorkspaceId,
    },
    /// What the attempt may still spend and has spent. Answer: [`Answer::Budget`].
    Budget,
    /// Seconds until the deadline. Answer: [`Answer::Seconds`]; infinite where there is none.
    Remaining,
    /// Seconds since the attempt began. Answer: [`Answer::Seconds`].
    Now,
    /// Wait. Answer: [`Answer::Unit`].
    Sleep {
        /// How long.
        duration: Duration,
    },
    /// Log a line. Answer: [`Answer::Unit`].
    Log {
        /// `debug`, `info`, `warn` or `error`.
        level: String,
        /// The line.
        text: String,
    },
}

impl HostCall {
    /// Returns the function that makes this call, as scripts write it.
    #[must_use]
    pub fn function(&self) -> &'static str {
        match self {
            Self::Session(_) => "session",
            Self::Checks { .. } => "checks.run",
            Self::Exec { .. } => "exec.run",
            Self::Read { .. } => "workspace.read",
            Self::Exists { .. } => "workspace.exists",
            Self::List { .. } => "workspace.list",
            Self::Glob { .. } => "workspace.glob",
            Self::Diff { .. } => "workspace.diff",
            Self::Write { .. } => "workspace.write",
            Self::Fork { .. } => "fork.create",
            Self::Merge { .. } => "fork.merge",
            Self::Discard { .. } => "fork.discard",
            Self::Budget => "budget",
            Self::Remaining => "deadline.remaining",
            Self::Now => "clock.now",
            Self::Sleep { .. } => "clock.sleep",
            Self::Log { .. } => "log",
        }
    }
}

/// Bytes as JSON: text where they are text, else base64, never a list of numbers.
mod content {
    use data_encoding::BASE64;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Form<T> {
        Text(T),
        Base64(T),
    }

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Form::Text(text).serialize(serializer),
            Err(_) => Form::Base64(BASE64.encode(bytes).as_str()).serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        match Form::<String>::deserialize(deserializer)? {
            Form::Text(text) => Ok(text.into_bytes()),
            Form::Base64(text) => BASE64.decode(text.as_bytes()).map_err(de::Error::custom),
        }
    }
}

/// What a host answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", content = "value", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Done.
    Unit,
    /// There is no such file.
    Missing,
    /// Yes or no.
    Bool(bool),
    /// Seconds; `None` stands for no limit.
    Seconds(Option<f64>),
    /// Content of a file or a diff.
    Bytes(#[serde(with = "content")] Vec<u8>),
    /// Names.
    Names(Vec<String>),
    /// A session's record. A failing agent is a value, not an error.
    Session(Box<SessionRecord>),
    /// The report of the visible checks.
    Checks(ChecksReport),
    /// A command's end and output.
    Exec(ExecAnswer),
    /// A copy of the workspace.
    Workspace(WorkspaceId),
    /// Money.
    Budget(BudgetAnswer),
}

/// The report of the visible checks.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ChecksReport {
    /// Whether every check passed. A task without checks passes.
    pub ok: bool,
    /// How many passed.
    pub passed: u32,
    /// How many there are.
    pub total: u32,
    /// Commands and output of those that failed, cut to size; meant for a prompt.
    pub output: String,
    /// Each check.
    pub checks: Vec<CheckResult>,
}

/// One visible check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckResult {
    /// The command.
    pub command: String,
    /// Whether it passed.
    pub ok: bool,
    /// Its exit code, where it had one.
    pub exit_code: Option<i32>,
    /// What it printed, cut to size.
    pub output: String,
}

/// A command's end and output.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ExecAnswer {
    /// Whether it ended with code 0.
    pub ok: bool,
    /// Its exit code, where it had one.
    pub exit_code: Option<i32>,
    /// Whether its limit stopped it.
    pub timed_out: bool,
    /// Standard output, cut to size.
    pub stdout: String,
    /// Standard error, cut to size.
    pub stderr: String,
}

/// Money of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetAnswer {
    /// What may still be spent; `None` where there is no cap.
    pub remaining: Option<Micros>,
    /// What the attempt has spent; a lower bound where a session's cost is unknown.
    pub spent: Micros,
}

/// Why a host does not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostError {
    /// The call makes no sense: an unknown model, a path that leads out. Raised in the script, with the function's name
    /// before the message; may be caught.
    #[error("{message}")]
    Misuse {
        /// What is wrong and what would be right.
        message: String,
    },
    /// No money or no session is left. Raised in the script; may be caught to wrap up.
    #[error("{message}")]
    Refused {
        /// `budget`, `sessions`, ….
        limit: String,
        /// Which limit, its value, what was measured.
        message: String,
    },
    /// The attempt is over: deadline, cancellation, or a fault that is not the agent's. Ends the script; no `pcall`
    /// sees it. The host knows the cause.
    #[error("the attempt is over: {message}")]
    Stop {
        /// Why, for the log.
        message: String,
    },
}

/// Answers a script's calls. One port serves one running script; calls of parallel branches come at the same time.
#[async_trait]
pub trait ScriptPort: Send + Sync {
    /// Answers a call. Cancel-safe: what was begun for a call goes on or is undone by the host, whatever happens to
    /// the future.
    ///
    /// # Errors
    ///
    /// A [`HostError`]; after [`HostError::Stop`] no further call comes.
    async fn call(&self, call: HostCall) -> Result<Answer, HostError>;

    /// Hears that the script can do nothing more until a call is answered. Called on the script's thread, between its
    /// steps; must not block.
    ///
    /// A port that hands out one answer each time this is called, and none in between, makes a script with parallel
    /// branches a function of the order of its answers: no two branches race.
    fn idle(&self) {}
}

/// What a script is told before it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptInputs {
    /// `params`.
    pub params: crate::domain::Params,
    /// `task`: what a script may know of it (hidden tests are no part of it).
    pub task: TaskView,
    /// Models of the run by name, with their roles.
    pub models: BTreeMap<String, String>,
    /// Harnesses of the run.
    pub harnesses: Vec<String>,
    /// The time left at the start; `None` for no deadline.
    pub deadline: Option<Duration>,
    /// Seed of the script's random numbers.
    pub seed: u64,
}

/// The part of a task that a script sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its prompt.
    pub prompt: String,
    /// Its track.
    pub track: String,
    /// Its visible checks.
    pub checks: Vec<String>,
    /// Its phases.
    pub phases: Vec<crate::domain::Phase>,
    /// Free data of the task's author.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}
