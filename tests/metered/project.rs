//! A project whose agent is a few lines of Python that ask the provider.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::program::{self, Ran};
use super::provider::Provider;

/// The provider's real key.
pub(crate) const KEY: &str = "sk-ant-0123456789abcdef0123456789";

/// The first cell of the run.
pub(crate) const CELL: &str = "agent__claude-sonnet-4-5__greet__r1";

/// What the agent's programs may use.
const AGENT: &str = r#"
import json, os, sys, time, urllib.request, urllib.error
base, marks = sys.argv[1], sys.argv[2]

def ask(text, model="claude-sonnet-4-5"):
    body = json.dumps({"model": model, "max_tokens": 9, "messages": [{"role": "user", "content": text}]})
    headers = {"content-type": "application/json", "x-api-key": os.environ["FAKE_KEY"]}
    request = urllib.request.Request(base + "/v1/messages", body.encode(), headers)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)

def asks(count, pause=0):
    for number in range(count):
        ask("request %d" % number)
        time.sleep(pause)

def mark(name):
    path = os.path.join(marks, name)
    if os.path.exists(path):
        return False
    open(path, "w").close()
    return True

def once(seconds):
    if mark("waiting"):
        time.sleep(seconds)

def hangs_once():
    if mark("hanging"):
        ask("hang")

def env():
    with open("env.txt", "w") as file:
        file.write(repr(dict(os.environ)))
    os.system("cp env.txt " + marks)

"#;

/// A project.
pub(crate) struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// A run `metered` of one cell, whose agent does `does`.
    pub(crate) fn new(provider: &Provider, does: &str, settings: &str) -> Self {
        let project = Self { dir: tempfile::tempdir().expect("a folder") };
        fs::create_dir(project.path().join("marks")).expect("made");
        project.file("agent.py", &format!("{AGENT}{does}\nprint('done')\n"));
        project.file(
            "tasks/greet/task.yaml",
            "id: greet\ntask_prompt: Greet.\ntest_command: 'echo 1..1; echo ok 1 - x'\n",
        );
        let repeats = if settings.contains("repeats") { "" } else { "repeats: 1\n" };
        let (agent, marks) = (project.path().join("agent.py"), project.path().join("marks"));
        let (agent, marks, place) = (agent.display(), marks.display(), &provider.base_url);
        let argv = format!("[python3, \"{agent}\", \"{{base_url}}\", \"{marks}\"]");
        project.file(
            "runs/metered.yaml",
            &format!(
                "name: metered\nharnesses: [{{name: agent, adapter: command, config: {{argv: {argv}}}}}]\nmodels:\n  - {{name: \
                 claude-sonnet-4-5, provider: anthropic, api_key_env: FAKE_KEY, config: {{base_url: \"{place}\"}}}}\ntasks: \
                 [greet]\ntask_library_path: ../tasks\nresults_db: refrain.db\nworkdir: ../state\nruntime: local\nretry: \
                 {{infrastructure: 0}}\n{repeats}{settings}"
            ),
        );
        project
    }

    /// Gives the run's model more settings.
    pub(crate) fn with_model(self, settings: &str) -> Self {
        let name = "runs/metered.yaml";
        let text = fs::read_to_string(self.path().join(name)).expect("readable");
        self.file(name, &text.replace("api_key_env: FAKE_KEY", &format!("api_key_env: FAKE_KEY, {settings}")));
        self
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    fn file(&self, name: &str, text: &str) {
        program::write(self.path(), name, text);
    }

    fn command(&self, args: &[&str]) -> Command {
        program::command(self.path(), args, ("FAKE_KEY", KEY))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        program::ran(&mut self.command(args))
    }

    pub(crate) fn run_without_key(&self, args: &[&str]) -> Ran {
        program::ran(self.command(args).env_remove("FAKE_KEY"))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    }

    /// Waits until the agent has left a mark.
    pub(crate) fn wait_for(&self, mark: &str) {
        let path = self.path().join("marks").join(mark);
        program::wait_until(mark, || path.exists().then_some(()));
    }

    /// Reads what the agent has left outside its workspace.
    pub(crate) fn left(&self, name: &str) -> String {
        fs::read_to_string(self.path().join("marks").join(name)).expect("the agent left it")
    }

    /// Returns the events of the run's first start as they are kept.
    pub(crate) fn events(&self) -> Vec<String> {
        let database = rusqlite::Connection::open(self.path().join("runs/refrain.db")).expect("opens");
        let mut statement = database.prepare("SELECT event_json FROM events ORDER BY seq").expect("there");
        let events = statement.query_map([], |row| row.get(0)).expect("read");
        events.collect::<Result<_, _>>().expect("texts")
    }

    /// Returns every file that the run has left, with its bytes.
    pub(crate) fn everything_kept(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut folders = vec![self.path().join("runs"), self.path().join("state")];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("readable").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = fs::read(&path).expect("readable");
                    found.push((path, bytes));
                }
            }
        }
        found
    }
}
