//! How a harness's output is read: the tables `[output]` and `[output.file]`.

use std::collections::BTreeMap;

use super::texts;
use crate::config::diagnostic::{Diagnostic, Diagnostics};
use crate::config::document::Node;

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
    /// What an exit code means, where the lines tell no end.
    pub exit_codes: BTreeMap<i32, LineMeaning>,
}

/// One rule: on a line where every `when` holds, read these fields.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineRule {
    /// Dotted path → value the line must have there; a list means any of its items, a path that ends with ` ~` means a
    /// text that holds the value.
    pub when: BTreeMap<String, serde_json::Value>,
    /// What the line means.
    pub is: LineMeaning,
    /// Dotted path of a text: the message, the error, the tool's name, the session id (by `is`). Of several paths with
    /// `|` between them the first that leads to a text counts.
    pub text: Option<String>,
    /// Dotted path of what tells whether a tool worked: a boolean, an exit code, or a word such as `completed` or `failed`.
    pub ok: Option<String>,
    /// Dotted path of a tool call's id, where its end is told by another line.
    pub id: Option<String>,
    /// Dotted path of what a tool was given.
    pub input: Option<String>,
    /// Dotted path of what a tool came to; of several texts all count.
    pub output: Option<String>,
    /// Dotted path of a list: the rule applies to each of its items, and its other paths begin there.
    pub each: Option<String>,
    /// Whether it is read for trajectories only.
    pub trajectory: bool,
    /// Dotted path of when the line was written: a date, or milliseconds.
    pub time: Option<String>,
    /// Dotted paths of how many milliseconds a tool call took, also added and subtracted.
    pub duration_ms: Option<String>,
    /// Dotted path of a name; of several lines with the same name, the last one's usage counts.
    pub once: Option<String>,
    /// Token counts by class (`input`, `output`, `cache_read`, `cache_write`, `reasoning`): dotted paths, also added and
    /// subtracted (`usage.input - usage.cached?`).
    pub usage: BTreeMap<String, String>,
    /// How the numbers of several matched lines go together.
    pub usage_mode: UsageMode,
    /// Dotted path of a cost in dollars.
    pub cost: Option<String>,
    /// Dotted path of a number of turns.
    pub turns: Option<String>,
    /// Dotted path of the milliseconds that the provider asked to wait.
    pub wait_ms: Option<String>,
}

/// How token counts and costs of several matched lines go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UsageMode {
    /// Each line tells the session's numbers so far: the last one counts.
    #[default]
    Last,
    /// Each line tells a part: they are added up.
    Sum,
    /// Like `Last`, and where an earlier session was resumed, its numbers are in it too.
    Cumulative,
    /// Like `Sum`, and where an earlier session was resumed, its lines are there too.
    CumulativeSum,
}

impl UsageMode {
    /// Tells whether each line tells a part.
    #[must_use]
    pub fn is_sum(self) -> bool {
        matches!(self, Self::Sum | Self::CumulativeSum)
    }

    /// Tells whether the numbers of resumed sessions are in.
    #[must_use]
    pub fn holds_resumed(self) -> bool {
        matches!(self, Self::Cumulative | Self::CumulativeSum)
    }
}

/// What a matched line means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineMeaning {
    /// Only its numbers matter.
    #[default]
    Data,
    /// The agent's words.
    Message,
    /// A piece of the agent's words, to be put together with those around it.
    MessagePart,
    /// The agent's thoughts, where it prints them. Read for trajectories only.
    Thinking,
    /// A tool call.
    Tool,
    /// The end of a tool call that another line told.
    ToolEnd,
    /// A file that the agent changed.
    FileEdit,
    /// A command that the agent ran.
    Command,
    /// Something failed, and the session may go on.
    Error,
    /// What comes before belongs to a session that this one resumed.
    Restart,
    /// The session goes on: what an earlier line told of its end does not hold.
    GoesOn,
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
    /// The harness's own limit on tokens, or the model's context.
    TokenLimit,
    /// The provider: not reachable, for good.
    Unreachable,
    /// The provider: no such model.
    UnknownModel,
    /// What the user wrote cannot run: no model was called.
    Misconfigured,
    /// The provider refused for too many requests, and the harness waits to ask again.
    Throttled,
}

/// A file that a harness keeps of a session inside the environment.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionFileSpec {
    /// Where (template); `*` stands for any part of a name, `{resume}` for the session's own id.
    pub path: String,
    /// Whether the whole file is one JSON document; else each line is one.
    pub one_document: bool,
    /// Whether its numbers count only where the output told none.
    pub only_unknown: bool,
    /// How it is read.
    pub rules: JsonLinesSpec,
}

pub(super) fn output(table: Option<&Node>, out: &mut Diagnostics) -> OutputSpec {
    let Some(table) = table else { return OutputSpec::Text };
    let rules = table.entry("rule");
    if table.text_of("format").as_deref() == Some("json-lines") {
        return OutputSpec::JsonLines(JsonLinesSpec { exit_codes: exit_codes(table, out), ..rules_of(table) });
    }
    if let Some(entry) = rules {
        out.push(
            Diagnostic::error("rules read JSON lines, but the output is text")
                .at(&entry.key_span, "never used")
                .hint("set `format = \"json-lines\"`"),
        );
    }
    OutputSpec::Text
}

fn exit_codes(table: &Node, out: &mut Diagnostics) -> BTreeMap<i32, LineMeaning> {
    let Some(codes) = table.get("exit_codes") else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    for entry in codes.entries() {
        match (entry.key.parse(), entry.value.text().and_then(LineMeaning::parse)) {
            (Ok(code), Some(meaning)) => drop(found.insert(code, meaning)),
            // What is no end was refused before.
            (Ok(_), None) => {}
            (Err(_), _) => out.push(
                Diagnostic::error(format!("`{}` is no exit code", entry.key))
                    .at(&entry.key_span, "not a whole number")
                    .hint("write it as a number: `exit_codes = { 53 = \"turn_limit\" }`"),
            ),
        }
    }
    found
}

fn rules_of(table: &Node) -> JsonLinesSpec {
    let rules = table.entry("rule").map(|entry| entry.value.items().iter().map(rule).collect());
    JsonLinesSpec { rules: rules.unwrap_or_default(), exit_codes: BTreeMap::new() }
}

/// Reads `[output.file]`.
pub(super) fn session_file(table: &Node) -> SessionFileSpec {
    SessionFileSpec {
        path: table.text_of("path").unwrap_or_default(),
        one_document: table.text_of("format").as_deref() == Some("json"),
        only_unknown: table.bool_of("only_unknown").unwrap_or_default(),
        rules: rules_of(table),
    }
}

fn rule(table: &Node) -> LineRule {
    LineRule {
        when: table.object_of("when").into_iter().collect(),
        is: table.text_of("is").and_then(|name| LineMeaning::parse(&name)).unwrap_or_default(),
        text: table.text_of("text"),
        ok: table.text_of("ok"),
        usage: texts(table.get("usage")),
        usage_mode: match table.text_of("usage_mode").as_deref() {
            Some("sum") => UsageMode::Sum,
            Some("cumulative") => UsageMode::Cumulative,
            Some("cumulative-sum") => UsageMode::CumulativeSum,
            _ => UsageMode::Last,
        },
        cost: table.text_of("cost"),
        turns: table.text_of("turns"),
        wait_ms: table.text_of("wait_ms"),
        id: table.text_of("id"),
        input: table.text_of("input"),
        output: table.text_of("output"),
        each: table.text_of("each"),
        trajectory: table.bool_of("trajectory").unwrap_or_default(),
        time: table.text_of("time"),
        duration_ms: table.text_of("duration_ms"),
        once: table.text_of("once"),
    }
}

impl LineMeaning {
    /// Finds a meaning by the name that manifests use.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "data" => Self::Data,
            "message" => Self::Message,
            "message_part" => Self::MessagePart,
            "thinking" => Self::Thinking,
            "tool" => Self::Tool,
            "tool_end" => Self::ToolEnd,
            "file_edit" => Self::FileEdit,
            "command" => Self::Command,
            "error" => Self::Error,
            "restart" => Self::Restart,
            "goes_on" => Self::GoesOn,
            "session_id" => Self::SessionId,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "refused" => Self::Refused,
            "auth_failed" => Self::AuthFailed,
            "rate_limited" => Self::RateLimited,
            "overloaded" => Self::Overloaded,
            "turn_limit" => Self::TurnLimit,
            "cost_limit" => Self::CostLimit,
            "token_limit" => Self::TokenLimit,
            "unreachable" => Self::Unreachable,
            "unknown_model" => Self::UnknownModel,
            "misconfigured" => Self::Misconfigured,
            "throttled" => Self::Throttled,
            _ => return None,
        })
    }
}
