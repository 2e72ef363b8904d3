//! Reads JSON as it comes, piece by piece, in constant memory.
//!
//! A [`Scanner`] keeps nothing but where it is: the keys that lead there and the kinds of what it is in. A [`Visit`]or
//! hears of values and says whether it wants the text of one. The scanner checks the structure, so that a cut or
//! mangled document shows; it is lenient with what nobody asks for (control characters in strings, spellings of
//! numbers).

mod keys;
mod nesting;
mod text;

pub(super) use keys::Key;

use memchr::memchr2;

use nesting::Nesting;
use text::Text;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Number,
    /// `true`, `false` or `null`.
    Word,
}

/// A value that holds no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar<'a> {
    /// Its beginning, where it is very long.
    String(&'a str),
    Number(&'a str),
    True,
    False,
    Null,
}

/// Hears of the values of a document. Paths are the keys from the outside in; deeper values than a path can hold are not
/// told. Offsets count from the document's first byte.
pub(super) trait Visit {
    /// A value begins at this offset. Returns whether a scalar is to be told.
    fn begins(&mut self, path: &[Key], kind: Kind, at: u64) -> bool;

    /// A scalar that was asked for ended before this offset.
    fn scalar(&mut self, path: &[Key], value: Scalar<'_>, end: u64);

    /// An object or array ends with the byte at this offset.
    fn closes(&mut self, path: &[Key], kind: Kind, at: u64);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Value,
    FirstItemOrEnd,
    FirstKeyOrEnd,
    Key,
    Colon,
    AfterValue,
    String,
    Escape,
    Hex(u8),
    /// In a number or a word.
    Bare(Kind),
    End,
    Broken,
}

/// The place in a document.
#[derive(Debug)]
pub(super) struct Scanner {
    state: State,
    nesting: Nesting,
    /// The string at hand is a key.
    in_key: bool,
    /// The scalar at hand is to be told.
    wanted: bool,
    text: Text,
    /// Offset of the first byte of the piece at hand.
    offset: u64,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self {
            state: State::Value,
            nesting: Nesting::new(),
            in_key: false,
            wanted: false,
            text: Text::default(),
            offset: 0,
        }
    }

    /// Makes it ready for the next document; keeps its memory.
    pub(super) fn restart(&mut self) {
        self.state = State::Value;
        self.nesting = Nesting::new();
        self.offset = 0;
    }

    /// Tells whether one whole document was read and nothing after it.
    pub(super) fn is_complete(&self) -> bool {
        self.state == State::End
    }

    /// Tells whether what was read cannot become a document.
    pub(super) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Reads a piece.
    pub(super) fn feed(&mut self, bytes: &[u8], visit: &mut impl Visit) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match self.state {
                State::String => at = self.string(bytes, at, visit),
                State::Broken => break,
                State::Escape => {
                    self.escape(byte);
                    at += 1;
                }
                State::Hex(left) => {
                    self.hex(byte, left);
                    at += 1;
                }
                State::Bare(kind) => {
                    if matches!(byte, b'+' | b'-' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') {
                        self.text.push(byte);
                        at += 1;
                    } else {
                        self.end_bare(kind, at, visit);
                    }
                }
                _ => {
                    if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                        self.structure(byte, at, visit);
                    }
                    at += 1;
                }
            }
        }
        self.offset += bytes.len() as u64;
    }

    fn structure(&mut self, byte: u8, at: usize, visit: &mut impl Visit) {
        let at = self.offset + at as u64;
        match (self.state, byte) {
            (State::FirstItemOrEnd, b']') | (State::FirstKeyOrEnd, b'}') | (State::AfterValue, b']' | b'}') => {
                self.close(byte, at, visit);
            }
            (State::Value | State::FirstItemOrEnd, _) => self.value(byte, at, visit),
            (State::Key | State::FirstKeyOrEnd, b'"') => {
                self.in_key = true;
                self.text.clear();
                self.state = State::String;
            }
            (State::Colon, b':') => self.state = State::Value,
            (State::AfterValue, b',') => {
                self.state = if self.nesting.in_object() { State::Key } else { State::Value };
            }
            _ => self.state = State::Broken,
        }
    }

    fn value(&mut self, byte: u8, at: u64, visit: &mut impl Visit) {
        let kind = match byte {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b'-' | b'0'..=b'9' => Kind::Number,
            b't' | b'f' | b'n' => Kind::Word,
            _ => {
                self.state = State::Broken;
                return;
            }
        };
        self.wanted = self.nesting.path().is_some_and(|path| visit.begins(path, kind, at));
        self.text.clear();
        self.in_key = false;
        self.state = match kind {
            Kind::Object | Kind::Array => {
                let object = kind == Kind::Object;
                if !self.nesting.enter(object) {
                    State::Broken
                } else if object {
                    State::FirstKeyOrEnd
                } else {
                    State::FirstItemOrEnd
                }
            }
            Kind::String => State::String,
            Kind::Number | Kind::Word => {
                self.text.push(byte);
                State::Bare(kind)
            }
        };
    }

    fn close(&mut self, byte: u8, at: u64, visit: &mut impl Visit) {
        let object = byte == b'}';
        if self.nesting.in_object() != object || !self.nesting.leave() {
            self.state = State::Broken;
            return;
        }
        if let Some(path) = self.nesting.path() {
            visit.closes(path, if object { Kind::Object } else { Kind::Array }, at);
        }
        self.value_ended();
    }

    fn value_ended(&mut self) {
        self.state = if self.nesting.is_outside() { State::End } else { State::AfterValue };
    }

    /// Reads on in a string; returns where.
    fn string(&mut self, bytes: &[u8], at: usize, visit: &mut impl Visit) -> usize {
        let kept = self.in_key || self.wanted;
        let rest = &bytes[at..];
        let (rest, run) = if kept { (rest, memchr2(b'"', b'\\', rest)) } else { past_escapes(rest) };
        let at = bytes.len() - rest.len();
        let run = run.unwrap_or(rest.len());
        if kept {
            self.text.extend(&rest[..run]);
        }
        let Some(&stop) = rest.get(run) else { return bytes.len() };
        let after = at + run + 1;
        if stop == b'\\' {
            self.state = State::Escape;
        } else if self.in_key {
            self.nesting.set_key(Key::of(self.text.whole().unwrap_or_default()));
            self.state = State::Colon;
        } else {
            if self.wanted
                && let Some(path) = self.nesting.path()
            {
                visit.scalar(path, Scalar::String(&self.text.lossy()), self.offset + after as u64);
            }
            self.value_ended();
        }
        after
    }

    fn escape(&mut self, byte: u8) {
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                self.text.begin_unit();
                self.state = State::Hex(4);
                return;
            }
            _ => {
                self.state = State::Broken;
                return;
            }
        };
        self.text.push(plain);
        self.state = State::String;
    }

    fn hex(&mut self, byte: u8, left: u8) {
        let Some(digit) = char::from(byte).to_digit(16) else {
            self.state = State::Broken;
            return;
        };
        self.text.push_digit(digit);
        self.state = if left > 1 {
            State::Hex(left - 1)
        } else {
            self.text.end_unit();
            State::String
        };
    }

    fn end_bare(&mut self, kind: Kind, at: usize, visit: &mut impl Visit) {
        let text = self.text.whole().unwrap_or_default();
        let value = match (kind, text) {
            (Kind::Word, b"true") => Scalar::True,
            (Kind::Word, b"false") => Scalar::False,
            (Kind::Word, b"null") => Scalar::Null,
            (Kind::Number, text) => Scalar::Number(str::from_utf8(text).unwrap_or_default()),
            _ => {
                self.state = State::Broken;
                return;
            }
        };
        if self.wanted
            && let Some(path) = self.nesting.path()
        {
            visit.scalar(path, value, self.offset + at as u64);
        }
        self.value_ended();
    }
}

/// Skips what is no end of a string: long runs of text with line ends and quotes in it, mostly. Returns the rest, and where in it
/// the next quote or backslash stands.
fn past_escapes(mut bytes: &[u8]) -> (&[u8], Option<usize>) {
    loop {
        let next = memchr2(b'"', b'\\', bytes);
        match next.map(|at| &bytes[at..]) {
            Some([b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', rest @ ..]) => bytes = rest,
            _ => return (bytes, next),
        }
    }
}

#[cfg(test)]
mod tests;
