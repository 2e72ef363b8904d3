//! Environments whose host is killed: every runtime takes them up by the same rules.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a child process is told by a variable what it is to leave")]

#[cfg(feature = "docker")]
mod docker;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use refrain::clock::SystemClock;
use refrain::runtime::Runtime;
use refrain::runtime::conformance::{check_left, leave};
use refrain::runtime::fake::FakeRuntime;
use refrain::runtime::local::LocalRuntime;

/// Tells the child which runtime leaves an environment, and where.
const CHILD: &str = "REFRAIN_TEST_REATTACH";

fn by_name(name: &str) -> Box<dyn Runtime> {
    let clock = Arc::new(SystemClock::new());
    match name {
        "local" => Box::new(LocalRuntime::new(clock)),
        "fake" => Box::new(FakeRuntime::new(clock)),
        #[cfg(feature = "docker")]
        name => {
            let image = if name == "docker-busybox" { docker::BUSYBOX } else { docker::DEBIAN };
            Box::new(docker::With(docker::unchecked(), image))
        }
        #[cfg(not(feature = "docker"))]
        name => panic!("no runtime `{name}`"),
    }
}

/// The host that is killed.
#[tokio::test]
#[ignore = "only runs as a child"]
async fn child_leaves_an_environment() {
    let told = std::env::var(CHILD).expect("told by the parent");
    let (name, scratch) = told.split_once(' ').expect("two words");
    let left = leave(&*by_name(name), Path::new(scratch), || eprintln!("ready")).await;
    panic!("it was to be killed: {left:?}");
}

async fn goes_on(name: &str) {
    let dir = tempfile::tempdir().expect("a folder");
    let scratch: PathBuf = dir.path().canonicalize().expect("a path");
    let mut child = Command::new(std::env::current_exe().expect("known"))
        .args(["child_leaves_an_environment", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env(CHILD, format!("{name} {}", scratch.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("spawned");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let said: Vec<String> = lines.map_while(Result::ok).take_while(|line| line != "ready").collect();
    assert!(child.try_wait().expect("asked").is_none(), "it failed: {said:?}");
    child.kill().expect("killed");
    child.wait().expect("ends");
    assert_eq!(check_left(&*by_name(name), &scratch).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_local_runtime_conforms() {
    goes_on("local").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fake_conforms() {
    goes_on("fake").await;
}

#[cfg(feature = "docker")]
#[tokio::test(flavor = "multi_thread")]
async fn the_docker_runtime_conforms() {
    if docker::runtime().await.is_none() {
        return;
    }
    for name in ["docker-busybox", "docker-debian"] {
        goes_on(name).await;
    }
}
