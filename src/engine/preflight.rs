//! What is tried once before the first cell, so that not every cell has to find it out.

use super::error::EngineError;
use super::keepsake::clear_scratch;
use super::services::Services;
use crate::config::gateway::Route;
use crate::domain::AttemptId;
use crate::runtime::{EnvironmentSpec, RuntimeError};

/// Opens an environment like those of the run and lets it reach the gateway. Environments that are processes of this
/// machine reach what it listens on.
///
/// # Errors
///
/// [`EngineError::Gateway`], which says what address was tried from where.
pub(crate) async fn gateway(services: &Services) -> Result<(), EngineError> {
    let (plan, Some(doors)) = (&services.plan, services.metering.doors()) else { return Ok(()) };
    if services.runtime.is_host() {
        return Ok(());
    }
    let metered = plan
        .cells
        .iter()
        .find(|cell| plan.route(&plan.harnesses[cell.harness], &plan.models[cell.model]) == Route::Gateway);
    let Some(cell) = metered else { return Ok(()) };
    let prepared = services.images.get(cell.harness).and_then(Option::as_ref).map(|image| image.image.clone());
    let attempt = AttemptId { run: plan.name.clone(), cell: cell.id.clone(), number: 0 };
    let scratch = services.layout.scratch(&attempt);
    let spec = EnvironmentSpec {
        attempt,
        purpose: "preflight",
        scratch: scratch.join("agent"),
        env: Vec::new(),
        image: prepared.or_else(|| plan.harnesses[cell.harness].image.clone()),
        container: plan.container.clone(),
        gateway: Some(doors),
    };
    let reached = reach(services, spec).await;
    if let Err(error) = clear_scratch(&scratch).await {
        tracing::warn!(path = %scratch.display(), %error, "left-overs could not be removed");
    }
    reached.map_err(|source| EngineError::Gateway { source })
}

async fn reach(services: &Services, spec: EnvironmentSpec) -> Result<(), RuntimeError> {
    let env = services.runtime.open(spec).await?;
    let reached = env.gateway_address().await;
    if let Err(error) = env.close().await {
        tracing::warn!(%error, "an environment was not removed");
    }
    reached.map(|_| ())
}
