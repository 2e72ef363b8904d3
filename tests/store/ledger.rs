//! Money: both halves of the gate, settling, and several hands on one ledger.

use refrain::domain::session::SessionEnd;
use refrain::domain::{ExitClass, Micros, SessionRecord, Terminal};
use refrain::store::{Admission, LedgerEntry, LedgerKind, LedgerTotals, Reservation, ResultExtra, Settled, Settlement};

use crate::sample::{at, attempt, open, record, run, session, start, steps};

fn ask(cell: &str, estimate: i64, cap: i64) -> Reservation {
    Reservation {
        attempt: attempt("nightly", cell, 1),
        estimate: Micros::new(estimate),
        cap: Some(Micros::new(cap)),
        exempt: false,
        at: at(0),
    }
}

fn totals(billable_spent: i64, reserved: i64, total: i64, unknown: usize) -> LedgerTotals {
    LedgerTotals {
        assumed: Micros::ZERO,
        billable_spent: Micros::new(billable_spent),
        reserved: Micros::new(reserved),
        total: Micros::new(total),
        unknown,
    }
}

#[test]
fn both_halves_of_the_gate_hold() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    assert_eq!(store.reserve(&ask("a", 850_000, 1_000_000)).wait().unwrap(), Admission::Admitted);
    // 85 cents do not fit a second time, although something remains.
    let refusal = store.reserve(&ask("b", 850_000, 1_000_000)).wait().unwrap();
    assert_eq!(refusal.to_string(), "Budget cap reached ($0.1500 remaining < $0.8500 estimated)");
    // What just fits is admitted; then nothing remains, and an estimate of nothing is no way in.
    assert_eq!(store.reserve(&ask("c", 150_000, 1_000_000)).wait().unwrap(), Admission::Admitted);
    assert!(matches!(store.reserve(&ask("d", 0, 1_000_000)).wait().unwrap(), Admission::Refused { .. }));
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap(), totals(0, 1_000_000, 0, 0));
}

#[test]
fn a_cap_of_zero_is_a_cap_and_exemption_is_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    assert!(matches!(store.reserve(&ask("a", 0, 0)).wait().unwrap(), Admission::Refused { .. }));
    let exempt = Reservation { exempt: true, ..ask("b", 5, 0) };
    assert_eq!(store.reserve(&exempt).wait().unwrap(), Admission::Admitted);
    let uncapped = Reservation { cap: None, ..ask("c", 7, 0) };
    assert_eq!(store.reserve(&uncapped).wait().unwrap(), Admission::Admitted);
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap(), totals(0, 7, 0, 0));
}

#[test]
fn sessions_use_up_the_reservation_and_the_end_releases_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.reserve(&ask("a", 100, 1_000)).wait().unwrap();
    store.reserve(&ask("a", 100, 1_000)).wait().unwrap();
    store.begin_attempt(&start(&id)).wait().unwrap();
    store.add_session(&id, &session(1, Some(30)), Some(Micros::new(30))).wait().unwrap();
    store.add_session(&id, &session(1, Some(30)), Some(Micros::new(30))).wait().unwrap();
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap(), totals(30, 70, 30, 0));
    let finished = record(&id, ExitClass::Fail, vec![session(1, Some(30)), session(2, Some(20))]);
    for _ in 0..2 {
        store.finish_attempt(&finished, ResultExtra::default()).wait().unwrap();
        assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap(), totals(50, 0, 50, 0));
    }
}

#[test]
fn what_an_attempt_may_spend_is_the_same_before_and_after_its_session_is_booked() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let (id, cap) = (attempt("nightly", "a", 1), Micros::new(1_000));
    store.begin_attempt(&start(&id)).wait().unwrap();
    store.reserve(&ask("b", 200, 1_000)).wait().unwrap();
    let limit = || store.allowance(&id).wait().unwrap().limit(cap);
    assert_eq!(limit(), Micros::new(800));
    for (index, cost) in [(1, 60), (2, 500)] {
        let session = session(index, Some(cost));
        store.add_session(&id, &session, session.cost).wait().unwrap();
        assert_eq!(limit(), Micros::new(800), "what others hold is theirs, what it has spent is its own");
    }
    // Another attempt's spending is gone for this one too.
    let other = attempt("nightly", "b", 1);
    store.begin_attempt(&start(&other)).wait().unwrap();
    store.add_session(&other, &session(1, Some(250)), Some(Micros::new(250))).wait().unwrap();
    assert_eq!(limit(), Micros::new(750));
}

#[test]
fn overspending_is_debt_that_closes_the_gate() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.reserve(&ask("a", 100, 100)).wait().unwrap();
    store
        .finish_attempt(&record(&id, ExitClass::Pass, vec![session(1, Some(170))]), ResultExtra::default())
        .wait()
        .unwrap();
    drop(store);
    let refusal = open(&folder).reserve(&ask("b", 0, 100)).wait().unwrap();
    assert_eq!(refusal, Admission::Refused { remaining: Micros::new(-70), estimate: Micros::ZERO });
}

#[test]
fn exempt_and_unknown_costs_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let exempt = attempt("nightly", "exempt", 1);
    let mut finished = record(&exempt, ExitClass::Pass, vec![session(1, Some(40))]);
    finished.billable_cost = Some(Micros::ZERO);
    store.finish_attempt(&finished, ResultExtra::default()).wait().unwrap();
    let unknown = attempt("nightly", "unknown", 1);
    let finished = record(&unknown, ExitClass::Pass, vec![session(1, None), session(2, Some(5))]);
    store.finish_attempt(&finished, ResultExtra::default()).wait().unwrap();
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap(), totals(5, 0, 45, 1));
    // A meter tells later what it cost.
    store.add_session(&unknown, &session(1, Some(9)), Some(Micros::new(9))).wait().unwrap();
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap(), totals(14, 0, 54, 0));
    // What is known does not change.
    store.add_session(&unknown, &session(1, Some(99)), Some(Micros::new(99))).wait().unwrap();
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap(), totals(14, 0, 54, 0));
    assert_eq!(store.check(None).wait().unwrap().money, ["nightly/unknown/a1, session 1"]);
}

#[test]
fn the_reservation_of_an_attempt_of_unknown_cost_counts_as_spent() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.reserve(&ask("a", 50, 1_000)).wait().unwrap();
    store.begin_attempt(&start(&id)).wait().unwrap();
    store.add_session(&id, &session(1, None), None).wait().unwrap();
    store.add_session(&id, &session(2, Some(20)), Some(Micros::new(20))).wait().unwrap();
    let finished = record(&id, ExitClass::Fail, vec![session(1, None), session(2, Some(20))]);
    let sums = || {
        let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
        (totals.billable_spent.get(), totals.assumed.get(), totals.reserved.get(), totals.remaining(Micros::new(1_000)))
    };
    for _ in 0..2 {
        store.finish_attempt(&finished, ResultExtra::default()).wait().unwrap();
        assert_eq!(sums(), (20, 30, 0, Micros::new(950)));
    }
    let open = store.unsettled(&run("nightly")).wait().unwrap();
    assert_eq!((open.len(), open[0].unknown, open[0].assumed.get(), open[0].under_way), (1, 1, 30, false));
    // Freed by hand, and then the meter tells after all: it counts with what it cost.
    let settlement = Settlement {
        attempt: id.clone(),
        cost: None,
        exempt: false,
        by: "ada".to_owned(),
        reason: "the invoice".to_owned(),
        at: at(30),
    };
    assert_eq!(store.settle(&settlement).wait().unwrap(), Settled::Booked { freed: Micros::new(30) });
    assert_eq!(sums(), (20, 0, 0, Micros::new(980)));
    let unknown = store.ledger_totals(&run("nightly")).wait().unwrap().unknown;
    assert_eq!(unknown, 1, "one session is, whatever stands for it");
    store.add_session(&id, &session(1, Some(9)), Some(Micros::new(9))).wait().unwrap();
    assert_eq!(sums(), (29, 0, 0, Micros::new(971)));
    assert_eq!(store.ledger_totals(&run("nightly")).wait().unwrap().unknown, 0);
}

#[test]
fn a_reservation_is_freed_where_what_is_unknown_is_nobodys_or_was_never_begun() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let exempt = SessionRecord { exempt: Some(true), ..session(1, None) };
    let silent =
        SessionRecord { end: SessionEnd::NotStarted { message: "exit code 127".to_owned() }, ..session(1, None) };
    for (cell, unknown) in [("exempt", exempt), ("silent", silent)] {
        store.reserve(&ask(cell, 50, 1_000)).wait().unwrap();
        let finished = record(&attempt("nightly", cell, 1), ExitClass::RetryableKill, vec![unknown]);
        store.finish_attempt(&finished, ResultExtra::default()).wait().unwrap();
        let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
        assert_eq!((totals.assumed, totals.reserved), (Micros::ZERO, Micros::ZERO), "{cell}");
    }
}

#[test]
fn a_late_record_that_leaves_something_unknown_does_not_clear_the_debt() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.reserve(&ask("a", 50, 1_000)).wait().unwrap();
    store.begin_attempt(&start(&id)).wait().unwrap();
    for step in &steps(Terminal::Completed)[..6] {
        store.add_transition(&id, step).wait().unwrap();
    }
    let orphan = store.orphaned_attempts(&run("nightly"), |_| false).wait().unwrap().remove(0);
    assert!(store.mark_orphaned(&orphan, at(9)).wait().unwrap());
    let assumed = || store.ledger_totals(&run("nightly")).wait().unwrap().assumed.get();
    assert_eq!(assumed(), 50);
    let finished = |cost| record(&id, ExitClass::Fail, vec![session(1, cost)]);
    store.finish_attempt(&finished(None), ResultExtra::default()).wait().unwrap();
    assert_eq!(assumed(), 50);
    store.finish_attempt(&finished(Some(7)), ResultExtra::default()).wait().unwrap();
    assert_eq!(assumed(), 0);
}

#[test]
fn estimates_are_made_from_attempts_that_an_agent_has_worked_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let ends = [
        ("completed", Terminal::Completed, 100),
        ("failed", Terminal::Failed, 20),
        ("timeout", Terminal::Timeout, 3),
        ("cancelled", Terminal::Cancelled, 1_000),
        ("infrastructure", Terminal::InfrastructureError, 1_000),
        ("configuration", Terminal::InvalidConfiguration, 1_000),
        ("evaluation", Terminal::EvaluationError, 1_000),
    ];
    for (cell, terminal, cost) in ends {
        let mut ended = record(&attempt("nightly", cell, 1), ExitClass::Fail, vec![session(1, Some(cost))]);
        ended.terminal = terminal;
        store.finish_attempt(&ended, ResultExtra::default()).wait().unwrap();
    }
    // Without a session nothing was tried, and without a cost nothing is known.
    for (cell, sessions) in [("none", Vec::new()), ("unknown", vec![session(1, None)])] {
        let ended = record(&attempt("nightly", cell, 1), ExitClass::Fail, sessions);
        store.finish_attempt(&ended, ResultExtra::default()).wait().unwrap();
    }
    // Of a cell that was tried again the last attempt counts alone: each reserves for itself.
    for (number, exit, cost) in [(1, ExitClass::RetryableKill, 500), (2, ExitClass::Pass, 9)] {
        let ended = record(&attempt("nightly", "again", number), exit, vec![session(1, Some(cost))]);
        store.finish_attempt(&ended, ResultExtra::default()).wait().unwrap();
    }
    let mut found = store.cost_history("model-a", "fix").wait().unwrap();
    found.sort();
    assert_eq!(found, [3, 9, 20, 100].map(Micros::new));
    assert!(store.cost_history("model-b", "fix").wait().unwrap().is_empty());
}

#[test]
fn two_stores_never_promise_the_same_money() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    let admitted: usize = std::thread::scope(|scope| {
        let hands: Vec<_> = (0..4)
            .map(|hand| {
                let store = open(&folder);
                scope.spawn(move || {
                    let answers: Vec<_> = (0..25)
                        .map(|i| store.reserve(&ask(&format!("{hand}-{i}"), 10, 155)))
                        .map(|ticket| ticket.wait().unwrap())
                        .collect();
                    answers.into_iter().filter(|answer| *answer == Admission::Admitted).count()
                })
            })
            .collect();
        hands.into_iter().map(|hand| hand.join().unwrap()).sum()
    });
    assert_eq!(admitted, 15);
    assert_eq!(open(&folder).ledger_totals(&run("nightly")).wait().unwrap().reserved, Micros::new(150));
}

#[test]
fn a_policy_decides_under_the_lock() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let entry = |cell: &str, billable| LedgerEntry {
        attempt: attempt("nightly", cell, 1),
        kind: LedgerKind::Spend,
        reference: "judge".to_owned(),
        amount: Some(Micros::new(60)),
        billable,
        at: at(3),
        note: Some("rubric 2".to_owned()),
    };
    store.ledger_append(&entry("a", Some(Micros::new(60)))).wait().unwrap();
    let next = entry("b", None);
    let booked = store
        .transact_ledger(&run("nightly"), move |seen| {
            if seen.billable_spent == Micros::new(60) { vec![next.clone()] } else { Vec::new() }
        })
        .wait()
        .unwrap();
    assert_eq!(booked, [entry("b", None)]);
    assert_eq!(store.ledger(&run("nightly")).wait().unwrap(), [entry("a", Some(Micros::new(60))), entry("b", None)]);
    // Runs do not see each other's money.
    assert_eq!(store.ledger_totals(&run("other")).wait().unwrap(), LedgerTotals::default());
}

#[test]
fn entries_are_never_changed_or_removed_and_wrong_sums_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let finished = record(&attempt("nightly", "a", 1), ExitClass::Pass, vec![session(1, Some(7))]);
    store.finish_attempt(&finished, ResultExtra::default()).wait().unwrap();
    let raw = rusqlite::Connection::open(crate::sample::database(&folder)).unwrap();
    for change in ["UPDATE ledger SET amount_micros = 1", "DELETE FROM ledger"] {
        let error = raw.execute_batch(change).expect_err("refused").to_string();
        assert!(error.contains("a ledger entry is never"), "{error}");
    }
    assert!(store.check(None).wait().unwrap().is_clean());
    raw.execute_batch("UPDATE ledger_sums SET billable_micros = 0").unwrap();
    assert_eq!(store.check(None).wait().unwrap().money, ["the sums of run nightly"]);
}
