//! Opening a database: looked at through a read-only handle first, and touched only when it is ours and known.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::error::{Fault, StoreError};
use super::schema::{self, APPLICATION_ID, SCHEMA_VERSION};

/// How long a connection waits for another process before it says that the database is locked.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(15);

/// The pause between two tries at what SQLite does not wait for by itself.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// What the look through the read-only handle found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// No file, or one without any table.
    Nothing,
    /// Our schema in this version, which is older than ours.
    Older(i32),
    /// Our schema as it should be.
    Current,
}

/// Opens a database for writing, creates it where there is none, and migrates it where it is older.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let found = look(path)?;
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let failed = |source| StoreError::File { action: "create folder", path: folder.to_path_buf(), source };
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly()) {
        return Err(StoreError::ReadOnly { path: path.to_path_buf() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = connect(path, flags).map_err(|fault| fault.at(path))?;
    configure(&connection, path)?;
    if found != Found::Current {
        upgrade(&mut connection, path)?;
    }
    Ok(connection)
}

/// Opens a database for reading only. It must be there and have the current schema.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    match look(path)? {
        Found::Current => {}
        Found::Nothing => return Err(StoreError::Missing { path: path.to_path_buf() }),
        Found::Older(found) => {
            return Err(StoreError::Older { path: path.to_path_buf(), found, known: SCHEMA_VERSION });
        }
    }
    let connection = connect(path, read_only()).map_err(|fault| fault.at(path))?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn read_only() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Opens a connection that waits for others from its first statement on.
fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Looks at a file without changing it.
fn look(path: &Path) -> Result<Found, StoreError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(source) => return Err(StoreError::File { action: "look at", path: path.to_path_buf(), source }),
    };
    if metadata.is_dir() {
        return Err(StoreError::Directory { path: path.to_path_buf() });
    }
    if metadata.len() == 0 {
        return Ok(Found::Nothing);
    }
    check_magic(path)?;
    let connection = connect(path, read_only()).map_err(|fault| fault.at(path))?;
    classify(&connection, path)
}

/// Database files whose first bytes were read, by device and inode. They stay open until this process ends: a process that
/// closes any descriptor of a file loses all locks that it has on it, those of its SQLite connections with them, and the
/// next reader from outside would then take the log of a running host for an abandoned one and remove it.
static LOOKED_AT: Mutex<BTreeMap<(u64, u64), File>> = Mutex::new(BTreeMap::new());

/// SQLite says of many damaged files that they are locked or malformed; the first bytes tell whose file it is.
fn check_magic(path: &Path) -> Result<(), StoreError> {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let read = || -> io::Result<bool> {
        let metadata = fs::metadata(path)?;
        let mut looked_at = LOOKED_AT.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match looked_at.entry((metadata.dev(), metadata.ino())) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::open(path)?),
        };
        let mut head = [0; MAGIC.len()];
        match file.read_exact_at(&mut head, 0) {
            Ok(()) => Ok(head == *MAGIC),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    };
    match read() {
        Ok(true) => Ok(()),
        Ok(false) => Err(StoreError::NotADatabase { path: path.to_path_buf() }),
        Err(source) => Err(StoreError::File { action: "read", path: path.to_path_buf(), source }),
    }
}

/// Looks within one transaction, so that another process's migration is seen whole or not at all.
fn classify(connection: &Connection, path: &Path) -> Result<Found, StoreError> {
    let tx = connection.unchecked_transaction().map_err(|error| Fault::from(error).at(path))?;
    classify_inside(&tx, path)
}

fn classify_inside(tx: &Connection, path: &Path) -> Result<Found, StoreError> {
    let (id, version) = schema::stamp(tx).map_err(|fault| fault.at(path))?;
    let empty = schema::is_empty(tx).map_err(|fault| fault.at(path))?;
    let owned = || path.to_path_buf();
    match (id, version) {
        (0, 0) if empty => Ok(Found::Nothing),
        (APPLICATION_ID, found) if found > SCHEMA_VERSION => {
            Err(StoreError::Newer { path: owned(), found, known: SCHEMA_VERSION })
        }
        (APPLICATION_ID, found) if found < 1 => {
            Err(StoreError::Damaged { path: owned(), message: format!("its schema version is {found}") })
        }
        (APPLICATION_ID, found) if found < SCHEMA_VERSION => Ok(Found::Older(found)),
        (APPLICATION_ID, _) => {
            let missing = schema::missing(tx).map_err(|fault| fault.at(path))?;
            if missing.is_empty() { Ok(Found::Current) } else { Err(StoreError::Drift { path: owned(), missing }) }
        }
        (application_id, _) => Err(StoreError::NotOurs { path: owned(), application_id }),
    }
}

/// Sets what every writing connection needs.
fn configure(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let mode = wal_mode(connection).map_err(|fault| fault.at(path))?;
    if mode != "wal" {
        return Err(StoreError::NoWal { path: path.to_path_buf(), mode });
    }
    let set = || -> Result<(), Fault> {
        // With a write-ahead log, FULL syncs at each commit: what was answered for survives a power cut.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.set_prepared_statement_cache_capacity(128);
        Ok(())
    };
    set().map_err(|fault| fault.at(path))
}

/// Switches to the write-ahead log. SQLite does not wait for its locks here, so two that start together would fail.
fn wal_mode(connection: &Connection) -> Result<String, Fault> {
    let mut waited = Duration::ZERO;
    loop {
        let tried = connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0));
        match tried {
            Ok(mode) => return Ok(mode.to_lowercase()),
            Err(error) if is_busy(&error) && waited < BUSY_TIMEOUT => {
                thread::sleep(RETRY_PAUSE);
                waited += RETRY_PAUSE;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

/// Creates or migrates under the write lock, after another look: another process may have done it meanwhile.
fn upgrade(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    let tx = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(|error| Fault::from(error).at(path))?;
    let from = match classify_inside(&tx, path)? {
        Found::Current => return Ok(()),
        Found::Nothing => 0,
        Found::Older(version) => {
            // The lock is ours and nothing is written yet: the copy is of the old version.
            backup_beside(path, version)?;
            version
        }
    };
    schema::migrate(&tx, from).map_err(|fault| fault.at(path))?;
    tx.commit().map_err(|error| Fault::from(error).at(path))
}

/// Copies the database to `<file>.v<version>.bak`, unless an earlier try did.
fn backup_beside(path: &Path, version: i32) -> Result<(), StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".v{version}.bak"));
    let target = PathBuf::from(name);
    if target.exists() { Ok(()) } else { copy_to(path, &target) }
}

/// Copies a database, as it is now, to a new file that appears under its name whole or not at all.
pub(crate) fn copy_to(path: &Path, target: &Path) -> Result<(), StoreError> {
    let failed = |source| StoreError::File { action: "write backup", path: target.to_path_buf(), source };
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let partial = tempfile::Builder::new().prefix(".backup-").tempfile_in(folder).map_err(failed)?;
    let copy = || -> Result<(), Fault> {
        let source = connect(path, read_only())?;
        let mut copy = Connection::open(partial.path())?;
        Backup::new(&source, &mut copy)?.step(-1)?;
        Ok(())
    };
    copy().map_err(|fault| fault.at(path))?;
    partial.as_file().sync_all().map_err(failed)?;
    partial.persist_noclobber(target).map_err(|error| failed(error.error))?;
    super::record_file::sync_folder(folder).map_err(failed)
}

/// Rewrites a database without its free pages, on a connection of its own: it cannot be done in a transaction.
pub(crate) fn vacuum(path: &Path) -> Result<(), StoreError> {
    let rewrite = || -> Result<(), Fault> {
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE);")?;
        Ok(())
    };
    rewrite().map_err(|fault| fault.at(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_before_a_migration_is_whole_and_never_overwritten() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("refrain.db");
        let mut writer = open_writer(&path).expect("created");
        // As in an upgrade: the lock is held, nothing is written yet, and the rows are still in the log.
        let insert = "INSERT INTO ledger_sums VALUES ('nightly', 1, 2, 3, 4)";
        writer.execute_batch(insert).expect("inserted");
        let tx = writer.transaction_with_behavior(TransactionBehavior::Immediate).expect("locked");
        backup_beside(&path, 1).expect("copied");
        tx.execute_batch("DELETE FROM ledger_sums").expect("changed");
        tx.commit().expect("committed");
        backup_beside(&path, 1).expect("left alone");
        let copy = open_reader(&folder.path().join("refrain.db.v1.bak")).expect("the copy opens");
        let kept: i64 = copy.query_row("SELECT unknown FROM ledger_sums", [], |row| row.get(0)).expect("there");
        assert_eq!(kept, 4);
    }
}
