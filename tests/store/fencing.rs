//! Hosts that come back from the dead: they decide nothing, and no money is lost.

use jiff::Timestamp;
use refrain::domain::{ExitClass, Micros, Terminal};
use refrain::store::{
    Admission, CancelRequest, LEASE, LedgerKind, Owner, Reservation, ResultExtra, ResultFilter, RunHandle, Settled,
    Settlement, Store, StoreError,
};

use crate::sample::{at, attempt, cell, meta, open, record, run, session, start, steps};

/// A host on a machine that cannot be seen from here.
fn elsewhere(pid: u32) -> Owner {
    Owner { pid, started: 1, boot_id: "boot".to_owned(), host_id: "elsewhere".to_owned() }
}

fn after_lease() -> Timestamp {
    at(0) + LEASE + jiff::SignedDuration::from_secs(1)
}

fn begin_run(store: &Store, owner: &Owner, from: Timestamp) -> RunHandle {
    let meta = refrain::store::RunMeta { owner: Some(owner.clone()), started_at: from, ..meta("nightly", 1) };
    store.begin_run(&meta).wait().unwrap()
}

/// Claims the cell `a` for a host, reserves 50 for it, and brings it to its first session.
fn claim(store: &Store, owner: &Owner, number: u32) -> Result<(), StoreError> {
    let id = attempt("nightly", "a", number);
    let reservation = Reservation {
        attempt: id.clone(),
        estimate: Micros::new(50),
        cap: Some(Micros::new(200)),
        exempt: false,
        at: at(0),
    };
    store.reserve(&reservation).wait().unwrap();
    let mut begin = start(&id);
    begin.owner = owner.clone();
    store.begin_attempt(&begin).wait()?;
    for step in &steps(Terminal::Completed)[..6] {
        store.add_transition(&id, step).wait().unwrap();
    }
    Ok(())
}

fn give_up(store: &Store, now: Timestamp) -> usize {
    let believed = store.believed_hosts(&run("nightly"), now).wait().unwrap();
    let orphans =
        store.orphaned_attempts(&run("nightly"), move |owner| owner.is_vouched_for(&believed)).wait().unwrap();
    orphans.iter().filter(|orphan| store.mark_orphaned(orphan, now).wait().unwrap()).count()
}

#[test]
fn a_host_elsewhere_keeps_its_cells_while_its_lease_holds() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let handle = begin_run(&store, &elsewhere(1), at(0));
    claim(&store, &elsewhere(1), 1).unwrap();
    assert_eq!(give_up(&store, at(59)), 0);
    assert!(store.renew_lease(&handle, at(59)).wait().unwrap().held);
    assert_eq!(give_up(&store, after_lease()), 0, "it was renewed");
    assert_eq!(give_up(&store, at(200)), 1);
    let lease = store.renew_lease(&handle, at(201)).wait().unwrap();
    assert!(!lease.held, "what was declared lost stays lost");
    assert!(!store.hosts(&run("nightly")).wait().unwrap()[0].is_alive(at(201)));
}

#[test]
fn a_lost_host_claims_nothing_until_it_starts_anew() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    begin_run(&store, &elsewhere(1), at(0));
    store.believed_hosts(&run("nightly"), after_lease()).wait().unwrap();
    let error = claim(&store, &elsewhere(1), 1).expect_err("refused");
    assert!(matches!(error, StoreError::LeaseLost { .. }), "{error}");
    begin_run(&store, &elsewhere(1), at(300));
    claim(&store, &elsewhere(1), 1).unwrap();
}

#[test]
fn an_expired_host_that_nobody_declared_lost_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let handle = begin_run(&store, &elsewhere(1), at(0));
    assert!(store.renew_lease(&handle, at(5_000)).wait().unwrap().held);
    assert_eq!(store.believed_hosts(&run("nightly"), at(5_001)).wait().unwrap(), [elsewhere(1)]);
}

#[test]
fn the_result_of_a_lost_host_comes_too_late_and_its_money_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (first, second) = (elsewhere(1), elsewhere(2));
    begin_run(&store, &first, at(0));
    claim(&store, &first, 1).unwrap();
    let lost = store.acting_as(first.clone());
    let id = attempt("nightly", "a", 1);
    lost.add_session(&id, &session(1, Some(10)), Some(Micros::new(10))).wait().unwrap();
    assert!(lost.holds(&id).wait().unwrap());
    assert_eq!(give_up(&store, after_lease()), 1);

    // What it still held is a debt: nobody knows whether it was spent.
    let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
    assert_eq!((totals.billable_spent.get(), totals.assumed.get(), totals.reserved.get()), (10, 40, 0));
    assert_eq!((totals.unknown, totals.remaining(Micros::new(200)).get()), (1, 150));

    begin_run(&store, &second, after_lease());
    claim(&store, &second, 2).unwrap();
    assert!(!lost.holds(&id).wait().unwrap());
    let late = record(&id, ExitClass::Fail, vec![session(1, Some(10)), session(2, Some(70))]);
    assert!(!lost.finish_attempt(&late, ResultExtra::default()).wait().unwrap());
    assert!(store.results(None, &ResultFilter::default()).wait().unwrap().is_empty());
    assert!(store.decided(&run("nightly")).wait().unwrap().is_empty());

    let passed = record(&attempt("nightly", "a", 2), ExitClass::Pass, vec![session(1, Some(7))]);
    assert!(store.acting_as(second).finish_attempt(&passed, ResultExtra::default()).wait().unwrap());
    let row = store.results(None, &ResultFilter::default()).wait().unwrap().remove(0);
    assert_eq!((row.attempt, row.exit_class, row.total_cost), (2, ExitClass::Pass, Some(Micros::new(87))));
    let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
    assert_eq!((totals.total.get(), totals.assumed.get(), totals.reserved.get(), totals.unknown), (87, 0, 0, 0));
    assert!(store.check(None).wait().unwrap().is_clean());
}

#[test]
fn a_lost_host_decides_nothing_even_while_its_cell_waits() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let first = elsewhere(1);
    begin_run(&store, &first, at(0));
    claim(&store, &first, 1).unwrap();
    give_up(&store, after_lease());
    let late = record(&attempt("nightly", "a", 1), ExitClass::Pass, vec![session(1, Some(10))]);
    assert!(!store.acting_as(first).finish_attempt(&late, ResultExtra::default()).wait().unwrap());
    assert!(store.decided(&run("nightly")).wait().unwrap().is_empty());
    assert_eq!(store.states(&run("nightly")).wait().unwrap()[0].state, "infrastructure_error");
}

#[test]
fn a_lost_host_keeps_its_numbers_off_an_attempt_that_another_one_goes_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (first, second) = (elsewhere(1), elsewhere(2));
    begin_run(&store, &first, at(0));
    claim(&store, &first, 1).unwrap();
    let id = attempt("nightly", "a", 1);
    let (lost, heir) = (store.acting_as(first), store.acting_as(second.clone()));
    lost.add_session(&id, &session(1, Some(10)), Some(Micros::new(10))).wait().unwrap();
    // As an adoption does it.
    let raw = rusqlite::Connection::open(crate::sample::database(&folder)).unwrap();
    raw.execute_batch("UPDATE attempts SET owner_pid = 2").unwrap();

    let mut again = session(2, Some(3));
    again.started_at = at(500);
    heir.add_session(&id, &again, Some(Micros::new(3))).wait().unwrap();
    lost.add_session(&id, &session(2, Some(40)), Some(Micros::new(40))).wait().unwrap();
    lost.add_transition(&id, &steps(Terminal::Completed)[6]).wait().unwrap();
    let late = record(&id, ExitClass::Fail, vec![session(1, Some(10)), session(2, Some(40))]);
    assert!(!lost.finish_attempt(&late, ResultExtra::default()).wait().unwrap());
    assert_eq!(store.sessions(&id).wait().unwrap()[1].cost, Some(Micros::new(3)));
    assert_eq!(store.transitions(&id).wait().unwrap().len(), 6);

    let passed = record(&id, ExitClass::Pass, vec![session(1, Some(10)), again]);
    assert!(heir.finish_attempt(&passed, ResultExtra::default()).wait().unwrap());
    assert!(heir.finish_attempt(&passed, ResultExtra::default()).wait().unwrap(), "again changes nothing");
    assert_eq!(store.decided(&run("nightly")).wait().unwrap()[&cell("a")].exit_class, ExitClass::Pass);
    let entries = store.ledger(&run("nightly")).wait().unwrap();
    let spent: Vec<_> =
        entries.iter().filter(|e| e.kind == LedgerKind::Spend).map(|e| e.amount.unwrap().get()).collect();
    assert_eq!(spent, [10, 3, 40], "each session is paid once, whoever held it");
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap().reserved, Micros::ZERO);
    assert!(store.check(None).wait().unwrap().is_clean());
}

#[test]
fn a_decided_cell_is_not_claimed_again_unless_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let first = attempt("nightly", "a", 1);
    store.begin_attempt(&start(&first)).wait().unwrap();
    store.finish_attempt(&record(&first, ExitClass::Fail, Vec::new()), ResultExtra::default()).wait().unwrap();
    let mut next = start(&attempt("nightly", "a", 2));
    let error = store.begin_attempt(&next).wait().expect_err("decided");
    assert!(matches!(error, StoreError::Claimed { present: 1, state: "decided", .. }), "{error}");
    next.again = true;
    store.begin_attempt(&next).wait().unwrap();
}

#[test]
fn a_claim_that_fails_takes_no_money_and_leaves_that_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (lost, living) = (elsewhere(1), elsewhere(2));
    begin_run(&store, &lost, at(0));
    store.believed_hosts(&run("nightly"), after_lease()).wait().unwrap();
    begin_run(&store, &living, after_lease());
    let id = attempt("nightly", "a", 1);
    let claim = |owner: &Owner| {
        let reservation = Reservation {
            attempt: id.clone(),
            estimate: Micros::new(50),
            cap: Some(Micros::new(200)),
            exempt: false,
            at: at(0),
        };
        let mut begin = start(&id);
        begin.owner = owner.clone();
        store.claim_attempt(&begin, Some(&reservation)).wait()
    };
    let reserved = || store.reserved(&id).wait().unwrap().get();
    let error = claim(&lost).expect_err("it was declared lost");
    assert!(matches!(error, StoreError::LeaseLost { .. }), "{error}");
    assert_eq!(reserved(), 0);
    assert_eq!(claim(&living).unwrap(), Admission::Admitted);
    assert!(claim(&lost).is_err());
    assert_eq!(reserved(), 50, "what the other one holds is its own");
    assert!(matches!(claim(&living).expect_err("begun"), StoreError::Claimed { present: 1, .. }));
    assert_eq!(reserved(), 50);
}

#[test]
fn a_claim_that_the_cap_refuses_begins_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    let reservation = Reservation {
        attempt: id.clone(),
        estimate: Micros::new(50),
        cap: Some(Micros::new(49)),
        exempt: false,
        at: at(0),
    };
    let answer = store.claim_attempt(&start(&id), Some(&reservation)).wait().unwrap();
    assert_eq!(answer, Admission::Refused { remaining: Micros::new(49), estimate: Micros::new(50) });
    assert!(store.attempts(&id.run, &id.cell).wait().unwrap().is_empty());
    assert_eq!(store.claim_attempt(&start(&id), None).wait().unwrap(), Admission::Admitted, "without a cap");
}

#[test]
fn an_attempt_that_began_to_execute_since_it_was_looked_at_may_have_spent_money() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    begin_run(&store, &elsewhere(1), at(0));
    let id = attempt("nightly", "a", 1);
    let mut begin = start(&id);
    begin.owner = elsewhere(1);
    store.begin_attempt(&begin).wait().unwrap();
    let all = steps(Terminal::Completed);
    for step in &all[..5] {
        store.add_transition(&id, step).wait().unwrap();
    }
    let believed = store.believed_hosts(&run("nightly"), after_lease()).wait().unwrap();
    let orphans =
        store.orphaned_attempts(&run("nightly"), move |owner| owner.is_vouched_for(&believed)).wait().unwrap();
    assert_eq!(orphans[0].state, refrain::domain::AttemptState::StartingAgent);
    // It was only suspended, and goes on until it learns that it was declared lost.
    store.acting_as(elsewhere(1)).add_transition(&id, &all[5]).wait().unwrap();
    assert!(store.mark_orphaned(&orphans[0], after_lease()).wait().unwrap());
    assert_eq!(store.attempts(&id.run, &id.cell).wait().unwrap()[0].cost, None);
    assert_eq!(store.ledger_totals(&id.run).wait().unwrap().unknown, 1);
}

#[test]
fn requests_to_cancel_only_grow() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let handle = store.begin_run(&meta("nightly", 1)).wait().unwrap();
    let host = store.hosts(&run("nightly")).wait().unwrap().remove(0);
    assert!(host.is_alive(at(0)) && host.cancel.is_none());
    assert_eq!(store.lease(&handle).wait().unwrap().cancel, None);
    let ask = |request| store.request_cancel(&handle, request, at(5)).wait().unwrap();
    assert_eq!(ask(CancelRequest::Stop), Some(CancelRequest::Stop));
    assert_eq!(ask(CancelRequest::Drain), Some(CancelRequest::Stop));
    assert_eq!(ask(CancelRequest::Kill), Some(CancelRequest::Kill));
    assert_eq!(store.lease(&handle).wait().unwrap().cancel, Some(CancelRequest::Kill));
    // A later start has not been asked for anything.
    let next = store.begin_run(&meta("nightly", 1)).wait().unwrap();
    assert_eq!(store.lease(&next).wait().unwrap().cancel, None);
}

/// What a person says about the first attempt of the cell `a`.
fn by_hand(cost: Option<i64>) -> Settlement {
    Settlement {
        attempt: attempt("nightly", "a", 1),
        cost: cost.map(Micros::new),
        exempt: false,
        by: "ada".to_owned(),
        reason: "the invoice".to_owned(),
        at: at(500),
    }
}

#[test]
fn a_debt_is_settled_by_hand_and_the_settlement_is_taken_back_when_the_attempt_tells_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    begin_run(&store, &elsewhere(1), at(0));
    claim(&store, &elsewhere(1), 1).unwrap();
    let left = || store.ledger_totals(&run("nightly")).wait().unwrap().remaining(Micros::new(200)).get();
    let known = || {
        let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
        (totals.total.get(), totals.billable_spent.get(), totals.assumed.get(), totals.unknown)
    };
    assert_eq!(store.settle(&by_hand(Some(20))).wait().unwrap(), Settled::UnderWay);
    assert_eq!(give_up(&store, after_lease()), 1);
    assert_eq!((left(), known()), (150, (0, 0, 50, 1)));
    let open = store.unsettled(&run("nightly")).wait().unwrap();
    assert_eq!((open.len(), open[0].unknown, open[0].assumed.get(), open[0].under_way), (1, 1, 50, false));

    // Only the cap is freed: what it cost stays unknown.
    assert_eq!(store.settle(&by_hand(None)).wait().unwrap(), Settled::Booked { freed: Micros::new(50) });
    assert_eq!((left(), known().0, known().2), (200, 0, 0));
    assert!(known().3 > 0, "it is still unknown");
    assert_eq!(store.settle(&by_hand(None)).wait().unwrap(), Settled::NothingOpen);
    // Then the figure is found.
    assert_eq!(store.settle(&by_hand(Some(20))).wait().unwrap(), Settled::Booked { freed: Micros::new(-20) });
    assert_eq!((left(), known()), (180, (20, 20, 0, 0)));
    assert_eq!(store.settle(&by_hand(Some(20))).wait().unwrap(), Settled::NothingOpen, "nothing is booked twice");
    let rows = store.attempts(&run("nightly"), &cell("a")).wait().unwrap();
    assert_eq!((rows[0].cost, rows[0].billable), (Some(Micros::new(20)), Some(Micros::new(20))));
    let notes: Vec<_> =
        store.settlements(&run("nightly")).wait().unwrap().into_iter().map(|entry| entry.note).collect();
    assert_eq!(notes, vec![Some("by ada: the invoice".to_owned()); 2]);

    // The host that was given up comes back with what it really spent.
    let lost = Store::open(store.path()).unwrap().acting_as(elsewhere(1));
    let late = record(&attempt("nightly", "a", 1), ExitClass::Pass, vec![session(1, Some(30))]);
    assert!(!lost.finish_attempt(&late, ResultExtra::default()).wait().unwrap());
    lost.finish_attempt(&late, ResultExtra::default()).wait().unwrap();
    assert_eq!((left(), known()), (170, (30, 30, 0, 0)));
    let newest = store.settlements(&run("nightly")).wait().unwrap().pop().unwrap();
    assert_eq!((newest.reference.as_str(), newest.amount), ("settlement withdrawn", Some(Micros::new(-20))));
    assert!(store.check(None).wait().unwrap().is_clean());
}
