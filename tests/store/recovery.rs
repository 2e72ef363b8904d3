//! Records on disk that the database lacks.

use std::fs;

use refrain::domain::{ExitClass, Micros, SessionRecord};
use refrain::store::record_file::{read_record, remove_unfinished, write_atomic, write_record};
use refrain::store::{Layout, Owner, Reservation, ResultExtra, ResultFilter, Store, StoreError};

use crate::sample::{at, attempt, cell, database, open, record, run, session, start};

#[test]
fn a_record_that_a_crash_kept_from_the_database_is_imported_once() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join(".refrain"));
    let store = open(&folder);
    let id = attempt("nightly", "org/model:x__r1", 1);
    let reservation =
        Reservation { attempt: id.clone(), estimate: Micros::new(50), cap: None, exempt: false, at: at(0) };
    store.reserve(&reservation).wait().unwrap();
    let mut begin = start(&id);
    begin.owner.started += 1;
    store.begin_attempt(&begin).wait().unwrap();
    let finished = record(&id, ExitClass::Pass, vec![session(1, Some(30))]);
    write_record(&layout, &finished).unwrap();
    write_atomic(&layout.diff_path(&id), b"+line\n").unwrap();
    drop(store);

    let store = open(&folder);
    assert_eq!(store.check(Some(&layout)).wait().unwrap().records.len(), 1);
    let recovered = store.recover(&layout, &run("nightly")).wait().unwrap();
    assert_eq!(recovered.imported, std::slice::from_ref(&id));
    assert!(store.recover(&layout, &run("nightly")).wait().unwrap().imported.is_empty());
    assert!(store.orphaned_attempts(&run("nightly"), Owner::is_alive).wait().unwrap().is_empty());
    assert_eq!(store.record(&id).wait().unwrap(), Some(finished));
    assert_eq!(store.diff(&id.run, &id.cell).wait().unwrap().unwrap(), b"+line\n");
    let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
    assert_eq!((totals.billable_spent, totals.reserved), (Micros::new(30), Micros::ZERO));
    assert!(store.check(Some(&layout)).wait().unwrap().is_clean());
}

#[test]
fn an_attempt_that_was_marked_orphaned_is_recovered_too() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join(".refrain"));
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    let mut begin = start(&id);
    begin.owner.started += 1;
    store.begin_attempt(&begin).wait().unwrap();
    let orphan = store.orphaned_attempts(&run("nightly"), Owner::is_alive).wait().unwrap().remove(0);
    store.mark_orphaned(&orphan, at(9)).wait().unwrap();
    write_record(&layout, &record(&id, ExitClass::Fail, Vec::new())).unwrap();
    store.recover(&layout, &run("nightly")).wait().unwrap();
    assert!(store.decided(&run("nightly")).wait().unwrap().contains_key(&cell("a")));
    assert!(!store.attempts(&run("nightly"), &cell("a")).wait().unwrap()[0].orphaned);
}

#[test]
fn a_lost_database_is_rebuilt_from_the_records() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join(".refrain"));
    let store = open(&folder);
    for (name, id) in [("nightly", "a"), ("nightly", "b"), ("weekly", "a")] {
        let id = attempt(name, id, 1);
        let finished = record(&id, ExitClass::Pass, vec![session(1, Some(5))]);
        write_record(&layout, &finished).unwrap();
        store.finish_attempt(&finished, ResultExtra::default()).wait().unwrap();
    }
    let before = store.results(None, &ResultFilter::default()).wait().unwrap();
    drop(store);
    fs::remove_file(database(&folder)).unwrap();

    let strange = layout.runs().join("x/y/z");
    fs::create_dir_all(&strange).unwrap();
    fs::write(strange.join("run_record.json"), b"{\"schema\": 1").unwrap();
    let misplaced = layout.cell(&run("nightly"), &cell("a")).join("a7");
    fs::create_dir_all(&misplaced).unwrap();
    fs::copy(layout.record_path(&attempt("nightly", "a", 1)), misplaced.join("run_record.json")).unwrap();

    let store = open(&folder);
    let rebuilt = store.rebuild(&layout).wait().unwrap();
    assert_eq!(rebuilt.imported.len(), 3);
    assert_eq!(rebuilt.refused.len(), 2);
    assert!(rebuilt.refused.iter().all(|error| matches!(error, StoreError::Record { .. })));
    assert_eq!(store.results(None, &ResultFilter::default()).wait().unwrap(), before);
}

#[test]
fn an_imported_record_bills_each_session_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path().join(".refrain"));
    let store = open(&folder);
    let of = |index, cost, exempt| SessionRecord { exempt, ..session(index, Some(cost)) };
    // A cell on a subscription whose script asked for a paid model once; and the same before sessions told who pays.
    for (cell, own, paid) in [("a", Some(true), Some(false)), ("b", None, None)] {
        let id = attempt("nightly", cell, 1);
        let mut finished = record(&id, ExitClass::Pass, vec![of(1, 100, own), of(2, 500, paid)]);
        finished.billable_cost = Some(Micros::new(if own.is_some() { 500 } else { 0 }));
        write_record(&layout, &finished).unwrap();
    }
    assert_eq!(store.rebuild(&layout).wait().unwrap().imported.len(), 2);
    let totals = store.ledger_totals(&run("nightly")).wait().unwrap();
    assert_eq!((totals.total, totals.billable_spent), (Micros::new(1_200), Micros::new(500)));
}

#[test]
fn a_record_of_a_newer_format_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::new(folder.path());
    let id = attempt("nightly", "a", 1);
    let mut newer = record(&id, ExitClass::Pass, Vec::new());
    newer.schema = 99;
    write_record(&layout, &newer).unwrap();
    let error = read_record(&layout.record_path(&id)).expect_err("refused");
    assert!(error.to_string().ends_with("it has format 99, this Refrain reads 1"), "{error}");
}

#[test]
fn a_write_that_fails_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    write_atomic(&path, b"old").unwrap();
    write_atomic(&path, b"new").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    let blocked = folder.path().join("file/below");
    assert!(write_atomic(&blocked, b"x").is_err());
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no partial file is left");
}

#[test]
fn what_a_dead_process_was_writing_is_removed_and_what_a_living_one_writes_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let dead = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    let own = std::process::id();
    for name in
        [format!(".writing-{dead}-a1"), format!(".writing-{own}-a1"), ".writing-x".to_owned(), "kept".to_owned()]
    {
        fs::write(folder.path().join(name), "half").unwrap();
    }
    remove_unfinished(folder.path());
    let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
    left.sort();
    let expected = [format!(".writing-{own}-a1"), ".writing-x".to_owned(), "kept".to_owned()];
    assert_eq!(left, expected.map(std::ffi::OsString::from));
}

#[test]
fn a_backup_is_a_database_and_overwrites_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    store.finish_attempt(&record(&id, ExitClass::Pass, Vec::new()), ResultExtra::default()).wait().unwrap();
    let target = folder.path().join("copy.db");
    store.backup(&target).unwrap();
    let copy = Store::open(&target).unwrap();
    assert_eq!(copy.results(None, &ResultFilter::default()).wait().unwrap().len(), 1);
    assert!(matches!(store.backup(&target), Err(StoreError::File { .. })));
    store.vacuum().unwrap();
    assert!(store.check(None).wait().unwrap().is_clean());
}
