//! A project whose agents keep a log of their own, outside of everything that the program can see.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

#[cfg(feature = "docker")]
use crate::docker::{BUSYBOX, docker};
#[cfg(feature = "docker")]
use crate::witness::Witness;

/// What one session costs: 100 tokens in at $1 and 10 out at $5 a million.
pub(crate) const SESSION_MICROS: i64 = 150;

/// The agent: works in two halves, so that a workspace which was left in between is seen, and notes in its own log when
/// it began, what it spent, and that it has reported its result.
const AGENT: &str = r#"
read -r step
read -r machine < /proc/sys/kernel/hostname
id="$step|$machine:$PWD|$$"
note "begin|$id"
printf '{"type":"message","text":"%s"}\n' "$id"
note "spent|$id"
echo '{"type":"usage","input":100,"output":10,"cache_read":0,"cache_write":0,"reasoning":0}'
printf 'half ' >> progress
sleep 0.$(( ($$ % 20) + 5 ))
echo "$step" >> progress
printf '{"type":"result","status":"completed","text":"%s","turns":1}\n' "$id"
note "end|$id"
"#;

const HARNESS: &str = r#"
name = "logging"
[run]
argv = ["sh", "agent.sh"]
prompt = "stdin"
[output]
format = "json-lines"
[[output.rule]]
when = { type = "message" }
is = "message"
text = "text"
[[output.rule]]
when = { type = "usage" }
usage = { input = "input", output = "output", cache_read = "cache_read", cache_write = "cache_write", reasoning = "reasoning" }
usage_mode = "sum"
[[output.rule]]
when = { type = "result", status = "completed" }
is = "completed"
text = "text"
turns = "turns"
"#;

/// One session after the other, with calls of every other kind between them.
const STEPS: &str = r#"
local checks, clock, exec = require("@std/checks"), require("@std/clock"), require("@std/exec")
local workspace = require("@std/workspace")
for step = 1, 3 do
  local began = clock.now()
  local result = session("step-" .. step, { label = "step " .. step })
  assert(result.ok, result.reason)
  local lines = select(2, string.gsub(workspace.read("progress"), "\n", ""))
  assert(lines == step, "after step " .. step .. " the workspace has " .. lines .. " lines")
  workspace.write("note", "step " .. step .. " began at " .. began)
  if step == 1 then assert(checks.run().ok) end
  if step == 2 then assert(exec.run({ "sh", "-c", "echo built > built" }).ok) end
  log.info("step " .. step .. " is done")
end
return { note = "three steps" }
"#;

/// Two copies worked on at the same time, the better one taken, and one more session over it.
const FORKS: &str = r#"
local fork, workspace = require("@std/fork"), require("@std/workspace")
local results, copies = fork.each(2, function(copy, index)
  return session("step-" .. index .. "-of-2", { workspace = copy })
end)
assert(results[1].ok and results[2].ok)
fork.merge(copies[2])
fork.discard(copies[1])
assert(not workspace.exists("built"))
assert(session("step-last").ok)
return { note = "the second copy" }
"#;

/// The cells of a project, and when its hosts are killed.
pub(crate) struct Project {
    dir: tempfile::TempDir,
    runtime: String,
    /// Repeats of each of the two orchestrators.
    repeats: usize,
    parallel: usize,
    /// The longest time after a sign of the agents, and after a start, in milliseconds.
    pub(crate) pause: u64,
    pub(crate) start: u64,
    #[cfg(feature = "docker")]
    witness: Option<Witness>,
}

impl Project {
    /// Agents are processes of this machine, and write their log themselves.
    pub(crate) fn local() -> Self {
        // In memory where that is possible: what a kill can break is the same, and a slow disk would stretch the campaign.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let project = Self {
            dir: dir.expect("a folder"),
            runtime: "runtime: local".to_owned(),
            repeats: 20,
            parallel: 8,
            pause: 150,
            start: 150,
            #[cfg(feature = "docker")]
            witness: None,
        };
        fs::write(project.log(), "").expect("written");
        let note = format!("note() {{ echo \"$1\" >> '{}'; }}\n", project.log().display());
        project.fill(&note);
        project
    }

    /// Agents are in containers, and tell a witness over the network what goes into their log.
    #[cfg(feature = "docker")]
    pub(crate) fn docker() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("agents.log"), "").expect("written");
        let witness = Witness::listen(dir.path().join("agents.log"));
        let note = witness.note();
        let project = Self {
            dir,
            runtime: format!("runtime: docker\ndocker_image: {BUSYBOX}\nnetwork: bridge"),
            repeats: 3,
            parallel: 3,
            pause: 400,
            start: 1500,
            witness: Some(witness),
        };
        project.fill(&note);
        project
    }

    pub(crate) fn cells(&self) -> usize {
        2 * self.repeats
    }

    fn log(&self) -> PathBuf {
        self.path().join("agents.log")
    }

    /// Writes everything but the run files; `note` defines how an agent writes to its log.
    fn fill(&self, note: &str) {
        let project = self;
        project.file("tasks/climb/repo/agent.sh", &format!("{note}{AGENT}"));
        project.file("harness/harness.toml", HARNESS);
        project.file("tasks/climb/task.yaml", "id: climb\ntask_prompt: Climb.\nchecks: ['test -s progress']\ntest_command: sh hidden.sh\ntimeout_seconds: 120\n");
        project.file("tasks/climb/repo/README", "a hill\n");
        let expected = "half step-1\\nhalf step-2\\nhalf step-3\\n|half step-2-of-2\\nhalf step-last\\n";
        let (steps, forks) = expected.split_once('|').expect("two");
        project.file(
            "tasks/climb/tests/hidden.sh",
            &format!(
                "echo 1..1\nprintf '{steps}' > a; printf '{forks}' > b\n\
                 if cmp -s progress a || cmp -s progress b; then echo ok 1 - climbed; else echo not ok 1 - climbed; cat progress; exit 1; fi\n"
            ),
        );
        for (slug, script) in [("steps", STEPS), ("forks", FORKS)] {
            project.file(&format!("mine/{slug}/orchestrator.toml"), &format!("slug = \"{slug}\"\napi = 1\n"));
            project.file(&format!("mine/{slug}/runner.lua"), script);
        }
    }

    /// Writes the run file of a run of all cells and returns its place.
    pub(crate) fn run_file(&self, name: &str) -> String {
        let file = format!("runs/{name}.yaml");
        self.file(
            &file,
            &format!(
                "name: {name}\nharnesses: [{{name: logging, adapter: ../harness}}]\n\
                 models: [{{name: scripted-small, provider: none}}]\ntasks: [climb]\n{}\nrepeats: {}\n\
                 parallel_runs: {}\nbudget_usd: 100\nlimits: {{cell_cost: 0.01}}\norchestrators: [{{dir: ../mine/steps}}, {{dir: ../mine/forks}}]\n",
                self.runtime, self.repeats, self.parallel
            ),
        );
        file
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self, name: &str, content: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders are made");
        fs::write(path, content).expect("written");
    }

    pub(crate) fn refrain(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for name in ["REFRAIN_DB", "REFRAIN_PATH", "REFRAIN_LOG"] {
            command.env_remove(name);
        }
        command.env("HOME", self.path()).env_remove("XDG_CONFIG_HOME");
        command
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let said = OpenOptions::new().create(true).append(true).open(self.path().join("hosts.log")).expect("a log");
        self.refrain(args).stdout(Stdio::null()).stderr(said).spawn().expect("the program starts")
    }

    /// Waits until the agents have written so many more lines, or the host has ended.
    pub(crate) fn wait_for_agents(&self, host: &mut Child, lines: u64) {
        let count = || fs::read(self.log()).map_or(0, |log| log.split(|&byte| byte == b'\n').count());
        let enough = count() + usize::try_from(lines).expect("few");
        while count() < enough && host.try_wait().expect("asked").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
    }

    /// The lines of the agents' own log: what happened, and to which run of the agent.
    pub(crate) fn agents(&self, what: &str) -> Vec<String> {
        let log = fs::read_to_string(self.log()).expect("the log");
        log.lines().filter_map(|line| line.strip_prefix(what)?.strip_prefix('|')).map(str::to_owned).collect()
    }

    /// Command lines of processes that belong to the project, and its containers.
    pub(crate) fn processes(&self) -> Vec<String> {
        let needle = self.path().display().to_string();
        let mut found = self.containers();
        for entry in fs::read_dir("/proc").expect("proc").flatten() {
            let text = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
            let shown = String::from_utf8_lossy(&text("cmdline")).replace('\0', " ");
            // A shell's `sleep` shows the folder only in its environment.
            if shown.contains(&needle)
                || String::from_utf8_lossy(&text("environ")).contains(&format!("{needle}/.refrain"))
            {
                found.push(shown);
            }
        }
        found
    }

    fn containers(&self) -> Vec<String> {
        #[cfg(feature = "docker")]
        if self.witness.is_some() {
            let shown = "{{.Names}} {{.Label \"refrain.scratch\"}}";
            let all = docker(&["ps", "-a", "--filter", "label=refrain.schema", "--format", shown]);
            let needle = self.path().display().to_string();
            return all.lines().filter(|line| line.contains(&needle)).map(str::to_owned).collect();
        }
        Vec::new()
    }

    /// Everything below the state folder that is no result: scratch folders and files that were being written.
    pub(crate) fn left_over(&self) -> Vec<PathBuf> {
        let state = self.path().join(".refrain");
        let mut found: Vec<_> =
            fs::read_dir(state.join("scratch")).into_iter().flatten().flatten().map(|e| e.path()).collect();
        let temporary = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with(".writing-") || name.starts_with(".building-") || name.ends_with(".json.new")
        };
        found.extend(walk(&state).into_iter().filter(temporary));
        found
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.dir.disable_cleanup(true);
            eprintln!("what is left of the campaign is kept in {}", self.path().display());
        }
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(walk(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}
