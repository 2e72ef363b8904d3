//! What an open accepts, and what it refuses without touching it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use refrain::store::{APPLICATION_ID, SCHEMA_VERSION, Store, StoreError};
use rusqlite::Connection;

use crate::sample::{database, meta, open, run};

/// Names the database for a test of this binary that is run as another process.
pub(crate) const CHILD: &str = "REFRAIN_TEST_STORE_CHILD";

/// Runs one ignored test of this binary as another process.
pub(crate) fn child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().expect("known"))
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawned")
}

pub(crate) fn child_path() -> std::path::PathBuf {
    std::env::var_os(CHILD).expect("only runs as a child").into()
}

fn refused(path: &Path) -> StoreError {
    let before = fs::read(path).ok();
    let error = Store::open(path).expect_err("is refused");
    assert_eq!(fs::read(path).ok(), before, "the file is as it was");
    assert!(!error.hints().is_empty(), "{error} has a hint");
    assert!(error.to_string().contains(&path.display().to_string()), "{error} names the file");
    error
}

#[test]
fn a_new_database_is_stamped_and_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new folder").join("refrain.db");
    drop(Store::open(&path).expect("created"));
    drop(Store::open(&path).expect("opened"));
    let raw = Connection::open(&path).unwrap();
    let pragma = |name: &str| raw.pragma_query_value(None, name, |row| row.get::<_, i32>(0)).unwrap();
    assert_eq!((pragma("application_id"), pragma("user_version")), (APPLICATION_ID, SCHEMA_VERSION));
}

#[test]
fn closing_leaves_no_log_behind() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store.begin_run(&meta("nightly", 1)).wait().unwrap();
    // A reader that was used is attached to the log.
    assert_eq!(store.runs().wait().unwrap().len(), 1);
    drop(store);
    let names: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["refrain.db"]);
}

#[test]
fn an_empty_file_is_a_new_database() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(database(&folder), b"").unwrap();
    assert!(open(&folder).runs().wait().unwrap().is_empty());
}

#[test]
fn a_newer_schema_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    Connection::open(database(&folder)).unwrap().pragma_update(None, "user_version", 999).unwrap();
    let error = refused(&database(&folder));
    assert!(matches!(error, StoreError::Newer { found: 999, known: SCHEMA_VERSION, .. }), "{error}");
}

#[test]
fn a_missing_table_column_or_index_is_refused_and_not_made() {
    for (change, lacking) in [
        ("DROP TABLE phase_results", "table `phase_results`"),
        ("ALTER TABLE ledger DROP COLUMN note", "column `ledger.note`"),
        ("DROP INDEX attempts_under_way", "index `attempts_under_way`"),
        ("DROP TRIGGER ledger_added", "trigger `ledger_added`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        drop(open(&folder));
        Connection::open(database(&folder)).unwrap().execute_batch(change).unwrap();
        match refused(&database(&folder)) {
            StoreError::Drift { missing, .. } => assert_eq!(missing, [lacking]),
            other => panic!("{change}: {other}"),
        }
    }
}

#[test]
fn files_of_others_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    fs::write(&path, b"name: nightly\n").unwrap();
    assert!(matches!(refused(&path), StoreError::NotADatabase { .. }));

    fs::remove_file(&path).unwrap();
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE notes (text)").unwrap();
    assert!(matches!(refused(&path), StoreError::NotOurs { application_id: 0, .. }));

    fs::remove_file(&path).unwrap();
    let other = "CREATE TABLE notes (text); PRAGMA application_id = 7; PRAGMA user_version = 1";
    Connection::open(&path).unwrap().execute_batch(other).unwrap();
    assert!(matches!(refused(&path), StoreError::NotOurs { application_id: 7, .. }));

    assert!(matches!(refused(folder.path()), StoreError::Directory { .. }));
}

#[test]
fn a_damaged_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    let path = database(&folder);
    let mut bytes = fs::read(&path).unwrap();
    bytes[100..4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let error = refused(&path);
    assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
}

#[test]
fn a_read_only_file_is_refused_for_writing_and_opens_for_reading() {
    let folder = tempfile::tempdir().unwrap();
    let path = database(&folder);
    let store = open(&folder);
    store.begin_run(&meta("nightly", 1)).wait().unwrap();
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(matches!(refused(&path), StoreError::ReadOnly { .. }));
    let reading = Store::open_read_only(&path).expect("opens for reading");
    assert_eq!(reading.runs().wait().unwrap()[0].name, run("nightly"));
    assert!(matches!(reading.flush().wait(), Err(StoreError::ReadOnly { .. })));
}

#[test]
fn reading_never_creates() {
    let folder = tempfile::tempdir().unwrap();
    let error = Store::open_read_only(&database(&folder)).expect_err("refused");
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    assert!(!database(&folder).exists());
}

#[test]
fn processes_that_start_together_all_open() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let path = folder.path().join(format!("{round}.db"));
        let children: Vec<_> = (0..4).map(|_| child("opening::child_begins_a_run", &path)).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        let store = Store::open(&path).unwrap();
        assert_eq!(store.runs().wait().unwrap()[0].starts, 4);
        assert!(store.check(None).wait().unwrap().is_clean());
    }
}

#[test]
#[ignore = "runs as a child of another test"]
fn child_begins_a_run() {
    let store = Store::open(&child_path()).expect("opens");
    store.begin_run(&meta("nightly", 1)).wait().expect("begun");
}

#[test]
fn a_lock_of_another_process_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    let mut holder = child("opening::child_holds_the_lock", &database(&folder));
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("locked")));
    let store = open(&folder);
    assert_eq!(store.begin_run(&meta("nightly", 1)).wait().unwrap().start, 1);
    assert!(holder.wait().unwrap().success());
}

#[test]
#[ignore = "runs as a child of another test"]
fn child_holds_the_lock() {
    let connection = Connection::open(child_path()).unwrap();
    connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
    writeln!(std::io::stdout(), "locked").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(3));
    connection.execute_batch("COMMIT").unwrap();
}

#[test]
fn the_reference_page_names_every_table_and_column() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(&folder));
    let raw = Connection::open(database(&folder)).unwrap();
    let page = include_str!("../../docs/reference/store.md");
    let section_of = |table: &str| {
        let heading = format!("### `{table}`:");
        let (_, rest) = page.split_once(&heading).unwrap_or_else(|| panic!("`{table}` has no section"));
        rest.split("\n#").next().unwrap_or(rest).to_owned()
    };
    let mut statement = raw
        .prepare(
            "SELECT s.name, c.name FROM sqlite_schema AS s JOIN pragma_table_info(s.name) AS c
             WHERE s.type = 'table' AND s.name <> 'sqlite_sequence'",
        )
        .unwrap();
    let columns = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))).unwrap();
    let mut seen = 0;
    for (table, column) in columns.map(Result::unwrap) {
        assert!(section_of(&table).contains(&format!("`{column}`")), "`{table}.{column}` is not described");
        seen += 1;
    }
    assert!(seen > 100, "{seen} columns");
}

#[test]
fn a_reader_from_outside_takes_no_log_away_from_a_store_that_is_open() {
    let python = std::process::Command::new("python3").args(["-c", "import sqlite3"]).status();
    if !python.is_ok_and(|status| status.success()) {
        eprintln!("skipped: this machine has no `python3` with `sqlite3`");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("refrain.db");
    let store = Store::open(&path).unwrap();
    store.begin_run(&meta("nightly", 1)).wait().unwrap();
    // A second look in the same process must not give up the locks of the first.
    drop(Store::open(&path).unwrap());
    let read =
        format!("import sqlite3; sqlite3.connect('{}').execute('SELECT * FROM hosts').fetchall()", path.display());
    assert!(std::process::Command::new("python3").args(["-c", &read]).status().unwrap().success());
    assert!(folder.path().join("refrain.db-wal").exists(), "the log was taken for an abandoned one");
    store.begin_run(&meta("weekly", 1)).wait().unwrap();
    drop(store);
    let again = Store::open(&path).unwrap();
    assert_eq!(again.check(None).wait().unwrap().integrity, Vec::<String>::new());
}
