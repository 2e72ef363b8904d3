//! How a host is put together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::Error;
use super::run::Run;
use crate::budget::PriceTable;
use crate::clock::{Clock, SystemClock};
use crate::config::{self, ConfigError, LoadOptions, RunPlan, Warnings};
use crate::evaluator::Evaluator;
use crate::harness::Harness;
use crate::report::Reporter;
use crate::runtime::Runtime;
#[cfg(feature = "docker")]
use crate::runtime::docker::{DockerEndpoint, DockerRuntime};
use crate::runtime::local::LocalRuntime;

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
}

/// Builds a [`Host`]. Everything has a default; nothing is read from the process's environment.
pub struct HostBuilder {
    clock: Arc<dyn Clock>,
    environment: BTreeMap<String, String>,
    program: Option<PathBuf>,
    runtimes: BTreeMap<String, Arc<dyn Runtime>>,
    harnesses: BTreeMap<String, Arc<dyn Harness>>,
    evaluator: Option<Arc<dyn Evaluator>>,
    prices: Option<PriceTable>,
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

    /// Makes a run of a plan: opens the store, checks the runtime, resolves every name.
    ///
    /// # Errors
    ///
    /// An [`Error`] whose kind says whether configuration, runtime or store is at fault. Nothing has been run then.
    pub async fn prepare(&self, plan: RunPlan, reporters: Vec<Box<dyn Reporter>>) -> Result<Run, Error> {
        super::assemble::run(&self.parts, plan, reporters).await
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

    /// Says where the `refrain` program is; the built-in `scripted` harness starts it as its agent.
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
            Arc::new(DockerRuntime::new(Arc::clone(&self.clock), endpoint)) as Arc<dyn Runtime>
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
            }),
        }
    }
}
