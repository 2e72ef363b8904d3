//! How far a judge agrees with people: pure arithmetic over pairs of scores.

use serde::{Deserialize, Serialize};

/// One criterion of one example, scored by a person and by the judge.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// The person's points.
    pub expected: f64,
    /// The judge's points.
    pub judged: f64,
    /// The most points.
    pub of: u32,
}

/// One example as a whole, scored by a person and by the judge, from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Whole {
    /// The person's score.
    pub expected: f64,
    /// The judge's score.
    pub judged: f64,
}

/// How far they agree. What a few numbers cannot tell is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// Examples that were judged.
    pub examples: usize,
    /// Scores that were compared: the criteria of all of them.
    pub scores: usize,
    /// The share of scores that are the same, rounded to whole points.
    pub exact: Option<f64>,
    /// The share of scores that differ by no more than the tolerance.
    pub within: Option<f64>,
    /// The tolerance, in points.
    pub tolerance: f64,
    /// The mean difference, as a share of the most points.
    pub mean_error: Option<f64>,
    /// Cohen's kappa of passing and failing; unknown unless people let some examples pass and some fail.
    pub kappa: Option<f64>,
    /// Spearman's rank correlation of the examples' scores; unknown for fewer than three, or where all are equal.
    pub spearman: Option<f64>,
}

/// Compares scores. `pass_score` is the least score of an example that passes.
#[must_use]
pub fn compare(pairs: &[Pair], wholes: &[Whole], tolerance: f64, pass_score: f64) -> Agreement {
    // Halves of points must not fall apart by how a fraction is stored.
    let is_within = |pair: &&Pair| (pair.expected - pair.judged).abs() <= tolerance + 1e-9;
    #[expect(clippy::float_cmp, reason = "whole numbers")]
    let is_exact = |pair: &&Pair| pair.expected.round() == pair.judged.round();
    let errors = pairs.iter().map(|pair| (pair.expected - pair.judged).abs() / f64::from(pair.of));
    Agreement {
        examples: wholes.len(),
        scores: pairs.len(),
        exact: share(pairs.iter().filter(is_exact).count(), pairs.len()),
        within: share(pairs.iter().filter(is_within).count(), pairs.len()),
        tolerance,
        mean_error: (!pairs.is_empty()).then(|| errors.sum::<f64>() / to_f64(pairs.len())),
        kappa: kappa(wholes, pass_score),
        spearman: spearman(wholes),
    }
}

fn kappa(wholes: &[Whole], pass_score: f64) -> Option<f64> {
    let n = wholes.len();
    let passing = |score: f64| score >= pass_score;
    let count = |which: &dyn Fn(&&Whole) -> bool| wholes.iter().filter(which).count();
    let expected = count(&|whole| passing(whole.expected));
    if expected == 0 || expected == n {
        return None;
    }
    let judged = count(&|whole| passing(whole.judged));
    let agreed = share(count(&|whole| passing(whole.expected) == passing(whole.judged)), n)?;
    let (person, judge) = (share(expected, n)?, share(judged, n)?);
    let chance = person * judge + (1.0 - person) * (1.0 - judge);
    Some((agreed - chance) / (1.0 - chance))
}

/// Pearson's correlation of the ranks, equal scores sharing the mean of theirs.
fn spearman(wholes: &[Whole]) -> Option<f64> {
    if wholes.len() < 3 {
        return None;
    }
    let xs = ranks(&wholes.iter().map(|whole| whole.expected).collect::<Vec<_>>());
    let ys = ranks(&wholes.iter().map(|whole| whole.judged).collect::<Vec<_>>());
    let mean = f64::midpoint(1.0, to_f64(wholes.len()));
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    let scale = (product(&xs, &xs) * product(&ys, &ys)).sqrt();
    (scale > 0.0).then(|| product(&xs, &ys) / scale)
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: f64| {
        let below = values.iter().filter(|other| **other < value).count();
        let equal = values.iter().filter(|other| other.total_cmp(&value).is_eq()).count();
        to_f64(below) + f64::midpoint(1.0, to_f64(equal))
    };
    values.iter().map(|value| rank(*value)).collect()
}

fn share(part: usize, whole: usize) -> Option<f64> {
    (whole > 0).then(|| to_f64(part) / to_f64(whole))
}

#[expect(clippy::cast_precision_loss, reason = "counts of examples are far below 2^52")]
fn to_f64(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(expected: f64, judged: f64) -> Pair {
        Pair { expected, judged, of: 10 }
    }

    fn wholes(scores: &[(f64, f64)]) -> Vec<Whole> {
        scores.iter().map(|&(expected, judged)| Whole { expected, judged }).collect()
    }

    fn is(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-9)
    }

    #[test]
    fn differences_are_counted() {
        let pairs = [pair(8.0, 8.0), pair(8.0, 7.0), pair(2.0, 5.0), pair(3.0, 3.4)];
        let found = compare(&pairs, &[], 1.0, 0.5);
        assert_eq!((found.scores, found.exact, found.within), (4, Some(0.5), Some(0.75)));
        assert!(is(found.mean_error, (0.0 + 0.1 + 0.3 + 0.04) / 4.0), "{found:?}");
    }

    #[test]
    fn kappa_takes_chance_away() {
        // 20 pass with both, 5 with the person only, 10 with the judge only, 15 with none: the textbook's 0.4.
        let all = [(0.9, 0.9); 20].into_iter().chain([(0.9, 0.1); 5]).chain([(0.1, 0.9); 10]).chain([(0.1, 0.1); 15]);
        let found = compare(&[], &wholes(&all.collect::<Vec<_>>()), 1.0, 0.5);
        assert!(is(found.kappa, 0.4), "{found:?}");
        assert_eq!(compare(&[], &wholes(&[(0.9, 0.9), (0.8, 0.1)]), 1.0, 0.5).kappa, None, "people let all pass");
    }

    #[test]
    fn ranks_are_compared_and_ties_share_theirs() {
        let same = compare(&[], &wholes(&[(0.1, 0.2), (0.5, 0.6), (0.9, 0.7)]), 1.0, 0.5);
        assert!(is(same.spearman, 1.0));
        let turned = compare(&[], &wholes(&[(0.1, 0.9), (0.5, 0.6), (0.9, 0.2)]), 1.0, 0.5);
        assert!(is(turned.spearman, -1.0));
        assert_eq!(ranks(&[0.5, 0.1, 0.5, 0.9]), [2.5, 1.0, 2.5, 4.0]);
        assert_eq!(compare(&[], &wholes(&[(0.1, 0.5), (0.5, 0.5), (0.9, 0.5)]), 1.0, 0.5).spearman, None);
    }

    #[test]
    fn nothing_says_nothing() {
        let found = compare(&[], &[], 1.0, 0.5);
        assert_eq!((found.exact, found.within, found.mean_error, found.kappa), (None, None, None, None));
    }
}
