//! Reads what an answer tells, as it passes.

use crate::domain::{Micros, Usage};

use super::api::Api;
use super::encoding::{Unpacker, Unreadable};
use super::event::Event;
use super::json::Scanner;
use super::sse::Splitter;
use super::story::{Document, Story, StreamReader};

/// What a piece of an answer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fed {
    /// The event that ends the answer, or the end of its document. A client may go away once it has seen this.
    ///
    /// It can come more than once: Gemini's streams may go on after the first reason to finish.
    pub terminal: bool,
}

/// What an answer told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// Tokens. All zero where the provider bills none: for errors (status 400 and above) and for interfaces that are free.
    pub usage: Usage,
    /// How much of `usage.cache_write` is kept for an hour, which is dearer; `None` where the answer contradicts itself in it.
    pub cache_write_long: Option<u64>,
    /// The model that answered.
    pub model: Option<String>,
    /// Whether the answer came to its end: a stream to its final event, a document to its last brace. What cannot be read is
    /// taken to have.
    pub complete: bool,
    /// The error that it tells, or why it could not be read.
    pub message: Option<String>,
    /// What the provider itself says that it cost (OpenRouter).
    pub cost: Option<Micros>,
}

/// Reads an answer piece by piece, in constant memory, whatever it is: a stream of events, a document, or something else.
pub struct AnswerReader {
    api: Api,
    status: u16,
    content_type: Option<String>,
    unpacker: Option<Unpacker>,
    unreadable: Option<Unreadable>,
    plain: Plain,
}

/// What is read once nothing is packed any more.
struct Plain {
    story: Story,
    scanner: Scanner,
    shape: Shape,
}

enum Shape {
    /// Nothing but white space yet.
    Undecided,
    Stream {
        splitter: Splitter,
        parts: Option<Event>,
    },
    Document(Document),
}

impl AnswerReader {
    /// Begins with an answer of this status and these headers.
    #[must_use]
    pub fn new(api: Api, status: u16, content_type: Option<&str>, content_encoding: Option<&str>) -> Self {
        let (unpacker, unreadable) = match Unpacker::of(content_encoding) {
            Ok(unpacker) => (unpacker, None),
            Err(unreadable) => (None, Some(unreadable)),
        };
        Self {
            api,
            status,
            content_type: content_type.map(str::to_owned),
            unpacker,
            unreadable,
            plain: Plain { story: Story::new(api, status), scanner: Scanner::new(), shape: Shape::Undecided },
        }
    }

    /// Reads the next piece of the body, as it came.
    pub fn feed(&mut self, bytes: &[u8]) -> Fed {
        let Self { unpacker, unreadable, plain, .. } = self;
        if unreadable.is_some() {
            return Fed::default();
        }
        let ends = plain.story.ends;
        match unpacker {
            None => plain.feed(bytes),
            Some(unpacker) => *unreadable = unpacker.feed(bytes, |bytes| plain.feed(bytes)).err(),
        }
        Fed { terminal: plain.story.ends > ends }
    }

    /// Returns what is known at this point. A count that is still growing is unknown.
    #[must_use]
    pub fn so_far(&self) -> Usage {
        if self.status >= 300 || !self.api.is_billed() {
            return Usage::ZERO;
        }
        if self.unreadable.is_some() {
            return Usage::UNKNOWN;
        }
        self.plain.story.usage()
    }

    /// Says what the answer told; no more of it comes.
    #[must_use]
    pub fn finish(mut self) -> Told {
        let empty = matches!(self.plain.shape, Shape::Undecided);
        self.plain.finish();
        let usage = self.so_far();
        let Self { api, status, content_type, unreadable, plain, .. } = self;
        let Plain { story, scanner, .. } = plain;
        let ended = story.ends > 0;
        let free = status >= 300 || !api.is_billed();
        let cache_write_long = if free { Some(0) } else { story.cache_write_long() };
        let message = match (&unreadable, story.error) {
            (Some(Unreadable::Unknown(name)), _) => {
                Some(format!("the answer is encoded as {name:?}, which is not read"))
            }
            (Some(Unreadable::Broken), _) => Some("the answer's compressed data is broken".to_owned()),
            (None, Some(error)) => Some(error),
            (None, None) if status >= 300 => {
                let kind = content_type.map(|kind| format!(" with {kind}")).unwrap_or_default();
                Some(format!("status {status}{kind} and no message"))
            }
            (None, None) if empty && !free => Some("the answer is empty".to_owned()),
            (None, None) if story.unreadable > 0 => Some(match story.unreadable {
                1 => "1 event of the answer could not be read".to_owned(),
                count => format!("{count} events of the answer could not be read"),
            }),
            (None, None) if scanner.is_broken() && !ended => Some("the answer is not JSON".to_owned()),
            (None, None) => None,
        };
        let complete = match unreadable {
            None => ended || (empty && free),
            // Nobody here can tell; its frames have come to their end.
            Some(Unreadable::Unknown(_)) => true,
            Some(Unreadable::Broken) => false,
        };
        Told { usage, cache_write_long, model: story.model, complete, message, cost: story.cost }
    }
}

impl Plain {
    fn feed(&mut self, mut bytes: &[u8]) {
        if matches!(self.shape, Shape::Undecided) {
            // White space, or the mark of a byte order.
            let skipped = bytes.iter().take_while(|byte| b" \t\r\n\xEF\xBB\xBF".contains(byte)).count();
            bytes = &bytes[skipped..];
            // What comes says more than its headers: some servers name neither streams nor errors as what they are.
            self.shape = match bytes.first() {
                None => return,
                Some(b'{' | b'[') => Shape::Document(Document::default()),
                Some(_) => Shape::Stream { splitter: Splitter::default(), parts: None },
            };
        }
        let Self { story, scanner, shape } = self;
        match shape {
            Shape::Undecided => {}
            Shape::Document(document) => document.feed(bytes, scanner, story),
            Shape::Stream { splitter, parts } => {
                splitter.feed(bytes, &mut StreamReader { story, scanner, parts, over: false });
            }
        }
    }

    fn finish(&mut self) {
        let Self { story, scanner, shape } = self;
        match shape {
            Shape::Undecided => {}
            Shape::Document(document) => {
                if !scanner.is_complete() {
                    document.broke_off(story);
                }
            }
            Shape::Stream { splitter, parts } => {
                splitter.finish(&mut StreamReader { story, scanner, parts, over: true });
            }
        }
    }
}

#[cfg(test)]
mod tests;
