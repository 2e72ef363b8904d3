use proptest::prelude::*;

use super::*;
use crate::domain::{CellId, RunName};

fn attempt(cell: u8, number: u32) -> AttemptId {
    AttemptId {
        run: RunName::new("run").expect("valid"),
        cell: CellId::from_stored(format!("h__m__t{cell}__r1")),
        number,
    }
}

fn reserve(cell: u8, amount: i64) -> Entry {
    Entry { attempt: attempt(cell, 1), kind: EntryKind::Reserve { amount: Micros::new(amount) } }
}

fn spend(cell: u8, session: u32, cost: Option<i64>) -> Entry {
    Entry { attempt: attempt(cell, 1), kind: EntryKind::Spend { session, cost: cost.map(Micros::new), billable: true } }
}

fn release(cell: u8) -> Entry {
    Entry { attempt: attempt(cell, 1), kind: EntryKind::Release }
}

fn remaining(ledger: &Ledger) -> i64 {
    ledger.remaining().expect("capped").get()
}

#[test]
fn a_promise_turns_into_spending_without_counting_twice() {
    let mut ledger = Ledger::new(Some(Micros::new(100)));
    ledger.apply(reserve(1, 40));
    assert_eq!(remaining(&ledger), 60);
    ledger.apply(spend(1, 1, Some(15)));
    assert_eq!(remaining(&ledger), 60);
    ledger.apply(release(1));
    assert_eq!(remaining(&ledger), 85);
}

#[test]
fn a_failed_attempt_frees_its_promise_but_never_its_spending() {
    let ledger = Ledger::from_entries(Some(Micros::new(100)), [reserve(1, 40), spend(1, 1, Some(30)), release(1)]);
    assert_eq!(remaining(&ledger), 70);
    assert_eq!(ledger.spent_by(&attempt(1, 1)), (Micros::new(30), 0));
}

#[test]
fn overspending_is_a_debt_that_no_sibling_erases() {
    let mut ledger = Ledger::new(Some(Micros::new(100)));
    for entry in [reserve(1, 40), reserve(2, 40), spend(1, 1, Some(170)), release(1)] {
        ledger.apply(entry);
    }
    assert_eq!(remaining(&ledger), -110);
    ledger.apply(release(2));
    assert_eq!(remaining(&ledger), -70);
    assert!(matches!(ledger.admit(Micros::ZERO, false), Admission::Skip { .. }));
}

#[test]
fn the_same_line_twice_counts_once() {
    let once = Ledger::from_entries(None, [reserve(1, 40), spend(1, 1, Some(30)), release(1)]);
    let twice = Ledger::from_entries(
        None,
        [reserve(1, 40), spend(1, 1, Some(30)), spend(1, 1, Some(30)), release(1), release(1)],
    );
    assert_eq!(once, twice);
}

#[test]
fn a_live_figure_is_replaced_by_the_final_one() {
    let ledger = Ledger::from_entries(None, [spend(1, 1, Some(100)), spend(1, 1, Some(250)), spend(1, 2, Some(1))]);
    assert_eq!(ledger.totals().total, Micros::new(251));
}

#[test]
fn unknown_costs_are_counted_not_summed() {
    let mut ledger = Ledger::from_entries(Some(Micros::new(10)), [spend(1, 1, None), spend(1, 2, Some(0))]);
    ledger.apply(Entry { attempt: attempt(2, 1), kind: EntryKind::Spend { session: 1, cost: None, billable: false } });
    let totals = ledger.totals();
    assert_eq!((totals.unknown, totals.unknown_billable, totals.total), (2, 1, Micros::ZERO));
    assert_eq!(ledger.spent_by(&attempt(1, 1)), (Micros::ZERO, 1));
}

#[test]
fn exempt_spending_is_shown_and_not_charged() {
    let kind = EntryKind::Spend { session: 1, cost: Some(Micros::new(90)), billable: false };
    let ledger = Ledger::from_entries(Some(Micros::new(100)), [Entry { attempt: attempt(1, 1), kind }]);
    let totals = ledger.totals();
    assert_eq!((totals.total.get(), totals.billable.get(), remaining(&ledger)), (90, 0, 100));
}

#[test]
fn a_promise_that_a_dead_host_left_stays_open_until_it_is_released() {
    let mut ledger = Ledger::from_entries(Some(Micros::new(100)), [reserve(1, 40), reserve(2, 10), release(2)]);
    assert_eq!(ledger.open().cloned().collect::<Vec<_>>(), [attempt(1, 1)]);
    assert_eq!(remaining(&ledger), 60);
    ledger.apply(release(1));
    assert_eq!(ledger.open().count(), 0);
}

#[test]
fn an_entry_survives_json() {
    let entry = spend(3, 2, None);
    let text = serde_json::to_string(&entry).expect("serializes");
    assert_eq!(serde_json::from_str::<Entry>(&text).expect("parses"), entry);
}

/// The oracle looks at the whole history each time and knows no accounts: for each attempt the last promise, unless a
/// release came after it, and for each session the last figure.
fn oracle(cap: i64, history: &[Entry]) -> (i64, i64, usize) {
    let mut attempts: Vec<&AttemptId> = history.iter().map(|entry| &entry.attempt).collect();
    attempts.sort();
    attempts.dedup();
    let (mut left, mut total, mut unknown) = (cap, 0, 0);
    for attempt in attempts {
        let mine: Vec<&EntryKind> = history.iter().filter(|e| &e.attempt == attempt).map(|e| &e.kind).collect();
        let promise = mine.iter().rev().find_map(|kind| match kind {
            EntryKind::Reserve { amount } => Some(amount.get()),
            EntryKind::Release => Some(0),
            EntryKind::Spend { .. } => None,
        });
        let mut charged = 0;
        for number in 0..4 {
            let last = mine.iter().rev().find_map(|kind| match kind {
                EntryKind::Spend { session, cost, billable } if *session == number => Some((*cost, *billable)),
                _ => None,
            });
            match last {
                Some((Some(cost), billable)) => {
                    total += cost.get();
                    charged += if billable { cost.get() } else { 0 };
                }
                Some((None, _)) => unknown += 1,
                None => {}
            }
        }
        left -= charged.max(promise.unwrap_or(0));
    }
    (left, total, unknown)
}

fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let kind = prop_oneof![
        (0i64..1_000_000).prop_map(|amount| EntryKind::Reserve { amount: Micros::new(amount) }),
        (0u32..4, proptest::option::of(0i64..1_000_000), any::<bool>()).prop_map(|(session, cost, billable)| {
            EntryKind::Spend { session, cost: cost.map(Micros::new), billable }
        }),
        Just(EntryKind::Release),
    ];
    let entry = (0u8..4, 1u32..3, kind).prop_map(|(cell, number, kind)| Entry { attempt: attempt(cell, number), kind });
    proptest::collection::vec(entry, 0..60)
}

proptest! {
    #[test]
    fn the_ledger_agrees_with_the_oracle_after_every_entry(history in entries(), cap in 0i64..3_000_000) {
        let mut ledger = Ledger::new(Some(Micros::new(cap)));
        for (at, entry) in history.iter().enumerate() {
            ledger.apply(entry.clone());
            let (left, total, unknown) = oracle(cap, &history[..=at]);
            prop_assert_eq!(remaining(&ledger), left);
            prop_assert_eq!(ledger.totals().total.get(), total);
            prop_assert_eq!(ledger.totals().unknown, unknown);
        }
    }

    #[test]
    fn cells_that_keep_to_their_estimate_never_exceed_the_cap(
        cap in 1i64..1_000_000,
        asks in proptest::collection::vec((1i64..300_000, 0i64..300_000, any::<bool>()), 1..40),
    ) {
        let mut ledger = Ledger::new(Some(Micros::new(cap)));
        for (at, (estimate, cost, ends)) in asks.iter().enumerate() {
            let cell = u8::try_from(at).expect("few");
            if ledger.admit(Micros::new(*estimate), false) == Admission::Run {
                ledger.apply(reserve(cell, *estimate));
                ledger.apply(spend(cell, 1, Some(*cost.min(estimate))));
                if *ends {
                    ledger.apply(release(cell));
                }
            }
            prop_assert!(remaining(&ledger) >= 0);
            prop_assert!(ledger.totals().billable.get() <= cap);
        }
    }
}
