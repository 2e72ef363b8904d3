use super::*;
use crate::domain::Usage;
use crate::domain::failure::ProviderFault;

const S: Duration = Duration::from_secs(1);

fn exec(end: ExecEnd) -> ExecReport {
    let (exit_code, signal) = match end {
        ExecEnd::Exited(code) => (Some(code), None),
        ExecEnd::Signaled(signal) => (None, Some(signal)),
        _ => (None, Some(15)),
    };
    ExecReport {
        end,
        exit_code,
        signal,
        stdout: Captured::default(),
        stderr: Captured { bytes: b"warning\n\nError: no such thing\n".to_vec(), total: 31, cut: false },
        duration: 3 * S,
        longest_silence: S,
        leftovers: 0,
        out_of_memory: None,
        notes: Vec::new(),
    }
}

fn reading(outcome: Option<Outcome>) -> Reading {
    Reading { started: true, outcome, text: Some("words".to_owned()), ..Reading::default() }
}

fn silent() -> Reading {
    Reading::default()
}

struct Case {
    exec: ExecReport,
    stop: Option<Stop>,
    recorded: bool,
    reading: Reading,
    deadline: Option<(Timer, Duration)>,
}

fn case(end: ExecEnd, reading: Reading) -> Case {
    Case { exec: exec(end), stop: None, recorded: false, reading, deadline: None }
}

fn end_of(case: &Case) -> (SessionEnd, Vec<String>) {
    let mut warnings = Vec::new();
    let evidence = Evidence {
        exec: &case.exec,
        stop: case.stop.as_ref(),
        recorded: case.recorded,
        reading: &case.reading,
        deadline: case.deadline,
        printed: false,
    };
    (decide(evidence, &mut warnings).end, warnings)
}

fn timed_out() -> ExecEnd {
    ExecEnd::TimedOut { timer: Timer::Session, limit: 2 * S }
}

#[test]
fn our_limit_goes_before_the_record_and_the_exit() {
    let stop = Some(Stop::Cost { limit: Micros::new(500_000), spent: Micros::new(612_300) });
    let (end, _) = end_of(&Case { stop, ..case(ExecEnd::Stopped, reading(Some(Outcome::Failed("x".into())))) });
    let message = "cost limit of $0.5000 reached: $0.6123 spent".to_owned();
    assert_eq!(end, SessionEnd::Limit { limit: LimitKind::Cost, message });
}

#[test]
fn our_deadline_goes_before_a_record_that_came_with_the_kill() {
    let (end, _) = end_of(&case(timed_out(), reading(Some(Outcome::Failed("aborted".into())))));
    assert_eq!(end, SessionEnd::TimedOut { timer: Timer::Session, limit: 2 * S, elapsed: 3 * S });
    assert_eq!(end.reason(), "session timeout of 2.0 s after 3.0 s");
}

#[test]
fn a_record_from_before_the_kill_stays_the_outcome() {
    for (end, stop) in [(ExecEnd::Stopped, Some(Stop::AfterRecord)), (timed_out(), None), (ExecEnd::Stopped, None)] {
        let (end, warnings) = end_of(&Case { stop, recorded: true, ..case(end, reading(Some(Outcome::Completed))) });
        assert_eq!(end, SessionEnd::Completed);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("killed after its result"));
    }
}

#[test]
fn a_failing_exit_at_the_deadline_is_a_timeout_and_a_completed_turn_is_not() {
    let deadline = Some((Timer::Task, 3 * S));
    let (end, _) = end_of(&Case { deadline, ..case(ExecEnd::Exited(1), reading(None)) });
    assert_eq!(end, SessionEnd::TimedOut { timer: Timer::Task, limit: 3 * S, elapsed: 3 * S });
    let (end, _) = end_of(&Case { deadline, ..case(ExecEnd::Exited(1), reading(Some(Outcome::Completed))) });
    assert_eq!(end, SessionEnd::Completed);
    let later = Some((Timer::Task, 4 * S));
    let (end, _) = end_of(&Case { deadline: later, ..case(ExecEnd::Exited(1), reading(None)) });
    assert!(matches!(end, SessionEnd::AgentFailed { .. }), "{end:?}");
}

#[test]
fn a_completed_turn_counts_whatever_the_exit_code() {
    let (end, warnings) = end_of(&case(ExecEnd::Exited(1), reading(Some(Outcome::Completed))));
    assert_eq!((end, warnings), (SessionEnd::Completed, vec!["exit code 1 after a completed turn".to_owned()]));
}

#[test]
fn a_zero_without_evidence_is_no_start() {
    let (end, _) = end_of(&case(ExecEnd::Exited(0), silent()));
    let message = "exit code 0, and it printed nothing; last on standard error: warning\nError: no such thing";
    assert_eq!(end, SessionEnd::NotStarted { message: message.to_owned() });
    let (end, _) = end_of(&case(ExecEnd::Exited(127), silent()));
    assert!(matches!(end, SessionEnd::NotStarted { .. }), "{end:?}");
}

#[test]
fn a_zero_with_a_message_is_completed_and_events_alone_are_not() {
    let (end, warnings) = end_of(&case(ExecEnd::Exited(0), reading(None)));
    assert_eq!((end, warnings.len()), (SessionEnd::Completed, 1));
    let (end, _) = end_of(&case(ExecEnd::Exited(0), Reading { text: None, ..reading(None) }));
    assert!(matches!(end, SessionEnd::AgentFailed { .. }), "{end:?}");
}

#[test]
fn exit_137_and_a_signal_are_told_apart() {
    let (end, _) = end_of(&case(ExecEnd::Exited(137), reading(None)));
    assert!(end.reason().starts_with("exit code 137"), "{end:?}");
    let (end, _) = end_of(&case(ExecEnd::Signaled(9), reading(None)));
    assert!(end.reason().starts_with("signal 9, which was not ours"), "{end:?}");
    assert!(matches!(end, SessionEnd::AgentFailed { .. }), "an agent can kill itself: {end:?}");
}

#[test]
fn success_without_a_token_is_no_success() {
    let laundered = Reading {
        usage: Usage::ZERO,
        text: Some("HTTP 429 Too Many Requests".to_owned()),
        ..reading(Some(Outcome::Completed))
    };
    let (end, _) = end_of(&case(ExecEnd::Exited(0), laundered));
    assert!(matches!(end, SessionEnd::NotStarted { .. }), "{end:?}");
    assert!(end.reason().contains("HTTP 429"));
    // Unknown is not zero.
    let unknown = Reading { usage: Usage::UNKNOWN, ..reading(Some(Outcome::Completed)) };
    assert_eq!(end_of(&case(ExecEnd::Exited(0), unknown)).0, SessionEnd::Completed);
}

#[test]
fn the_other_records_map_one_to_one() {
    let message = "m".to_owned();
    for (outcome, expected) in [
        (Outcome::Refused("m".into()), SessionEnd::Refused { message: message.clone() }),
        (
            Outcome::Limit(LimitKind::Turns, "m".into()),
            SessionEnd::Limit { limit: LimitKind::Turns, message: message.clone() },
        ),
        (
            Outcome::Provider(ProviderFault::RateLimited, "m".into()),
            SessionEnd::Provider { fault: ProviderFault::RateLimited, message: message.clone() },
        ),
        (Outcome::Misconfigured("m".into()), SessionEnd::NotStarted { message: message.clone() }),
    ] {
        assert_eq!(end_of(&case(ExecEnd::Exited(1), reading(Some(outcome)))).0, expected);
    }
}

#[test]
fn the_rest_of_our_stops() {
    let (end, _) = end_of(&case(ExecEnd::Stopped, reading(None)));
    assert_eq!(end, SessionEnd::Cancelled);
    let (end, _) = end_of(&case(ExecEnd::OutputLimit { limit: 20 }, reading(None)));
    let message = "output limit of 20 bytes reached: 31 bytes written".to_owned();
    assert_eq!(end, SessionEnd::Limit { limit: LimitKind::Output, message });
    let (end, _) = end_of(&Case { stop: Some(Stop::Silent(3 * S)), ..case(ExecEnd::Stopped, silent()) });
    assert_eq!(end, SessionEnd::NotStarted { message: "it printed nothing within 3.0 s".to_owned() });
}

#[test]
fn want_of_memory_is_the_agents_where_it_met_its_own_limit_and_the_machines_otherwise() {
    let killed = |out_of_memory, end| {
        let exec = ExecReport { out_of_memory, ..exec(end) };
        let reading = Reading { started: true, ..Reading::default() };
        let evidence =
            Evidence { exec: &exec, stop: None, recorded: false, reading: &reading, deadline: None, printed: true };
        decide(evidence, &mut Vec::new()).end
    };
    let limit = killed(Some(OutOfMemory::Limit(64)), ExecEnd::Signaled(9));
    assert!(matches!(&limit, SessionEnd::Limit { limit: LimitKind::Memory, message } if message.contains("64 bytes")));
    let machine = killed(Some(OutOfMemory::Machine), ExecEnd::Exited(137));
    assert!(matches!(machine, SessionEnd::Lost { .. }), "{machine:?}");
    let own = killed(None, ExecEnd::Signaled(9));
    assert!(matches!(own, SessionEnd::AgentFailed { .. }), "{own:?}");
    // A command that ended well although a child of it was killed did not fail for it.
    let well = killed(Some(OutOfMemory::Limit(64)), ExecEnd::Exited(0));
    assert!(!matches!(well, SessionEnd::Limit { .. }), "{well:?}");
}
