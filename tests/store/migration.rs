//! Databases of every earlier schema, kept as text: they open with their rows, once, whoever comes first.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use refrain::store::{CancelRequest, SCHEMA_VERSION, Store, StoreError};
use rusqlite::Connection;

use crate::opening::{CHILD, child_path};
use crate::sample::{attempt, database, meta, open, run};

/// Every released schema with a database of it, and the migrations that lead there.
const RELEASED: [(i32, &str, &str); 4] = [
    (1, include_str!("v1.sql"), include_str!("../../src/store/migrations/0001_initial.sql")),
    (2, include_str!("v2.sql"), include_str!("../../src/store/migrations/0002_hosts.sql")),
    (3, include_str!("v3.sql"), include_str!("../../src/store/migrations/0003_captured_calls.sql")),
    (4, include_str!("v4.sql"), include_str!("../../src/store/migrations/0004_reparsed_sessions.sql")),
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
        assert_eq!(store.reparsed(&run("nightly")).wait().unwrap().len(), usize::from(number > 3));
        drop(store);
        assert_eq!(version(&database(&folder)), SCHEMA_VERSION);
        let backup = folder.path().join(format!("refrain.db.v{number}.bak"));
        assert_eq!(backup.exists(), number < SCHEMA_VERSION);
        if backup.exists() {
            assert_eq!(version(&backup), number, "the copy is of before");
        }
    }
}

/// Runs one ignored test of this file as another process, which waits for [`go`] before it opens the database.
fn waiting(test: &str, path: &Path) -> (Child, BufReader<ChildStdout>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the child waits");
    }
    (child, output)
}

fn go(child: &mut Child) {
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
}

fn ready() {
    std::io::stdout().write_all(b"ready\n").unwrap();
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

#[test]
#[ignore = "runs as a child of another test"]
fn child_opens_and_begins_a_run() {
    ready();
    let store = Store::open(&child_path()).expect("opens");
    store.begin_run(&meta("nightly", 1)).wait().expect("begun");
    assert!(store.record(&attempt("nightly", "a__r1", 1)).wait().unwrap().is_some(), "what was there is there");
}

#[test]
fn processes_that_migrate_at_once_do_it_once() {
    for (number, sql, _) in RELEASED.into_iter().filter(|(number, ..)| *number < SCHEMA_VERSION) {
        // Two at a time, and more; each process is up before the first one opens.
        for openers in [2, 2, 2, 2, 2, 4] {
            let folder = tempfile::tempdir().unwrap();
            make(&database(&folder), sql);
            let test = "migration::child_opens_and_begins_a_run";
            let mut children: Vec<_> = (0..openers).map(|_| waiting(test, &database(&folder))).collect();
            for (child, _) in &mut children {
                go(child);
            }
            for (mut child, mut output) in children {
                let mut said = String::new();
                output.read_to_string(&mut said).unwrap();
                assert!(child.wait().unwrap().success(), "schema {number}: {said}");
            }
            let store = Store::open(&database(&folder)).unwrap();
            let runs = store.runs().wait().unwrap();
            assert_eq!(runs[0].starts, 1 + openers, "one was there, the others came");
            assert_eq!((runs[0].summary.passed, runs[0].summary.total), (1, 1), "the result is there");
            assert!(store.check(None).wait().unwrap().is_clean());
            let backup = folder.path().join(format!("refrain.db.v{number}.bak"));
            assert_eq!(version(&backup), number);
            let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let partial = names.filter(|name| name.to_string_lossy().starts_with(".backup-")).count();
            assert_eq!(partial, 0, "no copy is left half");
        }
    }
}

#[test]
fn programs_that_migrate_at_once_both_work() {
    for (number, sql, _) in RELEASED.into_iter().filter(|(number, ..)| *number < SCHEMA_VERSION) {
        for _ in 0..5 {
            let folder = tempfile::tempdir().unwrap();
            make(&database(&folder), sql);
            fs::create_dir_all(folder.path().join(".refrain/runs")).unwrap();
            let rebuild = || {
                Command::new(env!("CARGO_BIN_EXE_refrain"))
                    .args(["store", "rebuild", "--db", "refrain.db"])
                    .current_dir(folder.path())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            };
            for program in [rebuild(), rebuild()] {
                let output = program.wait_with_output().unwrap();
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "schema {number}: {said}");
            }
            let store = Store::open_read_only(&database(&folder)).expect("it is migrated");
            assert_eq!(store.runs().wait().unwrap()[0].summary.passed, 1);
            assert!(store.check(None).wait().unwrap().is_clean());
        }
    }
}

/// What a version that comes after this one would do when it opens the database.
#[test]
#[ignore = "runs as a child of another test"]
fn child_migrates_further() {
    ready();
    let newer = format!(
        "BEGIN IMMEDIATE; ALTER TABLE run_metadata ADD COLUMN added TEXT; PRAGMA user_version = {}; COMMIT",
        SCHEMA_VERSION + 1
    );
    Connection::open(child_path()).unwrap().execute_batch(&newer).unwrap();
}

#[test]
fn a_program_that_has_it_open_while_a_newer_one_migrates_it_stops_writing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store.begin_run(&meta("nightly", 1)).wait().unwrap();
    let (mut newer, mut output) = waiting("migration::child_migrates_further", &database(&folder));
    go(&mut newer);
    output.read_to_string(&mut String::new()).unwrap();
    assert!(newer.wait().unwrap().success());

    // Together and alone: writes that share a commit are refused as well.
    let writes: Vec<_> = (0..3).map(|_| store.begin_run(&meta("weekly", 1))).collect();
    for write in writes {
        let error = write.wait().expect_err("refused");
        assert!(
            matches!(error, StoreError::Newer { found, known: SCHEMA_VERSION, .. } if found == SCHEMA_VERSION + 1),
            "{error:?}"
        );
        assert!(error.hints()[0].contains("newer Refrain"), "{error} has a hint");
    }
    let error = store.runs().wait().expect_err("it cannot tell what it would read");
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
    drop(store);
    let raw = Connection::open(database(&folder)).unwrap();
    let names: Vec<String> = raw
        .prepare("SELECT run_name FROM run_metadata")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(names, ["nightly"], "what was there is there, and nothing was added");
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
