//! The reference page and the type definitions, generated from the table of functions.

use std::fmt::Write as _;

use super::api::{Function, Kind, Param, RETURNED, SHAPES, TEST_SHAPES, functions, path};

/// What each module is for, in the order of the reference.
const MODULES: &[(&str, &str)] = &[
    ("", "Global functions."),
    ("deadline", "Global table: the time that is left."),
    ("log", "Global table: lines for people. `print` is `log.info`, with tabs between its arguments."),
    ("checks", "The task's visible checks."),
    ("exec", "Commands in the environment."),
    ("workspace", "Files of the workspace. `workspace.main` is the handle of the main one."),
    ("fork", "Copies of the workspace."),
    ("budget", "Money of the attempt."),
    ("clock", "The run's clock."),
    ("parallel", "Branches that run at the same time."),
    ("phases", "The protocol of multi-phase tasks."),
    ("loop", "Rounds with bounds."),
    ("vote", "Choosing among several."),
    ("stop", "What kind of stop an error is."),
    ("prompt", "Composing prompts."),
    ("text", "Strings."),
    ("json", "JSON. `json.null` stands for null."),
    ("test", "Strategy tests, in files named `*_test.lua`."),
];

const HEAD: &str = "# Lua reference

Scripts are Luau (Lua 5.1 with `continue`, `+=`, string interpolation and more). This page is generated from the table of functions
in `src/script/api`; do not edit it.

A script sees Luau's own `assert`, `error`, `getmetatable`, `ipairs`, `next`, `pairs`, `pcall`, `rawequal`, `rawget`, `rawlen`,
`rawset`, `select`, `setmetatable`, `tonumber`, `tostring`, `type`, `typeof`, `unpack`, `xpcall`, the libraries `bit32`, `buffer`,
`math`, `string`, `table`, `utf8`, and what is below. `require` takes `\"@std/name\"` or `\"./file\"`, relative to the file that
requires. `math.random` is seeded by the run, and `os` has only `os.time` and `os.clock`, both driven by the run's clock. Tables of
the host are frozen, and a misspelt field raises.

A function that talks to the host may wait, and Luau cannot wait inside a sort comparator, a `gsub` callback or a metamethod: make
such calls before. Host functions raise frozen tables (see [HostError](#hosterror)); a stop of the host (deadline, cancellation)
ends the script and is never seen.

`params` holds the orchestrator's parameters, `task` the task (see [Task](#task)). What a script returns is kept with the run: a
table's `note`, or a returned text, is shown to people.
";

/// Returns the reference page, in Markdown.
#[must_use]
pub fn reference() -> String {
    let mut out = HEAD.to_owned();
    for (module, purpose) in MODULES {
        let title = match *module {
            "" => "Globals".to_owned(),
            "deadline" | "log" => format!("`{module}`"),
            _ => format!("`@std/{module}`"),
        };
        let _ = write!(out, "\n## {title}\n\n{purpose}\n");
        for function in functions().filter(|function| function.module == *module) {
            describe(&mut out, function);
        }
    }
    out.push_str("\n## Tables of the host\n");
    for shape in SHAPES.iter().chain([&RETURNED]).chain(TEST_SHAPES) {
        let _ = write!(out, "\n### {}\n\n{}\n\n| field | type | meaning |\n|---|---|---|\n", shape.name, shape.doc);
        for (field, kind, doc) in shape.fields {
            let _ = writeln!(out, "| `{field}` | `{}` | {doc} |", kind.replace('|', "\\|"));
        }
    }
    out
}

fn describe(out: &mut String, function: &Function) {
    let params: Vec<String> = function
        .params
        .iter()
        .map(|param| format!("{}{}", param.name, if param.optional { "?" } else { "" }))
        .collect();
    let _ = write!(
        out,
        "\n### {name}\n\n```lua\n{name}({params}) -> {returns}\n```\n\n{doc}\n",
        name = path(function),
        params = params.join(", "),
        returns = function.returns,
        doc = function.doc
    );
    if !function.params.is_empty() {
        out.push('\n');
        for param in function.params {
            let _ = writeln!(out, "- `{}`: {}. {}", param.name, expected(param), param.doc);
            if let Kind::Options(fields) = param.kind {
                for field in fields {
                    let _ = writeln!(out, "  - `{}`: {}. {}", field.name, field.kind.expected(), field.doc);
                }
            }
        }
    }
    let _ = write!(out, "\n```lua\n{}\n```\n", function.example);
}

fn expected(param: &Param) -> String {
    format!("{}{}", param.kind.expected(), if param.optional { ", optional" } else { "" })
}

/// Returns type definitions for editors and checkers.
#[must_use]
pub fn types() -> String {
    let mut out = "-- Types of what scripts see. Generated from the table of functions; do not edit.\n".to_owned();
    for shape in SHAPES.iter().chain([&RETURNED]).chain(TEST_SHAPES) {
        let _ = write!(out, "\n--- {}\nexport type {} = {{\n", shape.doc, shape.name);
        for (field, kind, doc) in shape.fields {
            let _ = writeln!(out, "    --- {doc}\n    {field}: {kind},");
        }
        out.push_str("}\n");
    }
    out.push_str("\ndeclare params: { [string]: any }\ndeclare task: Task\n");
    for (module, purpose) in MODULES {
        let own: Vec<&Function> = functions().filter(|function| function.module == *module).collect();
        match *module {
            "" => {
                for function in own {
                    comment(&mut out, "", function);
                    let _ = writeln!(
                        out,
                        "declare function {}({}): {}",
                        function.name,
                        arguments(function),
                        returns(function)
                    );
                }
            }
            "deadline" | "log" => {
                let _ = write!(out, "\n--- {purpose}\ndeclare {module}: ");
                table(&mut out, &own, &[]);
            }
            _ => {
                let extra: &[&str] = match *module {
                    "workspace" => &["main: Workspace"],
                    "json" => &["null: any"],
                    _ => &[],
                };
                let _ = write!(out, "\n--- `require(\"@std/{module}\")`: {purpose}\nexport type Std_{module} = ");
                table(&mut out, &own, extra);
            }
        }
    }
    out
}

fn table(out: &mut String, functions: &[&Function], extra: &[&str]) {
    out.push_str("{\n");
    for field in extra {
        let _ = writeln!(out, "    {field},");
    }
    for function in functions {
        comment(out, "    ", function);
        let _ = writeln!(out, "    {}: ({}) -> {},", function.name, arguments(function), returns(function));
    }
    out.push_str("}\n");
}

fn comment(out: &mut String, indent: &str, function: &Function) {
    let _ = writeln!(out, "{indent}--- {}", function.doc);
}

/// More than one result needs brackets in a type.
fn returns(function: &Function) -> String {
    let several = function.returns.contains(", ") && !function.returns.starts_with(['(', '{']);
    let multiple = several || function.returns == "{any}, {Workspace}";
    if multiple { format!("({})", function.returns) } else { function.returns.to_owned() }
}

fn arguments(function: &Function) -> String {
    let arguments = function.params.iter().map(|param| {
        let name = if matches!(param.name, "from" | "fn" | "into") {
            format!("{}_", param.name)
        } else {
            param.name.to_owned()
        };
        format!("{name}: {}{}", luau(param.kind), if param.optional { "?" } else { "" })
    });
    arguments.collect::<Vec<_>>().join(", ")
}

fn luau(kind: Kind) -> String {
    match kind {
        Kind::Any | Kind::Some => "any".to_owned(),
        Kind::Bytes | Kind::Text => "string".to_owned(),
        Kind::Number | Kind::Integer(..) | Kind::Seconds | Kind::Dollars => "number".to_owned(),
        Kind::Boolean => "boolean".to_owned(),
        Kind::Table => "{ [any]: any }".to_owned(),
        Kind::List => "{ any }".to_owned(),
        Kind::Function => "(...any) -> ...any".to_owned(),
        Kind::Session => "Session".to_owned(),
        Kind::Workspace => "Workspace".to_owned(),
        Kind::Choice(words) => words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | "),
        Kind::Options(fields) => {
            let fields: Vec<String> = fields
                .iter()
                // `continue` is a word of the language, and as a field of a type it needs brackets.
                .map(|field| {
                    let name =
                        if field.name == "continue" { "[\"continue\"]".to_owned() } else { field.name.to_owned() };
                    format!("{name}: ({})?", luau(field.kind))
                })
                .collect();
            format!("{{ {} }}", fields.join(", "))
        }
    }
}
