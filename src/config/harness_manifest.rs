//! `harness.toml`, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// A checked harness manifest. Templates may hold `{prompt}`, `{model}`, `{session}`, … (see `harness::template`).
#[derive(Debug, Clone, PartialEq)]
pub struct HarnessManifest {
    /// Its name; for a built-in equal to its folder.
    pub name: String,
    /// For people.
    pub description: String,
    /// The folder it came from; `None` for one embedded in the binary.
    pub dir: Option<PathBuf>,
    /// Content hash of the folder.
    pub hash: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Arguments put in place of `{resume_args}` when an earlier session is continued; `None`: it cannot resume.
    pub resume_args: Option<Vec<String>>,
    /// Arguments put in place of `{cost_args}` when a session has a money limit.
    pub cost_args: Option<Vec<String>>,
    /// Variables (templates).
    pub env: BTreeMap<String, String>,
    /// The variable that carries the model's key into the process, where it needs one.
    pub key_env: Option<String>,
    /// Command that prints a version and costs nothing.
    pub probe: Option<Vec<String>>,
    /// How the prompt gets in.
    pub prompt: PromptBy,
    /// Files written before a session: path template → content template.
    pub files: BTreeMap<String, String>,
    /// Declared settings (`config:` of the run file).
    pub config: BTreeMap<String, ConfigField>,
    /// How its output is read.
    pub output: OutputSpec,
}

/// How the prompt reaches the harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PromptBy {
    /// As one argument, by `{prompt}` in `argv`.
    #[default]
    Argument,
    /// On standard input.
    Stdin,
    /// In a file, by `{prompt_file}` in `argv`.
    File,
}

/// One setting that a harness takes from the run file.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigField {
    /// Its type.
    pub kind: ConfigKind,
    /// Its default, if it is not required.
    pub default: Option<serde_json::Value>,
    /// For people.
    pub help: String,
}

/// Types of settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigKind {
    /// Text.
    Text,
    /// A path, made absolute against the run file.
    Path,
    /// A number.
    Number,
    /// `true` or `false`.
    Bool,
    /// A list of texts.
    TextList,
}

/// How a harness's output is read.
#[derive(Debug, Clone, PartialEq)]
pub enum OutputSpec {
    /// Plain text: the last lines are the message, the exit code is the outcome, tokens are unknown.
    Text,
    /// JSON lines read by named fields.
    JsonLines(JsonLinesSpec),
}

/// Rules for a stream of JSON lines. Each rule applies to the lines that its `when` matches.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JsonLinesSpec {
    /// In order; all that match apply.
    pub rules: Vec<LineRule>,
}

/// One rule: on a line where every `when` holds, read these fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineRule {
    /// Dotted path → value the line must have there.
    pub when: BTreeMap<String, serde_json::Value>,
    /// What the line means.
    pub is: LineMeaning,
    /// Dotted path of a text: the message, the error, the tool's name, the session id (by `is`).
    pub text: Option<String>,
    /// Dotted path of a boolean that tells whether a tool worked.
    pub ok: Option<String>,
    /// Dotted paths of token counts by class (`input`, `output`, `cache_read`, `cache_write`, `reasoning`).
    pub usage: BTreeMap<String, String>,
    /// Dotted path of a cost in dollars.
    pub cost: Option<String>,
    /// Dotted path of a number of turns.
    pub turns: Option<String>,
}

/// What a matched line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineMeaning {
    /// Only its numbers matter.
    #[default]
    Data,
    /// The agent's words.
    Message,
    /// A tool call.
    Tool,
    /// The harness's session id.
    SessionId,
    /// A completed turn.
    Completed,
    /// A failure.
    Failed,
    /// A refusal by the agent.
    Refused,
    /// The provider: key refused.
    AuthFailed,
    /// The provider: too many requests, for good.
    RateLimited,
    /// The provider: overloaded or unreachable, for good.
    Overloaded,
    /// The harness's own turn limit.
    TurnLimit,
    /// The harness's own money limit.
    CostLimit,
}
