//! Whose figures count for a session, and where they differ. Pure: nothing is merged.

use crate::domain::failure::Timer;
use crate::domain::session::SessionEnd;
use crate::domain::{Micros, SessionRecord, Usage, UsageSource, is_same_model};
use crate::redact::printable;
use crate::store::{ModelUse, Outage};

/// What the gateway saw of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Requests that came, the refused ones included.
    pub(crate) requests: u32,
    /// Those that went for tokens to the provider, or to the cassette in its place.
    pub(crate) billed: u32,
    /// Those of them that a cassette answered.
    pub(crate) played: u32,
    /// Their tokens.
    pub(crate) usage: Usage,
    /// Their cost.
    pub(crate) cost: Option<Micros>,
    /// What they cost at least.
    pub(crate) known_cost: Micros,
    /// An exchange could not be recorded: what the harness made of that says nothing of the agent.
    pub(crate) broken: bool,
}

/// What stands on the record of a session whose tokens did not pass the gateway.
const ANOTHER_WAY: &str = "the harness reports tokens, and the gateway passed no request of it: it went another way";

/// How a line about models begins.
const MODEL: &str = "model: ";

/// Books a session by what the gateway saw of it, and notes where the harness's own report differs by more than the share
/// `tolerance`. Where nothing went to the provider through the gateway, a report of tokens stands. Without one nothing was
/// spent, because a session that goes through the gateway holds no key to spend with, unless something shows that the
/// agent worked all the same.
pub(crate) fn settle(record: &mut SessionRecord, seen: Seen, tolerance: f64) {
    record.api_calls = Some(u64::from(seen.requests));
    if seen.billed == 0 && reports_any(record) {
        record.warnings.push(ANOTHER_WAY.to_owned());
        return;
    }
    if seen.billed == 0 && may_have_worked(record) {
        return;
    }
    record.usage = seen.usage;
    record.cost = seen.cost;
    record.cost_at_least = seen.cost.is_none().then_some(seen.known_cost);
    record.usage_source = Some(UsageSource::Gateway);
    // What a cassette answers costs nothing; a harness prices its tokens all the same.
    record.discrepancies = discrepancies(record, tolerance, seen.played == 0);
}

/// Ends a session as its provider's failure where every request of it failed there: then the agent had no chance, whatever
/// its harness made of that. Other ends that are not the agent's stay.
pub(crate) fn outage(record: &mut SessionRecord, outage: Outage) {
    let told = match &record.end {
        SessionEnd::Completed => "completed".to_owned(),
        SessionEnd::TimedOut { timer: Timer::Run, .. } => return,
        SessionEnd::AgentFailed { .. } | SessionEnd::NotStarted { .. } | SessionEnd::TimedOut { .. } => {
            record.end.reason()
        }
        _ => return,
    };
    let Outage { calls, fault, status } = outage;
    let how = status.map_or_else(|| "no answer".to_owned(), |status| format!("HTTP {status}"));
    let message = format!("each of its {calls} request(s) to the provider failed, the last with {how}");
    record.warnings.push(format!("{message}; its harness ended so: {told}"));
    decide(record, SessionEnd::Provider { fault, message });
}

/// Ends a session as the agent's failure whose harness told nothing and failed, although a model had answered: it had begun.
pub(crate) fn crash(record: &mut SessionRecord) {
    if let SessionEnd::NotStarted { message } = &record.end {
        let message = format!("it ended after a model had answered: {message}");
        decide(record, SessionEnd::AgentFailed { message });
    }
}

/// Ends a session that ran out of time as never begun where it has asked no model and told nothing: it hung from its start.
pub(crate) fn silence(record: &mut SessionRecord) {
    let told = some(record.turns) || some(record.tool_calls) || record.text.is_some() || reports_any(record);
    if told || record.api_calls != Some(0) {
        return;
    }
    if let SessionEnd::TimedOut { timer, .. } = &record.end
        && *timer != Timer::Run
    {
        let message = format!("it asked no model and told nothing before the {}", record.end.reason());
        decide(record, SessionEnd::NotStarted { message });
    }
}

/// Ends a session by what the gateway saw, which the harness's log cannot tell.
fn decide(record: &mut SessionRecord, end: SessionEnd) {
    record.end = end;
    if let Some(from_log) = &mut record.from_log {
        from_log.decides_end = false;
    }
}

/// Compares the figures once more, where those of the harness were read anew. What the gateway counted stays.
pub(crate) fn compare_again(record: &mut SessionRecord, tolerance: f64) {
    match record.usage_source {
        Some(UsageSource::Gateway) => {
            // What a cassette answered cost nothing.
            let is_paid = record.cost != Some(Micros::ZERO);
            let mut lines = discrepancies(record, tolerance, is_paid);
            // Which models answered, the gateway alone knows.
            lines.extend(record.discrepancies.drain(..).filter(|line| line.starts_with(MODEL)));
            record.discrepancies = lines;
        }
        Some(UsageSource::Harness) if record.api_calls.is_some() => {
            record.warnings.retain(|warning| warning != ANOTHER_WAY);
            if reports_any(record) {
                record.warnings.push(ANOTHER_WAY.to_owned());
            }
        }
        Some(UsageSource::Harness) | None => {}
    }
}

/// Tells whether the harness reports that it used anything.
fn reports_any(record: &SessionRecord) -> bool {
    let Usage { input, output, cache_read, cache_write, reasoning } = record.reported_usage;
    let tokens = [input, output, cache_read, cache_write, reasoning];
    tokens.into_iter().flatten().any(|count| count > 0) || record.reported_cost.is_some_and(|cost| cost > Micros::ZERO)
}

fn some(count: Option<u64>) -> bool {
    count.is_some_and(|count| count > 0)
}

/// Tells whether something shows, or hides, that a model was at work: a turn, a tool, a long silence that had to be ended.
fn may_have_worked(record: &SessionRecord) -> bool {
    let ended = matches!(record.end, SessionEnd::TimedOut { .. } | SessionEnd::Cancelled | SessionEnd::Lost { .. });
    some(record.turns) || some(record.tool_calls) || record.end == SessionEnd::Completed || ended
}

fn discrepancies(record: &SessionRecord, tolerance: f64, is_paid: bool) -> Vec<String> {
    let (counted, reported) = (&record.usage, &record.reported_usage);
    let classes = [
        ("input tokens", counted.input, reported.input),
        ("output tokens", counted.output, reported.output),
        ("cache read tokens", counted.cache_read, reported.cache_read),
        ("cache write tokens", counted.cache_write, reported.cache_write),
        ("reasoning tokens", counted.reasoning, reported.reasoning),
    ];
    let mut lines: Vec<String> = classes
        .into_iter()
        .filter_map(|(name, counted, reported)| {
            let (counted, reported) = (counted?, reported?);
            differs(counted, reported, tolerance)
                .then(|| format!("{name}: the gateway counted {counted}, the harness reports {reported}"))
        })
        .collect();
    if let (Some(counted), Some(reported)) = (record.cost.filter(|_| is_paid), record.reported_cost) {
        let positive = |cost: Micros| u64::try_from(cost.get()).unwrap_or(0);
        // Harnesses report rounded dollars; less than a cent's hundredth is no difference.
        let rounding = positive(counted).abs_diff(positive(reported)) < 100;
        if !rounding && differs(positive(counted), positive(reported), tolerance) {
            lines.push(format!("cost: {counted} by the gateway's tokens, {reported} by the harness"));
        }
    }
    lines
}

/// Notes where a session was answered by another model than it asked for, or asked for none of what it was told to use, and
/// what of it has no price.
pub(crate) fn models(record: &mut SessionRecord, uses: &[ModelUse], is_priced: impl Fn(&str) -> bool) {
    for ModelUse { asked, served, calls, unknown_costs } in uses {
        if let (Some(asked), Some(served)) = (asked, served)
            && !is_same_model(asked, served)
        {
            let (asked, served) = (printable(asked), printable(served));
            record
                .discrepancies
                .push(format!("{MODEL}asked for `{asked}`, answered by `{served}` ({calls} request(s))"));
        }
        let counted = served.as_ref().or(asked.as_ref());
        let same = asked.as_ref().filter(|asked| counted.is_some_and(|counted| is_same_model(asked, counted)));
        let has_price = counted.into_iter().chain(same).any(|model| is_priced(model));
        if *unknown_costs > 0 && !has_price {
            let model = counted.map_or_else(|| "one that is not named".to_owned(), |model| printable(model));
            record.warnings.push(format!(
                "model `{model}` has no price: what {unknown_costs} request(s) to it cost is unknown, and no ceiling holds them"
            ));
        }
    }
    let asked: Vec<&str> = uses.iter().filter_map(|used| used.asked.as_deref()).collect();
    // A name without a version is an alias of the harness's own, such as `sonnet`.
    let is_versioned = record.model.bytes().any(|byte| byte.is_ascii_digit());
    if is_versioned && !asked.is_empty() && !asked.iter().any(|asked| is_same_model(&record.model, asked)) {
        let others = asked.iter().map(|asked| format!("`{}`", printable(asked))).collect::<Vec<_>>().join(", ");
        record
            .discrepancies
            .push(format!("{MODEL}it was to use `{}`, and no request asked for that: {others}", record.model));
    }
}

/// Tells whether two figures differ by more than a share of the larger one.
#[expect(clippy::cast_precision_loss, reason = "a share of tokens or micro-dollars")]
fn differs(counted: u64, reported: u64, tolerance: f64) -> bool {
    counted.abs_diff(reported) as f64 > counted.max(reported) as f64 * tolerance
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use test_case::test_case;

    use super::*;
    use crate::domain::failure::ProviderFault;

    fn reported(usage: Usage, cost: Option<i64>) -> SessionRecord {
        SessionRecord {
            usage,
            cost: cost.map(Micros::new),
            reported_usage: usage,
            reported_cost: cost.map(Micros::new),
            usage_source: Some(UsageSource::Harness),
            ..SessionRecord::completed(1, Timestamp::UNIX_EPOCH, "done")
        }
    }

    fn tokens(input: u64, output: u64) -> Usage {
        Usage { input: Some(input), output: Some(output), ..Usage::ZERO }
    }

    #[test]
    fn the_gateway_counts_and_the_report_stands_beside_it() {
        let mut record = reported(tokens(1114, 244), Some(17_000));
        let cost = Micros::new(17_430);
        let seen = Seen {
            requests: 5,
            billed: 5,
            played: 0,
            usage: tokens(1124, 246),
            cost: Some(cost),
            known_cost: cost,
            broken: false,
        };
        settle(&mut record, seen, 0.0);
        assert_eq!((record.usage, record.cost), (seen.usage, seen.cost));
        assert_eq!((record.reported_usage, record.reported_cost), (tokens(1114, 244), Some(Micros::new(17_000))));
        assert_eq!((record.usage_source, record.api_calls), (Some(UsageSource::Gateway), Some(5)));
        assert_eq!(record.discrepancies.len(), 3, "{:?}", record.discrepancies);
        assert_eq!(record.discrepancies[0], "input tokens: the gateway counted 1124, the harness reports 1114");
        settle(&mut record, seen, 0.05);
        assert!(record.discrepancies.is_empty(), "within what they may differ: {:?}", record.discrepancies);
    }

    #[test]
    fn what_was_played_costs_nothing_and_that_is_no_difference() {
        let mut record = reported(tokens(1114, 244), Some(17_000));
        let free = Some(Micros::ZERO);
        let usage = tokens(1124, 244);
        let seen =
            Seen { requests: 1, billed: 1, played: 1, usage, cost: free, known_cost: Micros::ZERO, broken: false };
        settle(&mut record, seen, 0.0);
        assert_eq!(record.cost, free);
        assert_eq!(record.discrepancies, ["input tokens: the gateway counted 1124, the harness reports 1114"]);
    }

    fn timed_out(timer: Timer) -> SessionEnd {
        SessionEnd::TimedOut { timer, limit: Duration::from_secs(9), elapsed: Duration::from_secs(9) }
    }

    #[test_case(SessionEnd::AgentFailed { message: "exit 1".to_owned() }, true; "what it takes for its own failure")]
    #[test_case(SessionEnd::NotStarted { message: "exit 1".to_owned() }, true; "what looks like no start")]
    #[test_case(SessionEnd::Completed, true; "what it takes for a success")]
    #[test_case(timed_out(Timer::Task), true; "asking until the time is over")]
    #[test_case(timed_out(Timer::Run), false; "the run's own end")]
    #[test_case(SessionEnd::Cancelled, false; "the user's will")]
    fn where_every_request_failed_the_end_is_the_providers(end: SessionEnd, is_theirs: bool) {
        let mut record = reported(Usage::ZERO, None);
        record.end = end.clone();
        outage(&mut record, Outage { calls: 3, fault: ProviderFault::RateLimited, status: Some(429) });
        let message = "each of its 3 request(s) to the provider failed, the last with HTTP 429".to_owned();
        let theirs = SessionEnd::Provider { fault: ProviderFault::RateLimited, message };
        assert_eq!(record.end, if is_theirs { theirs } else { end });
        assert_eq!(record.warnings.len(), usize::from(is_theirs));
    }

    #[test]
    fn a_harness_that_failed_after_a_model_had_answered_had_begun() {
        let mut record = reported(tokens(5, 1), None);
        record.end = SessionEnd::NotStarted { message: "exit code 1".to_owned() };
        crash(&mut record);
        let message = "it ended after a model had answered: exit code 1".to_owned();
        assert_eq!(record.end, SessionEnd::AgentFailed { message });
        record.end = SessionEnd::Completed;
        crash(&mut record);
        assert_eq!(record.end, SessionEnd::Completed);
    }

    #[test]
    fn a_harness_that_hung_from_its_start_never_began() {
        let silent = |api_calls: Option<u64>, timer: Timer| {
            let mut record = reported(Usage::UNKNOWN, None);
            (record.end, record.api_calls, record.text) = (timed_out(timer), api_calls, None);
            silence(&mut record);
            matches!(record.end, SessionEnd::NotStarted { .. })
        };
        assert!(silent(Some(0), Timer::Idle) && silent(Some(0), Timer::Task));
        assert!(!silent(Some(0), Timer::Run), "the run's own end");
        assert!(!silent(Some(1), Timer::Idle), "it has asked");
        assert!(!silent(None, Timer::Idle), "nobody saw what it asked");
    }

    #[test]
    fn a_report_that_is_read_anew_is_compared_anew_and_what_is_known_of_models_stays() {
        let mut record = reported(tokens(1114, 244), None);
        let known_cost = Micros::ZERO;
        let seen = Seen {
            requests: 1,
            billed: 1,
            played: 1,
            usage: tokens(1124, 244),
            cost: Some(known_cost),
            known_cost,
            broken: false,
        };
        settle(&mut record, seen, 0.0);
        record.discrepancies.push(format!("{MODEL}asked for `a-1`, answered by `b-1` (1 request(s))"));
        record.reported_usage = tokens(1124, 250);
        record.reported_cost = Some(Micros::new(17_000));
        compare_again(&mut record, 0.0);
        assert_eq!(
            record.discrepancies,
            [
                "output tokens: the gateway counted 244, the harness reports 250",
                "model: asked for `a-1`, answered by `b-1` (1 request(s))",
            ]
        );
        assert_eq!(record.usage, tokens(1124, 244));
    }

    #[test]
    fn what_is_unknown_differs_from_nothing_and_stays_unknown() {
        let mut record = reported(Usage::UNKNOWN, None);
        let known_cost = Micros::new(7);
        settle(
            &mut record,
            Seen { requests: 2, billed: 2, played: 0, usage: tokens(5, 1), cost: None, known_cost, broken: false },
            0.0,
        );
        assert_eq!((record.cost, record.usage.input), (None, Some(5)));
        assert_eq!((record.cost_at_least, record.known_cost()), (Some(known_cost), known_cost));
        assert!(record.discrepancies.is_empty());
    }

    const NOTHING: Seen = Seen {
        requests: 3,
        billed: 0,
        played: 0,
        usage: Usage::ZERO,
        cost: Some(Micros::ZERO),
        known_cost: Micros::ZERO,
        broken: false,
    };

    #[test]
    fn a_session_that_never_reached_a_model_has_spent_nothing() {
        let mut record = reported(Usage::UNKNOWN, None);
        record.end = SessionEnd::NotStarted { message: "no such program".to_owned() };
        settle(&mut record, NOTHING, 0.0);
        assert_eq!((record.usage, record.cost), (Usage::ZERO, Some(Micros::ZERO)));
        assert_eq!((record.usage_source, record.api_calls), (Some(UsageSource::Gateway), Some(3)));
        assert!(record.warnings.is_empty());
    }

    #[test]
    fn a_session_that_worked_without_the_gateway_has_spent_nobody_knows_what() {
        for end in [SessionEnd::Completed, SessionEnd::Cancelled] {
            let mut record = reported(Usage::UNKNOWN, None);
            record.end = end;
            settle(&mut record, NOTHING, 0.0);
            assert_eq!((record.usage, record.cost), (Usage::UNKNOWN, None));
        }
    }

    fn used(asked: &str, served: &str, unknown_costs: u32) -> ModelUse {
        ModelUse { asked: Some(asked.to_owned()), served: Some(served.to_owned()), calls: 3, unknown_costs }
    }

    #[test]
    fn another_model_than_the_one_that_was_asked_is_told() {
        let mut record = SessionRecord { model: "claude-sonnet-4-5".to_owned(), ..reported(Usage::ZERO, None) };
        let as_usual = [
            used("claude-sonnet-4-5", "claude-sonnet-4-5-20250929", 0),
            used("claude-haiku-4-5", "claude-haiku-4-5-20251001", 0),
        ];
        models(&mut record, &as_usual, |_| true);
        assert!(record.discrepancies.is_empty() && record.warnings.is_empty(), "{record:?}");
        models(&mut record, &[used("claude-sonnet-4-5", "claude-haiku-4-5-20251001", 0)], |_| true);
        let told = "model: asked for `claude-sonnet-4-5`, answered by `claude-haiku-4-5-20251001` (3 request(s))";
        assert_eq!(record.discrepancies, [told]);
    }

    #[test]
    fn a_harness_that_asks_for_another_model_by_itself_is_told() {
        let mut record = SessionRecord { model: "gemini-2.5-pro".to_owned(), ..reported(Usage::ZERO, None) };
        models(&mut record, &[used("gemini-2.5-flash", "gemini-2.5-flash", 0)], |_| true);
        let told = "model: it was to use `gemini-2.5-pro`, and no request asked for that: `gemini-2.5-flash`";
        assert_eq!(record.discrepancies, [told]);
        let mut alias = SessionRecord { model: "sonnet".to_owned(), ..reported(Usage::ZERO, None) };
        models(&mut alias, &[used("claude-sonnet-4-5", "claude-sonnet-4-5", 0)], |_| true);
        assert!(alias.discrepancies.is_empty(), "{alias:?}");
    }

    #[test]
    fn what_has_no_price_is_told() {
        let mut record = SessionRecord { model: "alias".to_owned(), ..reported(Usage::ZERO, None) };
        // An alias with a price, served by a dated release; one whose cost is unknown since its stream broke off.
        models(&mut record, &[used("m-1", "m-1-20250929", 1)], |model| model == "m-1");
        assert!(record.warnings.is_empty(), "{record:?}");
        models(&mut record, &[used("m-1", "n-2", 2)], |model| model == "m-1");
        assert_eq!(record.warnings.len(), 1);
        assert!(record.warnings[0].starts_with("model `n-2` has no price: what 2 request(s) to it cost is unknown"));
    }

    #[test]
    fn a_harness_that_went_another_way_is_believed_and_told_of() {
        let mut record = reported(tokens(10, 2), Some(50));
        settle(&mut record, NOTHING, 0.0);
        assert_eq!((record.usage, record.cost), (tokens(10, 2), Some(Micros::new(50))));
        assert_eq!((record.usage_source, record.api_calls), (Some(UsageSource::Harness), Some(3)));
        assert_eq!(record.warnings.len(), 1);
    }
}
