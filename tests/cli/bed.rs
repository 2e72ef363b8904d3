//! A project in a folder of its own, and the program run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A project for one test.
pub(crate) struct TestBed {
    dir: tempfile::TempDir,
}

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl TestBed {
    /// An empty project.
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a folder") }
    }

    /// A project with one task (`greeting`) and a run named `demo` of one cell; `play` is what the agent does.
    pub(crate) fn with_play(play: &str) -> Self {
        let bed = Self::new();
        bed.file("tasks/greeting/repo/greet.sh", "echo hello\n");
        bed.file(
            "tasks/greeting/task.yaml",
            "id: greeting\nname: Greet\ntask_prompt: Greet the world.\nchecks: ['test \"$(sh greet.sh)\" = \"hello world\"']\n\
             test_command: sh hidden.sh\ntimeout_seconds: 30\n",
        );
        bed.file(
            "tasks/greeting/tests/hidden.sh",
            "echo 1..1\nif [ \"$(sh greet.sh)\" = 'hello world' ]; then echo ok 1 - greets; else echo not ok 1 - greets; exit 1; fi\n",
        );
        bed.file("runs/demo.play.yaml", play);
        bed.file("runs/demo.yaml", &Self::run_file("orchestrators: [one-shot]\nrepeats: 1\n"));
        bed
    }

    /// The run file of [`TestBed::with_play`] with other settings at its end.
    pub(crate) fn run_file(settings: &str) -> String {
        format!(
            "name: demo\nharnesses:\n  - name: scripted\n    config: {{play: demo.play.yaml}}\nmodels:\n  \
             - {{name: scripted-small, provider: scripted}}\ntasks: [greeting]\nruntime: local\n{settings}"
        )
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders are made");
        fs::write(&path, content).expect("the file is written");
        path
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
        command.args(args).current_dir(self.path()).stdin(Stdio::null());
        for name in ["REFRAIN_DB", "REFRAIN_PATH", "REFRAIN_LOG", "NO_COLOR", "CLICOLOR_FORCE"] {
            command.env_remove(name);
        }
        // The user's own orchestrators are no part of a test.
        command.env("HOME", self.path()).env_remove("XDG_CONFIG_HOME");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().expect("the program starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&self.path().display().to_string(), "[dir]");
        Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts")
    }

    /// Where the program keeps what its one run was started with.
    pub(crate) fn started(&self) -> PathBuf {
        let files = all_below(&self.path().join(".refrain/runs"));
        files.into_iter().find(|path| path.ends_with("started.json")).expect("it is kept")
    }

    /// The rows of `results --json`.
    pub(crate) fn results(&self) -> Vec<serde_json::Value> {
        let ran = self.run(&["results", "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let value: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
        value["results"].as_array().expect("a list").clone()
    }

    /// The record of a cell.
    pub(crate) fn record(&self, cell: &str) -> serde_json::Value {
        let ran = self.run(&["show", cell, "--json"]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        serde_json::from_str(&ran.stdout).expect("valid JSON")
    }
}

/// Says that a test cannot run here, past what the test harness keeps to itself: it shows as one that passed.
pub(crate) fn skipped(what: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}

/// Waits until something is there.
pub(crate) fn wait_for(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits for a program that was [started](TestBed::start); returns its code and what it said.
pub(crate) fn finish(mut child: Child) -> (Option<i32>, String) {
    use std::io::Read as _;
    let mut shown = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut shown).expect("text");
    (child.wait().expect("ends").code(), shown)
}

/// Sends a signal, by its name with a dash before it.
pub(crate) fn signal(child: &Child, signal: &str) {
    let status = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs");
    assert!(status.success());
}

/// The processes whose command line names something in the project.
pub(crate) fn processes_of(bed: &TestBed) -> Vec<String> {
    let needle = bed.path().display().to_string();
    let processes = fs::read_dir("/proc").expect("proc").flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " ")).filter(|line| line.contains(&needle)).collect()
}

/// Everything below a folder, folders too.
pub(crate) fn all_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if path.is_dir() && !path.is_symlink() {
            found.extend(all_below(&path));
        }
        found.push(path);
    }
    found
}

/// A play of one task whose sessions are these lists of steps.
pub(crate) fn play(sessions: &[&str]) -> String {
    let mut text = "plays:\n  - task: greeting\n    sessions:\n".to_owned();
    for steps in sessions {
        text.push_str(&format!("      - steps: {steps}\n"));
    }
    text
}

/// The steps that solve the task `greeting`.
pub(crate) const SOLVE: &str = "[{message: done}, {write: {path: greet.sh, content: echo hello world}}, \
                         {usage: {input: 100, output: 10, cache_read: 0, cache_write: 0, reasoning: 0}}]";

/// Steps that change the file, but not to what is asked.
pub(crate) const MISS: &str = "[{message: tried}, {write: {path: greet.sh, content: echo bye}}, \
                        {usage: {input: 50, output: 5, cache_read: 0, cache_write: 0, reasoning: 0}}]";
