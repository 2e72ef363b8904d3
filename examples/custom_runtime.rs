//! A runtime of one's own, checked by the suite that Refrain's own runtimes pass: local environments whose commands all
//! see a variable more.
//!
//! `cargo run --features test-util --example custom_runtime`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use refrain::clock::SystemClock;
use refrain::runtime::local::LocalRuntime;
use refrain::runtime::{Environment, EnvironmentSpec, Runtime, RuntimeError, RuntimeInfo};
use refrain::testing::conformance;

/// Run files name it by `runtime: team` once a host has it: `Host::builder().runtime(Arc::new(team))`.
struct Team(LocalRuntime);

#[async_trait]
impl Runtime for Team {
    fn name(&self) -> &'static str {
        "team"
    }

    async fn preflight(&self) -> Result<RuntimeInfo, RuntimeError> {
        let info = self.0.preflight().await?;
        Ok(RuntimeInfo { version: format!("team over {}", info.version), ..info })
    }

    async fn open(&self, mut spec: EnvironmentSpec) -> Result<Box<dyn Environment>, RuntimeError> {
        spec.env.push(("TEAM".to_owned(), "evaluation".to_owned()));
        // A runtime that does more than this returns an `Environment` of its own.
        self.0.open(spec).await
    }

    async fn sweep(&self, root: &Path) -> Result<Vec<String>, RuntimeError> {
        self.0.sweep(root).await
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Team(LocalRuntime::new(Arc::new(SystemClock::new())));
    let scratch = tempfile::tempdir()?;
    let tokio = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    // Some ten seconds: several rules are about time. Each line names a rule and how it is broken.
    let broken = tokio.block_on(conformance::check(&runtime, scratch.path()));
    if broken.is_empty() {
        println!("`{}` does what a runtime must do", runtime.name());
        return Ok(());
    }
    Err(broken.join("\n").into())
}
