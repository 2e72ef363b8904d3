use jiff::Timestamp;
use test_case::test_case;

use super::*;
use crate::domain::FromLog;
use crate::domain::failure::Timer;
use crate::harness::Outcome;

fn usage(input: u64) -> Usage {
    Usage { input: Some(input), output: Some(1), ..Usage::ZERO }
}

fn former() -> SessionRecord {
    let from_log = FromLog { decides_end: true, warnings: vec!["old".to_owned()], ..FromLog::default() };
    SessionRecord {
        exit_code: Some(0),
        usage: usage(5),
        reported_usage: usage(5),
        usage_source: Some(UsageSource::Harness),
        harness_session: Some("id-1".to_owned()),
        warnings: vec!["first".to_owned(), "old".to_owned(), "last".to_owned()],
        from_log: Some(from_log),
        ..SessionRecord::completed(1, Timestamp::UNIX_EPOCH, "done")
    }
}

fn reading() -> Reading {
    Reading {
        started: true,
        outcome: Some(Outcome::Completed),
        text: Some("done".to_owned()),
        usage: usage(5),
        harness_session: Some("id-1".to_owned()),
        warnings: vec!["old".to_owned()],
        ..Reading::default()
    }
}

fn told(former: &SessionRecord, reading: Reading, seems_resumed: bool) -> Result<SessionRecord, String> {
    let redactor = Redactor::new(std::iter::empty::<(String, String)>());
    let process = ProcessEnd { exit_code: former.exit_code, printed: true, ..ProcessEnd::default() };
    let (price, tolerance, can_resume) = (None, 0.0, true);
    tell(former, Again { reading, process, price, tolerance, can_resume, seems_resumed, redactor: &redactor })
}

#[test]
fn the_same_reading_is_the_same_record() {
    assert_eq!(told(&former(), reading(), false), Ok(former()));
}

#[test]
fn warnings_of_the_reading_take_the_place_of_the_former_ones() {
    let new = Reading { warnings: vec!["new".to_owned(), "newer".to_owned()], ..reading() };
    let record = told(&former(), new.clone(), false).expect("told");
    assert_eq!(record.warnings, ["first", "new", "newer", "last"]);
    assert_eq!(record.from_log.expect("kept").warnings, ["new", "newer"]);
    // Which came of the reading an older record does not say.
    let older = SessionRecord { from_log: None, ..former() };
    assert_eq!(told(&older, new, false).expect("told").warnings, ["first", "old", "last", "new", "newer"]);
}

#[test_case(Some(true), false, None; "by its own record")]
#[test_case(Some(false), true, Some(9); "its own record goes first")]
#[test_case(None, true, None; "as others tell of an older one")]
#[test_case(None, false, Some(9); "an older one that nobody tells of")]
fn figures_that_count_earlier_sessions_are_unknown_for_one_that_went_on(
    resumed: Option<bool>,
    seems_resumed: bool,
    expected: Option<u64>,
) {
    let from_log = resumed.map(|resumed| FromLog { decides_end: true, resumed, ..FromLog::default() });
    let cumulative = Reading { usage: usage(9), cumulative: true, ..reading() };
    let record = told(&SessionRecord { from_log, ..former() }, cumulative, seems_resumed).expect("told");
    assert_eq!(record.usage.input, expected);
}

#[test]
fn an_id_that_redaction_took_from_the_log_stays_on_record() {
    let lost = Reading { harness_session: Some("[redacted:KEY]".to_owned()), ..reading() };
    assert_eq!(told(&former(), lost, false).expect("told").harness_session.as_deref(), Some("id-1"));
}

#[test]
fn what_a_timer_decided_stays_and_what_was_lost_is_not_told() {
    let limit = std::time::Duration::from_secs(1);
    let end = SessionEnd::TimedOut { timer: Timer::Session, limit, elapsed: limit };
    let timed_out = SessionRecord { end: end.clone(), from_log: Some(FromLog::default()), ..former() };
    assert_eq!(told(&timed_out, reading(), false).expect("told").end, end);
    let lost = SessionEnd::Lost { message: "gone".to_owned() };
    let lost = SessionRecord { end: lost, usage_source: None, from_log: None, ..former() };
    told(&lost, reading(), false).expect_err("its log is not all of it");
}

#[test]
fn a_process_that_was_ended_after_its_result_has_the_same_end_and_says_so_again() {
    let killed = "killed after its result: the harness had reported its end and went on running".to_owned();
    let from_log =
        FromLog { decides_end: true, outlived_end: true, warnings: vec![killed.clone()], ..FromLog::default() };
    let outlived = SessionRecord {
        exit_code: None,
        signal: Some(15),
        warnings: vec![killed],
        from_log: Some(from_log),
        ..former()
    };
    let again = Reading { warnings: Vec::new(), ..reading() };
    assert_eq!(told(&outlived, again, false), Ok(outlived));
}
