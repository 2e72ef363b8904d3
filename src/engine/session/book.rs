//! What is known of an attempt's sessions while it executes.

use std::collections::BTreeMap;

use super::super::purse::Purse;
use super::super::spool::Ends;
use crate::domain::{Micros, SessionRecord};

/// The sessions of an attempt by their numbers.
#[derive(Debug, Default)]
pub(crate) struct SessionBook {
    begun: u32,
    records: BTreeMap<u32, SessionRecord>,
    /// How the streams of the session with the highest number end.
    last: (u32, Ends),
    /// What the attempt may still spend.
    pub(crate) purse: Purse,
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

    /// Takes a session that is not stored yet.
    pub(super) fn note(&mut self, record: SessionRecord) {
        self.records.insert(record.index, record);
    }

    /// Takes a session that is stored.
    pub(super) fn add(&mut self, record: SessionRecord, ends: Ends) {
        if record.index >= self.last.0 {
            self.last = (record.index, ends);
        }
        self.records.insert(record.index, record);
    }

    /// Returns what the sessions cost, as far as it is known.
    pub(crate) fn spent(&self) -> Micros {
        self.records.values().filter_map(|record| record.cost).sum()
    }
}
