//! Rubrics: what a judge scores open work by.

use serde::{Deserialize, Serialize};

/// What some number of points looks like.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    /// The points.
    pub points: u32,
    /// What work that deserves them is like.
    pub text: String,
}

/// One thing to score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// Its name, unique in the rubric: the key of its score.
    pub name: String,
    /// What is asked of the work.
    pub question: String,
    /// What it counts, beside the others.
    pub weight: f64,
    /// The most points; the least is 0.
    pub points: u32,
    /// What single numbers of points look like, the lowest first.
    pub anchors: Vec<Anchor>,
}

/// A checked rubric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rubric {
    /// Its version, for people: what a judge is known by is a digest of the whole.
    pub version: u32,
    /// What is scored; at least one.
    pub criteria: Vec<Criterion>,
    /// The least score, from 0 to 1, that solves the task.
    pub pass_score: f64,
    /// Files of the final tree that the judge is shown whole, beside the diff.
    pub files: Vec<String>,
}

impl Rubric {
    /// Returns the score of some points, one number for each criterion in order: their weighted mean, from 0 to 1.
    #[must_use]
    pub fn score(&self, points: &[f64]) -> f64 {
        let weights: f64 = self.criteria.iter().map(|criterion| criterion.weight).sum();
        let pairs = self.criteria.iter().zip(points);
        let sum: f64 = pairs.map(|(criterion, got)| criterion.weight * got / f64::from(criterion.points)).sum();
        sum / weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criterion(name: &str, weight: f64, points: u32) -> Criterion {
        Criterion { name: name.to_owned(), question: String::new(), weight, points, anchors: Vec::new() }
    }

    #[test]
    fn a_score_is_the_weighted_mean_of_the_shares() {
        let criteria = vec![criterion("a", 3.0, 10), criterion("b", 1.0, 4)];
        let rubric = Rubric { version: 1, criteria, pass_score: 0.5, files: Vec::new() };
        assert!((rubric.score(&[10.0, 4.0]) - 1.0).abs() < 1e-12);
        assert!((rubric.score(&[5.0, 1.0]) - (3.0 * 0.5 + 0.25) / 4.0).abs() < 1e-12);
    }
}
