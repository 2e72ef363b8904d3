//! The trajectories of attempts, from what is stored of their sessions.

mod shown;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) use self::shown::shown;
use super::started::{Started, state_beside};
use super::{Failed, run};
use crate::config::RunPlan;
use crate::config::harness_manifest::HarnessManifest;
use crate::config::plan::HarnessEntry;
use crate::domain::{AttemptId, RunName, RunRecord, SessionRecord, Usage};
use crate::host::{Adapter, Price, PriceTable, read_stored};
use crate::redact::Redactor;
use crate::report::atif::Trajectory;
use crate::report::trajectory::{Known, StepPrice, trajectory};
use crate::script::{Answer, HostCall};
use crate::store::Layout;

/// What the trajectories of a run are made from.
pub(super) struct Sources {
    run: RunName,
    layout: Layout,
    /// The run file, or why it cannot be read any more; read when it is needed.
    plan: OnceCell<Result<RunPlan, String>>,
    db: PathBuf,
    /// Today's prices, read when they are needed.
    prices: OnceCell<Option<PriceTable>>,
    runtime: tokio::runtime::Runtime,
}

impl Sources {
    /// Names the sources of a run beside a database.
    pub(super) fn new(db: &Path, run: &RunName) -> Result<Self, Failed> {
        let runtime = run::async_runtime()?;
        let (run, db) = (run.clone(), db.to_owned());
        Ok(Self {
            run,
            layout: Layout::new(state_beside(&db)),
            plan: OnceCell::new(),
            db,
            prices: OnceCell::new(),
            runtime,
        })
    }

    fn plan(&self) -> Result<&RunPlan, String> {
        let load = || {
            let started = Started::read(&self.db, &self.run).map_err(|failed| format!("{:#}", failed.error))?;
            started.load(&self.run).map_err(|failed| format!("{:#}", failed.error))
        };
        self.plan.get_or_init(load).as_ref().map_err(Clone::clone)
    }

    /// Returns the price that a session's cost was computed by, where today's tables still have it.
    fn price_of(&self, session: &SessionRecord) -> Option<&Price> {
        let prices = || run::host(false).prices(self.plan().ok()).ok();
        let price = self.prices.get_or_init(prices).as_ref()?.find(&session.model)?;
        (session.price.as_ref() == Some(&price.origin())).then_some(price)
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
        let redactor = Redactor::default();
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
            let price = |usage: &Usage| self.price_of(session)?.cost(usage);
            let price = self.price_of(session).is_some().then_some(StepPrice(&price));
            let known = Known { attempt: &record.attempt, record: session, harness_version, prompt, price };
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
