//! Just enough of Luau's syntax over tokens: where brackets and blocks end, how arguments and fields are split.
//!
//! Whatever does not look as expected is `None`: the checks then say nothing.

use std::ops::Range;

use super::lexer::{Kind, Token};

pub(super) const KEYWORDS: &[&str] = &[
    "and", "break", "const", "continue", "do", "else", "elseif", "end", "export", "false", "for", "function", "if",
    "in", "local", "nil", "not", "or", "repeat", "return", "then", "true", "type", "until", "while",
];

pub(super) fn name(token: Option<&Token>) -> Option<&str> {
    match token.map(|token| &token.kind) {
        Some(Kind::Name(name)) => Some(name),
        _ => None,
    }
}

pub(super) fn is_sign(token: Option<&Token>, sign: &str) -> bool {
    matches!(token.map(|token| &token.kind), Some(Kind::Sign(other)) if *other == sign)
}

fn is_one_of(token: Option<&Token>, signs: &[&str]) -> bool {
    signs.iter().any(|sign| is_sign(token, sign))
}

pub(super) fn after_dot(tokens: &[Token], at: usize) -> bool {
    at > 0 && is_one_of(tokens.get(at - 1), &[".", ":", "::", "->"])
}

/// Tells whether a name stands where a statement can begin, not inside a table.
pub(super) fn starts_statement(tokens: &[Token], at: usize) -> bool {
    at == 0 || !is_one_of(tokens.get(at - 1), &["{", ",", ";"])
}

/// Tells whether a call begins here: after a name, `(`, a string or a table are its arguments.
pub(super) fn begins_call(token: Option<&Token>) -> bool {
    is_one_of(token, &["(", "{"]) || matches!(token.map(|token| &token.kind), Some(Kind::Text(_)))
}

/// Something that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Bracket,
    Function,
    Block,
    /// `if … then … else …` as a value: no `end` closes it.
    IfValue {
        has_else: bool,
    },
}

/// What is open while tokens are read one after the other.
#[derive(Debug, Default)]
pub(super) struct Nesting(Vec<Open>);

impl Nesting {
    /// Takes the next token; `None` where it does not fit.
    pub(super) fn step(&mut self, tokens: &[Token], at: usize) -> Option<()> {
        match &tokens.get(at)?.kind {
            Kind::Sign("(" | "[" | "{") => self.0.push(Open::Bracket),
            Kind::Sign(")" | "]" | "}") => self.close(&[Open::Bracket])?,
            Kind::Sign("," | ";") => self.end_values(),
            Kind::Name(word) if !after_dot(tokens, at) => self.word(word, tokens, at)?,
            _ => {}
        }
        Some(())
    }

    /// Tells whether no function is open.
    pub(super) fn at_top(&self) -> bool {
        !self.0.contains(&Open::Function)
    }

    /// Tells whether nothing is open.
    fn is_empty(&self) -> bool {
        self.0.iter().all(|open| matches!(open, Open::IfValue { .. }))
    }

    fn word(&mut self, word: &str, tokens: &[Token], at: usize) -> Option<()> {
        match word {
            "function" => self.0.push(Open::Function),
            "if" if self.is_value(tokens, at) => self.0.push(Open::IfValue { has_else: false }),
            "if" | "do" | "repeat" => self.0.push(Open::Block),
            "else" | "elseif" => {
                while self.0.last() == Some(&Open::IfValue { has_else: true }) {
                    self.0.pop();
                }
                if let (Some(Open::IfValue { has_else }), "else") = (self.0.last_mut(), word) {
                    *has_else = true;
                }
            }
            "until" => self.close(&[Open::Block])?,
            "end" => self.close(&[Open::Block, Open::Function])?,
            "local" | "return" | "for" | "while" | "break" => self.end_values(),
            _ => {}
        }
        Some(())
    }

    /// Tells whether an `if` is a value, by what stands before it.
    fn is_value(&self, tokens: &[Token], at: usize) -> bool {
        let Some(before) = at.checked_sub(1).and_then(|before| tokens.get(before)) else { return false };
        match &before.kind {
            Kind::Sign(sign) => ![")", "]", "}", ";", "..."].contains(sign),
            Kind::Name(word) => match word.as_str() {
                "and" | "or" | "not" | "return" | "in" | "until" | "if" | "elseif" | "while" => true,
                "then" | "else" => matches!(self.0.last(), Some(Open::IfValue { .. })),
                _ => false,
            },
            Kind::Text(_) | Kind::Number(_) | Kind::Other => false,
        }
    }

    fn end_values(&mut self) {
        while matches!(self.0.last(), Some(Open::IfValue { .. })) {
            self.0.pop();
        }
    }

    fn close(&mut self, expected: &[Open]) -> Option<()> {
        self.end_values();
        self.0.pop().filter(|open| expected.contains(open)).map(drop)
    }
}

/// Splits what is inside brackets that open at `open` by commas; returns the parts and where the bracket closes.
pub(super) fn parts(tokens: &[Token], open: usize) -> Option<(Vec<Range<usize>>, usize)> {
    let mut nesting = Nesting::default();
    let mut parts = Vec::new();
    let mut start = open + 1;
    for (at, token) in tokens.iter().enumerate().skip(start) {
        if nesting.is_empty() {
            match token.kind {
                Kind::Sign(")" | "}" | "]") => {
                    if at > start {
                        parts.push(start..at);
                    }
                    return Some((parts, at));
                }
                Kind::Sign("," | ";") => {
                    parts.push(start..at);
                    start = at + 1;
                }
                _ => {}
            }
        }
        nesting.step(tokens, at)?;
    }
    None
}

/// A value that can be read off the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal<'t> {
    Nil,
    Boolean,
    Number(Option<f64>),
    Text(&'t str),
    /// Its fields are between the brackets that open here.
    Table(usize),
    Function,
    /// Anything that is computed.
    Unknown,
}

/// Reads the value of an argument or a field.
pub(super) fn literal<'t>(tokens: &'t [Token], part: &Range<usize>) -> Literal<'t> {
    match tokens.get(part.clone()).unwrap_or_default() {
        [one] => match &one.kind {
            Kind::Name(word) if word == "nil" => Literal::Nil,
            Kind::Name(word) if word == "true" || word == "false" => Literal::Boolean,
            Kind::Number(value) => Literal::Number(*value),
            Kind::Text(text) => Literal::Text(text),
            _ => Literal::Unknown,
        },
        [minus, Token { kind: Kind::Number(value), .. }] if is_sign(Some(minus), "-") => {
            Literal::Number(value.map(|value| -value))
        }
        [first, ..] if is_sign(Some(first), "{") => match parts(tokens, part.start) {
            Some((_, end)) if end + 1 == part.end => Literal::Table(part.start),
            _ => Literal::Unknown,
        },
        [first, ..] if name(Some(first)) == Some("function") => Literal::Function,
        _ => Literal::Unknown,
    }
}

/// A field of a table that is written out.
#[derive(Debug)]
pub(super) struct Field<'t> {
    /// Its name; `None` for an item of a list, or a name that is computed.
    pub(super) name: Option<&'t str>,
    /// Whether it is an item of a list.
    pub(super) item: bool,
    pub(super) line: u32,
    pub(super) value: Range<usize>,
}

/// Reads the fields of a table that opens at `open`.
pub(super) fn fields(tokens: &[Token], open: usize) -> Vec<Field<'_>> {
    let Some((parts, _)) = parts(tokens, open) else { return Vec::new() };
    let read = |part: Range<usize>| {
        let line = tokens[part.start].line;
        if let (Some(name), true) = (name(tokens.get(part.start)), is_sign(tokens.get(part.start + 1), "=")) {
            return Field { name: Some(name), item: false, line, value: part.start + 2..part.end };
        }
        if is_sign(tokens.get(part.start), "[") {
            let text = match tokens.get(part.start + 1).map(|token| &token.kind) {
                Some(Kind::Text(text)) if is_sign(tokens.get(part.start + 2), "]") => Some(text.as_str()),
                _ => None,
            };
            return Field { name: text, item: false, line, value: (part.start + 4).min(part.end)..part.end };
        }
        Field { name: None, item: true, line, value: part }
    };
    parts.into_iter().filter(|part| !part.is_empty()).map(read).collect()
}
