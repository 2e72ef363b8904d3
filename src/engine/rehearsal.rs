//! A script run again over the journal of an attempt: nothing is begun and nothing costs anything.

use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use serde::Serialize;
use tokio::sync::oneshot;

use super::desk::{Asked, Desk, Idle};
use super::journal::{self, CallMark, Past, Reply};
use super::world::lock;
use super::{attempt, setup};
use crate::config::RunPlan;
use crate::domain::cell::Cell;
use crate::script::{
    HostCall, HostError, ScriptEnd, ScriptInputs, ScriptJob, ScriptLimits, ScriptPool, ScriptPort, ScriptSource,
    StopHandle,
};
use crate::store::JournalEntry;

/// A call that the journal has answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Its number.
    pub seq: u64,
    /// The name under which scripts know it.
    pub name: &'static str,
    /// The call with its arguments.
    pub call: HostCall,
    /// The answer, or what was raised.
    pub reply: Result<crate::script::Answer, HostError>,
}

/// How the script came to its end.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "end", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RehearsalEnd {
    /// It returned.
    Returned {
        /// What it returned.
        value: serde_json::Value,
    },
    /// It failed.
    Failed {
        /// Error, place and trace.
        message: String,
    },
    /// It did something else than the journal tells.
    Parted {
        /// What.
        reason: String,
    },
    /// The journal ends while the script goes on.
    JournalEnds {
        /// What it asks next.
        next: Vec<HostCall>,
    },
}

/// What a script did over a journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rehearsal {
    /// The calls in the order in which the script was answered.
    pub steps: Vec<Step>,
    /// How it ended.
    pub end: RehearsalEnd,
}

/// Runs the script of a cell over a journal of it, or another script in its place.
///
/// # Errors
///
/// A message that says what is wrong with the journal.
pub async fn rehearse_cell(
    plan: &RunPlan,
    cell: &Cell,
    source: ScriptSource,
    journal: Vec<JournalEntry>,
) -> Result<Rehearsal, String> {
    let task = &plan.tasks[cell.task];
    let inputs = setup::script_inputs(plan, cell, attempt::deadline(plan, task.timeout).limit);
    rehearse(source, inputs, ScriptLimits::default().with_sessions(plan.limits.sessions), journal).await
}

/// Runs a script over a journal.
///
/// # Errors
///
/// A message that says what is wrong with the journal.
pub async fn rehearse(
    source: ScriptSource,
    inputs: ScriptInputs,
    limits: ScriptLimits,
    journal: Vec<JournalEntry>,
) -> Result<Rehearsal, String> {
    let past = Past::read(journal)?;
    let stage = Arc::new(Stage {
        desk: Mutex::new(Desk::new(Some(past))),
        steps: Mutex::new(Vec::new()),
        end: OnceLock::new(),
        stop: StopHandle::new(),
    });
    let port: Arc<dyn ScriptPort> = Arc::clone(&stage) as Arc<dyn ScriptPort>;
    let stop = stage.stop.clone();
    let outcome = ScriptPool::new(1).run(ScriptJob { source, inputs, port, limits, stop }).await;
    let unmet = lock(&stage.desk).unmet();
    let end = match (stage.end.get().cloned(), outcome.end) {
        (Some(end), _) => end,
        (None, ScriptEnd::Failed(error)) => RehearsalEnd::Failed { message: error.to_string() },
        (None, ScriptEnd::Stopped { reason, .. }) => RehearsalEnd::Failed { message: reason },
        (None, ScriptEnd::Returned { value, .. }) => {
            unmet.map_or(RehearsalEnd::Returned { value }, |reason| RehearsalEnd::Parted { reason })
        }
    };
    let steps = std::mem::take(&mut *lock(&stage.steps));
    Ok(Rehearsal { steps, end })
}

struct Waiter {
    seq: u64,
    call: HostCall,
    way: oneshot::Sender<Reply>,
}

struct Stage {
    desk: Mutex<Desk<Waiter>>,
    steps: Mutex<Vec<Step>>,
    end: OnceLock<RehearsalEnd>,
    stop: StopHandle,
}

impl Stage {
    fn finish(&self, end: RehearsalEnd) -> Reply {
        // The first end is the one that counts.
        let _ = self.end.set(end);
        self.stop.stop("the rehearsal is over");
        Err(HostError::Stop { message: "the rehearsal is over".to_owned() })
    }

    fn note(&self, seq: u64, call: HostCall, reply: &Reply) {
        lock(&self.steps).push(Step { seq, name: call.function(), call, reply: reply.clone() });
    }
}

#[async_trait]
impl ScriptPort for Stage {
    async fn call(&self, call: HostCall) -> Reply {
        let mark = CallMark::of(&call);
        let (way, answer) = oneshot::channel();
        {
            let mut desk = lock(&self.desk);
            let seq = desk.number();
            match desk.ask(seq, &mark, journal::is_at_once(&call, seq), Waiter { seq, call: call.clone(), way }) {
                Asked::Known(reply) => {
                    self.note(seq, call, &reply);
                    return reply;
                }
                Asked::Diverged(reason) => return self.finish(RehearsalEnd::Parted { reason }),
                Asked::New(waiter) => return self.finish(RehearsalEnd::JournalEnds { next: vec![waiter.call] }),
                Asked::Waits => {}
            }
        }
        answer.await.unwrap_or_else(|_| Err(HostError::Stop { message: "the rehearsal is over".to_owned() }))
    }

    fn idle(&self) {
        let idle = lock(&self.desk).idle();
        match idle {
            Idle::Hand(waiter, reply) => {
                self.note(waiter.seq, waiter.call, &reply);
                // The script may have ended meanwhile.
                drop(waiter.way.send(reply));
            }
            Idle::Nothing => {}
            Idle::Diverged(reason) => drop(self.finish(RehearsalEnd::Parted { reason })),
            Idle::Over(held) => {
                let next = held.into_iter().map(|held| held.waiter.call).collect();
                drop(self.finish(RehearsalEnd::JournalEnds { next }));
            }
        }
    }
}
