//! Token counts and costs of a session, as they come line by line.

use crate::config::harness_manifest::UsageMode;
use crate::domain::{Micros, Usage};

/// What has been told so far. Numbers told as totals go before numbers that were added up.
#[derive(Debug, Default)]
pub(super) struct Tally {
    summed: Option<Usage>,
    last: Option<Usage>,
    summed_cost: Option<Micros>,
    last_cost: Option<Micros>,
    cumulative: bool,
}

impl Tally {
    /// Takes what a line tells; returns the session's usage so far if it told anything.
    pub(super) fn usage(&mut self, mode: UsageMode, told: Usage) -> Option<Usage> {
        if told.is_unknown() {
            return None;
        }
        match mode {
            UsageMode::Sum => self.summed = Some(self.summed.map_or(told, |sum| sum.plus(told))),
            UsageMode::Last | UsageMode::Cumulative => {
                self.last = Some(self.last.map_or(told, |last| last.overlaid_by(told)));
                self.cumulative |= mode == UsageMode::Cumulative;
            }
        }
        Some(self.total_usage())
    }

    /// Takes a cost; returns the session's cost so far if there was one.
    pub(super) fn cost(&mut self, mode: UsageMode, told: Option<Micros>) -> Option<Micros> {
        // A negative cost is no cost.
        let told = told.filter(|cost| *cost >= Micros::ZERO)?;
        match mode {
            UsageMode::Sum => self.summed_cost = Some(self.summed_cost.map_or(told, |sum| sum + told)),
            UsageMode::Last | UsageMode::Cumulative => {
                self.last_cost = Some(told);
                self.cumulative |= mode == UsageMode::Cumulative;
            }
        }
        self.total_cost()
    }

    pub(super) fn total_usage(&self) -> Usage {
        self.summed.unwrap_or_default().overlaid_by(self.last.unwrap_or_default())
    }

    pub(super) fn total_cost(&self) -> Option<Micros> {
        self.last_cost.or(self.summed_cost)
    }

    pub(super) fn is_cumulative(&self) -> bool {
        self.cumulative
    }
}
