//! What tokens cost: a table of list prices from files, with a date and a source for each entry.
//!
//! Rates are US dollars per million tokens, five classes, as in [`Usage`]: `input` without the cache, `output` with
//! reasoning in it. The table is bundled and never fetched; a table of the user's own overrides it entry by entry.
//! A model that no entry names has no price, which is not a price of zero.

use globset::{Glob, GlobMatcher};
use include_dir::{Dir, include_dir};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};

use crate::domain::{Micros, PriceSource, Usage};

static BUNDLED: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/prices");

/// Why a price file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PriceError {
    /// Not TOML of the right shape.
    #[error("the price file `{file}` is wrong: {message}")]
    Format {
        /// The file.
        file: String,
        /// What and where.
        message: String,
    },
    /// A model pattern that is no glob.
    #[error("the price file `{file}` has a model pattern that cannot be read, `{pattern}`: {message}")]
    Pattern {
        /// The file.
        file: String,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        message: String,
    },
    /// The same pattern twice.
    #[error("the price file `{file}` has two entries for `{pattern}`; keep one")]
    Duplicate {
        /// The file.
        file: String,
        /// The pattern.
        pattern: String,
    },
}

/// A rate in micro-dollars per million tokens: dollars per million with six exact decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A rate above this is a slip of the pen (dollars per million tokens).
    const MAX_DOLLARS: f64 = 1e6;

    /// Makes a rate from dollars per million tokens; `None` for what is no price: negative, not finite, more than a
    /// million dollars, or finer than six decimals.
    #[must_use]
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        if !dollars.is_finite() || !(0.0..=Self::MAX_DOLLARS).contains(&dollars) {
            return None;
        }
        let scaled = dollars * 1e6;
        if (scaled - scaled.round()).abs() > 1e-3 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked above")]
        Some(Self(scaled.round() as u64))
    }

    fn of(self, tokens: u64) -> u128 {
        u128::from(self.0) * u128::from(tokens)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Dollars;

        impl Visitor<'_> for Dollars {
            type Value = Rate;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("dollars per million tokens, such as 3 or 0.25")
            }

            fn visit_i64<E: serde::de::Error>(self, dollars: i64) -> Result<Rate, E> {
                #[expect(clippy::cast_precision_loss, reason = "beyond 2^53 the range check refuses it anyway")]
                self.visit_f64(dollars as f64)
            }

            fn visit_f64<E: serde::de::Error>(self, dollars: f64) -> Result<Rate, E> {
                Rate::from_dollars(dollars).ok_or_else(|| {
                    E::custom(format!("`{dollars}` is no price: give dollars per million tokens, at most six decimals"))
                })
            }
        }

        deserializer.deserialize_any(Dollars)
    }
}

/// The rates of one model or family of models.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The provider's model id, or a glob such as `claude-sonnet-4-*`.
    pub model: String,
    /// Tokens of input outside the cache.
    pub input: Rate,
    /// Tokens of output, reasoning included.
    pub output: Rate,
    /// Tokens read from the cache; without a rate, a session that read some has no known cost.
    pub cache_read: Option<Rate>,
    /// Tokens written to the cache; as for `cache_read`.
    pub cache_write: Option<Rate>,
    /// Those of them that the cache keeps for an hour, where that has a rate of its own; as for `cache_read`, except that
    /// they are free where all writing is.
    pub cache_write_long: Option<Rate>,
    /// The reasoning part of the output, where it is billed at another rate than the rest.
    pub reasoning: Option<Rate>,
    /// The day the price was looked up (`2025-10-01`).
    #[serde(deserialize_with = "day")]
    pub date: String,
    /// Where.
    #[serde(deserialize_with = "not_empty")]
    pub source: String,
    /// The file that has the entry.
    #[serde(skip)]
    pub file: String,
}

fn not_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.trim().is_empty() {
        return Err(D::Error::custom("must say where the price comes from"));
    }
    Ok(text)
}

fn day<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse::<jiff::civil::Date>()
        .map_err(|_| D::Error::custom(format!("`{text}` is no day; write it as \"2025-10-01\"")))?;
    Ok(text)
}

impl Price {
    /// Says where the entry comes from, for the record.
    #[must_use]
    pub fn origin(&self) -> PriceSource {
        let Self { file, model, date, source, .. } = self.clone();
        PriceSource { file, model, date, source }
    }

    /// Returns what a session's tokens cost, rounded half up to a micro-dollar once, on the sum.
    ///
    /// `None` where the amount depends on a number that nobody measured, or on a rate that the entry does not have. A
    /// stated rate of 0 is a real 0 and needs no count. All that was written to the cache counts as kept for the usual time.
    #[must_use]
    pub fn cost(&self, usage: &Usage) -> Option<Micros> {
        self.cost_with_long(usage, Some(0))
    }

    /// Like [`Price::cost`], where so many of the tokens that were written to the cache are kept there for an hour; `None`
    /// for an unknown number of them.
    #[must_use]
    pub fn cost_with_long(&self, usage: &Usage, cache_write_long: Option<u64>) -> Option<Micros> {
        let parts = [
            part(Some(self.input), usage.input)?,
            part(self.cache_read, usage.cache_read)?,
            self.cache_write_cost(usage.cache_write, cache_write_long)?,
            self.output_cost(usage)?,
        ];
        let mut sum = 0u128;
        for amount in parts {
            sum = sum.checked_add(amount)?;
        }
        i64::try_from(sum.checked_add(500_000)? / 1_000_000).ok().map(Micros::new)
    }

    fn cache_write_cost(&self, written: Option<u64>, long: Option<u64>) -> Option<u128> {
        if long == Some(0)
            || self.cache_write == Some(Rate(0)) && self.cache_write_long.is_none_or(|rate| rate == Rate(0))
        {
            return part(self.cache_write, written);
        }
        let short = written?.checked_sub(long?)?;
        part(self.cache_write, Some(short))?.checked_add(part(self.cache_write_long, long)?)
    }

    fn output_cost(&self, usage: &Usage) -> Option<u128> {
        match self.reasoning {
            Some(rate) if rate != self.output => {
                let reasoning = usage.reasoning?;
                // A harness that reports more reasoning than output counts them apart: bill neither part twice.
                let rest = usage.output?.saturating_sub(reasoning);
                part(Some(self.output), Some(rest))?.checked_add(rate.of(reasoning))
            }
            _ => part(Some(self.output), usage.output),
        }
    }
}

fn part(rate: Option<Rate>, tokens: Option<u64>) -> Option<u128> {
    match (rate, tokens) {
        (Some(Rate(0)), _) | (_, Some(0)) => Some(0),
        (Some(rate), Some(tokens)) => Some(rate.of(tokens)),
        (None, _) | (Some(_), None) => None,
    }
}

#[derive(Debug, Clone)]
struct Row {
    price: Price,
    /// `None` for a plain id.
    glob: Option<GlobMatcher>,
}

impl Row {
    /// How well the row fits a model: an exact id beats every glob, a glob with more literal characters a vaguer one.
    fn fit(&self, model: &str) -> Option<usize> {
        match &self.glob {
            None => (self.price.model == model).then_some(usize::MAX),
            Some(glob) => glob
                .is_match(model)
                .then(|| self.price.model.chars().filter(|c| !matches!(c, '*' | '?' | '[' | ']' | '{' | '}')).count()),
        }
    }
}

/// Prices of models.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    rows: Vec<Row>,
    overrides: Vec<Row>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceFile {
    #[serde(default)]
    price: Vec<Price>,
}

impl PriceTable {
    /// Reads the table that is built in.
    ///
    /// # Errors
    ///
    /// A [`PriceError`] if a bundled file is wrong, which a test of this crate rules out.
    pub fn bundled() -> Result<Self, PriceError> {
        let mut table = Self::default();
        for file in BUNDLED.files() {
            if file.path().extension().is_some_and(|extension| extension == "toml") {
                let text = file.contents_utf8().unwrap_or_default();
                table.rows.extend(read(&file.path().display().to_string(), text)?);
            }
        }
        Ok(table)
    }

    /// Reads one file; `file` is its name for messages.
    ///
    /// # Errors
    ///
    /// A [`PriceError`] that names the file and the place in it.
    pub fn parse(file: &str, text: &str) -> Result<Self, PriceError> {
        Ok(Self { rows: read(file, text)?, overrides: Vec::new() })
    }

    /// Lets every entry of `other` that fits a model stand in front of all entries of this table.
    #[must_use]
    pub fn overridden_by(mut self, other: Self) -> Self {
        self.overrides.splice(0..0, other.overrides.into_iter().chain(other.rows));
        self
    }

    /// Finds the price of a model: overrides first, then the entry that names it most exactly. A dated release that no entry
    /// names has the price of its alias: `gpt-5-2025-08-07` that of `gpt-5`.
    #[must_use]
    pub fn find(&self, model: &str) -> Option<&Price> {
        let find = |model| best(&self.overrides, model).or_else(|| best(&self.rows, model));
        find(model).or_else(|| find(undated(model)?))
    }

    /// Returns what a session's tokens cost; `None` for a model without a price and where [`Price::cost`] is unknown.
    #[must_use]
    pub fn cost(&self, model: &str, usage: &Usage) -> Option<Micros> {
        self.find(model)?.cost(usage)
    }

    /// Returns all entries, for listings; overrides come first.
    pub fn entries(&self) -> impl Iterator<Item = &Price> {
        self.overrides.iter().chain(&self.rows).map(|row| &row.price)
    }
}

/// Tells whether the provider at this address says in each of its answers what that cost: OpenRouter does. Its models need
/// no price for ceilings to hold.
#[must_use]
pub fn tells_cost(base_url: &str) -> bool {
    let place = base_url.split_once("://").map_or(base_url, |(_, place)| place);
    let host = place.split(['/', ':']).next().unwrap_or_default();
    host == "openrouter.ai" || host.ends_with(".openrouter.ai")
}

/// Takes the date off the end of a model's name: `-2025-08-07`, `-20250929` or `@20250929`.
fn undated(model: &str) -> Option<&str> {
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, last) = model.rsplit_once(['-', '@'])?;
    if digits(last, 8) && last.starts_with("20") {
        return Some(name);
    }
    let (name, month) = name.rsplit_once('-')?;
    let (name, year) = name.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4) && year.starts_with("20")).then_some(name)
}

fn best<'a>(rows: &'a [Row], model: &str) -> Option<&'a Price> {
    let mut found: Option<(usize, &Price)> = None;
    for row in rows {
        if let Some(fit) = row.fit(model)
            && found.is_none_or(|(other, _)| fit > other)
        {
            found = Some((fit, &row.price));
        }
    }
    found.map(|(_, price)| price)
}

fn read(file: &str, text: &str) -> Result<Vec<Row>, PriceError> {
    let parsed: PriceFile = toml::from_str(text)
        .map_err(|error| PriceError::Format { file: file.to_owned(), message: error.to_string() })?;
    let mut rows: Vec<Row> = Vec::with_capacity(parsed.price.len());
    for mut price in parsed.price {
        file.clone_into(&mut price.file);
        if rows.iter().any(|row| row.price.model == price.model) {
            return Err(PriceError::Duplicate { file: file.to_owned(), pattern: price.model });
        }
        let glob = if price.model.contains(['*', '?', '[', '{']) {
            let glob = Glob::new(&price.model).map_err(|error| PriceError::Pattern {
                file: file.to_owned(),
                pattern: price.model.clone(),
                message: error.kind().to_string(),
            })?;
            Some(glob.compile_matcher())
        } else {
            None
        };
        rows.push(Row { price, glob });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
