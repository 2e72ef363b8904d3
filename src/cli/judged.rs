//! What judges said, for people: of one attempt, and of the strategies of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::output;
use crate::domain::judgement::{CriterionScore, JudgeAnswer};
use crate::domain::{JudgeRecord, Micros, Usage};
use crate::judge::Calibration;
use crate::redact::printable;
use crate::report::text;
use crate::store::{Judgement, Layout, ResultRow};

/// Characters of an answer that could not be used which are shown.
const SHOWN: usize = 400;

/// Finds how far a judge was found to agree with people, in the state folder beside a database.
pub(super) fn calibration(db: &Path, version: &str) -> Option<Calibration> {
    let state = super::started::state_beside(db);
    // A run file in `runs/` keeps its state in the project's folder.
    let above = db.parent().unwrap_or(Path::new("")).join("../.refrain");
    let folders = [state, above].into_iter();
    folders.map(|folder| Layout::new(folder).calibration_path(version)).find_map(|path| Calibration::read(&path))
}

/// Says what a judge said of an attempt, line by line.
pub(super) fn lines(judge: &JudgeRecord, calibration: Option<&Calibration>) -> Vec<String> {
    let mut lines = Vec::new();
    lines.push(match (judge.score, &judge.error) {
        (Some(score), _) => {
            let spread = judge.spread.map(|spread| format!(", spread {spread:.2}")).unwrap_or_default();
            format!("score {score:.2}{spread}; {:.2} solves the task", judge.pass_score)
        }
        (None, error) => {
            format!("no score: {}", one_line(error.as_deref().unwrap_or("the judge was not asked to the end")))
        }
    });
    let (model, provider) = (one_line(&judge.model), one_line(&judge.provider));
    lines.push(format!("by {model} ({provider}), judge {}, rubric version {}", judge.version, judge.rubric_version));
    lines.extend(judge.criteria.iter().map(criterion));
    let exempt = if judge.exempt { ", not billed" } else { "" };
    lines.push(format!(
        "cost {}{exempt} ({} requests, {})",
        text::cost(judge.cost),
        judge.answers.len(),
        tokens(&judge.usage)
    ));
    lines.push(calibration.map_or_else(|| "not calibrated: see `refrain calibrate`".to_owned(), calibrated));
    lines.extend(judge.cut.iter().map(|cut| format!("not shown whole: {}", one_line(cut))));
    lines.extend(judge.warnings.iter().map(|warning| format!("warning: {}", one_line(warning))));
    lines.extend(judge.answers.iter().filter(|answer| answer.error.is_some()).map(unusable));
    lines
}

fn criterion(score: &CriterionScore) -> String {
    let range =
        if score.lowest < score.highest { format!(" ({} to {})", score.lowest, score.highest) } else { String::new() };
    format!("{}: {} of {}{range}  {}", one_line(&score.name), score.points, score.of, one_line(&score.reason))
}

fn unusable(answer: &JudgeAnswer) -> String {
    let raw: String = one_line(&answer.raw).chars().take(SHOWN).collect();
    let error = one_line(answer.error.as_deref().unwrap_or_default());
    format!("answer {}, try {}: {error}: {raw}", answer.sample, answer.attempt)
}

/// Says in a line how far a judge agrees with people.
pub(super) fn calibrated(found: &Calibration) -> String {
    let agreement = &found.agreement;
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let errors = match found.errors.len() {
        0 => String::new(),
        errors => format!(", {errors} not judged"),
    };
    format!(
        "calibrated {}: {} of {} scores within {} points, {} exact, mean error {}, kappa {}, rank correlation {} over {} \
         examples{errors}",
        found.at.strftime("%Y-%m-%d"),
        share(agreement.within),
        agreement.scores,
        agreement.tolerance,
        share(agreement.exact),
        share(agreement.mean_error),
        share(agreement.kappa),
        share(agreement.spearman),
        agreement.examples,
    )
}

/// What a judge said, for machines.
#[derive(Serialize)]
pub(super) struct JsonJudge<'a> {
    version: &'a str,
    model: &'a str,
    provider: &'a str,
    rubric_version: u32,
    score: Option<f64>,
    pass_score: f64,
    spread: Option<f64>,
    criteria: &'a [CriterionScore],
    error: Option<&'a str>,
    requests: usize,
    usage: Usage,
    cost_micros: Option<Micros>,
    warnings: &'a [String],
}

impl<'a> JsonJudge<'a> {
    /// Finds what a judge said of a result.
    pub(super) fn of(row: &ResultRow, judgements: &'a [Judgement]) -> Option<Self> {
        let judge = &judgements.iter().find(|judgement| judgement.cell == row.cell)?.record;
        Some(Self {
            version: &judge.version,
            model: &judge.model,
            provider: &judge.provider,
            rubric_version: judge.rubric_version,
            score: judge.score,
            pass_score: judge.pass_score,
            spread: judge.spread,
            criteria: &judge.criteria,
            error: judge.error.as_deref(),
            requests: judge.answers.len(),
            usage: judge.usage,
            cost_micros: judge.cost,
            warnings: &judge.warnings,
        })
    }
}

/// A strategy's scores by one judge.
#[derive(Default)]
struct Group {
    scores: Vec<f64>,
    passed: usize,
    errors: usize,
    /// Scores that are left out because their counterpart has none.
    unpaired: usize,
    cost: Micros,
    unknown: usize,
}

/// A table of the strategies of a run by what judges said; `None` where none was asked.
///
/// Scores of different judges stand in lines of their own. A task and repeat that a judge failed on for one strategy is
/// left out for all of them: what is compared are pairs.
pub(super) fn table(rows: &[ResultRow], judgements: &[Judgement]) -> Option<String> {
    if judgements.is_empty() {
        return None;
    }
    let judged: Vec<(&ResultRow, &JudgeRecord)> = rows
        .iter()
        .filter_map(|row| Some((row, &judgements.iter().find(|judgement| judgement.cell == row.cell)?.record)))
        .collect();
    let coordinate = |row: &ResultRow| (row.task.clone(), row.repeat);
    let failed: BTreeSet<_> =
        judged.iter().filter(|(_, judge)| judge.score.is_none()).map(|(row, _)| coordinate(row)).collect();
    let mut groups: BTreeMap<[&str; 4], Group> = BTreeMap::new();
    for (row, judge) in &judged {
        let group = groups.entry([&row.orchestrator, &row.harness, &row.model, &judge.version]).or_default();
        match judge.score {
            None => group.errors += 1,
            Some(_) if failed.contains(&coordinate(row)) => group.unpaired += 1,
            Some(score) => {
                group.scores.push(score);
                group.passed += usize::from(row.solved == Some(true));
            }
        }
        group.cost += judge.cost.unwrap_or(Micros::ZERO);
        group.unknown += usize::from(judge.cost.is_none());
    }
    let versions: BTreeSet<&str> = groups.keys().map(|key| key[3]).collect();
    // Each task has a rubric of its own, and so a judge of its own.
    let tasks: BTreeSet<&str> = judged.iter().map(|(row, _)| row.task.as_str()).collect();
    let head =
        ["orchestrator", "harness", "model", "judge", "score", "solved", "judge errors", "left out", "judge cost"];
    let mut shown = output::table(head, groups.iter().map(|(key, group)| line(*key, group)));
    if versions.len() > tasks.len() {
        shown.push_str("scores of different judges are not comparable: rubric, prompt or model differ\n");
    }
    Some(shown)
}

fn line(key: [&str; 4], group: &Group) -> [String; 9] {
    let [orchestrator, harness, model, judge] = key.map(str::to_owned);
    #[expect(clippy::cast_precision_loss, reason = "counts of cells are far below 2^52")]
    let score = match group.scores.len() {
        0 => "-".to_owned(),
        count => format!("{:.2} ({count})", group.scores.iter().sum::<f64>() / count as f64),
    };
    [
        orchestrator,
        harness,
        model,
        judge,
        score,
        format!("{}/{}", group.passed, group.scores.len()),
        group.errors.to_string(),
        group.unpaired.to_string(),
        text::bounded_cost(group.cost, group.unknown),
    ]
}

fn tokens(usage: &Usage) -> String {
    let show = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
    format!("in {} cached {} out {}", show(usage.input), show(usage.cache_read), show(usage.output))
}

fn one_line(text: &str) -> String {
    printable(text).lines().collect::<Vec<_>>().join(" ⏎ ")
}
