//! Captured calls: what is under way, what ended, and what of it the ledger holds, whoever dies when.

use std::time::Duration;

use refrain::domain::{
    AttemptId, AttemptState, Attribution, Exchange, ExchangeEnd, ExitClass, Micros, ModelRole, SessionRecord, Trace,
    Transition, Usage, UsageSource,
};
use refrain::store::{CallSums, CapturedBodies, GivenUp, LedgerEntry, LedgerKind, Owner, Store};

use crate::sample::{at, attempt, meta, open, record, run, session, start};

fn exchange(id: &str, attempt: &AttemptId, session: u32, cost: Option<i64>) -> Exchange {
    Exchange {
        id: id.to_owned(),
        attribution: Attribution {
            run: attempt.run.clone(),
            cell: Some(attempt.cell.clone()),
            attempt: attempt.number,
            session,
            phase: Some("plan".to_owned()),
            role: Some(ModelRole::Implementation),
            trace: Trace::Agent,
        },
        number: 1,
        provider: "anthropic".to_owned(),
        api: "anthropic_messages".to_owned(),
        model_asked: Some("m".to_owned()),
        model_served: Some("m-1".to_owned()),
        status: Some(200),
        end: ExchangeEnd::Complete,
        usage: Usage { input: Some(10), output: Some(2), cache_read: Some(3), cache_write: Some(4), reasoning: None },
        cost: cost.map(Micros::new),
        retry: 0,
        started_at: at(2),
        first_byte: Some(Duration::from_micros(1_500)),
        duration: Duration::from_millis(20),
        request_bytes: 300,
        answer_bytes: 400,
        message: None,
    }
}

/// A store in which a host has begun an attempt; the host, and the attempt.
fn begun(folder: &tempfile::TempDir) -> (Store, Owner, AttemptId) {
    let (store, id) = (open(folder), attempt("nightly", "a__r1", 1));
    store.begin_run(&meta("nightly", 1)).wait().unwrap();
    let mut row = start(&id);
    row.owner = Owner { pid: 1, ..Owner::current() };
    store.begin_attempt(&row).wait().unwrap();
    (store.acting_as(row.owner.clone()), row.owner, id)
}

fn adopted(store: &Store, id: &AttemptId) -> Store {
    let orphan = store.orphaned_attempts(&id.run, |_| false).wait().unwrap().remove(0);
    let next = Owner { pid: 2, ..Owner::current() };
    store.adopt_attempt(&orphan, &next).wait().unwrap().expect("nobody was faster");
    store.acting_as(next)
}

fn executing() -> Transition {
    Transition { from: AttemptState::StartingAgent, to: AttemptState::Executing, at: at(2), reason: None }
}

fn entry(id: &AttemptId, reference: &str) -> LedgerEntry {
    LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference: reference.to_owned(),
        amount: None,
        billable: None,
        at: at(3),
        note: None,
    }
}

fn metered(index: u32, cost: Option<i64>) -> SessionRecord {
    SessionRecord { usage_source: Some(UsageSource::Gateway), ..session(index, cost) }
}

fn given_up(metered: bool, exempt: Vec<Option<ModelRole>>) -> GivenUp {
    GivenUp { reason: "its environment is gone".to_owned(), metered, exempt }
}

#[test]
fn a_call_is_there_before_it_ends_and_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    let whole = exchange("x1", &id, 1, Some(125));
    store.begin_call(&whole).wait().unwrap();
    let open = store.calls(&id.run, Some(&id.cell)).wait().unwrap().remove(0);
    assert!(open.under_way && open.exchange.cost.is_none() && open.exchange.usage.is_unknown(), "{open:?}");
    let bodies = CapturedBodies { request: b"asked".repeat(1000), answer: b"answered".to_vec(), cut: true };
    store.end_call(&whole, Some(bodies.clone())).wait().unwrap();
    let ended = store.calls(&id.run, None).wait().unwrap().remove(0);
    assert_eq!((ended.exchange, ended.under_way, ended.booked_as), (whole.clone(), false, None));
    assert_eq!(store.call_bodies("x1").wait().unwrap(), Some(bodies));
    assert_eq!(store.call_bodies("x2").wait().unwrap(), None);
    // What ended once has ended.
    store.end_call(&exchange("x1", &id, 1, Some(999)), None).wait().unwrap();
    assert_eq!(store.calls(&id.run, None).wait().unwrap()[0].exchange.cost, Some(Micros::new(125)));
    // One that was refused was never begun.
    store.end_call(&Exchange { end: ExchangeEnd::Refused, ..exchange("x2", &id, 1, Some(0)) }, None).wait().unwrap();
    assert_eq!(store.calls(&id.run, None).wait().unwrap().len(), 2);
}

#[test]
fn the_known_part_of_an_unknown_cost_is_on_the_books() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.end_call(&exchange("x1", &id, 1, Some(9_900)), None).wait().unwrap();
    let cut = Exchange { end: ExchangeEnd::ClientGone, ..exchange("x2", &id, 1, None) };
    store.end_call(&cut, None).wait().unwrap();
    let session = SessionRecord { cost_at_least: Some(Micros::new(9_900)), ..metered(1, None) };
    for _ in 0..2 {
        store.add_session(&id, &session, None).wait().unwrap();
        let entries = store.ledger(&id.run).wait().unwrap();
        let spends: Vec<_> = entries.iter().filter(|entry| entry.kind == LedgerKind::Spend).collect();
        let known: Vec<_> = spends.iter().filter_map(|entry| entry.amount).collect();
        assert_eq!((spends.len(), known), (2, vec![Micros::new(9_900)]), "{spends:?}");
    }
    let allowance = store.allowance(&id).wait().unwrap();
    assert_eq!((allowance.totals.billable_spent, allowance.billed), (Micros::new(9_900), Micros::new(9_900)));
    let later = AttemptId { number: id.number + 1, ..id.clone() };
    assert_eq!(store.cell_spent_beside(&later).wait().unwrap(), Micros::new(9_900));
    assert_eq!(store.cell_spent_beside(&id).wait().unwrap(), Micros::ZERO);
}

#[test]
fn a_session_is_booked_with_its_calls_and_a_check_sees_a_difference() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.end_call(&exchange("x1", &id, 1, Some(100)), None).wait().unwrap();
    store.end_call(&exchange("x2", &id, 2, Some(50)), None).wait().unwrap();
    store.add_session(&id, &metered(1, Some(100)), Some(Micros::new(100))).wait().unwrap();
    let booked: Vec<_> = store.calls(&id.run, None).wait().unwrap().into_iter().map(|call| call.booked_as).collect();
    assert_eq!(booked, [Some("s1".to_owned()), None]);
    assert!(store.check(None).wait().unwrap().is_clean());
    store.add_session(&id, &metered(2, Some(40)), Some(Micros::new(40))).wait().unwrap();
    let report = store.check(None).wait().unwrap();
    assert_eq!(report.money, ["the calls of nightly/a__r1/a1, session 2"]);
}

#[test]
fn a_start_that_was_cut_off_costs_what_its_ended_calls_cost() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.end_call(&exchange("x1", &id, 1, Some(100)), None).wait().unwrap();
    store.end_call(&exchange("x2", &id, 1, Some(20)), None).wait().unwrap();
    let next = adopted(&store, &id);
    let sums = next.book_cut_off(&entry(&id, "s1 cut off 1"), 1, false).wait().unwrap();
    assert!(sums.is_exact());
    assert_eq!((sums.calls, sums.cost, sums.usage.input), (2, Some(Micros::new(120)), Some(20)));
    let totals = next.ledger_totals(&id.run).wait().unwrap();
    assert_eq!((totals.total, totals.billable_spent, totals.unknown), (Micros::new(120), Micros::new(120), 0));
    // The session is held anew, cut off again, and told again: each start has its own calls.
    next.begin_call(&exchange("x3", &id, 1, None)).wait().unwrap();
    next.end_call(&exchange("x4", &id, 1, Some(7)), None).wait().unwrap();
    let orphan = next.orphaned_attempts(&id.run, |_| false).wait().unwrap().remove(0);
    let third = Owner { pid: 3, ..Owner::current() };
    next.adopt_attempt(&orphan, &third).wait().unwrap().expect("adopted");
    let third = next.acting_as(third);
    assert_eq!(third.book_cut_off(&entry(&id, "s1 cut off 1"), 1, false).wait().unwrap(), sums, "once for all");
    let second = third.book_cut_off(&entry(&id, "s1 cut off 2"), 1, false).wait().unwrap();
    assert_eq!((second.calls, second.open, second.cost, second.known_cost), (2, 1, None, Micros::new(7)));
    let lost = third.calls(&id.run, None).wait().unwrap().into_iter().find(|call| call.exchange.id == "x3").unwrap();
    assert_eq!((lost.under_way, lost.exchange.end), (false, ExchangeEnd::Lost));
    let totals = third.ledger_totals(&id.run).wait().unwrap();
    assert_eq!((totals.total, totals.unknown), (Micros::new(127), 1), "a lower bound, and said to be one");
    // Its own calls are the session's.
    third.end_call(&exchange("x5", &id, 1, Some(30)), None).wait().unwrap();
    third.add_session(&id, &metered(1, Some(30)), Some(Micros::new(30))).wait().unwrap();
    assert_eq!(third.ledger_totals(&id.run).wait().unwrap().total, Micros::new(157));
    assert!(third.check(None).wait().unwrap().is_clean());
}

#[test]
fn without_calls_a_start_that_was_cut_off_costs_nobody_knows_what() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    let next = adopted(&store, &id);
    assert_eq!(next.book_cut_off(&entry(&id, "s1 cut off 1"), 1, true).wait().unwrap(), CallSums::NONE);
    let booked = next.ledger(&id.run).wait().unwrap().remove(0);
    assert_eq!((booked.amount, booked.billable), (None, Some(Micros::ZERO)), "exempt: nothing off the budget");
}

#[test]
fn a_session_that_had_finished_takes_the_calls_of_its_dead_host() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.end_call(&exchange("x1", &id, 1, Some(100)), None).wait().unwrap();
    let next = adopted(&store, &id);
    assert_eq!(next.adopt_calls(&id, 1).wait().unwrap().cost, Some(Micros::new(100)));
    next.add_session(&id, &metered(1, Some(100)), Some(Micros::new(100))).wait().unwrap();
    assert_eq!(next.calls(&id.run, None).wait().unwrap()[0].booked_as.as_deref(), Some("s1"));
    assert_eq!(next.ledger_totals(&id.run).wait().unwrap().total, Micros::new(100));
    assert!(next.check(None).wait().unwrap().is_clean());
}

#[test]
fn a_host_that_was_believed_dead_books_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.end_call(&exchange("x1", &id, 1, Some(100)), None).wait().unwrap();
    let next = adopted(&store, &id);
    next.book_cut_off(&entry(&id, "s1 cut off 1"), 1, false).wait().unwrap();
    // It lives, and its session goes on and ends.
    store.end_call(&exchange("x2", &id, 1, Some(11)), None).wait().unwrap();
    store.add_session(&id, &metered(1, Some(111)), Some(Micros::new(111))).wait().unwrap();
    assert_eq!(next.ledger_totals(&id.run).wait().unwrap().total, Micros::new(111));
    // The one that took over holds the session again.
    next.end_call(&exchange("x3", &id, 1, Some(5)), None).wait().unwrap();
    next.add_session(&id, &metered(1, Some(5)), Some(Micros::new(5))).wait().unwrap();
    assert_eq!(next.ledger_totals(&id.run).wait().unwrap().total, Micros::new(116));
    assert!(next.check(None).wait().unwrap().is_clean());
}

#[test]
fn an_attempt_that_is_given_up_costs_what_the_gateway_saw_where_that_is_all() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.add_transition(&id, &executing()).wait().unwrap();
    store.end_call(&exchange("x1", &id, 1, Some(100)), None).wait().unwrap();
    store.add_session(&id, &metered(1, Some(100)), Some(Micros::new(100))).wait().unwrap();
    store.end_call(&exchange("x2", &id, 2, Some(11)), None).wait().unwrap();
    let orphan = store.orphaned_attempts(&run("nightly"), |_| false).wait().unwrap().remove(0);
    store.give_up_orphan(&orphan, &given_up(true, Vec::new()), at(9)).wait().unwrap();
    let totals = store.ledger_totals(&id.run).wait().unwrap();
    assert_eq!((totals.total, totals.unknown, totals.assumed), (Micros::new(111), 0, Micros::ZERO));
    let row = store.attempts(&id.run, &id.cell).wait().unwrap().remove(0);
    assert_eq!((row.cost, row.billable), (Some(Micros::new(111)), Some(Micros::new(111))));
    assert!(store.check(None).wait().unwrap().is_clean());
}

#[test]
fn an_attempt_that_is_given_up_leaves_what_was_seen_on_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.add_transition(&id, &executing()).wait().unwrap();
    store.end_call(&exchange("x1", &id, 1, Some(100)), None).wait().unwrap();
    store.begin_call(&exchange("x2", &id, 1, None)).wait().unwrap();
    let orphan = store.orphaned_attempts(&run("nightly"), |_| false).wait().unwrap().remove(0);
    store.give_up_orphan(&orphan, &given_up(true, Vec::new()), at(9)).wait().unwrap();
    let totals = store.ledger_totals(&id.run).wait().unwrap();
    assert_eq!((totals.total, totals.billable_spent, totals.unknown), (Micros::new(100), Micros::new(100), 1));
    assert!(store.calls(&id.run, None).wait().unwrap().iter().all(|call| !call.under_way));
    // Its record comes after all: then everything is known, and nothing counts twice.
    let whole = record(&id, ExitClass::Pass, vec![metered(1, Some(130))]);
    store.finish_attempt(&whole, refrain::store::ResultExtra::default()).wait().unwrap();
    let totals = store.ledger_totals(&id.run).wait().unwrap();
    assert_eq!((totals.total, totals.unknown), (Micros::new(130), 0));
}

#[test]
fn an_exempt_attempt_that_is_given_up_costs_the_budget_nothing_before_and_after_its_host_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.add_transition(&id, &executing()).wait().unwrap();
    for (call, cost) in [("x1", 9_000), ("x2", 4_500)] {
        store.end_call(&exchange(call, &id, 1, Some(cost)), None).wait().unwrap();
    }
    let orphan = store.orphaned_attempts(&run("nightly"), |_| false).wait().unwrap().remove(0);
    let given_up = store.give_up_orphan(&orphan, &given_up(true, vec![Some(ModelRole::Implementation)]), at(9));
    assert!(given_up.wait().unwrap());
    let spent = || {
        let totals = store.ledger_totals(&id.run).wait().unwrap();
        (totals.total.get(), totals.billable_spent.get(), totals.unknown)
    };
    assert_eq!(spent(), (13_500, 0, 0));
    let row = store.attempts(&id.run, &id.cell).wait().unwrap().remove(0);
    assert_eq!((row.cost, row.billable), (Some(Micros::new(13_500)), Some(Micros::ZERO)));
    // It lives, and its session ends.
    let session = SessionRecord { exempt: Some(true), ..metered(1, Some(14_000)) };
    store.add_session(&id, &session, Some(Micros::ZERO)).wait().unwrap();
    assert_eq!(spent(), (14_000, 0, 0));
    assert!(store.check(None).wait().unwrap().is_clean());
}

#[test]
fn of_an_exempt_cell_that_is_given_up_only_the_sessions_count_whose_model_a_script_has_named() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _, id) = begun(&folder);
    store.add_transition(&id, &executing()).wait().unwrap();
    store.end_call(&exchange("x1", &id, 1, Some(100)), None).wait().unwrap();
    let mut named = exchange("x2", &id, 2, Some(7));
    named.attribution.role = None;
    store.end_call(&named, None).wait().unwrap();
    let orphan = store.orphaned_attempts(&run("nightly"), |_| false).wait().unwrap().remove(0);
    store.give_up_orphan(&orphan, &given_up(true, vec![Some(ModelRole::Implementation)]), at(9)).wait().unwrap();
    let spent = || {
        let totals = store.ledger_totals(&id.run).wait().unwrap();
        (totals.total.get(), totals.billable_spent.get(), totals.unknown)
    };
    assert_eq!(spent(), (107, 7, 0));
    // What was believed to count turns out to be exempt as well.
    let session = SessionRecord { exempt: Some(true), ..metered(2, Some(7)) };
    store.add_session(&id, &session, Some(Micros::ZERO)).wait().unwrap();
    assert_eq!(spent(), (107, 0, 0));
    assert!(store.check(None).wait().unwrap().is_clean());
}
