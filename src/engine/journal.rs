//! What a host call looks like in the journal, and an earlier journal as something that can be asked.
//!
//! An entry has the number of its call in the order in which the script made them. Its answer also has a *turn*: its
//! place in the order in which answers were handed to the script. A script is a function of its inputs and of that
//! order, so calls and turns together are all that it takes to run it again.

use std::collections::HashMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::redact::Redactor;
use crate::script::{Answer, HostCall, HostError};
use crate::store::JournalEntry;

/// What a script is answered.
pub(crate) type Reply = Result<Answer, HostError>;

/// What a call does outside the script; decides what must be on the disk before what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing, and it is answered at once.
    Observes,
    /// Nothing, but it takes time.
    Reads,
    /// It changes files, or costs money. It is on the disk before it begins, and its answer before the script sees it;
    /// since entries are committed in order, so is then every answer that led to it.
    Changes,
}

/// Returns what a call does.
pub(crate) fn effect(call: &HostCall) -> Effect {
    match call {
        HostCall::Budget | HostCall::Remaining | HostCall::Now | HostCall::Log { .. } => Effect::Observes,
        HostCall::Read { .. }
        | HostCall::Exists { .. }
        | HostCall::List { .. }
        | HostCall::Glob { .. }
        | HostCall::Diff { .. }
        | HostCall::Sleep { .. } => Effect::Reads,
        HostCall::Session(_)
        | HostCall::Checks { .. }
        | HostCall::Exec { .. }
        | HostCall::Write { .. }
        | HostCall::Fork { .. }
        | HostCall::Merge { .. }
        | HostCall::Discard { .. } => Effect::Changes,
    }
}

/// One call in so many waits for the disk, whatever it does: a script that asks faster than the disk writes is slowed
/// down. Which ones is decided by their numbers, so that they are the same ones when the script is run again.
const UNCONFIRMED: u64 = 1024;

/// Tells whether the answer of a call waits for the disk whatever the call does.
pub(crate) fn is_confirmed(seq: u64) -> bool {
    seq % UNCONFIRMED == UNCONFIRMED - 1
}

/// Tells whether a call is answered without waiting for anything.
pub(crate) fn is_at_once(call: &HostCall, seq: u64) -> bool {
    effect(call) == Effect::Observes && !is_confirmed(seq)
}

/// What two calls must have in common to be the same call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallMark {
    pub(crate) name: &'static str,
    pub(crate) args_hash: String,
}

impl CallMark {
    pub(crate) fn of(call: &HostCall) -> Self {
        // A call is plain data: it always serializes.
        let args = serde_json::to_vec(call).unwrap_or_default();
        Self { name: call.function(), args_hash: blake3::hash(&args).to_hex()[..32].to_owned() }
    }
}

/// The answer column of an entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Recorded<R> {
    turn: u64,
    /// Microseconds that the attempt had executed, without the time that its host was down.
    elapsed_us: u64,
    /// The number of the session, where the call took one; earlier journals do not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<u32>,
    reply: R,
}

/// Writes the answer column. `session` is the number that the call took, whatever came of it.
///
/// # Errors
///
/// None that is known: replies are plain data.
pub(crate) fn write_answer(
    turn: u64,
    elapsed: Duration,
    session: Option<u32>,
    reply: &Reply,
) -> Result<String, serde_json::Error> {
    let elapsed_us = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
    serde_json::to_string(&Recorded { turn, elapsed_us, session, reply })
}

/// What became of the numbers of sessions at a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// It took none.
    None,
    /// It took this one.
    Took(u32),
    /// It took the next one, and does not tell which.
    TookNext,
}

/// The limit that refuses a session which has its number already.
pub(crate) const BUDGET: &str = "budget";

impl Numbering {
    /// Finds out what became of them at a call that was answered.
    fn of(session: Option<u32>, reply: &Reply) -> Self {
        match (session, reply) {
            (Some(number), _) => Self::Took(number),
            (None, Ok(Answer::Session(record))) => Self::Took(record.index),
            // A journal of a version that did not note numbers.
            (None, Err(HostError::Refused { limit, .. })) if limit == BUDGET => Self::TookNext,
            (None, _) => Self::None,
        }
    }
}

/// Takes secrets out of a reply before it reaches the script: so what is kept is what the script has seen, to the
/// byte, and no secret is kept. Answers that the engine makes of an agent's output are redacted where they are made.
pub(crate) fn redact(reply: Reply, redactor: &Redactor) -> Reply {
    let text = |text: String| redactor.redact(&text).into_string();
    match reply {
        Ok(Answer::Bytes(bytes)) => Ok(Answer::Bytes(redactor.redact_bytes(&bytes))),
        Ok(Answer::Names(names)) => Ok(Answer::Names(names.into_iter().map(text).collect())),
        Ok(answer) => Ok(answer),
        Err(HostError::Misuse { message }) => Err(HostError::Misuse { message: text(message) }),
        Err(HostError::Refused { limit, message }) => Err(HostError::Refused { limit, message: text(message) }),
        Err(error @ HostError::Stop { .. }) => Err(error),
    }
}

/// One call of an earlier run of the script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PastCall {
    pub(crate) name: String,
    pub(crate) args_hash: String,
    pub(crate) at: Timestamp,
    /// Its turn and reply; `None` for a call that was under way at the end.
    pub(crate) answer: Option<(u64, Reply)>,
    /// What became of the numbers of sessions, once it was answered.
    pub(crate) numbering: Numbering,
}

/// A journal, read back.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Past {
    calls: HashMap<u64, PastCall>,
    /// Numbers of calls in the order of their turns.
    turns: Vec<u64>,
    /// How long the attempt had executed at its last answer.
    pub(crate) elapsed: Duration,
}

impl Past {
    /// Reads a journal.
    ///
    /// # Errors
    ///
    /// A message that says what is wrong with it.
    pub(crate) fn read(entries: Vec<JournalEntry>) -> Result<Self, String> {
        let mut past = Self::default();
        let mut turns = Vec::new();
        for entry in entries {
            let mut numbering = Numbering::None;
            let answer = match &entry.answer {
                None => None,
                Some(text) => {
                    let recorded: Recorded<Reply> = serde_json::from_str(text)
                        .map_err(|error| format!("call {} of the journal cannot be read: {error}", entry.seq))?;
                    turns.push((recorded.turn, entry.seq));
                    past.elapsed = past.elapsed.max(Duration::from_micros(recorded.elapsed_us));
                    numbering = Numbering::of(recorded.session, &recorded.reply);
                    Some((recorded.turn, recorded.reply))
                }
            };
            let call = PastCall { name: entry.call, args_hash: entry.args_hash, at: entry.at, answer, numbering };
            past.calls.insert(entry.seq, call);
        }
        turns.sort_unstable();
        if let Some((at, _)) = (0..).zip(&turns).find(|(at, (turn, _))| at != turn) {
            return Err(format!("the journal lacks answer {at}"));
        }
        past.turns = turns.into_iter().map(|(_, seq)| seq).collect();
        Ok(past)
    }

    /// How many answers there are.
    pub(crate) fn answers(&self) -> u64 {
        self.turns.len() as u64
    }

    /// Returns a call by its number.
    pub(crate) fn call(&self, seq: u64) -> Option<&PastCall> {
        self.calls.get(&seq)
    }

    /// Returns the number of the call that was answered at a turn.
    pub(crate) fn at_turn(&self, turn: u64) -> Option<u64> {
        self.turns.get(usize::try_from(turn).ok()?).copied()
    }
}

#[cfg(test)]
#[path = "journal/tests.rs"]
mod tests;
