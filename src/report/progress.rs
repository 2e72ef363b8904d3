//! A live display for terminals: a bar, and a line for each of the first eight running cells.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Reporter;
use super::lines::lines;
use super::text;
use crate::domain::{AttemptState, CellId, Event, EventKind, Micros};

/// How many running cells have a line of their own.
const SHOWN: usize = 8;

/// Characters of a running cell's id: beside them 80 columns hold the time and a few words of what it does.
const ID_WIDTH: usize = 40;

/// The line of the whole run.
const BAR: &str = "{prefix:>12} [{bar:32}] {pos}/{len}  {elapsed} {msg}";
/// The line of a running cell.
const ROW: &str = "{spinner:>12} {elapsed:>4} {prefix}  {wide_msg:.dim}";
/// How many more cells run.
const MORE: &str = "{msg:>12}";

/// Draws on standard error; finished cells scroll away above the bar.
#[derive(Debug)]
pub struct ProgressReporter {
    display: MultiProgress,
    bar: ProgressBar,
    rows: BTreeMap<CellId, ProgressBar>,
    hidden: BTreeMap<CellId, String>,
    more: ProgressBar,
    total: usize,
    finished: usize,
    spend: Spend,
}

/// A session of this start of the run: cell, attempt, number.
type Session = (CellId, u32, u32);

/// What this start of the run has spent, as far as it has been told.
#[derive(Debug, Default)]
struct Spend {
    /// What the gateway has seen.
    metered: Micros,
    /// What sessions have reported that went past it, once they had ended.
    reported: Micros,
    /// Sessions that the gateway has seen.
    seen: BTreeSet<Session>,
    /// Sessions of whose cost a part is unknown.
    unknown: BTreeSet<Session>,
}

impl Spend {
    /// Takes note of what an event tells; true where it tells something.
    fn track(&mut self, kind: &EventKind) -> bool {
        let (session, cost) = match kind {
            EventKind::SessionSpend { cell, attempt, session, cost, run_cost, .. } => {
                let session = (cell.clone(), *attempt, *session);
                self.metered = self.metered.max(*run_cost);
                self.seen.insert(session.clone());
                (session, *cost)
            }
            EventKind::SessionFinished { cell, attempt, session, cost, .. } => {
                let session = (cell.clone(), *attempt, *session);
                if !self.seen.contains(&session) {
                    self.reported += cost.unwrap_or_default();
                }
                (session, *cost)
            }
            _ => return false,
        };
        if cost.is_none() {
            self.unknown.insert(session)
        } else {
            self.unknown.remove(&session)
        };
        true
    }

    fn words(&self) -> String {
        format!("spent: {}", text::at_least(self.metered + self.reported, self.unknown.is_empty()))
    }
}

impl ProgressReporter {
    /// Draws on the terminal of standard error.
    #[must_use]
    pub fn stderr() -> Self {
        Self::on(ProgressDrawTarget::stderr_with_hz(10))
    }

    fn on(target: ProgressDrawTarget) -> Self {
        let display = MultiProgress::with_draw_target(target);
        let bar = display.add(ProgressBar::new(0));
        bar.set_style(style(BAR).progress_chars("=> "));
        bar.set_prefix("Running");
        let more = display.add(ProgressBar::new(0));
        more.set_style(style(MORE));
        Self {
            display,
            bar,
            rows: BTreeMap::new(),
            hidden: BTreeMap::new(),
            more,
            total: 0,
            finished: 0,
            spend: Spend::default(),
        }
    }

    fn started(&mut self, cell: &CellId) {
        if self.rows.len() >= SHOWN {
            self.hidden.insert(cell.clone(), String::new());
        } else {
            self.show(cell, "starting");
        }
        self.count_hidden();
    }

    fn show(&mut self, cell: &CellId, message: &str) {
        let row = self.display.insert_before(&self.more, ProgressBar::new_spinner());
        row.set_style(style(ROW));
        row.set_prefix(text::end_of(cell.as_str(), ID_WIDTH));
        row.set_message(message.to_owned());
        row.enable_steady_tick(Duration::from_millis(200));
        self.rows.insert(cell.clone(), row);
    }

    fn says(&mut self, cell: &CellId, message: String) {
        if let Some(row) = self.rows.get(cell) {
            row.set_message(message);
        } else if let Some(kept) = self.hidden.get_mut(cell) {
            *kept = message;
        }
    }

    fn ended(&mut self, cell: &CellId) {
        self.finished += 1;
        self.bar.set_position(self.finished as u64);
        self.hidden.remove(cell);
        if let Some(row) = self.rows.remove(cell) {
            row.finish_and_clear();
            self.display.remove(&row);
            if let Some((next, message)) = self.hidden.pop_first() {
                self.show(&next, &message);
            }
        }
        self.count_hidden();
    }

    fn count_hidden(&self) {
        let hidden = self.hidden.len();
        self.more.set_message(if hidden == 0 { String::new() } else { format!("… and {hidden} more") });
    }

    fn track(&mut self, kind: &EventKind) {
        if self.spend.track(kind) {
            self.bar.set_message(self.spend.words());
        }
        match kind {
            EventKind::RunStarted { total, already_done, .. } => {
                (self.total, self.finished) = (*total, *already_done);
                self.bar.set_length(*total as u64);
                self.bar.set_position(*already_done as u64);
                self.bar.enable_steady_tick(Duration::from_millis(200));
            }
            EventKind::AttemptStarted { cell, attempt: 1 } => self.started(cell),
            EventKind::StateChanged { cell, to, .. } if *to != AttemptState::Executing => {
                self.says(cell, to.as_str().replace('_', " "));
            }
            EventKind::SessionStarted { cell, session, label, .. } => {
                let label = label.as_deref().map(|label| format!(": {label}")).unwrap_or_default();
                self.says(cell, format!("session {session}{label}"));
            }
            EventKind::SessionProgress { cell, session, text } => self.says(cell, format!("session {session}: {text}")),
            EventKind::CellFinished { cell, .. } | EventKind::CellSkipped { cell, .. } => self.ended(cell),
            _ => {}
        }
    }
}

impl Reporter for ProgressReporter {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.track(&event.kind);
        if matches!(event.kind, EventKind::RunFinished { .. }) {
            self.finish()?;
        }
        for line in lines(&event.kind, self.finished, self.total, Some(width())) {
            // What starts is on the live lines already.
            if !matches!(event.kind, EventKind::AttemptStarted { .. } | EventKind::RunStarted { .. }) {
                self.display.println(line)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        for row in std::mem::take(&mut self.rows).into_values() {
            row.finish_and_clear();
        }
        self.more.finish_and_clear();
        self.bar.finish_and_clear();
        Ok(())
    }
}

/// Returns the columns of the terminal on standard error; 80 where it does not say.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0).unwrap_or(80)
}

/// Parses a template that is part of this file; a wrong one would show the default style.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{SessionStatus, Usage};

    #[test]
    fn templates_are_valid() {
        for template in [BAR, ROW, MORE] {
            assert!(ProgressStyle::with_template(template).is_ok(), "{template}");
        }
    }

    #[test]
    fn the_bar_shows_what_is_spent_while_sessions_run() {
        let mut reporter = ProgressReporter::on(ProgressDrawTarget::hidden());
        let cell = CellId::from_stored("cell");
        let spend = |session, cost: Option<i64>, run_cost| EventKind::SessionSpend {
            cell: cell.clone(),
            attempt: 1,
            session,
            requests: 1,
            usage: Usage::UNKNOWN,
            cost: cost.map(Micros::new),
            attempt_cost: Micros::ZERO,
            run_cost: Micros::new(run_cost),
        };
        let finished = |session, cost: Option<i64>| EventKind::SessionFinished {
            cell: cell.clone(),
            attempt: 1,
            session,
            status: SessionStatus::Completed,
            reason: String::new(),
            duration: Duration::ZERO,
            usage: Usage::UNKNOWN,
            cost: cost.map(Micros::new),
        };
        for (event, shown) in [
            (spend(1, None, 0), "spent: unknown"),
            (spend(2, Some(10_000), 10_000), "spent: at least $0.0100"),
            (finished(1, Some(0)), "spent: $0.0100"),
            // Its requests are in it already.
            (finished(2, Some(10_000)), "spent: $0.0100"),
            (finished(3, Some(20_000)), "spent: $0.0300"),
            (finished(4, None), "spent: at least $0.0300"),
        ] {
            reporter.track(&event);
            assert_eq!(reporter.bar.message(), shown);
        }
    }

    #[test]
    fn no_more_than_eight_cells_have_a_line() {
        let mut reporter = ProgressReporter::on(ProgressDrawTarget::hidden());
        let cells: Vec<_> = (0..20).map(|i| CellId::from_stored(format!("cell{i:02}"))).collect();
        for cell in &cells {
            reporter.track(&EventKind::AttemptStarted { cell: cell.clone(), attempt: 1 });
        }
        assert_eq!((reporter.rows.len(), reporter.hidden.len()), (SHOWN, 12));
        for cell in &cells {
            reporter.track(&EventKind::CellSkipped { cell: cell.clone(), reason: String::new() });
        }
        assert_eq!((reporter.rows.len(), reporter.hidden.len(), reporter.finished), (0, 0, 20));
    }
}
