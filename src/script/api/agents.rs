//! Sessions, deadline, log: what every script uses.

use super::{Function, Kind, Param, Shape, optional, required};

/// Options of `session`.
pub(crate) const SESSION_OPTIONS: &[Param] = &[
    optional("role", Kind::Choice(&["implementation", "review"]), "Model by role."),
    optional("model", Kind::Text, "Model by name, among those of the run."),
    optional("harness", Kind::Text, "Harness by name, among those of the run."),
    optional("phase", Kind::Text, "Phase that the session belongs to."),
    optional("label", Kind::Text, "A name for people."),
    optional("timeout", Kind::Seconds, "Limit of this session in seconds; the deadline still holds."),
    optional("max_cost", Kind::Dollars, "The most the session may cost, in dollars."),
    optional("continue", Kind::Session, "An earlier result: the harness resumes that conversation."),
    optional("workspace", Kind::Workspace, "A fork to work in."),
];

const LINE: &[Param] =
    &[required("text", Kind::Any, "What to log; anything but a string is shown as `tostring` does.")];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        module: "",
        name: "session",
        params: &[
            required("prompt", Kind::Text, "What the agent is told; at most 2 MB."),
            optional("options", Kind::Options(SESSION_OPTIONS), "See the table of options."),
        ],
        returns: "Session",
        doc: "Runs the harness once and returns how it went. A failing agent is a value (`ok == false`), not an error. \
              Raises when money or sessions run out (`err.kind == \"refused\"`) and when it is misused.",
        example: "local last = session(task.prompt, { label = \"first try\" })\nif not last.ok then log.warn(last.reason) end",
    },
    Function {
        module: "deadline",
        name: "remaining",
        params: &[],
        returns: "number",
        doc: "Returns the seconds until the deadline; `math.huge` where there is none. At the deadline the script ends.",
        example: "if deadline.remaining() < 60 then return { note = \"out of time\" } end",
    },
    Function {
        module: "log",
        name: "debug",
        params: LINE,
        returns: "()",
        doc: "Logs a line for whoever debugs the script.",
        example: "log.debug(\"round \" .. round)",
    },
    Function {
        module: "log",
        name: "info",
        params: LINE,
        returns: "()",
        doc: "Logs a line; `print` does the same.",
        example: "log.info(\"checks pass\")",
    },
    Function {
        module: "log",
        name: "warn",
        params: LINE,
        returns: "()",
        doc: "Logs a warning.",
        example: "log.warn(last.reason)",
    },
    Function {
        module: "log",
        name: "error",
        params: LINE,
        returns: "()",
        doc: "Logs an error. The script goes on.",
        example: "log.error(\"no candidate passed\")",
    },
];

pub(super) const SESSION: Shape = Shape {
    name: "Session",
    doc: "What a session came to. What nobody measured is nil, never 0.",
    fields: &[
        ("ok", "boolean", "Whether the agent finished its turn."),
        ("status", "string", "`completed`, `failed`, `timed_out`, `limit` or `not_started`."),
        ("reason", "string", "Why it ended, in one line."),
        ("exit_code", "number?", "The harness's exit code."),
        ("text", "string?", "The agent's last message."),
        ("usage", "Usage", "Tokens."),
        ("cost", "number?", "Dollars."),
        ("duration", "number", "Seconds."),
        ("turns", "number?", "Model turns."),
        ("tool_calls", "number?", "Tool calls."),
        ("resumable", "boolean", "Whether `continue` can take this session up again."),
        ("index", "number", "Its number in this attempt, from 1."),
        ("phase", "string?", "The phase it belongs to."),
        ("label", "string?", "The label it was given."),
        ("model", "string", "The model it ran with."),
        ("harness", "string", "The harness it ran in."),
    ],
};

pub(super) const USAGE: Shape = Shape {
    name: "Usage",
    doc: "Tokens of a session; nil where nobody measured.",
    fields: &[
        ("input", "number?", "Input tokens outside any cache."),
        ("output", "number?", "Output tokens, reasoning included."),
        ("cache_read", "number?", "Input tokens read from a cache."),
        ("cache_write", "number?", "Input tokens written to a cache."),
        ("reasoning", "number?", "The part of the output that was reasoning."),
    ],
};

pub(super) const TASK: Shape = Shape {
    name: "Task",
    doc: "The task, as far as a script may know it. The hidden tests are no part of it.",
    fields: &[
        ("id", "string", "Its id."),
        ("name", "string", "Its name."),
        ("prompt", "string", "Its prompt."),
        ("track", "string", "`swe`, `open_ended` or `multi_phase`."),
        ("checks", "{string}", "Its visible checks."),
        ("phases", "{Phase}", "Its phases; empty for other tracks."),
        ("metadata", "{[string]: any}", "Free data of the task's author."),
    ],
};

pub(super) const PHASE: Shape = Shape {
    name: "Phase",
    doc: "A phase of a multi-phase task.",
    fields: &[
        ("name", "string", "Its name."),
        ("role", "string", "`implementation` or `review`."),
        ("prompt", "string?", "Its prompt; nil where the task's own holds."),
        ("input", "string", "`none`, `diff`, `output` or `review_feedback`."),
        ("timeout", "number?", "Its limit in seconds."),
    ],
};

pub(super) const RETURNED: Shape = Shape {
    name: "Returned",
    doc: "What a script may return. Other fields are its own business.",
    fields: &[("note", "string?", "It is shown with the results.")],
};

pub(super) const ERROR: Shape = Shape {
    name: "HostError",
    doc: "What host functions raise. `tostring` gives place and message.",
    fields: &[
        ("kind", "string", "`misuse` (the call makes no sense) or `refused` (a limit)."),
        ("message", "string", "What is wrong."),
        ("limit", "string?", "Which limit refused: `budget`, `sessions`, …"),
        ("where", "string?", "File and line of the script."),
    ],
};
