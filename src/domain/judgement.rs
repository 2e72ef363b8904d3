//! What a judge said of an attempt's work, and what asking it cost.

use serde::{Deserialize, Serialize};

use super::money::Micros;
use super::usage::Usage;

/// The points of one criterion over all answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriterionScore {
    /// The criterion.
    pub name: String,
    /// The median of its points.
    pub points: f64,
    /// The most points that it has.
    pub of: u32,
    /// The fewest points that an answer gave.
    pub lowest: f64,
    /// The most points that an answer gave.
    pub highest: f64,
    /// The reason that the first answer gave.
    pub reason: String,
}

/// One request to the judge and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeAnswer {
    /// Which answer it was to be, from 1.
    pub sample: u32,
    /// Which try at it, from 1.
    pub attempt: u32,
    /// Points by criterion, in the rubric's order; none where the answer could not be used.
    pub points: Option<Vec<f64>>,
    /// Why it could not be used.
    pub error: Option<String>,
    /// What the judge said, redacted and cut to size.
    pub raw: String,
}

/// What a judge said of an attempt's work. The cost is no part of the agent's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JudgeRecord {
    /// What the judge is known by: a digest of model, rubric, prompt and the bounds of what it sees. Scores of different
    /// versions are not comparable.
    pub version: String,
    /// The judge's model.
    pub model: String,
    /// Its provider.
    pub provider: String,
    /// The rubric's own version.
    pub rubric_version: u32,
    /// The least score that solves the task.
    pub pass_score: f64,
    /// The score, from 0 to 1; unknown where the judge failed.
    pub score: Option<f64>,
    /// The difference between the highest and the lowest score of the answers; unknown with fewer than two.
    pub spread: Option<f64>,
    /// The points by criterion, in the rubric's order; empty where the judge failed.
    pub criteria: Vec<CriterionScore>,
    /// Why there is no score.
    pub error: Option<String>,
    /// Every request in order.
    pub answers: Vec<JudgeAnswer>,
    /// Tokens of all requests; a class is unknown where one request's is.
    pub usage: Usage,
    /// Cost of all requests; unknown where one's is.
    pub cost: Option<Micros>,
    /// Whether the cost stays off the budget.
    pub exempt: bool,
    /// What of the evidence was left out for its length.
    #[serde(default)]
    pub cut: Vec<String>,
    /// What a reader should know, such as work that speaks to its judge.
    #[serde(default)]
    pub warnings: Vec<String>,
}

impl JudgeRecord {
    /// Tells whether the judge found the work good enough; unknown where it failed.
    #[must_use]
    pub fn passes(&self) -> Option<bool> {
        self.score.map(|score| score >= self.pass_score)
    }
}
