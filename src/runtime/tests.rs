//! Both runtimes obey the suite.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::conformance::check;
use super::fake::{Answer, FakeRuntime};
use super::local::LocalRuntime;
use super::{Command, Output, Runtime, RuntimeError};
use crate::clock::SystemClock;
use crate::domain::ContainerOptions;

#[tokio::test]
async fn the_local_runtime_conforms() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = LocalRuntime::new(Arc::new(SystemClock::new()));
    assert_eq!(check(&runtime, dir.path()).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_fake_conforms_where_it_is_not_told_otherwise() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = FakeRuntime::new(Arc::new(SystemClock::new()));
    assert_eq!(check(&runtime, dir.path()).await, Vec::<String>::new());
}

#[tokio::test]
async fn the_suite_notices_a_runtime_that_lies() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = FakeRuntime::new(Arc::new(SystemClock::new()))
        .answering(|command| command.argv.contains(&"exit 3".to_owned()).then(|| Ok(Answer::exit(0))));
    let broken = check(&runtime, dir.path()).await;
    assert_eq!(broken.len(), 1, "{broken:?}");
    assert!(broken[0].starts_with("an end is reported as it was"), "{}", broken[0]);
}

#[tokio::test]
async fn a_fake_answers_writes_and_fails_as_told() {
    let dir = tempfile::tempdir().expect("a folder");
    let runtime = FakeRuntime::new(Arc::new(SystemClock::new())).answering(|command| match command.argv[0].as_str() {
        "agent" => Some(Ok(Answer::exit(2).printing("said").writing("made/file", "content"))),
        "lost" => Some(Err(RuntimeError::Lost("gone".to_owned()))),
        "slow" => Some(Ok(Answer::exit(0).taking(Duration::from_secs(600)))),
        _ => None,
    });
    let spec = || super::EnvironmentSpec {
        attempt: crate::domain::AttemptId {
            run: crate::domain::RunName::new("r").expect("a name"),
            cell: crate::domain::CellId::from_stored("c"),
            number: 1,
        },
        purpose: "agent",
        scratch: dir.path().join("scratch"),
        env: Vec::new(),
        image: None,
        container: ContainerOptions::default(),
        gateway: None,
    };
    runtime.fail_open(RuntimeError::Lost("first try".to_owned()));
    assert!(runtime.open(spec()).await.is_err());
    let env = runtime.open(spec()).await.expect("opens");
    let stop = CancellationToken::new();
    let report = env.exec(&Command::new(["agent"]), Output::capture(), &stop).await.expect("answers");
    assert_eq!((report.exit_code, report.stdout.bytes), (Some(2), b"said".to_vec()));
    assert_eq!(std::fs::read(env.workspace().join("made/file")).expect("written"), b"content");
    assert!(env.exec(&Command::new(["lost"]), Output::capture(), &stop).await.is_err());
    stop.cancel();
    let report = env.exec(&Command::new(["slow"]), Output::capture(), &stop).await.expect("answers");
    assert_eq!(report.end, super::ExecEnd::Stopped);
    assert_eq!(runtime.asked().len(), 3);
    env.close().await.expect("closes");
}
