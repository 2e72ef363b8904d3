//! One score from several answers: the median of each criterion, and how far the answers lie apart.

use super::answer::Scores;
use crate::domain::judgement::CriterionScore;
use crate::domain::rubric::Rubric;

/// What several answers say together.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tally {
    pub(super) score: f64,
    pub(super) spread: Option<f64>,
    pub(super) criteria: Vec<CriterionScore>,
}

/// Adds up answers; `None` without any.
pub(super) fn tally(rubric: &Rubric, answers: &[Scores]) -> Option<Tally> {
    let first = answers.first()?;
    let of = |index: usize| answers.iter().filter_map(move |answer| answer.points.get(index).copied());
    let criteria: Vec<CriterionScore> = rubric
        .criteria
        .iter()
        .enumerate()
        .map(|(index, criterion)| CriterionScore {
            name: criterion.name.clone(),
            points: median(of(index).collect()),
            of: criterion.points,
            lowest: of(index).fold(f64::INFINITY, f64::min),
            highest: of(index).fold(f64::NEG_INFINITY, f64::max),
            reason: first.reasons.get(index).cloned().unwrap_or_default(),
        })
        .collect();
    let medians: Vec<f64> = criteria.iter().map(|criterion| criterion.points).collect();
    let totals = || answers.iter().map(|answer| rubric.score(&answer.points));
    let spread = totals().fold(f64::NEG_INFINITY, f64::max) - totals().fold(f64::INFINITY, f64::min);
    Some(Tally { score: rubric.score(&medians), spread: (answers.len() > 1).then_some(spread), criteria })
}

/// Returns the number in the middle, or between the two in the middle.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let at = |index: usize| numbers.get(index).copied().unwrap_or(f64::NAN);
    if numbers.len() % 2 == 1 { at(middle) } else { f64::midpoint(at(middle.wrapping_sub(1)), at(middle)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rubric::Criterion;

    fn rubric() -> Rubric {
        let criterion = |name: &str, weight| Criterion {
            name: name.to_owned(),
            question: String::new(),
            weight,
            points: 10,
            anchors: Vec::new(),
        };
        Rubric { version: 1, criteria: vec![criterion("a", 3.0), criterion("b", 1.0)], pass_score: 0.5, files: vec![] }
    }

    fn answer(a: f64, b: f64) -> Scores {
        Scores { points: vec![a, b], reasons: vec![format!("a{a}"), format!("b{b}")] }
    }

    #[test]
    fn the_middle_counts_and_the_spread_is_told() {
        let tally = tally(&rubric(), &[answer(2.0, 9.0), answer(8.0, 10.0), answer(6.0, 0.0)]).expect("answers");
        let points: Vec<f64> = tally.criteria.iter().map(|criterion| criterion.points).collect();
        assert_eq!(points, [6.0, 9.0]);
        assert!((tally.score - (3.0 * 0.6 + 0.9) / 4.0).abs() < 1e-12, "{}", tally.score);
        // 0.85, 0.375 and 0.45.
        assert!((tally.spread.expect("three answers") - 0.475).abs() < 1e-12, "{:?}", tally.spread);
        assert_eq!((tally.criteria[1].lowest, tally.criteria[1].highest), (0.0, 10.0));
        assert_eq!(tally.criteria[0].reason, "a2");
    }

    #[test]
    fn one_answer_has_no_spread_two_meet_in_the_middle_and_none_say_nothing() {
        assert_eq!(tally(&rubric(), &[answer(4.0, 4.0)]).expect("one").spread, None);
        let two = tally(&rubric(), &[answer(4.0, 4.0), answer(5.0, 4.0)]).expect("two");
        assert!((two.criteria[0].points - 4.5).abs() < 1e-12, "{two:?}");
        assert_eq!(tally(&rubric(), &[]), None);
    }
}
