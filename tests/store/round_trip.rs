//! Any record and any session come back as they were stored.

use std::time::Duration;

use jiff::Timestamp;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use refrain::domain::failure::{LimitKind, ProviderFault, Timer};
use refrain::domain::judgement::{CriterionScore, JudgeAnswer};
use refrain::domain::record::{Inputs, WorkspaceRecord};
use refrain::domain::session::SessionEnd;
use refrain::domain::verdict::TestResult;
use refrain::domain::{
    CellKey, ErrorClass, ExitClass, Failure, FromLog, JudgeRecord, Micros, ModelRole, ParamValue, PriceSource,
    RunRecord, SessionRecord, Terminal, TestStatus, Usage, UsageSource, Verdict,
};
use refrain::store::{ResultExtra, Store};

use crate::sample::{attempt, open, steps};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), Just(String::new()), Just("a\0b\n\u{1b}[31m'; DROP TABLE x; --\u{fffd}".to_owned())]
}

fn moment() -> impl Strategy<Value = Timestamp> {
    // From 1970 to 2100, to the nanosecond.
    (0i64..4_102_444_800, 0i32..1_000_000_000).prop_map(|(s, ns)| Timestamp::new(s, ns).expect("in range"))
}

fn duration() -> impl Strategy<Value = Duration> {
    (0u64..10_000_000, 0u32..1_000_000_000).prop_map(|(s, ns)| Duration::new(s, ns))
}

fn usage() -> impl Strategy<Value = Usage> {
    (of(any::<u64>()), of(any::<u64>()), of(any::<u64>()), of(any::<u64>()), of(any::<u64>())).prop_map(
        |(input, output, cache_read, cache_write, reasoning)| Usage {
            input,
            output,
            cache_read,
            cache_write,
            reasoning,
        },
    )
}

fn money() -> impl Strategy<Value = Option<Micros>> {
    of((-1_000_000_000_000i64..1_000_000_000_000).prop_map(Micros::new))
}

fn end() -> impl Strategy<Value = SessionEnd> {
    prop_oneof![
        Just(SessionEnd::Completed),
        Just(SessionEnd::Cancelled),
        text().prop_map(|message| SessionEnd::AgentFailed { message }),
        text().prop_map(|message| SessionEnd::Refused { message }),
        text().prop_map(|message| SessionEnd::NotStarted { message }),
        text().prop_map(|message| SessionEnd::Lost { message }),
        text().prop_map(|message| SessionEnd::Limit { limit: LimitKind::Turns, message }),
        text().prop_map(|message| SessionEnd::Provider { fault: ProviderFault::Overloaded, message }),
        (duration(), duration()).prop_map(|(limit, elapsed)| SessionEnd::TimedOut {
            timer: Timer::Idle,
            limit,
            elapsed
        }),
    ]
}

fn price() -> impl Strategy<Value = PriceSource> {
    (text(), text(), text(), text()).prop_map(|(file, model, date, source)| PriceSource { file, model, date, source })
}

fn from_log() -> impl Strategy<Value = FromLog> {
    (any::<[bool; 3]>(), vec(text(), 0..2)).prop_map(|([decides_end, outlived_end, resumed], warnings)| FromLog {
        decides_end,
        outlived_end,
        resumed,
        warnings,
    })
}

prop_compose! {
    fn session(index: u32)(
        (phase, label, harness, model, end) in (of(text()), of(text()), text(), text(), end().boxed()),
        (exit_code, signal, text, usage) in (any::<Option<i32>>(), any::<Option<i32>>(), of(text()), usage()),
        (cost, reported_cost) in (money(), money()),
        (turns, tool_calls, harness_session) in (any::<Option<u64>>(), any::<Option<u64>>(), of(text())),
        (started_at, duration, longest_silence) in (moment(), duration(), of(duration())),
        (usage_source, api_calls, reported_usage, reported_priced, discrepancies) in (
            of(prop_oneof![Just(UsageSource::Gateway), Just(UsageSource::Harness)]),
            any::<Option<u64>>(),
            usage(),
            money(),
            vec(text(), 0..3),
        ),
        (role, exempt, price, warnings) in (of(prop_oneof![Just(ModelRole::Implementation), Just(ModelRole::Review)]), any::<Option<bool>>(), of(price()), vec(text(), 0..3)),
        (cost_at_least, from_log) in (money(), of(from_log())),
    ) -> SessionRecord {
        SessionRecord {
            index, phase, label, role, harness, model, end, exit_code, signal, text, usage, cost, cost_at_least, reported_cost, price, exempt, turns,
            tool_calls, harness_session, started_at, duration, longest_silence, warnings,
            usage_source, api_calls, reported_usage, reported_priced, discrepancies, from_log,
        }
    }
}

fn param() -> impl Strategy<Value = ParamValue> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(ParamValue::Bool),
        any::<i64>().prop_map(ParamValue::Int),
        proptest::num::f64::NORMAL.prop_map(ParamValue::Float),
        text().prop_map(ParamValue::Text),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| vec(inner, 0..3).prop_map(ParamValue::List))
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        Just(Failure::HostLost),
        Just(Failure::Cancelled),
        text().prop_map(|message| Failure::Agent { message }),
        text().prop_map(|message| Failure::Provider { fault: ProviderFault::RateLimited, message }),
        text().prop_map(|message| Failure::Limit { limit: LimitKind::Cost, message }),
        (duration(), duration()).prop_map(|(limit, elapsed)| Failure::Timeout { timer: Timer::Task, limit, elapsed }),
    ]
}

prop_compose! {
    fn verdict()(
        (solved, passed, total, exit_code) in any::<(bool, u32, u32, Option<i32>)>(),
        class in proptest::sample::select(ErrorClass::ALL),
        tests in vec((text(), proptest::sample::select(TestStatus::ALL)), 0..3),
        (format, summary, report) in (of(text()), text(), text()),
    ) -> Verdict {
        let tests = tests.into_iter().map(|(id, status)| TestResult { id, status }).collect();
        Verdict { solved, class, passed, total, tests, exit_code, format, summary, report }
    }
}

prop_compose! {
    fn inputs()(
        (harness, harness_version, model, review_model) in (text(), of(text()), text(), of(text())),
        (task, orchestrator, orchestrator_hash) in (text(), text(), text()),
        params in btree_map(text(), param(), 0..3),
        (repeat, runtime, image) in (any::<u32>(), text(), of(text())),
    ) -> Inputs {
        Inputs {
            harness, harness_version, model, review_model, task, track: "swe".to_owned(), orchestrator,
            orchestrator_hash, params, repeat, runtime, image,
        }
    }
}

prop_compose! {
    fn workspace()(
        (base_commit, base_fingerprint, final_fingerprint) in (of(text()), of(text()), of(text())),
        (files_changed, lines_added, lines_removed) in any::<(Option<u64>, Option<u64>, Option<u64>)>(),
        notes in vec(text(), 0..2),
    ) -> WorkspaceRecord {
        WorkspaceRecord {
            base_commit, base_fingerprint, final_fingerprint, files_changed, lines_added, lines_removed, notes,
        }
    }
}

prop_compose! {
    fn judge()(
        (version, raw, error, cut) in (text(), text(), of(text()), vec(text(), 0..2)),
        (score, points, usage, cost) in (of(0.0..=1.0f64), of(vec(0.0..10.0f64, 0..3)), usage(), money()),
    ) -> JudgeRecord {
        let criteria = points.iter().flatten().map(|points| CriterionScore {
            name: raw.clone(), points: *points, of: 10, lowest: *points, highest: *points, reason: raw.clone(),
        });
        JudgeRecord {
            model: version.clone(), provider: raw.clone(), version, rubric_version: 3, pass_score: 0.5, score, spread: score,
            criteria: criteria.collect(), error: error.clone(), usage, cost, exempt: false, cut, warnings: vec![raw.clone()],
            answers: vec![JudgeAnswer { sample: 1, attempt: 2, points, error, raw }],
        }
    }
}

prop_compose! {
    fn record()(
        (cell, number, key) in (text(), 1u32.., text()),
        (inputs, workspace, usage, verdict, failure) in (inputs().boxed(), workspace().boxed(), usage().boxed(), of(verdict()).boxed(), of(failure()).boxed()),
        terminal in proptest::sample::select(&Terminal::ALL[..]),
        exit_class in proptest::sample::select(ExitClass::ALL),
        error_class in proptest::sample::select(ErrorClass::ALL),
        (solved, duration_ms) in any::<(Option<bool>, u64)>(),
        (started_at, finished_at) in (moment(), moment()),
        sessions in (session(1).boxed(), session(2).boxed(), 0usize..3).prop_map(|(a, b, n)| vec![a, b].into_iter().take(n).collect()),
        (cost, billable_cost, note, judge) in (money(), money(), of(text()), of(judge()).boxed()),
        (script_log, warnings) in (vec(text(), 0..2), vec(text(), 0..2)),
    ) -> RunRecord {
        RunRecord {
            schema: 1, refrain_version: "0.1.0".to_owned(), attempt: attempt("nightly", &cell, number),
            cell_key: CellKey::new(key), inputs, terminal, exit_class, error_class, failure, solved, started_at,
            finished_at, duration_ms, workspace, sessions, usage, cost, billable_cost, verdict, judge, note,
            script_log, transitions: steps(terminal), warnings,
        }
    }
}

/// A store for all cases; each record replaces the cell's.
fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&folder);
    (folder, store)
}

#[test]
fn any_record_comes_back_as_it_was() {
    let (_folder, store) = store();
    proptest!(ProptestConfig::with_cases(200), |(record in record().boxed())| {
        store.finish_attempt(&record, ResultExtra::default()).wait().unwrap();
        let stored = store.record(&record.attempt).wait().unwrap();
        prop_assert_eq!(stored.as_ref(), Some(&record));
        prop_assert_eq!(store.transitions(&record.attempt).wait().unwrap(), record.transitions);
        let one = refrain::store::ResultFilter { cell: Some(record.attempt.cell), ..Default::default() };
        let rows = store.results(Some(&record.attempt.run), &one).wait().unwrap();
        prop_assert_eq!(rows.len(), 1);
    });
}

#[test]
fn any_session_comes_back_as_it_was() {
    let (_folder, store) = store();
    let id = attempt("nightly", "a", 1);
    store.begin_attempt(&crate::sample::start(&id)).wait().unwrap();
    proptest!(ProptestConfig::with_cases(200), |(session in session(1))| {
        store.add_session(&id, &session, session.cost).wait().unwrap();
        prop_assert_eq!(store.sessions(&id).wait().unwrap(), [session]);
    });
}
