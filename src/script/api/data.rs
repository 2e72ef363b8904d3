//! Text and data.

use super::{Function, Kind, Param, optional, required};

const TEXT: Param = required("text", Kind::Bytes, "Any string.");
const PRETTY: &[Param] = &[optional("pretty", Kind::Boolean, "Indent by two spaces.")];

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        module: "prompt",
        name: "render",
        params: &[
            required("template", Kind::Bytes, "Text with `{{name}}` or `{{name.field}}`."),
            required("values", Kind::Table, "Values by name."),
        ],
        returns: "string",
        doc: "Fills a template in. A name without a value raises. Values are never templates themselves.",
        example: "prompt.render(\"Fix {{file}}.\", { file = \"a.py\" })",
    },
    Function {
        module: "prompt",
        name: "fence",
        params: &[TEXT, optional("language", Kind::Text, "For the fence.")],
        returns: "string",
        doc: "Puts text into a code fence that is longer than any fence inside.",
        example: "prompt.fence(report.output)",
    },
    Function {
        module: "prompt",
        name: "section",
        params: &[required("title", Kind::Bytes, "The heading."), required("body", Kind::Bytes, "The text below.")],
        returns: "string",
        doc: "Makes a section with a heading.",
        example: "prompt.section(\"Output of the checks\", report.output)",
    },
    Function {
        module: "prompt",
        name: "join",
        params: &[required("parts", Kind::List, "Strings; false leaves a part out.")],
        returns: "string",
        doc: "Joins parts with a blank line between, leaving out empty ones.",
        example: "prompt.join({ task.prompt, not report.ok and report.output })",
    },
    Function {
        module: "text",
        name: "lines",
        params: &[TEXT],
        returns: "{string}",
        doc: "Splits text into lines, without their ends.",
        example: "#text.lines(\"a\\nb\") -- 2",
    },
    Function {
        module: "text",
        name: "trim",
        params: &[TEXT],
        returns: "string",
        doc: "Takes white space off both ends.",
        example: "text.trim(\"  ok \") -- \"ok\"",
    },
    Function {
        module: "text",
        name: "starts_with",
        params: &[TEXT, required("prefix", Kind::Bytes, "What to look for.")],
        returns: "boolean",
        doc: "Tells whether text starts with a prefix.",
        example: "text.starts_with(last.text, \"DONE\")",
    },
    Function {
        module: "text",
        name: "ends_with",
        params: &[TEXT, required("suffix", Kind::Bytes, "What to look for.")],
        returns: "boolean",
        doc: "Tells whether text ends with a suffix.",
        example: "text.ends_with(name, \".py\")",
    },
    Function {
        module: "text",
        name: "contains",
        params: &[TEXT, required("part", Kind::Bytes, "What to look for; no pattern.")],
        returns: "boolean",
        doc: "Tells whether text contains a part.",
        example: "text.contains(last.text or \"\", \"APPROVED\")",
    },
    Function {
        module: "text",
        name: "indent",
        params: &[TEXT, optional("prefix", Kind::Bytes, "Four spaces by default.")],
        returns: "string",
        doc: "Puts a prefix before each line.",
        example: "text.indent(report.output, \"> \")",
    },
    Function {
        module: "text",
        name: "truncate",
        params: &[
            TEXT,
            required("max", Kind::Integer(0, 1 << 30), "The most bytes, notice included."),
            optional("keep", Kind::Choice(&["head", "tail", "both"]), "Which end to keep; `both` by default."),
        ],
        returns: "string",
        doc: "Cuts text to a size with a notice, never inside a UTF-8 character.",
        example: "text.truncate(report.output, 4000)",
    },
    Function {
        module: "json",
        name: "encode",
        params: &[
            required("value", Kind::Any, "Anything without functions; `json.null` for null."),
            optional("options", Kind::Options(PRETTY), "`pretty`."),
        ],
        returns: "string",
        doc: "Writes a value as JSON with sorted keys. Raises for NaN, infinity, functions, mixed tables and cycles.",
        example: "json.encode({ ok = true })",
    },
    Function {
        module: "json",
        name: "decode",
        params: &[required("text", Kind::Bytes, "JSON.")],
        returns: "any",
        doc: "Reads JSON. Null becomes nil in objects and `json.null` in lists. Raises where the text is no JSON.",
        example: "json.decode('{\"score\": 3}').score",
    },
    Function {
        module: "json",
        name: "extract",
        params: &[required("text", Kind::Bytes, "An agent's message.")],
        returns: "any",
        doc: "Finds the first JSON object or list in a text; nil where there is none.",
        example: "local verdict = json.extract(last.text or \"\")",
    },
];
