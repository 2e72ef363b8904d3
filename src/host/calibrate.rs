//! Calibrates a run's judge: has it score work that people have scored, and compares.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::assemble;
use super::builder::{Host, Parts};
use super::error::{Error, ErrorKind};
use super::gateway::{self, BODY_LIMIT, failed};
use crate::config::RunPlan;
use crate::config::examples::Example;
use crate::config::gateway::{CassetteMode, Recording, place_of};
use crate::config::judge::JudgePlan;
use crate::domain::{Attribution, Micros, Rubric, RunName, Task, Trace};
use crate::engine::judging::{GatewayDoor, JudgeGuard};
use crate::engine::metering::StoreRecorder;
use crate::engine::{CancelHandle, CancelLevel};
use crate::gateway::cassette::Places;
use crate::gateway::{Bounds, Gateway, GatewayOptions, Grant, Key, Listen, Proxies, Stalls};
use crate::judge::agreement::{Pair, Whole, compare};
use crate::judge::{self, Asked, CALIBRATION_SCHEMA, Calibration, Evidence, Prompt};
use crate::redact::Redactor;
use crate::store::{Layout, Owner, Store, record_file};

/// The name under which the exchanges of calibrations are kept.
const RUN: &str = "calibration";

/// How a judge is calibrated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CalibrateOptions {
    /// How far scores may lie apart and count as the same, in points.
    pub tolerance: f64,
    /// The most that all of it may cost.
    pub max_cost: Option<Micros>,
}

/// What came of one example.
#[derive(Debug, Clone, PartialEq)]
pub struct ExampleScored {
    /// Its name.
    pub name: String,
    /// Its task.
    pub task: String,
    /// What people say, from 0 to 1.
    pub expected: f64,
    /// What the judge says.
    pub asked: Asked,
    /// What asking it cost.
    pub cost: Option<Micros>,
}

impl Host {
    /// Has the judge of a plan score examples, tells each to `hear` as it is scored, and keeps how far it agrees with
    /// people: below the plan's state folder, one file for each rubric. Where it is cancelled nothing is kept but what it
    /// cost.
    ///
    /// # Errors
    ///
    /// An [`Error`] where the plan has no judge, or where books or results cannot be kept. A judge that fails is told in
    /// the results.
    pub async fn calibrate(
        &self,
        plan: &RunPlan,
        examples: &[Example],
        options: CalibrateOptions,
        cancel: &CancelHandle,
        mut hear: impl FnMut(&ExampleScored),
    ) -> Result<Vec<Calibration>, Error> {
        let Some(judge) = &plan.judge else {
            let error = Error::configuration("the run has no `judge` to calibrate");
            return Err(error.hinting("add `judge` with a `model` and its `provider`".to_owned()));
        };
        let bench = Bench::start(&self.parts, plan, judge).await?;
        let (mut scored, mut spent) = (Vec::with_capacity(examples.len()), Micros::ZERO);
        for (index, example) in examples.iter().enumerate() {
            let left = options.max_cost.map(|most| most - spent);
            let scored_now = tokio::select! {
                found = bench.score(index, example, left) => found,
                () = cancel.stop_token().cancelled() => Err(cancelled()),
            };
            // What was under way is on the books before this returns.
            let Ok((found, known)) = scored_now else {
                bench.gateway.shutdown().await;
                return scored_now.map(|_| Vec::new());
            };
            if cancel.level() != CancelLevel::None {
                bench.gateway.shutdown().await;
                return Err(cancelled());
            }
            spent += known;
            hear(&found);
            scored.push((example, found));
        }
        bench.gateway.shutdown().await;
        let mut all = Vec::new();
        for task in &plan.tasks {
            let own: Vec<_> = scored.iter().filter(|(example, _)| example.task.id == task.id).collect();
            if let (Some(rubric), false) = (&task.rubric, own.is_empty()) {
                all.push(bench.calibration(task, rubric, &own, options.tolerance));
            }
        }
        let layout = Layout::new(plan.state_dir.clone());
        for calibration in &all {
            keep(&layout, calibration)?;
        }
        Ok(all)
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "cancelled before every example was scored")
}

fn keep(layout: &Layout, calibration: &Calibration) -> Result<(), Error> {
    let path = layout.calibration_path(&calibration.judge_version);
    let write = || {
        layout.prepare()?;
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        record_file::write_atomic(&path, &serde_json::to_vec_pretty(calibration)?)
    };
    let message = format!("cannot write `{}`", path.display());
    write().map_err(|error| Error::new(ErrorKind::Store, message).caused_by(error))
}

/// What a judge is calibrated with.
struct Bench<'a> {
    parts: &'a Parts,
    judge: &'a JudgePlan,
    gateway: Gateway,
    redactor: Arc<Redactor>,
    key: Option<Key>,
    allow_unpriced: bool,
}

impl<'a> Bench<'a> {
    async fn start(parts: &'a Parts, plan: &RunPlan, judge: &'a JudgePlan) -> Result<Self, Error> {
        let keys = assemble::keys(parts, plan);
        refuse_without_key(plan, &keys)?;
        let redactor = Arc::new(Redactor::new(keys.iter().map(|(name, value)| (name.clone(), value.clone()))));
        let store = Store::open(&plan.results_db)?.acting_as(Owner::current());
        let options = GatewayOptions {
            listen: vec![Listen::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))],
            providers: gateway::providers(plan),
            prices: assemble::price_table(parts.prices.as_ref(), &plan.prices)?,
            redactor: Arc::clone(&redactor),
            clock: Arc::clone(&parts.clock),
            stalls: Stalls::default(),
            bounds: Bounds::default(),
            proxies: Proxies::from_variables(|name| parts.environment.get(name).cloned()),
            bodies: (plan.gateway.record == Recording::Bodies).then_some(BODY_LIMIT),
        };
        let gateway = Gateway::start(options, Arc::new(StoreRecorder { store })).await.map_err(failed)?;
        let key = plan.key_variable(&judge.model).and_then(|variable| keys.get(variable)).map(Key::new);
        Ok(Self { parts, judge, gateway, redactor, key, allow_unpriced: plan.allow_unpriced })
    }

    /// Scores an example. Returns besides what is known of its cost.
    async fn score(
        &self,
        index: usize,
        example: &Example,
        left: Option<Micros>,
    ) -> Result<(ExampleScored, Micros), Error> {
        let (judge, task) = (self.judge, &example.task);
        let Some(rubric) = &task.rubric else {
            return Err(Error::configuration(format!("task `{}` has no rubric", task.id)));
        };
        let clean = |text: &str| self.redactor.redact(text).into_string();
        let files = example.files.iter().map(|(path, text)| (path.clone(), text.as_deref().map(clean)));
        let evidence = Evidence::new(
            &clean(&task.prompt),
            example.checked.iter().map(|line| clean(line)).collect(),
            &clean(&example.diff),
            files.collect(),
            judge.evidence_bytes,
        );
        let run = RunName::new(RUN).map_err(|error| Error::configuration(error.to_string()))?;
        let session = u32::try_from(index).unwrap_or(u32::MAX).saturating_add(1);
        let trace = Trace::Calibration;
        let grant = Grant {
            attribution: Attribution { run, cell: None, attempt: 1, session, phase: None, role: None, trace },
            provider: judge.model.provider.clone(),
            key: self.key.clone(),
            base_url: place_of(&judge.model).map(str::to_owned),
            guard: Some(Arc::new(JudgeGuard {
                limit: judge.max_cost.into_iter().chain(left).min(),
                allow_unpriced: self.allow_unpriced,
            })),
            places: Places::default(),
        };
        let capability = self.gateway.open(grant).map_err(failed)?;
        let door = GatewayDoor { gateway: &self.gateway, capability: &capability };
        let prompt = Prompt::new(&evidence, rubric);
        let asked = judge::ask(judge, (&prompt, rubric), &door, &*self.parts.clock, &self.redactor).await;
        let totals = capability.close().await;
        let scored = ExampleScored {
            name: example.name.clone(),
            task: task.id.clone(),
            expected: rubric.score(&example.scores),
            asked,
            cost: totals.cost.filter(|_| totals.under_way == 0),
        };
        Ok((scored, totals.charged()))
    }

    /// Compares what the judge says with what people say of the examples of a task.
    fn calibration(
        &self,
        task: &Task,
        rubric: &Rubric,
        scored: &[&(&Example, ExampleScored)],
        tolerance: f64,
    ) -> Calibration {
        let (mut pairs, mut wholes, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for (example, found) in scored {
            let Some(score) = found.asked.score else {
                errors.push(format!("{}: {}", found.name, found.asked.error.as_deref().unwrap_or("no score")));
                continue;
            };
            wholes.push(Whole { expected: found.expected, judged: score });
            let both = example.scores.iter().zip(&found.asked.criteria);
            pairs.extend(both.map(|(expected, judged)| Pair {
                expected: *expected,
                judged: judged.points,
                of: judged.of,
            }));
        }
        Calibration {
            schema: CALIBRATION_SCHEMA,
            judge_version: judge::version(self.judge, rubric),
            model: self.judge.model.name.clone(),
            provider: self.judge.model.provider.clone(),
            task: task.id.clone(),
            rubric_version: rubric.version,
            at: self.parts.clock.now(),
            agreement: compare(&pairs, &wholes, tolerance, rubric.pass_score),
            errors,
            cost: scored.iter().map(|(_, found)| found.cost).sum(),
        }
    }
}

/// Refuses a judge whose key nobody gave: it would fail once for each cell, after the agent's work.
pub(super) fn refuse_without_key(plan: &RunPlan, keys: &HashMap<String, String>) -> Result<(), Error> {
    let Some(judge) = plan.judge.as_ref().filter(|_| plan.asks_a_judge()) else { return Ok(()) };
    // A tape is played without any key.
    if plan.gateway.cassette == CassetteMode::Replay {
        return Ok(());
    }
    match plan.key_variable(&judge.model).filter(|variable| !keys.contains_key(*variable)) {
        None => Ok(()),
        Some(variable) => Err(Error::configuration(format!("the judge's key `{variable}` is not set"))
            .hinting("set it, or name another variable in `judge.api_key_env`".to_owned())),
    }
}

/// Refuses a run whose judge has to agree with people and was not found to, for each rubric that it scores by.
pub(super) fn refuse_uncalibrated(plan: &RunPlan) -> Result<(), Error> {
    let layout = Layout::new(plan.state_dir.clone());
    for task in &plan.tasks {
        let Some((judge, rubric)) = plan.judge_of(task).zip(task.rubric.as_ref()) else { continue };
        let Some(least) = judge.min_agreement else { continue };
        let version = judge::version(judge, rubric);
        let found = Calibration::read(&layout.calibration_path(&version));
        let why = match &found {
            None => "it was not calibrated".to_owned(),
            Some(found) => match found.proven() {
                Some(agreement) if agreement >= least => continue,
                Some(agreement) => format!("it agrees with people on {agreement:.2} of the scores"),
                None => "not every example of its calibration was scored".to_owned(),
            },
        };
        let message = format!("judge {version} of task `{}` needs an agreement of {least}, but {why}", task.id);
        let hint = "`refrain calibrate` finds out how far it agrees; `judge.min_agreement` says how far it has to";
        return Err(Error::configuration(message).hinting(hint.to_owned()));
    }
    Ok(())
}
