//! One environment on the local runtime, and sessions of real processes in it.

#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use refrain::clock::SystemClock;
use refrain::config::harness_manifest::HarnessManifest;
use refrain::config::plan::HarnessEntry;
use refrain::domain::cell::CellId;
use refrain::domain::model::AuthMode;
use refrain::domain::{AttemptId, ContainerOptions, CostMode, Model, ModelRole, RunName};
use refrain::harness::declarative::DeclarativeHarness;
use refrain::harness::session::{SessionOptions, SessionResult, run};
use refrain::harness::{AgentEvent, HarnessError, SessionRequest};
use refrain::runtime::local::LocalRuntime;
use refrain::runtime::{Environment, EnvironmentSpec, Runtime};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An environment, and how sessions are held in it.
pub(crate) struct Bed {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) env: Box<dyn Environment>,
    pub(crate) options: SessionOptions,
    pub(crate) request: SessionRequest,
    pub(crate) stop: CancellationToken,
}

impl Bed {
    /// Opens an environment.
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(SystemClock::new());
        let spec = EnvironmentSpec {
            attempt: AttemptId {
                run: RunName::new("test").unwrap(),
                cell: CellId::from_stored("h__m__t__r1"),
                number: 1,
            },
            purpose: "agent",
            scratch: dir.path().join("scratch"),
            env: Vec::new(),
            image: None,
            container: ContainerOptions::default(),
            gateway: None,
        };
        let env = LocalRuntime::new(clock.clone()).open(spec).await.unwrap();
        let request = SessionRequest {
            prompt: "fix `it`, {please}\n".to_owned(),
            model: Model {
                name: "m".to_owned(),
                provider: "p".to_owned(),
                api_key_env: None,
                role: ModelRole::Implementation,
                cost_mode: CostMode::Platform,
                auth_mode: AuthMode::ApiKey,
                credentials_path: None,
                config: serde_json::Map::new(),
            },
            task: "t".to_owned(),
            phase: None,
            label: None,
            index: 1,
            resume: None,
            workspace: env.workspace().to_owned(),
            home: env.home().to_owned(),
            session_dir: env.home().join(".refrain/session-1"),
            max_cost: None,
            base_url: None,
            api_key: None,
        };
        let mut options = SessionOptions::new(dir.path().join("log"), clock);
        options.limits.grace = Some(Duration::from_millis(200));
        Self { dir, env, options, request, stop: CancellationToken::new() }
    }

    /// Holds a session.
    pub(crate) async fn run_with(
        &self,
        harness: &DeclarativeHarness,
        live: Option<mpsc::Sender<AgentEvent>>,
    ) -> Result<SessionResult, HarnessError> {
        run(&*self.env, harness, &self.request, &self.options, live, &self.stop).await
    }

    /// Ends the environment.
    pub(crate) async fn close(self) {
        self.env.close().await.unwrap();
    }
}

/// A harness that prints JSON lines, keeps a file of each session, and may log in.
const KEEPING: &str = r#"
name = "keeping"
credentials = [".keeping/auth.json"]
[run]
argv = ["sh", "-c", "{config.line}"]
prompt = "stdin"
[config.line]
type = "text"
[output]
format = "json-lines"
[[output.rule]]
when = { type = "start" }
is = "session_id"
text = "id"
[[output.rule]]
when = { type = "say" }
is = "message"
text = "text"
[[output.rule]]
when = { type = "end" }
is = "completed"
[output.file]
path = "{home}/.keeping/*/{resume}.jsonl"
[[output.file.rule]]
when = { type = "resumed" }
is = "restart"
[[output.file.rule]]
when = { type = "answer" }
usage = { input = "in", output = "out" }
usage_mode = "sum"
"#;

/// Makes the harness whose sessions are this shell line.
pub(crate) fn keeping(line: &str) -> DeclarativeHarness {
    keeping_with(line, "stdin")
}

/// The same with a way for the prompt to get in.
pub(crate) fn keeping_with(line: &str, prompt: &str) -> DeclarativeHarness {
    let dir = tempfile::tempdir().unwrap();
    let manifest = KEEPING.replace("prompt = \"stdin\"", &format!("prompt = \"{prompt}\""));
    let manifest = match prompt {
        "argument" => manifest.replace("\"{config.line}\"]", "\"{config.line}\", \"sh\", \"{prompt}\"]"),
        _ => manifest,
    };
    fs::write(dir.path().join("harness.toml"), manifest).unwrap();
    let manifest = HarnessManifest::from_dir(dir.path()).unwrap();
    let entry = HarnessEntry {
        name: "keeping".to_owned(),
        manifest: Arc::new(manifest),
        version: None,
        image: None,
        observability_tier: "full".to_owned(),
        config: json!({"line": line}).as_object().unwrap().clone(),
    };
    DeclarativeHarness::new(&entry, Path::new("refrain")).unwrap()
}
