//! Tasks whose files are in the image: `workspace: image:/testbed`.

#![cfg(all(feature = "docker", feature = "cli"))]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod docker;

use std::fs;
use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use docker::{DEBIAN, docker, runtime};
use refrain::domain::{ContainerOptions, Network, Task};
use refrain::runtime::docker::DockerRuntime;
use refrain::runtime::{Command, Environment, EnvironmentSpec, Install, Output, PrepareRequest, Runtime, RuntimeError};
use refrain::workspace::{SeedCache, collect, place};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// A package that is installed in place, as images of this kind have it, with a history that holds the solution.
const TESTBED: &str = "mkdir -p /testbed/pkg/sub /opt/real && cd /testbed && git init -q . && git config user.name a && git config user.email a@b
    echo 'def add(a, b): return a + b  # SOLUTION' > pkg/calc.py && touch pkg/__init__.py && git add -A && git commit -qm SOLUTION && git tag fix
    echo 'def add(a, b): return a - b' > pkg/calc.py && git commit -qam base
    ln -s /usr/bin/python3 python && ln -s pkg/calc.py link && chmod 700 pkg/sub && echo s > pkg/sub/secret && chmod 600 pkg/sub/secret
    echo '#!/bin/sh' > run.sh && chmod 4755 run.sh && mkfifo pipe && echo ignored > .gitignore && echo x > ignored
    echo /testbed > $(python3 -c 'import site; print(site.getsitepackages()[0])')/testbed.pth
    mkdir /work && echo old > /work/old && ln -s /testbed /linked && touch /plain";

/// Builds an image of its own for a test.
struct Image(String);

impl Image {
    fn build(name: &str) -> Self {
        let (image, container) = (format!("refrain-test/{name}:1"), format!("refrain-test-build-{name}"));
        docker(&["rm", "-f", &container]);
        docker(&["run", "--name", &container, "--network", "none", DEBIAN, "bash", "-ec", TESTBED]);
        docker(&["commit", &container, &image]);
        docker(&["rm", "-f", &container]);
        Self(image)
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        let id = docker(&["image", "inspect", "-f", "{{.Id}}", &self.0]);
        let short: String = id.trim_start_matches("sha256:").chars().take(24).collect();
        for made in docker(&["images", "-q", "--filter", &format!("reference=refrain/base:{short}*")]).lines() {
            docker(&["rmi", "-f", made]);
        }
        docker(&["rmi", "-f", &self.0]);
    }
}

fn task(path: &str, mutation: Option<&str>) -> Task {
    serde_json::from_value(json!({
        "id": "t", "name": "t", "track": "swe", "difficulty": null, "description": null,
        "seed": {"kind": "image", "path": path}, "mutation": mutation, "setup_script": null, "prompt": "Do it.",
        "checks": [], "test_command": null, "hidden": {"kind": "none"}, "fail_to_pass": [], "pass_to_pass": [],
        "expected_files": [], "rubric": null, "timeout": {"secs": 600, "nanos": 0}, "multi_session": true,
        "evaluate": "fresh", "phases": [], "metadata": {}, "source": "/tasks/t.yaml",
    }))
    .unwrap()
}

async fn open(runtime: &DockerRuntime, image: &str, workspace: &str, scratch: &Path) -> Box<dyn Environment> {
    let workspace = Some(workspace.into());
    let container = ContainerOptions { network: Network::None, workspace, ..ContainerOptions::default() };
    let spec = EnvironmentSpec { container, ..docker::spec("image-workspace", image, scratch) };
    runtime.open(spec).await.unwrap()
}

async fn sh(env: &dyn Environment, script: &str) -> String {
    let report = env.exec(&Command::shell(script), Output::capture(), &CancellationToken::new()).await.unwrap();
    assert!(report.success(), "{script}: {report:?}");
    String::from_utf8(report.stdout.bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workspace_starts_from_the_image_and_stands_in_for_its_folder() {
    let Some(runtime) = runtime().await else { return };
    let image = Image::build("testbed");
    let dir = tempfile::tempdir().unwrap();
    let env = open(&runtime, &image.0, "/testbed", dir.path()).await;
    assert_eq!(sh(&*env, "pwd -P; ls -A").await, "/work\n", "empty, whatever the image has there");

    let cache = SeedCache::new(dir.path().join("cache"));
    let mutation = "--- a/pkg/calc.py\n+++ b/pkg/calc.py\n@@ -1 +1 @@\n-def add(a, b): return a - b\n+def add(a, b): return a * b\n";
    let seeded = cache.prepare_in(&task("/testbed", Some(mutation)), &*env).await.unwrap();
    assert_eq!(seeded.notes, ["left out `pipe`: it is a named pipe"]);
    let paths: Vec<_> = seeded.baseline.entries().map(|(path, _)| String::from_utf8_lossy(path).into_owned()).collect();
    let expected =
        [".gitignore", "ignored", "link", "pkg/__init__.py", "pkg/calc.py", "pkg/sub/secret", "python", "run.sh"];
    assert_eq!(paths, expected);
    place(&seeded, &*env).await.unwrap();

    // The package that the image installed from its folder is the one that the agent works on.
    let imported = "cd / && python3 -B -c 'import pkg.calc; print(pkg.calc.add(3, 4), pkg.calc.__file__)'";
    assert_eq!(sh(&*env, imported).await, "12 /testbed/pkg/calc.py\n");
    sh(&*env, "echo 'def add(a, b): return a + b' > /testbed/pkg/calc.py && cat pkg/sub/secret && test -w run.sh")
        .await;
    assert_eq!(sh(&*env, imported).await, "7 /testbed/pkg/calc.py\n");
    // One fresh commit, and nothing of the history before it.
    let history = "cd /testbed && git log --all --format=%s && git tag && git status --porcelain && cat $(find /work/.git /testbed/ -type f) |
        grep -c SOLUTION || true; git cat-file --batch-all-objects --batch | grep -a -c SOLUTION || true";
    assert_eq!(sh(&*env, history).await, "Base\n M pkg/calc.py\n0\n0\n");

    env.quiesce().await.unwrap();
    let collected = collect(&*env, &seeded, &dir.path().join("out")).await.unwrap();
    let patch = String::from_utf8_lossy(&collected.diff).into_owned();
    assert_eq!(collected.stats.files_changed, 1, "{patch}");
    assert!(patch.contains("-def add(a, b): return a * b\n+def add(a, b): return a + b"), "{patch}");
    env.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_folder_of_the_image_is_the_tasks_fault() {
    let Some(runtime) = runtime().await else { return };
    let image = Image::build("testbed-absent");
    let dir = tempfile::tempdir().unwrap();
    let cache = SeedCache::new(dir.path().join("cache"));
    for (path, said) in [
        ("/absent", "the image has no folder `/absent`"),
        ("/absent/too", "the image has no folder `/absent/too`"),
        ("/linked", "`/linked` of the image: it is a symlink, which is not followed"),
        ("/linked/pkg", "`/linked/pkg` of the image: `/linked` is a symlink, which is not followed"),
        ("/plain", "`/plain` of the image: it is no folder"),
    ] {
        let env = open(&runtime, &image.0, path, dir.path()).await;
        let error = cache.prepare_in(&task(path, None), &*env).await.unwrap_err();
        assert!(error.is_configuration() && error.full_message().contains(said), "{}", error.full_message());
        env.close().await.unwrap();
    }
    // The image's own `/work` may be meant as well.
    let env = open(&runtime, &image.0, "/work", dir.path()).await;
    let seeded = cache.prepare_in(&task("/work", None), &*env).await.unwrap();
    place(&seeded, &*env).await.unwrap();
    assert_eq!(sh(&*env, "cat old; rm old; ls").await, "old\n");
    env.close().await.unwrap();
    assert_eq!(docker(&["ps", "-aq", "--filter", &format!("ancestor={}", image.0)]), "", "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_installed_harness_and_a_workspace_of_the_image_go_together() {
    let Some(runtime) = runtime().await else { return };
    let image = Image::build("testbed-installed");
    let install = Install {
        content: image.0.clone(),
        script: Some(
            "mkdir -p /usr/local/bin && echo '#!/bin/sh' > /usr/local/bin/agent && chmod 755 /usr/local/bin/agent"
                .to_owned(),
        ),
        env: Vec::new(),
        folder: None,
        program: None,
        probe: None,
        timeout: Duration::from_secs(120),
    };
    let request = PrepareRequest {
        name: "agent".to_owned(),
        image: Some(image.0.clone()),
        container: ContainerOptions::default(),
        install: Some(install),
        stop: CancellationToken::new(),
    };
    let prepared = runtime.prepare(&request, &|_| {}).await.unwrap().unwrap();
    let dir = tempfile::tempdir().unwrap();
    for path in ["/testbed", "/work"] {
        let env = open(&runtime, &prepared.image, path, dir.path()).await;
        assert_eq!(env.image(), Some(prepared.base.as_str()));
        let cache = SeedCache::new(dir.path().join("cache"));
        let seeded = cache.prepare_in(&task(path, None), &*env).await.unwrap();
        place(&seeded, &*env).await.unwrap();
        let expected = if path == "/work" { "/work\nold\n" } else { "/work\nignored\nlink\npkg\npython\nrun.sh\n" };
        assert_eq!(sh(&*env, &format!("agent && cd {path} && pwd -P && ls")).await, expected);
        env.close().await.unwrap();
    }
    docker(&["rmi", "-f", &prepared.image]);
}

#[tokio::test]
async fn a_runtime_without_images_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let local = refrain::runtime::local::LocalRuntime::new(std::sync::Arc::new(refrain::clock::SystemClock::new()));
    let spec = EnvironmentSpec { image: None, ..docker::spec("no-image", "", &dir.path().join("env")) };
    let env = local.open(spec).await.unwrap();
    let error = env.get_from_image(Path::new("/testbed"), dir.path()).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Unavailable { .. }), "{error:?}");
    let error = SeedCache::new(dir.path().join("cache")).prepare_in(&task("/testbed", None), &*env).await.unwrap_err();
    assert!(error.is_configuration() && error.full_message().contains("no image"), "{}", error.full_message());
    env.close().await.unwrap();
}

fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn refrain(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Process::new(env!("CARGO_BIN_EXE_refrain"));
    command.args(args).current_dir(dir).stdin(Stdio::null()).env("HOME", dir).env_remove("REFRAIN_DB");
    let output = command.output().unwrap();
    let both = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&both).into_owned())
}

fn run_file(image: &str, runtime: &str) -> String {
    format!(
        "name: image-workspace\nharnesses:\n\
         \x20 - {{name: fix, adapter: command, config: {{command: \"echo 'def add(a, b): return a + b' > /testbed/pkg/calc.py; echo fixed\"}}}}\n\
         \x20 - {{name: idle, adapter: command, config: {{command: \"echo nothing\"}}}}\n\
         models: [{{name: none, provider: none}}]\ntasks: [calc]\nrepeats: 1\nruntime: {runtime}\nnetwork: none\ndocker_image: {image}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn cells_work_and_are_judged_in_the_images_folder() {
    if runtime().await.is_none() {
        return;
    }
    let image = Image::build("testbed-cells");
    let dir = tempfile::tempdir().unwrap();
    // The test imports the installed package, not a file beside it.
    write(
        &dir.path().join("tasks/calc/tests/hidden/test_calc.py"),
        "from pkg.calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n",
    );
    let task = "id: calc\ntask_prompt: Make add add.\nworkspace: image:/testbed\n\
                test_command: cd / && python3 -m pytest -p no:cacheprovider -rA /testbed/hidden\nfail_to_pass: ['testbed/hidden/test_calc.py::test_add']\n";
    write(&dir.path().join("tasks/calc/task.yaml"), task);
    write(&dir.path().join("runs/r.yaml"), &run_file(&image.0, "docker"));
    let (code, said) = refrain(dir.path(), &["run", "runs/r.yaml"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("2 cells: 1 passed, 1 failed, 0 errored, 0 skipped"), "{said}");
    let ended =
        |word: &str, cell: &str| said.lines().any(|line| line.trim_start().starts_with(word) && line.contains(cell));
    assert!(ended("PASSED", "fix__none__calc__r1") && ended("FAILED", "idle__none__calc__r1"), "{said}");

    write(&dir.path().join("runs/local.yaml"), &run_file(&image.0, "local"));
    let (code, said) = refrain(dir.path(), &["run", "runs/local.yaml"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("task `calc` works in a folder of an image, and `runtime: local` has no images"), "{said}");

    write(&dir.path().join("tasks/calc/task.yaml"), &task.replace("/testbed\n", "/absent\n"));
    write(
        &dir.path().join("runs/absent.yaml"),
        &run_file(&image.0, "docker").replace("name: image-workspace", "name: absent"),
    );
    let (code, said) = refrain(dir.path(), &["run", "runs/absent.yaml"]);
    assert_eq!(code, Some(11), "{said}");
    assert!(said.contains("the image has no folder `/absent`"), "{said}");
}
