//! A checked run: what the engine works from.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use super::cell_key::KeyCache;

use super::cell_key;
use super::gateway::{GatewayPlan, ProviderEntry};
use super::harness_metering::names;
use super::judge::JudgePlan;
use crate::domain::cell::Cell;
use crate::domain::{CellKey, ContainerOptions, Micros, Model, ModelRole, Params, RunName, Task};

/// A harness as a run declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct HarnessEntry {
    /// Its name in this run.
    pub name: String,
    /// Its manifest, checked.
    pub manifest: Arc<super::harness_manifest::HarnessManifest>,
    /// Version asked for, where one is.
    pub version: Option<String>,
    /// Image of its cells, after precedence: own image > own version as a tag on the run's image > run's image.
    pub image: Option<String>,
    /// How much of it can be observed.
    pub observability_tier: String,
    /// Settings for its templates (`{config.KEY}`), checked against the manifest, paths made absolute.
    pub config: serde_json::Map<String, serde_json::Value>,
}

impl HarnessEntry {
    /// Makes an entry of a manifest with its defaults, as for a run that says nothing of it but its name.
    #[must_use]
    pub fn of_manifest(name: &str, manifest: super::harness_manifest::HarnessManifest) -> Self {
        let defaults = manifest.config.iter().filter_map(|(name, field)| Some((name.clone(), field.default.clone()?)));
        Self {
            name: name.to_owned(),
            config: defaults.collect(),
            manifest: manifest.into(),
            version: None,
            image: None,
            observability_tier: "full".to_owned(),
        }
    }

    /// Tells whether it can be pointed at another address of a provider: a template of its manifest or of its settings
    /// names `{base_url}`.
    #[must_use]
    pub fn takes_base_url(&self) -> bool {
        let in_settings = self.config.values().any(|value| names(&value.to_string(), "base_url"));
        self.manifest.names("base_url") || in_settings
    }
}

/// An orchestrator as a run declares it.
#[derive(Debug, Clone, PartialEq)]
pub struct OrchestratorEntry {
    /// The label in cell ids (`as`, else the slug).
    pub label: String,
    /// The manifest, checked.
    pub manifest: Arc<super::orchestrator_manifest::OrchestratorManifest>,
    /// Parameters: defaults, then the run's, then the command line's; types and ranges checked.
    pub params: Params,
}

/// Limits of a run's attempts and sessions.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLimits {
    /// Most dollars for a cell.
    pub cell_cost: Option<Micros>,
    /// Most dollars for a session.
    pub session_cost: Option<Micros>,
    /// Most sessions of an attempt.
    pub sessions: u32,
    /// No output and no CPU for this long ends a session.
    pub idle_timeout: Duration,
    /// Bound of setup scripts.
    pub setup_timeout: Duration,
    /// Bound of test commands.
    pub evaluation_timeout: Duration,
    /// Most bytes of output of a session.
    pub output_bytes: u64,
}

/// How infrastructure faults are retried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPlan {
    /// How many further attempts.
    pub infrastructure: u32,
    /// Whether timeouts are retried too.
    pub on_timeout: bool,
}

/// A checked run with all its cells.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPlan {
    /// Its name.
    pub name: RunName,
    /// For people.
    pub description: Option<String>,
    /// The run file, absolute.
    pub source: PathBuf,
    /// Harnesses in the order of the file.
    pub harnesses: Vec<HarnessEntry>,
    /// Models in the order of the file.
    pub models: Vec<Model>,
    /// Tasks in the order of the file, or of the library for `"*"`.
    pub tasks: Vec<Arc<Task>>,
    /// Orchestrators: those the run lists, plus `phases` where a multi-phase task runs by default.
    pub orchestrators: Vec<OrchestratorEntry>,
    /// Repeats of each coordinate.
    pub repeats: u32,
    /// The cap; `Some(0)` is a real cap.
    pub budget: Option<Micros>,
    /// Whether a capped run may use models whose price nobody knows.
    pub allow_unpriced: bool,
    /// Price files that go before the built-in prices, absolute; of several the last goes first.
    pub prices: Vec<PathBuf>,
    /// Cells at a time.
    pub parallel_runs: usize,
    /// `local`, `docker`, or what an embedder registered.
    pub runtime: String,
    /// What environments that are containers may use.
    pub container: ContainerOptions,
    /// Limits.
    pub limits: RunLimits,
    /// Retries.
    pub retry: RetryPlan,
    /// The gateway.
    pub gateway: GatewayPlan,
    /// What scores open work, where the run has a judge.
    pub judge: Option<JudgePlan>,
    /// The providers: those that every run knows, and the run's own.
    pub providers: Vec<ProviderEntry>,
    /// Bound of every attempt, over the tasks' own.
    pub max_runtime: Option<Duration>,
    /// The database file, absolute.
    pub results_db: PathBuf,
    /// The folder for everything else a run leaves, absolute (`.refrain`).
    pub state_dir: PathBuf,
    /// All cells, in order: harness, model, review model, task, orchestrator, repeat.
    pub cells: Vec<Cell>,
    /// The run file as it was written (names of variables, never values of keys), for the store.
    pub config_json: serde_json::Value,
    /// Digests behind [`RunPlan::cell_key`], each computed once; `Default::default()` for a plan made by hand.
    pub keys: KeyCache,
}

impl RunPlan {
    /// Returns the key of a cell: equal keys mean equal work.
    ///
    /// It covers the task's content (with the files of its seed and hidden tests), the orchestrator's files and
    /// parameters, the harness's manifest, version, settings and image, and the models with the names of their providers.
    /// It does not cover names of runs, places of files and of providers, the gateway, budgets and limits. Files are read on the first call for each task and harness.
    #[must_use]
    pub fn cell_key(&self, cell: &Cell) -> CellKey {
        cell_key::of(self, cell)
    }

    /// Returns the position of the model that sessions with `role = "review"` get in a cell: the one it is paired with,
    /// else the first with that role that is not the cell's own, else its own if that has the role.
    #[must_use]
    pub fn reviewer(&self, cell: &Cell) -> Option<usize> {
        let reviewers = || (0..self.models.len()).filter(|&index| self.models[index].role == ModelRole::Review);
        let own = self.models.get(cell.model).map(|model| model.name.as_str());
        let other = || reviewers().find(|&index| Some(self.models[index].name.as_str()) != own);
        cell.review_model.or_else(other).or_else(|| reviewers().next())
    }

    /// Returns the review model of a cell, where it has one.
    #[must_use]
    pub fn review_model(&self, cell: &Cell) -> Option<&Model> {
        cell.review_model.and_then(|index| self.models.get(index))
    }
}
