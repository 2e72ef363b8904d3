//! The trajectories of attempts, from what is stored of their sessions.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::started::Started;
use super::{Failed, run};
use crate::config::RunPlan;
use crate::config::harness_manifest::HarnessManifest;
use crate::config::plan::HarnessEntry;
use crate::domain::{AttemptId, RunName, RunRecord};
use crate::host::{Adapter, read_stored};
use crate::redact::{Redactor, printable};
use crate::report::atif::{StepSource, Trajectory};
use crate::report::trajectory::{Known, trajectory};
use crate::script::{Answer, HostCall};
use crate::store::Layout;

/// What the trajectories of a run are made from.
pub(super) struct Sources {
    run: RunName,
    layout: Layout,
    /// The run file, or why it cannot be read any more; read when it is needed.
    plan: OnceCell<Result<RunPlan, String>>,
    db: PathBuf,
    runtime: tokio::runtime::Runtime,
}

impl Sources {
    /// Names the sources of a run beside a database.
    pub(super) fn new(db: &Path, run: &RunName) -> Result<Self, Failed> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| Failed::usage(anyhow::Error::new(error).context("cannot start the async runtime")))?;
        let state = db.parent().unwrap_or(Path::new("")).join(".refrain");
        let (run, db) = (run.clone(), db.to_owned());
        Ok(Self { run, layout: Layout::new(state), plan: OnceCell::new(), db, runtime })
    }

    fn plan(&self) -> Result<&RunPlan, String> {
        let load = || {
            let started = Started::read(&self.db, &self.run).map_err(|failed| format!("{:#}", failed.error))?;
            started.load(&self.run).map_err(|failed| format!("{:#}", failed.error))
        };
        self.plan.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// Returns the adapter of a harness: that of the run file, else the built-in one of that name.
    fn adapter(&self, name: &str) -> Result<Adapter, String> {
        let declared =
            self.plan().ok().and_then(|plan| plan.harnesses.iter().find(|entry| entry.name == name).cloned());
        let entry = match declared {
            Some(entry) => entry,
            None => builtin(name).ok_or_else(|| format!("the harness `{name}` is not known any more"))?,
        };
        Adapter::of(&entry).map_err(|error| error.to_string())
    }

    /// Returns the prompts of an attempt's sessions. They are not stored: its script is run again over its journal, which
    /// costs nothing, and asks the same again.
    fn prompts(&self, attempt: &AttemptId) -> Result<BTreeMap<u32, String>, String> {
        let plan = self.plan()?;
        let rehearsal = self.runtime.block_on(run::host(false).rehearse(plan, attempt, None));
        let rehearsal = rehearsal.map_err(|error| error.to_string())?;
        // Task and script hold no declared secret; what looks like a key is taken out all the same.
        let redactor = Redactor::new(std::iter::empty::<(String, String)>());
        let sessions = rehearsal.steps.into_iter().filter_map(|step| match (step.call, step.reply) {
            (HostCall::Session(call), Ok(Answer::Session(record))) => {
                Some((record.index, redactor.redact(&call.prompt).into_string()))
            }
            _ => None,
        });
        Ok(sessions.collect())
    }

    /// Makes a trajectory of each session of an attempt.
    pub(super) fn of(&self, record: &RunRecord) -> Vec<Trajectory> {
        let prompts = self.prompts(&record.attempt);
        let folder = self.layout.attempt(&record.attempt).join("sessions");
        let mut all = Vec::new();
        for session in &record.sessions {
            let mut notes = Vec::new();
            let prompt = match &prompts {
                Ok(prompts) => prompts.get(&session.index).map(String::as_str),
                Err(why) => {
                    notes.push(format!("its script cannot tell the prompt again: {why}"));
                    None
                }
            };
            let logs = folder.join(session.index.to_string());
            let read = self.adapter(&session.harness).and_then(|adapter| {
                read_stored(&adapter, &logs).map_err(|error| format!("`{}`: {error}", logs.display()))
            });
            let happenings = read.unwrap_or_else(|why| {
                notes.push(format!("its log cannot be read: {why}"));
                Vec::new()
            });
            let harness_version = record.inputs.harness_version.as_deref();
            let harness_version = harness_version.filter(|_| session.harness == record.inputs.harness);
            let known = Known { attempt: &record.attempt, record: session, harness_version, prompt };
            all.push(trajectory(known, happenings, notes));
        }
        all
    }
}

/// A built-in harness with its defaults.
fn builtin(name: &str) -> Option<HarnessEntry> {
    let manifest = HarnessManifest::builtins().ok()?.into_iter().find(|manifest| manifest.name == name)?;
    Some(HarnessEntry::of_manifest(name, manifest))
}

/// Shows a trajectory to people.
pub(super) fn shown(trajectory: &Trajectory) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let model = trajectory.agent.model_name.as_deref().unwrap_or("unknown model");
    let _ = writeln!(out, "{}\n  {}, {model}", printable(&trajectory.trajectory_id), printable(&trajectory.agent.name));
    for step in &trajectory.steps {
        let who = match step.source {
            StepSource::System => "notice",
            StepSource::User => "prompt",
            StepSource::Agent => "agent",
        };
        let message = printable(&step.message);
        let _ =
            writeln!(out, "{:>4}  {who:<6}  {}", step.step_id, message.trim_end().replace('\n', "\n              "));
        let results = || step.observation.iter().flat_map(|observation| &observation.results);
        for call in &step.tool_calls {
            let end = results().find(|result| result.source_call_id == call.tool_call_id);
            let end = end.map(|end| ended(&end.extra)).unwrap_or_default();
            let given: Vec<_> = call.arguments.values().filter_map(|value| value.as_str()).collect();
            let line = format!("{} {}{end}", call.function_name, given.join(" "));
            let _ = writeln!(out, "              → {}", printable(line.trim_end()).replace('\n', " ⏎ "));
        }
    }
    for note in trajectory.notes.iter().flat_map(|notes| notes.lines()) {
        let _ = writeln!(out, "      note: {}", printable(note));
    }
    // Blank lines, and steps without a word, end in no spaces.
    let lines: Vec<_> = out.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

fn ended(extra: &serde_json::Map<String, serde_json::Value>) -> String {
    let ok = extra.get("ok").and_then(serde_json::Value::as_bool).map(|ok| if ok { "ok" } else { "failed" });
    let time = extra.get("duration_ms").and_then(serde_json::Value::as_u64).map(|time| format!("{time} ms"));
    let parts: Vec<_> = ok.map(str::to_owned).into_iter().chain(time).collect();
    if parts.is_empty() { String::new() } else { format!("  ({})", parts.join(", ")) }
}
