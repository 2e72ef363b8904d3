//! Harnesses: coding-agent programs, how they are started, and how what they print is read.
//!
//! A harness is a folder with a `harness.toml`; built-ins go through the same code as a folder from elsewhere. A
//! [`Harness`] turns a session request into a [`Command`] and the lines that come back into [`AgentEvent`]s and one
//! [`Reading`]; `session::run` does the rest (spooling, limits, the one cause of the end).
//! Adapters never decide blame by themselves: they say what they saw.
//! Start with [`declarative`]; [`scripted`] is the agent that plays a file, for demos and tests.

pub mod ceiling;
pub(crate) mod credentials;
pub mod declarative;
mod ending;
pub mod excerpt;
pub mod json_lines;
mod left;
pub mod lines;
mod logs;
pub mod scripted;
pub mod session;
pub mod session_file;
pub mod template;
pub mod text;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use crate::domain::failure::{LimitKind, ProviderFault};
use crate::domain::{Key, Micros, Model, Usage};
use crate::runtime::{Command, Stream};

/// What one session is to do.
#[derive(Debug, Clone)]
pub struct SessionRequest {
    /// The prompt.
    pub prompt: String,
    /// The model.
    pub model: Model,
    /// Task id, for harnesses that want it.
    pub task: String,
    /// Phase, where there is one.
    pub phase: Option<String>,
    /// The label that the script gave the session, where it gave one.
    pub label: Option<String>,
    /// Number in the attempt, from 1.
    pub index: u32,
    /// The harness's own id of a session to resume.
    pub resume: Option<String>,
    /// Working directory inside the environment.
    pub workspace: PathBuf,
    /// The agent's private home inside the environment.
    pub home: PathBuf,
    /// A folder inside the environment for this session's files (prompt, logs of the harness).
    pub session_dir: PathBuf,
    /// The most it may cost, for harnesses that can limit themselves.
    pub max_cost: Option<Micros>,
    /// Where the gateway stands in for the model's provider, for this session alone; `None`: the harness asks the provider
    /// by itself.
    pub base_url: Option<String>,
    /// What stands for the model's key: the gateway's token, else the key. Goes into the process's environment and nowhere
    /// else.
    pub api_key: Option<Key>,
}

/// What an adapter saw in a line. Texts are raw: whoever stores or shows them redacts first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum AgentEvent {
    /// The harness told the id of its session.
    SessionId(String),
    /// The agent said something.
    Message(String),
    /// The agent used a tool.
    Tool {
        /// Its name.
        name: String,
        /// Whether it worked; unknown where the line does not say.
        ok: Option<bool>,
        /// How long it took; unknown where the line does not say.
        duration: Option<Duration>,
    },
    /// A tool call that an earlier event told has ended.
    ToolEnd {
        /// Its name.
        name: String,
        /// Whether it worked; unknown where the stream does not say.
        ok: Option<bool>,
        /// How long it took; unknown where the stream does not say.
        duration: Option<Duration>,
    },
    /// The agent changed a file, by its path as the harness tells it.
    FileEdit(String),
    /// The agent ran a command.
    Command {
        /// The command line.
        line: String,
        /// Whether it worked; unknown where the line does not say.
        ok: Option<bool>,
    },
    /// Something failed; the session may go on.
    Error(String),
    /// Tokens, as far as they are known now, for the whole session so far.
    Usage(Usage),
    /// What the harness says the session has cost so far.
    Cost(Micros),
    /// The harness is waiting for its provider.
    Retrying {
        /// What the provider did.
        fault: ProviderFault,
        /// How long it asked to wait.
        retry_after: Option<Duration>,
    },
    /// A terminal record: the harness has said how its turn went and should end now.
    Finished,
    /// What only trajectories tell; see [`Harness::detailed_reader`].
    Detail(Detail),
}

/// What a reader tells that tells everything, beside its other events. Texts are cut to [`excerpt::LONGEST`].
#[derive(Debug, Clone, PartialEq)]
pub enum Detail {
    /// The request to the model that what comes next in this line is part of.
    Request(String),
    /// The call that the next event is about.
    Call(String),
    /// The agent's thoughts.
    Thinking(String),
    /// What the tool was given that was told last.
    Input(serde_json::Value),
    /// What the tool came to that was told last, or whose end was.
    Output(String),
    /// A line has ended.
    LineEnd(LineEnd),
}

/// What a line told of the step that it is part of.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineEnd {
    /// When it was written.
    pub at: Option<Timestamp>,
    /// The request to the model that the figures are those of; unknown where the line does not say.
    pub request: Option<String>,
    /// Tokens of this step alone.
    pub usage: Usage,
    /// What the harness says that this step cost.
    pub cost: Option<Micros>,
}

impl AgentEvent {
    /// Returns words for people who look on, where the event has any.
    #[must_use]
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Message(text) | Self::Error(text) => Some(text.clone()),
            Self::Tool { name, .. } => Some(format!("uses {name}")),
            Self::FileEdit(path) => Some(format!("edits {path}")),
            Self::Command { line, .. } => Some(format!("runs {line}")),
            Self::Retrying { fault, .. } => Some(format!("waits for the provider ({fault:?})")),
            Self::SessionId(_)
            | Self::ToolEnd { .. }
            | Self::Usage(_)
            | Self::Cost(_)
            | Self::Finished
            | Self::Detail(_) => None,
        }
    }
}

/// What a whole session's output says, at its end.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// Whether anything shows that the harness began: a model call, a message, an event.
    pub started: bool,
    /// The terminal record, where there is one.
    pub outcome: Option<Outcome>,
    /// The agent's last message.
    pub text: Option<String>,
    /// Tokens of this session alone.
    pub usage: Usage,
    /// How many of those that were written to the cache it keeps for an hour; `None` where the harness does not tell the two
    /// apart.
    pub cache_write_long: Option<u64>,
    /// Cost as the harness reports it.
    pub cost: Option<Micros>,
    /// Model turns.
    pub turns: Option<u64>,
    /// Tool calls.
    pub tool_calls: Option<u64>,
    /// The harness's own session id.
    pub harness_session: Option<String>,
    /// Whether `usage` and `cost` also count the earlier sessions that this one resumed.
    pub cumulative: bool,
    /// What a reader should know: a cut last line, conflicting results.
    pub warnings: Vec<String>,
}

/// What the terminal record of a stream says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Outcome {
    /// A completed turn.
    Completed,
    /// A failure of the agent.
    Failed(String),
    /// The agent declined.
    Refused(String),
    /// A limit of the harness's own.
    Limit(LimitKind, String),
    /// The provider refused for good.
    Provider(ProviderFault, String),
    /// What the user wrote cannot run (unknown flag, missing key): no model was called.
    Misconfigured(String),
}

/// Reads a session's output line by line. A pure function in the shape of an object: no clock, no disk.
pub trait OutputReader: Send {
    /// Takes a line without its newline; appends what it shows to `events`. Never fails: what it does not understand it
    /// leaves alone.
    fn line(&mut self, stream: Stream, line: &[u8], events: &mut Vec<AgentEvent>);

    /// Takes a line of the file that the harness keeps of the session (see [`Harness::session_file`]), after all of its
    /// output; for a file that is one document, all of it. Readers that know of no such file leave it alone.
    fn file_line(&mut self, line: &[u8]) {
        let _ = line;
    }

    /// Takes a line of that file as [`OutputReader::file_line`] does, and appends what it shows.
    fn file_events(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        let _ = events;
        self.file_line(line);
    }

    /// Takes the exit code and says what the whole output meant.
    fn finish(self: Box<Self>, exit_code: Option<i32>) -> Reading;
}

/// Makes readers for the sessions of one harness. A port: adapters that are code in some language are plugged in by
/// whoever assembles the host, so that this layer knows no language.
pub trait ReaderFactory: Send + Sync + std::fmt::Debug {
    /// Makes a reader for one session.
    fn reader(&self) -> Box<dyn OutputReader>;
}

/// Why a session cannot even be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// The harness cannot do what the script or the run asks.
    #[error("harness `{harness}` cannot {what}")]
    Unsupported {
        /// Which harness.
        harness: String,
        /// What it cannot do.
        what: String,
    },
    /// A template names something that is not there.
    #[error("harness `{harness}`: {message}")]
    Template {
        /// Which harness.
        harness: String,
        /// Which placeholder, and what there is.
        message: String,
    },
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] crate::runtime::RuntimeError),
    /// The host could not write or read the session's files.
    #[error("cannot {action} `{}`", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A coding agent: how to start it and how to read it.
pub trait Harness: Send + Sync {
    /// Returns the name under which a run declares it.
    fn name(&self) -> &str;

    /// Returns a command that prints the version and costs nothing; `None` where there is nothing to probe.
    fn probe(&self) -> Option<Command>;

    /// Tells whether the harness can resume an earlier session.
    fn can_resume(&self) -> bool;

    /// Builds the command of a session and the files it needs beforehand.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Unsupported`] or [`HarnessError::Template`].
    fn prepare(&self, request: &SessionRequest) -> Result<Prepared, HarnessError>;

    /// Returns where the harness keeps a file of its own of a session, for harnesses that tell there what they do not
    /// print. `harness_session` is the id that its output told.
    fn session_file(
        &self,
        request: &SessionRequest,
        harness_session: Option<&str>,
    ) -> Option<session_file::SessionFile> {
        let _ = (request, harness_session);
        None
    }

    /// Returns the files of the agent's home that hold its login while a session runs with a subscription. A program may
    /// renew the login, and then writes the new one there.
    fn login_files(&self, home: &std::path::Path) -> Vec<PathBuf> {
        let _ = home;
        Vec::new()
    }

    /// Returns a reader for one session's output.
    fn reader(&self) -> Box<dyn OutputReader>;

    /// Returns a reader that tells everything that its harness prints, as [`AgentEvent::Detail`] too. Slower than the
    /// other; its reading is of no account.
    fn detailed_reader(&self) -> Box<dyn OutputReader> {
        self.reader()
    }
}

/// A command, and the files that must be in the environment before it runs.
#[derive(Clone, Default)]
pub struct Prepared {
    /// The command; limits are set by whoever runs it.
    pub command: Command,
    /// Absolute paths inside the environment and their content.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// The same for files that hold a login: nobody but the agent can read them, and they are removed when the session is
    /// over.
    pub credentials: Vec<(PathBuf, Vec<u8>)>,
}

impl fmt::Debug for Prepared {
    /// Leaves out what the files hold: a login, or a setting with a key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = |files: &[(PathBuf, Vec<u8>)]| files.iter().map(|(path, _)| path.clone()).collect::<Vec<_>>();
        f.debug_struct("Prepared")
            .field("command", &self.command)
            .field("files", &paths(&self.files))
            .field("credentials", &paths(&self.credentials))
            .finish()
    }
}
