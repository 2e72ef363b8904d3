//! Results: every class counted, no run overwriting another, unknown never zero.

use std::collections::BTreeMap;

use refrain::domain::{ExitClass, Micros, SessionStatus, Usage};
use refrain::store::{ResultExtra, ResultFilter, Store};
use rusqlite::Connection;

use crate::sample::{at, attempt, cell, database, meta, open, record, run, session, start};

fn finish(store: &Store, name: &str, id: &str, class: ExitClass) {
    let id = attempt(name, id, 1);
    store.begin_attempt(&start(&id)).wait().unwrap();
    store.finish_attempt(&record(&id, class, vec![session(1, Some(10))]), ResultExtra::default()).wait().unwrap();
}

#[test]
fn one_row_of_each_class_is_counted_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store.begin_run(&meta("nightly", 9)).wait().unwrap();
    for class in ExitClass::ALL {
        finish(&store, "nightly", class.as_str(), *class);
    }
    let key = refrain::domain::CellKey::new("key");
    for id in ["s1", "s2"] {
        store.skip_cell(&run("nightly"), &cell(id), &key, "no budget", at(5)).wait().unwrap();
    }
    store.skip_cell(&run("nightly"), &cell("s3"), &key, "no model", at(5)).wait().unwrap();
    // A decided cell is not skipped.
    store.skip_cell(&run("nightly"), &cell("pass"), &key, "no budget", at(5)).wait().unwrap();
    let running = attempt("nightly", "running", 1);
    store.begin_attempt(&start(&running)).wait().unwrap();

    let listed = store.runs().wait().unwrap().remove(0);
    let summary = store.summary(&run("nightly")).wait().unwrap();
    assert_eq!(listed.summary, summary);
    assert_eq!((summary.total, summary.passed, summary.failed, summary.errored), (9, 1, 1, 2));
    assert_eq!(summary.skipped, [("no budget".to_owned(), 2), ("no model".to_owned(), 1)]);
    assert_eq!(summary.not_run, 2, "one runs, one was not reached");
    assert_eq!((summary.total_cost, summary.billable_cost), (Micros::new(40), Micros::new(40)));
    assert_eq!(summary.budget, Some(Micros::new(5_000_000)));

    for class in ExitClass::ALL {
        let filter = ResultFilter { exit_class: Some(*class), ..ResultFilter::default() };
        let rows = store.results(None, &filter).wait().unwrap();
        assert_eq!(rows.iter().map(|row| row.cell.as_str()).collect::<Vec<_>>(), [class.as_str()]);
    }
    let decided = store.decided(&run("nightly")).wait().unwrap();
    let mut ids: Vec<_> = decided.keys().map(refrain::domain::CellId::as_str).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["fail", "pass"]);
    assert_eq!(decided[&cell("pass")].solved, Some(true));
}

#[test]
fn a_skipped_cell_can_be_run_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store.begin_run(&meta("nightly", 1)).wait().unwrap();
    let key = refrain::domain::CellKey::new("key");
    store.skip_cell(&run("nightly"), &cell("a"), &key, "no budget", at(5)).wait().unwrap();
    finish(&store, "nightly", "a", ExitClass::Pass);
    let summary = store.summary(&run("nightly")).wait().unwrap();
    assert_eq!((summary.passed, summary.skipped.len(), summary.not_run), (1, 0, 0));
}

#[test]
fn a_second_run_does_not_touch_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    finish(&store, "nightly", "a__r1", ExitClass::Pass);
    let before = store.results(Some(&run("nightly")), &ResultFilter::default()).wait().unwrap();
    finish(&store, "weekly", "a__r1", ExitClass::Fail);
    finish(&store, "nightly", "a__r10", ExitClass::Fail);
    let rows = store.results(Some(&run("nightly")), &ResultFilter::default()).wait().unwrap();
    assert_eq!(rows[..1], before);
    // Ids are compared as a whole: r1 is not the beginning of r10, and `_` is no pattern.
    let one = ResultFilter { cell: Some(cell("a__r1")), ..ResultFilter::default() };
    assert_eq!(store.results(Some(&run("nightly")), &one).wait().unwrap(), before);
    assert_eq!(store.results(None, &one).wait().unwrap().len(), 2);
}

#[test]
fn an_edited_run_file_is_a_start_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    store.begin_run(&meta("nightly", 10)).wait().unwrap();
    let mut edited = meta("nightly", 20);
    edited.config_digest = "other".to_owned();
    edited.started_at = at(100);
    let handle = store.begin_run(&edited).wait().unwrap();
    store.end_run(&handle, true, at(200)).wait().unwrap();
    let row = store.runs().wait().unwrap().remove(0);
    assert_eq!((row.starts, row.summary.total, row.config_digest.as_str()), (2, 20, "other"));
    assert_eq!((row.first_started_at, row.started_at, row.finished_at), (at(0), at(100), Some(at(200))));
    assert!(row.summary.interrupted);
    let raw = Connection::open(database(&folder)).unwrap();
    let digests: String = raw
        .query_row("SELECT group_concat(config_digest) FROM run_metadata WHERE run_name = 'nightly'", [], |r| r.get(0))
        .unwrap();
    assert_eq!(digests, "digest,other");
}

#[test]
fn retries_add_to_the_cost_and_unknown_is_null() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let first = attempt("nightly", "a", 1);
    store
        .finish_attempt(&record(&first, ExitClass::RetryableKill, vec![session(1, Some(100))]), ResultExtra::default())
        .wait()
        .unwrap();
    let second = attempt("nightly", "a", 2);
    let extra = ResultExtra { retry_count: 1, latency_ms: Some(1_500), ..ResultExtra::default() };
    store.finish_attempt(&record(&second, ExitClass::Pass, vec![session(1, Some(23))]), extra).wait().unwrap();
    let row = store.results(None, &ResultFilter::default()).wait().unwrap().remove(0);
    assert_eq!((row.attempt, row.retry_count, row.total_cost), (2, 1, Some(Micros::new(123))));
    assert_eq!((row.num_api_calls, row.num_tool_calls, row.latency_ms), (Some(3), Some(7), Some(1_500)));
    assert_eq!((row.time_to_first_attempt_ms, row.tests_passed, row.cost_mode), (None, None, None));

    let mut silent = session(1, None);
    silent.usage = Usage { input: Some(5), ..Usage::UNKNOWN };
    silent.tool_calls = None;
    store
        .finish_attempt(&record(&attempt("nightly", "b", 1), ExitClass::Fail, vec![silent]), ResultExtra::default())
        .wait()
        .unwrap();
    let raw = Connection::open(database(&folder)).unwrap();
    let types: String = raw
        .query_row(
            "SELECT typeof(input_tokens) || typeof(output_tokens) || typeof(total_cost) || typeof(total_cost_micros)
               || typeof(num_tool_calls) || typeof(latency_ms) FROM run_results WHERE cell_id = 'b'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(types, "integernullnullnullnullnull");
    let dollars: f64 =
        raw.query_row("SELECT total_cost FROM run_results WHERE cell_id = 'a'", [], |row| row.get(0)).unwrap();
    assert!((dollars - 0.000_123).abs() < 1e-12);
}

#[test]
fn long_texts_come_back_cut_and_only_when_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    let extra = ResultExtra {
        diff: Some(b"+\xff\x00binary\n".to_vec()),
        test_output: Some(vec![b'x'; 60_000]),
        harness_stdout: Some(b"hello\n".to_vec()),
        ..ResultExtra::default()
    };
    store.finish_attempt(&record(&id, ExitClass::Fail, Vec::new()), extra).wait().unwrap();
    assert_eq!(store.diff(&id.run, &id.cell).wait().unwrap().unwrap(), b"+\xff\x00binary\n");
    let texts = store.texts(&id.run, &id.cell).wait().unwrap().unwrap();
    assert!(texts.test_output.unwrap().starts_with("[the first 8800 bytes are left out]\nxxx"));
    assert_eq!((texts.harness_stdout.as_deref(), texts.harness_stderr), (Some("hello\n"), None));
    assert_eq!(store.texts(&id.run, &cell("other")).wait().unwrap(), None);
}

#[test]
fn phases_are_summed_in_every_class() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    let id = attempt("nightly", "a", 1);
    let phase = |index, name: Option<&str>, cost| {
        let mut session = session(index, cost);
        session.phase = name.map(str::to_owned);
        session
    };
    let sessions = vec![
        phase(1, Some("review"), Some(1)),
        phase(2, Some("implement"), Some(2)),
        phase(3, Some("review"), None),
        phase(4, None, Some(4)),
    ];
    store.finish_attempt(&record(&id, ExitClass::Pass, sessions.clone()), ResultExtra::default()).wait().unwrap();
    let phases = store.phases(&id).wait().unwrap();
    let seen: BTreeMap<_, _> = phases.iter().map(|row| (row.phase.as_str(), (row.sessions, row.cost))).collect();
    assert_eq!(seen, BTreeMap::from([("implement", (1, Some(Micros::new(2)))), ("review", (2, None))]));
    assert_eq!(phases[0].phase, "review", "in the order in which they began");
    assert_eq!(phases[0].usage, session(1, None).usage.plus(session(1, None).usage));
    assert_eq!((phases[0].latency_ms, phases[0].status), (3_000, SessionStatus::Completed));
    assert_eq!(store.sessions(&id).wait().unwrap(), sessions);
}

#[test]
fn a_hundred_thousand_cells_are_read_for_resume() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    Connection::open(database(&folder))
        .unwrap()
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
             INSERT INTO run_state (run_name, cell_id, cell_key, state, attempt, exit_class, error_class, success,
               updated_at)
             SELECT 'big', 'claude-code__model-with-a-long-name__task-' || i || '__r1', 'k' || i,
               iif(i % 10 = 0, 'infrastructure_error', 'completed'), 1, iif(i % 10 = 0, 'retryable_kill', 'pass'),
               iif(i % 10 = 0, 'infrastructure', 'success'), iif(i % 10 = 0, NULL, 1), '2027-01-01T00:00:00.000000000Z'
             FROM n",
        )
        .unwrap();
    let decided = store.decided(&run("big")).wait().unwrap();
    assert_eq!(decided.len(), 90_000);
    assert_eq!(decided[&cell("claude-code__model-with-a-long-name__task-7__r1")].key.as_str(), "k7");
}
