//! The workspace and the environment: files, forks, commands, checks, money, time.

use super::{Function, Kind, Param, Shape, optional, required};

const PLACE: &[Param] = &[optional("workspace", Kind::Workspace, "Where; the main workspace by default.")];
const RUN: &[Param] = &[
    optional("timeout", Kind::Seconds, "Limit in seconds; the deadline still holds."),
    optional("workspace", Kind::Workspace, "Where; the main workspace by default."),
];
const PATH: Param = required("path", Kind::Text, "Relative to the workspace.");

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        module: "checks",
        name: "run",
        params: &[optional("options", Kind::Options(PLACE), "`workspace`.")],
        returns: "Checks",
        doc: "Runs the task's visible checks. A task without checks passes.",
        example: "local report = checks.run()\nif not report.ok then session(\"Fix this:\\n\" .. report.output) end",
    },
    Function {
        module: "exec",
        name: "run",
        params: &[
            required("argv", Kind::List, "Program and arguments, each a string."),
            optional("options", Kind::Options(RUN), "`timeout`, `workspace`."),
        ],
        returns: "Exec",
        doc: "Runs a command in the environment. A command that fails is a value.",
        example: "local build = exec.run({ \"make\", \"-j2\" }, { timeout = 120 })",
    },
    Function {
        module: "exec",
        name: "shell",
        params: &[
            required("command", Kind::Text, "A line for `sh -c`."),
            optional("options", Kind::Options(RUN), "`timeout`, `workspace`."),
        ],
        returns: "Exec",
        doc: "Runs a shell command in the environment.",
        example: "local count = exec.shell(\"ls | wc -l\").stdout",
    },
    Function {
        module: "workspace",
        name: "read",
        params: &[PATH],
        returns: "string?",
        doc: "Reads a file of the main workspace; nil where there is none.",
        example: "local plan = workspace.read(\"PLAN.md\")",
    },
    Function {
        module: "workspace",
        name: "exists",
        params: &[PATH],
        returns: "boolean",
        doc: "Tells whether a path exists.",
        example: "if workspace.exists(\"Cargo.toml\") then log.info(\"rust\") end",
    },
    Function {
        module: "workspace",
        name: "list",
        params: &[optional("path", Kind::Text, "A folder; the workspace itself by default.")],
        returns: "{string}?",
        doc: "Lists the entries of a folder, sorted; nil where there is none.",
        example: "for _, name in workspace.list(\"src\") or {} do log.info(name) end",
    },
    Function {
        module: "workspace",
        name: "glob",
        params: &[required("pattern", Kind::Text, "Such as `src/**/*.rs`.")],
        returns: "{string}",
        doc: "Finds files by a pattern, sorted.",
        example: "local tests = workspace.glob(\"**/*_test.py\")",
    },
    Function {
        module: "workspace",
        name: "diff",
        params: &[],
        returns: "string",
        doc: "Returns the diff of the workspace against its baseline.",
        example: "if workspace.diff() == \"\" then log.info(\"nothing changed\") end",
    },
    Function {
        module: "workspace",
        name: "write",
        params: &[
            required("path", Kind::Text, "Relative to `.refrain/`."),
            required("content", Kind::Bytes, "The content."),
        ],
        returns: "()",
        doc: "Writes a file below `.refrain/`, which the agent sees and which is no part of the result.",
        example: "workspace.write(\"feedback.md\", report.output)",
    },
    Function {
        module: "fork",
        name: "create",
        params: &[optional("from", Kind::Workspace, "What to copy; the main workspace by default.")],
        returns: "Workspace",
        doc: "Copies a workspace. Sessions, checks and commands take the copy as `workspace`.",
        example: "local copy = fork.create()\nsession(task.prompt, { workspace = copy })",
    },
    Function {
        module: "fork",
        name: "merge",
        params: &[
            required("from", Kind::Workspace, "The winner."),
            optional("into", Kind::Workspace, "What it replaces; the main workspace by default."),
        ],
        returns: "()",
        doc: "Replaces the content of one workspace by that of another.",
        example: "fork.merge(best)",
    },
    Function {
        module: "fork",
        name: "discard",
        params: &[required("workspace", Kind::Workspace, "A fork.")],
        returns: "()",
        doc: "Throws a fork away.",
        example: "fork.discard(copy)",
    },
    Function {
        module: "fork",
        name: "each",
        params: &[
            required("n", Kind::Integer(1, 100), "How many forks."),
            required("fn", Kind::Function, "Called as `fn(workspace, i)`."),
        ],
        returns: "{any}, {Workspace}",
        doc: "Makes n forks of the main workspace, calls the function for each at the same time, and returns the results and the forks.",
        example: "local reports, forks = fork.each(3, function(ws)\n  session(task.prompt, { workspace = ws })\n  return checks.run({ workspace = ws })\nend)",
    },
    Function {
        module: "budget",
        name: "remaining",
        params: &[],
        returns: "number?",
        doc: "Returns the dollars that may still be spent; nil where there is no cap.",
        example: "local left = budget.remaining()\nif left and left < 0.5 then return end",
    },
    Function {
        module: "budget",
        name: "spent",
        params: &[],
        returns: "number",
        doc: "Returns the dollars spent so far; a lower bound where a session's cost is unknown.",
        example: "log.info(\"spent $\" .. budget.spent())",
    },
    Function {
        module: "clock",
        name: "now",
        params: &[],
        returns: "number",
        doc: "Returns the seconds since the attempt began.",
        example: "local began = clock.now()",
    },
    Function {
        module: "clock",
        name: "sleep",
        params: &[required("seconds", Kind::Seconds, "How long.")],
        returns: "()",
        doc: "Waits. In a strategy test it costs no time.",
        example: "clock.sleep(5)",
    },
];

pub(super) const CHECKS: Shape = Shape {
    name: "Checks",
    doc: "The report of the visible checks.",
    fields: &[
        ("ok", "boolean", "Whether all passed."),
        ("passed", "number", "How many passed."),
        ("total", "number", "How many there are."),
        ("output", "string", "Commands and output of those that failed, cut to size; meant for a prompt."),
        ("checks", "{Check}", "Each check."),
    ],
};

pub(super) const CHECK: Shape = Shape {
    name: "Check",
    doc: "One visible check.",
    fields: &[
        ("command", "string", "The command."),
        ("ok", "boolean", "Whether it passed."),
        ("exit_code", "number?", "Its exit code."),
        ("output", "string", "What it printed, cut to size."),
    ],
};

pub(super) const EXEC: Shape = Shape {
    name: "Exec",
    doc: "A command's end and output.",
    fields: &[
        ("ok", "boolean", "Whether it ended with code 0."),
        ("exit_code", "number?", "Its exit code."),
        ("timed_out", "boolean", "Whether its limit stopped it."),
        ("stdout", "string", "Standard output, cut to size."),
        ("stderr", "string", "Standard error, cut to size."),
    ],
};

pub(super) const WORKSPACE: Shape = Shape {
    name: "Workspace",
    doc: "A workspace: `workspace.main` or a fork. The methods are those of `@std/workspace`, with `:`.",
    fields: &[
        ("id", "number", "0 for the main workspace."),
        ("read", "(self: Workspace, path: string) -> string?", "See `workspace.read`."),
        ("exists", "(self: Workspace, path: string) -> boolean", "See `workspace.exists`."),
        ("list", "(self: Workspace, path: string?) -> {string}?", "See `workspace.list`."),
        ("glob", "(self: Workspace, pattern: string) -> {string}", "See `workspace.glob`."),
        ("diff", "(self: Workspace) -> string", "See `workspace.diff`."),
        ("write", "(self: Workspace, path: string, content: string) -> ()", "See `workspace.write`."),
    ],
};
