//! The protocol of hosts, leases, claims and money as a small state machine: what the store must do, said a second time.

/// What a session costs, and what is reserved for an attempt.
pub(crate) const SESSION: u8 = 2;
pub(crate) const ESTIMATE: u8 = 5;

/// Which rules hold. A search that finds nothing wrong is worth something only if it does once a rule is left out.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each rule is there or not")]
pub(crate) struct Rules {
    /// A cell with an attempt under way is not claimed.
    pub(crate) one_open: bool,
    /// A decided cell is not claimed.
    pub(crate) decided_stays: bool,
    /// Whoever lost an attempt cannot decide it.
    pub(crate) fencing: bool,
    /// What an attempt that was cut off may have spent is called unknown.
    pub(crate) unknown: bool,
    /// A session of a lost host is booked all the same, once.
    pub(crate) late_money: bool,
}

impl Rules {
    pub(crate) const ALL: Self =
        Self { one_open: true, decided_stays: true, fencing: true, unknown: true, late_money: true };
}

/// How large the world may grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) cells: usize,
    pub(crate) processes: usize,
    pub(crate) attempts: usize,
    pub(crate) sessions: u8,
    /// Whether hosts go on with the attempts of lost ones.
    pub(crate) adoption: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lease {
    Held,
    Expired,
    Lost,
}

/// What a process believes that it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Work {
    pub(crate) cell: usize,
    pub(crate) attempt: usize,
    /// Sessions that it has held, and how many of them it has told the store.
    pub(crate) held: u8,
    pub(crate) told: u8,
    /// Its record's file is written, the row is not.
    pub(crate) finishing: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) alive: bool,
    pub(crate) lease: Lease,
    pub(crate) work: Option<Work>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Status {
    Open,
    Orphaned,
    Decided,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each there or not")]
pub(crate) struct Attempt {
    pub(crate) owner: usize,
    pub(crate) status: Status,
    pub(crate) executing: bool,
    /// What the agents really cost, and what the ledger has of it.
    pub(crate) truth: u8,
    pub(crate) booked: u8,
    /// The ledger says that a part is unknown.
    pub(crate) unknown: bool,
    /// Another host went on with it: what the first one had under way stays unknown for good.
    pub(crate) adopted: bool,
    pub(crate) reserved: u8,
    pub(crate) assumed: u8,
    /// Its record lies on disk; all its sessions were told before.
    pub(crate) file: bool,
    pub(crate) has_record: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct Cell {
    pub(crate) attempts: Vec<Attempt>,
    /// How often it was decided: once is right.
    pub(crate) decisions: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) processes: Vec<Process>,
    pub(crate) cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    /// Another host starts the run.
    Start,
    Claim(usize, usize),
    Execute(usize),
    /// An agent's session ends; nobody but its host knows yet.
    Spend(usize),
    Book(usize),
    /// The record goes to disk, if the attempt is still the host's.
    Record(usize),
    /// The record goes into the store.
    Finish(usize),
    Crash(usize),
    /// Time passes without this process renewing its lease.
    Expire(usize),
    Renew(usize),
    /// A host declares expired ones lost and ends their attempts.
    GiveUp(usize),
    /// A host declares expired ones lost and goes on with the attempt of a cell.
    Adopt(usize, usize),
    /// A host imports records that the store lacks.
    Recover(usize),
}

impl State {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { processes: Vec::new(), cells: vec![Cell::default(); bounds.cells] }
    }

    /// What may happen next.
    pub(crate) fn actions(&self, bounds: Bounds) -> Vec<Action> {
        let mut all = Vec::new();
        let alive = self.processes.iter().filter(|process| process.alive).count();
        if self.processes.len() < bounds.processes && alive < 2 {
            all.push(Action::Start);
        }
        for (number, process) in self.processes.iter().enumerate() {
            if process.lease == Lease::Held {
                all.push(Action::Expire(number));
            }
            if !process.alive {
                continue;
            }
            all.push(Action::Crash(number));
            if process.lease == Lease::Expired {
                all.push(Action::Renew(number));
            }
            match process.work {
                None => {
                    let open = |cell: &Cell| cell.attempts.len() < bounds.attempts;
                    all.extend(
                        (0..bounds.cells).filter(|cell| open(&self.cells[*cell])).map(|c| Action::Claim(number, c)),
                    );
                    if process.lease == Lease::Held {
                        all.extend([Action::GiveUp(number), Action::Recover(number)]);
                    }
                    if process.lease == Lease::Held && bounds.adoption {
                        all.extend((0..bounds.cells).map(|cell| Action::Adopt(number, cell)));
                    }
                }
                Some(work) if work.finishing => all.push(Action::Finish(number)),
                Some(work) => {
                    let attempt = &self.cells[work.cell].attempts[work.attempt];
                    if !attempt.executing {
                        all.push(Action::Execute(number));
                        continue;
                    }
                    if work.held < bounds.sessions {
                        all.push(Action::Spend(number));
                    }
                    if work.told < work.held {
                        all.push(Action::Book(number));
                    } else {
                        all.push(Action::Record(number));
                    }
                }
            }
        }
        all
    }

    pub(crate) fn apply(&self, action: Action, rules: Rules) -> Self {
        let mut next = self.clone();
        match action {
            Action::Start => {
                next.processes.push(Process { alive: true, lease: Lease::Held, work: None });
            }
            Action::Claim(process, cell) => next.claim(process, cell, rules),
            Action::Execute(process) => {
                if let Some(attempt) = next.own(process) {
                    attempt.executing = true;
                }
            }
            Action::Spend(process) => {
                let work = next.processes[process].work.as_mut().expect("works");
                work.held += 1;
                let (cell, attempt) = (work.cell, work.attempt);
                next.cells[cell].attempts[attempt].truth += SESSION;
            }
            Action::Book(process) => next.tell(process, rules),
            Action::Record(process) => {
                let work = next.processes[process].work.expect("works");
                if !rules.fencing || next.own(process).is_some() {
                    next.cells[work.cell].attempts[work.attempt].file = true;
                    next.processes[process].work = Some(Work { finishing: true, ..work });
                } else {
                    next.finish(process, rules);
                }
            }
            Action::Finish(process) => next.finish(process, rules),
            Action::Crash(process) => {
                next.processes[process].alive = false;
                next.processes[process].work = None;
            }
            Action::Expire(process) => next.processes[process].lease = Lease::Expired,
            Action::Renew(process) => next.processes[process].lease = Lease::Held,
            Action::GiveUp(_) => next.give_up(rules),
            Action::Adopt(process, cell) => next.adopt(process, cell, rules),
            Action::Recover(_) => next.recover(rules),
        }
        next
    }

    /// The attempt that a process works on, if it is still its own and open.
    fn own(&mut self, process: usize) -> Option<&mut Attempt> {
        let work = self.processes[process].work?;
        let attempt = &mut self.cells[work.cell].attempts[work.attempt];
        (attempt.owner == process && attempt.status == Status::Open).then_some(attempt)
    }

    fn claim(&mut self, process: usize, cell: usize, rules: Rules) {
        let there = &self.cells[cell];
        let under_way = rules.one_open && there.attempts.iter().any(|attempt| attempt.status == Status::Open);
        let decided = rules.decided_stays && there.decisions > 0;
        if under_way || decided || self.processes[process].lease == Lease::Lost {
            return;
        }
        let attempt = self.cells[cell].attempts.len();
        self.cells[cell].attempts.push(Attempt {
            owner: process,
            status: Status::Open,
            executing: false,
            truth: 0,
            booked: 0,
            unknown: false,
            adopted: false,
            reserved: ESTIMATE,
            assumed: 0,
            file: false,
            has_record: false,
        });
        self.processes[process].work = Some(Work { cell, attempt, held: 0, told: 0, finishing: false });
    }

    /// Books the sessions that a process has not told yet.
    fn tell(&mut self, process: usize, rules: Rules) {
        let Some(work) = self.processes[process].work.as_mut() else { return };
        let attempt = &mut self.cells[work.cell].attempts[work.attempt];
        let amount = (work.held - work.told) * SESSION;
        work.told = work.held;
        if attempt.status == Status::Open && attempt.owner == process {
            attempt.reserved = attempt.reserved.saturating_sub(amount);
        } else if !rules.late_money {
            return;
        }
        attempt.booked += amount;
    }

    fn finish(&mut self, process: usize, rules: Rules) {
        self.tell(process, rules);
        let Some(work) = self.processes[process].work.take() else { return };
        let cell = &mut self.cells[work.cell];
        let attempt = &mut cell.attempts[work.attempt];
        let held = attempt.owner == process && attempt.status == Status::Open;
        if held || (!rules.fencing && attempt.status != Status::Decided) {
            attempt.status = Status::Decided;
            (attempt.assumed, attempt.reserved) = (attempt.assumed + attempt.reserved, 0);
            cell.decisions += 1;
        }
        if attempt.owner == process {
            // Its record tells everything but what a host before it had under way.
            attempt.has_record = true;
            attempt.unknown &= attempt.adopted;
            attempt.assumed = if attempt.unknown { attempt.assumed } else { 0 };
        }
    }

    fn lose_expired(&mut self) {
        for process in &mut self.processes {
            if process.lease == Lease::Expired {
                process.lease = Lease::Lost;
            }
        }
    }

    fn give_up(&mut self, rules: Rules) {
        self.lose_expired();
        for attempt in self.cells.iter_mut().flat_map(|cell| &mut cell.attempts) {
            if attempt.status == Status::Open && self.processes[attempt.owner].lease == Lease::Lost {
                attempt.status = Status::Orphaned;
                // An adopted attempt may have a part that is unknown already.
                attempt.unknown |= attempt.executing && rules.unknown;
                attempt.assumed = if attempt.unknown { attempt.reserved } else { 0 };
                attempt.reserved = 0;
            }
        }
    }

    fn adopt(&mut self, process: usize, cell: usize, rules: Rules) {
        self.lose_expired();
        let Some(number) = self.cells[cell].attempts.iter().position(|attempt| attempt.status == Status::Open) else {
            return;
        };
        let attempt = &mut self.cells[cell].attempts[number];
        if self.processes[attempt.owner].lease == Lease::Lost && attempt.executing {
            attempt.owner = process;
            (attempt.adopted, attempt.unknown) = (true, rules.unknown);
            attempt.file = false;
            self.processes[process].work = Some(Work { cell, attempt: number, held: 0, told: 0, finishing: false });
        }
    }

    /// Imports records of attempts that have none in the store: they may decide their cell unless it has a later attempt.
    fn recover(&mut self, rules: Rules) {
        for cell in &mut self.cells {
            for number in 0..cell.attempts.len() {
                let last = number + 1 == cell.attempts.len();
                let attempt = &mut cell.attempts[number];
                if !attempt.file || attempt.has_record {
                    continue;
                }
                attempt.has_record = true;
                attempt.unknown &= attempt.adopted;
                attempt.assumed = if attempt.unknown { attempt.assumed + attempt.reserved } else { 0 };
                attempt.reserved = 0;
                if attempt.status != Status::Decided && (last || !rules.fencing) {
                    attempt.status = Status::Decided;
                    cell.decisions += 1;
                }
            }
        }
    }

    /// What must never be.
    pub(crate) fn violation(&self) -> Option<String> {
        for (number, cell) in self.cells.iter().enumerate() {
            if cell.decisions > 1 {
                return Some(format!("cell {number} was decided {} times", cell.decisions));
            }
            if cell.attempts.iter().filter(|attempt| attempt.status == Status::Open).count() > 1 {
                return Some(format!("cell {number} has two attempts under way"));
            }
            for (at, attempt) in cell.attempts.iter().enumerate() {
                if attempt.booked > attempt.truth {
                    return Some(format!("cell {number}, attempt {at}: money was booked twice"));
                }
                let told_soon = self
                    .processes
                    .iter()
                    .filter_map(|process| process.work)
                    .any(|work| work.cell == number && work.attempt == at && work.told < work.held);
                let missing = attempt.booked < attempt.truth;
                if attempt.status != Status::Open && missing && !attempt.unknown && !told_soon {
                    return Some(format!("cell {number}, attempt {at}: money was lost without a word"));
                }
            }
        }
        None
    }
}
