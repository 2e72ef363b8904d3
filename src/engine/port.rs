//! The port of one attempt's script: every call is journaled, and calls of an earlier run are answered from its journal.
//!
//! What must be on the disk before what is decided by a call's [`Effect`]; which answer the script gets next is decided
//! by the [`Desk`]. Everything that a call begins is a task of the host, which goes on whatever happens to the script.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::desk::{Asked, Desk, Held, Idle};
use super::journal::{self, CallMark, Effect, Numbering, Past, PastCall, Reply};
use super::recovery::{self, Change, CutOff};
use super::session::{self, Setup};
use super::world::{Attempt, describe, lock};
use crate::domain::Failure;
use crate::script::{HostCall, HostError, ScriptPort};
use crate::store::{JournalEntry, StoreError, Ticket};

/// Who waits for the answer of a call.
#[derive(Debug)]
pub(crate) struct Waiter {
    call: HostCall,
    way: oneshot::Sender<Reply>,
    /// The number of its session: the one that an earlier host had begun for it, or that it took here.
    session: Option<u32>,
}

/// A call that is begun.
struct Job {
    seq: u64,
    mark: CallMark,
    waiter: Waiter,
    /// What was decided about a session when it was its turn.
    setup: Option<Box<Setup>>,
    /// A session's place in the row of those that are about to be in the journal.
    place: Option<Place>,
}

/// A place in a row: whoever has it goes on when the one before has, or is gone.
struct Place {
    before: Option<oneshot::Receiver<()>>,
    /// Lets the next one go on when it is dropped.
    next: oneshot::Sender<()>,
}

/// The port.
#[derive(Clone)]
pub(crate) struct JournaledPort(Arc<Inner>);

struct Inner {
    attempt: Arc<Attempt>,
    /// The host's tokio runtime: scripts run on threads of their own.
    handle: Handle,
    desk: Mutex<Desk<Waiter>>,
    /// Calls of the past that have changed something.
    changes: Mutex<Vec<Change>>,
    /// The end of the row of sessions that are not in the journal yet.
    row: Mutex<Option<oneshot::Receiver<()>>>,
    abandoned: OnceLock<String>,
}

impl JournaledPort {
    /// Makes the port of an attempt that goes on after `past`, or that begins.
    pub(crate) fn new(attempt: Arc<Attempt>, past: Option<Past>) -> Self {
        Self(Arc::new(Inner {
            attempt,
            handle: Handle::current(),
            desk: Mutex::new(Desk::new(past)),
            changes: Mutex::new(Vec::new()),
            row: Mutex::new(None),
            abandoned: OnceLock::new(),
        }))
    }

    /// Says why the attempt could not go on where an earlier host had left it, once its script has ended.
    pub(crate) fn abandoned(&self) -> Option<String> {
        let inner = &self.0;
        if let Some(reason) = inner.abandoned.get() {
            return Some(reason.clone());
        }
        // A script that was stopped has not said all that it had to say.
        if inner.attempt.cause.get().is_some() { None } else { lock(&inner.desk).unmet() }
    }
}

#[async_trait]
impl ScriptPort for JournaledPort {
    async fn call(&self, call: HostCall) -> Reply {
        let inner = &self.0;
        if let Some(cause) = inner.attempt.cause.get() {
            return Err(HostError::Stop { message: cause.to_string() });
        }
        match Inner::ask(inner, call) {
            Ok(reply) => reply,
            Err(answer) => answer.await.unwrap_or_else(|_| {
                let message = "a host call broke off".to_owned();
                Err(inner.attempt.halt(Failure::Runtime { message }))
            }),
        }
    }

    fn idle(&self) {
        let inner = &self.0;
        let idle = lock(&inner.desk).idle();
        match idle {
            Idle::Hand(waiter, reply) => hand(waiter, reply),
            Idle::Nothing => {}
            Idle::Diverged(reason) => drop(inner.abandon(reason)),
            Idle::Over(held) => {
                inner.attempt.tracker.spawn_on(Inner::open(Arc::clone(inner), held), &inner.handle);
            }
        }
    }
}

/// Gives an answer to a script, which may have ended meanwhile.
fn hand(waiter: Waiter, reply: Reply) {
    drop(waiter.way.send(reply));
}

impl Inner {
    /// Answers a call now, or returns where the answer will come.
    fn ask(self: &Arc<Self>, call: HostCall) -> Result<Reply, oneshot::Receiver<Reply>> {
        let mark = CallMark::of(&call);
        let (way, answer) = oneshot::channel();
        let mut desk = lock(&self.desk);
        let seq = desk.number();
        let at_once = journal::is_at_once(&call, seq);
        let session = match desk.past().call(seq) {
            Some(known) if known.name == mark.name => self.remember(seq, &call, known),
            _ => None,
        };
        match desk.ask(seq, &mark, at_once, Waiter { call, way, session }) {
            Asked::Known(reply) => Ok(reply),
            Asked::Waits => Err(answer),
            Asked::Diverged(reason) => {
                drop(desk);
                Ok(Err(self.abandon(reason)))
            }
            Asked::New(waiter) if at_once && desk.is_quiet() => {
                let reply = self.attempt.observe(&waiter.call);
                let turn = desk.pass();
                // What went wrong on the way to the disk is seen by the next call that waits for it.
                Ok(self.append((seq, &mark, None), turn, &reply).and(reply))
            }
            Asked::New(waiter) => {
                desk.begun();
                drop(desk);
                self.begin(Job { seq, mark, waiter, setup: None, place: None });
                Err(answer)
            }
        }
    }

    /// Takes from a call of the past what the attempt must know of it. Returns the number of a session that was under
    /// way.
    fn remember(&self, seq: u64, call: &HostCall, known: &PastCall) -> Option<u32> {
        let reply = known.answer.as_ref().map(|(_, reply)| reply);
        match (call, reply) {
            (HostCall::Session(_), None) => return Some(lock(&self.attempt.sessions).number()),
            (HostCall::Session(_), Some(_)) => match known.numbering {
                Numbering::Took(number) => lock(&self.attempt.sessions).numbered(number),
                Numbering::TookNext => drop(lock(&self.attempt.sessions).number()),
                Numbering::None => {}
            },
            (HostCall::Log { level, text }, Some(_)) => self.attempt.keep_line(level, text),
            _ => {}
        }
        if let Some(Ok(answer)) = reply
            && journal::effect(call) == Effect::Changes
        {
            lock(&self.changes).push(Change { seq, call: call.clone(), answer: answer.clone() });
        }
        None
    }

    /// Begins a call. Sessions are numbered here, in the order of the calls.
    fn begin(self: &Arc<Self>, mut job: Job) {
        if let HostCall::Session(call) = &job.waiter.call {
            match session::set_up(&self.attempt, call, job.waiter.session) {
                Ok(setup) => {
                    job.waiter.session = Some(setup.index());
                    job.setup = Some(Box::new(setup));
                    job.place = Some(self.line_up());
                }
                Err(error) => {
                    let refused = Arc::clone(self).complete(job, Err(error), Effect::Reads);
                    self.attempt.tracker.spawn_on(refused, &self.handle);
                    return;
                }
            }
        }
        self.attempt.tracker.spawn_on(Arc::clone(self).perform(job), &self.handle);
    }

    /// Gives a session its place behind those that were begun before it.
    ///
    /// Sessions get their numbers in the order of their calls, and a later host counts them again by the calls that the
    /// journal has. So at every moment those in the journal must be the first ones: one whose workspace takes longer to
    /// be copied would else be overtaken by the next, and after a crash that one be taken for it.
    fn line_up(&self) -> Place {
        let (next, behind) = oneshot::channel();
        Place { before: lock(&self.row).replace(behind), next }
    }

    async fn perform(self: Arc<Self>, mut job: Job) {
        let effect = journal::effect(&job.waiter.call);
        let attempt = &self.attempt;
        if effect == Effect::Changes {
            attempt.checkpoints.before(attempt, job.seq, &job.waiter.call).await;
            let place = job.place.take();
            let next = match place {
                Some(Place { before, next }) => {
                    if let Some(before) = before {
                        // One that is gone never comes into the journal.
                        let _ = before.await;
                    }
                    Some(next)
                }
                None => None,
            };
            let begun = self.entry(job.seq, &job.mark, None);
            // On its way from here on: entries are committed in the order in which they are sent.
            let begun = attempt.context.services.store.journal_append(&attempt.id, &begun);
            drop(next);
            if let Err(error) = begun.await {
                hand(job.waiter, Err(self.unkept(&error)));
                return;
            }
        }
        let call = job.waiter.call.clone();
        let reply = Arc::clone(attempt).answer(call, job.setup.take()).await;
        attempt.checkpoints.after(&job.waiter.call);
        self.complete(job, reply, effect).await;
    }

    /// Keeps an answer, then lets it have its turn.
    async fn complete(self: Arc<Self>, job: Job, reply: Reply, effect: Effect) {
        if matches!(reply, Err(HostError::Stop { .. })) || self.attempt.over.load(Ordering::SeqCst) {
            // The attempt is over, or its script is. The record says why; the call counts as under way.
            hand(job.waiter, reply);
            return;
        }
        let reply = journal::redact(reply, &self.attempt.context.services.redactor);
        let (turn, kept) = {
            let mut desk = lock(&self.desk);
            let turn = desk.turn();
            (turn, self.append((job.seq, &job.mark, job.waiter.session), turn, &reply))
        };
        let kept = match kept {
            Ok(ticket) if effect == Effect::Changes || journal::is_confirmed(job.seq) => {
                ticket.await.map_err(|error| self.unkept(&error))
            }
            kept => kept.map(|_unseen| ()),
        };
        if let Err(error) = kept {
            hand(job.waiter, Err(error));
            return;
        }
        let next = lock(&self.desk).put(turn, job.waiter, reply);
        if let Some((waiter, reply)) = next {
            hand(waiter, reply);
        }
    }

    fn entry(&self, seq: u64, mark: &CallMark, answer: Option<String>) -> JournalEntry {
        let at = self.attempt.context.services.clock.now();
        JournalEntry { seq, call: mark.name.to_owned(), args_hash: mark.args_hash.clone(), at, answer }
    }

    /// Sends an answer to the disk. Entries are committed in the order in which they are sent, so this is called with
    /// the desk locked: the order of turns is the order on the disk.
    fn append(
        &self,
        (seq, mark, session): (u64, &CallMark, Option<u32>),
        turn: u64,
        reply: &Reply,
    ) -> Result<Ticket<()>, HostError> {
        let attempt = &self.attempt;
        let answer = journal::write_answer(turn, attempt.elapsed(), session, reply).map_err(|error| {
            attempt.halt(Failure::Store { message: format!("an answer cannot be written: {error}") })
        })?;
        let entry = self.entry(seq, mark, Some(answer));
        Ok(attempt.context.services.store.journal_append(&attempt.id, &entry))
    }

    fn unkept(&self, error: &StoreError) -> HostError {
        self.attempt.halt(Failure::Store { message: describe(error) })
    }

    /// Ends an attempt that cannot go on where an earlier host had left it.
    fn abandon(&self, reason: String) -> HostError {
        // A second reason is a consequence of the first.
        let _ = self.abandoned.set(reason);
        self.attempt.halt(Failure::HostLost)
    }

    /// Puts the world where the past has left it, then begins the calls that wait for that.
    async fn open(self: Arc<Self>, held: Vec<Held<Waiter>>) {
        let changes = std::mem::take(&mut *lock(&self.changes));
        let cut_off: Vec<CutOff> = {
            let desk = lock(&self.desk);
            let under_way = held.iter().filter(|held| held.under_way);
            under_way
                .filter_map(|held| {
                    let known = desk.past().call(held.seq)?;
                    let Waiter { call, session, .. } = &held.waiter;
                    Some(CutOff { seq: held.seq, at: known.at, call: call.clone(), session: *session })
                })
                .collect()
        };
        let mut found = match recovery::put_in_place(&self.attempt, changes, cut_off).await {
            Ok(found) => found,
            Err(reason) => {
                drop(self.abandon(reason));
                return;
            }
        };
        lock(&self.desk).open();
        let mut finished = Vec::new();
        for held in held {
            let job = Job { seq: held.seq, mark: held.mark, waiter: held.waiter, setup: None, place: None };
            match found.remove(&job.seq) {
                Some(reply) => finished.push((job, reply)),
                None => self.begin(job),
            }
        }
        // Last: an answer lets the script go on, and its next session must not be numbered before those that were held.
        for (job, reply) in finished {
            Arc::clone(&self).complete(job, reply, Effect::Changes).await;
        }
    }
}
