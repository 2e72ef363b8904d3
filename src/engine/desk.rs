//! Hands answers to a script one at a time, and first those of an earlier run of it. Pure: no clock, no tasks.
//!
//! An answer is handed out only while the script is idle, so that everything it leads to has happened before the next
//! one. That makes the script's calls a function of the order of its answers, which is kept; without it, two branches
//! that wake at the same time would race.

use std::collections::BTreeMap;

use super::journal::{CallMark, Past, Reply};

/// A call that waits for the past to be over.
#[derive(Debug)]
pub(crate) struct Held<W> {
    pub(crate) seq: u64,
    pub(crate) mark: CallMark,
    /// Whether the earlier run had begun it.
    pub(crate) under_way: bool,
    /// Who waits.
    pub(crate) waiter: W,
}

/// What to do with a call.
#[derive(Debug, PartialEq)]
pub(crate) enum Asked<W> {
    /// It is answered by the past, here and now.
    Known(Reply),
    /// It waits; an answer or the end of the past will come.
    Waits,
    /// It is new, and nothing of the past is in its way: begin it.
    New(W),
    /// The earlier run did something else.
    Diverged(String),
}

/// What an idle script gets.
#[derive(Debug)]
pub(crate) enum Idle<W> {
    /// This answer.
    Hand(W, Reply),
    /// Nothing yet: somebody works on it.
    Nothing,
    /// The past is over: these calls are to be begun. Call [`Desk::open`] when what they need is in place.
    Over(Vec<Held<W>>),
    /// The earlier run did something else.
    Diverged(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Replaying,
    Opening,
    Live,
}

/// The state. `W` is who waits for an answer.
#[derive(Debug)]
pub(crate) struct Desk<W> {
    past: Past,
    phase: Phase,
    /// Calls made so far.
    calls: u64,
    /// Calls that have no answer yet.
    outstanding: u64,
    /// The next turn to be handed out.
    next: u64,
    /// The next turn to be given away.
    unused: u64,
    idle: bool,
    ready: BTreeMap<u64, (W, Reply)>,
    held: Vec<Held<W>>,
}

impl<W> Desk<W> {
    /// Begins with an earlier run, or with none.
    pub(crate) fn new(past: Option<Past>) -> Self {
        let phase = if past.is_some() { Phase::Replaying } else { Phase::Live };
        let past = past.unwrap_or_default();
        Self {
            phase,
            unused: past.answers(),
            past,
            calls: 0,
            outstanding: 0,
            next: 0,
            idle: false,
            ready: BTreeMap::new(),
            held: Vec::new(),
        }
    }

    /// Returns the earlier run.
    pub(crate) fn past(&self) -> &Past {
        &self.past
    }

    /// Gives a call its number.
    pub(crate) fn number(&mut self) -> u64 {
        self.calls += 1;
        self.calls - 1
    }

    /// Takes a call. `at_once` is for calls that are answered without waiting.
    pub(crate) fn ask(&mut self, seq: u64, mark: &CallMark, at_once: bool, waiter: W) -> Asked<W> {
        let known = self.past.call(seq);
        if let Some(known) = known
            && (known.name != mark.name || known.args_hash != mark.args_hash)
        {
            let same = if known.name == mark.name { " with other arguments" } else { "" };
            return Asked::Diverged(format!("call {seq} was `{}`, the journal has `{}`{same}", mark.name, known.name));
        }
        if let Some((turn, reply)) = known.and_then(|known| known.answer.clone()) {
            if at_once && self.outstanding == 0 {
                if turn != self.next {
                    return Asked::Diverged(format!("call {seq}, `{}`, came at another time", mark.name));
                }
                self.next += 1;
                return Asked::Known(reply);
            }
            self.outstanding += 1;
            self.ready.insert(turn, (waiter, reply));
            return Asked::Waits;
        }
        let under_way = known.is_some();
        if self.phase == Phase::Live {
            return Asked::New(waiter);
        }
        if at_once && self.outstanding == 0 {
            // It touches nothing that is still to be put in place, and must not wait where the first run did not.
            return match self.unmet() {
                None => Asked::New(waiter),
                Some(_) => Asked::Diverged(format!("call {seq} was `{}`, the journal has no such call", mark.name)),
            };
        }
        self.outstanding += 1;
        self.held.push(Held { seq, mark: mark.clone(), under_way, waiter });
        Asked::Waits
    }

    /// Notes that a new call is begun whose answer will be [`Desk::put`]. A call that is answered at once while nothing
    /// else waits takes its turn by [`Desk::pass`] instead.
    pub(crate) fn begun(&mut self) {
        self.outstanding += 1;
    }

    /// Tells whether nothing waits for an answer.
    pub(crate) fn is_quiet(&self) -> bool {
        self.outstanding == 0
    }

    /// Takes a turn for an answer that goes to the script at once.
    pub(crate) fn pass(&mut self) -> u64 {
        let turn = self.turn();
        self.next = self.unused;
        turn
    }

    /// Takes the next turn for an answer.
    pub(crate) fn turn(&mut self) -> u64 {
        self.unused += 1;
        self.unused - 1
    }

    /// Puts an answer down for its turn, and returns what can be handed out now.
    pub(crate) fn put(&mut self, turn: u64, waiter: W, reply: Reply) -> Option<(W, Reply)> {
        self.ready.insert(turn, (waiter, reply));
        self.hand()
    }

    /// Takes note that the script can do nothing more.
    pub(crate) fn idle(&mut self) -> Idle<W> {
        self.idle = true;
        if let Some((waiter, reply)) = self.hand() {
            return Idle::Hand(waiter, reply);
        }
        if self.phase != Phase::Replaying {
            return Idle::Nothing;
        }
        if let Some(unmet) = self.unmet() {
            return Idle::Diverged(unmet);
        }
        self.phase = Phase::Opening;
        Idle::Over(std::mem::take(&mut self.held))
    }

    /// From here on calls are new.
    pub(crate) fn open(&mut self) {
        self.phase = Phase::Live;
    }

    /// Says what the earlier run did that the script, at its end, has not done. An answer that came when the earlier run was
    /// over, to a call that was still under way, is nothing of the kind.
    pub(crate) fn unmet(&self) -> Option<String> {
        let turns = self.next..self.past.answers();
        let seq = turns.filter_map(|turn| self.past.at_turn(turn)).find(|seq| *seq >= self.calls)?;
        let name = self.past.call(seq).map_or("", |call| call.name.as_str());
        Some(format!("the script made {} calls, the journal goes on with call {seq}, `{name}`", self.calls))
    }

    fn hand(&mut self) -> Option<(W, Reply)> {
        if !self.idle {
            return None;
        }
        let ready = self.ready.remove(&self.next)?;
        self.next += 1;
        self.outstanding = self.outstanding.saturating_sub(1);
        self.idle = false;
        Some(ready)
    }
}

#[cfg(test)]
#[path = "desk/tests.rs"]
mod tests;
