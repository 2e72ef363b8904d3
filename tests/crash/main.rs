//! A crash campaign: hosts are killed at random moments and started again, and at the end everything adds up.
//!
//! `REFRAIN_CRASH_KILLS` says how many hosts are killed (100, in containers 20), `REFRAIN_CRASH_SEED` when. A finished run
//! is followed by another one until all are killed.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a campaign is set by variables, and says what it hit"
)]

#[cfg(feature = "docker")]
#[path = "../docker/mod.rs"]
mod docker;
mod project;
#[cfg(feature = "docker")]
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use project::{Project, SESSION_MICROS};
use refrain::domain::{AttemptId, ErrorClass, Micros, RunName, Terminal};
use refrain::store::{AttemptRow, LedgerKind, Store};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A sequence of numbers that a seed decides.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[test]
fn a_hundred_dead_hosts_lose_nothing_do_nothing_twice_and_leave_nothing() {
    campaign(&Project::local(), number("REFRAIN_CRASH_KILLS", 100));
}

#[cfg(feature = "docker")]
#[tokio::test(flavor = "multi_thread")]
async fn twenty_dead_hosts_of_containers_lose_nothing_do_nothing_twice_and_leave_nothing() {
    if docker::runtime().await.is_some() {
        let campaign = || campaign(&Project::docker(), number("REFRAIN_CRASH_KILLS", 20));
        tokio::task::spawn_blocking(campaign).await.expect("all of it holds");
    }
}

fn campaign(project: &Project, kills: u64) {
    let mut dice = Dice(number("REFRAIN_CRASH_SEED", 20));
    let (mut killed, mut runs) = (0, Vec::new());
    while killed < kills {
        let name = format!("climb-{}", runs.len() + 1);
        let file = project.run_file(&name);
        runs.push(name);
        while killed < kills {
            let mut host = project.start(&["run", &file, "--progress", "lines"]);
            // Now and then right at its start, while it takes up what the last one left; else after so many signs of the
            // agents, however long that takes on a busy machine.
            let pause = if dice.roll(4) > 0 {
                project.wait_for_agents(&mut host, dice.roll(14));
                dice.roll(project.pause)
            } else {
                dice.roll(project.start)
            };
            std::thread::sleep(Duration::from_millis(pause));
            if let Some(status) = host.try_wait().expect("asked") {
                assert_eq!(status.code(), Some(0), "the run ended by itself");
                break;
            }
            host.kill().expect("killed");
            host.wait().expect("ends");
            killed += 1;
        }
        let last = project.refrain(&["run", &file, "--progress", "lines"]).output().expect("the program starts");
        assert_eq!(last.status.code(), Some(0), "{}", String::from_utf8_lossy(&last.stderr));
    }
    assert_eq!(project.processes(), Vec::<String>::new());
    let left = project.left_over();
    assert!(left.is_empty(), "{left:?}");
    // Opened for writing: nobody holds a lock any more.
    let store = Store::open(&project.path().join("refrain.db")).expect("the store opens");
    let mut books = Books::default();
    for run in &runs {
        books.read(&store, &RunName::new(run).expect("a name"), project.cells());
    }
    books.balance(project, runs.len() * project.cells());
}

/// What the store says, over all runs.
#[derive(Default)]
struct Books {
    /// What each recorded session said: the agent's own id of it.
    recorded: Vec<String>,
    spent: Micros,
    unknown: usize,
    attempts: usize,
    gone_on: usize,
    /// Attempts that were not gone on with, and why.
    given_up: Vec<String>,
}

impl Books {
    fn read(&mut self, store: &Store, run: &RunName, cells: usize) {
        let rows = store.results(Some(run), &refrain::store::ResultFilter::default()).wait().unwrap();
        assert_eq!(rows.len(), cells);
        for row in &rows {
            assert_eq!((row.terminal, row.error_class), (Terminal::Completed, ErrorClass::Success), "{row:?}");
            let attempts: Vec<AttemptRow> = store.attempts(run, &row.cell).wait().unwrap();
            let completed = attempts.iter().filter(|attempt| attempt.terminal == Some(Terminal::Completed)).count();
            assert_eq!(completed, 1, "{} is decided once: {attempts:?}", row.cell);
            assert!(attempts.iter().all(|attempt| attempt.ended_at.is_some()), "{attempts:?}");
            self.attempts += attempts.len();
            for attempt in &attempts {
                self.read_attempt(store, &attempt.id);
                if attempt.terminal != Some(Terminal::Completed) {
                    let why = attempt.error_message.as_deref().unwrap_or_default();
                    self.given_up.push(format!("{}: {why}", attempt.id));
                }
            }
        }
        let totals = store.ledger_totals(run).wait().unwrap();
        self.spent += totals.total;
        self.unknown += totals.unknown;
        // What is still in reserve is that of attempts whose spending nobody knows.
        let entries = store.ledger(run).wait().unwrap();
        let mut held: BTreeMap<AttemptId, Micros> = BTreeMap::new();
        let mut uncertain: BTreeSet<AttemptId> = BTreeSet::new();
        for entry in entries {
            match (entry.kind, entry.billable) {
                (LedgerKind::Spend, None) => drop(uncertain.insert(entry.attempt)),
                (LedgerKind::Spend, Some(_)) => {}
                (_, amount) => {
                    let sum = held.entry(entry.attempt).or_default();
                    *sum += amount.unwrap();
                }
            }
        }
        let stuck = held.iter().find(|(id, sum)| **sum != Micros::ZERO && !uncertain.contains(id));
        assert_eq!(stuck, None, "money is held for an attempt of which everything is known");
    }

    fn read_attempt(&mut self, store: &Store, id: &AttemptId) {
        for session in store.sessions(id).wait().unwrap() {
            assert_eq!(session.cost, Some(Micros::new(SESSION_MICROS)), "{session:?}");
            self.recorded.push(session.text.expect("it said something"));
        }
        if let Some(record) = store.record(id).wait().unwrap() {
            self.gone_on += usize::from(record.warnings.iter().any(|warning| warning.contains("its host died")));
        }
    }

    fn balance(&self, project: &Project, cells: usize) {
        let set = |runs: Vec<String>| runs.into_iter().collect::<BTreeSet<_>>();
        let (spent, finished) = (set(project.agents("spent")), set(project.agents("end")));
        let recorded = set(self.recorded.clone());
        assert_eq!(recorded.len(), self.recorded.len(), "no session is on record twice");
        let lost: Vec<_> = finished.difference(&recorded).collect();
        assert!(lost.is_empty(), "sessions that had finished are on no record: {lost:?}; {:#?}", self.given_up);
        let invented: Vec<_> = recorded.difference(&spent).collect();
        assert!(invented.is_empty(), "sessions on record that no agent knows: {invented:?}");
        let sum = Micros::new(SESSION_MICROS * i64::try_from(recorded.len()).unwrap());
        assert_eq!(self.spent, sum, "the ledger's sum is what the sessions on record have spent");
        let unrecorded = spent.difference(&recorded).count();
        assert!(unrecorded <= self.unknown, "{unrecorded} starts spent what no entry stands for ({})", self.unknown);
        // 3 sessions a cell, and each step of an attempt finished once: `id` is `step|workspace|pid`.
        let mut steps: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        for id in &finished {
            let mut parts = id.split('|');
            *steps.entry((parts.next().unwrap(), parts.next().unwrap())).or_default() += 1;
        }
        let twice: Vec<_> = steps.iter().filter(|(_, count)| **count > 1).collect();
        assert!(twice.is_empty(), "sessions that had finished ran twice: {twice:?}");
        assert_eq!(recorded.len(), cells * 3, "no finished session was thrown away: {:#?}", self.given_up);
        assert!(self.gone_on > 0 && self.attempts > cells, "the campaign hit something");
        eprintln!(
            "{} cells, {} attempts, {} gone on with, {} sessions, {} starts lost ({unrecorded} had spent)",
            cells,
            self.attempts,
            self.gone_on,
            recorded.len(),
            self.unknown
        );
    }
}
