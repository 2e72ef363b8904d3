//! The store: one SQLite file for everything a project's runs decide, spend and say, and the folders beside it.
//!
//! A [`Store`] is a cheap handle on two threads: one owns the only writing connection and commits in groups, one reads
//! on a connection of its own, so that reading never waits for writing. Several processes may share a file.
//! The store keeps facts; it decides nothing about retries, budgets or scores.
//!
//! Invariants:
//! - an attempt's row is committed before anything of it starts, and a cell has at most one attempt under way;
//! - an answer to a write means that it is synced to the disk;
//! - a result is never lost: [`record_file::write_record`] comes before [`Store::finish_attempt`], and
//!   [`Store::recover`] imports what a crash left between them;
//! - what nobody measured is NULL; money is integer micro-dollars; nothing is replaced as a whole row.
//!
//! Start with [`Store::open`]; `docs/reference/store.md` describes the tables.

mod adoption;
mod attempts;
pub mod blob;
mod call_models;
mod calls;
mod check;
mod connection;
mod error;
mod events;
mod fence;
mod gc;
mod hosts;
mod journal;
mod judgements;
pub mod layout;
mod ledger;
mod owner;
pub mod record_file;
mod recovery;
mod reparsing;
mod reserves;
mod results;
mod row;
mod rows;
mod runs;
mod schema;
mod search;
mod sessions;
mod settling;
mod standing;
mod tail;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;

pub use adoption::GivenUp;
pub use attempts::{AttemptRow, AttemptStart, Orphan};
pub use call_models::{ModelUse, Outage};
pub use calls::{CallSums, CapturedBodies, CapturedCall, SessionMetering};
pub use check::CheckReport;
pub use connection::BUSY_TIMEOUT;
pub use error::{Cause, StoreError};
pub use gc::Garbage;
pub use hosts::{CancelRequest, HostRow, LEASE, LEASE_RENEWAL, Lease};
pub use journal::JournalEntry;
pub use judgements::{Judgement, is_of_a_judge};
pub use layout::Layout;
pub use ledger::{Admission, Allowance, LedgerEntry, LedgerKind, LedgerTotals, Reservation};
pub use owner::Owner;
pub use recovery::Recovered;
pub use reparsing::{Reparse, ReparsedRow, ReparsedSession, StoredSession, Telling};
pub use results::ResultExtra;
pub use rows::{PhaseRow, ResultFilter, ResultRow, ResultTexts};
pub use runs::{CellState, DecidedCell, RunHandle, RunMeta, RunRow};
pub use schema::{APPLICATION_ID, SCHEMA_VERSION};
pub use settling::{Settled, Settlement, Unsettled};
pub use standing::OpenAttempt;
pub use tail::MAX_TEXT;
pub use worker::Ticket;

use error::Fault;
use worker::{Mode, Worker};

/// A handle on an open database. Clones share its threads; the last one to go waits for what was sent.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
    /// The host that this handle writes for; `None` writes unfenced, as imports and tools do.
    acting: Option<Arc<Owner>>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    // Dropped first: of two connections only the writing one can empty the log into the file and remove it, and only as
    // the last.
    reader: Worker,
    writer: Option<Worker>,
}

impl Store {
    /// Opens a database for reading and writing; creates it where there is none, migrates it where it is older.
    ///
    /// Looks at an existing file through a read-only handle first and leaves it as it is if it is not ours, damaged,
    /// incomplete or newer. Blocks, for [`BUSY_TIMEOUT`] at most where another process holds the lock.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`] about a file; its hints say what to do.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let writing = connection::open_writer(path)?;
        let reading = connection::open_reader(path)?;
        let inner = Inner {
            path: path.to_path_buf(),
            writer: Some(Worker::start(writing, path, Mode::Write)?),
            reader: Worker::start(reading, path, Mode::Read)?,
        };
        Ok(Self { inner: Arc::new(inner), acting: None })
    }

    /// Opens an existing database for reading; never creates or migrates. Writes fail with [`StoreError::ReadOnly`].
    ///
    /// # Errors
    ///
    /// [`StoreError::Missing`], [`StoreError::Older`], and those of [`Store::open`].
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let reading = connection::open_reader(path)?;
        let reader = Worker::start(reading, path, Mode::Read)?;
        Ok(Self { inner: Arc::new(Inner { path: path.to_path_buf(), writer: None, reader }), acting: None })
    }

    /// Returns a handle that writes for `host`, and only what is still its own: what it says of an attempt that another
    /// host has taken from it changes nothing but the ledger (see `docs/guide/several-hosts.md`).
    #[must_use]
    pub fn acting_as(&self, host: Owner) -> Self {
        Self { inner: Arc::clone(&self.inner), acting: Some(Arc::new(host)) }
    }

    /// Returns the path of the database.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Waits until everything that was sent before is committed.
    pub fn flush(&self) -> Ticket<()> {
        self.write(|_| Ok(()))
    }

    /// Sends an operation to the writer. It may run twice (after a rollback), so it must not consume what it holds.
    fn write<T, F>(&self, work: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        match &self.inner.writer {
            Some(writer) => writer.send(work),
            None => worker::refused(StoreError::ReadOnly { path: self.inner.path.clone() }),
        }
    }

    /// Sends an operation to the writer that a failure of the machine may take back, but no failure of this process.
    fn write_light<T, F>(&self, work: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        match &self.inner.writer {
            Some(writer) => writer.send_light(work),
            None => worker::refused(StoreError::ReadOnly { path: self.inner.path.clone() }),
        }
    }

    /// Sends a question to the reader, which answers it on one snapshot.
    fn read<T, F>(&self, work: F) -> Ticket<T>
    where
        T: Send + 'static,
        F: FnMut(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.inner.reader.send(work)
    }
}
