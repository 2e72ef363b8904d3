//! Redaction: secrets never reach a file, a database, a log or a screen.
//!
//! A [`Redactor`] knows the exact secret values of a run in every form they are likely to be printed in (raw, JSON,
//! percent, hex, base64), and the shapes of keys that nobody declared (`sk-…`, `ghp_…`, JWT, private key blocks).
//! Exact values are replaced by `[redacted:NAME]`, shapes by `[redacted]`. [`StreamRedactor`] does the same to output
//! that comes in pieces; [`printable`] makes a text safe for a terminal.
//!
//! Nothing here does I/O. Text that went through is a [`Redacted`]; there is no other way to make one.

mod forms;
mod matcher;
mod printable;
mod shapes;
mod stream;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use printable::{last_lines, printable};
pub use stream::StreamRedactor;

use matcher::Matcher;

/// The shortest value that is searched for, in bytes. Shorter ones would blank ordinary words.
pub const MIN_SECRET_BYTES: usize = 6;

/// Text without secrets. Made by a [`Redactor`] or from a literal of this program; reading it back trusts who wrote it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Redacted(String);

impl Redacted {
    /// Takes a text of this program's own, which holds no secret by construction.
    #[must_use]
    pub fn literal(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as an owned string.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Redacted {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<Redacted> for String {
    fn from(text: Redacted) -> Self {
        text.0
    }
}

/// Finds and replaces secrets. Cheap to clone; shared by every sink of a run, and so is what it learns.
#[derive(Clone)]
pub struct Redactor {
    known: Arc<RwLock<Known>>,
    warnings: Arc<[String]>,
}

/// The secrets by name and value, and what finds them.
struct Known {
    secrets: Vec<(String, String)>,
    matcher: Arc<Matcher>,
}

impl Redactor {
    /// Builds a redactor from secrets, each a name (shown in the place of the value) and a value.
    ///
    /// White space around a value is not part of it. A value shorter than [`MIN_SECRET_BYTES`] is not searched for and
    /// gives a line in [`Redactor::warnings`].
    #[must_use]
    pub fn new<N, V>(secrets: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let mut warnings = Vec::new();
        let mut kept = Vec::new();
        for (name, value) in secrets {
            let name = shown_name(&name.into());
            let value = value.into();
            let value = value.trim();
            if value.len() >= MIN_SECRET_BYTES {
                kept.push((name, value.to_owned()));
            } else if !value.is_empty() {
                warnings.push(format!(
                    "the value of `{name}` is shorter than {MIN_SECRET_BYTES} bytes and cannot be redacted from output"
                ));
            }
        }
        let known = Known { matcher: Arc::new(Matcher::new(&kept)), secrets: kept };
        Self { known: Arc::new(RwLock::new(known)), warnings: warnings.into() }
    }

    /// Adds a secret that came to be while the run goes on, such as a login that a program has renewed. It holds for all
    /// clones, and for streams that begin from now on. A value that is too short to be searched for is left alone.
    pub fn learn(&self, name: &str, value: &str) {
        let value = value.trim();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if value.len() >= MIN_SECRET_BYTES && known.secrets.iter().all(|(_, old)| old != value) {
            known.secrets.push((shown_name(name), value.to_owned()));
            known.matcher = Arc::new(Matcher::new(&known.secrets));
        }
    }

    fn matcher(&self) -> Arc<Matcher> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner).matcher)
    }

    /// Returns one line for each secret that is too short to be searched for. The lines name it and do not show it.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Replaces every secret in a text.
    #[must_use]
    pub fn redact(&self, text: &str) -> Redacted {
        Redacted(self.replaced(text).into_owned())
    }

    /// Replaces every secret in bytes that need not be UTF-8, such as a diff.
    #[must_use]
    pub fn redact_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let matcher = self.matcher();
        let spans = matcher.spans(bytes);
        let mut out = Vec::with_capacity(bytes.len());
        matcher.write_replaced(bytes, 0..bytes.len(), &spans, &mut out);
        out
    }

    /// Replaces every secret in the strings and keys of a JSON value, so that the value stays valid JSON.
    ///
    /// A number that holds a secret becomes a string.
    pub fn redact_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(clean) = self.replaced(text) {
                    *text = clean;
                }
            }
            Value::Number(number) => {
                if let Cow::Owned(clean) = self.replaced(&number.to_string()) {
                    *value = Value::String(clean);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_json(item)),
            Value::Object(fields) => {
                if fields.keys().any(|key| matches!(self.replaced(key), Cow::Owned(_))) {
                    let old = std::mem::take(fields);
                    fields.extend(old.into_iter().map(|(key, item)| (self.replaced(&key).into_owned(), item)));
                }
                fields.values_mut().for_each(|item| self.redact_json(item));
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Starts redacting output that comes in pieces.
    #[must_use]
    pub fn stream(&self) -> StreamRedactor {
        StreamRedactor::new(self)
    }

    /// Borrows the text where there is nothing to replace.
    fn replaced<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let matcher = self.matcher();
        let spans = matcher.spans(text.as_bytes());
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len());
        matcher.write_replaced(text.as_bytes(), 0..text.len(), &spans, &mut out);
        // Spans begin and end at character boundaries: forms are whole strings, shapes are ASCII.
        Cow::Owned(String::from_utf8_lossy(&out).into_owned())
    }
}

impl Default for Redactor {
    /// Knows no values, only shapes.
    fn default() -> Self {
        Self::new(std::iter::empty::<(String, String)>())
    }
}

impl fmt::Debug for Redactor {
    /// Shows how many secrets are known, never their values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.matcher().secret_count()).finish_non_exhaustive()
    }
}

/// Keeps of a name what can stand in a marker without breaking JSON, a shell or a terminal.
fn shown_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.') { c } else { '_' };
    name.chars().take(64).map(plain).collect()
}
