//! Commands in containers on a real daemon: the conformance suite, and everything that can happen to a stream, a log, a
//! process or a container meanwhile.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a test that is skipped says so")]

#[path = "../docker/mod.rs"]
mod docker;
mod ends;
mod faults;
mod output;
mod proxy;

use std::path::PathBuf;

use docker::{BUSYBOX, DEBIAN, With, runtime, spec};
use refrain::domain::ContainerOptions;
use refrain::runtime::conformance::check;
use refrain::runtime::docker::DockerRuntime;
use refrain::runtime::{Command, Environment, EnvironmentSpec, ExecReport, Output, Runtime, RuntimeError};
use tokio_util::sync::CancellationToken;

/// An open container with a folder on the host.
struct Place {
    env: Box<dyn Environment>,
    dir: tempfile::TempDir,
    name: String,
}

impl Place {
    /// Opens one, named for its test; `None` where no daemon answers.
    async fn open(name: &str, image: &str, container: ContainerOptions) -> Option<Self> {
        Some(Self::open_with(&runtime().await?, name, image, container).await)
    }

    async fn open_with(runtime: &DockerRuntime, name: &str, image: &str, container: ContainerOptions) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let spec = EnvironmentSpec { container, ..spec(name, image, dir.path()) };
        let env = runtime.open(spec).await.expect("opens");
        Self { env, dir, name: name.to_owned() }
    }

    /// The container's id.
    fn id(&self) -> String {
        docker::containers(&self.name).pop().expect("a container")
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn try_capture(&self, command: &Command) -> Result<ExecReport, RuntimeError> {
        self.env.exec(command, Output::capture(), &CancellationToken::new()).await
    }

    async fn capture(&self, command: &Command) -> ExecReport {
        self.try_capture(command).await.expect("runs")
    }

    async fn try_spool(&self, command: &Command) -> Result<ExecReport, RuntimeError> {
        let output = Output::Spool { stdout: self.log("out"), stderr: self.log("err"), live: None };
        self.env.exec(command, output, &CancellationToken::new()).await
    }

    /// Runs a command with its output in files; returns the report and the files.
    async fn spool(&self, command: &Command) -> (ExecReport, Vec<u8>, Vec<u8>) {
        let report = self.try_spool(command).await.expect("runs");
        let read = |name: &str| std::fs::read(self.log(name)).expect("a file");
        (report, read("out"), read("err"))
    }

    async fn says(&self, script: &str) -> String {
        text(&self.capture(&Command::shell(script)).await.stdout.bytes)
    }

    async fn close(self) {
        self.env.close().await.expect("closes");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

async fn conforms(image: &'static str) {
    let Some(runtime) = runtime().await else { return };
    let dir = tempfile::tempdir().expect("a folder");
    assert_eq!(check(&With(runtime, image), dir.path()).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_docker_runtime_conforms_with_a_bare_image() {
    conforms(BUSYBOX).await;
}

#[tokio::test]
async fn the_docker_runtime_conforms_with_an_ordinary_image() {
    conforms(DEBIAN).await;
}

/// A shell that reads its script bytewise, says other things of signals than its sisters, and refuses some variables.
#[tokio::test]
async fn the_docker_runtime_conforms_where_sh_is_bash() {
    const IMAGE: &str = "refrain-test/debian-bash:1";
    if runtime().await.is_none() {
        return;
    }
    if docker::docker(&["images", "-q", IMAGE]).is_empty() {
        let container = format!("refrain-test-bash-{}", std::process::id());
        docker::docker(&["run", "--name", &container, "--network", "none", DEBIAN, "ln", "-sf", "bash", "/bin/sh"]);
        docker::docker(&["commit", &container, IMAGE]);
        docker::docker(&["rm", &container]);
    }
    let place = Place::open("bash", IMAGE, ContainerOptions::default()).await.expect("a daemon");
    let mut command = Command::shell("printf '%s %s' \"${BASH_VERSION%%.*}\" \"$NORMAL\"; kill -HUP $$");
    command.env = vec![("UID".to_owned(), "7".to_owned()), ("NORMAL".to_owned(), "set".to_owned())];
    let report = place.capture(&command).await;
    assert_eq!(text(&report.stdout.bytes), "5 set");
    assert_eq!(report.signal, Some(1));
    place.close().await;
    conforms(IMAGE).await;
}
