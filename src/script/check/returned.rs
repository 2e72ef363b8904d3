//! What a file returns: a runner a table with a note, a module its value.

use super::lexer::Token;
use super::syntax::{Literal, Nesting, after_dot, fields, is_sign, literal, name};
use super::{Finding, Severity, finding};
use crate::script::api;

/// The part that a file plays in its orchestrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// The script that is run.
    Runner,
    /// A file that others require.
    Module,
    /// A test, or nobody knows.
    Other,
}

impl Part {
    pub(super) fn of(file: &str, runner: &str) -> Self {
        match file {
            _ if file == runner => Self::Runner,
            _ if file.ends_with("_test.lua") => Self::Other,
            _ => Self::Module,
        }
    }
}

/// Checks the `return`s outside of functions.
pub(super) fn check(part: Part, file: &str, tokens: &[Token]) -> Vec<Finding> {
    if part == Part::Other {
        return Vec::new();
    }
    let Some(returns) = returns(tokens) else { return Vec::new() };
    if returns.is_empty() {
        let line = tokens.last().map_or(1, |token| token.line);
        let (severity, message) = match part {
            Part::Module => (
                Severity::Error,
                "nothing is returned, and `require` refuses a file without a value; end it with `return`",
            ),
            _ => (
                Severity::Warning,
                "nothing is returned, so the results show no note; end the script with `return { note = … }`",
            ),
        };
        return vec![finding(severity, file, line, message.to_owned())];
    }
    if part == Part::Module {
        return Vec::new();
    }
    returns
        .into_iter()
        .filter_map(|at| keys(tokens, at))
        .map(|(line, message)| finding(Severity::Warning, file, line, message))
        .collect()
}

/// Returns where the file itself returns; `None` where its blocks cannot be followed.
fn returns(tokens: &[Token]) -> Option<Vec<usize>> {
    let mut nesting = Nesting::default();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        nesting.step(tokens, at)?;
        if name(Some(token)) == Some("return") && !after_dot(tokens, at) && nesting.at_top() {
            found.push(at);
        }
    }
    Some(found)
}

/// Looks for a misspelt or misused key in a table that is returned at `at`.
fn keys(tokens: &[Token], at: usize) -> Option<(u32, String)> {
    if !is_sign(tokens.get(at + 1), "{") {
        return None;
    }
    let written = fields(tokens, at + 1);
    for (known, _, _) in api::RETURNED.fields {
        if let Some(field) = written.iter().find(|field| field.name == Some(known)) {
            let value = literal(tokens, &field.value);
            if matches!(value, Literal::Number(_) | Literal::Boolean | Literal::Table(_) | Literal::Function) {
                return Some((
                    field.line,
                    format!("`{known}` in what is returned must be a string: it is shown with the results"),
                ));
            }
            continue;
        }
        // Any other key is the author's own; only one that looks like a slip is worth a word.
        let slip = written.iter().find(|field| {
            field.name.is_some_and(|own| own.starts_with(&known[..1]) && strsim::damerau_levenshtein(own, known) <= 2)
        });
        if let Some((field, own)) = slip.and_then(|field| Some((field, field.name?))) {
            return Some((
                field.line,
                format!("`{own}` in what is returned means nothing to the host; did you mean `{known}`?"),
            ));
        }
    }
    None
}
