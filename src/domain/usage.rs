//! Tokens in five disjoint classes, each of which may be unknown.

use serde::{Deserialize, Serialize};

/// What a session used. `None` means nobody measured it, which is not zero.
///
/// `input` leaves out cached tokens; `output` includes `reasoning` (the convention of every provider's bill),
/// so the total of a session is `input + cache_read + cache_write + output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    #[serde(default)]
    pub input: Option<u64>,
    /// Output tokens, reasoning included.
    #[serde(default)]
    pub output: Option<u64>,
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read: Option<u64>,
    /// Input tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write: Option<u64>,
    /// The part of `output` that was reasoning.
    #[serde(default)]
    pub reasoning: Option<u64>,
}

impl Usage {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { input: None, output: None, cache_read: None, cache_write: None, reasoning: None };
    /// Everything is known to be zero.
    pub const ZERO: Self =
        Self { input: Some(0), output: Some(0), cache_read: Some(0), cache_write: Some(0), reasoning: Some(0) };

    /// Tells whether no class was measured.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        *self == Self::UNKNOWN
    }

    /// Adds class by class; a class that is unknown on either side is unknown in the sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.zip(other, |a, b| Some(a?.saturating_add(b?)))
    }

    /// Takes each class from `later` where it is known there, else from `self`.
    ///
    /// For providers that tell one class early and another late in the same exchange.
    #[must_use]
    pub fn overlaid_by(self, later: Self) -> Self {
        self.zip(later, |a, b| b.or(a))
    }

    /// Returns the counts with those that nobody told as zero: for the least that something can have cost, and nothing
    /// else.
    #[must_use]
    pub fn as_told(self) -> Self {
        self.zip(Self::ZERO, Option::or)
    }

    /// Returns input, caches and output together, or `None` where one of them is unknown.
    #[must_use]
    pub fn total(&self) -> Option<u64> {
        let parts = [self.input, self.cache_read, self.cache_write, self.output];
        parts.into_iter().try_fold(0u64, |sum, part| Some(sum.saturating_add(part?)))
    }

    fn zip(self, other: Self, f: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            input: f(self.input, other.input),
            output: f(self.output, other.output),
            cache_read: f(self.cache_read, other.cache_read),
            cache_write: f(self.cache_write, other.cache_write),
            reasoning: f(self.reasoning, other.reasoning),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_class_makes_the_sum_unknown() {
        let known = Usage { input: Some(3), output: Some(4), ..Usage::UNKNOWN };
        let sum = known.plus(Usage { input: Some(1), ..Usage::UNKNOWN });
        assert_eq!(sum.input, Some(4));
        assert_eq!(sum.output, None);
        assert_eq!(sum.total(), None);
    }

    #[test]
    fn later_numbers_replace_earlier_ones_only_where_they_are_told() {
        let start = Usage { input: Some(10), output: Some(1), cache_read: Some(500), ..Usage::UNKNOWN };
        let end = Usage { output: Some(42), ..Usage::UNKNOWN };
        let merged = start.overlaid_by(end);
        assert_eq!((merged.output, merged.cache_read), (Some(42), Some(500)));
    }

    #[test]
    fn reasoning_is_part_of_output() {
        let usage = Usage { output: Some(100), reasoning: Some(80), ..Usage::ZERO };
        assert_eq!(usage.total(), Some(100));
    }
}
