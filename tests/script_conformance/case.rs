//! A script with the world it runs in and what it must see, as its header says.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use refrain::domain::{ParamValue, Usage};
use serde::Deserialize;

/// Where a header begins and ends in a script.
const HEADER: (&str, &str) = ("--[==[", "]==]");

/// A script and its header. Unless a header says otherwise, the world has one harness (`scripted`) and one model (`small`).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    /// What the script shows.
    pub(crate) about: String,
    /// Files of the workspace.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Visible checks: `test -f PATH` each.
    #[serde(default)]
    pub(crate) checks: Vec<String>,
    /// What the agent does, session by session; the last one repeats.
    #[serde(default)]
    pub(crate) sessions: Vec<Session>,
    /// What commands answer in the mock world; the engine runs them.
    #[serde(default)]
    pub(crate) exec: BTreeMap<String, Exec>,
    /// Seconds until the deadline.
    #[serde(default = "a_minute")]
    pub(crate) deadline: f64,
    /// Dollars of the cell.
    #[serde(default)]
    pub(crate) budget: Option<f64>,
    /// Sessions of the attempt.
    #[serde(default)]
    pub(crate) session_limit: Option<u32>,
    /// Parameters with their values.
    #[serde(default)]
    pub(crate) params: BTreeMap<String, ParamValue>,
    /// Models by name, with their roles; the first one that implements is the cell's.
    #[serde(default = "one_model")]
    pub(crate) models: Vec<(String, String)>,
    /// Harnesses; the first one is the cell's.
    #[serde(default = "one_harness")]
    pub(crate) harnesses: Vec<String>,
    /// Phases of the task.
    #[serde(default)]
    pub(crate) phases: Vec<refrain::domain::Phase>,
    /// Free data of the task.
    #[serde(default)]
    pub(crate) metadata: serde_json::Map<String, serde_json::Value>,
    /// Files beside the script.
    #[serde(default)]
    pub(crate) modules: BTreeMap<String, String>,
    /// What the script logs, line by line, `info: ` left out.
    #[serde(default)]
    pub(crate) log: String,
    /// How it ends: `returns NOTE`, `fails MESSAGE`, `stops`.
    pub(crate) end: String,
    /// The whole file.
    #[serde(skip)]
    pub(crate) script: String,
}

/// What the agent does in a session.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Session {
    pub(crate) text: Option<String>,
    /// Files it writes, or removes where there is no content.
    pub(crate) files: BTreeMap<String, Option<String>>,
    pub(crate) usage: Option<Usage>,
    pub(crate) cost: Option<f64>,
    pub(crate) seconds: f64,
    /// How it ends, where it does not complete, as a step of a play.
    pub(crate) ends: Option<Ending>,
}

/// How a session ends that does not complete.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Ending {
    /// The agent fails.
    Fail(String),
    /// The agent declines.
    Refuse(String),
    /// A limit of the harness's own.
    Limit(String),
    /// No model answered.
    NotStarted,
}

/// What a command does in the mock world.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Exec {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) exit_code: i32,
    pub(crate) timed_out: bool,
    /// A program that is not there has no exit code.
    pub(crate) missing: bool,
}

/// What a script saw, and how it ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    pub(crate) log: Vec<String>,
    pub(crate) end: String,
}

fn a_minute() -> f64 {
    60.0
}

fn one_model() -> Vec<(String, String)> {
    vec![("small".to_owned(), "implementation".to_owned())]
}

fn one_harness() -> Vec<String> {
    vec!["scripted".to_owned()]
}

impl Case {
    /// Reads a script with its header.
    pub(crate) fn read(path: &Path) -> Self {
        let script = fs::read_to_string(path).unwrap();
        let name = path.display().to_string();
        let header = script.strip_prefix(HEADER.0).and_then(|rest| rest.split_once(HEADER.1));
        let (header, _) = header.unwrap_or_else(|| panic!("{name} begins with no header"));
        let value = refrain::config::parse_yaml(&name, header).unwrap();
        let case = serde_json::from_value(value).unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { script, ..case }
    }

    /// Writes the script as an orchestrator, which both worlds load.
    pub(crate) fn write_orchestrator(&self, dir: &Path) {
        let mut manifest = "slug = \"conformance\"\napi = 1\n[params]\n".to_owned();
        for (name, value) in &self.params {
            manifest.push_str(&format!("{name} = {}\n", serde_json::to_string(value).unwrap()));
        }
        write(&dir.join("orchestrator.toml"), &manifest);
        write(&dir.join("runner.lua"), &self.script);
        for (name, content) in &self.modules {
            write(&dir.join(name), content);
        }
    }
}

impl Observed {
    /// Takes log lines as both worlds keep them, level first.
    pub(crate) fn new(log: &[String], end: String) -> Self {
        let shown = |line: &String| {
            let line = line.strip_prefix("info: ").unwrap_or(line);
            let end: String = line.chars().rev().take(20).collect::<Vec<_>>().into_iter().rev().collect();
            if line.len() > 1000 { format!("{} bytes that end in {end}", line.len()) } else { line.to_owned() }
        };
        Self { log: log.iter().map(shown).collect(), end }
    }
}

/// Writes a file with its folders.
pub(crate) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}
