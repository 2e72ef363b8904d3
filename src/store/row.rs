//! Values between Rust and SQL: unknown is NULL, counts are signed, times are text that sorts, enums are their names.

use std::cell::Cell;

use jiff::Timestamp;
use rusqlite::types::FromSql;
use rusqlite::{Row, Statement};

use super::error::{Fault, StoreError};
use crate::domain::{AttemptState, CellId, Micros, RunName, Terminal, Usage};

/// Writes a time with all nine digits of its second, so that times sort as text.
pub(super) fn time(at: Timestamp) -> String {
    format!("{at:.9}")
}

/// SQLite's integers are signed; what does not fit (nothing real) is the largest.
pub(super) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn known_count(value: Option<u64>) -> Option<i64> {
    value.map(count)
}

pub(super) fn money(value: Option<Micros>) -> Option<i64> {
    value.map(Micros::get)
}

/// The five token columns, in the order of the tables.
pub(super) fn tokens(usage: &Usage) -> [Option<i64>; 5] {
    [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning].map(known_count)
}

/// Adds up; unknown as soon as one is, zero for none at all.
pub(super) fn sum_known(values: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    values.into_iter().try_fold(0u64, |sum, value| Some(sum.saturating_add(value?)))
}

/// Finds a step or an end by its name.
pub(super) fn parse_state(name: &str) -> Option<AttemptState> {
    AttemptState::STEPS
        .into_iter()
        .find(|step| step.as_str() == name)
        .or_else(|| Terminal::parse(name).map(AttemptState::Ended))
}

/// Reads columns by name, in the words of the domain.
///
/// Cheapest in the order of the query: the column after the last one is looked at before all others.
pub(super) struct Columns<'a> {
    row: &'a Row<'a>,
    next: Cell<usize>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(row: &'a Row<'a>) -> Self {
        Self { row, next: Cell::new(0) }
    }

    fn index(&self, column: &str) -> Result<usize, Fault> {
        let statement: &Statement<'_> = self.row.as_ref();
        let next = self.next.get();
        let index = if statement.column_name(next).is_ok_and(|name| name == column) {
            next
        } else {
            statement.column_index(column)?
        };
        self.next.set(index + 1);
        Ok(index)
    }

    fn get<T: FromSql>(&self, column: &'static str) -> Result<T, Fault> {
        Ok(self.row.get(self.index(column)?)?)
    }

    pub(super) fn text(&self, column: &'static str) -> Result<String, Fault> {
        self.get(column)
    }

    pub(super) fn known_text(&self, column: &'static str) -> Result<Option<String>, Fault> {
        self.get(column)
    }

    pub(super) fn number(&self, column: &'static str) -> Result<u64, Fault> {
        self.known_number(column)?.ok_or_else(|| unknown(column, "NULL"))
    }

    pub(super) fn known_number(&self, column: &'static str) -> Result<Option<u64>, Fault> {
        let value: Option<i64> = self.get(column)?;
        value.map(|value| u64::try_from(value).map_err(|_| unknown(column, &value.to_string()))).transpose()
    }

    pub(super) fn small(&self, column: &'static str) -> Result<u32, Fault> {
        let value = self.number(column)?;
        u32::try_from(value).map_err(|_| unknown(column, &value.to_string()))
    }

    pub(super) fn flag(&self, column: &'static str) -> Result<Option<bool>, Fault> {
        self.get(column)
    }

    pub(super) fn money(&self, column: &'static str) -> Result<Option<Micros>, Fault> {
        Ok(self.get::<Option<i64>>(column)?.map(Micros::new))
    }

    pub(super) fn time(&self, column: &'static str) -> Result<Timestamp, Fault> {
        self.known_time(column)?.ok_or_else(|| unknown(column, "NULL"))
    }

    pub(super) fn known_time(&self, column: &'static str) -> Result<Option<Timestamp>, Fault> {
        self.known_named(column, |text| text.parse().ok())
    }

    /// Reads an enum's name, or anything else that is parsed from text.
    pub(super) fn named<T>(&self, column: &'static str, parse: impl Fn(&str) -> Option<T>) -> Result<T, Fault> {
        self.known_named(column, parse)?.ok_or_else(|| unknown(column, "NULL"))
    }

    pub(super) fn known_named<T>(
        &self,
        column: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        let text = self.row.get_ref(self.index(column)?)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        text.map(|text| parse(text).ok_or_else(|| unknown(column, text))).transpose()
    }

    pub(super) fn json<T: serde::de::DeserializeOwned>(&self, column: &'static str) -> Result<T, Fault> {
        self.named(column, |text| serde_json::from_str(text).ok())
    }

    pub(super) fn run(&self) -> Result<RunName, Fault> {
        self.named("run_name", |text| RunName::new(text).ok())
    }

    pub(super) fn cell(&self) -> Result<CellId, Fault> {
        Ok(CellId::from_stored(self.text("cell_id")?))
    }

    pub(super) fn usage(&self) -> Result<Usage, Fault> {
        Ok(Usage {
            input: self.known_number("input_tokens")?,
            output: self.known_number("output_tokens")?,
            cache_read: self.known_number("cache_read_tokens")?,
            cache_write: self.known_number("cache_write_tokens")?,
            reasoning: self.known_number("reasoning_tokens")?,
        })
    }
}

/// The fault of a value that this version does not understand.
pub(super) fn unknown(column: &'static str, value: &str) -> Fault {
    let value: String = value.chars().take(80).collect();
    StoreError::Value { column, value }.into()
}

/// Writes a value of ours as JSON; they all serialize, so a failure is a value that SQL would refuse as well.
pub(super) fn to_json<T: serde::Serialize>(column: &'static str, value: &T) -> Result<String, Fault> {
    serde_json::to_string(value).map_err(|error| unknown(column, &error.to_string()))
}
