//! Plain text: the last lines are the agent's message, the exit code tells how it went, tokens are unknown.

use std::collections::VecDeque;

use super::{AgentEvent, Outcome, OutputReader, Reading};
use crate::runtime::Stream;

/// How much of the end of the output counts as the message.
const LAST_LINES: usize = 200;
const LAST_BYTES: usize = 16 * 1024;

/// Reads plain text.
#[derive(Debug, Default)]
pub struct TextReader {
    last: VecDeque<String>,
    bytes: usize,
    started: bool,
}

impl OutputReader for TextReader {
    fn line(&mut self, stream: Stream, line: &[u8], events: &mut Vec<AgentEvent>) {
        if stream == Stream::Stderr {
            return;
        }
        let start = line.len().saturating_sub(LAST_BYTES);
        let text = String::from_utf8_lossy(&line[start..]).into_owned();
        if !text.trim().is_empty() {
            self.started = true;
            events.push(AgentEvent::Message(text.clone()));
        }
        self.bytes += text.len();
        self.last.push_back(text);
        while self.last.len() > LAST_LINES || (self.bytes > LAST_BYTES && self.last.len() > 1) {
            self.bytes -= self.last.pop_front().map_or(0, |line| line.len());
        }
    }

    fn finish(self: Box<Self>, exit_code: Option<i32>) -> Reading {
        let text = Vec::from(self.last).join("\n").trim().to_owned();
        let outcome = match exit_code {
            // Text on standard error alone shows nothing: success needs words on standard output.
            Some(0) if self.started => Some(Outcome::Completed),
            Some(code) if code != 0 && self.started => Some(Outcome::Failed(format!("exit code {code}"))),
            _ => None,
        };
        Reading {
            started: self.started,
            outcome,
            text: Some(text).filter(|text| !text.is_empty()),
            ..Reading::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn read(lines: &[(Stream, &str)], exit_code: Option<i32>) -> Reading {
        let mut reader = Box::new(TextReader::default());
        let mut events = Vec::new();
        for (stream, line) in lines {
            reader.line(*stream, line.as_bytes(), &mut events);
        }
        reader.finish(exit_code)
    }

    #[test_case(&[(Stream::Stdout, "hello"), (Stream::Stdout, "world")], Some(0), Some(Outcome::Completed); "words and 0")]
    #[test_case(&[(Stream::Stderr, "Error: model not found")], Some(0), None; "an error on stderr and 0")]
    #[test_case(&[(Stream::Stdout, "  ")], Some(0), None; "blank")]
    #[test_case(&[(Stream::Stdout, "x")], Some(1), Some(Outcome::Failed("exit code 1".into())); "words and 1")]
    #[test_case(&[(Stream::Stdout, "x")], None, None; "killed")]
    fn success_needs_words_and_a_zero(lines: &[(Stream, &str)], exit_code: Option<i32>, outcome: Option<Outcome>) {
        assert_eq!(read(lines, exit_code).outcome, outcome);
    }

    #[test]
    fn the_end_is_kept_in_bounded_memory() {
        let line = "x".repeat(1000);
        let mut lines = vec![(Stream::Stdout, line.as_str()); 1000];
        lines.push((Stream::Stdout, "the end"));
        let text = read(&lines, Some(0)).text.expect("kept");
        assert!(text.ends_with("the end") && text.len() <= LAST_BYTES + 1000);
        let long = "y".repeat(1_000_000);
        assert_eq!(read(&[(Stream::Stdout, &long)], Some(0)).text.expect("kept").len(), LAST_BYTES);
    }
}
