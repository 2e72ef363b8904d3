//! Hosts that are killed while their cells are in containers: the next start finishes the run and leaves nothing.

#![cfg(all(feature = "docker", feature = "cli"))]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the test kills real processes at real moments")]

mod docker;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use docker::{BUSYBOX, containers, docker as command, runtime};

/// When the host is killed after its start, in milliseconds: while it prepares, works, judges, cleans up.
const MOMENTS: &[u64] = &[150, 400, 700, 1000, 1400, 1900, 2500, 3200];
const CELLS: usize = 4;

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn project(dir: &Path) {
    write(&dir.join("tasks/count/repo/total.txt"), "0\n");
    write(
        &dir.join("tasks/count/task.yaml"),
        "id: count\nname: Count\ntask_prompt: Write one.\ntest_command: grep -qx 1 total.txt\n",
    );
    write(
        &dir.join("runs/killed.yaml"),
        &format!(
            "name: test-killed\nharnesses:\n  - name: counter\n    adapter: command\n    \
             config: {{command: 'echo 1 > total.txt; sleep 0.5; echo done'}}\nmodels: [{{name: none}}]\n\
             tasks: [count]\nrepeats: {CELLS}\nparallel_runs: 2\nruntime: docker\nnetwork: none\n\
             docker_image: {BUSYBOX}\n"
        ),
    );
}

fn start(dir: &Path) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command.args(["run", "runs/killed.yaml", "--progress", "lines"]).current_dir(dir).env("HOME", dir);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn volumes() -> Vec<String> {
    command(&["volume", "ls", "-q", "--filter", "dangling=true"]).lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_host_is_killed_again_and_again_is_finished_and_leaves_nothing() {
    let Some(_) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    project(dir.path());
    let before = volumes();
    for moment in MOMENTS {
        let mut host = start(dir.path());
        std::thread::sleep(Duration::from_millis(*moment));
        host.kill().unwrap();
        host.wait().unwrap();
    }
    let last = start(dir.path()).wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&last.stderr).into_owned();
    assert_eq!(last.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("{CELLS} passed, 0 failed, 0 errored")), "{said}");
    assert_eq!(containers("killed"), Vec::<String>::new(), "containers were left");
    let left: Vec<_> = volumes().into_iter().filter(|name| !before.contains(name)).collect();
    assert_eq!(left, Vec::<String>::new(), "volumes were left");
    let scratch: Vec<_> = fs::read_dir(dir.path().join(".refrain/scratch")).into_iter().flatten().flatten().collect();
    assert!(scratch.is_empty(), "{scratch:?}");
}
