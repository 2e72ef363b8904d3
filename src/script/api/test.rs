//! Strategy tests; only test files can require this module.

use super::{Function, Kind, Param, Shape, optional, required};

const NOTE: Param = optional("note", Kind::Text, "Put before the message.");
/// What `t.run` takes.
const RUN: &[Param] = &[
    optional("params", Kind::Table, "Parameters; the others get the defaults of the manifest."),
    optional("prompt", Kind::Text, "`task.prompt`."),
    optional("task", Kind::Table, "Other fields of `task`."),
    optional(
        "sessions",
        Kind::Some,
        "A list of sessions, or a function `(call, workspace) -> session`. A session is a text or a table: `text`, `ok`, `status`, `reason`, `exit_code`, `duration`, `cost`, `usage`, `turns`, `tool_calls`, `files` (content, or false to remove), `refused` (the limit that refuses it), `stopped` (the host ends the script). Without it every session completes at once.",
    ),
    optional(
        "checks",
        Kind::Some,
        "A verdict, a list of them (the last one stays), or a function `(workspace) -> verdict`. A verdict is true, false, or `{ ok, passed, total, output }`.",
    ),
    optional(
        "exec",
        Kind::Function,
        "`(argv, workspace) -> { exit_code, stdout, stderr, timed_out }`, or a text for standard output.",
    ),
    optional("files", Kind::Table, "Files of the workspace by path."),
    optional("deadline", Kind::Seconds, "Virtual seconds until the script is ended."),
    optional(
        "budget",
        Kind::Dollars,
        "Dollars that may be spent; a session that costs more than is left ends at a limit.",
    ),
    optional("seed", Kind::Integer(0, 4_294_967_295), "Seed of math.random; 1 by default."),
    optional("models", Kind::Table, "Roles by model name; of several with a role the first by name is taken."),
    optional("harnesses", Kind::List, "Names of harnesses; sessions that name none run in the first."),
    optional("runner", Kind::Text, "Another file than the manifest's runner."),
    optional("max_sessions", Kind::Integer(0, 4_294_967_295), "The most sessions; 1,000 by default."),
];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        module: "test",
        name: "test",
        params: &[required("name", Kind::Text, "What it shows."), required("fn", Kind::Function, "The test.")],
        returns: "()",
        doc: "Runs a test and records what it came to.",
        example: "t.test(\"stops when the checks pass\", function()\n  t.equal(#t.run({ checks = true }).sessions, 1)\nend)",
    },
    Function {
        module: "test",
        name: "run",
        params: &[optional("world", Kind::Options(RUN), "What the mock world is like.")],
        returns: "Run",
        doc: "Runs the orchestrator in a mock world: virtual time, files in memory, no cost. Returns what it did.",
        example: "local run = t.run({ prompt = \"Fix it\", sessions = { \"done\" }, deadline = 600 })",
    },
    Function {
        module: "test",
        name: "equal",
        params: &[required("got", Kind::Any, "A value."), required("wanted", Kind::Any, "Another one."), NOTE],
        returns: "()",
        doc: "Fails unless two values are equal, tables by content; shows the first difference.",
        example: "t.equal(run.value.rounds, 2)",
    },
    Function {
        module: "test",
        name: "ok",
        params: &[required("value", Kind::Any, "A value."), NOTE],
        returns: "any",
        doc: "Fails unless a value is true; returns it.",
        example: "t.ok(run.ok, run.error)",
    },
    Function {
        module: "test",
        name: "contains",
        params: &[
            required("text", Kind::Any, "A text."),
            required("part", Kind::Bytes, "What must be in it; no pattern."),
            NOTE,
        ],
        returns: "()",
        doc: "Fails unless a text contains a part.",
        example: "t.contains(run.sessions[2].prompt, \"1 failed\")",
    },
    Function {
        module: "test",
        name: "raises",
        params: &[
            required("fn", Kind::Function, "A function."),
            optional("part", Kind::Bytes, "What the message must contain."),
            NOTE,
        ],
        returns: "any",
        doc: "Fails unless a function raises; returns what it raised.",
        example: "t.raises(function() error(\"boom\") end, \"boom\")",
    },
];

pub(super) const RUN_REPORT: Shape = Shape {
    name: "Run",
    doc: "What `t.run` returns: what the script did in the mock world.",
    fields: &[
        ("ok", "boolean", "Whether the script returned."),
        ("note", "string?", "The note that it returned."),
        ("value", "any", "All that it returned, as JSON keeps it."),
        ("error", "string?", "What it raised, with its trace."),
        ("stopped", "string?", "Why the host ended it, such as `deadline`."),
        ("sessions", "{RunSession}", "Its sessions, in the order in which they ended."),
        ("logs", "{RunLog}", "Its log lines."),
        ("checks", "number", "How often the visible checks ran."),
        ("commands", "{{string}}", "The commands that it ran, each a list of arguments."),
        ("files", "{[string]: string}", "Files of the main workspace at the end, by path."),
        ("spent", "number", "Dollars."),
        ("elapsed", "number", "Virtual seconds."),
        ("open_forks", "number", "Forks that were not thrown away."),
    ],
};

pub(super) const RUN_SESSION: Shape = Shape {
    name: "RunSession",
    doc: "A session of a run: what was asked for, and what came of it.",
    fields: &[
        ("prompt", "string", "What the agent was told."),
        ("role", "string?", "The option `role`."),
        ("model", "string?", "The option `model`."),
        ("harness", "string?", "The option `harness`."),
        ("phase", "string?", "The option `phase`."),
        ("label", "string?", "The option `label`."),
        ("timeout", "number?", "The option `timeout`."),
        ("max_cost", "number?", "The option `max_cost`."),
        ("continue", "number?", "Number of the session that it continues."),
        ("workspace", "number", "Number of the workspace; 0 is the main one."),
        ("index", "number", "Its number, from 1."),
        ("ok", "boolean", "Whether the agent finished its turn."),
        ("status", "string", "As in `Session`."),
        ("text", "string?", "The agent's last message."),
        ("cost", "number?", "Dollars."),
        ("duration", "number", "Virtual seconds."),
    ],
};

pub(super) const RUN_CALL: Shape = Shape {
    name: "RunCall",
    doc: "What a function for `sessions` gets first: what is asked for.",
    fields: &[
        ("prompt", "string", "What the agent is told."),
        ("role", "string?", "The option `role`."),
        ("model", "string?", "The option `model`."),
        ("harness", "string?", "The option `harness`."),
        ("phase", "string?", "The option `phase`."),
        ("label", "string?", "The option `label`."),
        ("timeout", "number?", "The option `timeout`."),
        ("max_cost", "number?", "The option `max_cost`."),
        ("continue", "number?", "Number of the session that it continues."),
        ("workspace", "number", "Number of the workspace; 0 is the main one."),
        ("index", "number", "Its number, from 1."),
    ],
};

pub(super) const RUN_LOG: Shape = Shape {
    name: "RunLog",
    doc: "A log line of a run.",
    fields: &[("level", "string", "`debug`, `info`, `warn` or `error`."), ("text", "string", "The line.")],
};

pub(super) const RUN_WORKSPACE: Shape = Shape {
    name: "RunWorkspace",
    doc: "The workspace that functions for `sessions`, `checks` and `exec` get.",
    fields: &[
        ("read", "(self: RunWorkspace, path: string) -> string?", "The content of a file; nil where there is none."),
        ("exists", "(self: RunWorkspace, path: string) -> boolean", "Whether a path exists."),
        ("write", "(self: RunWorkspace, path: string, content: string) -> ()", "Writes a file."),
        ("glob", "(self: RunWorkspace, pattern: string) -> {string}", "Files by a pattern, sorted."),
    ],
};
