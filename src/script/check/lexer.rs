//! Luau's tokens, as far as the checks need them: names, strings and signs with their lines.

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) line: u32,
    pub(super) kind: Kind,
}

/// What kind of token it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// A name or keyword.
    Name(String),
    /// The content of a plain string, escapes as written.
    Text(String),
    /// A number; its value where it is written in plain decimal.
    Number(Option<f64>),
    /// The start of a string with parts that are computed; the tokens of the parts follow.
    Other,
    /// A sign; `::`, `->`, `..` and the like come as one.
    Sign(&'static str),
}

/// Signs of more than one character that matter, the longest first; the others come one by one.
const LONG: &[&str] =
    &["...", "..=", "//=", "::", "->", "..", "==", "~=", "<=", ">=", "+=", "-=", "*=", "/=", "%=", "^=", "//"];
const SHORT: &[&str] = &[
    "(", ")", "{", "}", "[", "]", ".", ":", ",", ";", "=", "+", "-", "*", "/", "%", "^", "#", "<", ">", "?", "|", "&",
    "@",
];

/// Splits a text that compiles into tokens. Comments are left out; code inside interpolated strings is kept.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut lexer = Lexer { rest: text, line: 1, tokens: Vec::new(), nesting: Vec::new() };
    while !lexer.rest.is_empty() {
        lexer.step();
    }
    lexer.tokens
}

struct Lexer<'t> {
    rest: &'t str,
    line: u32,
    tokens: Vec<Token>,
    /// Braces that are open, for each interpolated string that is being read.
    nesting: Vec<u32>,
}

impl<'t> Lexer<'t> {
    fn step(&mut self) {
        let rest = self.rest;
        if let Some(after) = rest.strip_prefix("--") {
            self.take(2);
            match long_bracket(after) {
                Some(length) => self.take(length),
                None => self.take(after.find('\n').unwrap_or(after.len())),
            };
            return;
        }
        if let Some(length) = long_bracket(rest) {
            let (line, whole) = (self.line, self.take(length));
            let level = whole[1..].find('[').unwrap_or(0) + 2;
            let inner = whole.get(level..whole.len().saturating_sub(level)).unwrap_or("");
            self.push(line, Kind::Text(inner.to_owned()));
            return;
        }
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            '"' | '\'' => self.quoted(first),
            '`' => {
                self.take(1);
                self.push(self.line, Kind::Other);
                self.interpolated();
            }
            '{' => {
                if let Some(open) = self.nesting.last_mut() {
                    *open += 1;
                }
                self.sign("{");
            }
            '}' => self.closing_brace(),
            _ if first.is_ascii_alphabetic() || first == '_' => {
                let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let name = self.take(length).to_owned();
                self.push(self.line, Kind::Name(name));
            }
            _ if first.is_ascii_digit() => {
                let length =
                    rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
                let value = self.take(length).replace('_', "").parse().ok();
                self.push(self.line, Kind::Number(value));
            }
            _ => match LONG.iter().chain(SHORT).find(|sign| rest.starts_with(**sign)) {
                Some(sign) => self.sign(sign),
                None => drop(self.take(first.len_utf8())),
            },
        }
    }

    fn closing_brace(&mut self) {
        match self.nesting.last_mut() {
            Some(0) => {
                self.nesting.pop();
                self.take(1);
                self.interpolated();
            }
            Some(open) => {
                *open -= 1;
                self.sign("}");
            }
            None => self.sign("}"),
        }
    }

    /// Reads an interpolated string up to its end, or up to a part that is computed.
    fn interpolated(&mut self) {
        while let Some(at) = self.rest.find(['`', '{', '\\']) {
            let found = self.rest.as_bytes()[at];
            let escaped = self.rest[at + 1..].chars().next().map_or(0, char::len_utf8);
            self.take(at + 1 + if found == b'\\' { escaped } else { 0 });
            match found {
                b'`' => return,
                b'{' => {
                    self.nesting.push(0);
                    return;
                }
                _ => {}
            }
        }
        self.take(self.rest.len());
    }

    fn quoted(&mut self, quote: char) {
        let line = self.line;
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == quote && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let whole = self.take(end.map_or(self.rest.len(), |(at, _)| at + 1));
        let inner = whole.get(1..whole.len().saturating_sub(1)).unwrap_or("").to_owned();
        self.push(line, Kind::Text(inner));
    }

    fn sign(&mut self, sign: &'static str) {
        self.take(sign.len());
        self.push(self.line, Kind::Sign(sign));
    }

    fn take(&mut self, length: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += u32::try_from(taken.bytes().filter(|byte| *byte == b'\n').count()).unwrap_or(0);
        self.rest = rest;
        taken
    }

    fn push(&mut self, line: u32, kind: Kind) {
        self.tokens.push(Token { line, kind });
    }
}

/// Returns the length of a long string or long comment that begins here.
fn long_bracket(text: &str) -> Option<usize> {
    let after = text.strip_prefix('[')?;
    let level = after.bytes().take_while(|byte| *byte == b'=').count();
    after[level..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(level));
    Some(text.find(&close).map_or(text.len(), |at| at + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let names = tokens(text).into_iter().filter_map(|token| match token.kind {
            Kind::Name(name) => Some(format!("{}:{name}", token.line)),
            _ => None,
        });
        names.collect()
    }

    #[test]
    fn names_come_from_code_alone() {
        let text = "a -- b\n--[[ c\nd ]] e\n'f\\'g' \"h\" [[i]] [==[j]]k]==] 0x1F l.m";
        assert_eq!(names(text), ["1:a", "3:e", "4:l", "4:m"]);
    }

    #[test]
    fn code_inside_interpolated_strings_counts() {
        assert_eq!(names("`a {b} \\{c} {d({e = `f {g}`})} h` i"), ["1:b", "1:d", "1:e", "1:g", "1:i"]);
    }

    #[test]
    fn strings_keep_their_content() {
        let kinds: Vec<Kind> = tokens("require('@std/x') [[./y]]").into_iter().map(|token| token.kind).collect();
        assert_eq!(kinds[2], Kind::Text("@std/x".to_owned()));
        assert_eq!(kinds[4], Kind::Text("./y".to_owned()));
    }
}
