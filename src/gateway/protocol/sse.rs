//! Splits a stream of server-sent events, cut anywhere.

use memchr::memchr2;

/// A line up to this length is handed on in one piece; longer ones are not kept.
const LONGEST_LINE: usize = 64 * 1024;

/// Takes the data of events; other fields and comments are left out.
pub(super) trait Events {
    /// An event with one line of data.
    fn event(&mut self, data: &[u8]);

    /// A piece of the data of an event that is long or has several lines.
    fn part(&mut self, data: &[u8]);

    /// The event that came in parts is over.
    fn end(&mut self);
}

/// The place in a stream.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
    /// What comes is the rest of a line that is not kept.
    long: Option<Long>,
    event: State,
    /// The one line of data that the event has, if it lay in an earlier piece.
    held: Vec<u8>,
    /// A carriage return came last; a line feed after it is part of the same end of line.
    after_return: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Long {
    Data,
    Ignored,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    /// No data yet.
    #[default]
    Empty,
    /// One line of data, in `held` or still in the piece at hand.
    One,
    /// Data was handed on in parts.
    Parts,
}

impl Splitter {
    /// Reads a piece.
    pub(super) fn feed<'a>(&mut self, mut bytes: &'a [u8], events: &mut impl Events) {
        // The event's line of data in the piece at hand, while nothing had to be copied.
        let mut fresh: Option<&'a [u8]> = None;
        loop {
            if self.after_return && !bytes.is_empty() {
                self.after_return = false;
                bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
            }
            let Some(end) = memchr2(b'\n', b'\r', bytes) else { break };
            let (line, rest) = bytes.split_at(end);
            self.after_return = rest[0] == b'\r';
            bytes = &rest[1..];
            if self.long.is_none() && self.line.is_empty() {
                fresh = self.whole_line(line, fresh, events);
            } else {
                self.rest_of_line(line, events);
            }
        }
        if let Some(data) = fresh {
            self.held.clear();
            self.held.extend_from_slice(data);
        }
        self.begin_line(bytes, events);
    }

    /// The stream is over. An event whose blank line never came counts as told.
    pub(super) fn finish(&mut self, events: &mut impl Events) {
        self.rest_of_line(b"", events);
        self.dispatch(None, events);
    }

    /// Reads a line that lies in the piece as a whole; returns the event's data if it lies there too.
    fn whole_line<'a>(
        &mut self,
        line: &'a [u8],
        fresh: Option<&'a [u8]>,
        events: &mut impl Events,
    ) -> Option<&'a [u8]> {
        if line.is_empty() {
            self.dispatch(fresh, events);
            return None;
        }
        let Some(data) = data_of(line) else { return fresh };
        if self.event == State::Empty && line.len() <= LONGEST_LINE {
            self.event = State::One;
            return Some(data);
        }
        self.turn_into_parts(fresh, events);
        events.part(data);
        None
    }

    /// Keeps the beginning of a line, unless it is long.
    fn begin_line(&mut self, bytes: &[u8], events: &mut impl Events) {
        if bytes.is_empty() {
            return;
        }
        match self.long {
            Some(Long::Data) => events.part(bytes),
            Some(Long::Ignored) => {}
            None if self.line.len() + bytes.len() <= LONGEST_LINE => self.line.extend_from_slice(bytes),
            None => {
                // The name of a field is shorter than what is kept, so the beginning tells it.
                let missing = LONGEST_LINE.saturating_sub(self.line.len()).min(bytes.len());
                let (first, rest) = bytes.split_at(missing);
                self.line.extend_from_slice(first);
                let line = std::mem::take(&mut self.line);
                self.long = Some(if let Some(data) = data_of(&line) {
                    self.turn_into_parts(None, events);
                    events.part(data);
                    events.part(rest);
                    Long::Data
                } else {
                    Long::Ignored
                });
                self.line = line;
                self.line.clear();
            }
        }
    }

    /// Ends a line that began in an earlier piece.
    fn rest_of_line(&mut self, bytes: &[u8], events: &mut impl Events) {
        self.begin_line(bytes, events);
        if self.long.take().is_some() {
            return;
        }
        let line = std::mem::take(&mut self.line);
        if let Some(data) = self.whole_line(&line, None, events) {
            self.held.clear();
            self.held.extend_from_slice(data);
        }
        self.line = line;
        self.line.clear();
    }

    /// Hands the line of data that was kept back on as a part; another one follows.
    fn turn_into_parts(&mut self, fresh: Option<&[u8]>, events: &mut impl Events) {
        match self.event {
            State::Empty => {}
            State::One => {
                events.part(fresh.unwrap_or(&self.held));
                events.part(b"\n");
            }
            State::Parts => events.part(b"\n"),
        }
        self.event = State::Parts;
    }

    fn dispatch(&mut self, fresh: Option<&[u8]>, events: &mut impl Events) {
        match std::mem::take(&mut self.event) {
            State::Empty => {}
            State::One => events.event(fresh.unwrap_or(&self.held)),
            State::Parts => events.end(),
        }
    }
}

/// The data of a line, if it is one of data.
pub(super) fn data_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest.split_first() {
        None => Some(rest),
        Some((b':', rest)) => Some(rest.strip_prefix(b" ").unwrap_or(rest)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
