//! Calls of the host's functions with arguments that are written out: held against the table of functions, with the words
//! of the error that they would raise.

use std::ops::Range;

use super::lexer::{Kind as Sort, Token};
use super::names::Names;
use super::syntax::{Literal, begins_call, fields, is_sign, literal, name, parts};
use crate::script::api::{self, Function, Kind, Param};
use crate::script::bind::suggestion;

/// Something wrong, with its line.
pub(super) type Fault = (u32, String);

/// Finds the function of the host that a name leads to; returns it and the position after its name.
pub(super) fn function_at(names: &Names<'_>, tokens: &[Token], at: usize) -> Option<(&'static Function, usize)> {
    let (table, next) = table_at(names, tokens, at)?;
    if table.is_empty() {
        return api::find(name(tokens.get(at))?).map(|function| (function, next));
    }
    let field = name(tokens.get(next + 1)).filter(|_| is_sign(tokens.get(next), "."))?;
    api::functions().find(|function| function.module == table && function.name == field).map(|found| (found, next + 2))
}

/// Finds the module or global table that a name leads to, and the position after it; `""` for a global function.
fn table_at<'n>(names: &'n Names<'_>, tokens: &'n [Token], at: usize) -> Option<(&'n str, usize)> {
    let own = name(tokens.get(at))?;
    if let Some(module) = names.module_of(own) {
        return Some((module.strip_prefix("@std/")?, at + 1));
    }
    if own == "require" {
        let bracket = is_sign(tokens.get(at + 1), "(");
        let text = tokens.get(at + if bracket { 2 } else { 1 })?;
        let Sort::Text(module) = &text.kind else { return None };
        return Some((module.strip_prefix("@std/")?, at + if bracket { 4 } else { 2 }));
    }
    if names.declares(own) || !api::GLOBALS.contains(&own) {
        return None;
    }
    let table = if api::find(own).is_some() { "" } else { own };
    Some((table, at + 1))
}

/// Finds the standard module that a name leads to: a local that holds one, or `require("@std/…")` itself.
pub(super) fn module_at<'n>(names: &'n Names<'_>, tokens: &'n [Token], at: usize) -> Option<(&'n str, usize)> {
    let own = name(tokens.get(at))?;
    table_at(names, tokens, at).filter(|_| own == "require" || names.module_of(own).is_some())
}

/// Checks what a name at `at` is used for.
pub(super) fn check(names: &Names<'_>, tokens: &[Token], at: usize) -> Vec<Fault> {
    if let Some(fault) = called_table(names, tokens, at) {
        return vec![fault];
    }
    let Some((function, next)) = function_at(names, tokens, at) else { return Vec::new() };
    let Some(token) = tokens.get(next).filter(|token| begins_call(Some(token))) else { return Vec::new() };
    let arguments = if is_sign(Some(token), "(") {
        match parts(tokens, next) {
            Some((arguments, _)) => arguments,
            None => return Vec::new(),
        }
    } else {
        match (&token.kind, parts(tokens, next)) {
            (Sort::Text(_), _) => std::iter::once(next..next + 1).collect(),
            (_, Some((_, end))) => std::iter::once(next..end + 1).collect(),
            (_, None) => return Vec::new(),
        }
    };
    call(function, tokens, tokens[next].line, &arguments)
}

/// A table or module that is called like a function.
fn called_table(names: &Names<'_>, tokens: &[Token], at: usize) -> Option<Fault> {
    let own = name(tokens.get(at))?;
    let (table, next) = table_at(names, tokens, at)?;
    let global_function = table.is_empty() || table == "print" || own == "require";
    if global_function || next != at + 1 || !begins_call(tokens.get(next)) {
        return None;
    }
    let members: Vec<&str> = api::members(table).collect();
    let usual = members.iter().find(|member| ["info", "run"].contains(member)).or(members.first());
    let line = tokens[at].line;
    Some(match usual {
        Some(usual) => (line, format!("`{own}` is a table, not a function: say `{own}.{usual}(…)`")),
        None => (line, format!("`{own}` is a table of values, not a function")),
    })
}

fn call(function: &Function, tokens: &[Token], line: u32, arguments: &[Range<usize>]) -> Vec<Fault> {
    let path = api::path(function);
    let mut faults = Vec::new();
    for (index, param) in function.params.iter().enumerate() {
        let what = format!("{path}: argument {} ({})", index + 1, param.name);
        let Some(part) = arguments.get(index) else {
            // The last argument may be a call with several results.
            let certain = arguments.last().is_none_or(|last| literal(tokens, last) != Literal::Unknown);
            if certain && !param.optional && !matches!(param.kind, Kind::Any) {
                faults.push((line, format!("{what} must be {}, got nil", param.kind.expected())));
            }
            break;
        };
        let line = tokens[part.start].line;
        let value = literal(tokens, part);
        if let Some(problem) = mismatch(param, &value) {
            faults.push((line, format!("{what} must be {}, got {problem}", param.kind.expected())));
        }
        if let (Kind::Options(known), Literal::Table(open)) = (param.kind, value) {
            faults.extend(options(&path, known, tokens, open));
        }
    }
    if arguments.len() > function.params.len() {
        let (takes, got) = (function.params.len(), arguments.len());
        faults.push((line, format!("{path}: takes {takes} argument{}, got {got}", if takes == 1 { "" } else { "s" })));
    }
    faults
}

fn options(path: &str, known: &[Param], tokens: &[Token], open: usize) -> Vec<Fault> {
    let mut faults = Vec::new();
    for field in fields(tokens, open) {
        let Some(own) = field.name else {
            if field.item {
                faults.push((field.line, format!("{path}: option names are strings, got a number")));
            }
            continue;
        };
        match known.iter().find(|param| param.name == own) {
            None => {
                let near = suggestion(own, known.iter().map(|param| param.name));
                faults.push((field.line, format!("{path}: unknown option `{own}`{near}")));
            }
            Some(param) => {
                if let Some(problem) = mismatch(param, &literal(tokens, &field.value)) {
                    let expected = param.kind.expected();
                    faults.push((field.line, format!("{path}: option `{own}` must be {expected}, got {problem}")));
                }
            }
        }
    }
    faults
}

/// Says what is written, where it is not what is expected.
fn mismatch(param: &Param, value: &Literal<'_>) -> Option<String> {
    let fits = match (param.kind, value) {
        (_, Literal::Unknown) | (Kind::Any, _) => true,
        (_, Literal::Nil) => param.optional,
        (Kind::Some, _) => true,
        (Kind::Bytes | Kind::Text, value) => matches!(value, Literal::Text(_)),
        (Kind::Seconds | Kind::Dollars, Literal::Number(Some(number))) if *number < 0.0 => {
            return Some(number.to_string());
        }
        #[expect(clippy::cast_precision_loss, reason = "the bounds in the table are small")]
        (Kind::Integer(min, max), Literal::Number(Some(number)))
            if number.fract() != 0.0 || *number < min as f64 || *number > max as f64 =>
        {
            return Some(number.to_string());
        }
        (Kind::Number | Kind::Seconds | Kind::Dollars | Kind::Integer(..), value) => {
            matches!(value, Literal::Number(_))
        }
        (Kind::Boolean, value) => matches!(value, Literal::Boolean),
        (Kind::Table | Kind::List | Kind::Options(_), value) => matches!(value, Literal::Table(_)),
        (Kind::Function, value) => matches!(value, Literal::Function),
        (Kind::Choice(words), Literal::Text(word)) => {
            // A word with escapes in it is not worth the trouble.
            if words.contains(word) || word.contains('\\') {
                return None;
            }
            return Some(format!("`{word}`{}", suggestion(word, words.iter().copied())));
        }
        (Kind::Session | Kind::Workspace | Kind::Choice(_), _) => false,
    };
    let shown = match value {
        Literal::Nil => "nil",
        Literal::Boolean => "boolean",
        Literal::Number(_) => "number",
        Literal::Text(_) => "string",
        Literal::Table(_) => "table",
        Literal::Function | Literal::Unknown => "function",
    };
    (!fits).then(|| shown.to_owned())
}
