//! Harnesses that a host brings, named by run files.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use refrain::config::{LoadOptions, load};
use refrain::harness::{AgentEvent, Harness, HarnessError, Outcome, OutputReader, Prepared, Reading, SessionRequest};
use refrain::host::{ErrorKind, Host};
use refrain::runtime::{Command, Stream};

/// An agent that greets the world.
struct Greeter;

impl Harness for Greeter {
    fn name(&self) -> &'static str {
        "greeter"
    }

    fn probe(&self) -> Option<Command> {
        None
    }

    fn can_resume(&self) -> bool {
        false
    }

    fn prepare(&self, _: &SessionRequest) -> Result<Prepared, HarnessError> {
        Ok(Prepared { command: Command::shell("echo 'echo hello world' > greet.sh; echo done"), ..Prepared::default() })
    }

    fn reader(&self) -> Box<dyn OutputReader> {
        Box::new(Done(false))
    }
}

/// Waits for any line.
struct Done(bool);

impl OutputReader for Done {
    fn line(&mut self, _: Stream, _: &[u8], _: &mut Vec<AgentEvent>) {
        self.0 = true;
    }

    fn finish(self: Box<Self>, _: Option<i32>) -> Reading {
        let outcome = Some(if self.0 { Outcome::Completed } else { Outcome::Failed("silence".to_owned()) });
        Reading { started: true, outcome, ..Reading::default() }
    }
}

/// Writes a project with one task and a run with this harness.
fn project(dir: &Path, harness: &str) -> PathBuf {
    let run = format!(
        "name: demo\nharnesses: [{harness}]\nmodels: [{{name: none}}]\norchestrators: [one-shot]\ntasks: [greeting]\n\
         repeats: 1\nruntime: local\n"
    );
    for (name, content) in [
        ("tasks/greeting/repo/greet.sh", "echo hello\n"),
        ("tasks/greeting/tests/hidden.sh", "test \"$(sh greet.sh)\" = 'hello world'\n"),
        (
            "tasks/greeting/task.yaml",
            "id: greeting\nname: Greet\ntask_prompt: Greet the world.\ntest_command: sh hidden.sh\ntimeout_seconds: 30\n",
        ),
        ("runs/demo.yaml", run.as_str()),
    ] {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    dir.join("runs/demo.yaml")
}

fn host() -> Host {
    Host::builder().environment(std::env::vars()).harness(Arc::new(Greeter)).build()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_file_names_a_harness_that_only_the_host_has() {
    let dir = tempfile::tempdir().unwrap();
    let options = LoadOptions::new(project(dir.path(), "{name: greeter}"));
    let error = load(options.clone()).unwrap_err().to_string();
    assert!(error.contains("there is no harness `greeter`"), "{error}");

    let (plan, _) = host().load(options).unwrap();
    let stranger =
        Host::builder().build().prepare(plan.clone(), Vec::new()).await.err().expect("it has no such harness");
    assert_eq!(stranger.kind(), ErrorKind::Configuration);
    assert!(stranger.to_string().contains("this host has no harness `greeter`"), "{stranger}");

    let summary = host().prepare(plan, Vec::new()).await.unwrap().execute().await.unwrap();
    assert_eq!((summary.passed, summary.total), (1, 1), "{summary:?}");
}

#[test]
fn it_goes_by_its_own_name() {
    let dir = tempfile::tempdir().unwrap();
    let options = LoadOptions::new(project(dir.path(), "{name: mine, adapter: greeter}"));
    let error = host().load(options).unwrap_err().to_string();
    assert!(error.contains("harness `greeter` is the host's, and goes by its own name"), "{error}");
}
