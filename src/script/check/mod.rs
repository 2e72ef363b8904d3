//! Checks of a script without running it: it compiles, every global and every field of a host table exists, and what is
//! written out in calls of the host fits the table of functions.
//!
//! The check reads tokens, not a syntax tree, and leans to silence: a name that is declared anywhere in a file counts as
//! known in all of it. What it reports is wrong.

mod calls;
mod known;
mod lexer;
mod names;
mod program;
mod returned;
mod syntax;

use std::path::Path;

use known::Known;
use lexer::tokens;
use names::Names;
use returned::Part;

use super::error::{Frame, ScriptError, load_error};
use super::limits::ScriptLimits;
use super::source::{ScriptSource, SourceError};
use super::testing::Manifest;
use super::vm;

pub use program::check_program;

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
    let mut runner = "runner.lua".to_owned();
    match Manifest::read(&source) {
        Ok(manifest) => {
            known.add_params(&manifest);
            runner = manifest.runner().map_or(runner, str::to_owned);
        }
        Err(message) => findings.push(finding(Severity::Error, "orchestrator.toml", 1, message)),
    }
    for file in files {
        match source.read(&file) {
            Ok(Some(bytes)) => {
                let part = Part::of(&file, &runner);
                findings.extend(check_bytes(&file, &bytes, &known, part));
            }
            Ok(None) => {}
            Err(error) => findings.push(finding(Severity::Error, &file, 1, error.to_string())),
        }
    }
    Ok(findings)
}

/// Checks one text, without any parameters known, and whatever part it plays.
#[must_use]
pub fn check_text(file: &str, text: &str) -> Vec<Finding> {
    check_bytes(file, text.as_bytes(), &Known::new(), Part::Other)
}

/// Tells whether a script asks for the role `review` in so many words: `role = "review"`.
#[must_use]
pub fn asks_for_review(text: &str) -> bool {
    let tokens = tokens(text);
    tokens.windows(3).any(|three| {
        syntax::name(three.first()) == Some("role")
            && syntax::is_sign(three.get(1), "=")
            && three[2].kind == lexer::Kind::Text("review".to_owned())
    })
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

fn check_bytes(file: &str, bytes: &[u8], known: &Known, part: Part) -> Vec<Finding> {
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
    findings.extend(returned::check(part, file, &tokens));
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

#[cfg(test)]
mod tests;
