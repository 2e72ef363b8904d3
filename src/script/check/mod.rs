//! Checks of a script without running it: it compiles, and every global and every field of a host table exists.
//!
//! The check reads tokens, not a syntax tree, and leans to silence: a name that is declared anywhere in a file counts as
//! known in all of it. What it reports is wrong.

mod lexer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use lexer::{Kind, Token, tokens};

use super::api::{self, SHAPES};
use super::bind::{absent, suggestion};
use super::error::{Frame, ScriptError, load_error};
use super::library;
use super::limits::ScriptLimits;
use super::mock::{MockSetup, MockWorld};
use super::run::ScriptEnd;
use super::source::{ScriptSource, SourceError};
use super::testing::Manifest;
use super::vm;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The script would fail.
    Error,
    /// The script would run, but something in it is not as it was meant.
    Warning,
}

/// Something that is wrong with a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// The file, relative to the directory.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What is wrong.
    pub message: String,
    /// The source line with a caret, for errors of the compiler.
    pub snippet: Option<String>,
}

/// Checks every `.lua` file of an orchestrator's directory, and the parameters that its manifest declares.
///
/// # Errors
///
/// [`SourceError`] where the directory cannot be read.
pub fn check_dir(directory: &Path) -> Result<Vec<Finding>, SourceError> {
    let source = ScriptSource::from_dir(directory, "runner.lua")?;
    let mut files = Vec::new();
    find(directory, "", &mut files)?;
    files.sort();
    let mut findings = Vec::new();
    let mut known = Known::new();
    match Manifest::read(&source) {
        Ok(manifest) => known.add_params(&manifest),
        Err(message) => findings.push(finding(Severity::Error, "orchestrator.toml", 1, message)),
    }
    for file in files {
        match source.read(&file) {
            Ok(Some(bytes)) => findings.extend(check_bytes(&file, &bytes, &known)),
            Ok(None) => {}
            Err(error) => findings.push(finding(Severity::Error, &file, 1, error.to_string())),
        }
    }
    Ok(findings)
}

/// Checks one text, without any parameters known.
#[must_use]
pub fn check_text(file: &str, text: &str) -> Vec<Finding> {
    check_bytes(file, text.as_bytes(), &Known::new())
}

fn finding(severity: Severity, file: &str, line: u32, message: String) -> Finding {
    Finding { severity, file: file.to_owned(), line, message, snippet: None }
}

fn find(directory: &Path, prefix: &str, into: &mut Vec<String>) -> Result<(), SourceError> {
    let failed = |error: std::io::Error| SourceError::Directory {
        path: directory.display().to_string(),
        message: error.to_string(),
    };
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !name.starts_with('.') {
            find(&entry.path(), &format!("{prefix}{name}/"), into)?;
        } else if kind.is_file() && entry.path().extension().is_some_and(|ending| ending == "lua") {
            into.push(format!("{prefix}{name}"));
        }
    }
    Ok(())
}

fn check_bytes(file: &str, bytes: &[u8], known: &Known) -> Vec<Finding> {
    let limit = ScriptLimits::default().file_bytes;
    if bytes.len() > limit {
        return vec![finding(Severity::Error, file, 1, format!("{} bytes; the limit is {limit}", bytes.len()))];
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return vec![finding(Severity::Error, file, 1, "no UTF-8 text".to_owned())];
    };
    if let Err(error) = vm::compiler(false).compile(text) {
        return vec![compile_finding(load_error(file, text, &placed(file, &error.to_string())))];
    }
    let tokens = tokens(text);
    let mut findings = Names::read(&tokens).check(file, &tokens, known);
    findings.sort_by_key(|finding| finding.line);
    findings
}

/// Puts the file before the line: the compiler alone knows of no name.
fn placed(file: &str, message: &str) -> String {
    let message = message.strip_prefix("syntax error: ").unwrap_or(message);
    format!("{file}:{message}")
}

fn compile_finding(error: ScriptError) -> Finding {
    let Frame { file, line, .. } =
        error.trace.into_iter().next().unwrap_or(Frame { file: String::new(), line: 1, function: None, branch: None });
    Finding { severity: Severity::Error, file, line, message: error.message, snippet: error.snippet }
}

/// What exists in every script: globals, and the fields of tables.
struct Known {
    globals: BTreeSet<String>,
    fields: BTreeMap<String, BTreeSet<String>>,
}

impl Known {
    fn new() -> Self {
        let mut known = Self { globals: BTreeSet::new(), fields: BTreeMap::new() };
        known.globals.extend(
            vm::GLOBALS.iter().chain(vm::KEPT).chain(vm::LIBRARIES).chain(api::GLOBALS).map(|name| (*name).to_owned()),
        );
        known.add_libraries();
        let task = SHAPES.iter().filter(|shape| shape.name == "Task").flat_map(|shape| shape.fields);
        known.fields.insert("task".to_owned(), task.map(|(field, _, _)| (*field).to_owned()).collect());
        known
    }

    /// Asks a real VM what its libraries hold, so that the check cannot fall behind.
    fn add_libraries(&mut self) {
        const CODE: &str = "local function keys(t) local out = {} for key in pairs(t) do table.insert(out, key) end return out end
            return { string = keys(string), table = keys(table), math = keys(math), utf8 = keys(utf8), bit32 = keys(bit32),
                     buffer = keys(buffer), os = keys(os), deadline = keys(deadline), log = keys(log) }";
        let world = MockWorld::new(MockSetup::default());
        let outcome = world.play(&ScriptSource::from_text("keys.lua", CODE), world.inputs(""), ScriptLimits::default());
        if let ScriptEnd::Returned { value: serde_json::Value::Object(tables), .. } = outcome.end {
            for (table, keys) in tables {
                let keys = keys.as_array().map(Vec::as_slice).unwrap_or_default();
                self.fields.insert(table, keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect());
            }
        }
    }

    fn add_params(&mut self, manifest: &Manifest) {
        if let Some(names) = manifest.names() {
            self.fields.insert("params".to_owned(), names.map(str::to_owned).collect());
        }
    }
}

/// Names that a file declares, and modules it requires.
#[derive(Default)]
struct Names<'t> {
    declared: BTreeSet<&'t str>,
    locals: Vec<(&'t str, u32)>,
    modules: BTreeMap<&'t str, &'t str>,
}

fn name(token: Option<&Token>) -> Option<&str> {
    match token.map(|token| &token.kind) {
        Some(Kind::Name(name)) => Some(name),
        _ => None,
    }
}

fn is_sign(token: Option<&Token>, sign: &str) -> bool {
    matches!(token.map(|token| &token.kind), Some(Kind::Sign(other)) if *other == sign)
}

impl<'t> Names<'t> {
    fn read(tokens: &'t [Token]) -> Self {
        let mut names = Self::default();
        for (at, token) in tokens.iter().enumerate() {
            match name(Some(token)) {
                Some("local" | "const") if name(tokens.get(at + 1)) != Some("function") => {
                    names.list(tokens, at + 1, true);
                }
                Some("for") => names.list(tokens, at + 1, false),
                Some("function") => names.function(tokens, at + 1),
                Some("type" | "export") => names.declared.extend(name(tokens.get(at + 1))),
                // A global that the script assigns is its own.
                Some(own)
                    if is_sign(tokens.get(at + 1), "=") && !after_dot(tokens, at) && starts_statement(tokens, at) =>
                {
                    names.declared.insert(own);
                }
                _ => {}
            }
            names.module(tokens, at);
        }
        names
    }

    /// Reads `a, b: Type, c` up to `=` or `in`.
    fn list(&mut self, tokens: &'t [Token], mut at: usize, local: bool) {
        while let Some(own) = name(tokens.get(at)) {
            self.declared.insert(own);
            if local {
                self.locals.push((own, tokens[at].line));
            }
            at += 1;
            if is_sign(tokens.get(at), ":") {
                // Types hold no commas outside brackets; what is inside them is of no interest here.
                let mut depth = 0_u32;
                while let Some(token) = tokens.get(at) {
                    match &token.kind {
                        Kind::Sign("(" | "{" | "<") => depth += 1,
                        Kind::Sign(")" | "}" | ">") => depth = depth.saturating_sub(1),
                        Kind::Sign("," | "=") if depth == 0 => break,
                        Kind::Name(word) if depth == 0 && matches!(word.as_str(), "local" | "in") => break,
                        _ => {}
                    }
                    at += 1;
                }
            }
            if !is_sign(tokens.get(at), ",") {
                break;
            }
            at += 1;
        }
    }

    /// Reads the name and the parameters of a function.
    fn function(&mut self, tokens: &'t [Token], mut at: usize) {
        if let Some(own) = name(tokens.get(at)) {
            self.declared.insert(own);
        }
        self.declared.insert("self");
        while tokens.get(at).is_some() && !is_sign(tokens.get(at), "(") {
            at += 1;
        }
        let mut depth = 0_u32;
        for token in &tokens[at.min(tokens.len())..] {
            match &token.kind {
                Kind::Sign("(") => depth += 1,
                Kind::Sign(")") => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        break;
                    }
                }
                Kind::Name(own) => {
                    self.declared.insert(own);
                }
                _ => {}
            }
        }
    }

    /// Reads `local name = require("module")`.
    fn module(&mut self, tokens: &'t [Token], at: usize) {
        let own = name(tokens.get(at));
        let (Some(own), Some("require")) = (own, name(tokens.get(at + 2))) else { return };
        let text = tokens.get(at + if is_sign(tokens.get(at + 3), "(") { 4 } else { 3 });
        if let (true, Some(Kind::Text(module))) = (is_sign(tokens.get(at + 1), "="), text.map(|token| &token.kind)) {
            self.modules.insert(own, module);
        }
    }

    fn check(&self, file: &str, tokens: &[Token], known: &Known) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            let Some(own) = name(Some(token)) else {
                continue;
            };
            if after_dot(tokens, at) || KEYWORDS.contains(&own) {
                continue;
            }
            let field = name(tokens.get(at + 2)).filter(|_| is_sign(tokens.get(at + 1), "."));
            if let (Some(module), Some(field)) = (self.modules.get(own), field) {
                findings.extend(
                    unknown_function(module, field).map(|message| finding(Severity::Error, file, token.line, message)),
                );
            } else if !self.declared.contains(own) {
                let message = match known.fields.get(own) {
                    Some(fields) => field.and_then(|field| unknown_field(own, field, fields)),
                    None => unknown_global(tokens, at, own, known),
                };
                findings.extend(message.map(|message| finding(Severity::Error, file, token.line, message)));
            }
        }
        findings.extend(self.unused(tokens).map(|(own, line)| {
            finding(
                Severity::Warning,
                file,
                line,
                format!("`{own}` is never used; begin its name with `_` if that is meant"),
            )
        }));
        findings.extend(unknown_modules(file, tokens));
        findings
    }

    /// Returns locals whose names come nowhere else in the file.
    fn unused(&self, tokens: &[Token]) -> impl Iterator<Item = (&'t str, u32)> {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for own in tokens.iter().filter_map(|token| name(Some(token))) {
            *counts.entry(own).or_default() += 1;
        }
        self.locals.iter().filter(move |(own, _)| !own.starts_with('_') && counts.get(own) == Some(&1)).copied()
    }
}

const KEYWORDS: &[&str] = &[
    "and", "break", "const", "continue", "do", "else", "elseif", "end", "export", "false", "for", "function", "if",
    "in", "local", "nil", "not", "or", "repeat", "return", "then", "true", "type", "until", "while",
];

/// Names of types, which come where names of values do not.
const TYPES: &[&str] = &["any", "boolean", "buffer", "never", "number", "string", "thread", "unknown"];

fn after_dot(tokens: &[Token], at: usize) -> bool {
    at > 0 && [".", ":", "::", "->"].iter().any(|sign| is_sign(tokens.get(at - 1), sign))
}

/// Tells whether a name stands where a statement can begin, not inside a table.
fn starts_statement(tokens: &[Token], at: usize) -> bool {
    at == 0 || !["{", ",", ";"].iter().any(|sign| is_sign(tokens.get(at - 1), sign))
}

fn unknown_global(tokens: &[Token], at: usize, own: &str, known: &Known) -> Option<String> {
    // `{ name = value }` is a field, not a global.
    if known.globals.contains(own) || TYPES.contains(&own) || is_sign(tokens.get(at + 1), "=") {
        return None;
    }
    // Nor is `name:` in a table's type.
    if is_sign(tokens.get(at + 1), ":") && at > 0 && ["{", ","].iter().any(|sign| is_sign(tokens.get(at - 1), sign)) {
        return None;
    }
    if let Some(hint) = absent(own) {
        return Some(format!("`{own}` does not exist in scripts: {hint}"));
    }
    Some(format!("unknown global `{own}`{}", suggestion(own, known.globals.iter().map(String::as_str))))
}

fn unknown_field(table: &str, field: &str, fields: &BTreeSet<String>) -> Option<String> {
    if fields.contains(field) {
        return None;
    }
    if let Some(hint) = absent(&format!("{table}.{field}")) {
        return Some(format!("`{table}.{field}` does not exist in scripts: {hint}"));
    }
    Some(format!("`{table}` has no field `{field}`{}", suggestion(field, fields.iter().map(String::as_str))))
}

fn unknown_function(module: &str, field: &str) -> Option<String> {
    let module = module.strip_prefix("@std/")?;
    let known: Vec<&str> = api::members(module).collect();
    if known.is_empty() || known.contains(&field) {
        return None;
    }
    Some(format!("`@std/{module}` has no `{field}`{}", suggestion(field, known.into_iter())))
}

fn unknown_modules<'a>(file: &'a str, tokens: &'a [Token]) -> impl Iterator<Item = Finding> + 'a {
    tokens.iter().enumerate().filter_map(move |(at, token)| {
        let text = tokens.get(at + if is_sign(tokens.get(at + 1), "(") { 2 } else { 1 })?;
        let (Some("require"), Kind::Text(module)) = (name(Some(token)), &text.kind) else { return None };
        let module = module.strip_prefix("@std/")?;
        let known = || library::names().chain(["test"]);
        if known().any(|other| other == module) {
            return None;
        }
        let message = format!("there is no `@std/{module}`{}", suggestion(module, known()));
        Some(finding(Severity::Error, file, token.line, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn messages(text: &str) -> Vec<String> {
        check_text("runner.lua", text).into_iter().map(|found| format!("{}: {}", found.line, found.message)).collect()
    }

    #[test_case("local checks = require('@std/checks')\nif checks.run().ok then session(task.prompt) end"; "plain")]
    #[test_case("local t = { name = 1, [2] = 3, session = session }\nreturn t"; "table fields")]
    #[test_case("type Pair = { left: number, right: string }\nlocal function f(x: Pair): number return x.left end\nreturn f"; "types")]
    #[test_case("own = 1\nreturn own"; "own global")]
    #[test_case("for i, name in ipairs({}) do print(i, name) end"; "loop")]
    #[test_case("return `a {task.id} b`"; "interpolation")]
    #[test_case("local s = session('x')\nreturn s.text:upper():find('x', 1, true)"; "methods")]
    #[test_case("local workspace = require('@std/workspace')\nreturn workspace.main:read('x')"; "handle")]
    #[test_case("local _unused = 1"; "underscore")]
    fn silent(text: &str) {
        assert_eq!(messages(text), Vec::<String>::new());
    }

    #[test_case("sesion('x')", "1: unknown global `sesion`; did you mean `session`?"; "global")]
    #[test_case("\nreturn task.promt", "2: `task` has no field `promt`; did you mean `prompt`?"; "task field")]
    #[test_case("return string.fnd('a')", "1: `string` has no field `fnd`; did you mean `find`?"; "library field")]
    #[test_case("os.execute('x')", "1: `os.execute` does not exist in scripts: os has only time and clock; run commands with @std/exec"; "removed")]
    #[test_case("io.open('x')", "1: `io` does not exist in scripts: read with @std/workspace, write below `.refrain/` with workspace.write"; "removed library")]
    #[test_case("local c = require('@std/checks')\nc.rum()", "2: `@std/checks` has no `rum`; did you mean `run`?"; "module field")]
    #[test_case("local c = require('@std/cheks')\nc.run()", "1: there is no `@std/cheks`; did you mean `checks`?"; "module")]
    #[test_case("local x = 1", "1: `x` is never used; begin its name with `_` if that is meant"; "unused")]
    #[test_case("return `a {tsk.id} b`", "1: unknown global `tsk`; did you mean `task`?"; "inside a string")]
    fn told(text: &str, expected: &str) {
        assert_eq!(messages(text), [expected]);
    }

    #[test]
    fn a_text_that_does_not_compile_is_shown_with_a_caret() {
        let found = check_text("runner.lua", "local x = 1\nlocal y = = 2").remove(0);
        assert_eq!((found.line, found.severity), (2, Severity::Error));
        assert!(found.snippet.is_some_and(|snippet| snippet.contains("2 | local y = = 2")));
    }

    #[test]
    fn the_built_in_orchestrators_are_clean() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestrators");
        for entry in std::fs::read_dir(root).expect("the folder is there") {
            let folder = entry.expect("readable").path();
            assert_eq!(check_dir(&folder).expect("readable"), [], "{}", folder.display());
        }
    }

    #[test]
    fn parameters_are_those_of_the_manifest() {
        let folder = tempfile::tempdir().expect("temporary folder");
        std::fs::write(folder.path().join("orchestrator.toml"), "slug = 'x'\n[params]\nrounds = 3\n").expect("writes");
        std::fs::write(folder.path().join("runner.lua"), "return params.round").expect("writes");
        let found = check_dir(folder.path()).expect("readable");
        assert_eq!(found[0].message, "`params` has no field `round`; did you mean `rounds`?");
    }
}
