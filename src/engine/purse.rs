//! The money of one attempt while it executes: pure arithmetic over what its sessions have cost, cost by now, and may
//! still cost.
//!
//! Sessions that run side by side draw on one purse. Each counts with what it was promised (its own `max_cost`) or with
//! what its stream shows by now, whichever is more; so none takes the others' share, and all of them together are
//! stopped where the purse is empty, whoever of them spends the last of it.

use std::collections::BTreeMap;

use crate::domain::Micros;

/// The purse of an attempt.
#[derive(Debug, Default)]
pub(crate) struct Purse {
    /// The most that the attempt may cost; unknown is unlimited.
    limit: Option<Micros>,
    open: BTreeMap<u32, Open>,
}

/// A session whose cost is not on the ledger yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    promised: Micros,
    live: Micros,
}

impl Open {
    fn counts(self) -> Micros {
        self.promised.max(self.live)
    }
}

impl Purse {
    /// Sets the most that the attempt may cost, all its sessions together.
    pub(crate) fn set_limit(&mut self, limit: Option<Micros>) {
        self.limit = limit;
    }

    /// Returns what is left for sessions that are not under way yet, when those on the ledger have cost `spent`; negative
    /// where too much was spent, `None` without a limit.
    pub(crate) fn left(&self, spent: Micros) -> Option<Micros> {
        self.limit.map(|limit| limit - spent - self.open.values().map(|open| open.counts()).sum())
    }

    /// Takes note of a session that begins; `promised` is its own limit, where it has one.
    pub(crate) fn begin(&mut self, session: u32, promised: Option<Micros>) {
        self.open.insert(session, Open { promised: promised.unwrap_or(Micros::ZERO), live: Micros::ZERO });
    }

    /// Takes note of what a session has cost by now. Returns what it may cost at most, if it is over that.
    pub(crate) fn spend(&mut self, session: u32, live: Micros, spent: Micros) -> Option<Micros> {
        let open = self.open.get_mut(&session)?;
        open.live = live.max(open.live);
        let others: Micros =
            self.open.iter().filter(|(number, _)| **number != session).map(|(_, open)| open.counts()).sum();
        let allowed = self.limit? - spent - others;
        (live > allowed).then_some(allowed.max(Micros::ZERO))
    }

    /// Takes note that a session has ended and cost so much: it counts with that, and no more with what it was promised.
    pub(crate) fn ended(&mut self, session: u32, cost: Micros) {
        self.open.insert(session, Open { promised: Micros::ZERO, live: cost });
    }

    /// Lets go of a session whose cost is on the ledger: from here on it counts among what is spent.
    pub(crate) fn settle(&mut self, session: u32) {
        self.open.remove(&session);
    }

    /// Tells whether a session counts here, rather than among what is spent.
    pub(crate) fn holds(&self, session: u32) -> bool {
        self.open.contains_key(&session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(cents: i64) -> Micros {
        Micros::new(cents * 10_000)
    }

    fn purse(limit: i64) -> Purse {
        let mut purse = Purse::default();
        purse.set_limit(Some(dollars(limit)));
        purse
    }

    #[test]
    fn a_promise_is_kept_from_the_others() {
        let mut purse = purse(100);
        purse.begin(1, Some(dollars(40)));
        assert_eq!(purse.left(dollars(10)), Some(dollars(50)));
        purse.begin(2, None);
        assert_eq!(purse.spend(2, dollars(50), dollars(10)), None);
        assert_eq!(purse.spend(2, dollars(51), dollars(10)), Some(dollars(50)));
        // Its end leaves what it did not use to the other.
        purse.ended(1, dollars(20));
        assert_eq!(purse.spend(2, dollars(55), dollars(10)), None);
        purse.settle(1);
        assert_eq!(purse.spend(2, dollars(55), dollars(30)), None);
    }

    #[test]
    fn sessions_without_a_limit_of_their_own_share_what_there_is() {
        let mut purse = purse(100);
        for session in 1..=4 {
            purse.begin(session, None);
            assert_eq!(purse.spend(session, dollars(25), Micros::ZERO), None);
        }
        assert_eq!(purse.left(Micros::ZERO), Some(Micros::ZERO));
        assert_eq!(purse.spend(3, dollars(26), Micros::ZERO), Some(dollars(25)));
        // What is spent stays spent, so the others are over as well.
        assert_eq!(purse.spend(1, dollars(25), Micros::ZERO), Some(dollars(24)));
    }

    #[test]
    fn more_than_was_promised_counts_in_full() {
        let mut purse = purse(100);
        purse.begin(1, Some(dollars(10)));
        purse.begin(2, None);
        assert_eq!(purse.spend(1, dollars(30), Micros::ZERO), None);
        assert_eq!(purse.left(Micros::ZERO), Some(dollars(70)));
        assert_eq!(purse.spend(2, dollars(71), Micros::ZERO), Some(dollars(70)));
    }

    #[test]
    fn without_a_limit_nothing_is_stopped_and_a_limit_of_zero_is_one() {
        let mut open = Purse::default();
        open.begin(1, None);
        assert_eq!((open.spend(1, dollars(1_000_000), Micros::ZERO), open.left(Micros::ZERO)), (None, None));
        let mut none = purse(0);
        none.begin(1, None);
        assert_eq!(none.spend(1, Micros::ZERO, Micros::ZERO), None);
        assert_eq!(none.spend(1, Micros::new(1), Micros::ZERO), Some(Micros::ZERO));
    }
}
