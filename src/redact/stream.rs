//! Redaction of output that comes in pieces.

use std::sync::Arc;

use super::Redactor;
use super::matcher::{Mark, Matcher, Span, merged};
use super::shapes::Class;

/// The most bytes that are held back while a shape is undecided; then it is decided, and what follows of it dropped.
const HOLD: usize = 128 * 1024;
/// From so many held bytes on, a new look waits until half as many have been added.
const PATIENCE: usize = 4 * 1024;

/// Redacts a stream of bytes, however it is cut into pieces.
///
/// Bytes come out as soon as nothing that may follow can make them part of a secret: a finished line comes out whole.
/// The pieces put together equal what [`Redactor::redact_bytes`] makes of the whole stream (but for shapes longer than
/// 128 KiB, of which the rest is dropped).
pub struct StreamRedactor {
    matcher: Arc<Matcher>,
    /// Bytes written before, as context, then bytes held back.
    pub(super) buffer: Vec<u8>,
    /// How much of the buffer is context.
    done: usize,
    /// The buffer's length from which it is looked at again.
    next_look: usize,
    /// The class of a shape whose marker is written and whose rest is being dropped.
    dropping: Option<Class>,
}

/// How much of what is held back a look decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decide {
    /// What nothing that follows can change.
    Certain,
    /// Shapes too, as if they ended here.
    Shapes,
    /// Everything: the stream has ended.
    All,
}

/// What a look decided.
struct Plan {
    /// Where what is shown now ends.
    cut: usize,
    /// What is replaced before the cut.
    spans: Vec<Span>,
    /// The class of a shape that goes on behind the cut.
    dropping: Option<Class>,
}

impl StreamRedactor {
    /// Starts a stream.
    #[must_use]
    pub fn new(redactor: &Redactor) -> Self {
        Self { matcher: redactor.matcher(), buffer: Vec::new(), done: 0, next_look: 0, dropping: None }
    }

    /// Takes the next piece and returns what can be shown by now.
    #[must_use]
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.buffer.extend_from_slice(piece);
        if self.buffer.len() < self.next_look {
            return Vec::new();
        }
        self.release(false)
    }

    /// Ends the stream and returns what was held back.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.release(true)
    }

    fn release(&mut self, complete: bool) -> Vec<u8> {
        let end = self.buffer.len();
        let mut plan = self.plan(if complete { Decide::All } else { Decide::Certain });
        if !complete && end - plan.cut > HOLD + self.matcher.context() {
            plan = self.plan(Decide::Shapes);
        }
        let mut out = Vec::new();
        self.matcher.write_replaced(&self.buffer, self.done..plan.cut, &plan.spans, &mut out);
        self.dropping = plan.dropping;
        self.forget_before(plan.cut);
        out
    }

    /// Decides how much can be shown now.
    fn plan(&self, decide: Decide) -> Plan {
        let end = self.buffer.len();
        let mut found = self.matcher.scan(&self.buffer, self.done, decide != Decide::Certain);
        let mut cut = match decide {
            Decide::Certain => found.open_value.min(found.open_shape).max(self.done),
            Decide::Shapes => found.open_value.max(self.done),
            Decide::All => end,
        };
        self.clip(&mut found.spans);
        let dropped_to = self.add_dropped(&mut found.spans);
        let mut spans = merged(found.spans);
        // From the last span back: one that reaches over the cut is shown whole or held back with its trigger.
        for index in (0..spans.len()).rev() {
            let span = spans[index];
            if span.end <= cut {
                break;
            }
            if decide == Decide::Shapes && span.start < cut || dropped_to == Some(end) && span.start == self.done {
                cut = span.end;
                break;
            }
            cut = cut.min(span.trigger).max(self.done);
            spans.truncate(index);
        }
        let dropping = match (self.dropping, dropped_to) {
            (Some(class), Some(to)) if to == end && cut == end => Some(class),
            _ if decide == Decide::Shapes && cut == end => found.touching,
            _ => None,
        };
        Plan { cut, spans, dropping }
    }

    /// A value that begins in the context and goes on behind it was cut by a forced decision: hide its rest too.
    fn clip(&self, spans: &mut Vec<Span>) {
        spans.retain(|span| span.end > self.done);
        for span in spans {
            span.start = span.start.max(self.done);
        }
    }

    /// While the rest of a long shape is dropped, covers it by a span without a marker; returns where it ends.
    fn add_dropped(&self, spans: &mut Vec<Span>) -> Option<usize> {
        let end = self.dropping?.run_end(&self.buffer, self.done);
        if end > self.done {
            spans.push(Span { trigger: self.done, start: self.done, end, mark: Mark::Continued });
        }
        Some(end)
    }

    fn forget_before(&mut self, cut: usize) {
        let from = cut.saturating_sub(self.matcher.context());
        self.buffer.drain(..from);
        self.done = cut - from;
        let held = self.buffer.len() - self.done;
        self.next_look = if held > PATIENCE { self.buffer.len() + held / 2 } else { 0 };
    }
}

impl std::fmt::Debug for StreamRedactor {
    /// Shows how much is held back, never what.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamRedactor").field("held", &(self.buffer.len() - self.done)).finish_non_exhaustive()
    }
}
