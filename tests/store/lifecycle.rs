//! Claims, steps, orphans, journal and events.

use refrain::domain::{
    AttemptState, ErrorClass, Event, EventKind, ExitClass, Micros, Terminal, Transition, event::EVENT_SCHEMA,
};
use refrain::store::{GivenUp, JournalEntry, Owner, Reservation, ResultExtra, Store, StoreError};

use crate::sample::{at, attempt, cell, meta, open, record, run, session, start, steps};

#[test]
fn a_cell_has_one_attempt_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (open(&folder), open(&folder));
    let first = attempt("nightly", "a", 1);
    store.begin_attempt(&start(&first)).wait().unwrap();
    for claim in [&first, &attempt("nightly", "a", 2)] {
        let error = other.begin_attempt(&start(claim)).wait().expect_err("claimed");
        assert!(matches!(error, StoreError::Claimed { present: 1, state: "under way", .. }), "{error}");
    }
    // The same cell of another run is another cell.
    other.begin_attempt(&start(&attempt("weekly", "a", 1))).wait().unwrap();
    store.finish_attempt(&record(&first, ExitClass::RetryableKill, Vec::new()), ResultExtra::default()).wait().unwrap();
    let error = other.begin_attempt(&start(&first)).wait().expect_err("numbers are never used again");
    assert!(matches!(error, StoreError::Claimed { present: 1, state: "ended", .. }), "{error}");
    other.begin_attempt(&start(&attempt("nightly", "a", 2))).wait().unwrap();
    assert_eq!(store.last_attempts(&run("nightly")).wait().unwrap()[&cell("a")], 2);
}

#[test]
fn one_bad_operation_fails_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    // Sent without waiting, so that they meet in one group.
    let claims: Vec<_> = (0..200)
        .map(|number| {
            let id = attempt("nightly", &format!("cell-{}", number / 2), 1);
            store.begin_attempt(&start(&id))
        })
        .collect();
    let outcomes: Vec<bool> = claims.into_iter().map(|claim| claim.wait().is_ok()).collect();
    assert_eq!(outcomes, [true, false].repeat(100));
    assert_eq!(store.last_attempts(&run("nightly")).wait().unwrap().len(), 100);
}

#[test]
fn steps_are_logged_and_shown_as_the_cells_state() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.begin_attempt(&start(&id)).wait().unwrap();
    let log = steps(Terminal::Completed);
    for step in &log[..6] {
        store.add_transition(&id, step).wait().unwrap();
    }
    assert_eq!(store.states(&run("nightly")).wait().unwrap()[0].state, "executing");
    assert!(store.decided(&run("nightly")).wait().unwrap().is_empty());
    // The record holds all of them; those that are on record are not doubled.
    store.finish_attempt(&record(&id, ExitClass::Fail, Vec::new()), ResultExtra::default()).wait().unwrap();
    assert_eq!(store.transitions(&id).wait().unwrap(), log);
    assert_eq!(store.states(&run("nightly")).wait().unwrap()[0].state, "completed");
}

#[test]
fn a_late_step_does_not_reopen_a_cell() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.begin_attempt(&start(&id)).wait().unwrap();
    store.finish_attempt(&record(&id, ExitClass::Pass, Vec::new()), ResultExtra::default()).wait().unwrap();
    let late = Transition { from: AttemptState::Executing, to: AttemptState::Collecting, at: at(30), reason: None };
    store.add_transition(&id, &late).wait().unwrap();
    assert_eq!(store.states(&run("nightly")).wait().unwrap()[0].state, "completed");
}

fn orphan_in(store: &Store, name: &str, steps_taken: usize) {
    let id = attempt("nightly", name, 1);
    let reservation =
        Reservation { attempt: id.clone(), estimate: Micros::new(10), cap: None, exempt: false, at: at(0) };
    store.reserve(&reservation).wait().unwrap();
    let mut begin = start(&id);
    begin.owner.started += 1;
    store.begin_attempt(&begin).wait().unwrap();
    for step in &steps(Terminal::Completed)[..steps_taken] {
        store.add_transition(&id, step).wait().unwrap();
    }
}

#[test]
fn orphans_are_found_and_their_cells_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store.begin_run(&meta("nightly", 3)).wait().unwrap();
    orphan_in(&store, "early", 2);
    orphan_in(&store, "late", 6);
    store.begin_attempt(&start(&attempt("nightly", "mine", 1))).wait().unwrap();

    let orphans = store.orphaned_attempts(&run("nightly"), Owner::is_alive).wait().unwrap();
    let found: Vec<_> = orphans.iter().map(|orphan| (orphan.id.cell.as_str(), orphan.state)).collect();
    assert_eq!(found, [("early", AttemptState::Validating), ("late", AttemptState::Executing)]);
    for orphan in &orphans {
        assert!(store.mark_orphaned(orphan, at(60)).wait().unwrap());
        assert!(!store.mark_orphaned(orphan, at(61)).wait().unwrap(), "once");
    }
    assert!(store.orphaned_attempts(&run("nightly"), Owner::is_alive).wait().unwrap().is_empty());

    // Nothing was spent before the first session could start; after it nobody knows, so the promise becomes a debt.
    let early = &store.attempts(&run("nightly"), &cell("early")).wait().unwrap()[0];
    assert_eq!(
        (early.cost, early.orphaned, early.error_class),
        (Some(Micros::ZERO), true, Some(ErrorClass::Infrastructure))
    );
    let late = &store.attempts(&run("nightly"), &cell("late")).wait().unwrap()[0];
    assert_eq!((late.cost, late.terminal), (None, Some(Terminal::InfrastructureError)));
    let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
    assert_eq!((totals.reserved, totals.assumed, totals.billable_spent), (Micros::ZERO, Micros::new(10), Micros::ZERO));
    assert_eq!((totals.unknown, totals.remaining(Micros::new(15))), (1, Micros::new(5)));

    assert!(store.decided(&run("nightly")).wait().unwrap().is_empty(), "they are run again");
    store.begin_attempt(&start(&attempt("nightly", "late", 2))).wait().unwrap();
}

#[test]
fn of_several_hosts_one_adopts_an_orphan_and_whoever_gives_it_up_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let (store, other) = (open(&folder), open(&folder));
    let given_up = |reason: &str| GivenUp { reason: reason.to_owned(), ..GivenUp::default() };
    orphan_in(&store, "late", 6);
    let id = attempt("nightly", "late", 1);
    assert_eq!(store.attempts_under_way().wait().unwrap(), std::slice::from_ref(&id));
    let orphan = store.orphaned_attempts(&run("nightly"), Owner::is_alive).wait().unwrap().remove(0);
    let own = store.adopt_attempt(&orphan, &Owner::current()).wait().unwrap().expect("the first one gets it");
    assert_eq!(own.owner, Owner::current());
    assert_eq!(other.adopt_attempt(&orphan, &Owner::current()).wait().unwrap(), None);
    assert!(!other.give_up_orphan(&orphan, &given_up("too late"), at(60)).wait().unwrap());
    assert!(store.orphaned_attempts(&run("nightly"), Owner::is_alive).wait().unwrap().is_empty());

    assert!(store.give_up_orphan(&own, &given_up("its environment is gone"), at(60)).wait().unwrap());
    let row = &store.attempts(&run("nightly"), &cell("late")).wait().unwrap()[0];
    let why = "the host that ran this attempt is gone; its environment is gone";
    assert_eq!((row.error_message.as_deref(), row.cost, row.orphaned), (Some(why), None, true));
    assert_eq!(store.adopt_attempt(&own, &Owner::current()).wait().unwrap(), None, "it has ended");
    assert!(store.attempts_under_way().wait().unwrap().is_empty());
}

#[test]
fn an_orphan_that_comes_back_does_not_overwrite_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    orphan_in(&store, "a", 6);
    let orphan = store.orphaned_attempts(&run("nightly"), Owner::is_alive).wait().unwrap().remove(0);
    store.mark_orphaned(&orphan, at(60)).wait().unwrap();
    let second = attempt("nightly", "a", 2);
    store.begin_attempt(&start(&second)).wait().unwrap();
    let passed = record(&second, ExitClass::Pass, vec![session(1, Some(7))]);
    store.finish_attempt(&passed, ResultExtra::default()).wait().unwrap();
    let row = store.results(None, &refrain::store::ResultFilter::default()).wait().unwrap().remove(0);
    assert_eq!((row.attempt, row.total_cost), (2, None), "what the orphan spent is unknown");

    let late = record(&orphan.id, ExitClass::Fail, vec![session(1, Some(30))]);
    store.finish_attempt(&late, ResultExtra::default()).wait().unwrap();
    let row = store.results(None, &refrain::store::ResultFilter::default()).wait().unwrap().remove(0);
    assert_eq!((row.attempt, row.exit_class, row.total_cost), (2, ExitClass::Pass, Some(Micros::new(37))));
    assert_eq!(store.decided(&run("nightly")).wait().unwrap()[&cell("a")].attempt, 2);
}

#[test]
fn a_journal_keeps_its_answers() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.begin_attempt(&start(&id)).wait().unwrap();
    let entry = |seq, answer: Option<&str>| JournalEntry {
        seq,
        call: "session".to_owned(),
        args_hash: format!("hash {seq}"),
        at: at(5),
        answer: answer.map(str::to_owned),
    };
    store.journal_append(&id, &entry(0, None)).wait().unwrap();
    assert_eq!(store.journal(&id).wait().unwrap(), [entry(0, None)]);
    store.journal_append(&id, &entry(0, Some("{\"answer\":\"unit\"}"))).wait().unwrap();
    store.journal_append(&id, &entry(0, Some("{\"answer\":\"missing\"}"))).wait().unwrap();
    store.journal_append(&id, &entry(1, Some("[1]"))).wait().unwrap();
    let kept = store.journal(&id).wait().unwrap();
    assert_eq!(kept, [entry(0, Some("{\"answer\":\"unit\"}")), entry(1, Some("[1]"))]);
}

#[test]
fn events_of_every_start_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let event = |seq, message: &str| Event {
        schema: EVENT_SCHEMA,
        seq,
        at: at(0),
        run: run("nightly"),
        kind: EventKind::Warning { message: message.to_owned() },
    };
    let mut all = Vec::new();
    for message in ["first start", "second start"] {
        let handle = store.begin_run(&meta("nightly", 1)).wait().unwrap();
        let events = vec![event(0, message), event(1, message)];
        store.add_events(&handle, events.clone()).wait().unwrap();
        store.add_events(&handle, events.clone()).wait().unwrap();
        all.extend(events);
    }
    assert_eq!(store.events(&run("nightly")).wait().unwrap(), all);
    assert_eq!(store.events_from(&run("nightly"), 2, 1).wait().unwrap(), all[3..]);
    assert!(store.events(&run("other")).wait().unwrap().is_empty());
}

#[tokio::test]
async fn a_ticket_can_be_awaited_and_a_dropped_one_still_counts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    drop(store.begin_run(&meta("nightly", 1)));
    store.begin_run(&meta("nightly", 1)).await.unwrap();
    assert_eq!(store.runs().await.unwrap()[0].starts, 2);
    // The last handle waits for what was sent.
    drop(store.begin_run(&meta("nightly", 1)));
    drop(store);
    assert_eq!(open(&folder).runs().await.unwrap()[0].starts, 3);
}
