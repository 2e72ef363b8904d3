//! The threads that own the connections. Everybody else sends them operations and awaits tickets.
//!
//! The writer drains its queue and commits what it found in one transaction, so that many callers share one sync of the
//! disk; it answers after the commit. Where a group fails, its operations are tried one by one: a bad one fails alone.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::oneshot;

use super::error::{Fault, StoreError};
use super::schema;

/// The most operations of one commit. Bounds how long the first of them waits.
const MAX_GROUP: usize = 512;

/// The answer to an operation that was sent to the store when the method was called, whether or not this is awaited.
///
/// Operations take effect in the order in which they were sent. An answer means that the operation is committed and
/// synced. Dropping the ticket does not undo the operation; it only leaves its failure unseen.
#[derive(Debug)]
#[must_use = "the operation is under way, but its failure is only seen by whoever awaits it"]
pub struct Ticket<T>(oneshot::Receiver<Result<T, StoreError>>);

impl<T> Ticket<T> {
    /// Waits on a thread that runs no async tasks.
    ///
    /// # Errors
    ///
    /// What the operation failed with.
    ///
    /// # Panics
    ///
    /// Inside an async task; await the ticket there.
    pub fn wait(self) -> Result<T, StoreError> {
        self.0.blocking_recv().unwrap_or(Err(StoreError::Closed))
    }
}

impl<T> Future for Ticket<T> {
    type Output = Result<T, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| answer.unwrap_or(Err(StoreError::Closed)))
    }
}

/// What a thread does for a caller.
trait Operation: Send {
    /// Tells whether a failure of the machine may take it back, though no failure of this process: then its commit need
    /// not wait for the disk.
    fn is_light(&self) -> bool;

    /// Does it within the open transaction. May be called again after a rollback.
    fn run(&mut self, connection: &Connection) -> Result<(), Fault>;

    /// Tells the caller, who may have gone.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);
}

struct Job<T, F> {
    work: F,
    light: bool,
    value: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&Connection) -> Result<T, Fault> + Send> Operation for Job<T, F> {
    fn is_light(&self) -> bool {
        self.light
    }

    fn run(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.value = Some((self.work)(connection)?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self { value, reply, .. } = *self;
        // A caller who dropped the ticket does not want to know.
        drop(reply.send(outcome.and_then(|()| value.ok_or(StoreError::Closed))));
    }
}

/// How a thread wraps what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Groups of operations, each group one durable transaction.
    Write,
    /// One operation at a time, on one snapshot.
    Read,
}

/// A thread with a connection. Dropping it lets the queue run dry, closes the connection and waits for both.
#[derive(Debug)]
pub(super) struct Worker {
    queue: Option<Sender<Box<dyn Operation>>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts the thread.
    pub(super) fn start(connection: Connection, path: &Path, mode: Mode) -> Result<Self, StoreError> {
        let (queue, operations) = mpsc::channel();
        let owned: Box<Path> = path.into();
        let name = if mode == Mode::Write { "store-writer" } else { "store-reader" };
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(connection, &owned, mode, &operations))
            .map_err(|source| StoreError::File { action: "start a thread for", path: path.to_path_buf(), source })?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Sends an operation.
    pub(super) fn send<T, F>(&self, work: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.queue(work, false)
    }

    /// Sends an operation whose commit need not wait for the disk; see [`Operation::is_light`].
    pub(super) fn send_light<T, F>(&self, work: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.queue(work, true)
    }

    fn queue<T, F>(&self, work: F, light: bool) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        if let Some(queue) = &self.queue {
            // A thread that is gone drops the job, and with it the sender: the ticket then says that it is closed.
            drop(queue.send(Box::new(Job { work, light, value: None, reply })));
        }
        Ticket(answer)
    }
}

/// A ticket that has its answer already.
pub(super) fn refused<T>(error: StoreError) -> Ticket<T> {
    let (reply, answer) = oneshot::channel();
    drop(reply.send(Err(error)));
    Ticket(answer)
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing left to wait for.
            drop(thread.join());
        }
    }
}

fn serve(mut connection: Connection, path: &Path, mode: Mode, queue: &Receiver<Box<dyn Operation>>) {
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        if mode == Mode::Write {
            group.extend(queue.try_iter().take(MAX_GROUP - 1));
        }
        settle(&mut connection, path, mode, group);
    }
}

/// Runs a group and answers each of its callers.
fn settle(connection: &mut Connection, path: &Path, mode: Mode, mut group: Vec<Box<dyn Operation>>) {
    match together(connection, path, mode, &mut group) {
        Ok(()) => group.into_iter().for_each(|operation| operation.answer(Ok(()))),
        Err(fault) => {
            let mut error = Some(fault.at(path));
            let alone = group.len() == 1;
            let locked = matches!(error, Some(StoreError::Locked { .. }));
            for mut operation in group {
                let outcome = match error.take_if(|_| alone) {
                    Some(error) => Err(error),
                    // Each further try would wait as long again.
                    None if locked => Err(StoreError::Locked { path: path.to_path_buf() }),
                    None => {
                        let alone = std::slice::from_mut(&mut operation);
                        together(connection, path, mode, alone).map_err(|fault| fault.at(path))
                    }
                };
                operation.answer(outcome);
            }
        }
    }
}

/// Runs operations in one transaction: all of them or none.
fn together(
    connection: &mut Connection,
    path: &Path,
    mode: Mode,
    group: &mut [Box<dyn Operation>],
) -> Result<(), Fault> {
    if mode == Mode::Read || !group.iter().all(|operation| operation.is_light()) {
        return in_one(connection, path, mode, group);
    }
    // The log is written, which outlives the process; the next commit of another kind brings it to the disk.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    let done = in_one(connection, path, mode, group);
    connection.pragma_update(None, "synchronous", "FULL")?;
    done
}

fn in_one(connection: &mut Connection, path: &Path, mode: Mode, group: &mut [Box<dyn Operation>]) -> Result<(), Fault> {
    let behavior = match mode {
        Mode::Write => TransactionBehavior::Immediate,
        Mode::Read => TransactionBehavior::Deferred,
    };
    // Dropping the transaction on an error rolls it back.
    let tx = connection.transaction_with_behavior(behavior)?;
    // A newer version may have migrated it while it was open here; what it says now is not ours to read or to change.
    schema::refuse_newer(&tx, path)?;
    for operation in group {
        operation.run(&tx)?;
    }
    Ok(tx.commit()?)
}
