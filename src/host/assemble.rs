//! Resolves a plan's names to things that act.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::builder::Parts;
#[cfg(feature = "gateway")]
use super::calibrate;
use super::error::{Error, ErrorKind};
#[cfg(feature = "gateway")]
use super::gateway;
use super::images::{self, ReadyHarness};
use super::lua_adapter::LuaReaders;
use super::reporting::Reporting;
use super::run::Run;
use crate::budget::{PriceTable, tells_cost};
use crate::config::RunPlan;
use crate::config::gateway::{CassetteMode, Route, place_of};
use crate::config::orchestrator_manifest::{OrchestratorManifest, Origin};
use crate::config::plan::{HarnessEntry, OrchestratorEntry};
use crate::domain::{AttemptState, Model};
#[cfg(not(feature = "gateway"))]
use crate::engine::metering::Metering;
use crate::engine::pacing::Pacer;
use crate::engine::{self, CancelHandle, EngineError, Services};
use crate::evaluator::{Evaluator, TestSuiteEvaluator};
use crate::harness::declarative::DeclarativeHarness;
use crate::harness::{Harness, credentials};
use crate::redact::Redactor;
use crate::report::Reporter;
use crate::runtime::{EnvironmentSpec, PreparedImage, Runtime};
use crate::script::{ScriptFiles, ScriptPool, ScriptSource, SourceError};
use crate::store::{Layout, Owner, RunMeta, Store, record_file};
use crate::workspace::SeedCache;

/// Makes a run of a plan.
pub(super) async fn run(
    parts: &Parts,
    plan: RunPlan,
    reporters: Vec<Box<dyn Reporter>>,
    cancel: CancelHandle,
) -> Result<Run, Error> {
    let (runtime, notes) = usable_runtime(parts, &plan).await?;
    let prices = price_table(parts.prices.as_ref(), &plan.prices)?;
    refuse_unpriced(&prices, &plan)?;
    let keys = keys(parts, &plan);
    #[cfg(feature = "gateway")]
    {
        calibrate::refuse_without_key(&plan, &keys)?;
        calibrate::refuse_uncalibrated(&plan)?;
    }
    let harnesses = harnesses(parts, &plan, &*runtime)?;
    let scripts = plan.orchestrators.iter().map(script).collect::<Result<Vec<_>, Error>>()?;
    let layout = Layout::new(plan.state_dir.clone());
    layout.prepare().map_err(|error| cannot("create", &plan.state_dir, error))?;
    let images = images::make_ready(parts, &plan, &*runtime, &cancel).await?;
    let store = Store::open(&plan.results_db)?;
    let secrets = keys.iter().map(|(name, value)| (name.clone(), value.clone()));
    let redactor = Arc::new(Redactor::new(secrets.chain(logins(&plan))));
    let owner = Owner::current();
    let run = store.begin_run(&meta(parts, &plan, &owner, &images)).await?;
    take_up(parts, &plan, (&store, &layout, &*runtime)).await?;
    let store = store.acting_as(owner.clone());
    #[cfg(feature = "gateway")]
    let metering = {
        let (runtime, layout) = (&*runtime, &layout);
        let around = gateway::Around { runtime, layout, store: &store, prices: &prices, redactor: &redactor };
        gateway::start(parts, &plan, around).await?
    };
    #[cfg(not(feature = "gateway"))]
    let metering = Metering::default();
    let (reporting, listener) = Reporting::start(reporters)
        .map_err(|error| Error::new(ErrorKind::Other, "cannot start a thread").caused_by(error))?;
    let services = Services {
        clock: Arc::clone(&parts.clock),
        store,
        seeds: SeedCache::new(layout.seeds()),
        layout,
        runtime,
        images,
        harnesses,
        scripts,
        pool: ScriptPool::default(),
        evaluator: evaluator(parts, &plan),
        redactor,
        keys,
        prices,
        pacer: Pacer::default(),
        metering,
        owner,
        run,
        plan,
    };
    Ok(Run {
        services: Arc::new(services),
        cancel,
        reporting,
        listeners: vec![listener],
        accept_changes: false,
        again: false,
        check_gateway: true,
        notes,
    })
}

/// Makes ready what a plan's cells need, and runs nothing.
pub(super) async fn make_ready(
    parts: &Parts,
    plan: &RunPlan,
    cancel: &CancelHandle,
) -> Result<Vec<ReadyHarness>, Error> {
    let (runtime, _) = usable_runtime(parts, plan).await?;
    // A template that is wrong is told before anything is installed.
    harnesses(parts, plan, &*runtime)?;
    let images = images::make_ready(parts, plan, &*runtime, cancel).await?;
    let named = plan.harnesses.iter().map(|entry| entry.name.clone());
    Ok(named.zip(images).map(|(harness, image)| ReadyHarness { harness, image }).collect())
}

/// Returns the runtime of a plan, which can be used, and what a user should know of it.
async fn usable_runtime(parts: &Parts, plan: &RunPlan) -> Result<(Arc<dyn Runtime>, Vec<String>), Error> {
    let runtime = runtime(parts, &plan.runtime)?;
    let usable = runtime.preflight().await;
    let info = usable.map_err(|source| EngineError::Runtime { name: plan.runtime.clone(), source })?;
    let notes = info.notes.iter().map(|note| format!("runtime {}: {note}", plan.runtime)).collect();
    Ok((runtime, notes))
}

fn runtime(parts: &Parts, name: &str) -> Result<Arc<dyn Runtime>, Error> {
    parts.runtimes.get(name).cloned().ok_or_else(|| {
        let known = parts.runtimes.keys().cloned().collect();
        EngineError::UnknownRuntime { name: name.to_owned(), known }.into()
    })
}

/// The table that comes with Refrain or the embedder's own, and before it these files, the last one first.
pub(super) fn price_table(own: Option<&PriceTable>, files: &[PathBuf]) -> Result<PriceTable, Error> {
    let wrong = |message: &str| Error::new(ErrorKind::Configuration, message);
    let mut table = match own {
        Some(prices) => prices.clone(),
        None => PriceTable::bundled().map_err(|error| wrong("the price table cannot be read").caused_by(error))?,
    };
    for path in files {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(&format!("the price file `{name}` cannot be read")).caused_by(error))?;
        let own = PriceTable::parse(&name, &text).map_err(|error| {
            wrong(&error.to_string()).hinting("`docs/guide/money.md` shows what a price file looks like".to_owned())
        })?;
        table = table.overridden_by(own);
    }
    Ok(table)
}

fn evaluator(parts: &Parts, plan: &RunPlan) -> Arc<dyn Evaluator> {
    let default = || Arc::new(TestSuiteEvaluator::new(plan.limits.evaluation_timeout)) as Arc<dyn Evaluator>;
    parts.evaluator.clone().unwrap_or_else(default)
}

/// A cap that cannot see what is spent is no cap. What the gateway counts it would refuse request by request.
fn refuse_unpriced(prices: &PriceTable, plan: &RunPlan) -> Result<(), Error> {
    let limits = &plan.limits;
    let ceilings = [
        (plan.budget.is_some(), "the budget is capped"),
        (limits.cell_cost.is_some(), "`limits.cell_cost` is set"),
        (limits.session_cost.is_some(), "`limits.session_cost` is set"),
    ];
    let ceiling = ceilings.into_iter().find_map(|(is_set, name)| is_set.then_some(name));
    let Some(ceiling) = ceiling.filter(|_| !plan.allow_unpriced) else { return Ok(()) };
    let counted = |model: &Model| {
        let own = plan.provider(&model.provider).map(|provider| provider.base_url.as_str());
        let place = place_of(model).or(own).unwrap_or_default();
        plan.budget.is_some()
            || plan.gateway.cassette != CassetteMode::Replay
                && !tells_cost(place)
                && plan.harnesses.iter().any(|entry| plan.route(entry, model) == Route::Gateway)
    };
    // A judge always goes through the gateway; of the ceilings the budget alone is also its own.
    let judge = plan.judge.as_ref().filter(|_| plan.asks_a_judge() && plan.budget.is_some()).map(|judge| &judge.model);
    let models = plan.models.iter().filter(|model| counted(model)).chain(judge);
    let unpriced = models.into_iter().find(|model| prices.find(&model.name).is_none());
    match unpriced {
        Some(model) => Err(EngineError::Unpriced { model: model.name.clone(), ceiling }.into()),
        None => Ok(()),
    }
}

fn harnesses(parts: &Parts, plan: &RunPlan, runtime: &dyn Runtime) -> Result<Vec<Arc<dyn Harness>>, Error> {
    plan.harnesses.iter().map(|entry| harness(parts, entry, runtime)).collect()
}

fn harness(parts: &Parts, entry: &HarnessEntry, runtime: &dyn Runtime) -> Result<Arc<dyn Harness>, Error> {
    if let Some(own) = parts.harnesses.get(&entry.name) {
        return Ok(Arc::clone(own));
    }
    if entry.manifest.is_of_host() {
        let known: Vec<&str> = parts.harnesses.keys().map(String::as_str).collect();
        let message = format!(
            "this host has no harness `{}`; it has: {}; add one by `HostBuilder::harness`",
            entry.name,
            known.join(", ")
        );
        return Err(Error::new(ErrorKind::Configuration, message));
    }
    let program = parts.program.as_deref().unwrap_or(Path::new("refrain"));
    let harness =
        if runtime.is_host() { declared(entry, program)? } else { with_adapter(images::in_image(entry)?, entry)? };
    Ok(Arc::new(harness))
}

/// Makes the harness of a manifest, with its adapter where it has one.
pub(super) fn declared(entry: &HarnessEntry, program: &Path) -> Result<DeclarativeHarness, Error> {
    let harness = DeclarativeHarness::new(entry, program).map_err(|error| Error::configuration(error.to_string()))?;
    with_adapter(harness, entry)
}

fn with_adapter(harness: DeclarativeHarness, entry: &HarnessEntry) -> Result<DeclarativeHarness, Error> {
    match &entry.manifest.adapter {
        Some(text) => Ok(harness.reading_by(Arc::new(LuaReaders::new(&entry.name, text)?))),
        None => Ok(harness),
    }
}

pub(super) fn script(entry: &OrchestratorEntry) -> Result<ScriptSource, Error> {
    let manifest = &entry.manifest;
    match &manifest.origin {
        Origin::Builtin => Ok(ScriptSource::new(&manifest.runner, Arc::new(Embedded(Arc::clone(manifest))))),
        Origin::Directory(dir) => ScriptSource::from_dir(dir, &manifest.runner).map_err(|error| {
            let message = format!("orchestrator `{}` cannot be read", manifest.slug);
            Error::new(ErrorKind::Configuration, message).caused_by(error)
        }),
    }
}

/// The files of an orchestrator that is part of the program.
#[derive(Debug)]
struct Embedded(Arc<OrchestratorManifest>);

impl ScriptFiles for Embedded {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        // What is embedded can be missing, but never unreadable.
        Ok(self.0.read_file(path).ok())
    }
}

pub(super) fn keys(parts: &Parts, plan: &RunPlan) -> HashMap<String, String> {
    let judge = plan.judge.as_ref().map(|judge| &judge.model);
    let named = plan.models.iter().chain(judge).filter_map(|model| plan.key_variable(model));
    named.filter_map(|name| Some((name.to_owned(), parts.environment.get(name)?.clone()))).collect()
}

/// The secrets in the logins that sessions of a plan may get.
fn logins(plan: &RunPlan) -> Vec<(String, String)> {
    let pairs = plan.models.iter().flat_map(|model| plan.harnesses.iter().map(move |entry| (model, entry)));
    let secrets = pairs.flat_map(|(model, entry)| credentials::secrets(model, &entry.manifest.credentials));
    secrets.map(|secret| ("LOGIN".to_owned(), secret)).collect()
}

/// Takes up what an earlier host left: results that it wrote but did not store, attempts that it did not end. Those that
/// may have held a session stay under way, with their environments: the run goes on with them.
async fn take_up(
    parts: &Parts,
    plan: &RunPlan,
    (store, layout, runtime): (&Store, &Layout, &dyn Runtime),
) -> Result<(), Error> {
    let recovered = store.recover(layout, &plan.name).await?;
    for error in recovered.refused {
        tracing::warn!(%error, "a run record could not be imported");
    }
    let believed = store.believed_hosts(&plan.name, parts.clock.now()).await?;
    let mut early = store.orphaned_attempts(&plan.name, move |owner| owner.is_vouched_for(&believed)).await?;
    early.retain(|orphan| {
        let steps = AttemptState::STEPS.into_iter();
        steps.take_while(|step| *step != AttemptState::Executing).any(|step| step == orphan.state)
    });
    let mut kept = store.attempts_under_way().await?;
    kept.retain(|id| early.iter().all(|orphan| orphan.id != *id));
    let kept: Vec<_> = kept.iter().map(|id| engine::agent_environment(id, &layout.scratch(id))).collect();
    sweep(runtime, layout, &kept).await;
    for orphan in early {
        remove(&orphan.scratch);
        record_file::remove_unfinished(&layout.attempt(&orphan.id));
        // Last: a host that is killed here finds the orphan again.
        store.mark_orphaned(&orphan, parts.clock.now()).await?;
    }
    Ok(())
}

/// Removes what hosts that are dead have left, except environments of attempts under way, of whichever run.
async fn sweep(runtime: &dyn Runtime, layout: &Layout, kept: &[EnvironmentSpec]) {
    match runtime.sweep_except(&layout.scratch_root(), kept).await {
        Ok(lines) => lines.iter().for_each(|line| tracing::info!("swept: {line}")),
        Err(error) => tracing::warn!(%error, "left-overs could not be swept"),
    }
    let Ok(entries) = std::fs::read_dir(layout.scratch_root()) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| engine::is_left_over(path)) {
        if !kept.iter().any(|spec| spec.scratch.starts_with(&path)) {
            remove(&path);
        }
    }
}

fn remove(path: &Path) {
    if let Err(error) = engine::remove_scratch(path) {
        tracing::warn!(path = %path.display(), %error, "left-overs could not be removed");
    }
}

fn meta(parts: &Parts, plan: &RunPlan, owner: &Owner, images: &[Option<PreparedImage>]) -> RunMeta {
    RunMeta {
        name: plan.name.clone(),
        config_digest: blake3::hash(plan.config_json.to_string().as_bytes()).to_hex().to_string(),
        config_json: plan.config_json.clone(),
        refrain_version: env!("CARGO_PKG_VERSION").to_owned(),
        total_cells: plan.cells.len(),
        budget: plan.budget,
        image_digests: digests(plan, images),
        owner: Some(owner.clone()),
        started_at: parts.clock.now(),
    }
}

/// The images of a run and their digests: those that it names, and those that were prepared from them.
fn digests(plan: &RunPlan, images: &[Option<PreparedImage>]) -> BTreeMap<String, String> {
    let mut digests = BTreeMap::new();
    for (entry, image) in plan.harnesses.iter().zip(images) {
        let Some(image) = image else { continue };
        digests.extend(entry.image.clone().map(|name| (name, image.base.clone())));
        digests.extend(image.prepared.clone().map(|id| (image.image.clone(), id)));
    }
    digests
}

fn cannot(action: &'static str, path: &std::path::Path, source: std::io::Error) -> Error {
    EngineError::File { action, path: path.to_owned(), source }.into()
}
