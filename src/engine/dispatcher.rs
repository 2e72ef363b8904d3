//! Owns the state of a run: what waits, what runs, how far it is being cancelled. Decides synchronously and knows
//! neither tasks nor clocks, so every order of events can be tried in a test.

use std::collections::{BTreeSet, VecDeque};

use super::cancel::CancelLevel;

/// The state of a run.
#[derive(Debug)]
pub struct Dispatcher {
    waiting: VecDeque<usize>,
    running: BTreeSet<usize>,
    parallel: usize,
    level: CancelLevel,
    broken: bool,
}

/// What the executor is to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start these cells.
    Start(Vec<usize>),
    /// Wait for a cell to end or for a cancellation.
    Wait,
    /// Nothing is running and nothing will be started.
    Done,
}

impl Dispatcher {
    /// Makes the state of a run that has these cells to do, `parallel` at a time (at least one).
    #[must_use]
    pub fn new(cells: impl IntoIterator<Item = usize>, parallel: usize) -> Self {
        Self {
            waiting: cells.into_iter().collect(),
            running: BTreeSet::new(),
            parallel: parallel.max(1),
            level: CancelLevel::None,
            broken: false,
        }
    }

    /// Decides what comes next.
    pub fn decide(&mut self) -> Action {
        let mut start = Vec::new();
        if self.may_start() {
            while self.running.len() < self.parallel {
                let Some(cell) = self.waiting.pop_front() else { break };
                self.running.insert(cell);
                start.push(cell);
            }
        }
        if !start.is_empty() {
            Action::Start(start)
        } else if self.running.is_empty() {
            Action::Done
        } else {
            Action::Wait
        }
    }

    /// Takes note that a cell has ended.
    pub fn finished(&mut self, cell: usize) {
        self.running.remove(&cell);
    }

    /// Takes cells back that another host had and did not finish; tells whether any of them is to be started.
    pub fn take_back(&mut self, cells: &[usize]) -> bool {
        self.waiting.extend(cells);
        self.may_start() && !cells.is_empty()
    }

    /// Takes note of a cancellation; a weaker one changes nothing.
    pub fn cancelled(&mut self, level: CancelLevel) {
        self.level = self.level.max(level);
    }

    /// Takes note that results can no longer be kept: nothing new is started.
    pub fn broke(&mut self) {
        self.broken = true;
    }

    /// Returns how many cells were never started.
    #[must_use]
    pub fn not_started(&self) -> usize {
        self.waiting.len()
    }

    fn may_start(&self) -> bool {
        self.level == CancelLevel::None && !self.broken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_runs_more_than_allowed_and_runs_everything_once() {
        let mut dispatcher = Dispatcher::new(0..10, 3);
        let mut seen: Vec<usize> = Vec::new();
        let mut running = VecDeque::new();
        loop {
            match dispatcher.decide() {
                Action::Start(cells) => {
                    seen.extend(&cells);
                    running.extend(cells);
                    assert!(running.len() <= 3);
                }
                Action::Wait => dispatcher.finished(running.pop_front().expect("something runs")),
                Action::Done => break,
            }
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn starts_nothing_after_a_cancellation_and_waits_for_what_runs() {
        for level in [CancelLevel::Drain, CancelLevel::Stop, CancelLevel::Kill] {
            let mut dispatcher = Dispatcher::new(0..5, 2);
            assert_eq!(dispatcher.decide(), Action::Start(vec![0, 1]));
            dispatcher.cancelled(level);
            dispatcher.finished(0);
            assert_eq!(dispatcher.decide(), Action::Wait);
            dispatcher.finished(1);
            assert_eq!(dispatcher.decide(), Action::Done);
            assert_eq!(dispatcher.not_started(), 3);
        }
    }

    #[test]
    fn a_broken_store_stops_new_cells() {
        let mut dispatcher = Dispatcher::new(0..3, 1);
        assert_eq!(dispatcher.decide(), Action::Start(vec![0]));
        dispatcher.broke();
        dispatcher.finished(0);
        assert_eq!(dispatcher.decide(), Action::Done);
    }

    #[test]
    fn cells_that_come_back_are_started_unless_the_run_is_cancelled() {
        let mut dispatcher = Dispatcher::new([], 2);
        assert!(!dispatcher.take_back(&[]));
        assert!(dispatcher.take_back(&[4]));
        assert_eq!(dispatcher.decide(), Action::Start(vec![4]));
        dispatcher.cancelled(CancelLevel::Drain);
        dispatcher.finished(4);
        assert!(!dispatcher.take_back(&[5]));
        assert_eq!((dispatcher.decide(), dispatcher.not_started()), (Action::Done, 1));
    }

    #[test]
    fn nothing_to_do_is_done_at_once() {
        assert_eq!(Dispatcher::new([], 0).decide(), Action::Done);
    }
}
