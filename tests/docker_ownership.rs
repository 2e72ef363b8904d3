//! Whose a container is: taken over within its lease, and out of the reach of everybody else.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod docker;

use std::fs;
use std::path::Path;
use std::time::Duration;

use docker::{BUSYBOX, containers, docker as command, runtime, spec, unchecked};
use refrain::runtime::{Command, Output, Runtime};
use tokio_util::sync::CancellationToken;

/// Makes the host of a container another one that is gone: same number, another start.
fn bury(folder: &Path) {
    let path = folder.join("container.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, text.replace("\"started\":", "\"started\":9")).unwrap();
}

fn runs(id: &str) -> bool {
    command(&["inspect", "-f", "{{.State.Running}}", id]) == "true"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_taken_over_has_its_whole_lease_again() {
    let Some(_) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let leased = || unchecked().with_lease(Duration::from_secs(6));
    let spec = spec("taken-over", BUSYBOX, scratch.path());
    drop(leased().open(spec.clone()).await.unwrap());
    bury(&spec.scratch);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let taken = leased().reattach(&spec).await.unwrap().expect("it still runs");
    let id = containers("taken-over");
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(runs(&id[0]), "the new host gives signs");
    let report = taken.exec(&Command::new(["true"]), Output::capture(), &CancellationToken::new()).await;
    assert!(report.unwrap().success());
    // The labels still name this process, which lives, as the first host; that the folder counts shows once it says else.
    command(&["kill", &id[0]]);
    let elsewhere = tempfile::tempdir().unwrap();
    unchecked().sweep(elsewhere.path()).await.unwrap();
    assert_eq!(containers("taken-over"), id);
    bury(&spec.scratch);
    unchecked().sweep(elsewhere.path()).await.unwrap();
    assert_eq!(containers("taken-over"), Vec::<String>::new());
    taken.close().await.unwrap();
    assert!(!spec.scratch.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_host_before_had_asked_for_is_not_begun_any_more() {
    let Some(runtime) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let spec = spec("fenced", BUSYBOX, scratch.path());
    let before = runtime.open(spec.clone()).await.unwrap();
    let run = |script: &str| (Command::shell(script), Output::capture(), CancellationToken::new());
    let (make, output, stop) = run("echo early > early");
    assert!(before.exec(&make, output, &stop).await.unwrap().success());
    bury(&spec.scratch);
    let taken = runtime.reattach(&spec).await.unwrap().expect("it runs");
    let (make, output, stop) = run("echo late > late");
    let late = before.exec(&make, output, &stop).await;
    assert!(late.as_ref().is_ok_and(|report| !report.success()), "{late:?}");
    let (list, output, stop) = run("ls");
    assert_eq!(taken.exec(&list, output, &stop).await.unwrap().stdout.bytes, b"early\n");
    assert!(before.quiesce().await.is_err(), "it ends nothing of its successor's either");
    taken.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_has_run_out_leaves_nothing_to_take_over() {
    let Some(_) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let spec = spec("run-out", BUSYBOX, scratch.path());
    drop(unchecked().with_lease(Duration::from_secs(1)).open(spec.clone()).await.unwrap());
    bury(&spec.scratch);
    let id = containers("run-out");
    for _ in 0..300 {
        if !runs(&id[0]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(unchecked().reattach(&spec).await.unwrap().is_none());
    assert_eq!((containers("run-out"), spec.scratch.exists()), (Vec::new(), false), "what is left is removed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_claims_a_container_of_others_does_nothing_to_it() {
    let Some(runtime) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let spec = spec("claimed", BUSYBOX, scratch.path());
    let env = runtime.open(spec.clone()).await.unwrap();
    let id = containers("claimed");
    let plant = || {
        let planted = scratch.path().join("planted");
        fs::create_dir(&planted).unwrap();
        for name in ["container.json", "container.lock"] {
            fs::copy(spec.scratch.join(name), planted.join(name)).unwrap();
        }
        bury(&planted);
        planted
    };
    let mut other = spec.clone();
    other.scratch = plant();
    runtime.sweep(scratch.path()).await.unwrap();
    assert!(!other.scratch.exists());
    plant();
    assert!(runtime.reattach(&other).await.unwrap().is_none());
    assert!(runs(&id[0]));
    env.close().await.unwrap();
}
