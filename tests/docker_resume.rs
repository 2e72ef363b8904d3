//! Attempts in containers whose host is killed in a session: the next host goes on in the same container.

#![cfg(all(feature = "docker", feature = "cli"))]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod docker;

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use docker::{BUSYBOX, containers, docker as command, runtime};
use serde_json::Value;

const CELL: &str = "agent__none__count__r1__orch-two";

/// Two sessions; tells what is in the workspace, and how often an agent was started.
const SCRIPT: &str = r#"
local exec, workspace = require("@std/exec"), require("@std/workspace")
session("first")
session("second")
exec.run({ "sh", "-c", "cp \"$HOME/starts\" starts" })
return { note = workspace.read("progress") .. "starts: " .. workspace.read("starts") }
"#;

/// Prints nothing that says how it ended: only the container knows. `WAIT` is what its second session waits for.
const AGENT: &str = r#"echo "$REFRAIN_PROMPT" >> "$HOME/starts"
printf "half " >> progress
[ "$REFRAIN_PROMPT" = first ] || { WAIT; }
echo "$REFRAIN_PROMPT" >> progress
echo done"#;
const FOR_A_SIGN: &str = r#"while [ ! -e "$HOME/go" ]; do sleep 0.1; done"#;
const IN_VAIN_ONCE: &str = r#"[ -e "$HOME/again" ] || { touch "$HOME/again"; while [ ! -e "$HOME/go" ]; do echo x >> "$HOME/beats"; sleep 0.1; done; }"#;
const IN_THE_SECOND: &str = r#"grep -q second "$HOME/starts" && [ "$(tail -c 5 /work/progress)" = "half " ]"#;

/// A project whose host was killed while the second session ran.
struct Killed {
    dir: tempfile::TempDir,
    name: String,
}

impl Killed {
    fn new(name: &str, wait: &str) -> Self {
        let killed = Self { dir: tempfile::tempdir().unwrap(), name: name.to_owned() };
        killed.write("tasks/count/repo/README", "count\n");
        killed.write(
            "tasks/count/task.yaml",
            "id: count\nname: Count\ntask_prompt: Count.\ntest_command: grep -qx 'half second' progress\n",
        );
        killed.write("two/orchestrator.toml", "slug = \"two\"\napi = 1\n");
        killed.write("two/runner.lua", SCRIPT);
        let agent = AGENT.replace("WAIT", wait).replace('\n', "\n        ");
        killed.write(
            "runs/two.yaml",
            &format!(
                "name: test-{name}\nharnesses:\n  - name: agent\n    adapter: command\n    config:\n      command: |\n        {agent}\n\
                 models: [{{name: none}}]\ntasks: [count]\nrepeats: 1\nruntime: docker\nnetwork: none\n\
                 docker_image: {BUSYBOX}\norchestrators: [{{dir: ../two}}]\n"
            ),
        );
        let mut host = killed.start(&["run", "runs/two.yaml", "--progress", "lines"]);
        killed.wait_for(&mut host, "the second session begins", IN_THE_SECOND);
        host.kill().unwrap();
        host.wait().unwrap();
        killed
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn refrain(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
        command.args(args).current_dir(self.dir.path()).env("HOME", self.dir.path()).env_remove("REFRAIN_DB");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn start(&self, args: &[&str]) -> Child {
        self.refrain(args).spawn().unwrap()
    }

    /// Runs a shell line in the container as the agent; tells whether it succeeds.
    fn inside(&self, line: &str) -> bool {
        let Some(id) = containers(&self.name).pop() else { return false };
        let home = "HOME=/refrain/home";
        let args = ["exec", "-u", "1000:1000", "-e", home, &id, "sh", "-c", line];
        Command::new("docker").args(args).output().unwrap().status.success()
    }

    fn wait_for(&self, host: &mut Child, what: &str, line: &str) {
        for _ in 0..600 {
            if self.inside(line) {
                return;
            }
            if host.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("it never came to pass that {what}");
    }

    /// Goes on with the run, to its end; checks that nothing is left then.
    fn go_on(&self) -> (String, Value) {
        let ran: Output =
            self.refrain(&["resume", &format!("test-{}", self.name), "--progress", "lines"]).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(0), "{said}");
        assert_eq!(containers(&self.name), Vec::<String>::new(), "containers were left: {said}");
        let scratch = fs::read_dir(self.dir.path().join(".refrain/scratch")).into_iter().flatten().flatten();
        assert_eq!(scratch.map(|entry| entry.path()).collect::<Vec<_>>(), Vec::<std::path::PathBuf>::new());
        (said, self.record())
    }

    fn record(&self) -> Value {
        let run = format!("test-{}", self.name);
        let shown = self.refrain(&["show", CELL, "--run", &run, "--json"]).output().unwrap();
        serde_json::from_slice(&shown.stdout).expect("a record")
    }
}

fn number(record: &Value) -> &Value {
    &record["attempt"]["number"]
}

fn text<'a>(record: &'a Value, name: &str) -> &'a str {
    record[name].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ended_while_no_host_lived_is_taken_up_by_what_its_container_says() {
    let Some(_) = runtime().await else { return };
    let killed = Killed::new("resume-ended", FOR_A_SIGN);
    assert!(killed.inside("touch $HOME/go"));
    for _ in 0..600 {
        // The records of two sessions, and the last word of the second one.
        if killed.inside("grep -qx 'half second' /work/progress && [ $(cat /refrain/log/*.end | wc -l) = 2 ]") {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let (said, record) = killed.go_on();
    assert!(said.contains("attempt 1 goes on where its host died"), "{said}");
    assert_eq!(number(&record), 1);
    assert_eq!(text(&record, "note"), "half first\nhalf second\nstarts: first\nsecond\n");
    let second = &record["sessions"][1];
    assert_eq!((&second["exit_code"], &second["text"]), (&Value::from(0), &Value::from("done")), "{second}");
    assert!(record["warnings"].to_string().contains("had finished when its host died"), "{record}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_cut_off_is_held_again_over_the_workspace_as_it_was_before() {
    let Some(_) = runtime().await else { return };
    let killed = Killed::new("resume-again", IN_VAIN_ONCE);
    let (said, record) = killed.go_on();
    assert!(said.contains("attempt 1 goes on where its host died"), "{said}");
    assert_eq!(number(&record), 1);
    assert_eq!(text(&record, "note"), "half first\nhalf second\nstarts: first\nsecond\nsecond\n");
    assert!(record["warnings"].to_string().contains("session 2 was cut off"), "{record}");
    assert!(record["inputs"]["image"].as_str().is_some_and(|image| image.starts_with("sha256:")), "{record}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_beside_it_ends_the_agent_and_leaves_the_container_to_who_goes_on() {
    let Some(_) = runtime().await else { return };
    let killed = Killed::new("resume-beside", IN_VAIN_ONCE);
    let id = containers(&killed.name);
    let run = fs::read_to_string(killed.dir.path().join("runs/two.yaml")).unwrap();
    killed.write("runs/other.yaml", &run.replace("test-resume-beside", "test-resume-other").replace(IN_VAIN_ONCE, ":"));
    let other = killed.refrain(&["run", "runs/other.yaml", "--progress", "none"]).output().unwrap();
    assert_eq!(other.status.code(), Some(0), "{}", String::from_utf8_lossy(&other.stderr));
    assert_eq!(containers(&killed.name), id);
    let quiet = "before=$(wc -c < $HOME/beats); sleep 1; [ $before = $(wc -c < $HOME/beats) ]";
    assert!(killed.inside(quiet), "the agent runs on");
    assert_eq!(containers("resume-other"), Vec::<String>::new());
    assert_eq!(number(&killed.go_on().1), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_gone_or_has_ended_begins_afresh() {
    let Some(_) = runtime().await else { return };
    for (name, how) in [("resume-gone", &["rm", "-fv"][..]), ("resume-dead", &["kill"][..])] {
        let killed = Killed::new(name, IN_VAIN_ONCE);
        let ids = containers(name);
        command(&[how, &[ids[0].as_str()][..]].concat());
        // A new container has a new home, where nothing tells that it was tried before.
        let mut host = killed.start(&["resume", &format!("test-{name}"), "--progress", "lines"]);
        killed.wait_for(&mut host, "the agent works again", "[ -e $HOME/again ]");
        assert!(killed.inside("touch $HOME/go"));
        let ran = host.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(said.contains("begun afresh: its environment is gone"), "{said}");
        assert_eq!(ran.status.code(), Some(0), "{said}");
        assert_eq!(number(&killed.record()), 2);
        assert_eq!(containers(name), Vec::<String>::new());
    }
}
