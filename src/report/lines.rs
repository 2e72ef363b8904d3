//! One plain line for each thing that matters: for logs, pipes and terminals without cursor control.

use std::io::{self, Write};

use super::Reporter;
use super::text;
use crate::domain::{Event, EventKind};

/// Writes one line for each start, end, retry and skip of a cell.
#[derive(Debug)]
pub struct LineReporter<W> {
    out: W,
    total: usize,
    finished: usize,
}

impl<W: Write + Send> LineReporter<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Self {
        Self { out, total: 0, finished: 0 }
    }
}

impl<W: Write + Send> Reporter for LineReporter<W> {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.kind {
            EventKind::RunStarted { total, already_done, .. } => {
                self.total = *total;
                self.finished = *already_done;
            }
            EventKind::CellFinished { .. } | EventKind::CellSkipped { .. } => self.finished += 1,
            _ => {}
        }
        for line in lines(&event.kind, self.finished, self.total) {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }
}

/// Returns what an event says in lines; most events say nothing.
pub(super) fn lines(kind: &EventKind, finished: usize, total: usize) -> Vec<String> {
    match kind {
        EventKind::RunStarted { total, already_done, parallel } => {
            let rest = total - already_done;
            vec![format!("{:>12} {rest} of {total} cells, {parallel} at a time", "Running")]
        }
        EventKind::AttemptStarted { cell, attempt } if *attempt == 1 => vec![format!("{:>12} {cell}", "START")],
        EventKind::AttemptStarted { cell, attempt } => vec![format!("{:>12} {cell} (attempt {attempt})", "START")],
        EventKind::AttemptRetried { cell, attempt, reason, delay } => {
            vec![format!("{:>12} {cell} after attempt {attempt}, in {}: {reason}", "RETRY", text::duration(*delay))]
        }
        EventKind::CellSkipped { cell, reason } => vec![format!("{:>12} {cell}: {reason}", "SKIPPED")],
        EventKind::CellFinished { cell, terminal, solved, summary, duration, cost, .. } => {
            let word = text::status_word(*terminal, *solved);
            let mut line = format!("{word:>12} [{finished}/{total}] {:>7} ", text::duration(*duration));
            line.push_str(&format!("{:>9}  {cell}", text::cost(*cost)));
            if !summary.is_empty() {
                line.push_str(&format!("  ({summary})"));
            }
            vec![line]
        }
        EventKind::Warning { message } => vec![format!("{:>12} {message}", "WARNING")],
        EventKind::RunFinished { summary } => text::summary(summary),
        EventKind::StateChanged { .. }
        | EventKind::SessionStarted { .. }
        | EventKind::SessionProgress { .. }
        | EventKind::SessionFinished { .. }
        | EventKind::ScriptLog { .. } => Vec::new(),
    }
}
