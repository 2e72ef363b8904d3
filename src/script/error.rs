//! What went wrong in a script, told with the script's own files and lines.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in a script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    /// The file, relative to the orchestrator's directory.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function, where it has a name.
    pub function: Option<String>,
    /// Number of the `parallel.map` branch that this frame is the outermost one of.
    pub branch: Option<u32>,
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if let Some(function) = &self.function {
            write!(f, " in function '{function}'")?;
        }
        if let Some(branch) = self.branch {
            write!(f, " (branch {branch} of parallel.map)")?;
        }
        Ok(())
    }
}

/// What kind of error it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptErrorKind {
    /// The script did not load: missing, too large, not text, not Lua.
    Load,
    /// The script raised an error, or misused the API.
    Runtime,
    /// The script used up its memory.
    Memory,
    /// The script used up its CPU time.
    Limit,
}

/// Why a script failed. [`fmt::Display`] gives message, place and trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub struct ScriptError {
    /// What kind of error it was.
    pub kind: ScriptErrorKind,
    /// What went wrong, without its place.
    pub message: String,
    /// Frames of the script, innermost first. The first one is where it went wrong.
    pub trace: Vec<Frame>,
    /// The source line with a caret below, for errors of the compiler.
    pub snippet: Option<String>,
}

impl ScriptError {
    /// Makes an error without a place.
    #[must_use]
    pub fn new(kind: ScriptErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), trace: Vec::new(), snippet: None }
    }

    /// Names the branches that it came out of, innermost first: summaries show the first line alone.
    fn branches(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut branches = self.trace.iter().filter_map(|frame| frame.branch);
        if let Some(first) = branches.next() {
            write!(f, " (branch {first} of parallel.map")?;
            branches.try_for_each(|outer| write!(f, ", in branch {outer}"))?;
            f.write_str(")")?;
        }
        Ok(())
    }

    /// Adds the places.
    #[must_use]
    pub fn at(mut self, trace: Vec<Frame>) -> Self {
        self.trace = trace;
        self
    }
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.trace.first() {
            write!(f, "{}:{}: ", first.file, first.line)?;
        }
        f.write_str(&self.message)?;
        self.branches(f)?;
        if let Some(snippet) = &self.snippet {
            write!(f, "\n{snippet}")?;
        }
        // One frame alone says nothing that the place does not say.
        if self.trace.len() > 1 || self.trace.iter().any(|frame| frame.branch.is_some()) {
            for frame in &self.trace {
                write!(f, "\n  at {frame}")?;
            }
        }
        Ok(())
    }
}

/// Splits `runner.lua:7: text` into its place and its text.
pub(crate) fn split_place(message: &str) -> (Option<(&str, u32)>, &str) {
    let Some(colon) = message.find(':') else { return (None, message) };
    let (file, rest) = (&message[..colon], &message[colon + 1..]);
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if file.is_empty() || file.contains(char::is_whitespace) || digits == 0 {
        return (None, message);
    }
    match (rest[..digits].parse(), rest[digits..].strip_prefix(':')) {
        (Ok(line), Some(text)) => (Some((file, line)), text.trim_start()),
        _ => (None, message),
    }
}

/// Turns a compiler's message into an error with the source line and a caret.
pub(crate) fn load_error(file: &str, source: &str, message: &str) -> ScriptError {
    // The compiler prefixes its own idea of the chunk's name: drop everything up to the last `name:line:`.
    let message = message.strip_prefix("syntax error: ").unwrap_or(message);
    let (place, text) = split_place(message);
    let mut error = ScriptError::new(ScriptErrorKind::Load, text.lines().next().unwrap_or(text));
    let Some((_, line)) = place else {
        return error.at(vec![Frame { file: file.to_owned(), line: 1, function: None, branch: None }]);
    };
    error.snippet = source.lines().nth((line as usize).saturating_sub(1)).map(|text| caret(line, text, &error.message));
    error.at(vec![Frame { file: file.to_owned(), line, function: None, branch: None }])
}

/// Draws a line with a caret below the token that the message quotes last, or below its first sign.
fn caret(line: u32, text: &str, message: &str) -> String {
    let shown: String = text.chars().take(160).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let indent = shown.len() - shown.trim_start().len();
    let token = message.rsplit("got '").next().filter(|_| message.contains("got '"));
    let token = token.and_then(|rest| rest.split('\'').next()).filter(|token| !token.is_empty());
    let column = if message.contains("got <eof>") {
        shown.trim_end().len()
    } else {
        token.and_then(|token| shown.rfind(token)).unwrap_or(indent)
    };
    let column = shown[..column].chars().count();
    let gutter = line.to_string();
    let blank = " ".repeat(gutter.len());
    format!("{blank} |\n{gutter} | {shown}\n{blank} | {}^", " ".repeat(column))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("runner.lua:7: boom", Some(("runner.lua", 7)), "boom"; "place")]
    #[test_case("lib/a.lua:12: x: y", Some(("lib/a.lua", 12)), "x: y"; "folder")]
    #[test_case("no place here", None, "no place here"; "none")]
    #[test_case("see http: 12", None, "see http: 12"; "prose")]
    fn splits_places(message: &str, place: Option<(&str, u32)>, text: &str) {
        assert_eq!(split_place(message), (place, text));
    }

    #[test]
    fn a_compiler_message_points_at_the_token() {
        let error =
            load_error("runner.lua", "local x = 1\nlocal y = = 2\n", "runner.lua:2: Expected identifier, got '='");
        assert_eq!(
            error.to_string(),
            "runner.lua:2: Expected identifier, got '='\n  |\n2 | local y = = 2\n  |           ^"
        );
    }

    #[test]
    fn a_long_trace_names_functions_and_branches() {
        let frame = |line, function: Option<&str>, branch| Frame {
            file: "runner.lua".to_owned(),
            line,
            function: function.map(str::to_owned),
            branch,
        };
        let error = ScriptError::new(ScriptErrorKind::Runtime, "boom")
            .at(vec![frame(3, Some("inner"), Some(2)), frame(9, None, None)]);
        let nested = ScriptError::new(ScriptErrorKind::Runtime, "boom").at(vec![
            frame(3, None, Some(2)),
            frame(3, None, Some(4)),
            frame(9, None, None),
        ]);
        assert!(nested.to_string().starts_with("runner.lua:3: boom (branch 2 of parallel.map, in branch 4)\n"));
        assert_eq!(
            error.to_string(),
            "runner.lua:3: boom (branch 2 of parallel.map)\n  at runner.lua:3 in function 'inner' (branch 2 of parallel.map)\n  \
             at runner.lua:9"
        );
    }
}
