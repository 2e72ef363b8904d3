//! A session by what the gateway counted of it.

use super::super::reconcile::{self, Seen};
use super::super::world::{Attempt, describe};
use super::Setup;
use crate::budget::Price;
use crate::domain::{SessionRecord, UsageSource};

/// Books a session by what the gateway saw of it, and notes what of that a reader should know.
pub(super) async fn by_gateway(attempt: &Attempt, setup: &Setup, record: &mut SessionRecord, seen: Seen) {
    reconcile::settle(record, seen, tolerance(attempt, setup.harness.name()));
    match attempt.context.services.store.session_answers(&attempt.id, setup.index).await {
        Ok((_, Some(outage))) => reconcile::outage(record, outage),
        Ok((true, None)) => reconcile::crash(record),
        Ok((false, None)) => reconcile::silence(record),
        Err(error) => record.warnings.push(format!("how its requests ended could not be read: {}", describe(&error))),
    }
    if record.usage_source != Some(UsageSource::Gateway) {
        return;
    }
    let services = &attempt.context.services;
    let price = services.prices.find(&setup.model.name);
    record.price = record.cost.and(price).map(Price::origin);
    match services.store.session_models(&attempt.id, setup.index).await {
        Ok(models) => reconcile::models(record, &models, |model| services.prices.find(model).is_some()),
        Err(error) => {
            record.warnings.push(format!("which models answered could not be read: {}", describe(&error)));
        }
    }
}

/// The share by which a harness's figures may differ from the gateway's.
fn tolerance(attempt: &Attempt, harness: &str) -> f64 {
    let harnesses = &attempt.context.services.plan.harnesses;
    harnesses.iter().find(|entry| entry.name == harness).map_or(0.0, |entry| entry.manifest.tolerance)
}
