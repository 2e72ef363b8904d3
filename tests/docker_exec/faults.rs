//! Connections, containers and daemons that go away while a command runs.

use std::process::{Child, Command as Process, Stdio};
use std::sync::Arc;
use std::time::Duration;

use refrain::clock::SystemClock;
use refrain::domain::ContainerOptions;
use refrain::domain::failure::Timer;
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use refrain::runtime::{Command, ExecEnd, Limits, Runtime, RuntimeError};

use super::docker::{BUSYBOX, DEBIAN, docker, runtime};
use super::proxy::{Proxy, Streams};
use super::{Place, text};

const S: Duration = Duration::from_secs(1);
/// Within this everything has ended that hangs on nothing.
const PATIENCE: Duration = Duration::from_secs(120);

async fn through_proxy(name: &str) -> Option<(Proxy, Place, tempfile::TempDir)> {
    runtime().await?;
    let dir = tempfile::tempdir().expect("a folder");
    let proxy = Proxy::new(dir.path());
    let place = Place::open_with(&proxy.runtime(), name, DEBIAN, ContainerOptions::default()).await;
    Some((proxy, place, dir))
}

fn counting(upto: u32) -> (Command, String) {
    let script = format!("i=0; while [ $i -lt {upto} ]; do i=$((i + 1)); echo $i; sleep 0.05; done; exit 3");
    (Command::shell(script), (1..=upto).fold(String::new(), |text, number| text + &format!("{number}\n")))
}

/// Does something a while after a command was started, and returns its report.
async fn meanwhile<T>(
    work: impl Future<Output = Result<T, RuntimeError>>,
    after: Duration,
    then: impl FnOnce(),
) -> Result<T, RuntimeError> {
    let later = async {
        tokio::time::sleep(after).await;
        then();
    };
    let both = async { tokio::join!(work, later).0 };
    tokio::time::timeout(PATIENCE, both).await.expect("nothing hangs")
}

#[tokio::test]
async fn a_stream_that_is_cut_costs_nothing_of_the_log() {
    let Some((proxy, place, _dir)) = through_proxy("cut").await else { return };
    let (command, expected) = counting(60);
    let report = meanwhile(place.try_spool(&command), S, || proxy.set(Streams::Cut)).await.expect("runs");
    assert_eq!(report.end, ExecEnd::Exited(3));
    assert_eq!(std::fs::read_to_string(place.log("out")).expect("a file"), expected);
    assert!(report.notes.iter().any(|note| note.contains("came from the log")), "{:?}", report.notes);
    proxy.set(Streams::Pass);
    place.close().await;
}

#[tokio::test]
async fn a_tail_that_never_comes_is_fetched() {
    let Some((proxy, place, _dir)) = through_proxy("held").await else { return };
    let (command, expected) = counting(60);
    let report = meanwhile(place.try_spool(&command), S, || proxy.set(Streams::Hold)).await.expect("runs");
    assert_eq!(report.end, ExecEnd::Exited(3));
    assert_eq!(std::fs::read_to_string(place.log("out")).expect("a file"), expected);
    proxy.set(Streams::Pass);
    place.close().await;
}

#[tokio::test]
async fn captured_output_that_is_cut_is_an_error_and_no_result() {
    let Some((proxy, place, _dir)) = through_proxy("cut-capture").await else { return };
    let (command, _) = counting(60);
    let error = meanwhile(place.try_capture(&command), S, || proxy.set(Streams::Cut)).await.expect_err("is cut");
    assert!(matches!(error, RuntimeError::Io { .. }), "{error}");
    proxy.set(Streams::Pass);
    place.close().await;
}

#[tokio::test]
async fn limits_hold_where_the_stream_is_lost() {
    let Some((proxy, place, _dir)) = through_proxy("cut-limit").await else { return };
    let limits = Limits { timeout: Some((Timer::Task, S * 3)), grace: Some(S / 5), ..Limits::default() };
    let script = "trap '' TERM; while :; do echo x; echo x >> /work/beat; sleep 0.05; done";
    let command = Command { limits, ..Command::shell(script) };
    let report = meanwhile(place.try_spool(&command), S, || proxy.set(Streams::Cut)).await.expect("runs");
    assert_eq!(report.end, ExecEnd::TimedOut { timer: Timer::Task, limit: S * 3 });
    assert!(report.stdout.total > 60, "{}", report.stdout.total);
    proxy.set(Streams::Pass);
    let before = place.says("wc -c < beat").await;
    tokio::time::sleep(S / 2).await;
    assert_eq!(place.says("wc -c < beat").await, before);
    place.close().await;
}

#[tokio::test]
async fn a_container_that_is_killed_or_removed_is_lost_with_its_cause() {
    for (args, cause) in [(vec!["kill"], "exit code 137"), (vec!["rm", "-f"], "")] {
        let Some(place) = Place::open("outside", BUSYBOX, ContainerOptions::default()).await else { return };
        let id = place.id();
        let (command, _) = counting(600);
        let end = || drop(docker(&[&args[..], &[&id]].concat()));
        let error = meanwhile(place.try_spool(&command), S, end).await.expect_err("is lost");
        let RuntimeError::Lost(why) = error else { panic!("{error}") };
        assert!(why.contains(cause), "{why}");
        assert!(std::fs::read_to_string(place.log("out")).expect("a file").starts_with("1\n2\n"));
        assert!(matches!(place.try_capture(&command).await, Err(RuntimeError::Lost(_))));
        place.close().await;
    }
}

/// A daemon of the test's own, in namespaces of its own: nobody else's containers, bridges and mounts are touched, and
/// all of it ends with the first process.
struct Daemon {
    dir: tempfile::TempDir,
    process: Child,
}

/// Keeps a daemon running, and kills and restarts it when the file `again` appears.
const SUPERVISOR: &str = "cd \"$1\"; shift; while :; do dockerd \"$@\" > /dev/null 2>> log & \
    while [ ! -e again ]; do sleep 0.1; done; kill -KILL $!; wait $!; rm -f pid again; done";

impl Daemon {
    async fn start(options: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("refrain-dockerd").tempdir_in("/var/tmp").expect("a folder");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut process = Process::new("unshare");
        process.args(["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]);
        process.args(["sh", "-c", SUPERVISOR, "sh"]).arg(dir.path());
        process.args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")]);
        process.args(["--host", &format!("unix://{}", at("docker.sock")), "--bridge=none", "--iptables=false"]);
        let process = process.args(options).spawn().expect("unshare runs, as root");
        let daemon = Self { dir, process };
        daemon.ready().await;
        let load = format!("docker save {BUSYBOX} | docker --host {} load", daemon.host());
        let loaded = Process::new("sh").args(["-c", &load]).stdout(Stdio::null()).status().expect("sh runs");
        assert!(loaded.success());
        daemon
    }

    fn host(&self) -> String {
        format!("unix://{}/docker.sock", self.dir.path().display())
    }

    fn runtime(&self) -> DockerRuntime {
        let endpoint = DockerEndpoint { host: self.host(), tls: None };
        DockerRuntime::new(Arc::new(SystemClock::new()), endpoint)
    }

    async fn ready(&self) {
        for _ in 0..300 {
            if self.runtime().preflight().await.is_ok() {
                return;
            }
            tokio::time::sleep(S / 5).await;
        }
        panic!("{}", std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default());
    }

    /// Has the daemon killed and started anew.
    fn restart(&self) {
        std::fs::write(self.dir.path().join("again"), "").expect("written");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What is in its namespace goes with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn in_daemon(daemon: &Daemon, name: &str) -> Place {
    let container = ContainerOptions { network: refrain::domain::Network::None, ..ContainerOptions::default() };
    Place::open_with(&daemon.runtime(), name, BUSYBOX, container).await
}

#[tokio::test]
async fn a_daemon_that_is_restarted_loses_its_containers_and_nothing_hangs() {
    if runtime().await.is_none() {
        return;
    }
    let daemon = Daemon::start(&[]).await;
    let place = in_daemon(&daemon, "restart").await;
    let (command, _) = counting(6000);
    let error = meanwhile(place.try_spool(&command), S, || daemon.restart()).await.expect_err("is lost");
    assert!(matches!(error, RuntimeError::Lost(_)), "{error}");
    assert!(std::fs::read_to_string(place.log("out")).expect("a file").starts_with("1\n2\n"));
    place.close().await;
}

#[tokio::test]
async fn a_command_that_outlives_its_daemon_is_read_from_its_record() {
    if runtime().await.is_none() {
        return;
    }
    let daemon = Daemon::start(&["--live-restore"]).await;
    let place = in_daemon(&daemon, "survivor").await;
    let (command, expected) = counting(200);
    let report = meanwhile(place.try_spool(&command), S, || daemon.restart()).await.expect("runs");
    assert_eq!((report.end, report.exit_code), (ExecEnd::Exited(3), Some(3)));
    assert_eq!(text(&std::fs::read(place.log("out")).expect("a file")), expected);
    place.close().await;
}
