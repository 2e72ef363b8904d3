//! What is known of an attempt's sessions while it executes.

use std::collections::BTreeMap;

use super::super::purse::{Purse, Spent};
use super::super::spool::Ends;
use crate::domain::SessionRecord;

/// The sessions of an attempt by their numbers.
#[derive(Debug, Default)]
pub(crate) struct SessionBook {
    begun: u32,
    records: BTreeMap<u32, SessionRecord>,
    /// How the streams of the session with the highest number end.
    last: (u32, Ends),
    /// What the attempt may still spend.
    pub(crate) purse: Purse,
    /// Whether the run's budget has refused a session.
    pub(crate) unfunded: bool,
}

impl SessionBook {
    /// Tells whether no session was begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun == 0 && self.records.is_empty()
    }

    /// Returns how many numbers are taken.
    pub(super) fn begun(&self) -> u32 {
        self.begun
    }

    /// Takes the next number.
    pub(crate) fn number(&mut self) -> u32 {
        self.begun += 1;
        self.begun
    }

    /// Notes that a number is taken.
    pub(crate) fn numbered(&mut self, index: u32) {
        self.begun = self.begun.max(index);
    }

    /// Takes the sessions that an earlier host has held. Their numbers are noted when the script comes to them.
    pub(crate) fn restore(&mut self, records: Vec<SessionRecord>) {
        self.records.extend(records.into_iter().map(|record| (record.index, record)));
    }

    /// Returns the record of a finished session.
    pub(crate) fn record(&self, index: u32) -> Option<&SessionRecord> {
        self.records.get(&index)
    }

    /// Tells whether a session has finished.
    pub(crate) fn has_finished(&self) -> bool {
        !self.records.is_empty()
    }

    /// Takes the finished sessions, in order, and how the streams of the last one end.
    pub(crate) fn take(&mut self) -> (Vec<SessionRecord>, Ends) {
        (std::mem::take(&mut self.records).into_values().collect(), std::mem::take(&mut self.last.1))
    }

    /// Takes a session that is not stored yet: the purse holds what it cost until then.
    pub(super) fn note(&mut self, record: SessionRecord) {
        self.purse.ended(record.index, record.known_cost(), record.exempt == Some(true));
        self.records.insert(record.index, record);
    }

    /// Takes note that a session is stored, and its cost with it.
    pub(super) fn settle(&mut self, index: u32) {
        self.purse.settle(index);
    }

    /// Takes how the streams of a session end.
    pub(super) fn end(&mut self, index: u32, ends: Ends) {
        if index >= self.last.0 {
            self.last = (index, ends);
        }
    }

    /// Returns what the sessions on the ledger cost, as far as it is known; what the others cost is in the purse.
    pub(crate) fn spent(&self) -> Spent {
        let settled = || self.records.values().filter(|record| !self.purse.holds(record.index));
        Spent {
            total: settled().map(SessionRecord::known_cost).sum(),
            billable: settled().map(SessionRecord::known_billable).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::domain::Micros;

    fn session(index: u32, cost: i64) -> SessionRecord {
        let cost = Some(Micros::new(cost));
        SessionRecord { cost, ..SessionRecord::completed(index, Timestamp::UNIX_EPOCH, "done") }
    }

    #[test]
    fn what_a_session_cost_is_nobody_elses_before_the_ledger_has_it_nor_after() {
        let mut book = SessionBook::default();
        book.purse.set_limits(None, Some(Micros::new(100)));
        book.purse.begin(1, Some(Micros::new(90)), false);
        book.purse.begin(2, None, false);
        book.note(session(1, 60));
        // It is over, but the ledger does not know it: a limit that is made from the ledger now holds its 60 still.
        assert_eq!(book.spent(), Spent::default());
        assert_eq!(book.purse.left(book.spent(), false), Some(Micros::new(40)));
        assert_eq!(book.purse.spend(2, Micros::new(41), book.spent()), Some(Micros::new(40)));
        assert!(book.record(1).is_some(), "its record is there whatever becomes of the ledger");
        book.settle(1);
        assert_eq!(book.spent(), Spent { total: Micros::new(60), billable: Micros::new(60) });
        assert_eq!(book.purse.spend(2, Micros::new(41), book.spent()), Some(Micros::new(40)));
    }

    #[test]
    fn the_known_part_of_an_unknown_cost_is_spent() {
        let mut book = SessionBook::default();
        book.purse.set_limits(Some(Micros::new(100)), Some(Micros::new(100)));
        book.purse.begin(1, None, false);
        let cut = SessionRecord { cost: None, cost_at_least: Some(Micros::new(60)), ..session(1, 0) };
        book.note(cut);
        assert_eq!(book.purse.left(book.spent(), false), Some(Micros::new(40)));
        book.settle(1);
        assert_eq!(book.spent(), Spent { total: Micros::new(60), billable: Micros::new(60) });
        assert_eq!(book.purse.left(book.spent(), false), Some(Micros::new(40)));
    }
}
