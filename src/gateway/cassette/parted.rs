//! A request that parts from the tape, and how it does.

use std::fmt::Write as _;

use imara_diff::{Algorithm, Diff, InternedInput};
use serde_json::Value;

use crate::domain::Attribution;

use super::tape::Line;

/// The most lines of a diff that are shown, and the longest line.
const MOST_LINES: usize = 24;
const LONGEST_LINE: usize = 160;

/// What is shown of a long line before its difference.
const CONTEXT: usize = 40;

/// The tape has no answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Parted {
    /// What the tape expected and what came, with a diff of the request where it expected one.
    pub message: String,
}

impl Parted {
    pub(super) fn recording() -> Self {
        Self { message: "the cassette records and has no answers".to_owned() }
    }

    pub(super) fn no_such_session(whose: &Attribution) -> Self {
        let Attribution { cell, attempt, session, trace, .. } = whose;
        let cell = cell.as_ref().map_or("no cell".to_owned(), |cell| format!("cell {cell}"));
        let message = format!(
            "the cassette has nothing of {cell}, attempt {attempt}, session {session} ({trace}); record it, or replay the run that was recorded"
        );
        Self { message }
    }

    pub(super) fn no_more(api: &str, total: usize) -> Self {
        let message = format!("the cassette has no further {api} request in this session, after {total} exchanges");
        Self { message }
    }

    pub(super) fn other_request(expected: &Line, asked: &Value, total: usize) -> Self {
        let number = expected.number;
        let mut message = format!(
            "the request parts from the cassette, which expected exchange {number} of {total} of this session; record anew if this is meant\n--- cassette\n+++ request\n"
        );
        message.push_str(&diff(&expected.request, asked));
        Self { message }
    }
}

/// The lines that differ, with one equal line around them, up to a limit.
fn diff(before: &Value, after: &Value) -> String {
    let (before, after) = (told(before), told(after));
    let input = InternedInput::new(before.as_str(), after.as_str());
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    let mut out = Vec::new();
    for hunk in diff.hunks() {
        let text = |token: &imara_diff::Token| input.interner[*token].trim_end_matches('\n');
        let range = |range: &std::ops::Range<u32>| range.start as usize..range.end as usize;
        let (gone, new) = (range(&hunk.before), range(&hunk.after));
        out.push(format!("@@ -{},{} +{},{} @@", gone.start + 1, gone.len(), new.start + 1, new.len()));
        if let Some(at) = gone.start.checked_sub(1) {
            out.push(format!(" {}", text(&input.before[at])));
        }
        let (gone, new) = (&input.before[gone], &input.after[new]);
        // Lines that stand for each other are shown from where they differ.
        let other = |tokens: &[imara_diff::Token], at: usize| tokens.get(at).map(text);
        let told = gone.iter().enumerate().map(|(at, token)| format!("-{}", shown(text(token), other(new, at))));
        out.extend(told);
        let told = new.iter().enumerate().map(|(at, token)| format!("+{}", shown(text(token), other(gone, at))));
        out.extend(told);
        if out.len() > MOST_LINES {
            break;
        }
    }
    let more = out.len().saturating_sub(MOST_LINES);
    out.truncate(MOST_LINES);
    let mut told = String::new();
    for line in &out {
        match line.char_indices().nth(LONGEST_LINE) {
            Some((end, _)) => _ = writeln!(told, "{}…", &line[..end]),
            None => _ = writeln!(told, "{line}"),
        }
    }
    if more > 0 {
        told.push_str("… and more\n");
    }
    told
}

/// A line, or of a long one its place and what lies around the first difference to the other.
fn shown(line: &str, other: Option<&str>) -> String {
    let apart =
        other.map_or(0, |other| line.chars().zip(other.chars()).take_while(|(one, other)| one == other).count());
    if line.chars().count() <= LONGEST_LINE || apart <= LONGEST_LINE / 2 {
        return line.to_owned();
    }
    let place = line.split_once(": ").map_or("", |(place, _)| place);
    let rest: String = line.chars().skip(apart - CONTEXT).collect();
    format!("{place}: …{rest}")
}

/// A value as lines, each with its whole path, so that a line of a diff tells where it is. Texts are cut at their own lines.
fn told(value: &Value) -> String {
    let mut out = String::new();
    tell(value, &mut String::new(), &mut out);
    out
}

fn tell(value: &Value, path: &mut String, out: &mut String) {
    let length = path.len();
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                if length > 0 {
                    path.push('.');
                }
                path.push_str(key);
                tell(value, path, out);
                path.truncate(length);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                _ = write!(path, "[{index}]");
                tell(item, path, out);
                path.truncate(length);
            }
        }
        Value::String(text) if !text.is_empty() => {
            for line in text.lines() {
                _ = writeln!(out, "{path}: {line}");
            }
        }
        other => _ = writeln!(out, "{path}: {other}"),
    }
}
