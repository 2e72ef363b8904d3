//! Whose figures count for a session, and where they differ. Pure: nothing is merged.

use crate::domain::{Micros, SessionRecord, Usage, UsageSource};

/// What the gateway saw of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Requests that came, the refused ones included.
    pub(crate) requests: u32,
    /// Their tokens.
    pub(crate) usage: Usage,
    /// Their cost.
    pub(crate) cost: Option<Micros>,
}

/// Books a session by what the gateway saw of it, and notes where the harness's own report differs by more than the share
/// `tolerance`. Where the gateway saw no request, a report of tokens stands; without one nothing was spent, because a
/// session that goes through the gateway holds no key to spend with.
pub(crate) fn settle(record: &mut SessionRecord, seen: Seen, tolerance: f64) {
    record.api_calls = Some(u64::from(seen.requests));
    if seen.requests == 0 && reports_any(record) {
        let warning = "the harness reports tokens, and the gateway saw no request of it: it went another way";
        record.warnings.push(warning.to_owned());
        return;
    }
    record.usage = seen.usage;
    record.cost = seen.cost;
    record.usage_source = Some(UsageSource::Gateway);
    record.discrepancies = discrepancies(record, tolerance);
}

/// Tells whether the harness reports that it used anything.
fn reports_any(record: &SessionRecord) -> bool {
    let Usage { input, output, cache_read, cache_write, reasoning } = record.reported_usage;
    let tokens = [input, output, cache_read, cache_write, reasoning];
    tokens.into_iter().flatten().any(|count| count > 0) || record.reported_cost.is_some_and(|cost| cost > Micros::ZERO)
}

fn discrepancies(record: &SessionRecord, tolerance: f64) -> Vec<String> {
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
    if let (Some(counted), Some(reported)) = (record.cost, record.reported_cost) {
        let positive = |cost: Micros| u64::try_from(cost.get()).unwrap_or(0);
        // Harnesses report rounded dollars; less than a cent's hundredth is no difference.
        let rounding = positive(counted).abs_diff(positive(reported)) < 100;
        if !rounding && differs(positive(counted), positive(reported), tolerance) {
            lines.push(format!("cost: {counted} by the gateway's tokens, {reported} by the harness"));
        }
    }
    lines
}

/// Tells whether two figures differ by more than a share of the larger one.
#[expect(clippy::cast_precision_loss, reason = "a share of tokens or micro-dollars")]
fn differs(counted: u64, reported: u64, tolerance: f64) -> bool {
    counted.abs_diff(reported) as f64 > counted.max(reported) as f64 * tolerance
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

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
        let seen = Seen { requests: 5, usage: tokens(1124, 246), cost: Some(Micros::new(17_430)) };
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
    fn what_is_unknown_differs_from_nothing_and_stays_unknown() {
        let mut record = reported(Usage::UNKNOWN, None);
        settle(&mut record, Seen { requests: 1, usage: tokens(5, 1), cost: None }, 0.0);
        assert_eq!((record.cost, record.usage.input), (None, Some(5)));
        assert!(record.discrepancies.is_empty());
    }

    #[test]
    fn a_session_without_a_request_has_spent_nothing() {
        let mut record = reported(Usage::UNKNOWN, None);
        settle(&mut record, Seen { requests: 0, usage: Usage::ZERO, cost: Some(Micros::ZERO) }, 0.0);
        assert_eq!((record.usage, record.cost), (Usage::ZERO, Some(Micros::ZERO)));
        assert_eq!((record.usage_source, record.api_calls), (Some(UsageSource::Gateway), Some(0)));
        assert!(record.warnings.is_empty());
    }

    #[test]
    fn a_harness_that_went_another_way_is_believed_and_told_of() {
        let mut record = reported(tokens(10, 2), Some(50));
        settle(&mut record, Seen { requests: 0, usage: Usage::ZERO, cost: Some(Micros::ZERO) }, 0.0);
        assert_eq!((record.usage, record.cost), (tokens(10, 2), Some(Micros::new(50))));
        assert_eq!((record.usage_source, record.api_calls), (Some(UsageSource::Harness), Some(0)));
        assert_eq!(record.warnings.len(), 1);
    }
}
