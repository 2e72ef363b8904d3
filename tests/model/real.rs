//! The real store beside the model: each action is carried out on both, and what can be seen of both is compared.

use jiff::Timestamp;
use refrain::domain::{CellId, ExitClass, Micros, RunRecord, Terminal};
use refrain::store::record_file::write_record;
use refrain::store::{Layout, Owner, Reservation, ResultExtra, RunHandle, RunMeta, Store};

use crate::machine::{Action, Bounds, ESTIMATE, Lease, Rules, SESSION, State, Status};
use crate::sample::{at, attempt, cell, meta, open, record, run, session, start, steps};

/// What can be seen of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    decided: Vec<(usize, usize)>,
    open: Vec<(usize, usize)>,
    spent: i64,
    reserved: i64,
    assumed: i64,
    unknown: usize,
    lost: Vec<bool>,
}

pub(crate) struct World {
    model: State,
    store: Store,
    layout: Layout,
    handles: Vec<RunHandle>,
    now: i64,
    _folder: tempfile::TempDir,
}

/// A process of a machine that cannot be seen from here: only its lease tells.
fn owner(process: usize) -> Owner {
    let pid = u32::try_from(process).expect("small") + 1;
    Owner { pid, started: 1, boot_id: "boot".to_owned(), host_id: "elsewhere".to_owned() }
}

fn id(cell: usize, attempt_number: usize) -> refrain::domain::AttemptId {
    attempt("nightly", &format!("c{cell}"), u32::try_from(attempt_number).expect("small") + 1)
}

fn index_of(cell: &CellId) -> usize {
    cell.as_str()[1..].parse().expect("a number")
}

impl World {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, layout) = (open(&folder), Layout::new(folder.path().join(".refrain")));
        Self { model: State::new(bounds), store, layout, handles: Vec::new(), now: 0, _folder: folder }
    }

    pub(crate) fn apply(&mut self, action: Action) {
        match action {
            Action::Start => {
                let owner = Some(owner(self.model.processes.len()));
                let meta = RunMeta { owner, started_at: self.time(), ..meta("nightly", 2) };
                self.handles.push(self.store.begin_run(&meta).wait().expect("begun"));
            }
            Action::Claim(process, cell) => self.claim(process, cell),
            Action::Execute(process) => {
                let work = self.model.processes[process].work.expect("works");
                for step in &steps(Terminal::Completed)[..6] {
                    self.acting(process).add_transition(&id(work.cell, work.attempt), step).wait().expect("stepped");
                }
            }
            Action::Book(process) => {
                let work = self.model.processes[process].work.expect("works");
                for number in work.told..work.held {
                    let session = session(u32::from(number) + 1, Some(i64::from(SESSION)));
                    let billable = Some(Micros::new(i64::from(SESSION)));
                    let booked = self.acting(process).add_session(&id(work.cell, work.attempt), &session, billable);
                    booked.wait().expect("booked");
                }
            }
            Action::Record(process) => {
                let record = self.record_of(process);
                if self.acting(process).holds(&record.attempt).wait().expect("known") {
                    write_record(&self.layout, &record).expect("written");
                } else {
                    self.finish(process);
                }
            }
            Action::Finish(process) => self.finish(process),
            Action::Expire(process) => self.expire(process),
            Action::Renew(process) => {
                self.store.renew_lease(&self.handles[process], self.time()).wait().expect("renewed");
            }
            Action::GiveUp(_) => {
                let believed = self.store.believed_hosts(&run("nightly"), self.time()).wait().expect("known");
                let vouched = move |owner: &Owner| owner.is_vouched_for(&believed);
                for orphan in self.store.orphaned_attempts(&run("nightly"), vouched).wait().expect("known") {
                    assert!(self.store.mark_orphaned(&orphan, self.time()).wait().expect("marked"));
                }
            }
            Action::Recover(_) => {
                let recovered = self.store.recover(&self.layout, &run("nightly")).wait().expect("recovered");
                assert!(recovered.refused.is_empty(), "{:?}", recovered.refused);
            }
            Action::Spend(_) | Action::Crash(_) | Action::Adopt(..) => {}
        }
        self.model = self.model.apply(action, Rules::ALL);
    }

    fn time(&self) -> Timestamp {
        at(self.now)
    }

    fn acting(&self, process: usize) -> Store {
        self.store.acting_as(owner(process))
    }

    /// As the engine does it: with the money, or not at all.
    fn claim(&self, process: usize, cell: usize) {
        let id = id(cell, self.model.cells[cell].attempts.len());
        let estimate = Micros::new(i64::from(ESTIMATE));
        let request = Reservation { attempt: id.clone(), estimate, cap: None, exempt: false, at: self.time() };
        let mut begin = start(&id);
        begin.owner = owner(process);
        // One that is refused leaves nothing.
        drop(self.acting(process).claim_attempt(&begin, Some(&request)).wait());
    }

    fn record_of(&self, process: usize) -> RunRecord {
        let work = self.model.processes[process].work.expect("works");
        let sessions = (1..=u32::from(work.held)).map(|number| session(number, Some(i64::from(SESSION)))).collect();
        record(&id(work.cell, work.attempt), ExitClass::Fail, sessions)
    }

    fn finish(&self, process: usize) {
        let record = self.record_of(process);
        self.acting(process).finish_attempt(&record, ResultExtra::default()).wait().expect("finished");
    }

    /// Lets time pass until this lease has run out; the others renew theirs in time.
    fn expire(&mut self, process: usize) {
        self.now += 61;
        for (number, other) in self.model.processes.iter().enumerate() {
            if number != process && other.lease == Lease::Held {
                self.store.renew_lease(&self.handles[number], self.time()).wait().expect("renewed");
            }
        }
    }

    pub(crate) fn observed(&self) -> Seen {
        let totals = self.store.ledger_totals(&run("nightly")).wait().expect("read");
        let decided = self.store.decided(&run("nightly")).wait().expect("read");
        let mut decided: Vec<_> =
            decided.iter().map(|(cell, end)| (index_of(cell), end.attempt as usize - 1)).collect();
        decided.sort_unstable();
        let open = self.store.open_attempts(&run("nightly")).wait().expect("read");
        let mut open: Vec<_> = open.iter().map(|row| (index_of(&row.id.cell), row.id.number as usize - 1)).collect();
        open.sort_unstable();
        let mut hosts = self.store.hosts(&run("nightly")).wait().expect("read");
        hosts.reverse();
        Seen {
            decided,
            open,
            spent: totals.total.get(),
            reserved: totals.reserved.get(),
            assumed: totals.assumed.get(),
            unknown: totals.unknown,
            lost: hosts.iter().map(|host| host.lost_at.is_some()).collect(),
        }
    }

    pub(crate) fn expected(&self) -> Seen {
        let mut seen = Seen {
            decided: Vec::new(),
            open: Vec::new(),
            spent: 0,
            reserved: 0,
            assumed: 0,
            unknown: 0,
            lost: self.model.processes.iter().map(|process| process.lease == Lease::Lost).collect(),
        };
        for (cell, there) in self.model.cells.iter().enumerate() {
            for (number, attempt) in there.attempts.iter().enumerate() {
                match attempt.status {
                    Status::Open => seen.open.push((cell, number)),
                    Status::Decided => seen.decided.push((cell, number)),
                    Status::Orphaned => {}
                }
                seen.spent += i64::from(attempt.booked);
                seen.reserved += i64::from(attempt.reserved);
                seen.assumed += i64::from(attempt.assumed);
                seen.unknown += usize::from(attempt.unknown);
            }
        }
        seen
    }

    pub(crate) fn is_sound(&self) -> bool {
        let report = self.store.check(None).wait().expect("checked");
        assert!(report.is_clean(), "{report:?}");
        let attempts = self.store.attempts(&run("nightly"), &cell("c0")).wait().expect("read");
        attempts.len() == self.model.cells[0].attempts.len()
    }
}
