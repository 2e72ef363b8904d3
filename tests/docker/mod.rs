//! What the tests of the Docker runtime share: the rule when they are skipped, and the images they run in.

#![allow(dead_code, unreachable_pub, reason = "each test program uses a part")]
#![allow(clippy::disallowed_methods, reason = "tests read where the daemon is")]
#![allow(clippy::print_stdout, reason = "what failed is told with the test")]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use refrain::clock::SystemClock;
use refrain::domain::cell::CellId;
use refrain::domain::{AttemptId, ContainerOptions, RunName};
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use refrain::runtime::{Environment, EnvironmentSpec, Runtime, RuntimeError, RuntimeInfo};

/// A shell, its small tools, a line for root in its table of users, and nothing else.
pub const BUSYBOX: &str = "refrain-test/busybox:1";
/// A small Debian with bash, dash, git, python3 and pytest.
pub const DEBIAN: &str = "refrain-test/debian:1";

/// Returns a runtime, or `None` where no daemon answers: the caller then returns. With `REFRAIN_REQUIRE_DOCKER` set a
/// missing daemon fails the test instead.
pub async fn runtime() -> Option<DockerRuntime> {
    let runtime = unchecked();
    match runtime.preflight().await {
        Ok(_) => Some(runtime),
        Err(error) => {
            assert!(std::env::var_os("REFRAIN_REQUIRE_DOCKER").is_none(), "Docker is required: {error}");
            // Past what the test harness keeps to itself: a skipped test shows as one that passed.
            let _ = writeln!(std::io::stderr(), "skipped: no Docker daemon");
            None
        }
    }
}

/// Returns a runtime, whether a daemon answers or not.
pub fn unchecked() -> DockerRuntime {
    let endpoint = DockerEndpoint::from_variables(|name| std::env::var(name).ok());
    DockerRuntime::new(Arc::new(SystemClock::new()), endpoint)
}

/// The runtime with an image for those who name none.
pub struct With(pub DockerRuntime, pub &'static str);

#[async_trait]
impl Runtime for With {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    async fn preflight(&self) -> Result<RuntimeInfo, RuntimeError> {
        self.0.preflight().await
    }

    async fn open(&self, spec: EnvironmentSpec) -> Result<Box<dyn Environment>, RuntimeError> {
        self.0.open(EnvironmentSpec { image: Some(self.1.to_owned()), ..spec }).await
    }

    async fn sweep(&self, root: &Path) -> Result<Vec<String>, RuntimeError> {
        self.0.sweep(root).await
    }

    async fn reattach(&self, spec: &EnvironmentSpec) -> Result<Option<Box<dyn Environment>>, RuntimeError> {
        self.0.reattach(spec).await
    }

    async fn sweep_except(&self, root: &Path, kept: &[EnvironmentSpec]) -> Result<Vec<String>, RuntimeError> {
        self.0.sweep_except(root, kept).await
    }
}

/// An environment's description for a test named `name`.
pub fn spec(name: &str, image: &str, scratch: &Path) -> EnvironmentSpec {
    let run = RunName::new(format!("test-{name}")).expect("a valid name");
    EnvironmentSpec {
        attempt: AttemptId { run, cell: CellId::from_stored("harness__model__task__r1"), number: 1 },
        purpose: "agent",
        scratch: scratch.join("environment"),
        env: Vec::new(),
        image: Some(image.to_owned()),
        container: ContainerOptions::default(),
        gateway: None,
    }
}

/// Runs the `docker` command and returns what it printed.
pub fn docker(args: &[&str]) -> String {
    let output = std::process::Command::new("docker").args(args).output().expect("the docker command runs");
    if !output.stderr.is_empty() {
        println!("docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Returns the ids of the containers of a test.
pub fn containers(name: &str) -> Vec<String> {
    let filter = format!("label=refrain.run=test-{name}");
    docker(&["ps", "-aq", "--filter", &filter]).lines().map(str::to_owned).collect()
}
