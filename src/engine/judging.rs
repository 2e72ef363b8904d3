//! Asks a run's judge about one attempt, on a trace and an account of its own.

use std::sync::Arc;

use async_trait::async_trait;

use super::metering;
use super::services::CellContext;
use super::world::{Attempt, describe};
use crate::config::gateway::place_of;
use crate::config::judge::JudgePlan;
use crate::domain::rubric::Rubric;
use crate::domain::{Attribution, CostMode, Failure, JudgeRecord, Micros, Trace};
use crate::gateway::cassette::Places;
use crate::gateway::{Capability, Gateway, Grant, Guard, Key, Totals};
use crate::judge::{self, Asked, Door, DoorError, Evidence, Prompt, Reply};
use crate::store::{CallSums, StoreError, record_file};

/// The number of the judge's exchanges among an attempt's sessions, which begin at 1.
const NO_SESSION: u32 = 0;

/// The way to a judge through a gateway.
pub struct GatewayDoor<'a> {
    /// The gateway.
    pub gateway: &'a Gateway,
    /// On whose account.
    pub capability: &'a Capability,
}

#[async_trait]
impl Door for GatewayDoor<'_> {
    async fn post(&self, path: &str, body: Vec<u8>) -> Result<Reply, DoorError> {
        let reply = self.gateway.post(self.capability, path, body).await;
        let reply = reply.map_err(|error| DoorError { message: error.to_string() })?;
        Ok(Reply { status: reply.status, body: reply.body })
    }
}

/// Judges an attempt's work. The record is there whenever the judge was asked, with a failure beside it where it gave no
/// score; what it cost is on the ledger by then.
///
/// # Errors
///
/// The failure of an attempt whose judge could not be asked at all, or whose books could not be kept.
pub(crate) async fn judge(
    context: &CellContext,
    attempt: &Attempt,
    (plan, rubric): (&JudgePlan, &Rubric),
    evidence: Evidence,
) -> Result<(JudgeRecord, Option<Failure>), Failure> {
    let services = &context.services;
    let prompt = Prompt::new(&evidence, rubric);
    keep(context, attempt, &prompt);
    let guard = Arc::new(JudgeGuard {
        limit: limit(context, attempt, plan).await.map_err(unkept)?,
        allow_unpriced: context.services.plan.allow_unpriced,
    });
    let Some(gateway) = services.metering.gateway() else {
        return Err(Failure::Judge { message: "no gateway runs to ask it through".to_owned() });
    };
    let capability = gateway.open(grant(context, attempt, plan, guard));
    let capability = capability.map_err(|error| Failure::Configuration { message: describe(&error) })?;
    let door = GatewayDoor { gateway, capability: &capability };
    let asked = tokio::select! {
        asked = judge::ask(plan, (&prompt, rubric), &door, &*services.clock, &services.redactor) => Some(asked),
        () = context.cancel.kill_token().cancelled() => None,
    };
    capability.close().await;
    let exempt = plan.model.cost_mode == CostMode::Subscription;
    let sums = services.store.book_judge(&attempt.id, exempt, services.clock.now()).await.map_err(unkept)?;
    let failure = match &asked {
        None => Some(Failure::Cancelled),
        Some(asked) => asked.error.as_ref().map(|message| Failure::Judge { message: message.clone() }),
    };
    let mut asked = asked.unwrap_or_default();
    asked.error = asked.error.or_else(|| failure.as_ref().map(ToString::to_string));
    Ok((record((plan, rubric), asked, (evidence, &sums)), failure))
}

fn unkept(error: StoreError) -> Failure {
    Failure::Store { message: describe(&error) }
}

/// Keeps what the judge was asked, for whoever wants to know why it said what it said.
fn keep(context: &CellContext, attempt: &Attempt, prompt: &Prompt) {
    let path = context.services.layout.judge_prompt_path(&attempt.id);
    let text = format!("{}\n\n{}", prompt.system, prompt.text);
    if let Err(error) = record_file::write_atomic(&path, text.as_bytes()) {
        attempt.warn(format!("what the judge was asked could not be kept: {error}"));
    }
}

/// Returns the most that the judgement may cost: its own limit, and what the run's cap leaves to the attempt.
async fn limit(context: &CellContext, attempt: &Attempt, plan: &JudgePlan) -> Result<Option<Micros>, StoreError> {
    let by_run = match context.services.plan.budget.filter(|_| plan.model.cost_mode == CostMode::Platform) {
        None => None,
        Some(cap) => {
            let allowance = context.services.store.allowance(&attempt.id).await?;
            Some(allowance.totals.remaining(cap) + allowance.reserved)
        }
    };
    Ok(plan.max_cost.into_iter().chain(by_run).min())
}

fn grant(context: &CellContext, attempt: &Attempt, plan: &JudgePlan, guard: Arc<JudgeGuard>) -> Grant {
    let services = &context.services;
    let key = services.plan.key_variable(&plan.model).and_then(|variable| services.keys.get(variable));
    Grant {
        attribution: Attribution {
            run: attempt.id.run.clone(),
            cell: Some(attempt.id.cell.clone()),
            attempt: attempt.id.number,
            session: NO_SESSION,
            phase: None,
            role: None,
            trace: Trace::Judge,
        },
        provider: plan.model.provider.clone(),
        key: key.map(Key::new),
        base_url: place_of(&plan.model).map(str::to_owned),
        guard: Some(guard),
        places: Places::default(),
    }
}

fn record((plan, rubric): (&JudgePlan, &Rubric), asked: Asked, (evidence, sums): (Evidence, &CallSums)) -> JudgeRecord {
    JudgeRecord {
        version: judge::version(plan, rubric),
        model: plan.model.name.clone(),
        provider: plan.model.provider.clone(),
        rubric_version: rubric.version,
        pass_score: rubric.pass_score,
        score: asked.score,
        spread: asked.spread,
        criteria: asked.criteria,
        error: asked.error,
        answers: asked.answers,
        usage: sums.usage,
        cost: sums.cost.filter(|_| sums.open == 0),
        exempt: plan.model.cost_mode == CostMode::Subscription,
        cut: evidence.cut,
        warnings: evidence.warnings,
    }
}

/// The ceiling of a judgement.
pub struct JudgeGuard {
    /// The most that it may cost.
    pub limit: Option<Micros>,
    /// Whether a judge without a price may be asked all the same.
    pub allow_unpriced: bool,
}

impl Guard for JudgeGuard {
    fn refuses(&self, totals: &Totals) -> Option<String> {
        let (limit, spent) = (self.limit?, totals.charged());
        (spent >= limit).then(|| format!("cost limit of {limit} reached by the judge: {spent} spent"))
    }

    fn refuses_unpriced(&self, model: Option<&str>) -> Option<String> {
        self.limit.filter(|_| !self.allow_unpriced).map(|limit| metering::unpriced(model, limit))
    }

    fn may_pass(&self, totals: &Totals, promised: Micros) -> bool {
        // Its requests go one after the other: there is never another to wait for.
        self.limit.is_none_or(|limit| totals.charged() + promised < limit)
    }

    fn spent(&self, _: &Totals) {}
}
