//! The shapes of keys that nobody declared.
//!
//! Each shape has a trigger, a short literal that the matcher looks for; only where it stands is anything else examined.
//! Words that merely look like settings (`token_count=42`, `secretary=available`) have no trigger.

/// What may follow a trigger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Letters and digits.
    Alnum,
    /// Letters, digits, `_`.
    Word,
    /// Letters, digits, `_` and `-`.
    Dashed,
    /// Capital letters and digits.
    Upper,
    /// What RFC 6750 allows in a bearer token.
    Bearer,
    /// Three dotted parts of base64url.
    Jwt,
    /// The inside of a key block: base64, white space, header lines, escapes.
    Pem,
}

impl Class {
    pub(super) fn holds(self, b: u8) -> bool {
        match self {
            Self::Alnum => b.is_ascii_alphanumeric(),
            Self::Word => b.is_ascii_alphanumeric() || b == b'_',
            Self::Dashed => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'),
            Self::Upper => b.is_ascii_uppercase() || b.is_ascii_digit(),
            Self::Bearer => b.is_ascii_alphanumeric() || b"-._~+/=".contains(&b),
            Self::Jwt => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'),
            Self::Pem => b.is_ascii_alphanumeric() || b.is_ascii_whitespace() || b"+/=-\\:,".contains(&b),
        }
    }

    /// Returns where the run of this class that begins at `from` ends.
    pub(super) fn run_end(self, hay: &[u8], from: usize) -> usize {
        hay[from..].iter().position(|&b| !self.holds(b)).map_or(hay.len(), |n| from + n)
    }
}

/// One shape.
#[derive(Debug)]
pub(super) struct Shape {
    /// The literal that starts it.
    pub(super) trigger: &'static str,
    class: Class,
    /// The shortest run after the trigger that counts.
    min: usize,
    /// Whether the run must hold a digit or a capital, to tell a key from hyphenated words.
    mixed: bool,
    /// Whether the trigger must not continue a word.
    boundary: bool,
}

const fn shape(trigger: &'static str, class: Class, min: usize) -> Shape {
    Shape { trigger, class, min, mixed: false, boundary: true }
}

/// Every shape. The longest trigger is [`PEM_BEGIN`].
pub(super) const SHAPES: &[Shape] = &[
    shape("sk-ant-", Class::Dashed, 12),
    Shape { mixed: true, ..shape("sk-", Class::Dashed, 16) },
    shape("sk_live_", Class::Word, 16),
    shape("rk_live_", Class::Word, 16),
    shape("ghp_", Class::Alnum, 20),
    shape("gho_", Class::Alnum, 20),
    shape("ghu_", Class::Alnum, 20),
    shape("ghs_", Class::Alnum, 20),
    shape("ghr_", Class::Alnum, 20),
    shape("github_pat_", Class::Word, 20),
    shape("glpat-", Class::Dashed, 16),
    Shape { mixed: true, ..shape("hf_", Class::Alnum, 30) },
    Shape { mixed: true, ..shape("npm_", Class::Alnum, 36) },
    shape("AKIA", Class::Upper, 16),
    shape("ASIA", Class::Upper, 16),
    shape("AIza", Class::Dashed, 30),
    shape("ya29.", Class::Dashed, 20),
    shape("xoxb-", Class::Dashed, 10),
    shape("xoxp-", Class::Dashed, 10),
    shape("xoxa-", Class::Dashed, 10),
    shape("xoxr-", Class::Dashed, 10),
    shape("xoxs-", Class::Dashed, 10),
    shape("Bearer ", Class::Bearer, 6),
    shape("bearer ", Class::Bearer, 6),
    shape("BEARER ", Class::Bearer, 6),
    shape("eyJ", Class::Jwt, 10),
    Shape { boundary: false, ..shape(PEM_BEGIN, Class::Pem, 0) },
];

/// How a private key block begins.
const PEM_BEGIN: &str = "-----BEGIN ";
const PEM_END: &[u8] = b"-----END ";
/// A block that has not ended after so many bytes is taken for a cut one.
const PEM_BYTES: usize = 64 * 1024;
/// The longest label in a block's first line (`ENCRYPTED PRIVATE KEY` and the like).
const PEM_LABEL: usize = 64;
/// A bearer token of at least this length counts whatever it is made of.
const LONG_BEARER: usize = 16;

/// What stands at a trigger.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Nothing secret; no other start of this shape before `until` is one either.
    Nothing { until: usize },
    /// A secret. `class` is what may still follow where `end` is the end of the bytes at hand.
    Secret { start: usize, end: usize, class: Class },
    /// More bytes are needed to tell.
    Undecided,
}

impl Shape {
    /// Examines the bytes at a trigger that begins at `at`. `complete` says that no more bytes will come.
    pub(super) fn examine(&self, hay: &[u8], at: usize, complete: bool) -> Found {
        let after = at + self.trigger.len();
        if self.boundary && !starts_word(hay, at) {
            return Found::Nothing { until: after };
        }
        match self.class {
            Class::Pem => pem(hay, at, complete),
            Class::Jwt => self.jwt(hay, at, complete),
            Class::Bearer => self.bearer(hay, after, complete),
            Class::Alnum | Class::Word | Class::Dashed | Class::Upper => self.token(hay, at, complete),
        }
    }

    fn token(&self, hay: &[u8], at: usize, complete: bool) -> Found {
        let body = at + self.trigger.len();
        let end = self.class.run_end(hay, body);
        if end == hay.len() && !complete {
            return Found::Undecided;
        }
        let run = &hay[body..end];
        let is_mixed = || run.iter().any(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        if run.len() < self.min || (self.mixed && !is_mixed()) {
            return Found::Nothing { until: end };
        }
        Found::Secret { start: at, end, class: self.class }
    }

    fn bearer(&self, hay: &[u8], after: usize, complete: bool) -> Found {
        let start = hay[after..].iter().position(|&b| b != b' ').map_or(hay.len(), |n| after + n);
        let end = self.class.run_end(hay, start);
        if end == hay.len() && !complete {
            return Found::Undecided;
        }
        let run = &hay[start..end];
        // "Bearer Authentication" and "bearer tokens" are words; a key has digits or inner capitals, or is long.
        let is_mixed = || run.iter().skip(1).any(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
        if run.len() < self.min || !(run.len() >= LONG_BEARER || is_mixed()) {
            return Found::Nothing { until: end };
        }
        Found::Secret { start, end, class: self.class }
    }

    fn jwt(&self, hay: &[u8], at: usize, complete: bool) -> Found {
        let header = Class::Dashed.run_end(hay, at);
        if header == hay.len() && !complete {
            return Found::Undecided;
        }
        if header - at < self.min || hay.get(header) != Some(&b'.') {
            return Found::Nothing { until: header };
        }
        let payload = Class::Dashed.run_end(hay, header + 1);
        let mut end = Class::Jwt.run_end(hay, payload);
        if end == hay.len() && !complete {
            return Found::Undecided;
        }
        if payload - header - 1 < self.min {
            return Found::Nothing { until: header };
        }
        while hay[end - 1] == b'.' {
            end -= 1;
        }
        Found::Secret { start: at, end, class: Class::Jwt }
    }
}

/// Examines a `-----BEGIN …` line: a private key's block is secret up to its last line.
fn pem(hay: &[u8], at: usize, complete: bool) -> Found {
    let label = at + PEM_BEGIN.len();
    let nothing = Found::Nothing { until: label };
    let label_end = match pem_label(hay, label) {
        Label::Ends(end) => end,
        Label::Cut if !complete => return Found::Undecided,
        Label::Cut | Label::Wrong => return nothing,
    };
    if !contains(&hay[label..label_end], b"PRIVATE KEY") {
        return nothing;
    }
    let body = label_end + 5;
    let window = &hay[body..hay.len().min(at + PEM_BYTES).max(body)];
    if let Some(n) = find(window, PEM_END) {
        match pem_label(hay, body + n + PEM_END.len()) {
            Label::Ends(end) => return Found::Secret { start: at, end: end + 5, class: Class::Pem },
            Label::Cut if !complete => return Found::Undecided,
            Label::Cut | Label::Wrong => {}
        }
    } else if hay.len() < at + PEM_BYTES && !complete {
        return Found::Undecided;
    }
    let end = Class::Pem.run_end(hay, body);
    if end == hay.len() && !complete {
        return Found::Undecided;
    }
    Found::Secret { start: at, end, class: Class::Pem }
}

enum Label {
    /// Five dashes stand here.
    Ends(usize),
    /// The bytes end before it is clear.
    Cut,
    /// No label.
    Wrong,
}

fn pem_label(hay: &[u8], from: usize) -> Label {
    let limit = hay.len().min(from + PEM_LABEL);
    let is_label = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b' ';
    let Some(n) = hay[from..limit].iter().position(|&b| !is_label(b)) else {
        return if limit == hay.len() { Label::Cut } else { Label::Wrong };
    };
    let rest = &hay[from + n..];
    if rest.starts_with(b"-----") {
        Label::Ends(from + n)
    } else if b"-----".starts_with(rest) {
        Label::Cut
    } else {
        Label::Wrong
    }
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

fn contains(hay: &[u8], needle: &[u8]) -> bool {
    find(hay, needle).is_some()
}

/// Tells whether a word can start at `at`: nothing, punctuation, or the end of an escape stands before it.
fn starts_word(hay: &[u8], at: usize) -> bool {
    let before = &hay[..at];
    let Some(&last) = before.last() else { return true };
    if !(last.is_ascii_alphanumeric() || last == b'_') {
        return true;
    }
    match *before {
        // The `n` of an escaped line break in JSON that is read as text.
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f'] => true,
        [.., b'%', a, b] => a.is_ascii_hexdigit() && b.is_ascii_hexdigit(),
        [.., b'm'] => {
            let params = before[..at - 1].iter().rev().take_while(|&&b| b.is_ascii_digit() || b == b';').count();
            before[..at - 1 - params].ends_with(b"\x1b[")
        }
        _ => false,
    }
}
