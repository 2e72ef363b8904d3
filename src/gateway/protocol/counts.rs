//! The token counts of an answer, and what they mean.

use crate::domain::Usage;

use super::api::Family;

/// A count as an answer tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Count {
    #[default]
    Untold,
    /// `null`.
    Null,
    Told(u64),
    /// Negative, broken, or no number at all.
    Wrong,
}

impl Count {
    /// Reads a number. One that is not whole is wrong, except for a zero fraction.
    pub(super) fn parse(number: &str) -> Self {
        let whole = number
            .split_once('.')
            .map_or(number, |(whole, fraction)| if fraction.bytes().all(|byte| byte == b'0') { whole } else { "" });
        whole.parse().map_or(Self::Wrong, Self::Told)
    }

    /// The larger of two tellings of a count that only grows.
    fn grown(self, later: Self) -> Self {
        match (self, later) {
            (Self::Wrong, _) | (_, Self::Wrong) => Self::Wrong,
            (Self::Told(a), Self::Told(b)) => Self::Told(a.max(b)),
            (Self::Told(a), _) | (_, Self::Told(a)) => Self::Told(a),
            (Self::Null, _) | (_, Self::Null) => Self::Null,
            (Self::Untold, Self::Untold) => Self::Untold,
        }
    }

    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Told(a), Self::Told(b)) => a.checked_add(b).map_or(Self::Wrong, Self::Told),
            (one, other) => one.grown(other),
        }
    }

    /// A class that was used for nothing where it says nothing.
    fn or_zero(self) -> Option<u64> {
        match self {
            Self::Told(count) => Some(count),
            Self::Untold | Self::Null => Some(0),
            Self::Wrong => None,
        }
    }

    fn known(self) -> Option<u64> {
        if let Self::Told(count) = self { Some(count) } else { None }
    }
}

/// The counts of one usage object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Counts {
    pub(super) input: Count,
    pub(super) cache_read: Count,
    pub(super) cache_hit: Count,
    pub(super) cache_write: Count,
    pub(super) cache_write_short: Count,
    pub(super) cache_write_long: Count,
    pub(super) tool_input: Count,
    pub(super) output: Count,
    pub(super) reasoning: Count,
    pub(super) total: Count,
}

impl Counts {
    /// Tells whether the object held any count.
    pub(super) fn is_told(&self) -> bool {
        let Self { input, output, total, .. } = self;
        [input, output, total].iter().any(|count| !matches!(count, Count::Untold | Count::Null))
    }

    /// What is known after a later object that goes on counting.
    pub(super) fn grown(self, later: Self) -> Self {
        self.zip(later, Count::grown)
    }

    /// What is known of two things together.
    pub(super) fn plus(self, other: Self) -> Self {
        self.zip(other, Count::plus)
    }

    fn zip(self, other: Self, f: impl Fn(Count, Count) -> Count) -> Self {
        Self {
            input: f(self.input, other.input),
            cache_read: f(self.cache_read, other.cache_read),
            cache_hit: f(self.cache_hit, other.cache_hit),
            cache_write: f(self.cache_write, other.cache_write),
            cache_write_short: f(self.cache_write_short, other.cache_write_short),
            cache_write_long: f(self.cache_write_long, other.cache_write_long),
            tool_input: f(self.tool_input, other.tool_input),
            output: f(self.output, other.output),
            reasoning: f(self.reasoning, other.reasoning),
            total: f(self.total, other.total),
        }
    }

    /// The five classes. `settled` says that the count of the output is the last one.
    pub(super) fn usage(&self, family: Family, settled: bool) -> Usage {
        if !self.is_told() {
            return Usage::UNKNOWN;
        }
        let usage = match family {
            Family::Anthropic => self.anthropic(),
            Family::OpenAi => self.openai(),
            Family::Gemini => self.gemini(),
        };
        if settled { usage } else { Usage { output: None, reasoning: None, ..usage } }
    }

    fn anthropic(&self) -> Usage {
        let parts = || Some(self.cache_write_short.known()?.saturating_add(self.cache_write_long.known()?));
        let zero_if_null = |count: Count| if count == Count::Null { Some(0) } else { count.known() };
        let cache_write = match self.cache_write {
            Count::Untold => parts(),
            told => zero_if_null(told),
        };
        let (output, reasoning) = within(self.output.known(), self.reasoning);
        Usage { input: self.input.known(), cache_read: zero_if_null(self.cache_read), cache_write, output, reasoning }
    }

    /// The part of the cache's writes that is kept for an hour. Untold is none: a cache keeps for the usual time if not asked.
    pub(super) fn cache_write_long(&self, family: Family) -> Option<u64> {
        if family != Family::Anthropic {
            return Some(0);
        }
        let long = self.cache_write_long.or_zero()?;
        let (Some(written), true) = (self.anthropic().cache_write, long > 0) else { return Some(long) };
        let short = match self.cache_write_short {
            Count::Untold | Count::Null => written.checked_sub(long),
            told => told.known(),
        };
        (short?.checked_add(long) == Some(written)).then_some(long)
    }

    fn openai(&self) -> Usage {
        let read = match self.cache_read {
            Count::Untold | Count::Null => self.cache_hit,
            told => told,
        };
        let (input, cache_read, cache_write) = apart(self.input, read.or_zero(), self.cache_write.or_zero());
        let (output, reasoning) = self.openai_output();
        Usage { input, output, cache_read, cache_write, reasoning }
    }

    /// Some servers leave reasoning out of the output; only the total has it then.
    fn openai_output(&self) -> (Option<u64>, Option<u64>) {
        let (Some(prompt), Some(output)) = (self.input.known(), self.output.known()) else {
            return within(self.output.known(), self.reasoning);
        };
        let sum = prompt.saturating_add(output);
        match (self.total, self.reasoning) {
            (Count::Told(total), Count::Told(reasoning)) if total > sum => {
                let matches = sum.checked_add(reasoning) == Some(total);
                if matches { (output.checked_add(reasoning), Some(reasoning)) } else { (None, None) }
            }
            (Count::Told(total), Count::Untold | Count::Null) if total > sum => {
                (output.checked_add(total - sum), Some(total - sum))
            }
            (Count::Told(total), _) if total != sum => (None, None),
            (Count::Wrong, _) => (None, None),
            _ => within(Some(output), self.reasoning),
        }
    }

    /// A field that is zero is left out.
    fn gemini(&self) -> Usage {
        let (prompt, cache_read, _) = apart(self.input, self.cache_read.or_zero(), Some(0));
        let input = prompt.zip(self.tool_input.or_zero()).and_then(|(prompt, tools)| prompt.checked_add(tools));
        let reasoning = self.reasoning.or_zero();
        let answer = self.output.or_zero();
        let output = answer.zip(reasoning).and_then(|(answer, reasoning)| answer.checked_add(reasoning));
        Usage { input, cache_read, cache_write: Some(0), output, reasoning: output.and(reasoning) }
    }
}

/// Takes cached tokens out of an input that includes them. Where they are more than it, all three are unknown.
fn apart(input: Count, read: Option<u64>, write: Option<u64>) -> (Option<u64>, Option<u64>, Option<u64>) {
    let Some((read_count, write_count)) = read.zip(write) else { return (None, read, write) };
    let Some(input) = input.known() else { return (None, read, write) };
    match input.checked_sub(read_count).and_then(|rest| rest.checked_sub(write_count)) {
        Some(rest) => (Some(rest), read, write),
        None => (None, None, None),
    }
}

/// Reasoning that is part of an output; more of it than output contradicts itself.
fn within(output: Option<u64>, reasoning: Count) -> (Option<u64>, Option<u64>) {
    match (output, reasoning.known()) {
        (Some(output), Some(reasoning)) if reasoning > output => (None, None),
        (output, reasoning) => (output, reasoning),
    }
}

#[cfg(test)]
mod tests;
