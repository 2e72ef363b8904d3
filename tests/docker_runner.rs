//! The program with Docker from a run file to verdicts: images that are made ready, and runners that are programs.

#![cfg(all(feature = "docker", feature = "cli"))]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests wait for real processes")]

mod docker;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use docker::{BUSYBOX, DEBIAN, containers, docker as command, runtime};
use serde_json::Value;

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn refrain(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command.args(args).current_dir(dir).stdin(Stdio::null()).env("HOME", dir).env_remove("REFRAIN_DB");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A project with a task that wants `greet.sh` to say `hello world`.
fn project(dir: &Path) {
    write(&dir.join("tasks/greeting/repo/greet.sh"), "echo hello\n");
    write(
        &dir.join("tasks/greeting/task.yaml"),
        "id: greeting\nname: Greet\ntask_prompt: Greet the world.\ntest_command: sh hidden.sh\ntimeout_seconds: 120\n",
    );
    let hidden = "echo 1..1\nif [ \"$(sh greet.sh)\" = 'hello world' ]; then echo ok 1 - greets; \
                  else echo not ok 1 - greets; exit 1; fi\n";
    write(&dir.join("tasks/greeting/tests/hidden.sh"), hidden);
}

fn run_file(name: &str, harness: &str, image: &str, settings: &str) -> String {
    format!(
        "name: test-{name}\nharnesses:\n  - {harness}\nmodels: [{{name: scripted-small, provider: scripted}}]\n\
         tasks: [greeting]\nrepeats: 1\nruntime: docker\ndocker_image: {image}\ncontainer: {{pull: never}}\n{settings}"
    )
}

fn record(dir: &Path, run: &str) -> Value {
    let (_, text, error) = refrain(dir, &["results", run, "--json"]);
    let results: Value = serde_json::from_str(&text).expect(&error);
    let cell = results["results"][0]["cell_id"].as_str().expect("a cell").to_owned();
    let (_, text, error) = refrain(dir, &["show", &cell, "--run", run, "--json"]);
    serde_json::from_str(&text).expect(&error)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_scripted_agent_works_in_a_container() {
    let Some(_) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    project(dir.path());
    let play = "plays:\n  - task: greeting\n    sessions:\n      - steps: [{message: done}, \
                {write: {path: greet.sh, content: echo hello world}}, {usage: {input: 100, output: 10}}]\n";
    write(&dir.path().join("runs/demo.play.yaml"), play);
    let harness = "{name: scripted, config: {play: demo.play.yaml}}";
    write(&dir.path().join("runs/demo.yaml"), &run_file("scripted", harness, DEBIAN, ""));

    let (code, text, error) = refrain(dir.path(), &["prepare", "runs/demo.yaml", "--json"]);
    assert_eq!(code, Some(0), "{error}");
    let prepared: Value = serde_json::from_str(&text).unwrap();
    let image = &prepared["harnesses"][0]["image"];
    assert_eq!(image["version"], format!("refrain {}", env!("CARGO_PKG_VERSION")));
    let name = image["image"].as_str().unwrap().to_owned();
    assert!(!dir.path().join("refrain.db").exists(), "nothing was run");

    let (code, _, error) = refrain(dir.path(), &["run", "runs/demo.yaml"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(!error.contains("Preparing"), "it was ready: {error}");
    let record = record(dir.path(), "test-scripted");
    assert_eq!((&record["solved"], &record["inputs"]["image"]), (&true.into(), &image["base"]), "{record:#}");
    assert_eq!(record["sessions"][0]["usage"]["input"], 100);
    assert_eq!(containers("scripted"), Vec::<String>::new());
    command(&["rmi", "-f", &name]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installer_that_fails_ends_the_run_before_its_first_cell() {
    let Some(_) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    project(dir.path());
    let manifest = |script: &str| {
        format!("name = \"mine\"\n[run]\nargv = [\"mine\", \"{{prompt}}\"]\n[install]\nscript = '''{script}'''\n")
    };
    let path = dir.path().join("mine/harness.toml");
    write(&dir.path().join("runs/demo.yaml"), &run_file("broken", "{name: mine, adapter: ../mine}", BUSYBOX, ""));
    for (script, code, expected) in [
        ("echo no compiler here >&2; exit 1", 2, "no compiler here"),
        ("echo 'wget: bad address example.org' >&2; exit 1", 3, "for lack of a network as it seems"),
    ] {
        write(&path, &manifest(script));
        let (exit, _, error) = refrain(dir.path(), &["run", "runs/demo.yaml"]);
        assert_eq!(exit, Some(code), "{error}");
        assert!(error.contains("error: harness `mine` cannot be made ready on the runtime `docker`"), "{error}");
        assert!(error.contains(expected) && error.contains("hint: "), "{error}");
        assert!(error.contains("Preparing mine: is installed into the image, once"), "{error}");
        assert!(!dir.path().join("refrain.db").exists(), "nothing was run");
    }
    // A built-in harness says what its installer lacks.
    write(&dir.path().join("runs/demo.yaml"), &run_file("broken", "{name: claude-code}", BUSYBOX, ""));
    let (exit, _, error) = refrain(dir.path(), &["prepare", "runs/demo.yaml"]);
    assert_eq!(exit, Some(2), "{error}");
    assert!(error.contains("claude-code is installed by npm, which this image lacks"), "{error}");
    let missing = run_file("broken", "{name: mine, adapter: ../mine}", "refrain-test/no-such-image:1", "");
    write(&dir.path().join("runs/demo.yaml"), &missing);
    let (exit, _, error) = refrain(dir.path(), &["run", "runs/demo.yaml"]);
    assert_eq!(exit, Some(3), "{error}");
    assert!(error.contains("there is no image `refrain-test/no-such-image:1`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runners_work_in_containers_with_and_without_a_proper_userland() {
    let Some(_) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    project(dir.path());
    let runner = "#!/bin/sh\ncd \"$REFRAIN_WORKSPACE\" || exit\nfor name in a b; do refrain-session --label $name x > /tmp/$name & \
                  done\nwait\ncat /tmp/a /tmp/b\nhead -c 2000000 /dev/zero | tr '\\0' x | refrain-session -\n\
                  refrain-session --model nobody x; echo \"misuse: $?\"\n";
    write(&dir.path().join("mine/orchestrator.toml"), "slug = \"mine\"\nrunner = \"runner.sh\"\napi = 1\n");
    write(&dir.path().join("mine/runner.sh"), runner);
    fs::set_permissions(dir.path().join("mine/runner.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let agent = "{name: command, config: {command: 'echo echo hello world > greet.sh; wc -c < $REFRAIN_PROMPT_FILE'}}";
    for (name, image) in [("runner-busybox", BUSYBOX), ("runner-debian", DEBIAN)] {
        let settings = "orchestrators: [{dir: ../mine}]\n";
        write(&dir.path().join("runs/demo.yaml"), &run_file(name, agent, image, settings));
        let (code, _, error) = refrain(dir.path(), &["run", "runs/demo.yaml"]);
        let record = record(dir.path(), &format!("test-{name}"));
        assert_eq!((code, &record["solved"]), (Some(0), &true.into()), "{error} {record:#}");
        let texts: Vec<_> = record["sessions"].as_array().unwrap().iter().map(|session| &session["text"]).collect();
        assert_eq!(texts, ["1", "1", "2000000"], "{image}");
        let log = record["script_log"].to_string();
        assert!(log.contains("info: misuse: 2") && log.contains("the run has no model `nobody`"), "{log}");
        assert_eq!(containers(name), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setup_script_that_fails_in_a_container_is_no_agents_failure() {
    let Some(_) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    project(dir.path());
    let task = fs::read_to_string(dir.path().join("tasks/greeting/task.yaml")).unwrap();
    // It runs as the agent does, which is not root.
    let script = "setup_script: 'id -u; touch /usr/new || { echo needs root >&2; exit 1; }'\n";
    write(&dir.path().join("tasks/greeting/task.yaml"), &format!("{task}{script}"));
    let agent = "{name: command, config: {command: 'true'}}";
    let settings = "retry: {infrastructure: 0}\n";
    write(&dir.path().join("runs/demo.yaml"), &run_file("setup", agent, BUSYBOX, settings));
    let (code, _, error) = refrain(dir.path(), &["run", "runs/demo.yaml"]);
    assert_eq!(code, Some(11), "{error}");
    let record = record(dir.path(), "test-setup");
    assert_eq!((&record["failure"]["kind"], &record["solved"]), (&"setup".into(), &Value::Null), "{record:#}");
    assert!(record["failure"]["message"].as_str().unwrap().contains("needs root"), "{record:#}");
    assert_eq!(record["sessions"], serde_json::json!([]));
    assert_eq!(record["inputs"]["image"], command(&["inspect", "-f", "{{.Id}}", BUSYBOX]));
    assert_eq!(containers("setup"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installer_ends_with_its_host_or_is_swept() {
    let Some(_) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    project(dir.path());
    let mark = format!("refrain-{}", std::process::id());
    let script = format!("echo {mark}; exec sleep 1000");
    let manifest =
        format!("name = \"mine\"\n[run]\nargv = [\"mine\", \"{{prompt}}\"]\n[install]\nscript = '{script}'\n");
    write(&dir.path().join("mine/harness.toml"), &manifest);
    write(&dir.path().join("runs/demo.yaml"), &run_file("slow", "{name: mine, adapter: ../mine}", BUSYBOX, ""));
    // Containers of this test's installer are told by their command.
    let left = || {
        let all = command(&["ps", "-a", "--no-trunc", "--format", "{{.Names}} {{.Command}}"]);
        all.lines().filter(|line| line.contains(&mark)).map(str::to_owned).collect::<Vec<_>>()
    };
    for (signal, code) in [("-INT", Some(130)), ("-KILL", None)] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_refrain"));
        program.args(["prepare", "runs/demo.yaml"]).current_dir(dir.path()).env("HOME", dir.path());
        let mut child = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut waited = 0;
        while command(&["ps", "--no-trunc", "--format", "{{.Command}}"]).lines().all(|line| !line.contains(&mark)) {
            waited += 1;
            assert!(waited < 300, "the installer never began");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let output = tokio::task::spawn_blocking(move || {
            let mut error = String::new();
            std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut error).unwrap();
            (child.wait().unwrap().code(), error)
        });
        let (ended, error) = output.await.unwrap();
        assert_eq!(ended, code, "{error}");
        assert_eq!(left().len(), usize::from(code.is_none()), "{:?}", left());
    }
    let (code, text, error) = refrain(dir.path(), &["sweep"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(text.contains("docker: removed the container `refrain-prepare-"), "{text}");
    assert_eq!(left(), Vec::<String>::new());
}
