//! A project with a task of open work, an agent that plays a script, and a judge.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use refrain::domain::{CellId, JudgeRecord, RunName, RunRecord};
use refrain::store::{LedgerEntry, LedgerKind, Store};

use super::program::{self, Ran};
use super::provider::Provider;

/// The provider's real key.
pub(crate) const KEY: &str = "sk-ant-0123456789abcdef0123456789";

/// The first cell of the run.
pub(crate) const CELL: &str = "scripted__claude-sonnet-4-5__note__r1";

const TASK: &str = "id: note
track: open_ended
task_prompt: Write a note on {{sums}}.
expected_files: [NOTE.md]
checks: [test -s NOTE.md]
rubric:
  version: 3
  pass_score: 0.6
  files: [NOTE.md]
  criteria:
    - {name: clear, question: Is it clear?, weight: 1, anchors: {0: no word makes sense, 10: a child understands it}}
    - {name: right, question: Is it right?, weight: 3}
";

/// The agent writes the note and has used as much as 4,500 micro-dollars.
const PLAY: &str = "plays:
  - task: note
    sessions:
      - steps:
          - write: {path: NOTE.md, content: \"The sum is 4.\\n\"}
          - usage: {input: 1000, output: 100, cache_read: 0, cache_write: 0, reasoning: 0}
";

/// A project.
pub(crate) struct Project {
    dir: tempfile::TempDir,
}

impl Project {
    /// A run `judged` of one cell. `judge` and `settings` are lines of the run file.
    pub(crate) fn new(provider: &Provider, judge: &str, settings: &str) -> Self {
        let project = Self { dir: tempfile::tempdir().expect("a folder") };
        project.file("tasks/note/task.yaml", TASK);
        project.file("runs/play.yaml", PLAY);
        let repeats = if settings.contains("repeats") { "" } else { "repeats: 1\n" };
        let harnesses = if settings.contains("harnesses") {
            ""
        } else {
            "harnesses: [{name: scripted, adapter: scripted, config: {play: play.yaml}}]\n"
        };
        let place = &provider.base_url;
        project.file(
            "runs/judged.yaml",
            &format!(
                "name: judged\nmodels: [{{name: claude-sonnet-4-5, provider: scripted}}]\ntasks: [note]\ntask_library_path: \
                 ../tasks\nresults_db: refrain.db\nworkdir: ../.refrain\nruntime: local\nretry: {{infrastructure: 0}}\njudge: \
                 {{model: claude-sonnet-4-5, provider: anthropic, base_url: \"{place}\", api_key_env: JUDGE_KEY{judge}}}\n\
                 {harnesses}{repeats}{settings}"
            ),
        );
        project
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        program::write(self.path(), name, text);
    }

    fn command(&self, args: &[&str]) -> Command {
        program::command(self.path(), args, ("JUDGE_KEY", KEY))
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        program::ran(&mut self.command(args))
    }

    pub(crate) fn run_without_key(&self, args: &[&str]) -> Ran {
        program::ran(self.command(args).env_remove("JUDGE_KEY"))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts")
    }

    pub(crate) fn store(&self) -> Store {
        Store::open_read_only(&self.path().join("runs/refrain.db")).expect("opens")
    }

    /// The record of a cell's last attempt.
    pub(crate) fn record(&self, cell: &str) -> RunRecord {
        let store = self.store();
        let attempts = store.attempts(&run_name(), &CellId::from_stored(cell)).wait().expect("read");
        store.record(&attempts.last().expect("an attempt").id).wait().expect("read").expect("a record")
    }

    pub(crate) fn judge(&self) -> JudgeRecord {
        self.record(CELL).judge.expect("the judge was asked")
    }

    /// What was spent, by what for.
    pub(crate) fn spends(&self) -> Vec<(String, Option<i64>)> {
        let entries: Vec<LedgerEntry> = self.store().ledger(&run_name()).wait().expect("read");
        let spends = entries.into_iter().filter(|entry| entry.kind == LedgerKind::Spend);
        spends.map(|entry| (entry.reference, entry.amount.map(refrain::domain::Micros::get))).collect()
    }

    pub(crate) fn is_clean(&self) {
        let report = self.store().check(None).wait().expect("checked");
        assert!(report.is_clean(), "{report:?}");
    }

    /// Returns every file that the run has left, with its bytes.
    pub(crate) fn everything_kept(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut folders = vec![self.path().join("runs"), self.path().join(".refrain")];
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

pub(crate) fn run_name() -> RunName {
    RunName::new("judged").expect("a name")
}
