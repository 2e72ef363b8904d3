//! How a host is put together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::Error;
use super::images::ReadyHarness;
use super::run::Run;
use crate::budget::PriceTable;
use crate::clock::{Clock, SystemClock};
use crate::config::{self, ConfigError, LoadOptions, RunPlan, Warnings};
use crate::engine::CancelHandle;
use crate::evaluator::Evaluator;
use crate::harness::Harness;
use crate::report::Reporter;
#[cfg(feature = "docker")]
use crate::runtime::docker::{DockerEndpoint, DockerRuntime};
use crate::runtime::local::LocalRuntime;
use crate::runtime::{Runtime, RuntimeError};
use crate::store::Layout;

/// Runs plans. Cheap to clone; one host can run several plans at once.
#[derive(Clone)]
pub struct Host {
    pub(super) parts: Arc<Parts>,
}

/// What a host is made of.
pub(super) struct Parts {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) program: Option<PathBuf>,
    pub(super) runtimes: BTreeMap<String, Arc<dyn Runtime>>,
    pub(super) harnesses: BTreeMap<String, Arc<dyn Harness>>,
    pub(super) evaluator: Option<Arc<dyn Evaluator>>,
    pub(super) prices: Option<PriceTable>,
    pub(super) notice: Option<Notice>,
}

/// Hears what takes a while before the first cell.
pub(super) type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// Builds a [`Host`]. Everything has a default; nothing is read from the process's environment.
pub struct HostBuilder {
    clock: Arc<dyn Clock>,
    environment: BTreeMap<String, String>,
    program: Option<PathBuf>,
    runtimes: BTreeMap<String, Arc<dyn Runtime>>,
    harnesses: BTreeMap<String, Arc<dyn Harness>>,
    evaluator: Option<Arc<dyn Evaluator>>,
    prices: Option<PriceTable>,
    notice: Option<Notice>,
}

impl Host {
    /// Starts a builder.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder {
            clock: Arc::new(SystemClock::new()),
            environment: BTreeMap::new(),
            program: None,
            runtimes: BTreeMap::new(),
            harnesses: BTreeMap::new(),
            evaluator: None,
            prices: None,
            notice: None,
        }
    }

    /// Loads a run file that may name this host's own harnesses.
    ///
    /// # Errors
    ///
    /// Like [`config::load`].
    pub fn load(&self, mut options: LoadOptions) -> Result<(RunPlan, Warnings), ConfigError> {
        options.host_harnesses.extend(self.parts.harnesses.keys().cloned());
        config::load(options)
    }

    /// Makes a run of a plan: checks the runtime, makes images ready, opens the store, resolves every name.
    ///
    /// # Errors
    ///
    /// An [`Error`] whose kind says whether configuration, runtime or store is at fault. Nothing has been run then.
    pub async fn prepare(&self, plan: RunPlan, reporters: Vec<Box<dyn Reporter>>) -> Result<Run, Error> {
        self.prepare_with(plan, reporters, CancelHandle::new()).await
    }

    /// Does what [`Host::prepare`] does, with a handle that can cancel it already meanwhile, and the run later.
    ///
    /// # Errors
    ///
    /// As for [`Host::prepare`]; [`super::ErrorKind::Cancelled`] where it was cancelled.
    pub async fn prepare_with(
        &self,
        plan: RunPlan,
        reporters: Vec<Box<dyn Reporter>>,
        cancel: CancelHandle,
    ) -> Result<Run, Error> {
        super::assemble::run(&self.parts, plan, reporters, cancel).await
    }

    /// Makes ready what a plan's cells need (images, with their harnesses installed) and runs nothing.
    ///
    /// # Errors
    ///
    /// An [`Error`] whose kind says whether configuration or runtime is at fault.
    pub async fn make_ready(&self, plan: &RunPlan, cancel: &CancelHandle) -> Result<Vec<ReadyHarness>, Error> {
        super::assemble::make_ready(&self.parts, plan, cancel).await
    }

    /// Removes what hosts that are dead have left below a state folder (`.refrain`), on every runtime that answers.
    /// Returns what was done, by runtime: a line for each thing, or why the runtime could not be asked.
    pub async fn sweep(&self, state_dir: &Path) -> BTreeMap<String, Result<Vec<String>, RuntimeError>> {
        let root = Layout::new(state_dir).scratch_root();
        let mut all = BTreeMap::new();
        for (name, runtime) in &self.parts.runtimes {
            all.insert(name.clone(), runtime.sweep(&root).await);
        }
        all
    }
}

impl HostBuilder {
    /// Gives the variables of the outside world: `PATH` for local environments, and the keys that models name. Only
    /// named variables ever reach an environment.
    #[must_use]
    pub fn environment(mut self, variables: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment.extend(variables);
        self
    }

    /// Says where the `refrain` program is: the built-in `scripted` harness starts it as its agent, and containers of
    /// `network: gateway-only` reach the gateway by it.
    #[must_use]
    pub fn program(mut self, path: PathBuf) -> Self {
        self.program = Some(path);
        self
    }

    /// Adds a runtime under the name that [`Runtime::name`] returns; replaces a built-in of that name.
    #[must_use]
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtimes.insert(runtime.name().to_owned(), runtime);
        self
    }

    /// Uses `harness` wherever a plan declares a harness of its name. A run file can name one that is no built-in and has
    /// no folder where it is loaded by [`Host::load`].
    #[must_use]
    pub fn harness(mut self, harness: Arc<dyn Harness>) -> Self {
        self.harnesses.insert(harness.name().to_owned(), harness);
        self
    }

    /// Judges final trees with `evaluator` instead of hidden tests and a test command.
    #[must_use]
    pub fn evaluator(mut self, evaluator: Arc<dyn Evaluator>) -> Self {
        self.evaluator = Some(evaluator);
        self
    }

    /// Takes time from `clock`.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Prices tokens by `prices` instead of the table that comes with Refrain.
    #[must_use]
    pub fn prices(mut self, prices: PriceTable) -> Self {
        self.prices = Some(prices);
        self
    }

    /// Tells `hear` what takes a while before the first cell: images that are pulled, harnesses that are installed.
    #[must_use]
    pub fn notice(mut self, hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.notice = Some(Arc::new(hear));
        self
    }

    /// Builds the host.
    #[must_use]
    pub fn build(self) -> Host {
        let path = self.environment.get("PATH").cloned().unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned());
        let mut runtimes = self.runtimes;
        runtimes.entry("local".to_owned()).or_insert_with(|| {
            Arc::new(LocalRuntime::new(Arc::clone(&self.clock)).with_path(path)) as Arc<dyn Runtime>
        });
        #[cfg(feature = "docker")]
        runtimes.entry("docker".to_owned()).or_insert_with(|| {
            let endpoint = DockerEndpoint::from_variables(|name| self.environment.get(name).cloned());
            let runtime = DockerRuntime::new(Arc::clone(&self.clock), endpoint);
            let runtime = match &self.program {
                Some(program) => runtime.with_relay(program.clone()),
                None => runtime,
            };
            Arc::new(runtime) as Arc<dyn Runtime>
        });
        Host {
            parts: Arc::new(Parts {
                clock: self.clock,
                environment: self.environment,
                program: self.program,
                runtimes,
                harnesses: self.harnesses,
                evaluator: self.evaluator,
                prices: self.prices,
                notice: self.notice,
            }),
        }
    }
}
