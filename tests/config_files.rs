//! Files as people write them: each loads, with every path where its author expects it.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use refrain::config::{LoadOptions, RunPlan, load};
use refrain::domain::task::{HiddenTests, Seed};
use refrain::domain::{CostMode, Micros, Task};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/config").join(name)
}

fn loaded(path: &Path) -> (RunPlan, String) {
    let (plan, warnings) = load(LoadOptions::new(path)).unwrap_or_else(|error| panic!("{error}"));
    (plan, warnings.to_string())
}

fn write(dir: &Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_run_of_harness_evaluator_loads_unchanged() {
    let root = fixture("harness-evaluator");
    let (plan, warnings) = loaded(&root.join("runs/nightly.yaml"));
    // Its harnesses name no place for the gateway; that changes nothing but where the figures come from.
    let told: Vec<&str> = warnings.lines().filter(|line| line.starts_with("warning: ")).collect();
    let expected = ["sessions go past the gateway", "task `open-001` has a rubric, but the run has no `judge`"];
    assert!(told.iter().all(|line| expected.iter().any(|part| line.contains(part))), "{warnings}");
    assert_eq!(plan.name.as_str(), "nightly-2026.11");
    assert_eq!(plan.harnesses[0].image.as_deref(), Some("registry.example:5000/agent:2"));
    assert_eq!(plan.harnesses[1].image.as_deref(), Some("ubuntu:v3"));
    assert_eq!(plan.models[1].cost_mode, CostMode::Subscription);
    assert_eq!(plan.models[1].credentials_path.as_deref(), Some("~/.example/credentials.json"));
    assert_eq!(plan.budget, Some(Micros::new(25_500_000)));
    assert_eq!(plan.max_runtime, Some(Duration::from_secs(1800)));
    assert_eq!(plan.results_db, root.join("runs/results.db"));
    assert_eq!(plan.state_dir, root.join("work"));
    assert_eq!(plan.config_json["gateway_port"], 8877);
    // Two harnesses, three repeats: two models each for `swe` and `open_ended`, one reviewed pair for `multi_phase`.
    assert_eq!(plan.cells.len(), 2 * 3 * (2 + 2 + 1));
    let task = |id: &str| plan.tasks.iter().find(|task| task.id == id).unwrap();
    assert_eq!(task("swe-001").seed, Seed::Directory { path: root.join("tasks/repos/calc") });
    assert!(matches!(&task("swe-001").hidden, HiddenTests::Patch { patch } if patch.contains("test_zero")));
    assert_eq!(task("swe-001").timeout, Duration::from_secs(900));
    assert!(!task("open-001").multi_session);
    let url = Seed::Url { url: "https://git.example/org/calc.git".to_owned(), commit: Some("0a1b2c3d".to_owned()) };
    assert_eq!(task("multi-001").seed, url);
    assert_eq!(task("multi-001").phases[2].timeout, Some(Duration::from_secs(300)));
}

/// Loads a project with one task, `t`, and returns it.
fn task(files: &[(&str, &str)]) -> (tempfile::TempDir, Task) {
    let dir = tempfile::tempdir().unwrap();
    let run =
        "name: x\nharnesses: [{name: h, adapter: command, config: {command: echo}}]\nmodels: [{name: m}]\ntasks: [t]\n";
    write(dir.path(), "runs/r.yaml", run);
    for (name, text) in files {
        write(dir.path(), name, text);
    }
    let (plan, _) = loaded(&dir.path().join("runs/r.yaml"));
    let task = Task::clone(&plan.tasks[0]);
    (dir, task)
}

#[test]
fn repo_url_is_tried_where_its_author_may_mean_it() {
    let head = "task_prompt: x\ntest_command: make\nid: t\n";
    let list = |url: &str| format!("tasks:\n  - {{id: t, task_prompt: x, test_command: make, repo_url: {url}}}\n");
    // Beside the file, below the library, and with the library's own name in front.
    for url in ["repos/a", "./repos/a", "tasks/repos/a", "./tasks/repos/a"] {
        let (dir, task) = task(&[("tasks/l.yaml", &list(url)), ("tasks/repos/a/f", "")]);
        assert_eq!(task.seed, Seed::Directory { path: dir.path().join("tasks/repos/a") }, "{url}");
    }
    let (dir, found) =
        task(&[("tasks/one/task.yaml", &format!("{head}repo_url: ../shared\n")), ("tasks/shared/f", "")]);
    assert_eq!(found.seed, Seed::Directory { path: dir.path().join("tasks/shared") });
    let (dir, found) = task(&[("tasks/one/task.yaml", &format!("{head}repo_url: shared\n")), ("tasks/shared/f", "")]);
    assert_eq!(found.seed, Seed::Directory { path: dir.path().join("tasks/shared") }, "below the library's root");
    for url in ["https://x.example/a.git", "git@x.example:org/a.git", "ssh://x.example/a"] {
        let (_dir, found) = task(&[("tasks/l.yaml", &list(&format!("'{url}'")))]);
        assert_eq!(found.seed, Seed::Url { url: url.to_owned(), commit: None });
    }
}

#[test]
fn a_task_folder_has_its_repository_and_its_tests_beside_it() {
    let text = "id: t\ntask_prompt: x\ntest_command: make\n";
    let (dir, found) = task(&[("tasks/a/task.yaml", text), ("tasks/a/repo/f", ""), ("tasks/a/tests/g", "")]);
    assert_eq!(found.seed, Seed::Directory { path: dir.path().join("tasks/a/repo") });
    assert_eq!(found.hidden, HiddenTests::Overlay { path: dir.path().join("tasks/a/tests") });
    let (_dir, found) = task(&[("tasks/a/task.yaml", text)]);
    assert_eq!((found.seed, found.hidden), (Seed::Empty, HiddenTests::None));
}

#[test]
fn a_git_folder_is_told_from_a_plain_one() {
    let with = |extra: &str| format!("id: t\ntask_prompt: x\ntest_command: make\n{extra}");
    let git = &[("tasks/a/repo/.git/HEAD", "ref: refs/heads/main\n")];
    let (dir, found) = task(&[("tasks/a/task.yaml", &with("repo_url: repo\nrepo_commit: abc\n")), git[0]]);
    assert_eq!(found.seed, Seed::Git { path: dir.path().join("tasks/a/repo"), commit: Some("abc".to_owned()) });
    let bare = [("tasks/b.git/HEAD", "x"), ("tasks/b.git/objects/x", ""), ("tasks/b.git/refs/x", "")];
    let (dir, found) = task(&[("tasks/a/task.yaml", &with("repo_url: b.git\n")), bare[0], bare[1], bare[2]]);
    assert_eq!(found.seed, Seed::Git { path: dir.path().join("tasks/b.git"), commit: None });
}

#[test]
fn patches_stand_in_the_file_or_beside_it() {
    let text = "id: t\ntask_prompt: x\ntest_command: make\nmutation: break.patch\ntest_patch: |\n  --- a\n  +++ b\n";
    let (_dir, found) = task(&[("tasks/a/task.yaml", text), ("tasks/a/break.patch", "the patch\n")]);
    assert_eq!(found.mutation.as_deref(), Some("the patch\n"));
    assert_eq!(found.hidden, HiddenTests::Patch { patch: "--- a\n+++ b\n".to_owned() });
}

#[test]
fn defaults_lie_in_the_project() {
    let dir = tempfile::tempdir().unwrap();
    let run = "name: x\nharnesses: [{name: command, config: {command: echo}}]\nmodels: [{name: m}]\ntasks: '*'\n";
    write(dir.path(), "tasks/t.yaml", "tasks: [{id: t, task_prompt: x, test_command: make}]\n");
    // Below `runs` the project is the folder above; elsewhere it is the file's own.
    for file in ["runs/r.yaml", "r.yaml"] {
        write(dir.path(), file, run);
        let (plan, _) = loaded(&dir.path().join(file));
        assert_eq!(plan.results_db, dir.path().join("refrain.db"));
        assert_eq!(plan.state_dir, dir.path().join(".refrain"));
        assert_eq!((plan.repeats, plan.parallel_runs, plan.budget), (5, 1, None));
        assert_eq!((plan.retry.infrastructure, plan.retry.on_timeout), (3, false));
        assert_eq!(plan.limits.idle_timeout, Duration::from_secs(1800));
    }
}

#[test]
fn money_and_time_are_read_in_every_spelling() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        "tasks/t.yaml",
        "tasks: [{id: t, task_prompt: x, test_command: make, timeout_seconds: 1h 30m}]\n",
    );
    let head = "name: x\nharnesses: [{name: command, config: {command: echo}}]\nmodels: [{name: m}]\ntasks: ['*']\n";
    for (money, micros) in
        [("0", 0), ("25", 25_000_000), ("0.5", 500_000), ("25 USD", 25_000_000), ("$1.50", 1_500_000)]
    {
        let text = format!("{head}budget_usd: {money}\nmax_runtime_seconds: 90s\nlimits: {{idle_timeout: 60}}\n");
        write(dir.path(), "r.yaml", &text);
        let (plan, _) = loaded(&dir.path().join("r.yaml"));
        assert_eq!(plan.budget, Some(Micros::new(micros)), "{money}: zero is a cap, not none");
        assert_eq!(plan.max_runtime, Some(Duration::from_secs(90)));
        assert_eq!(plan.limits.idle_timeout, Duration::from_secs(60));
        assert_eq!(plan.tasks[0].timeout, Duration::from_secs(5400));
    }
}

#[test]
fn a_harness_of_ones_own_is_named_by_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "tasks/t.yaml", "tasks: [{id: t, task_prompt: x, test_command: make}]\n");
    let manifest = "name = \"mine\"\n[run]\nargv = [\"agent\", \"{prompt}\"]\nresume_args = [\"--resume\", \"{session}\"]\n[probe]\nargv = [\"agent\", \"--version\"]\n[config.play]\ntype = \"path\"\n[config.level]\ntype = \"number\"\ndefault = 3\n[output]\nformat = \"json-lines\"\n[[output.rule]]\nwhen = { type = \"result\" }\nis = \"completed\"\ntext = \"result\"\nusage = { input = \"usage.input_tokens\" }\ncost = \"total_cost_usd\"\n";
    write(dir.path(), "agents/mine/harness.toml", manifest);
    let run = "name: x\nharnesses: [{name: a, adapter: ../agents/mine, config: {play: play.yaml}}]\nmodels: [{name: m}]\ntasks: ['*']\n";
    write(dir.path(), "runs/r.yaml", run);
    let (plan, _) = loaded(&dir.path().join("runs/r.yaml"));
    let entry = &plan.harnesses[0];
    assert_eq!(entry.manifest.argv, ["agent", "{prompt}"]);
    assert_eq!(entry.manifest.resume_args.as_deref(), Some(["--resume".to_owned(), "{session}".to_owned()].as_slice()));
    assert_eq!(entry.manifest.cost_args, None);
    assert_eq!(entry.config["play"], dir.path().join("runs/play.yaml").display().to_string());
    assert_eq!(entry.config["level"], 3);
    let refrain::config::harness_manifest::OutputSpec::JsonLines(spec) = &entry.manifest.output else {
        panic!("the output is read as JSON lines");
    };
    assert_eq!(spec.rules[0].usage["input"], "usage.input_tokens");
    assert_eq!(spec.rules[0].when["type"], "result");
}
