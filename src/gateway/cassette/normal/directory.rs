//! The directory in which a program works, as its prompt tells it.

use serde_json::Value;

/// Before these words and a path, a prompt names the directory.
const NAMES: &[&str] = &[
    "working directory",
    "working in the directory",
    "workspace directory",
    "workspace directories",
    "current directory",
    "cwd",
];

/// A folder's name of this length is hidden wherever a path has it: programs name folders of their own after it.
const LONG_NAME: usize = 6;

/// The directory of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    path: String,
    /// The path as a name of a folder or file, as some programs write it.
    dashed: String,
    /// The last name of the path, with what separates it.
    name: Option<String>,
}

impl Place {
    /// Replaces the directory wherever it stands as such.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        let text = replaced(text, &self.path, "<directory>");
        let text = replaced(&text, &self.dashed, "<directory-as-a-name>");
        match &self.name {
            Some(name) => replaced(&text, name, "/<directory-name>"),
            None => text,
        }
    }
}

fn replaced(text: &str, what: &str, by: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(what) {
        let (before, found) = rest.split_at(at);
        let after = &found[what.len()..];
        out.push_str(before);
        // `/a/b` is not in `/a/bc`.
        let ends = !after.starts_with(|next: char| next.is_alphanumeric());
        out.push_str(if ends { by } else { what });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Finds the first directory that a text of the request names.
pub(super) fn named_in(value: &Value) -> Option<Place> {
    match value {
        Value::String(text) => named(text),
        Value::Array(items) => items.iter().find_map(named_in),
        Value::Object(fields) => fields.values().find_map(named_in),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn named(text: &str) -> Option<Place> {
    let lower = text.to_ascii_lowercase();
    let ends = NAMES.iter().flat_map(|name| lower.match_indices(name).map(|(at, name)| at + name.len()));
    let mut ends: Vec<usize> = ends.collect();
    ends.sort_unstable();
    ends.into_iter().find_map(|end| path_after(&text[end..]))
}

/// The path that comes next, after white space, marks and `is`.
fn path_after(text: &str) -> Option<Place> {
    let rest = text.trim_start_matches(|mark: char| mark.is_whitespace() || "`'\"*:=>-".contains(mark));
    let rest = rest
        .strip_prefix("is")
        .map_or(rest, |rest| rest.trim_start_matches(|mark: char| mark.is_whitespace() || "`'\"*:".contains(mark)));
    let ends = |next: char| next.is_whitespace() || "<>\"'`,)\\".contains(next);
    let path = rest.split(ends).next()?.trim_end_matches(['.', '/']);
    (path.starts_with('/') && path.len() > 1).then(|| {
        let name = path.rsplit('/').next().filter(|name| name.len() >= LONG_NAME).map(|name| format!("/{name}"));
        Place { path: path.to_owned(), dashed: path.replace(['/', '.', '_'], "-"), name }
    })
}
