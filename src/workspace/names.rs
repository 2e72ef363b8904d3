//! Names of files in patches and messages, quoted the way git quotes them.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Returns raw bytes as a relative path.
pub(super) fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Quotes a name where it holds control characters, quotes, backslashes or bytes beyond ASCII; the result is ASCII.
pub(super) fn quoted(name: &[u8]) -> String {
    prefixed("", name)
}

/// The same with a prefix (`a/`, `b/`) inside the quotes.
pub(super) fn prefixed(prefix: &str, name: &[u8]) -> String {
    let is_plain = |b: &u8| (0x20..0x7f).contains(b) && *b != b'"' && *b != b'\\';
    if name.iter().all(is_plain) {
        return format!("{prefix}{}", String::from_utf8_lossy(name));
    }
    let mut out = format!("\"{prefix}");
    for b in name {
        match b {
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            0x07 => out.push_str("\\a"),
            0x08 => out.push_str("\\b"),
            0x0b => out.push_str("\\v"),
            0x0c => out.push_str("\\f"),
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x20..0x7f => out.push(char::from(*b)),
            _ => {
                let _ = write!(out, "\\{b:03o}");
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(b"src/a b.rs", "a/src/a b.rs"; "plain")]
    #[test_case(b"a\nb", "\"a/a\\nb\""; "newline")]
    #[test_case(b"\"q\".txt", "\"a/\\\"q\\\".txt\""; "quotes")]
    #[test_case(b"\xff\xfe", "\"a/\\377\\376\""; "bytes")]
    #[test_case(b"-rf", "a/-rf"; "dash")]
    fn quotes_as_git_does(name: &[u8], expected: &str) {
        assert_eq!(prefixed("a/", name), expected);
    }
}
