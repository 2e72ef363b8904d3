//! Containers of the Docker runtime from their creation to their removal, on the real engine.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read where the daemon is")]

mod docker;

use std::sync::Arc;
use std::time::Duration;

use docker::{BUSYBOX, DEBIAN, containers, docker as command, runtime, spec};
use refrain::clock::SystemClock;
use refrain::domain::{Network, Pull};
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use refrain::runtime::{Runtime, RuntimeError};
use serde_json::Value;

#[tokio::test(flavor = "multi_thread")]
async fn a_container_has_no_more_than_it_needs() {
    let Some(runtime) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let mut spec = spec("bare", BUSYBOX, scratch.path());
    spec.env = vec![("SECRET".to_owned(), "hunter2-hunter2".to_owned())];
    spec.container.memory_bytes = Some(64 << 20);
    spec.container.cpus = Some(0.5);
    spec.container.network = Network::None;
    let env = runtime.open(spec).await.unwrap();
    assert!(env.image().is_some_and(|digest| digest.starts_with("sha256:")), "{:?}", env.image());
    assert_eq!(env.host_path(env.workspace()), None);

    let ids = containers("bare");
    assert_eq!(ids.len(), 1);
    let text = command(&["inspect", &ids[0]]);
    assert!(!text.contains("hunter2"), "a secret is in the container's description");
    let described: Value = serde_json::from_str(&text).unwrap();
    let host = &described[0]["HostConfig"];
    assert_eq!(host["CapDrop"], serde_json::json!(["ALL"]));
    assert_eq!(host["CapAdd"], Value::Null);
    assert_eq!(host["SecurityOpt"], serde_json::json!(["no-new-privileges"]));
    assert_eq!((&host["Init"], &host["Privileged"]), (&true.into(), &false.into()));
    assert_eq!((&host["PidsLimit"], &host["NanoCpus"]), (&4096.into(), &500_000_000.into()));
    assert_eq!((&host["Memory"], &host["MemorySwap"]), (&(64 << 20).into(), &(64 << 20).into()));
    assert_eq!((&host["NetworkMode"], &host["ReadonlyRootfs"]), (&"none".into(), &true.into()));
    assert_eq!(host["Binds"], Value::Null);
    let mounts = described[0]["Mounts"].as_array().unwrap();
    assert!(mounts.iter().all(|mount| mount["Type"] == "volume"), "{mounts:?}");
    let volumes: Vec<_> = mounts.iter().map(|mount| mount["Name"].as_str().unwrap().to_owned()).collect();

    env.close().await.unwrap();
    env.close().await.unwrap();
    assert_eq!(containers("bare"), Vec::<String>::new());
    let left = command(&["volume", "ls", "-q"]);
    assert!(volumes.iter().all(|name| !left.contains(name)), "volumes were left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_outlives_its_lease_only_while_its_host_gives_signs() {
    let Some(_) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let endpoint = DockerEndpoint::from_variables(|name| std::env::var(name).ok());
    let runtime = DockerRuntime::new(Arc::new(SystemClock::new()), endpoint).with_lease(Duration::from_secs(12));
    let env = runtime.open(spec("lease", BUSYBOX, scratch.path())).await.unwrap();
    let running = || command(&["inspect", "-f", "{{.State.Running}}", &containers("lease")[0]]);
    tokio::time::sleep(Duration::from_secs(16)).await;
    assert_eq!(running(), "true", "the lease was renewed");
    drop(env);
    let mut waited = 0;
    while running() == "true" {
        assert!(waited < 300, "the container outlives its host by more than its lease");
        waited += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    command(&["rm", "-fv", &containers("lease")[0]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_host_left_is_swept_and_what_a_living_one_has_is_not() {
    let Some(runtime) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let env = runtime.open(spec("sweep", BUSYBOX, scratch.path())).await.unwrap();
    let id = containers("sweep")[0].clone();
    let label = command(&["inspect", "-f", "{{index .Config.Labels \"refrain.host\"}}", &id]);
    let dead = label.replace("\"started\":", "\"started\":1");
    assert_ne!(label, dead);
    let place = format!("refrain.scratch={}/another", scratch.path().display());
    let host = format!("refrain.host={dead}");
    let labels =
        ["--label", "refrain.schema=1", "--label", "refrain.run=test-sweep", "--label", &place, "--label", &host];
    let create = [&["run", "-d"][..], &labels[..], &[BUSYBOX, "sleep", "1000"][..]].concat();
    let left = command(&create);
    assert_eq!(containers("sweep").len(), 2);

    let elsewhere = tempfile::tempdir().unwrap();
    let lines = runtime.sweep(elsewhere.path()).await.unwrap();
    assert!(containers("sweep").len() == 2, "another store's containers are its own business: {lines:?}");
    let lines = runtime.sweep(scratch.path()).await.unwrap();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("removed the container `"), "{lines:?}");
    assert_eq!(containers("sweep"), vec![id], "{left} is gone, the living host's is there");
    assert_eq!(runtime.sweep(scratch.path()).await.unwrap(), Vec::<String>::new());
    env.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_says_what_to_do() {
    let Some(runtime) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    let mut absent = spec("absent", "refrain-test/no-such-image:1", scratch.path());
    absent.container.pull = Pull::Never;
    let Err(RuntimeError::Unavailable { message, hint }) = runtime.open(absent).await else { panic!("an error") };
    assert!(message.contains("`refrain-test/no-such-image:1`"), "{message}");
    assert!(hint.contains("docker pull refrain-test/no-such-image:1"), "{hint}");
    let mut unnamed = spec("unnamed", "", scratch.path());
    unnamed.image = None;
    let Err(RuntimeError::Unavailable { hint, .. }) = runtime.open(unnamed).await else { panic!("an error") };
    assert!(hint.contains("docker_image"), "{hint}");
    assert_eq!(containers("absent"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_has_a_name_in_images_that_know_none() {
    let Some(runtime) = runtime().await else { return };
    let scratch = tempfile::tempdir().unwrap();
    for (name, image) in [("users-small", BUSYBOX), ("users-large", DEBIAN)] {
        let mut spec = spec(name, image, scratch.path());
        spec.scratch = scratch.path().join(name);
        let env = runtime.open(spec).await.unwrap();
        let id = containers(name)[0].clone();
        assert!(command(&["exec", &id, "cat", "/etc/passwd"]).contains("agent:x:1000:1000:"), "{image}");
        assert_eq!(command(&["exec", "-u", "1000:1000", &id, "sh", "-c", "touch /etc/x 2>/dev/null || echo no"]), "no");
        env.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_daemon_that_is_not_there_says_how_to_get_it() {
    let host = "unix:///nonexistent/docker.sock".to_owned();
    let runtime = DockerRuntime::new(Arc::new(SystemClock::new()), DockerEndpoint { host, tls: None });
    let Err(RuntimeError::Unavailable { message, hint }) = runtime.preflight().await else { panic!("an error") };
    assert!(message.contains("unix:///nonexistent/docker.sock"), "{message}");
    assert!(hint.contains("dockerd") && hint.contains("DOCKER_HOST") && hint.contains("runtime: local"), "{hint}");
    let host = "tcp://127.0.0.1:1".to_owned();
    let runtime = DockerRuntime::new(Arc::new(SystemClock::new()), DockerEndpoint { host, tls: None });
    let Err(RuntimeError::Unavailable { message, hint }) = runtime.preflight().await else { panic!("an error") };
    assert!(message.contains("127.0.0.1:1"), "{message}");
    assert!(hint.contains("DOCKER_TLS_VERIFY"), "{hint}");
}
