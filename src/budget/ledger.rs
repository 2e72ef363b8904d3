//! The ledger: reservations and spending of every attempt, and the signed balance that follows from them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::admission::{Admission, admit};
use crate::domain::{AttemptId, Micros};

/// One line of the ledger.
///
/// Lines are only ever added. A line is idempotent: written twice, as after a crash between writing and answering, it
/// counts once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Whose money.
    pub attempt: AttemptId,
    /// What happened to it.
    #[serde(flatten)]
    pub kind: EntryKind,
}

/// What happened to an attempt's money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "snake_case")]
pub enum EntryKind {
    /// Promised before the attempt starts. Replaces an earlier promise of the same attempt.
    Reserve {
        /// How much.
        amount: Micros,
    },
    /// What a session has cost so far. Replaces what the ledger knew of the same session, so a live figure and the
    /// final one do not add up.
    Spend {
        /// The session's number in the attempt; judges and other costs of no session take numbers of their own.
        session: u32,
        /// Its cost; `None` where nobody knows.
        cost: Option<Micros>,
        /// Whether it counts against the budget.
        billable: bool,
    },
    /// The attempt is over, however it ended: what is left of its promise is free again. What it spent stays.
    Release,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Account {
    reserved: Micros,
    sessions: BTreeMap<u32, (Option<Micros>, bool)>,
}

impl Account {
    fn billable(&self) -> Micros {
        self.sessions.values().filter(|(_, billable)| *billable).filter_map(|(cost, _)| *cost).sum()
    }

    /// The part of the promise that is not spent yet.
    fn outstanding(&self) -> Micros {
        (self.reserved - self.billable()).max(Micros::ZERO)
    }
}

/// The state that a run's entries add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ledger {
    cap: Option<Micros>,
    accounts: BTreeMap<AttemptId, Account>,
}

/// The sums of a ledger. Each is a lower bound where its count of unknown costs is not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Cost of every session, the exempt ones included.
    pub total: Micros,
    /// The part that counts against the budget.
    pub billable: Micros,
    /// Sessions whose cost nobody knows.
    pub unknown: usize,
    /// Those of them that would count against the budget.
    pub unknown_billable: usize,
    /// What running attempts have been promised and have not spent.
    pub reserved: Micros,
}

impl Ledger {
    /// Opens an empty ledger; `None` stands for no cap, `Some(0)` for a real cap of zero.
    #[must_use]
    pub fn new(cap: Option<Micros>) -> Self {
        Self { cap, accounts: BTreeMap::new() }
    }

    /// Adds stored entries up, oldest first.
    #[must_use]
    pub fn from_entries(cap: Option<Micros>, entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut ledger = Self::new(cap);
        for entry in entries {
            ledger.apply(entry);
        }
        ledger
    }

    /// Adds one entry.
    pub fn apply(&mut self, entry: Entry) {
        let account = self.accounts.entry(entry.attempt).or_default();
        match entry.kind {
            EntryKind::Reserve { amount } => account.reserved = amount.max(Micros::ZERO),
            EntryKind::Spend { session, cost, billable } => {
                account.sessions.insert(session, (cost, billable));
            }
            EntryKind::Release => account.reserved = Micros::ZERO,
        }
    }

    /// Returns what may still be promised: cap − spent − promised and not yet spent. Negative is a debt; `None` stands
    /// for no cap.
    #[must_use]
    pub fn remaining(&self) -> Option<Micros> {
        let totals = self.totals();
        self.cap.map(|cap| cap - totals.billable - totals.reserved)
    }

    /// Decides whether a cell may start (see [`admit`]).
    #[must_use]
    pub fn admit(&self, estimate: Micros, exempt: bool) -> Admission {
        admit(self.remaining(), estimate, exempt)
    }

    /// Returns the sums.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for account in self.accounts.values() {
            totals.reserved += account.outstanding();
            totals.billable += account.billable();
            for (cost, billable) in account.sessions.values() {
                if let Some(cost) = cost {
                    totals.total += *cost;
                } else {
                    totals.unknown += 1;
                    totals.unknown_billable += usize::from(*billable);
                }
            }
        }
        totals
    }

    /// Returns what one attempt has spent, exempt sessions included, and how many of its sessions have no known cost.
    #[must_use]
    pub fn spent_by(&self, attempt: &AttemptId) -> (Micros, usize) {
        let Some(account) = self.accounts.get(attempt) else { return (Micros::ZERO, 0) };
        let known = account.sessions.values().filter_map(|(cost, _)| *cost).sum();
        let unknown = account.sessions.values().filter(|(cost, _)| cost.is_none()).count();
        (known, unknown)
    }

    /// Returns the attempts that were promised money and have not been released: those that run, and those that a
    /// dead host left behind.
    pub fn open(&self) -> impl Iterator<Item = &AttemptId> {
        self.accounts.iter().filter(|(_, account)| account.reserved > Micros::ZERO).map(|(attempt, _)| attempt)
    }
}

#[cfg(test)]
mod tests;
