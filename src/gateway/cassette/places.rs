//! Folders of a session that have other paths in each run: its workspace, its home.

use std::borrow::Cow;
use std::path::Path;

use bytes::Bytes;
use memchr::memmem::Finder;

use super::split;

/// Folders of a session by names that are the same in each run. A cassette keeps the names in the place of the paths, so that an
/// agent that works with absolute paths finds its own folders when it is played.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places(Vec<Place>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    name: String,
    path: String,
    /// The path as a name of a file, as some programs write it.
    dashed: String,
}

impl Places {
    /// Takes names and absolute paths. Paths that JSON cannot hold as they are, and the root, are left out.
    pub fn new<'p>(folders: impl IntoIterator<Item = (&'p str, &'p Path)>) -> Self {
        let place = |(name, path): (&str, &Path)| {
            let path = path.to_str()?.trim_end_matches('/');
            let fits =
                path.starts_with('/') && !path.contains(|next: char| matches!(next, '"' | '\\') || next.is_control());
            fits.then(|| Place {
                name: name.to_owned(),
                path: path.to_owned(),
                dashed: path.replace(['/', '.', '_'], "-"),
            })
        };
        let mut all: Vec<Place> = folders.into_iter().filter_map(place).collect();
        // What lies in another goes first.
        all.sort_by_key(|place| std::cmp::Reverse(place.path.len()));
        Self(all)
    }

    /// Replaces the paths in a text of a request that is compared.
    pub(super) fn quiet(&self, text: &str) -> String {
        let mut text = Cow::Borrowed(text.as_bytes());
        for Place { name, path, dashed } in &self.0 {
            text = replaced(text, path, &format!("<{name}>"));
            text = swapped(text, dashed, &format!("<{name}-as-a-name>"), |_, after| ends_there(after));
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Puts names into an answer that is kept. Where there are any, it comes in pieces of an event each.
    pub(super) fn hidden_in(&self, pieces: Vec<Bytes>) -> Vec<Bytes> {
        let whole = pieces.concat();
        let mut body = Cow::Borrowed(whole.as_slice());
        for Place { name, path, .. } in &self.0 {
            body = replaced(body, path, &mark(name));
        }
        for Place { name, path, .. } in &self.0 {
            if let Some(joined) = split::joined(&body, path, &mark(name)) {
                body = Cow::Owned(joined);
            }
        }
        match body {
            Cow::Borrowed(_) => pieces,
            Cow::Owned(body) => events(body.into()),
        }
    }

    /// Puts this session's paths into an answer that is played.
    pub(super) fn shown_in(&self, pieces: Vec<Bytes>) -> Vec<Bytes> {
        let show = |piece: Bytes| {
            let mut shown = Cow::Borrowed(piece.as_ref());
            for Place { name, path, .. } in &self.0 {
                shown = swapped(shown, &mark(name), path, |_, _| true);
            }
            match shown {
                Cow::Borrowed(_) => piece,
                Cow::Owned(shown) => shown.into(),
            }
        };
        pieces.into_iter().map(show).collect()
    }
}

/// What stands in the place of a path on the tape: in JSON it needs no escapes.
fn mark(name: &str) -> String {
    format!("{{{{refrain:{name}}}}}")
}

/// Replaces a path wherever it stands as such.
fn replaced<'t>(text: Cow<'t, [u8]>, path: &str, by: &str) -> Cow<'t, [u8]> {
    swapped(text, path, by, stands_alone)
}

fn swapped<'t>(text: Cow<'t, [u8]>, what: &str, by: &str, fits: fn(&[u8], &[u8]) -> bool) -> Cow<'t, [u8]> {
    let (mut out, mut from) = (Vec::new(), 0);
    for at in Finder::new(what).find_iter(&text) {
        let end = at + what.len();
        if at >= from && fits(&text[..at], &text[end..]) {
            out.extend_from_slice(&text[from..at]);
            out.extend_from_slice(by.as_bytes());
            from = end;
        }
    }
    if from == 0 {
        return text;
    }
    out.extend_from_slice(&text[from..]);
    Cow::Owned(out)
}

/// Tells whether what stands between these is a path of its own: `/a/b` is in `"/a/b"` and `/a/b/c`, not in `/a/bc` or `/x/a/b`.
pub(super) fn stands_alone(before: &[u8], after: &[u8]) -> bool {
    let begins = match before {
        // A line break of a text in JSON, not a letter.
        [] | [.., b'\\', b'n' | b't' | b'r' | b'f' | b'b'] => true,
        [.., last] => {
            !(last.is_ascii_alphanumeric() || matches!(last, b'_' | b'-' | b'.' | b'/' | b'}') || *last >= 0x80)
        }
    };
    begins && ends_there(after)
}

fn ends_there(after: &[u8]) -> bool {
    match after {
        [b'.', next, ..] => !next.is_ascii_alphanumeric(),
        [next, ..] => !(next.is_ascii_alphanumeric() || matches!(next, b'_' | b'-') || *next >= 0x80),
        [] => true,
    }
}

/// Cuts a body behind each blank line.
fn events(mut body: Bytes) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    while let Some(at) = memchr::memmem::find(&body, b"\n\n") {
        pieces.push(body.split_to(at + 2));
    }
    if !body.is_empty() {
        pieces.push(body);
    }
    pieces
}

#[cfg(test)]
#[path = "places/tests.rs"]
mod tests;
