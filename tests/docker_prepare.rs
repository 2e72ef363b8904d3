//! Images with a harness installed, on the real engine.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests wait for real processes")]

mod docker;

use std::sync::Mutex;
use std::time::Duration;

use docker::{BUSYBOX, docker as command, runtime, spec};
use refrain::domain::{ContainerOptions, Pull};
use refrain::runtime::docker::DockerRuntime;
use refrain::runtime::{Install, InstallFault, PrepareRequest, PreparedImage, Runtime, RuntimeError};
use tokio_util::sync::CancellationToken;

/// What is installed changes with every run of the tests, so that nothing of an earlier one is found.
fn unique() -> String {
    format!("{}-{:?}", std::process::id(), std::time::SystemTime::now())
}

fn request(name: &str, script: &str) -> PrepareRequest {
    let install = Install {
        content: unique(),
        script: Some(script.to_owned()),
        env: vec![("REFRAIN_VERSION".to_owned(), "1.2'3 x".to_owned())],
        folder: None,
        program: None,
        probe: None,
        timeout: Duration::from_secs(120),
    };
    PrepareRequest {
        name: name.to_owned(),
        image: Some(BUSYBOX.to_owned()),
        container: ContainerOptions { pull: Pull::Never, ..ContainerOptions::default() },
        install: Some(install),
        stop: CancellationToken::new(),
    }
}

/// Installs a program that says its version.
const AGENT: &str = "mkdir -p /usr/local/bin\nprintf '#!/bin/sh\\necho \"agent %s as $(id -u)\"\\n' \"$REFRAIN_VERSION\" \
                     > /usr/local/bin/agent\nchmod 755 /usr/local/bin/agent\necho installed by $(id -u) in $HOME";

async fn prepare(runtime: &DockerRuntime, request: &PrepareRequest) -> Result<PreparedImage, RuntimeError> {
    runtime.prepare(request, &|_| {}).await.map(|image| image.expect("docker has images"))
}

fn forget(image: &PreparedImage) {
    command(&["rmi", "-f", &image.image]);
}

/// Containers that were left by the preparation of images.
fn left() -> String {
    command(&["ps", "-a", "--filter", "name=refrain-prepare-", "--filter", "status=running", "-q"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_harness_is_installed_once_and_found_again() {
    let Some(first) = runtime().await else { return };
    let mut request = request("agent", AGENT);
    request.install.as_mut().unwrap().probe = Some(vec!["agent".to_owned(), "--version".to_owned()]);
    let heard = Mutex::new(Vec::new());
    let image =
        first.prepare(&request, &|line| heard.lock().unwrap().push(line.to_owned())).await.unwrap().expect("an image");
    assert_eq!(image.version.as_deref(), Some("agent 1.2'3 x as 1000"));
    assert!(!image.reused && image.image.starts_with("refrain/prepared:"), "{image:?}");
    assert_eq!(heard.into_inner().unwrap(), ["is installed into the image, once", "installed by 0 in /root"]);
    let id = command(&["inspect", "-f", "{{.Id}}", &image.image]);
    assert_eq!(image.prepared.as_deref(), Some(id.as_str()));
    let base = command(&["inspect", "-f", "{{.Id}}", BUSYBOX]);
    assert_eq!(image.base, base, "an image without a registry has no digest but its id");
    let config = command(&["inspect", "-f", "{{json .Config}}", &image.image]);
    assert!(!config.contains("1.2'3 x\""), "the installer's variables are no part of the image: {config}");

    // Another process finds it by its name; this one need not even look.
    let other = runtime().await.unwrap();
    assert_eq!(prepare(&other, &request).await.unwrap(), PreparedImage { reused: true, ..image.clone() });
    assert_eq!(prepare(&first, &request).await.unwrap(), image);

    // What is opened from it is recorded under the image that it was made from.
    let scratch = tempfile::tempdir().unwrap();
    let env = other.open(spec("prepared", &image.image, scratch.path())).await.unwrap();
    assert_eq!(env.image(), Some(image.base.as_str()));
    env.close().await.unwrap();
    forget(&image);
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_that_need_the_same_image_share_the_work() {
    let Some(runtime) = runtime().await else { return };
    let request = request("shared", "sleep 1; echo once");
    let lines = Mutex::new(0);
    let progress = |line: &str| *lines.lock().unwrap() += usize::from(line == "once");
    let all = futures_util::future::join_all((0..4).map(|_| runtime.prepare(&request, &progress))).await;
    let images: Vec<_> = all.into_iter().map(|image| image.unwrap().unwrap()).collect();
    assert!(images.iter().all(|image| image == &images[0]));
    assert_eq!(*lines.lock().unwrap(), 1);
    forget(&images[0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_harness_and_a_program_of_the_host_lie_in_the_image() {
    let Some(runtime) = runtime().await else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/data"), "from the folder").unwrap();
    std::fs::write(folder.path().join("program"), "#!/bin/sh\necho copied $1\n").unwrap();
    let mut request = request("files", "cat \"$REFRAIN_HARNESS_DIR/sub/data\" && test -x /usr/local/bin/refrain");
    let install = request.install.as_mut().unwrap();
    install.folder = Some(folder.path().to_owned());
    install.program = Some(folder.path().join("program"));
    install.probe = Some(["refrain", "--version"].map(str::to_owned).to_vec());
    let image = prepare(&runtime, &request).await.unwrap();
    assert_eq!(image.version.as_deref(), Some("copied --version"));
    forget(&image);
    request.install.as_mut().unwrap().program = Some("/no/such/program".into());
    let error = prepare(&runtime, &request).await.unwrap_err();
    assert_eq!(error.to_string(), "read `/no/such/program` failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installer_that_fails_is_quoted_and_blamed() {
    let Some(runtime) = runtime().await else { return };
    let failing = |script: &str| request("broken", script);
    for (script, code, blamed) in [
        ("echo starting >&2; echo 'no such package' >&2; exit 3", 3, InstallFault::Installer),
        ("echo 'E: Temporary failure resolving deb.example.org' >&2; exit 100", 100, InstallFault::Machine),
        ("exit 75", 75, InstallFault::Machine),
    ] {
        let Err(RuntimeError::Install { message, hint, fault }) = prepare(&runtime, &failing(script)).await else {
            panic!("{script} must fail")
        };
        assert_eq!(fault, blamed, "{script}");
        assert!(
            message.starts_with(&format!("installing harness `broken` into `{BUSYBOX}` ended with exit code {code}"))
        );
        assert!(!hint.is_empty());
        if code == 3 {
            assert!(message.ends_with("; its last lines:\n  starting\n  no such package"), "{message}");
        }
    }
    // Nothing is kept of it: the same again runs the installer again.
    let request = failing("exit 4");
    for _ in 0..2 {
        assert!(matches!(prepare(&runtime, &request).await, Err(RuntimeError::Install { .. })));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_fails_leaves_no_image_behind() {
    let Some(runtime) = runtime().await else { return };
    let mut request = request("private", "mkdir -p /root/bin && chmod 700 /root && echo 'echo 1' > /root/bin/agent");
    request.install.as_mut().unwrap().probe = Some(vec!["/root/bin/agent".to_owned()]);
    let Err(RuntimeError::Install { message, hint, fault }) = prepare(&runtime, &request).await else {
        panic!("the probe must fail")
    };
    assert_eq!(fault, InstallFault::Installer);
    assert!(
        message.starts_with("harness `private` was installed, but its probe `/root/bin/agent` ended with exit code 12")
    );
    assert!(hint.contains("readable"), "{hint}");
    let kept = command(&["images", "-q", "--filter", "label=refrain.harness=private"]);
    assert_eq!(kept, "", "an image that does not work must not be found by the next start");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installer_is_bounded_and_can_be_stopped() {
    let Some(runtime) = runtime().await else { return };
    let mut slow = request("slow", "echo waiting; sleep 1000");
    slow.install.as_mut().unwrap().timeout = Duration::from_secs(2);
    let Err(RuntimeError::Install { message, fault, .. }) = prepare(&runtime, &slow).await else {
        panic!("it takes too long")
    };
    assert_eq!(fault, InstallFault::Machine);
    assert!(message.contains("took longer than 2 s; its last lines:\n  waiting"), "{message}");

    let stopped = request("stopped", "echo waiting; sleep 1000");
    let (stop, progress) = (stopped.stop.clone(), |line: &str| {
        if line == "waiting" {
            stopped.stop.cancel();
        }
    });
    let error = runtime.prepare(&stopped, &progress).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Stopped) && stop.is_cancelled(), "{error}");
    for _ in 0..50 {
        if left().is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("containers were left: {}", left());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_is_not_there_is_told_before_anything_is_installed() {
    let Some(runtime) = runtime().await else { return };
    let mut request = request("absent", "true");
    request.image = Some("refrain-test/no-such-image:1".to_owned());
    let Err(RuntimeError::Unavailable { message, .. }) = prepare(&runtime, &request).await else {
        panic!("there is no such image")
    };
    assert_eq!(message, "there is no image `refrain-test/no-such-image:1`, and `container.pull` is `never`");
    request.image = Some(BUSYBOX.to_owned());
    request.install = None;
    let image = prepare(&runtime, &request).await.unwrap();
    assert_eq!((image.image.as_str(), image.prepared, image.version), (BUSYBOX, None, None));
}
