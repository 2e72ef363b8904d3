//! The steps before the first session: what is checked, opened, set up and probed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::services::CellContext;
use super::world::describe;
use crate::config::RunPlan;
use crate::config::gateway::{CassetteMode, Route};
use crate::domain::cell::Cell;
use crate::domain::failure::Timer;
use crate::domain::model::AuthMode;
use crate::domain::{AttemptId, ContainerOptions, Failure};
use crate::runtime::{Command, Environment, EnvironmentSpec, ExecEnd, ExecReport, Output, RuntimeError};
use crate::script::port::{ScriptInputs, TaskView};
use crate::workspace::{Seeded, WorkspaceError, rebase};

/// Checks what can be checked before anything is opened.
pub(crate) fn validate(context: &CellContext) -> Result<(), Failure> {
    let (services, cell) = (&context.services, context.cell());
    for index in [Some(cell.model), cell.review_model].into_iter().flatten() {
        let model = &services.plan.models[index];
        let Some(variable) = &model.api_key_env else { continue };
        let is_played = services.plan.gateway.cassette == CassetteMode::Replay
            && services.plan.route(&services.plan.harnesses[cell.harness], model) == Route::Gateway;
        if is_played {
            continue;
        }
        if model.auth_mode == AuthMode::ApiKey && !services.keys.contains_key(variable) {
            return Err(Failure::Configuration {
                message: format!("model `{}` takes its key from `{variable}`, which is not set", model.name),
            });
        }
    }
    Ok(())
}

/// Opens the agent's environment.
pub(crate) async fn open(
    context: &CellContext,
    id: &AttemptId,
    scratch: &Path,
) -> Result<Arc<dyn Environment>, Failure> {
    match context.services.runtime.open(agent_spec(context, id, scratch)).await {
        Ok(env) => Ok(Arc::from(env)),
        Err(error) => Err(Failure::Runtime { message: describe(&error) }),
    }
}

/// Describes the agent's environment.
pub(crate) fn agent_spec(context: &CellContext, id: &AttemptId, scratch: &Path) -> EnvironmentSpec {
    let image = context.image().map(str::to_owned);
    let gateway = context.services.metering.doors();
    EnvironmentSpec { image, container: container(context), gateway, ..agent_environment(id, scratch) }
}

/// Describes the agent's environment as far as it is needed to find it again.
#[must_use]
pub fn agent_environment(id: &AttemptId, scratch: &Path) -> EnvironmentSpec {
    EnvironmentSpec {
        attempt: id.clone(),
        purpose: "agent",
        scratch: scratch.join("agent"),
        env: Vec::new(),
        image: None,
        container: ContainerOptions::default(),
        gateway: None,
    }
}

/// Returns what the environments of a cell are like: as the run says, with the task's folder of the image.
pub(crate) fn container(context: &CellContext) -> ContainerOptions {
    let plan = &context.services.plan;
    let workspace = plan.tasks[context.cell().task].seed.image_folder().map(Path::to_owned);
    ContainerOptions { workspace, ..plan.container.clone() }
}

/// Turns a seed that cannot be prepared into a failure: a broken task is the user's, a broken disk is ours.
pub(crate) fn seed_failure(error: &WorkspaceError) -> Failure {
    let message = error.full_message();
    if error.is_configuration() { Failure::Configuration { message } } else { Failure::Workspace { message } }
}

/// Runs the task's setup script. Its failure is never the agent's, and neither are the files it makes: where there is
/// one, the tree that it leaves is the baseline, kept in `dest`.
pub(crate) async fn run_script(
    context: &CellContext,
    env: &dyn Environment,
    seeded: Arc<Seeded>,
    dest: &Path,
    stop: &CancellationToken,
) -> Result<Arc<Seeded>, Failure> {
    let plan = &context.services.plan;
    let Some(script) = &plan.tasks[context.cell().task].setup_script else { return Ok(seeded) };
    let mut command = Command::shell(script.clone());
    command.limits.timeout = Some((Timer::Setup, plan.limits.setup_timeout));
    let report = env
        .exec(&command, Output::capture(), stop)
        .await
        .map_err(|error| Failure::Setup { message: describe(&error) })?;
    if report.end == ExecEnd::Stopped {
        return Err(Failure::Cancelled);
    }
    if !report.success() {
        return Err(Failure::Setup { message: last_words(context, &report) });
    }
    env.quiesce().await.map_err(|error| Failure::Setup { message: describe(&error) })?;
    rebase(env, &seeded, dest).await.map_err(|error| Failure::Workspace { message: error.full_message() })
}

/// Asks the harness for its version, once per attempt: two attempts may see two versions of a program that updates
/// itself. A harness that cannot even do that cannot be run.
pub(crate) async fn probe(
    context: &CellContext,
    env: &dyn Environment,
    stop: &CancellationToken,
) -> Result<Option<String>, Failure> {
    let harness = &context.services.harnesses[context.cell().harness];
    let Some(mut command) = harness.probe() else { return Ok(None) };
    command.limits.timeout = Some((Timer::Setup, context.services.plan.limits.setup_timeout));
    let report = match env.exec(&command, Output::capture(), stop).await {
        Ok(report) => report,
        Err(error @ RuntimeError::NotRunnable { .. }) => {
            return Err(Failure::Configuration {
                message: format!("harness `{}` is not installed: {}", harness.name(), describe(&error)),
            });
        }
        Err(error) => return Err(Failure::Runtime { message: describe(&error) }),
    };
    if report.end == ExecEnd::Stopped {
        return Err(Failure::Cancelled);
    }
    if let ExecEnd::TimedOut { limit, .. } = report.end {
        // A machine that is busy, not a program that cannot run.
        let (name, limit) = (harness.name(), limit.as_secs_f64());
        let message =
            format!("the probe of harness `{name}` did not end within {limit:.0} s; `limits.setup_timeout` bounds it");
        return Err(Failure::Setup { message });
    }
    if !report.success() {
        return Err(Failure::Configuration {
            message: format!("the probe of harness `{}` failed: {}", harness.name(), last_words(context, &report)),
        });
    }
    let text = String::from_utf8_lossy(&report.stdout.bytes);
    let version = text.lines().map(str::trim).find(|line| !line.is_empty());
    Ok(version.map(|version| context.services.redactor.redact(version).into_string()))
}

/// Says how a command ended, with the last lines it printed.
fn last_words(context: &CellContext, report: &ExecReport) -> String {
    let bytes = if report.stderr.bytes.is_empty() { &report.stdout.bytes } else { &report.stderr.bytes };
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    let tail: Vec<&str> = lines.into_iter().rev().collect();
    let text = format!("{:?}; last output: {}", report.end, tail.join(" | "));
    crate::redact::printable(context.services.redactor.redact(&text).as_str())
}

/// What the script is told before it starts.
pub(crate) fn script_inputs(plan: &RunPlan, cell: &Cell, deadline: Duration) -> ScriptInputs {
    let task = &plan.tasks[cell.task];
    let digest = blake3::hash(format!("{}/{}", plan.name, cell.id).as_bytes());
    let mut seed = [0; 8];
    seed.copy_from_slice(&digest.as_bytes()[..8]);
    ScriptInputs {
        params: plan.orchestrators[cell.orchestrator].params.clone(),
        task: TaskView {
            id: task.id.clone(),
            name: task.name.clone(),
            prompt: task.prompt.clone(),
            track: task.track.to_string(),
            checks: task.checks.clone(),
            phases: task.phases.clone(),
            metadata: task.metadata.clone(),
        },
        models: plan.models.iter().map(|model| (model.name.clone(), model.role.to_string())).collect(),
        harnesses: plan.harnesses.iter().map(|harness| harness.name.clone()).collect(),
        deadline: Some(deadline),
        seed: u64::from_le_bytes(seed),
    }
}
