//! Token counts and costs of a session, as they come line by line.

use std::collections::VecDeque;

use crate::config::harness_manifest::UsageMode;
use crate::domain::{Micros, Usage};

/// How many parts with a name may still change; harnesses repeat one within a few lines.
const MOST_OPEN: usize = 64;

/// What has been told so far. Numbers told as totals go before numbers that were added up.
#[derive(Debug, Default)]
pub(super) struct Tally {
    summed: Option<Usage>,
    /// Parts that later lines may tell again, by their names.
    open: VecDeque<(String, Usage)>,
    last: Option<Usage>,
    summed_cost: Option<Micros>,
    last_cost: Option<Micros>,
    cumulative: bool,
}

impl Tally {
    /// Takes what a line tells; returns the session's usage so far if it told anything. Of parts with the same name `once`
    /// the last one counts.
    pub(super) fn usage(&mut self, mode: UsageMode, once: Option<String>, told: Usage) -> Option<Usage> {
        if told.is_unknown() {
            return None;
        }
        self.cumulative |= mode.holds_resumed();
        match (mode, once) {
            (UsageMode::Sum | UsageMode::CumulativeSum, None) => self.add(told),
            (UsageMode::Sum | UsageMode::CumulativeSum, Some(name)) => self.add_once(name, told),
            (UsageMode::Last | UsageMode::Cumulative, _) => {
                self.last = Some(self.last.map_or(told, |last| last.overlaid_by(told)));
            }
        }
        Some(self.total_usage())
    }

    fn add(&mut self, told: Usage) {
        self.summed = Some(self.summed.map_or(told, |sum| sum.plus(told)));
    }

    fn add_once(&mut self, name: String, told: Usage) {
        if let Some((_, usage)) = self.open.iter_mut().find(|(known, _)| *known == name) {
            *usage = usage.overlaid_by(told);
            return;
        }
        if self.open.len() == MOST_OPEN
            && let Some((_, settled)) = self.open.pop_front()
        {
            self.add(settled);
        }
        self.open.push_back((name, told));
    }

    /// Takes a cost; returns the session's cost so far if there was one.
    pub(super) fn cost(&mut self, mode: UsageMode, told: Option<Micros>) -> Option<Micros> {
        // A negative cost is no cost.
        let told = told.filter(|cost| *cost >= Micros::ZERO)?;
        self.cumulative |= mode.holds_resumed();
        match mode {
            UsageMode::Sum | UsageMode::CumulativeSum => {
                self.summed_cost = Some(self.summed_cost.map_or(told, |sum| sum + told));
            }
            UsageMode::Last | UsageMode::Cumulative => self.last_cost = Some(told),
        }
        self.total_cost()
    }

    pub(super) fn total_usage(&self) -> Usage {
        let open = self.open.iter().map(|(_, usage)| *usage);
        let summed = self.summed.into_iter().chain(open).reduce(Usage::plus);
        summed.unwrap_or_default().overlaid_by(self.last.unwrap_or_default())
    }

    pub(super) fn total_cost(&self) -> Option<Micros> {
        self.last_cost.or(self.summed_cost)
    }

    pub(super) fn is_cumulative(&self) -> bool {
        self.cumulative
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(output: u64) -> Usage {
        Usage { output: Some(output), ..Usage::UNKNOWN }
    }

    #[test]
    fn a_part_that_is_told_again_counts_once_with_its_last_numbers() {
        let mut tally = Tally::default();
        for (name, output) in [("a", 1), ("a", 50), ("b", 1), ("a", 60), ("b", 7)] {
            tally.usage(UsageMode::Sum, Some(name.to_owned()), usage(output));
        }
        assert_eq!(tally.total_usage().output, Some(67));
        for number in 0..1000 {
            tally.usage(UsageMode::Sum, Some(number.to_string()), usage(1));
        }
        assert_eq!(tally.total_usage().output, Some(1067));
        assert_eq!(tally.open.len(), MOST_OPEN);
    }
}
