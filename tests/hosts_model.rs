//! Hosts that crash, stall and come back: searched exhaustively in a small model, and the real store held against it.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "model/machine.rs"]
mod machine;
#[path = "model/real.rs"]
mod real;
#[path = "store/sample.rs"]
mod sample;

use std::collections::{HashMap, VecDeque};

use machine::{Action, Bounds, Rules, State};
use proptest::prelude::*;

/// One cell and three hosts, one after another or two at a time.
const ONE_CELL: Bounds = Bounds { cells: 1, processes: 3, attempts: 3, sessions: 2, adoption: true };

/// Two cells, so that hosts have something to share.
const TWO_CELLS: Bounds = Bounds { cells: 2, processes: 2, attempts: 2, sessions: 1, adoption: true };

/// Visits every state that can be reached. Returns how many there are, or the shortest way to one that must not be.
fn search(bounds: Bounds, rules: Rules) -> Result<usize, (String, Vec<Action>)> {
    let first = State::new(bounds);
    let mut seen: HashMap<State, Option<(usize, Action)>> = HashMap::from([(first.clone(), None)]);
    let mut order = vec![first];
    let mut queue = VecDeque::from([0]);
    while let Some(at) = queue.pop_front() {
        let state = order[at].clone();
        if let Some(violation) = state.violation() {
            let mut way = Vec::new();
            let mut here = Some(at);
            while let Some((before, action)) = here.and_then(|here| seen[&order[here]]) {
                way.push(action);
                here = Some(before);
            }
            way.reverse();
            return Err((violation, way));
        }
        for action in state.actions(bounds) {
            let next = state.apply(action, rules);
            if !seen.contains_key(&next) {
                seen.insert(next.clone(), Some((at, action)));
                order.push(next);
                queue.push_back(order.len() - 1);
            }
        }
    }
    Ok(order.len())
}

#[test]
fn no_cell_is_decided_twice_and_no_money_is_lost() {
    for bounds in [ONE_CELL, TWO_CELLS] {
        match search(bounds, Rules::ALL) {
            Ok(states) => assert!(states > 10_000, "{states} states of {bounds:?}"),
            Err((violation, way)) => panic!("{violation}, after {way:?}"),
        }
    }
}

#[test]
fn each_rule_is_needed() {
    let without: [(&str, Rules); 5] = [
        ("two attempts under way", Rules { one_open: false, ..Rules::ALL }),
        ("decided 2 times", Rules { decided_stays: false, ..Rules::ALL }),
        ("decided 2 times", Rules { fencing: false, ..Rules::ALL }),
        ("lost without a word", Rules { unknown: false, ..Rules::ALL }),
        ("lost without a word", Rules { late_money: false, ..Rules::ALL }),
    ];
    for (expected, rules) in without {
        let (violation, way) = search(ONE_CELL, rules).expect_err(expected);
        assert!(violation.contains(expected), "{rules:?}: {violation} after {way:?}");
    }
}

/// A walk through the model: which of the possible actions is taken at each step.
fn walk(bounds: Bounds, choices: &[usize]) -> Vec<Action> {
    let mut state = State::new(bounds);
    let mut way = Vec::new();
    for choice in choices {
        let actions = state.actions(bounds);
        let Some(action) = actions.get(choice % actions.len().max(1)) else { break };
        state = state.apply(*action, Rules::ALL);
        way.push(*action);
    }
    way
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_does_what_the_model_says(choices in prop::collection::vec(any::<usize>(), 1..40)) {
        let bounds = Bounds { cells: 2, processes: 4, attempts: 4, sessions: 3, adoption: false };
        let mut world = real::World::new(bounds);
        for action in walk(bounds, &choices) {
            world.apply(action);
            prop_assert_eq!(world.observed(), world.expected(), "after {:?}", action);
        }
        prop_assert!(world.is_sound());
    }
}
