//! The local runtime, with real processes.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use refrain::clock::SystemClock;
use refrain::domain::cell::CellId;
use refrain::domain::failure::Timer;
use refrain::domain::{AttemptId, ContainerOptions, Network, RunName};
use refrain::runtime::local::LocalRuntime;
use refrain::runtime::{
    Command, Environment, EnvironmentSpec, ExecEnd, ExecReport, GatewayDoors, Limits, Output, Runtime, RuntimeError,
};
use tokio_util::sync::CancellationToken;

fn runtime() -> LocalRuntime {
    LocalRuntime::new(Arc::new(SystemClock::new()))
}

fn spec(scratch: &Path) -> EnvironmentSpec {
    EnvironmentSpec {
        attempt: AttemptId {
            run: RunName::new("test").unwrap(),
            cell: CellId::from_stored("scripted__m__t__r1"),
            number: 1,
        },
        purpose: "agent",
        scratch: scratch.to_owned(),
        env: Vec::new(),
        image: None,
        container: ContainerOptions::default(),
        gateway: None,
    }
}

async fn open(dir: &tempfile::TempDir) -> Box<dyn Environment> {
    runtime().open(spec(&dir.path().join("scratch"))).await.expect("opens")
}

async fn run(env: &dyn Environment, command: &Command) -> ExecReport {
    env.exec(command, Output::capture(), &CancellationToken::new()).await.expect("runs")
}

fn limited(script: &str, seconds: u64) -> Command {
    let limits = Limits {
        timeout: Some((Timer::Session, Duration::from_secs(seconds))),
        grace: Some(Duration::from_millis(100)),
        ..Limits::default()
    };
    Command { limits, ..Command::shell(script) }
}

/// Whether a process is there and is no zombie.
fn alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).is_some_and(|state| state != 'Z')
}

fn pid_in(env: &dyn Environment, file: &str) -> String {
    fs::read_to_string(env.workspace().join(file)).expect("the pid was written")
}

#[tokio::test]
async fn daemons_that_left_group_and_session_are_ended_with_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let script = "setsid sh -c 'echo $$ > daemon; trap \"\" TERM HUP; exec sleep 300' >/dev/null 2>&1 </dev/null &
        while ! test -s daemon; do sleep 0.01; done";
    let report = run(&*env, &Command::shell(script)).await;
    assert_eq!((report.end, report.leftovers), (ExecEnd::Exited(0), 1));
    assert!(!alive(&pid_in(&*env, "daemon")));
    env.close().await.unwrap();
}

#[tokio::test]
async fn a_child_that_wiped_its_environment_is_found_by_its_parent() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let script = "env -i setsid sh -c 'echo $$ > wiped; exec sleep 300' & wait";
    let report = run(&*env, &limited(script, 1)).await;
    assert!(matches!(report.end, ExecEnd::TimedOut { timer: Timer::Session, .. }), "{:?}", report.end);
    assert!(!alive(&pid_in(&*env, "wiped")));
    env.close().await.unwrap();
}

#[tokio::test]
async fn processes_that_fork_faster_than_they_are_found_are_all_ended() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    // Each one starts its successor and ends; several chains at once, each with a shell of its own session.
    let script = "printf '#!/bin/sh\\nsetsid ./hop & exit 0\\n' > hop; chmod +x hop; ./hop & ./hop & ./hop & sleep 300";
    let report = run(&*env, &limited(script, 1)).await;
    assert!(matches!(report.end, ExecEnd::TimedOut { .. }), "{:?}", report.end);
    env.quiesce().await.expect("quiet");
    let mark = format!("{}/work", dir.path().canonicalize().unwrap().join("scratch").display());
    let left: Vec<_> = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.display().to_string() == mark))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    env.close().await.unwrap();
}

#[tokio::test]
async fn commands_of_one_environment_do_not_end_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let long = Command::shell("sleep 1 & wait; echo done");
    let short = Command::shell("sleep 300 & exit 0");
    let (long, short) = tokio::join!(run(&*env, &long), run(&*env, &short));
    assert_eq!((long.end, long.stdout.bytes), (ExecEnd::Exited(0), b"done\n".to_vec()));
    assert_eq!(short.leftovers, 1);
    env.close().await.unwrap();
}

#[tokio::test]
async fn children_that_end_by_themselves_a_moment_later_are_no_leftovers() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let report = run(&*env, &Command::shell("(sleep 0.05; echo late) & echo early")).await;
    assert_eq!(report.leftovers, 0);
    assert_eq!(report.stdout.bytes, b"early\nlate\n");
    env.close().await.unwrap();
}

#[tokio::test]
async fn stderr_that_comes_after_stdout_was_closed_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let report = run(&*env, &Command::shell("printf out; exec >&-; sleep 0.2; printf err >&2")).await;
    assert_eq!((report.stdout.bytes, report.stderr.bytes), (b"out".to_vec(), b"err".to_vec()));
    env.close().await.unwrap();
}

#[tokio::test]
async fn the_longest_silence_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let report = run(&*env, &Command::shell("echo a; sleep 0.6; echo b; sleep 0.1")).await;
    assert!(report.longest_silence >= Duration::from_millis(500), "{:?}", report.longest_silence);
    assert!(report.longest_silence < report.duration, "{:?} of {:?}", report.longest_silence, report.duration);
    env.close().await.unwrap();
}

#[tokio::test]
async fn live_output_arrives_while_the_command_runs_and_a_slow_listener_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let (live, mut listener) = tokio::sync::mpsc::channel(1);
    let output = Output::Spool { stdout: dir.path().join("out"), stderr: dir.path().join("err"), live: Some(live) };
    let command =
        Command::shell("echo first; head -c 400000 /dev/zero; while ! test -e heard; do sleep 0.02; done; sleep 0.5");
    let stop = CancellationToken::new();
    let work = env.exec(&command, output, &stop);
    let listen = async {
        let mut heard = 0;
        while let Some(chunk) = listener.recv().await {
            if heard == 0 {
                assert!(chunk.bytes.starts_with(b"first\n"));
                fs::write(env.workspace().join("heard"), "").unwrap();
            }
            heard += chunk.bytes.len();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        heard
    };
    let (report, heard) = tokio::join!(work, listen);
    assert_eq!(report.unwrap().end, ExecEnd::Exited(0));
    assert_eq!(heard, 400_006);
    env.close().await.unwrap();
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    fs::write(env.workspace().join("plain"), "echo x").unwrap();
    env.put_file(b"#!/no/such/interpreter\n", &env.workspace().join("orphan"), true).await.unwrap();
    env.put_file(b"echo x\n", &env.workspace().join("headless"), true).await.unwrap();
    let mut nul = Command::new(["echo", "a\0b"]);
    let mut long = Command::new(["true"]);
    long.argv.push("x".repeat(200_000));
    let mut variable = Command::new(["true"]);
    variable.env.push(("A=B".to_owned(), "c".to_owned()));
    for (command, expected) in [
        (Command::new(["no-such-program"]), "there is no such program in PATH"),
        (Command::new(["./plain"]), "is not executable; `chmod +x` it"),
        (Command::new(["./absent"]), "does not exist"),
        (Command::new(["."]), "is a directory"),
        (Command::new(["./orphan"]), "the interpreter that it names is not"),
        (Command::new(["./headless"]), "a script begins with `#!`"),
        (std::mem::take(&mut nul), "NUL byte"),
        (std::mem::take(&mut long), "pass long texts by file or standard input"),
        (std::mem::take(&mut variable), "the variable `A=B` cannot be set"),
    ] {
        let error = env.exec(&command, Output::capture(), &CancellationToken::new()).await.expect_err(expected);
        assert!(matches!(error, RuntimeError::NotRunnable { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    env.close().await.unwrap();
}

#[tokio::test]
async fn paths_outside_the_environment_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    fs::write(dir.path().join("secret"), "x").unwrap();
    let back = dir.path().join("back");
    for path in [dir.path().to_owned(), env.workspace().join("../../"), "/etc".into()] {
        let error = env.get(&path, &back).await.expect_err("refused");
        assert!(matches!(error, RuntimeError::File { .. }), "{error}");
        env.put_file(b"x", &path.join("planted"), false).await.expect_err("refused");
    }
    assert!(!dir.path().join("planted").exists());
    // A folder that the agent exchanged for a link leads nowhere.
    run(&*env, &Command::shell("ln -s ../.. out")).await;
    env.get(&env.workspace().join("out"), &back).await.expect_err("refused");
    assert!(!back.join("secret").exists());
    env.close().await.unwrap();
}

#[tokio::test]
async fn an_environment_needs_a_folder_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let env = open(&dir).await;
    let error = runtime().open(spec(&dir.path().join("scratch"))).await.err().expect("refused");
    assert!(error.to_string().contains("failed"), "{error}");
    assert!(env.workspace().is_dir(), "the first one is untouched");
    env.close().await.unwrap();
}

#[tokio::test]
async fn leftovers_of_a_dead_host_are_swept_with_their_processes() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = dir.path().join("run/cell/1");
    fs::create_dir_all(scratch.join("work/deep")).unwrap();
    let id = "0123456789abcdef0123456789abcdef";
    let own: serde_json::Value = {
        let env = open(&dir).await;
        let text = fs::read(dir.path().join("scratch/owner.json")).unwrap();
        env.close().await.unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    // The host of another life: same number, another start.
    let mut owner = own.clone();
    owner["environment"] = id.into();
    owner["started"] = 1.into();
    fs::write(scratch.join("owner.json"), owner.to_string()).unwrap();
    let mut orphan = std::process::Command::new("sleep").arg("300").env("REFRAIN_ENVIRONMENT", id).spawn().unwrap();
    let mut bystander = std::process::Command::new("sleep").arg("300").spawn().unwrap();

    let lines = runtime().sweep(dir.path()).await.expect("sweeps");
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("ended 1 of its processes"), "{}", lines[0]);
    assert!(!scratch.exists());
    assert!(!orphan.wait().unwrap().success());
    assert!(alive(&bystander.id().to_string()));
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(runtime().sweep(dir.path()).await.expect("sweeps"), Vec::<String>::new());
}

/// Makes the host of an environment another one that is gone: same number, another start.
fn kill_host_of(scratch: &Path) {
    let path = scratch.join("owner.json");
    let mut owner: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    owner["started"] = 1.into();
    fs::write(path, owner.to_string()).unwrap();
}

#[tokio::test]
async fn an_environment_whose_host_is_gone_is_taken_up_with_its_files_and_without_its_processes() {
    let dir = tempfile::tempdir().unwrap();
    let scratch = dir.path().canonicalize().unwrap().join("scratch");
    let env = runtime().open(spec(&scratch)).await.expect("opens");
    env.put_file(b"kept", &env.workspace().join("deep/file"), false).await.unwrap();
    assert!(runtime().reattach(&spec(&scratch)).await.unwrap().is_none(), "its host lives");
    let owner: serde_json::Value = serde_json::from_slice(&fs::read(scratch.join("owner.json")).unwrap()).unwrap();
    let mark = owner["environment"].as_str().unwrap();
    let mut orphan = std::process::Command::new("sleep").arg("300").env("REFRAIN_ENVIRONMENT", mark).spawn().unwrap();
    kill_host_of(&scratch);

    let swept = runtime().sweep_except(dir.path(), &[spec(&scratch)]).await.expect("sweeps");
    assert!(swept.len() == 1 && swept[0].contains("kept its files"), "{swept:?}");
    assert!(!orphan.wait().unwrap().success());
    let taken = runtime().reattach(&spec(&scratch)).await.unwrap().expect("it is there");
    assert_eq!(run(&*taken, &Command::shell("cat deep/file")).await.stdout.bytes, b"kept");
    // It has an owner that lives: nobody else takes it, and no sweep removes it.
    assert!(runtime().reattach(&spec(&scratch)).await.unwrap().is_none());
    assert_eq!(runtime().sweep(dir.path()).await.unwrap(), Vec::<String>::new());
    taken.close().await.unwrap();
    assert!(!scratch.exists());
    assert!(runtime().reattach(&spec(&scratch)).await.unwrap().is_none(), "there is nothing");
}

#[tokio::test]
async fn preflight_names_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let error = runtime().with_path(dir.path().display().to_string()).preflight().await.expect_err("no shell there");
    assert!(matches!(error, RuntimeError::Unavailable { .. }), "{error}");
    let info = runtime().preflight().await.unwrap();
    assert!(info.notes[0].starts_with("no isolation"));
}

/// Commands are processes of this machine, so they reach what listens on its loopback device.
#[tokio::test]
async fn a_gateway_on_the_loopback_device_is_reached() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = runtime();
    let doors = runtime.gateway_doors(Network::Bridge, dir.path()).await.unwrap();
    assert_eq!(doors, GatewayDoors::loopback());
    let listener = std::net::TcpListener::bind(doors.tcp.unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let gateway = Some(GatewayDoors { tcp: Some(address), unix: None });
    let env = runtime.open(EnvironmentSpec { gateway, ..spec(&dir.path().join("with")) }).await.unwrap();
    assert_eq!(env.gateway_address().await.unwrap(), format!("http://{address}"));
    env.close().await.unwrap();

    let without = runtime.open(spec(&dir.path().join("without"))).await.unwrap();
    let Err(RuntimeError::Unavailable { message, hint }) = without.gateway_address().await else { panic!("an error") };
    assert!(message.contains("no gateway") && hint.contains("127.0.0.1"), "{message}: {hint}");
    without.close().await.unwrap();
}
