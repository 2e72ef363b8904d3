//! One plain line for each thing that matters: for logs, pipes and terminals without cursor control.

use std::io::{self, Write};

use super::Reporter;
use super::text;
use crate::domain::{Event, EventKind};

/// Characters of a cell's id that are shown however narrow the terminal is.
const LEAST_ID: usize = 24;

/// Writes one line for each start, end, retry and skip of a cell and for each warning, and the summary at the end.
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
        for line in lines(&event.kind, self.finished, self.total, None) {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }
}

/// Returns what an event says in lines; most events say nothing. Where there is a `width`, the end of a cell is told in
/// lines that fit it: the id loses its beginning, and the verdict has a line of its own unless the cell passed.
pub(super) fn lines(kind: &EventKind, finished: usize, total: usize, width: Option<usize>) -> Vec<String> {
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
            let (digits, took) = (total.to_string().len(), text::duration(*duration));
            let mut line = format!("{word:>12} [{finished:>digits$}/{total}] {took:>7} {:>9}  ", text::cost(*cost));
            let Some(width) = width else {
                line.push_str(cell.as_str());
                if !summary.is_empty() {
                    line.push_str(&format!("  ({summary})"));
                }
                return vec![line];
            };
            let room = width.saturating_sub(line.chars().count()).max(LEAST_ID);
            line.push_str(&text::end_of(cell.as_str(), room));
            let verdict = (*solved != Some(true) && !summary.is_empty()).then(|| format!("{:>12} {summary}", ""));
            std::iter::once(line).chain(verdict).collect()
        }
        EventKind::Warning { message } => vec![format!("{:>12} {message}", "WARNING")],
        EventKind::RunFinished { summary } => text::summary(summary),
        EventKind::StateChanged { .. }
        | EventKind::SessionStarted { .. }
        | EventKind::SessionProgress { .. }
        | EventKind::SessionSpend { .. }
        | EventKind::SessionFinished { .. }
        | EventKind::ScriptLog { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::{CellId, ErrorClass, ExitClass, Micros, Terminal};

    fn ended(solved: bool) -> EventKind {
        EventKind::CellFinished {
            cell: CellId::from_stored("scripted__scripted-small__mutated-version-order__r1__orch-refine"),
            attempt: 1,
            terminal: Terminal::Completed,
            exit_class: if solved { ExitClass::Pass } else { ExitClass::Fail },
            error_class: if solved { ErrorClass::Success } else { ErrorClass::Partial },
            solved: Some(solved),
            summary: "9 of 11 tests pass (tap, exit code 1)".to_owned(),
            duration: Duration::from_millis(500),
            cost: Some(Micros::new(2_630)),
        }
    }

    #[test]
    fn the_end_of_a_cell_fits_the_terminal() {
        let passed = lines(&ended(true), 6, 22, Some(80));
        assert_eq!(passed, ["      PASSED [ 6/22]    0.5s $0.002630  …_mutated-version-order__r1__orch-refine"]);
        let failed = lines(&ended(false), 6, 22, Some(80));
        assert_eq!(failed[1], "             9 of 11 tests pass (tap, exit code 1)");
        assert!(failed.iter().all(|line| line.chars().count() <= 80), "{failed:?}");
    }

    #[test]
    fn a_pipe_gets_ids_whole() {
        let whole = lines(&ended(false), 6, 22, None);
        assert!(whole[0].contains("  scripted__scripted-small__mutated-version-order__r1__orch-refine  (9 of 11"));
    }
}
