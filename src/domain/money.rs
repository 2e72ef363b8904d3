//! Money as an integer number of micro-dollars.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Neg, Sub};

use serde::{Deserialize, Serialize};

/// An amount of US dollars in millionths; may be negative (a debt).
///
/// Integer arithmetic keeps sums exact: a ledger of a million entries adds up to the digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Micros(i64);

/// Why a text or a float is no amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// Not a finite number.
    #[error("an amount of money must be a finite number")]
    NotFinite,
    /// Larger than the ledger can hold (about 9.2 trillion dollars).
    #[error("the amount is too large")]
    TooLarge,
    /// Neither a number nor a number followed by `USD`.
    #[error("expected dollars such as `25`, `0.50` or `25 USD`")]
    NotMoney,
}

impl Micros {
    /// No money at all. A real zero, never a stand-in for "unknown".
    pub const ZERO: Self = Self(0);

    /// Makes an amount from millionths of a dollar.
    #[must_use]
    pub const fn new(micros: i64) -> Self {
        Self(micros)
    }

    /// Returns the amount in millionths of a dollar.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// Converts dollars, rounding half away from zero to the nearest micro-dollar.
    ///
    /// # Errors
    ///
    /// [`MoneyError::NotFinite`] for NaN and infinities, [`MoneyError::TooLarge`] beyond the range of the ledger.
    pub fn from_dollars(dollars: f64) -> Result<Self, MoneyError> {
        if !dollars.is_finite() {
            return Err(MoneyError::NotFinite);
        }
        let micros = (dollars * 1e6).round();
        // 2^63 is exactly representable; anything at or beyond it does not fit.
        if micros.abs() >= 9_223_372_036_854_775_808.0 {
            return Err(MoneyError::TooLarge);
        }
        #[expect(clippy::cast_possible_truncation, reason = "the range was checked above")]
        Ok(Self(micros as i64))
    }

    /// Returns the amount in dollars, for display and for scripts.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "display only; the ledger keeps integers")]
    pub fn dollars(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Parses `25`, `0.5`, `25 USD` or `$25`.
    ///
    /// # Errors
    ///
    /// [`MoneyError::NotMoney`] for any other text, and the errors of [`Micros::from_dollars`].
    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        let trimmed = text.trim();
        let number = trimmed.strip_suffix("USD").unwrap_or(trimmed).trim();
        let number = number.strip_prefix('$').unwrap_or(number).trim();
        let dollars: f64 = number.parse().map_err(|_| MoneyError::NotMoney)?;
        Self::from_dollars(dollars)
    }

    /// Adds without overflow: the sum stops at the ends of the range.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Add for Micros {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        self.saturating_add(other)
    }
}

impl AddAssign for Micros {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Micros {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Micros {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Sum for Micros {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

/// Prints `$0.0123`: four places, and all six where the last two say something.
impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let whole = self.0.unsigned_abs() / 1_000_000;
        let fraction = self.0.unsigned_abs() % 1_000_000;
        if fraction.is_multiple_of(100) {
            write!(f, "{sign}${whole}.{:04}", fraction / 100)
        } else {
            write!(f, "{sign}${whole}.{fraction:06}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("25", Ok(Micros::new(25_000_000)); "plain")]
    #[test_case("0.0123", Ok(Micros::new(12_300)); "fraction")]
    #[test_case("25 USD", Ok(Micros::new(25_000_000)); "unit")]
    #[test_case("$1.5", Ok(Micros::new(1_500_000)); "sign")]
    #[test_case("NaN", Err(MoneyError::NotFinite); "nan")]
    #[test_case("inf", Err(MoneyError::NotFinite); "infinite")]
    #[test_case("1e30", Err(MoneyError::TooLarge); "large")]
    #[test_case("12 EUR", Err(MoneyError::NotMoney); "currency")]
    #[test_case("", Err(MoneyError::NotMoney); "empty")]
    fn parses(text: &str, expected: Result<Micros, MoneyError>) {
        assert_eq!(Micros::parse(text), expected);
    }

    #[test_case(12_300, "$0.0123")]
    #[test_case(12_345, "$0.012345")]
    #[test_case(-50_000, "-$0.0500")]
    #[test_case(25_000_000, "$25.0000")]
    fn displays(micros: i64, expected: &str) {
        assert_eq!(Micros::new(micros).to_string(), expected);
    }

    #[test]
    fn sums_stop_at_the_ends_of_the_range() {
        assert_eq!(Micros::new(i64::MAX) + Micros::new(1), Micros::new(i64::MAX));
        assert_eq!(Micros::new(i64::MIN) - Micros::new(1), Micros::new(i64::MIN));
    }
}
