//! Runs scripts again over what is on record of them.

use std::path::Path;
use std::sync::Arc;

use super::assemble;
use super::builder::Host;
use super::error::{Error, ErrorKind};
use crate::config::RunPlan;
use crate::config::orchestrator_manifest::OrchestratorManifest;
use crate::domain::AttemptId;
use crate::engine::rehearsal::{self, Rehearsal};
use crate::store::Store;

impl Host {
    /// Runs the script of an attempt again over its journal, or the script in `with` instead, whose parameters are
    /// completed by its own defaults. Nothing is begun, nothing is changed, nothing costs anything.
    ///
    /// # Errors
    ///
    /// An [`Error`] if the plan has no such cell, the script cannot be read, or the journal cannot.
    pub async fn rehearse(&self, plan: &RunPlan, attempt: &AttemptId, with: Option<&Path>) -> Result<Rehearsal, Error> {
        let cell = plan.cells.iter().find(|cell| cell.id == attempt.cell);
        let configuration = |message: String| Error::new(ErrorKind::Configuration, message);
        let cell = cell.ok_or_else(|| configuration(format!("the run file has no cell `{}`", attempt.cell)))?;
        let mut plan = plan.clone();
        if let Some(dir) = with {
            let entry = &mut plan.orchestrators[cell.orchestrator];
            entry.manifest = Arc::new(OrchestratorManifest::from_dir(dir)?);
            let kept = std::mem::take(&mut entry.params);
            let known = |name: &String| entry.manifest.params.contains_key(name);
            let given = kept.into_iter().filter(|(name, _)| known(name)).collect();
            entry.params = entry.manifest.complete_params(given).map_err(|error| configuration(error.to_string()))?;
        }
        let source = assemble::script(&plan.orchestrators[cell.orchestrator])?;
        let store = Store::open_read_only(&plan.results_db)?;
        let journal = store.journal(attempt).await?;
        if journal.is_empty() {
            return Err(configuration(format!("attempt {} of `{}` has no journal", attempt.number, attempt.cell)));
        }
        rehearsal::rehearse_cell(&plan, cell, source, journal).await.map_err(configuration)
    }
}
