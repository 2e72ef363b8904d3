use std::fs;
use std::path::PathBuf;

use super::*;
use crate::config::{LoadOptions, load};

/// A project with one task on a plain folder and hidden tests in another.
struct Project {
    dir: tempfile::TempDir,
}

const RUN: &str = "name: one\nharnesses: [{name: h, adapter: command, config: {command: echo}}]\nmodels: [{name: m}]\ntasks: [a]\nrepeats: 2\n";

impl Project {
    fn new() -> Self {
        let project = Self { dir: tempfile::tempdir().expect("a folder") };
        project.write("runs/r.yaml", RUN);
        project.write("tasks/a/task.yaml", "id: a\ntask_prompt: fix it\ntest_command: make test\n");
        project.write("tasks/a/repo/main.c", "int main;");
        project.write("tasks/a/tests/t.c", "test");
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below")).expect("folders");
        fs::write(path, text).expect("written");
    }

    fn key(&self) -> String {
        let (plan, _) = load(LoadOptions::new(self.path("runs/r.yaml"))).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(plan.cell_key(&plan.cells[0]), plan.cell_key(&plan.cells[1]), "repeats are the same work");
        plan.cell_key(&plan.cells[0]).to_string()
    }
}

#[test]
fn place_name_money_and_ports_do_not_count() {
    let key = Project::new().key();
    let other = Project::new();
    let more = "budget_usd: 3\nparallel_runs: 4\ngateway_port: 9999\ndescription: x\nlimits: {sessions: 7}\ngateway: {mode: \"off\", record: bodies}\nproviders: {openai: {base_url: 'http://h:1', concurrency: 3}}\n";
    other.write("runs/r.yaml", &format!("{}{more}", RUN.replace("name: one", "name: two")));
    assert_eq!(other.key(), key);
    other
        .write("tasks/a/task.yaml", "id: a\nname: A\ndifficulty: easy\ntask_prompt: fix it\ntest_command: make test\n");
    assert_eq!(other.key(), key);
}

#[test]
fn everything_that_is_meant_counts() {
    let key = Project::new().key();
    let changes: &[(&str, &str)] = &[
        ("tasks/a/repo/main.c", "int main();"),
        ("tasks/a/repo/more.c", ""),
        ("tasks/a/tests/t.c", "another test"),
        ("tasks/a/task.yaml", "id: a\ntask_prompt: fix all\ntest_command: make test\n"),
        ("tasks/a/task.yaml", "id: a\ntask_prompt: fix it\ntest_command: make tests\n"),
        ("tasks/a/task.yaml", "id: a\ntask_prompt: fix it\ntest_command: make test\ntimeout_seconds: 5\n"),
        ("runs/r.yaml", &RUN.replace("command: echo", "command: printf")),
        ("runs/r.yaml", &RUN.replace("name: m", "name: other")),
        ("runs/r.yaml", &format!("{RUN}docker_image: debian\n")),
    ];
    for (file, text) in changes {
        let project = Project::new();
        project.write(file, text);
        assert_ne!(project.key(), key, "{file}: {text}");
    }
}

#[test]
fn params_and_scripts_count() {
    let project = Project::new();
    let script = |text: &str, rounds: u32| {
        project.write("mine/orchestrator.toml", "slug = \"mine\"\napi = 1\n[params]\nrounds = 1\n");
        project.write("mine/runner.lua", text);
        project
            .write("runs/r.yaml", &format!("{RUN}orchestrators: [{{dir: ../mine, params: {{rounds: {rounds}}}}}]\n"));
        project.key()
    };
    let first = script("return {}", 1);
    assert_eq!(first, script("return {}", 1));
    assert_ne!(first, script("return {}", 2));
    assert_ne!(first, script("return nil", 1));
}

#[test]
fn the_commit_of_a_git_seed_is_read_without_git() {
    let dir = tempfile::tempdir().expect("a folder");
    let git = dir.path().join(".git");
    fs::create_dir_all(git.join("refs/heads")).expect("folders");
    fs::write(git.join("HEAD"), "ref: refs/heads/main\n").expect("written");
    assert_eq!(git_head(dir.path()), "unborn refs/heads/main");
    fs::write(git.join("packed-refs"), "# pack-refs\nabc123 refs/heads/main\n").expect("written");
    assert_eq!(git_head(dir.path()), "abc123");
    fs::write(git.join("refs/heads/main"), "def456\n").expect("written");
    assert_eq!(git_head(dir.path()), "def456");
    fs::write(git.join("HEAD"), "0123\n").expect("written");
    assert_eq!(git_head(dir.path()), "0123");
}

#[test]
fn the_file_behind_a_path_setting_counts_and_its_place_does_not() {
    let with_setting = |at: &str, text: &str| {
        let project = Project::new();
        project.write(
            "h/harness.toml",
            "name = \"h\"\n[run]\nargv = [\"x\", \"{prompt}\"]\n[config.script]\ntype = \"path\"\n",
        );
        project.write(at, text);
        let run = RUN.replace(
            "adapter: command, config: {command: echo}",
            &format!("adapter: ../h, config: {{script: ../{at}}}"),
        );
        project.write("runs/r.yaml", &run);
        project.key()
    };
    assert_eq!(with_setting("a.yaml", "x"), with_setting("b/c.yaml", "x"));
    assert_ne!(with_setting("a.yaml", "x"), with_setting("a.yaml", "y"));
}
