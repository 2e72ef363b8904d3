//! What a run works with: the plan's names resolved to things that act.

use std::collections::HashMap;
use std::sync::Arc;

use crate::budget::PriceTable;
use crate::clock::Clock;
use crate::config::RunPlan;
use crate::domain::cell::Cell;
use crate::evaluator::Evaluator;
use crate::harness::Harness;
use crate::redact::Redactor;
use crate::runtime::{PreparedImage, Runtime};
use crate::script::{ScriptPool, ScriptSource};
use crate::store::{Layout, Owner, RunHandle, Store};
use crate::workspace::SeedCache;

use super::cancel::CancelHandle;
use super::events::EventSink;
use super::metering::Metering;
use super::pacing::Pacer;

/// Everything that the cells of one run share.
pub struct Services {
    /// The plan.
    pub plan: RunPlan,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Results.
    pub store: Store,
    /// Folders.
    pub layout: Layout,
    /// Where environments are opened.
    pub runtime: Arc<dyn Runtime>,
    /// What environments are opened from, in the order of the plan's harnesses; `None` where the runtime has no images.
    pub images: Vec<Option<PreparedImage>>,
    /// Harnesses, in the plan's order.
    pub harnesses: Vec<Arc<dyn Harness>>,
    /// Scripts, in the order of the plan's orchestrators.
    pub scripts: Vec<ScriptSource>,
    /// Threads for scripts.
    pub pool: ScriptPool,
    /// The judge of final trees.
    pub evaluator: Arc<dyn Evaluator>,
    /// Prepared workspaces.
    pub seeds: SeedCache,
    /// Takes secrets out of everything that is kept or shown.
    pub redactor: Arc<Redactor>,
    /// Values of the variables that the models name as their keys.
    pub keys: HashMap<String, String>,
    /// What tokens cost.
    pub prices: PriceTable,
    /// How fast sessions may begin at each provider, where no gateway sees to it.
    pub pacer: Pacer,
    /// The gateway that sessions go through.
    pub metering: Metering,
    /// Who this host is, for claims.
    pub owner: Owner,
    /// This start of the run.
    pub run: RunHandle,
}

impl Services {
    /// Ends what outlives the cells. Nothing of the run may be under way any more.
    pub async fn shutdown(&self) {
        self.metering.shutdown().await;
    }
}

/// One cell on its way.
#[derive(Clone)]
pub(crate) struct CellContext {
    /// What the run shares.
    pub(crate) services: Arc<Services>,
    /// Index of the cell in the plan.
    pub(crate) index: usize,
    /// Where events go.
    pub(crate) events: EventSink,
    /// How far the run is cancelled.
    pub(crate) cancel: CancelHandle,
    /// A decided cell is run again.
    pub(crate) again: bool,
    /// This host itself has decided the cell in an attempt that the run retries, such as a timeout.
    pub(crate) retries_decided: bool,
}

impl CellContext {
    /// Returns the image of the cell's environments, where the runtime has images.
    pub(crate) fn image(&self) -> Option<&str> {
        let prepared = self.services.images.get(self.cell().harness).and_then(Option::as_ref);
        let named = || self.services.plan.harnesses[self.cell().harness].image.as_deref();
        prepared.map(|prepared| prepared.image.as_str()).or_else(named)
    }

    /// Returns the digest of the image that the cell's environments are made from, as far as it is known before one is.
    pub(crate) fn base(&self) -> Option<String> {
        self.services.images.get(self.cell().harness)?.as_ref().map(|image| image.base.clone())
    }

    /// Returns the cell.
    pub(crate) fn cell(&self) -> &Cell {
        &self.services.plan.cells[self.index]
    }
}
