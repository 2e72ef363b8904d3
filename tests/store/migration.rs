//! Databases of every earlier schema, kept as text: they open with their rows, once, whoever comes first.

use std::fs;
use std::path::Path;

use refrain::store::{CancelRequest, SCHEMA_VERSION, Store, StoreError};
use rusqlite::Connection;

use crate::opening::child;
use crate::sample::{attempt, database, run};

/// Every released schema with a database of it, and the migrations that lead there.
const RELEASED: [(i32, &str, &str); 3] = [
    (1, include_str!("v1.sql"), include_str!("../../src/store/migrations/0001_initial.sql")),
    (2, include_str!("v2.sql"), include_str!("../../src/store/migrations/0002_hosts.sql")),
    (3, include_str!("v3.sql"), include_str!("../../src/store/migrations/0003_captured_calls.sql")),
];

fn make(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

fn version(path: &Path) -> i32 {
    Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_database_of_every_schema_opens_with_its_rows() {
    assert_eq!(RELEASED.last().unwrap().0, SCHEMA_VERSION, "a new schema gets a database here");
    for (number, sql, _) in RELEASED {
        let folder = tempfile::tempdir().unwrap();
        make(&database(&folder), sql);
        if number < SCHEMA_VERSION {
            let error = Store::open_read_only(&database(&folder)).expect_err("reading never migrates");
            assert!(matches!(error, StoreError::Older { .. }), "{error}");
        }
        let store = Store::open(&database(&folder)).expect("opens");
        let runs = store.runs().wait().unwrap();
        assert_eq!((runs[0].name.as_str(), runs[0].summary.passed, runs[0].summary.total), ("nightly", 1, 2));
        let record = store.record(&attempt("nightly", "a__r1", 1)).wait().unwrap().expect("there");
        assert_eq!(record.solved, Some(true));
        assert!(store.check(None).wait().unwrap().is_clean());
        let host = store.hosts(&run("nightly")).wait().unwrap().remove(0);
        let asked = if number == 1 { None } else { Some(CancelRequest::Drain) };
        assert_eq!((host.lease_expires_at.is_some(), host.cancel), (number > 1, asked));
        assert_eq!(store.calls(&run("nightly"), None).wait().unwrap().len(), usize::from(number > 2));
        drop(store);
        assert_eq!(version(&database(&folder)), SCHEMA_VERSION);
        let backup = folder.path().join(format!("refrain.db.v{number}.bak"));
        assert_eq!(backup.exists(), number < SCHEMA_VERSION);
        if backup.exists() {
            assert_eq!(version(&backup), number, "the copy is of before");
        }
    }
}

#[test]
fn processes_that_migrate_at_once_do_it_once() {
    for _ in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        make(&database(&folder), RELEASED[0].1);
        let children: Vec<_> = (0..4).map(|_| child("opening::child_begins_a_run", &database(&folder))).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        }
        let store = Store::open(&database(&folder)).unwrap();
        assert_eq!(store.runs().wait().unwrap()[0].starts, 5, "one was there, four came");
        assert!(store.check(None).wait().unwrap().is_clean());
        assert_eq!(version(&folder.path().join("refrain.db.v1.bak")), 1);
    }
}

#[test]
fn a_migration_without_room_changes_nothing() {
    let disk = tempfile::tempdir().unwrap();
    let mounted =
        std::process::Command::new("mount").args(["-t", "tmpfs", "-o", "size=500k", "tmpfs"]).arg(disk.path()).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED a_migration_without_room: this process may not mount a file system");
        return;
    }
    let path = database(&disk);
    make(&path, RELEASED[0].1);
    let room = usize::try_from(refrain::store::layout::free_bytes(disk.path()).unwrap()).unwrap();
    fs::write(disk.path().join("filler"), vec![0; room - 20_000]).unwrap();
    let error = Store::open(&path).expect_err("there is no room");
    // SQLite itself could not open it now; the header of the file says its version.
    let before = fs::read(&path).unwrap()[60..64].to_vec();
    fs::remove_file(disk.path().join("filler")).unwrap();
    let opened = Store::open(&path).map(drop);
    let after = version(&path);
    let unmounted = std::process::Command::new("umount").arg("-l").arg(disk.path()).status();
    assert!(unmounted.is_ok_and(|status| status.success()), "unmounts");
    assert!(error.is_full(), "{error:?}");
    assert_eq!(before, 1i32.to_be_bytes());
    assert!(opened.is_ok(), "{opened:?}");
    assert_eq!(after, SCHEMA_VERSION);
}

#[test]
fn a_released_migration_is_what_it_was() {
    // It is never edited: databases made by it are out there.
    let objects = |batches: &[&str]| {
        let raw = Connection::open_in_memory().unwrap();
        for sql in batches {
            raw.execute_batch(sql).unwrap();
        }
        let mut statement = raw.prepare("SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name").unwrap();
        let found = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        found.map(Result::unwrap).collect::<Vec<_>>()
    };
    let mut so_far = Vec::new();
    for (number, database, migration) in RELEASED {
        so_far.push(migration);
        let released = objects(&[database]);
        assert!(released.len() > 10);
        assert_eq!(objects(&so_far), released, "schema {number}");
    }
}
