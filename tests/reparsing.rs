//! Real recordings as the stored logs of sessions that were read by nothing, read once more.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_manifests;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use refrain::budget::PriceTable;
use refrain::domain::record::{Inputs, RECORD_SCHEMA, WorkspaceRecord};
use refrain::domain::{
    AttemptId, CellId, CellKey, ErrorClass, ExitClass, FromLog, Micros, Params, RunName, RunRecord, SessionRecord,
    Terminal, Usage, UsageSource,
};
use refrain::harness::session::read_all;
use refrain::harness::session_file::SessionFile;
use refrain::harness::{Harness as _, Reading};
use refrain::host::{Host, ReparseOutcome, SessionReparse, declared_harness};
use refrain::runtime::Stream;
use refrain::store::{Layout, LedgerEntry, LedgerKind, Owner, ResultExtra, RunHandle, RunMeta, Store, record_file};
use serde_json::Value;

const PRICES: &str = "[[price]]\nmodel = \"model\"\ninput = 10\noutput = 100\ncache_read = 1\ncache_write = 20\n\
    date = \"2026-11-01\"\nsource = \"a test\"\n";

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn names(folder: &Path) -> Vec<String> {
    let folders = fs::read_dir(folder).unwrap().flatten().filter(|entry| entry.path().is_dir());
    let mut all: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

/// What a reading of a recording says, as at the end of a session.
fn reading(harness: &str, case: &str) -> Reading {
    let folder = transcripts().join(harness).join(case);
    let entry = harness_manifests::entry(harness, Value::Null);
    let one_document = entry.manifest.session_file.as_ref().is_some_and(|spec| spec.one_document);
    let file = SessionFile { pattern: String::new(), one_document };
    let copy = folder.join("session");
    let reader = declared_harness(&entry, Path::new("refrain")).unwrap().reader();
    let logs = [(Stream::Stdout, folder.join("stdout")), (Stream::Stderr, folder.join("stderr"))];
    let logs: Vec<_> = logs.into_iter().filter(|(_, path)| path.exists()).collect();
    let has_rules = entry.manifest.session_file.is_some();
    let file = (has_rules && copy.exists()).then_some((&file, copy.as_path()));
    read_all(reader, &logs, file, exit_code(&folder)).unwrap()
}

fn exit_code(folder: &Path) -> Option<i32> {
    fs::read_to_string(folder.join("exit_code")).ok()?.trim().parse().ok()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A store whose one run holds recordings, a cell for each, of which nothing was read.
struct Recorded {
    folder: tempfile::TempDir,
    run: RunName,
    store: Store,
    layout: Layout,
    host: Host,
    handle: RunHandle,
}

impl Recorded {
    fn new(cases: &[(String, String)], session: impl Fn(SessionRecord) -> SessionRecord) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (store, layout) =
            (Store::open(&folder.path().join("refrain.db")).unwrap(), Layout::new(folder.path().join(".refrain")));
        layout.prepare().unwrap();
        let run = RunName::new("recorded").unwrap();
        let harnesses: BTreeSet<_> = cases.iter().map(|(harness, _)| harness.clone()).collect();
        let handle = store.begin_run(&meta(&run, &harnesses)).wait().unwrap();
        for (harness, case) in cases {
            let from = transcripts().join(harness).join(case);
            let id = AttemptId { run: run.clone(), cell: CellId::from_stored(format!("{harness}__{case}")), number: 1 };
            let unread = SessionRecord {
                harness: harness.clone(),
                model: "model".to_owned(),
                exit_code: exit_code(&from),
                text: None,
                usage_source: Some(UsageSource::Harness),
                exempt: Some(false),
                from_log: Some(FromLog { decides_end: true, ..FromLog::default() }),
                ..SessionRecord::completed(1, at(2), "")
            };
            keep_logs(&from, &layout.attempt(&id).join("sessions/1"));
            let record = record(id, vec![session(unread)]);
            record_file::write_record(&layout, &record).unwrap();
            assert!(store.finish_attempt(&record, ResultExtra::default()).wait().unwrap());
        }
        let prices = PriceTable::parse("test.toml", PRICES).unwrap();
        Self { folder, run, store, layout, host: Host::builder().prices(prices).build(), handle }
    }

    fn ended(self) -> Self {
        self.store.end_run(&self.handle, false, at(30)).wait().unwrap();
        self
    }

    fn read(&self) -> Vec<SessionReparse> {
        self.host.reparse(&self.store, &self.layout, &self.run, Err("it is gone")).unwrap()
    }

    fn write(&self) -> Vec<SessionReparse> {
        let mut all = self.read();
        self.host.write_reparsed(&self.store, &self.layout, &self.run, &mut all).unwrap();
        all
    }

    fn session(&self, harness: &str, case: &str) -> SessionRecord {
        let cell = CellId::from_stored(format!("{harness}__{case}"));
        let id = AttemptId { run: self.run.clone(), cell, number: 1 };
        self.store.sessions(&id).wait().unwrap().remove(0)
    }
}

fn meta(run: &RunName, harnesses: &BTreeSet<String>) -> RunMeta {
    RunMeta {
        name: run.clone(),
        config_json: serde_json::json!({"harnesses": harnesses}),
        config_digest: "digest".to_owned(),
        refrain_version: "0.1.0".to_owned(),
        total_cells: 1,
        budget: None,
        image_digests: BTreeMap::new(),
        owner: Some(Owner::current()),
        started_at: at(0),
    }
}

fn record(attempt: AttemptId, sessions: Vec<SessionRecord>) -> RunRecord {
    let cost: Option<Micros> = sessions.iter().map(|session| session.cost).sum();
    RunRecord {
        schema: RECORD_SCHEMA,
        refrain_version: "0.1.0".to_owned(),
        attempt,
        cell_key: CellKey::new("key"),
        inputs: Inputs {
            harness: "recorded".to_owned(),
            harness_version: None,
            model: "model".to_owned(),
            review_model: None,
            task: "fix".to_owned(),
            track: "swe".to_owned(),
            orchestrator: "one-shot".to_owned(),
            orchestrator_hash: "hash".to_owned(),
            params: Params::new(),
            repeat: 1,
            runtime: "local".to_owned(),
            image: None,
        },
        terminal: Terminal::Completed,
        exit_class: ExitClass::Pass,
        error_class: ErrorClass::Success,
        failure: None,
        solved: Some(true),
        started_at: at(1),
        finished_at: at(20),
        duration_ms: 19_000,
        workspace: WorkspaceRecord::default(),
        usage: sessions.iter().fold(Usage::ZERO, |sum, session| sum.plus(session.usage)),
        cost,
        billable_cost: cost,
        sessions,
        verdict: None,
        judge: None,
        note: None,
        script_log: Vec::new(),
        transitions: Vec::new(),
        warnings: Vec::new(),
    }
}

fn keep_logs(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in ["stdout", "stderr", "session"] {
        let Ok(bytes) = fs::read(from.join(name)) else { continue };
        if !bytes.is_empty() {
            let mut file =
                GzEncoder::new(fs::File::create(to.join(format!("{name}.log.gz"))).unwrap(), Compression::fast());
            file.write_all(&bytes).unwrap();
            file.finish().unwrap();
        }
    }
}

fn all_recordings() -> Vec<(String, String)> {
    let of =
        |harness: String| names(&transcripts().join(&harness)).into_iter().map(move |case| (harness.clone(), case));
    names(&transcripts()).into_iter().flat_map(of).collect()
}

fn some(cases: &[(&str, &str)]) -> Vec<(String, String)> {
    cases.iter().map(|(harness, case)| ((*harness).to_owned(), (*case).to_owned())).collect()
}

fn changed(sessions: &[SessionReparse]) -> usize {
    sessions.iter().filter(|session| matches!(session.outcome, ReparseOutcome::Changed(_))).count()
}

#[test]
fn every_recording_is_told_anew_its_money_is_booked_and_a_second_time_changes_nothing() {
    let cases = all_recordings();
    assert!(cases.len() > 100, "{} recordings", cases.len());
    let recorded = Recorded::new(&cases, |unread| unread).ended();
    let before = recorded.store.ledger_totals(&recorded.run).wait().unwrap();
    assert_eq!((before.total, before.unknown), (Micros::ZERO, cases.len()));
    let first = recorded.write();
    assert!(changed(&first) > 100, "{} changed", changed(&first));
    let price = PriceTable::parse("test.toml", PRICES).unwrap();
    let (mut sum, mut unknown) = (Micros::ZERO, 0);
    for (harness, case) in &cases {
        let (reading, record) = (reading(harness, case), recorded.session(harness, case));
        assert_eq!(record.usage, reading.usage, "{harness}/{case}");
        let priced = price.find("model").unwrap().cost(&reading.usage);
        assert_eq!((record.cost, record.reported_cost), (priced.or(reading.cost), reading.cost), "{harness}/{case}");
        assert_eq!(record.text, reading.text, "{harness}/{case}");
        sum += record.cost.unwrap_or(Micros::ZERO);
        unknown += usize::from(record.cost.is_none());
    }
    let totals = recorded.store.ledger_totals(&recorded.run).wait().unwrap();
    assert_eq!((totals.total, totals.billable_spent, totals.unknown), (sum, sum, unknown));
    assert!(sum > Micros::ZERO && unknown < cases.len());
    assert!(recorded.store.check(Some(&recorded.layout)).wait().unwrap().is_clean());
    assert_eq!(changed(&recorded.write()), 0, "the second time");
    assert_eq!(recorded.store.reparsed(&recorded.run).wait().unwrap().len(), changed(&first));

    // Made of the records on disk, another store has the same books.
    let other = Store::open(&recorded.folder.path().join("other.db")).unwrap();
    let rebuilt = other.rebuild(&recorded.layout).wait().unwrap();
    assert_eq!((rebuilt.imported.len(), rebuilt.refused.len()), (cases.len(), 0));
    assert_eq!(other.ledger_totals(&recorded.run).wait().unwrap(), totals);
}

#[test]
fn what_the_gateway_counted_stays_and_what_the_harness_says_stands_beside_it() {
    let (usage, cost) = (Usage { input: Some(5), output: Some(6), ..Usage::ZERO }, Some(Micros::new(1234)));
    let counted = |unread: SessionRecord| SessionRecord {
        usage,
        cost,
        usage_source: Some(UsageSource::Gateway),
        api_calls: Some(3),
        ..unread
    };
    let recorded = Recorded::new(&some(&[("claude-code", "edit"), ("codex", "edit")]), counted).ended();
    let books = recorded.store.ledger(&recorded.run).wait().unwrap();
    assert_eq!(changed(&recorded.write()), 2);
    assert_eq!(recorded.store.ledger(&recorded.run).wait().unwrap(), books, "no money has moved");
    for harness in ["claude-code", "codex"] {
        let (record, reading) = (recorded.session(harness, "edit"), reading(harness, "edit"));
        assert_eq!((record.usage, record.cost, record.api_calls), (usage, cost, Some(3)));
        assert_eq!((record.reported_usage, record.reported_cost), (reading.usage, reading.cost));
        assert!(record.discrepancies.iter().any(|line| line.contains("the gateway counted 5")), "{record:?}");
    }
    assert!(recorded.store.check(None).wait().unwrap().is_clean());
}

#[test]
fn what_stays_off_the_budget_stays_off_it() {
    let exempt = |unread: SessionRecord| SessionRecord { exempt: Some(true), ..unread };
    let recorded = Recorded::new(&some(&[("claude-code", "edit")]), exempt).ended();
    assert_eq!(changed(&recorded.write()), 1);
    let totals = recorded.store.ledger_totals(&recorded.run).wait().unwrap();
    assert_eq!((totals.billable_spent, totals.unknown), (Micros::ZERO, 0));
    assert_eq!(Some(totals.total), recorded.session("claude-code", "edit").cost);
    let corrections: Vec<_> = recorded.store.ledger(&recorded.run).wait().unwrap();
    let corrections: Vec<_> = corrections.iter().filter(|entry| entry.reference == "s1 reparsed").collect();
    assert_eq!(
        (corrections.len(), corrections[0].kind, corrections[0].billable),
        (1, LedgerKind::Spend, Some(Micros::ZERO))
    );
}

#[test]
fn what_a_judge_cost_is_no_cost_of_the_attempt_whose_sessions_are_told_anew() {
    let recorded = Recorded::new(&some(&[("claude-code", "plain")]), |unread| unread).ended();
    let cell = CellId::from_stored("claude-code__plain");
    let id = AttemptId { run: recorded.run.clone(), cell, number: 1 };
    let judged = LedgerEntry {
        attempt: id.clone(),
        kind: LedgerKind::Spend,
        reference: "judge".to_owned(),
        amount: Some(Micros::new(9_000)),
        billable: Some(Micros::new(9_000)),
        at: at(21),
        note: None,
    };
    recorded.store.ledger_append(&judged).wait().unwrap();
    assert_eq!(changed(&recorded.write()), 1);
    let cost = recorded.session("claude-code", "plain").cost.unwrap();
    let record = recorded.store.record(&id).wait().unwrap().unwrap();
    assert_eq!((record.cost, record.billable_cost), (Some(cost), Some(cost)));
    let totals = recorded.store.ledger_totals(&recorded.run).wait().unwrap();
    assert_eq!(totals.total, cost + Micros::new(9_000), "the ledger has both");
}

#[test]
fn a_run_that_a_host_carries_out_is_left_alone() {
    let recorded = Recorded::new(&some(&[("claude-code", "edit")]), |unread| unread);
    let skipped = |sessions: &[SessionReparse]| match &sessions[0].outcome {
        ReparseOutcome::Skipped(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    assert!(skipped(&recorded.write()).starts_with("a host carries out its run"));
    // One that begins after the logs were read keeps them from being written.
    let recorded = recorded.ended();
    let mut read = recorded.read();
    assert_eq!(changed(&read), 1);
    let harnesses = BTreeSet::from(["claude-code".to_owned()]);
    let again = recorded.store.begin_run(&meta(&recorded.run, &harnesses)).wait().unwrap();
    recorded.host.write_reparsed(&recorded.store, &recorded.layout, &recorded.run, &mut read).unwrap();
    assert_eq!(skipped(&read), "a host carries out its run");
    recorded.store.end_run(&again, false, at(40)).wait().unwrap();
    // And what was changed since is not written over.
    let mut read = recorded.read();
    assert_eq!(changed(&recorded.write()), 1);
    recorded.host.write_reparsed(&recorded.store, &recorded.layout, &recorded.run, &mut read).unwrap();
    assert!(skipped(&read).starts_with("its record was changed meanwhile"));
}

#[test]
fn an_end_that_a_timer_or_a_stop_has_decided_stays() {
    use refrain::domain::failure::Timer;
    use refrain::domain::session::SessionEnd;
    let limit = std::time::Duration::from_secs(5);
    let end = SessionEnd::TimedOut { timer: Timer::Session, limit, elapsed: limit };
    // As in records of versions that did not say what decided it.
    let late = |unread: SessionRecord| SessionRecord { end: end.clone(), from_log: None, ..unread };
    let recorded = Recorded::new(&some(&[("claude-code", "edit")]), late).ended();
    assert_eq!(changed(&recorded.write()), 1);
    let record = recorded.session("claude-code", "edit");
    assert_eq!((record.end, record.usage), (end, reading("claude-code", "edit").usage));
}
