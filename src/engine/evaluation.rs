//! What is made of a collected tree: first the verdict of its structure, then, for open work with a rubric, the judge's.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::attempt::Ready;
use super::services::CellContext;
use super::world::{Attempt, describe};
use super::{checks, finish, setup};
use crate::config::judge::JudgePlan;
use crate::domain::rubric::Rubric;
use crate::domain::{ErrorClass, Failure, JudgeRecord, Task, TestStatus, Verdict};
use crate::evaluator::{EvaluationError, EvaluationInput, overlay};
use crate::judge::Evidence;
use crate::redact::Redactor;
use crate::script::port::ChecksReport;
use crate::workspace::Collected;

/// Tests that did not pass which a judge is told of.
const NAMED_TESTS: usize = 50;

/// The most bytes of a chosen file that are read, whatever is shown of them.
const LONGEST_FILE: u64 = 16 << 20;

/// What came of evaluating.
#[derive(Default)]
pub(crate) struct Evaluated {
    pub(crate) verdict: Option<Verdict>,
    pub(crate) judge: Option<JudgeRecord>,
    /// Why there is no verdict.
    pub(crate) failure: Option<Failure>,
}

impl From<Failure> for Evaluated {
    fn from(failure: Failure) -> Self {
        Self { failure: Some(failure), ..Self::default() }
    }
}

/// Evaluates a collected tree. The judge is asked only where the structure is right: it scores work that is there.
pub(crate) async fn evaluate(
    context: &CellContext,
    ready: &Ready,
    attempt: &Attempt,
    collected: &Collected,
) -> Evaluated {
    let services = &context.services;
    let task = &services.plan.tasks[context.cell().task];
    let scored = services.plan.judge_of(task).zip(task.rubric.as_ref());
    // Tests may be laid over these files later.
    let files = scored.map(|(_, rubric)| chosen(&collected.tree, rubric, &services.redactor));
    let report = visible_checks(context, ready, task).await;
    let structure = if scored.is_some() && has_no_structure(task) {
        Ok(untested(collected.changed))
    } else {
        structure(context, ready, attempt, (collected, report.as_ref().map(|report| report.ok))).await
    };
    let verdict = match structure {
        Ok(verdict) => verdict,
        Err(failure) => return failure.into(),
    };
    let (Some((judge, rubric)), Some(files)) = (scored, files) else {
        return Evaluated { verdict: Some(verdict), ..Evaluated::default() };
    };
    if !verdict.solved {
        let summary = format!("{}; the judge was not asked", verdict.summary);
        return Evaluated { verdict: Some(Verdict { summary, ..verdict }), ..Evaluated::default() };
    }
    let diff = services.redactor.redact_bytes(&collected.diff);
    let evidence = Evidence::new(
        services.redactor.redact(&task.prompt).as_str(),
        checked(&verdict, report.as_ref()),
        &String::from_utf8_lossy(&diff),
        files,
        judge.evidence_bytes,
    );
    ask(context, attempt, (judge, rubric), (evidence, verdict)).await
}

#[cfg(feature = "gateway")]
async fn ask(
    context: &CellContext,
    attempt: &Attempt,
    by: (&JudgePlan, &Rubric),
    (evidence, structure): (Evidence, Verdict),
) -> Evaluated {
    match super::judging::judge(context, attempt, by, evidence).await {
        Err(failure) => failure.into(),
        Ok((record, Some(failure))) => Evaluated { judge: Some(record), ..failure.into() },
        Ok((record, None)) => {
            Evaluated { verdict: Some(with_score(structure, &record)), judge: Some(record), failure: None }
        }
    }
}

#[cfg(not(feature = "gateway"))]
#[expect(clippy::unused_async, reason = "the shape of the one with a gateway")]
async fn ask(_: &CellContext, _: &Attempt, _: (&JudgePlan, &Rubric), _: (Evidence, Verdict)) -> Evaluated {
    Failure::Configuration { message: "this build has no gateway to ask a judge through".to_owned() }.into()
}

/// Runs the visible checks on the final tree, where there are some.
async fn visible_checks(context: &CellContext, ready: &Ready, task: &Task) -> Option<ChecksReport> {
    if task.checks.is_empty() {
        return None;
    }
    let services = &context.services;
    let bound = services.plan.limits.evaluation_timeout;
    let (workspace, stop) = (ready.env.workspace(), context.cancel.kill_token());
    checks::run(&*ready.env, workspace, &task.checks, bound, &services.redactor, stop).await.ok()
}

/// Asks the evaluator.
async fn structure(
    context: &CellContext,
    ready: &Ready,
    attempt: &Attempt,
    (collected, checks_pass): (&Collected, Option<bool>),
) -> Result<Verdict, Failure> {
    let services = &context.services;
    let scratch = attempt.scratch.join("evaluation");
    let input = EvaluationInput {
        task: &services.plan.tasks[context.cell().task],
        attempt: &attempt.id,
        tree: &collected.tree,
        base: Some(&ready.seeded.tree),
        scratch: &scratch,
        changed: collected.changed,
        checks_pass,
        runtime: &*services.runtime,
        environment: &*ready.env,
        image: context.image(),
        container: &setup::container(context),
        stop: context.cancel.kill_token(),
    };
    let verdict = services.evaluator.evaluate(input).await.map_err(|error| match error {
        EvaluationError::Cancelled => Failure::Cancelled,
        EvaluationError::Runtime(error) => Failure::Runtime { message: describe(&error) },
        error => Failure::Evaluation { message: services.redactor.redact(&describe(&error)).into_string() },
    })?;
    Ok(finish::redact_verdict(verdict, &services.redactor))
}

fn has_no_structure(task: &Task) -> bool {
    task.test_command.is_none() && task.expected_files.is_empty()
}

/// The structure of work of which nothing but a change is asked.
fn untested(changed: bool) -> Verdict {
    Verdict {
        solved: changed,
        class: if changed { ErrorClass::Success } else { ErrorClass::NoChange },
        passed: 0,
        total: 0,
        tests: Vec::new(),
        exit_code: None,
        format: None,
        summary: if changed { "the tree was changed" } else { "the tree was not changed" }.to_owned(),
        report: String::new(),
    }
}

/// What was checked without a judge, a line for each.
fn checked(verdict: &Verdict, report: Option<&ChecksReport>) -> Vec<String> {
    let mut lines = vec![verdict.summary.clone()];
    let bad = verdict.tests.iter().filter(|test| test.status != TestStatus::Passed);
    lines.extend(bad.take(NAMED_TESTS).map(|test| format!("test `{}`: {}", test.id, test.status)));
    for check in report.map(|report| report.checks.as_slice()).unwrap_or_default() {
        lines.push(format!("check `{}`: {}", check.command, if check.ok { "passed" } else { "failed" }));
    }
    lines
}

/// Puts a judge's score into the verdict of the structure.
#[cfg(feature = "gateway")]
fn with_score(structure: Verdict, record: &JudgeRecord) -> Verdict {
    let (solved, score) = (record.passes() == Some(true), record.score.unwrap_or(0.0));
    let class = match solved {
        true => ErrorClass::Success,
        false if score > 0.0 => ErrorClass::Partial,
        false => ErrorClass::WrongApproach,
    };
    let summary = format!("judge: {score:.2}, {:.2} solves it; {}", record.pass_score, structure.summary);
    Verdict { solved, class, summary, ..structure }
}

/// Reads the files that a rubric chooses. Links are not followed: they may lead anywhere.
fn chosen(tree: &Path, rubric: &Rubric, redactor: &Redactor) -> Vec<(String, Option<String>)> {
    let read = |path: &String| {
        let found = overlay::entry(tree, Path::new(path.as_str())).filter(std::fs::Metadata::is_file)?;
        let mut bytes = Vec::new();
        File::open(tree.join(path)).ok()?.take(LONGEST_FILE.min(found.len())).read_to_end(&mut bytes).ok()?;
        Some(redactor.redact(&String::from_utf8_lossy(&bytes)).into_string())
    };
    rubric.files.iter().map(|path| (path.clone(), read(path))).collect()
}
