//! Reads the stored logs of a run's sessions once more, through today's adapters, and tells what that changes.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::assemble;
use super::builder::Host;
use super::error::Error;
use super::stored::{self, Adapter, Untold};
use crate::budget::PriceTable;
use crate::config::RunPlan;
use crate::config::harness_manifest::HarnessManifest;
use crate::config::plan::HarnessEntry;
use crate::domain::{AttemptId, Micros, RunName, SessionRecord, Usage};
use crate::engine::reread;
use crate::harness::Harness;
use crate::harness::session::ProcessEnd;
use crate::redact::Redactor;
use crate::store::{Layout, Reparse, ReparsedSession, Store, StoreError, StoredSession, Telling, record_file};

/// A session whose stored log was read once more.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionReparse {
    /// Its attempt.
    pub attempt: AttemptId,
    /// Its number.
    pub session: u32,
    /// Its harness.
    pub harness: String,
    /// What came of it.
    pub outcome: ReparseOutcome,
}

/// What came of reading a session's log once more.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ReparseOutcome {
    /// It says what is on record.
    Unchanged,
    /// It says something else.
    Changed(Box<Reparse>),
    /// It cannot be told; why.
    Skipped(String),
}

impl Host {
    /// Returns today's prices: those that come with this host, and before them those that a plan names.
    ///
    /// # Errors
    ///
    /// An [`Error`] where the plan's price files cannot be read.
    pub fn prices(&self, plan: Option<&RunPlan>) -> Result<PriceTable, Error> {
        assemble::price_table(self.parts.prices.as_ref(), plan.map_or(&[][..], |plan| &plan.prices))
    }

    /// Reads the stored logs of a run's sessions once more, through the adapters of `plan`, or of the built-in harnesses
    /// that the run used where the plan cannot be had (then it is the reason). Changes nothing; blocks.
    ///
    /// # Errors
    ///
    /// An [`Error`] where the store cannot be read, or the plan's price files cannot.
    pub fn reparse(
        &self,
        store: &Store,
        layout: &Layout,
        run: &RunName,
        plan: Result<&RunPlan, &str>,
    ) -> Result<Vec<SessionReparse>, Error> {
        let sessions = store.stored_sessions(run).wait()?;
        let prices = self.prices(plan.ok())?;
        let declared = match plan {
            Ok(_) => None,
            Err(_) => store.run_config(run).wait()?,
        };
        let now = self.parts.clock.now();
        let busy = store.hosts(run).wait()?.iter().any(|host| host.is_alive(now));
        let mut rereader =
            Rereader { layout, plan, declared, prices, redactor: Redactor::default(), adapters: BTreeMap::new() };
        let mut ids = HashMap::new();
        let mut all = Vec::new();
        for session in &sessions {
            let record = &session.record;
            let outcome = if busy {
                let why = "a host carries out its run: wait for its end, or `refrain cancel` it";
                ReparseOutcome::Skipped(why.to_owned())
            } else {
                rereader.read(session, is_again(&mut ids, session))
            };
            let (attempt, harness) = (session.attempt.clone(), record.harness.clone());
            all.push(SessionReparse { attempt, session: record.index, harness, outcome });
        }
        Ok(all)
    }

    /// Puts what was read on record, in one transaction, and then brings the records beside the logs into line with the
    /// store. Sessions that cannot be changed any more become skipped ones. Doing it again changes nothing; blocks.
    ///
    /// # Errors
    ///
    /// An [`Error`] where the store cannot be written, or a record's file.
    pub fn write_reparsed(
        &self,
        store: &Store,
        layout: &Layout,
        run: &RunName,
        sessions: &mut [SessionReparse],
    ) -> Result<(), Error> {
        let changed = |session: &mut SessionReparse| matches!(session.outcome, ReparseOutcome::Changed(_));
        let mut places: Vec<_> =
            sessions.iter_mut().filter_map(|session| changed(session).then_some(session)).collect();
        let reparses: Vec<Reparse> = places
            .iter()
            .filter_map(|session| match &session.outcome {
                ReparseOutcome::Changed(reparse) => Some((**reparse).clone()),
                ReparseOutcome::Unchanged | ReparseOutcome::Skipped(_) => None,
            })
            .collect();
        if !reparses.is_empty() {
            let telling = Telling { refrain_version: env!("CARGO_PKG_VERSION").to_owned(), at: self.parts.clock.now() };
            let written = store.reparse(run, reparses, &telling).wait()?;
            for (session, written) in places.iter_mut().zip(written) {
                if let ReparsedSession::Refused(why) = written {
                    session.outcome = ReparseOutcome::Skipped(why.to_owned());
                }
            }
        }
        Ok(renew_records(store, layout, run)?)
    }
}

/// Writes the records of attempts with changed sessions to their files where these tell something else: also what an
/// earlier command had no time for.
fn renew_records(store: &Store, layout: &Layout, run: &RunName) -> Result<(), StoreError> {
    let mut attempts: Vec<_> = store.reparsed(run).wait()?.into_iter().map(|row| row.attempt).collect();
    attempts.dedup();
    for attempt in attempts {
        let Some(record) = store.record(&attempt).wait()? else { continue };
        let on_disk = record_file::read_record(&layout.record_path(&attempt));
        if !on_disk.is_ok_and(|on_disk| on_disk == record) {
            record_file::write_record(layout, &record)?;
        }
    }
    Ok(())
}

/// Tells whether the harness's id of a session is that of an earlier one of its attempt.
fn is_again(ids: &mut HashMap<AttemptId, Vec<(String, String)>>, session: &StoredSession) -> bool {
    let Some(id) = &session.record.harness_session else { return false };
    let earlier = ids.entry(session.attempt.clone()).or_default();
    let this = (session.record.harness.clone(), id.clone());
    let again = earlier.contains(&this);
    earlier.push(this);
    again
}

/// What is needed to read sessions once more.
struct Rereader<'a> {
    layout: &'a Layout,
    plan: Result<&'a RunPlan, &'a str>,
    /// The run file as it was, where it cannot be had any more.
    declared: Option<Value>,
    prices: PriceTable,
    redactor: Redactor,
    /// What each harness's output is read by, or why it cannot be.
    adapters: BTreeMap<String, Result<(HarnessEntry, Adapter), String>>,
}

impl Rereader<'_> {
    fn read(&mut self, session: &StoredSession, seems_resumed: bool) -> ReparseOutcome {
        match self.tell(session, seems_resumed) {
            Ok(None) => ReparseOutcome::Unchanged,
            Ok(Some(reparse)) => ReparseOutcome::Changed(Box::new(reparse)),
            Err(why) => ReparseOutcome::Skipped(why),
        }
    }

    fn tell(&mut self, session: &StoredSession, seems_resumed: bool) -> Result<Option<Reparse>, String> {
        let former = &session.record;
        if session.under_way {
            return Err("its attempt is under way, or waits to be gone on with".to_owned());
        }
        let folder = self.layout.attempt(&session.attempt).join("sessions").join(former.index.to_string());
        if !self.adapters.contains_key(&former.harness) {
            let adapter = self.adapter(&former.harness);
            self.adapters.insert(former.harness.clone(), adapter);
        }
        let (entry, adapter) = match &self.adapters[&former.harness] {
            Ok(adapter) => adapter,
            Err(why) => return Err(why.clone()),
        };
        let told = match stored::tell(adapter, &folder, former.exit_code) {
            Ok(told) => told,
            Err(Untold::Nothing) if tells_nothing(former) => return Ok(None),
            Err(Untold::Nothing) => return Err("its logs are gone".to_owned()),
            Err(Untold::Bad(why)) => return Err(why),
        };
        if !told.printed && former.text.is_some() && told.reading.text.is_none() {
            return Err("its stdout.log is gone".to_owned());
        }
        let (stderr, printed) = (told.stderr, told.printed);
        let process =
            ProcessEnd { exit_code: former.exit_code, signal: former.signal, outlived_end: false, stderr, printed };
        let again = reread::Again {
            reading: told.reading,
            process,
            price: self.prices.find(&former.model),
            tolerance: entry.manifest.tolerance,
            can_resume: adapter.harness().can_resume(),
            seems_resumed,
            redactor: &self.redactor,
        };
        let record = reread::tell(former, again)?;
        if record == *former {
            return Ok(None);
        }
        if session.settled && record.cost != former.cost && (record.cost.is_none() || former.cost.is_none()) {
            return Err("what its attempt cost was settled by hand".to_owned());
        }
        Ok(Some(Reparse {
            attempt: session.attempt.clone(),
            former: former.clone(),
            record,
            adapter: entry.manifest.hash.clone(),
            verified: entry.manifest.verified.clone(),
        }))
    }

    fn adapter(&self, name: &str) -> Result<(HarnessEntry, Adapter), String> {
        let entry = match self.plan {
            Ok(plan) => plan
                .harnesses
                .iter()
                .find(|entry| entry.name == name)
                .cloned()
                .ok_or_else(|| format!("the run file has no harness `{name}` any more"))?,
            Err(why) => {
                let builtin = self.declared.as_ref().and_then(|config| declared_adapter(config, name));
                let manifest = builtin.and_then(|builtin| builtin_manifest(&builtin));
                let manifest = manifest.ok_or_else(|| format!("its harness `{name}` is not known any more: {why}"))?;
                HarnessEntry::of_manifest(name, manifest)
            }
        };
        if entry.manifest.is_of_host() {
            return Err(format!("its harness `{name}` is a part of another program, which alone can read it"));
        }
        let adapter = Adapter::of(&entry).map_err(|error| error.to_string())?;
        Ok((entry, adapter))
    }
}

/// The adapter that a run file has declared for a harness.
fn declared_adapter(config: &Value, name: &str) -> Option<String> {
    config["harnesses"].as_array()?.iter().find_map(|entry| match entry {
        Value::String(text) => (text == name).then(|| text.clone()),
        entry => {
            let adapter = entry["adapter"].as_str().unwrap_or(name);
            (entry["name"] == name).then(|| adapter.to_owned())
        }
    })
}

fn builtin_manifest(name: &str) -> Option<HarnessManifest> {
    HarnessManifest::builtins().ok()?.into_iter().find(|manifest| manifest.name == name)
}

/// Tells whether nothing on record needs a log to have come from.
fn tells_nothing(record: &SessionRecord) -> bool {
    let figures =
        record.reported_usage == Usage::UNKNOWN && record.reported_cost.is_none_or(|cost| cost == Micros::ZERO);
    figures && record.text.is_none() && record.turns.is_none() && record.harness_session.is_none()
}
