//! Names, and how an arbitrary text becomes one that files, containers and branches accept.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of a run: `[A-Za-z0-9._-]+`, not starting with a dot or a dash, at most 128 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunName(String);

/// Why a text is no run name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("a name must not be empty")]
    Empty,
    /// Longer than 128 bytes.
    #[error("a name has at most 128 characters, this one has {0}")]
    TooLong(usize),
    /// A character outside `[A-Za-z0-9._-]`.
    #[error("`{0}` cannot stand in a name (letters, digits, `.`, `_` and `-` can)")]
    Character(char),
    /// A leading `.` or `-` would hide the folder or read as an option.
    #[error("a name starts with a letter, a digit or `_`")]
    Start,
}

impl RunName {
    /// Checks a name.
    ///
    /// # Errors
    ///
    /// A [`NameError`] that says which rule the text breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        check(&text)?;
        Ok(Self(text))
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks a text against the rule of [`RunName`], for other names that obey the same rule (slugs, labels).
///
/// # Errors
///
/// A [`NameError`] that says which rule the text breaks.
pub fn check(text: &str) -> Result<(), NameError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match text.chars().next() {
        None => return Err(NameError::Empty),
        Some('.' | '-') => return Err(NameError::Start),
        Some(_) => {}
    }
    if let Some(c) = text.chars().find(|&c| !allowed(c)) {
        return Err(NameError::Character(c));
    }
    if text.len() > 128 {
        return Err(NameError::TooLong(text.len()));
    }
    Ok(())
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for RunName {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl From<RunName> for String {
    fn from(name: RunName) -> Self {
        name.0
    }
}

/// Makes a name that any file system and container engine accepts and that no other text maps to.
///
/// The readable part keeps letters, digits, `_` and `-`, lower-cased and cut to `max` bytes; the suffix is a hash of
/// the whole text, so `a/b` and `a_b`, or two long texts with one beginning, never meet.
#[must_use]
pub fn external(text: &str, max: usize) -> String {
    let mut readable = String::new();
    for c in text.chars().take(max) {
        let c = c.to_ascii_lowercase();
        readable.push(if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' });
    }
    let hash = blake3::hash(text.as_bytes());
    format!("{}-{}", readable.trim_matches('-'), &hash.to_hex()[..12])
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("nightly-2026.11_a", Ok(()); "plain")]
    #[test_case("", Err(NameError::Empty); "empty")]
    #[test_case("a/b", Err(NameError::Character('/')); "slash")]
    #[test_case("näch", Err(NameError::Character('ä')); "letter")]
    #[test_case("..", Err(NameError::Start); "parent folder")]
    #[test_case("-rf", Err(NameError::Start); "option")]
    fn checks(text: &str, expected: Result<(), NameError>) {
        assert_eq!(check(text), expected);
    }

    #[test]
    fn external_names_are_safe_and_never_meet() {
        for text in ["org/model:tag@x", "a\nb", "../../etc", "ÄÖÜ", "", "-rf"] {
            let name = external(text, 40);
            assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{name}");
        }
        assert_ne!(external("a/b", 40), external("a_b", 40));
        assert_ne!(external("a/b", 40), external("a-b", 40));
        assert_ne!(external("A", 40), external("a", 40));
    }
}
