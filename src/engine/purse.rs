//! The money of one attempt while it executes: pure arithmetic over what its sessions have cost, cost by now, and may
//! still cost.
//!
//! Sessions that run side by side draw on one purse. Each counts with what it was promised (its own `max_cost`) or with
//! what its stream shows by now, whichever is more; so none takes the others' share, and all of them together are
//! stopped where the purse is empty, whoever of them spends the last of it.

use std::collections::BTreeMap;

use crate::domain::Micros;

/// What the sessions of an attempt that are on the ledger have cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Spent {
    pub(crate) total: Micros,
    /// The part that counts against the run's budget.
    pub(crate) billable: Micros,
}

/// The purse of an attempt. Its cell's limit is for all sessions, the run's for those that are not exempt from the budget.
#[derive(Debug, Default)]
pub(crate) struct Purse {
    /// The most that all sessions may cost; unknown is unlimited.
    cell: Option<Micros>,
    /// The most that those may cost which count against the budget.
    run: Option<Micros>,
    open: BTreeMap<u32, Open>,
}

/// A session whose cost is not on the ledger yet.
#[derive(Debug, Clone, Copy)]
struct Open {
    promised: Micros,
    live: Micros,
    exempt: bool,
}

impl Open {
    fn counts(self) -> Micros {
        self.promised.max(self.live)
    }
}

impl Purse {
    /// Sets the most that the attempt may cost, all its sessions together: by its cell, and by its run.
    pub(crate) fn set_limits(&mut self, cell: Option<Micros>, run: Option<Micros>) {
        (self.cell, self.run) = (cell, run);
    }

    /// Returns what is left for sessions, exempt ones or others, that are not under way yet, when those on the ledger have
    /// cost `spent`; negative where too much was spent, `None` without a limit.
    pub(crate) fn left(&self, spent: Spent, exempt: bool) -> Option<Micros> {
        self.left_beside(None, spent, exempt)
    }

    /// Takes note of a session that begins; `promised` is its own limit, where it has one.
    pub(crate) fn begin(&mut self, session: u32, promised: Option<Micros>, exempt: bool) {
        self.open.insert(session, Open { promised: promised.unwrap_or(Micros::ZERO), live: Micros::ZERO, exempt });
    }

    /// Takes note of what a session has cost by now. Returns what it may cost at most, if it is over that.
    pub(crate) fn spend(&mut self, session: u32, live: Micros, spent: Spent) -> Option<Micros> {
        let allowed = self.allowed(session, live, spent)?;
        (live > allowed).then_some(allowed.max(Micros::ZERO))
    }

    /// Takes note of what a session has cost by now. Returns what it may cost at most, if nothing of that is left.
    #[cfg(any(test, feature = "gateway"))]
    pub(crate) fn is_used_up(&mut self, session: u32, live: Micros, spent: Spent) -> Option<Micros> {
        let allowed = self.allowed(session, live, spent)?;
        (live >= allowed).then_some(allowed.max(Micros::ZERO))
    }

    /// Returns what a session under way may cost at most, as things stand; `None` without a limit.
    #[cfg(any(test, feature = "gateway"))]
    pub(crate) fn left_to(&self, session: u32, spent: Spent) -> Option<Micros> {
        let open = self.open.get(&session)?;
        self.left_beside(Some(session), spent, open.exempt)
    }

    /// Returns what the sessions that are not on the ledger yet have cost by now.
    #[cfg(any(test, feature = "gateway"))]
    pub(crate) fn live(&self) -> Micros {
        self.open.values().map(|open| open.live).sum()
    }

    /// Takes note that a session has ended and cost so much: it counts with that, and no more with what it was promised.
    pub(crate) fn ended(&mut self, session: u32, cost: Micros, exempt: bool) {
        self.open.insert(session, Open { promised: Micros::ZERO, live: cost, exempt });
    }

    /// Lets go of a session whose cost is on the ledger: from here on it counts among what is spent.
    pub(crate) fn settle(&mut self, session: u32) {
        self.open.remove(&session);
    }

    /// Tells whether a session counts here, rather than among what is spent.
    pub(crate) fn holds(&self, session: u32) -> bool {
        self.open.contains_key(&session)
    }

    fn allowed(&mut self, session: u32, live: Micros, spent: Spent) -> Option<Micros> {
        let open = self.open.get_mut(&session)?;
        open.live = live.max(open.live);
        let exempt = open.exempt;
        self.left_beside(Some(session), spent, exempt)
    }

    /// Returns what all sessions but one leave to it.
    fn left_beside(&self, session: Option<u32>, spent: Spent, exempt: bool) -> Option<Micros> {
        let others = || self.open.iter().filter(|(number, _)| Some(**number) != session).map(|(_, open)| open);
        let all: Micros = others().map(|open| open.counts()).sum();
        let billable: Micros = others().filter(|open| !open.exempt).map(|open| open.counts()).sum();
        let cell = self.cell.map(|limit| limit - spent.total - all);
        let run = self.run.filter(|_| !exempt).map(|limit| limit - spent.billable - billable);
        [cell, run].into_iter().flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(cents: i64) -> Micros {
        Micros::new(cents * 10_000)
    }

    fn spent(total: Micros) -> Spent {
        Spent { total, billable: total }
    }

    fn purse(limit: i64) -> Purse {
        let mut purse = Purse::default();
        purse.set_limits(Some(dollars(limit)), None);
        purse
    }

    #[test]
    fn a_promise_is_kept_from_the_others() {
        let mut purse = purse(100);
        purse.begin(1, Some(dollars(40)), false);
        assert_eq!(purse.left(spent(dollars(10)), false), Some(dollars(50)));
        purse.begin(2, None, false);
        assert_eq!(purse.spend(2, dollars(50), spent(dollars(10))), None);
        assert_eq!(purse.spend(2, dollars(51), spent(dollars(10))), Some(dollars(50)));
        // Its end leaves what it did not use to the other.
        purse.ended(1, dollars(20), false);
        assert_eq!(purse.spend(2, dollars(55), spent(dollars(10))), None);
        purse.settle(1);
        assert_eq!(purse.spend(2, dollars(55), spent(dollars(30))), None);
    }

    #[test]
    fn sessions_without_a_limit_of_their_own_share_what_there_is() {
        let mut purse = purse(100);
        for session in 1..=4 {
            purse.begin(session, None, false);
            assert_eq!(purse.spend(session, dollars(25), spent(Micros::ZERO)), None);
        }
        assert_eq!(purse.left(spent(Micros::ZERO), false), Some(Micros::ZERO));
        assert_eq!(purse.spend(3, dollars(26), spent(Micros::ZERO)), Some(dollars(25)));
        // What is spent stays spent, so the others are over as well.
        assert_eq!(purse.spend(1, dollars(25), spent(Micros::ZERO)), Some(dollars(24)));
    }

    #[test]
    fn more_than_was_promised_counts_in_full() {
        let mut purse = purse(100);
        purse.begin(1, Some(dollars(10)), false);
        purse.begin(2, None, false);
        assert_eq!(purse.spend(1, dollars(30), spent(Micros::ZERO)), None);
        assert_eq!(purse.left(spent(Micros::ZERO), false), Some(dollars(70)));
        assert_eq!(purse.spend(2, dollars(71), spent(Micros::ZERO)), Some(dollars(70)));
    }

    #[test]
    fn without_a_limit_nothing_is_stopped_and_a_limit_of_zero_is_one() {
        let mut open = Purse::default();
        open.begin(1, None, false);
        assert_eq!(
            (open.spend(1, dollars(1_000_000), spent(Micros::ZERO)), open.left(spent(Micros::ZERO), false)),
            (None, None)
        );
        let mut none = purse(0);
        none.begin(1, None, false);
        assert_eq!(none.spend(1, Micros::ZERO, spent(Micros::ZERO)), None);
        assert_eq!(none.spend(1, Micros::new(1), spent(Micros::ZERO)), Some(Micros::ZERO));
    }

    #[test]
    fn before_a_request_a_limit_that_is_reached_to_the_cent_is_reached() {
        let mut purse = purse(100);
        purse.begin(1, None, false);
        purse.begin(2, Some(dollars(30)), false);
        assert_eq!(purse.is_used_up(1, dollars(69), spent(Micros::ZERO)), None);
        assert_eq!(purse.is_used_up(1, dollars(70), spent(Micros::ZERO)), Some(dollars(70)));
        assert_eq!(purse.live(), dollars(70));
        assert_eq!(purse.is_used_up(3, dollars(70), spent(Micros::ZERO)), None, "not under way");
    }

    #[test]
    fn the_runs_limit_is_for_what_counts_against_the_budget_and_the_cells_for_all() {
        let mut purse = Purse::default();
        purse.set_limits(Some(dollars(100)), Some(dollars(30)));
        purse.begin(1, None, true);
        purse.begin(2, None, false);
        assert_eq!(purse.spend(1, dollars(60), Spent::default()), None);
        assert_eq!(purse.spend(2, dollars(30), Spent::default()), None);
        assert_eq!(purse.spend(2, dollars(31), Spent::default()), Some(dollars(30)));
        assert_eq!(purse.spend(1, dollars(70), Spent::default()), Some(dollars(69)));
        let spent = Spent { total: dollars(20), billable: dollars(5) };
        purse.ended(1, Micros::ZERO, true);
        purse.ended(2, dollars(10), false);
        assert_eq!((purse.left(spent, true), purse.left(spent, false)), (Some(dollars(70)), Some(dollars(15))));
    }
}
