//! Why the store could not do its part, and what to do about it.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

use crate::domain::{AttemptId, RunName};

/// A cause that is kept for the chain of messages without its type becoming part of this library's interface.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why the store could not do its part.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The path of the database is a directory.
    #[error("`{}` is a directory, not a database file", .path.display())]
    Directory {
        /// The database.
        path: PathBuf,
    },
    /// There is no such database, and it was to be opened for reading only.
    #[error("there is no database `{}`", .path.display())]
    Missing {
        /// The database.
        path: PathBuf,
    },
    /// The file is no SQLite database.
    #[error("`{}` is not a SQLite database", .path.display())]
    NotADatabase {
        /// The database.
        path: PathBuf,
    },
    /// The file is a SQLite database of another program.
    #[error("`{}` is a database of another program (application id {application_id:#010x})", .path.display())]
    NotOurs {
        /// The database.
        path: PathBuf,
        /// What it says it is.
        application_id: i32,
    },
    /// The database was written by a newer Refrain. It was not touched.
    #[error("`{}` has schema {found}, this Refrain knows {known}", .path.display())]
    Newer {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i32,
        /// The newest schema known here.
        known: i32,
    },
    /// The database has an older schema and was to be opened for reading only.
    #[error("`{}` has schema {found}, this Refrain reads {known}", .path.display())]
    Older {
        /// The database.
        path: PathBuf,
        /// Its schema.
        found: i32,
        /// The schema that can be read.
        known: i32,
    },
    /// Tables, columns or indexes that the schema has are not there. Nothing was created in their place.
    #[error("`{}` lacks {}", .path.display(), .missing.join(", "))]
    Drift {
        /// The database.
        path: PathBuf,
        /// What is not there.
        missing: Vec<String>,
    },
    /// Another process held the database for longer than the store waits.
    #[error("`{}` is locked by another process", .path.display())]
    Locked {
        /// The database.
        path: PathBuf,
    },
    /// File, folder or file system cannot be written, or the store was opened for reading only.
    #[error("`{}` is read-only", .path.display())]
    ReadOnly {
        /// The database.
        path: PathBuf,
    },
    /// No space is left. What was committed before is kept.
    #[error("no space is left for `{}`", .path.display())]
    Full {
        /// The database.
        path: PathBuf,
    },
    /// SQLite found the file damaged.
    #[error("`{}` is damaged: {message}", .path.display())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// What SQLite found.
        message: String,
    },
    /// The file system does not support the write-ahead log.
    #[error("`{}` cannot use a write-ahead log (SQLite chose `{mode}`)", .path.display())]
    NoWal {
        /// The database.
        path: PathBuf,
        /// The journal mode that SQLite fell back to.
        mode: String,
    },
    /// This attempt is already on record, or another attempt of the cell is under way.
    #[error("{attempt} cannot be claimed: the cell has attempt {present} ({state})")]
    Claimed {
        /// The attempt that was to begin.
        attempt: AttemptId,
        /// The attempt that is in the way.
        present: u32,
        /// `under way`, `ended` or `decided`.
        state: &'static str,
    },
    /// This process was declared lost as a host of the run: its lease had run out, and another host takes its cells.
    #[error("the lease of this process on run `{run}` ran out, and another host has taken its cells")]
    LeaseLost {
        /// The run.
        run: RunName,
    },
    /// A stored value does not mean anything to this version.
    #[error("column `{column}` holds {value:?}, which is no known value")]
    Value {
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
    },
    /// A file beside the database could not be read or written.
    #[error("cannot {action} `{}`", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A record on disk cannot be understood.
    #[error("`{}` is not a run record: {message}", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        message: String,
    },
    /// The store was closed, or its thread is gone.
    #[error("the store is closed")]
    Closed,
    /// SQLite could not open the file.
    #[error("cannot open `{}`", .path.display())]
    CannotOpen {
        /// The database.
        path: PathBuf,
        /// SQLite's words.
        #[source]
        cause: Cause,
    },
    /// Anything else that SQLite refused.
    #[error("`{}` refused a statement", .path.display())]
    Sqlite {
        /// The database.
        path: PathBuf,
        /// SQLite's words.
        #[source]
        cause: Cause,
    },
}

impl StoreError {
    /// Says what a user can do about it.
    #[must_use]
    pub fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Directory { .. } => "name a file in `results_db`, such as `refrain.db`".to_owned(),
            Self::Missing { .. } => "start a run first, or name the right file in `results_db`".to_owned(),
            Self::NotADatabase { .. } | Self::NotOurs { .. } => {
                "move the file away or name another one in `results_db`; it was not changed".to_owned()
            }
            Self::Newer { .. } => {
                "use the newer Refrain, or another `results_db`; nothing is written to it from here".to_owned()
            }
            Self::Older { .. } => "open it once for writing (any run does) to bring it up to date".to_owned(),
            Self::Drift { .. } => {
                "restore a backup, or move the file away and rebuild it from the run records on disk".to_owned()
            }
            Self::Locked { .. } => "end the other process (`fuser` on the file names it), then try again".to_owned(),
            Self::ReadOnly { .. } => {
                "SQLite writes the file and two more beside it: make file and folder writable".to_owned()
            }
            Self::Full { .. } => "free some space and give the same command again: it goes on where it was".to_owned(),
            Self::Damaged { .. } => {
                "copy the file and those beside it, then restore a backup or rebuild from the run records".to_owned()
            }
            Self::CannotOpen { .. } => "look whether its folder exists and can be written".to_owned(),
            Self::NoWal { .. } => "put the database on a local disk: network file systems lose its locks".to_owned(),
            Self::Claimed { .. } => "another process works on this run; its result will be in the store".to_owned(),
            Self::LeaseLost { .. } => {
                "this machine was stopped or cut off for too long; give the same command again to help on".to_owned()
            }
            Self::Record { .. } => "the file was left as it is; look at it, or remove its attempt's folder".to_owned(),
            Self::Value { .. } | Self::File { .. } | Self::Closed | Self::Sqlite { .. } => return Vec::new(),
        };
        vec![hint]
    }

    /// Tells whether space ran out: nothing new should be started, what is finished is safe.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::File { source, .. } => source.kind() == std::io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

/// What fails inside the store: SQLite's own error, which does not know the path, or one of ours, which does.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A statement failed.
    Sqlite(rusqlite::Error),
    /// Everything else.
    Store(StoreError),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Fault {
    /// Says it in the words of [`StoreError`], about the database at `path`.
    pub(crate) fn at(self, path: &Path) -> StoreError {
        let error = match self {
            Self::Sqlite(error) => error,
            Self::Store(error) => return error,
        };
        let path = path.to_path_buf();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { path },
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { path },
            Some(ErrorCode::DiskFull) => StoreError::Full { path },
            // A full disk also shows as a failed write of the shared-memory file.
            Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) if is_crammed(&path) => StoreError::Full { path },
            Some(ErrorCode::CannotOpen) => StoreError::CannotOpen { path, cause: Box::new(error) },
            Some(ErrorCode::NotADatabase) => StoreError::NotADatabase { path },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, message: error.to_string() },
            _ => StoreError::Sqlite { path, cause: Box::new(error) },
        }
    }
}

/// Tells whether the file system of `path` has less room than the smallest write of SQLite needs.
fn is_crammed(path: &Path) -> bool {
    path.parent().and_then(|folder| super::layout::free_bytes(folder).ok()).is_some_and(|free| free < 64 * 1024)
}
