//! What a calibration found, as it is kept: one file for each judge and rubric.

use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::agreement::Agreement;
use crate::domain::Micros;

/// The version of the file's format.
pub const CALIBRATION_SCHEMA: u32 = 1;

/// How far a judge agrees with people on a rubric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Version of this format: [`CALIBRATION_SCHEMA`].
    pub schema: u32,
    /// What the judge of the rubric is known by.
    pub judge_version: String,
    /// Its model.
    pub model: String,
    /// Its provider.
    pub provider: String,
    /// The task whose rubric it is.
    pub task: String,
    /// The rubric's own version.
    pub rubric_version: u32,
    /// When it was found.
    pub at: Timestamp,
    /// How far they agree, over the examples that were judged.
    pub agreement: Agreement,
    /// Examples without a score of the judge, with why.
    pub errors: Vec<String>,
    /// What it cost; unknown where one request's cost is.
    pub cost: Option<Micros>,
}

impl Calibration {
    /// Reads a calibration; `None` where there is none that can be read.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        let found: Self = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
        (found.schema == CALIBRATION_SCHEMA).then_some(found)
    }

    /// Returns the share of scores within the tolerance, if every example was judged: what a threshold is held against.
    #[must_use]
    pub fn proven(&self) -> Option<f64> {
        self.agreement.within.filter(|_| self.errors.is_empty())
    }
}
