//! The manifests of orchestrators and harnesses.

use super::{Kind, Section, optional, required};

/// `orchestrator.toml`.
pub(crate) const ORCHESTRATOR: Section = Section {
    name: "orchestrator manifest",
    fields: &[
        required("slug", Kind::Name, "Its name in run files and results."),
        optional("name", Kind::Text, "For people (the slug)."),
        optional("description", Kind::Text, "For people."),
        optional("runner", Kind::Inside, "The script, or an executable file, beside the manifest (`runner.lua`)."),
        required("api", Kind::Whole { min: 1, max: 1 }, "Version of the Lua API."),
        optional("params", Kind::Map(&Kind::Any), "Parameters: `key = default`, or a table `[params.key]`."),
    ],
};

/// `[params.key]`.
pub(crate) const PARAM: Section = Section {
    name: "parameter",
    fields: &[
        optional("type", Kind::Choice(PARAM_TYPES), "Its type (that of its default)."),
        optional("items", Kind::Choice(ITEM_TYPES), "Type of the items of a list (anything)."),
        optional("default", Kind::Any, "Its default; without one it must be given."),
        optional("min", Kind::Any, "Least value of a number."),
        optional("max", Kind::Any, "Greatest value of a number."),
        optional("choices", Kind::List { of: &Kind::Any, empty: false }, "Allowed values."),
        optional("help", Kind::Text, "For people."),
    ],
};

/// Types of parameters.
pub(crate) const PARAM_TYPES: &[&str] = &["boolean", "integer", "number", "string", "list"];

/// Types of the items of lists.
pub(crate) const ITEM_TYPES: &[&str] = &["boolean", "integer", "number", "string"];

/// `harness.toml`.
pub(crate) const HARNESS: Section = Section {
    name: "harness manifest",
    fields: &[
        required("name", Kind::Name, "Its name."),
        optional("description", Kind::Text, "For people."),
        optional("verified", Kind::Text, "Version of the program that it was tried with, and how (never)."),
        required("run", Kind::Section(&RUN), "How a session is started."),
        optional("env", Kind::Map(&Kind::Text), "Variables of the process (templates)."),
        optional("key_env", Kind::Variable, "Variable that carries the model's key into the process."),
        optional(
            "base_path",
            Kind::Either(&Kind::Text, &Kind::Map(&Kind::Text)),
            "What its clients want behind a provider's address (``): one text, or one for each provider.",
        ),
        optional(
            "tolerance",
            Kind::Positive { max: 1.0 },
            "Share by which its own figures may differ from the gateway's without a word (0).",
        ),
        optional("probe", Kind::Section(&PROBE), "How it is found out which version is there."),
        optional("install", Kind::Section(&INSTALL), "How it gets into an image that lacks it."),
        optional(
            "credentials",
            Kind::List { of: &Kind::Text, empty: true },
            "Files of the user's home that hold a subscription's credentials, relative to it (none).",
        ),
        optional("files", Kind::Map(&Kind::Text), "Files written before a session: path template to content template."),
        optional("config", Kind::Map(&Kind::Section(&CONFIG)), "Settings it takes from the run file."),
        optional("output", Kind::Section(&OUTPUT), "How its output is read."),
    ],
};

/// `[run]`.
const RUN: Section = Section {
    name: "run",
    fields: &[
        required("argv", ARGV, "Program and arguments (templates)."),
        optional("prompt", Kind::Choice(&["argument", "stdin", "file"]), "How the prompt gets in (`argument`)."),
        optional("resume_args", Kind::List { of: &Kind::Text, empty: true }, "Arguments that resume a session."),
        optional(
            "cost_args",
            Kind::List { of: &Kind::Text, empty: true },
            "Arguments that limit the cost of a session.",
        ),
    ],
};

/// `[probe]`.
const PROBE: Section =
    Section { name: "probe", fields: &[required("argv", ARGV, "Command that prints a version and costs nothing.")] };

/// `[install]`.
const INSTALL: Section = Section {
    name: "install",
    fields: &[
        optional("script", Kind::Text, "What `sh` runs in the image, as root and with a network."),
        optional("timeout", Kind::Duration, "Its own bound, within the run's `limits.setup_timeout`."),
        optional(
            "host_program",
            Kind::Bool,
            "Whether the `refrain` program itself is copied to /usr/local/bin (false).",
        ),
    ],
};

const ARGV: Kind = Kind::List { of: &Kind::Text, empty: false };

/// `[config.NAME]`.
pub(crate) const CONFIG: Section = Section {
    name: "setting",
    fields: &[
        required("type", Kind::Choice(CONFIG_TYPES), "Its type."),
        optional("default", Kind::Any, "Its default; without one it is required."),
        optional("help", Kind::Text, "For people."),
    ],
};

/// Types of settings.
pub(crate) const CONFIG_TYPES: &[&str] = &["text", "path", "number", "bool", "text-list"];

/// `[output]`.
const OUTPUT: Section = Section {
    name: "output",
    fields: &[
        optional("format", Kind::Choice(&["text", "json-lines"]), "What it prints (`text`)."),
        optional(
            "rule",
            Kind::List { of: &Kind::Section(&RULE), empty: true },
            "How lines are read; all that match apply.",
        ),
        optional(
            "exit_codes",
            Kind::Map(&Kind::Choice(ENDS)),
            "What an exit code means where no line tells the end (nothing).",
        ),
        optional("file", Kind::Section(&FILE), "The file that it keeps of a session, read when the session is over."),
    ],
};

/// `[output.file]`.
const FILE: Section = Section {
    name: "session file",
    fields: &[
        required("path", Kind::Line, "Where it is (template); `*` stands for any part of a name."),
        optional(
            "format",
            Kind::Choice(&["json-lines", "json"]),
            "Whether each line is JSON, or the whole file (`json-lines`).",
        ),
        optional("only_unknown", Kind::Bool, "Whether its numbers count only where the output told none (false)."),
        optional(
            "rule",
            Kind::List { of: &Kind::Section(&RULE), empty: true },
            "How it is read; all that match apply.",
        ),
    ],
};

/// `[[output.rule]]`.
const RULE: Section = Section {
    name: "output rule",
    fields: &[
        optional("when", Kind::Map(&Kind::Any), "Dotted path to the value that the line must have there."),
        optional("is", Kind::Choice(MEANINGS), "What such a line means (`data`)."),
        optional("text", Kind::Line, "Dotted path of the message, the error, the tool's name or the session's id."),
        optional("ok", Kind::Line, "Dotted path of whether a tool worked."),
        optional("id", Kind::Line, "Dotted path of a tool call's id, where another line tells its end."),
        optional("input", Kind::Line, "Dotted path of what a tool was given; for trajectories."),
        optional("output", Kind::Line, "Dotted path of what a tool came to; for trajectories."),
        optional(
            "each",
            Kind::Line,
            "Dotted path of a list: the rule applies to each item, and its paths begin there.",
        ),
        optional("trajectory", Kind::Bool, "Whether the rule is read for trajectories only (false)."),
        optional("time", Kind::Line, "Dotted path of when the line was written: a date, or milliseconds."),
        optional("duration_ms", Kind::Line, "Dotted paths of how many milliseconds a tool took; `a - b` subtracts."),
        optional("once", Kind::Line, "Dotted path of a name; of lines with the same one, the last one's usage counts."),
        optional("usage", Kind::Section(&USAGE), "Dotted paths of token counts; `a - b` subtracts."),
        optional(
            "usage_mode",
            Kind::Choice(&["last", "sum", "cumulative", "cumulative-sum"]),
            "Whether the latest numbers hold for the session (`last`), each line adds to it (`sum`), or the same with all \
             sessions that were resumed (`cumulative`, `cumulative-sum`).",
        ),
        optional("cost", Kind::Line, "Dotted path of a cost in dollars."),
        optional("turns", Kind::Line, "Dotted path of a number of turns."),
        optional("wait_ms", Kind::Line, "Dotted path of the milliseconds that the provider asked to wait."),
    ],
};

/// `usage` of a rule.
const USAGE: Section = Section {
    name: "usage",
    fields: &[
        optional("input", Kind::Line, "Input tokens."),
        optional("output", Kind::Line, "Output tokens."),
        optional("cache_read", Kind::Line, "Tokens read from the cache."),
        optional("cache_write", Kind::Line, "Tokens written to the cache."),
        optional(
            "cache_write_long",
            Kind::Line,
            "Tokens written to the cache to be kept for an hour, a part of `cache_write`.",
        ),
        optional("reasoning", Kind::Line, "Reasoning tokens, a part of the output."),
    ],
};

/// What the end of a turn can be.
const ENDS: &[&str] = &[
    "completed",
    "failed",
    "refused",
    "turn_limit",
    "cost_limit",
    "token_limit",
    "auth_failed",
    "rate_limited",
    "overloaded",
    "unreachable",
    "unknown_model",
    "misconfigured",
];

/// What a line can mean.
pub(crate) const MEANINGS: &[&str] = &[
    "data",
    "message",
    "message_part",
    "thinking",
    "tool",
    "tool_end",
    "file_edit",
    "command",
    "error",
    "restart",
    "goes_on",
    "session_id",
    "completed",
    "failed",
    "refused",
    "auth_failed",
    "rate_limited",
    "overloaded",
    "turn_limit",
    "cost_limit",
    "token_limit",
    "unreachable",
    "unknown_model",
    "misconfigured",
    "throttled",
];
