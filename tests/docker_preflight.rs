//! What is tried before the first cell: whether containers reach the gateway. On the real engine.

#![cfg(all(feature = "docker", feature = "cli", feature = "gateway"))]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod docker;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use docker::{DEBIAN, containers, runtime};
use serde_json::Value;

const CELL: &str = "command__claude-haiku-4-5__greeting__r1";

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A run whose agent asks the gateway whether it is there, and says what it heard.
fn project(dir: &Path, name: &str, settings: &str) {
    write(
        &dir.join("tasks/greeting/task.yaml"),
        "id: greeting\ntask_prompt: Greet the world.\ntest_command: 'echo 1..1; grep -q ok heard && echo ok 1 - heard'\n",
    );
    let agent = "python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())' {base_url} \
                 > heard; cat heard";
    let argv = serde_json::to_string(&["sh", "-c", agent]).unwrap();
    write(
        &dir.join("run.yaml"),
        &format!(
            "name: {name}\nharnesses: [{{name: command, config: {{argv: {argv}}}}}]\nmodels: [{{name: claude-haiku-4-5, \
             provider: anthropic, api_key_env: PREFLIGHT_KEY}}]\ntasks: [greeting]\nrepeats: 1\nruntime: docker\n\
             docker_image: {DEBIAN}\nretry: {{infrastructure: 0}}\n{settings}"
        ),
    );
}

fn refrain(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command.args(args).current_dir(dir).stdin(Stdio::null()).env("HOME", dir).env_remove("REFRAIN_DB");
    let output = command.env("PREFLIGHT_KEY", "sk-preflight-0123456789").output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_containers_reach_is_found_and_the_run_goes_on() {
    let Some(_) = runtime().await else { return };
    for network in ["bridge", "gateway-only"] {
        let dir = tempfile::tempdir().unwrap();
        let name = format!("test-preflight-{network}");
        project(dir.path(), &name, &format!("container: {{pull: never}}\nnetwork: {network}\n"));
        let (code, _, error) = refrain(dir.path(), &["run", "run.yaml"]);
        assert_eq!(code, Some(0), "{error}");
        let (_, shown, _) = refrain(dir.path(), &["show", CELL, "--json"]);
        let record: Value = serde_json::from_str(&shown).expect("a record");
        assert_eq!((&record["solved"], &record["failure"]), (&true.into(), &Value::Null), "{record}");
        assert!(containers(&name).is_empty(), "nothing is left of what was tried");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_they_do_not_reach_stops_the_run_with_address_and_place_unless_it_is_not_to_be_tried() {
    let Some(_) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    // No container gets to what listens on the host's 127.0.0.1.
    let settings = "container: {pull: never}\nnetwork: bridge\ngateway: {host: 127.0.0.1, port: 48677}\n";
    project(dir.path(), "test-preflight-apart", settings);
    let (code, _, error) = refrain(dir.path(), &["run", "run.yaml"]);
    assert_eq!(code, Some(3), "{error}");
    let words = ["environments do not reach the gateway", ":48677 from inside a container", "`bridge`"];
    for part in words.into_iter().chain(["--no-check-gateway"]) {
        assert_eq!(error.matches(part).count(), 1, "`{part}` once: {error}");
    }
    let (_, status, _) = refrain(dir.path(), &["status", "--json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!((&status["cells"]["errored"], &status["cells"]["waiting"]), (&0.into(), &1.into()), "no cell began");
    assert!(containers("test-preflight-apart").is_empty(), "nothing is left of what was tried");

    // Then each session finds it out by itself.
    let (code, _, error) = refrain(dir.path(), &["run", "run.yaml", "--no-check-gateway"]);
    assert_eq!(code, Some(11), "{error}");
    assert!(!error.contains(words[0]), "{error}");
    let (_, shown, _) = refrain(dir.path(), &["show", CELL, "--json"]);
    let record: Value = serde_json::from_str(&shown).expect("a record");
    let message = record["failure"]["message"].as_str().expect("a message");
    assert!(message.contains(words[1]), "{record}");
    assert_eq!(record["failure"]["kind"], "runtime");
}
