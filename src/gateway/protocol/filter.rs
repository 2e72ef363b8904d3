//! Hides the chunk of usage that a client did not ask for.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use super::event;
use super::json::{Key, Kind, Scalar, Scanner, Visit};
use super::sse::data_of;

/// The chunk is smaller than this: it has no text. An event that is longer passes.
const LONGEST: usize = 64 * 1024;

/// Most events that are not the chunk show it within this: text comes in a choice.
const BEGINNING: usize = 512;

/// Takes the chunk with the usage out of a stream of Chat Completions: the event that has usage and no choices.
///
/// All other bytes pass as they are. An event is kept while it could be the one: until it shows a choice, or its blank line comes.
/// No client can act on an event before that.
///
/// Works on answers without compression only: whoever splices a request must take its `accept-encoding` away.
#[derive(Debug, Default)]
pub struct UsageFilter {
    /// The beginning of an event whose end has not come. All of it was looked at.
    held: BytesMut,
    /// The event at hand is too long to be the one, and passes.
    passing: bool,
    /// The event before was taken out.
    hidden: bool,
    place: Place,
}

impl UsageFilter {
    /// Begins with an answer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a piece of the answer and returns what may go on.
    #[must_use]
    pub fn pass(&mut self, bytes: Bytes) -> Bytes {
        let mut at = self.held.len();
        let whole = if at == 0 {
            bytes
        } else {
            self.held.extend_from_slice(&bytes);
            self.held.split().freeze()
        };
        let (mut kept, mut begin) = (Vec::new(), 0);
        if at == 0 && self.place.after_return && whole.first() == Some(&b'\n') {
            // The second half of the end of the event before.
            self.place.after_return = false;
            at = 1;
            begin = 1;
            if !self.hidden {
                keep(&mut kept, 0..1);
            }
        }
        while let Some(end) = self.place.event_end(whole.get(at..).unwrap_or_default()) {
            at += end;
            let passed = std::mem::take(&mut self.passing);
            self.hidden = !passed && is_usage(&whole[begin..at]);
            if !self.hidden {
                keep(&mut kept, begin..at);
            }
            begin = at;
        }
        let rest = begin..whole.len();
        if self.passing || rest.len() > LONGEST || shows_choice(&whole[rest.clone()]) {
            self.passing = true;
            keep(&mut kept, rest);
        } else {
            self.held.extend_from_slice(&whole[rest]);
        }
        match kept.as_slice() {
            [] => Bytes::new(),
            [range] => whole.slice(range.clone()),
            ranges => ranges.iter().flat_map(|range| &whole[range.clone()]).copied().collect(),
        }
    }

    /// The answer is over: returns what was kept.
    #[must_use]
    pub fn finish(self) -> Bytes {
        // Some servers leave the last blank line out.
        if is_usage(&self.held) { Bytes::new() } else { self.held.freeze() }
    }
}

/// Adds a range that follows the others, in one piece with the last where they touch.
fn keep(kept: &mut Vec<Range<usize>>, range: Range<usize>) {
    match kept.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ if range.is_empty() => {}
        _ => kept.push(range),
    }
}

/// Where between lines.
#[derive(Debug)]
struct Place {
    /// The line at hand has no bytes yet.
    blank: bool,
    /// A carriage return came last; a line feed after it is part of the same end of line.
    after_return: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self { blank: true, after_return: false }
    }
}

impl Place {
    /// Reads up to the end of a blank line and returns what comes after it.
    fn event_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < bytes.len() {
            if std::mem::take(&mut self.after_return) && bytes[at] == b'\n' {
                at += 1;
                continue;
            }
            let Some(length) = memchr2(b'\n', b'\r', &bytes[at..]) else {
                self.blank = false;
                return None;
            };
            let ended = std::mem::replace(&mut self.blank, true) && length == 0;
            let stop = bytes[at + length];
            at += length + 1;
            if stop == b'\r' {
                match bytes.get(at) {
                    Some(b'\n') => at += 1,
                    Some(_) => {}
                    None => self.after_return = true,
                }
            }
            if ended {
                return Some(at);
            }
        }
        None
    }
}

/// Tells whether an event is the chunk of usage.
fn is_usage(event: &[u8]) -> bool {
    // Of long events the beginning tells with less. Most chunks say `"usage":null`.
    if event.len() > BEGINNING && shows_choice(event) || !event::has(event, &event::USAGE) {
        return false;
    }
    let (is_complete, chunk) = read(event);
    is_complete && chunk.usage && chunk.choices == Some(0)
}

/// Tells whether an event shows at its beginning that there is a choice in it, so that it is not the chunk of usage.
fn shows_choice(event: &[u8]) -> bool {
    let (_, chunk) = read(&event[..event.len().min(BEGINNING)]);
    chunk.choices == Some(1)
}

/// Reads an event as far as it is there; also says whether it is whole.
fn read(event: &[u8]) -> (bool, Chunk) {
    let (mut scanner, mut chunk) = (Scanner::new(), Chunk::default());
    let lines = event.split(|byte| matches!(byte, b'\n' | b'\r'));
    for data in lines.filter_map(data_of) {
        scanner.feed(data, &mut chunk);
        scanner.feed(b"\n", &mut chunk);
    }
    (scanner.is_complete(), chunk)
}

#[derive(Debug, Default)]
struct Chunk {
    usage: bool,
    choices: Option<u32>,
}

impl Visit for Chunk {
    fn begins(&mut self, path: &[Key], kind: Kind, _at: u64) -> bool {
        match (path, kind) {
            ([Key::Usage], Kind::Object) => self.usage = true,
            // A choice that was shown is not taken back.
            ([Key::Choices], Kind::Array) => _ = self.choices.get_or_insert(0),
            ([Key::Choices, Key::Item], _) => self.choices = Some(1),
            _ => {}
        }
        false
    }

    fn scalar(&mut self, _path: &[Key], _value: Scalar<'_>, _end: u64) {}

    fn closes(&mut self, _path: &[Key], _kind: Kind, _at: u64) {}
}

#[cfg(test)]
mod tests;
