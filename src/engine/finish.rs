//! Gathers what an attempt left and writes its record.

use std::time::Duration;

use jiff::Timestamp;

use super::ending;
use super::error::EngineError;
use super::journey::Journey;
use super::off_thread::off_thread;
use super::services::{CellContext, Services};
use super::spool::Ends;
use super::world::CutOffStarts;
use crate::domain::record::{Inputs, RECORD_SCHEMA, WorkspaceRecord};
use crate::domain::{AttemptId, CellKey, Failure, JudgeRecord, RunRecord, SessionRecord, Usage, Verdict};
use crate::redact::Redactor;
use crate::store::{ResultExtra, record_file};
use crate::workspace::{Collected, Seeded};

/// Bytes of a verdict's report that are kept.
const REPORT_KEPT: usize = 50 * 1024;

/// What is known of an attempt so far.
pub(crate) struct Finish {
    context: CellContext,
    id: AttemptId,
    retries: u32,
    key: CellKey,
    started_at: Timestamp,
    began: Duration,
    /// How long an earlier host had executed it.
    before: Duration,
    /// Starts of sessions that were cut off.
    pub(crate) cut_off: CutOffStarts,
    pub(crate) harness_version: Option<String>,
    /// Digest of the image that the environment was made from.
    pub(crate) image: Option<String>,
    pub(crate) sessions: Vec<SessionRecord>,
    pub(crate) script_log: Vec<String>,
    pub(crate) note: Option<String>,
    pub(crate) verdict: Option<Verdict>,
    /// What the judge said.
    pub(crate) judge: Option<JudgeRecord>,
    pub(crate) warnings: Vec<String>,
    /// How the streams of the last session end.
    pub(crate) streams: Ends,
    workspace: WorkspaceRecord,
    diff: Option<Vec<u8>>,
}

impl Finish {
    /// Begins with nothing known.
    pub(crate) fn begin(context: CellContext, id: AttemptId, retries: u32, key: CellKey) -> Self {
        let clock = &context.services.clock;
        let (started_at, began) = (clock.now(), clock.elapsed());
        Self {
            context,
            id,
            retries,
            key,
            started_at,
            began,
            before: Duration::ZERO,
            cut_off: CutOffStarts::default(),
            harness_version: None,
            image: None,
            sessions: Vec::new(),
            script_log: Vec::new(),
            note: None,
            verdict: None,
            judge: None,
            warnings: Vec::new(),
            streams: Ends::default(),
            workspace: WorkspaceRecord::default(),
            diff: None,
        }
    }

    /// Returns how many retries came before.
    pub(crate) fn retries(&self) -> u32 {
        self.retries
    }

    /// Goes on with an attempt that an earlier host began at `started_at` and had executed for `before`.
    pub(crate) fn go_on(self, started_at: Timestamp, before: Duration) -> Self {
        Self { started_at, before, ..self }
    }

    /// Takes what was collected of the workspace, if it was.
    pub(crate) fn take(&mut self, collected: Option<&Collected>, seeded: &Seeded) {
        self.workspace.base_commit = Some(seeded.base_commit.clone());
        self.workspace.base_fingerprint = Some(seeded.baseline.fingerprint());
        self.workspace.notes.clone_from(&seeded.notes);
        let Some(collected) = collected else { return };
        self.workspace.final_fingerprint = Some(collected.snapshot.fingerprint());
        self.workspace.files_changed = Some(collected.stats.files_changed);
        self.workspace.lines_added = Some(collected.stats.lines_added);
        self.workspace.lines_removed = Some(collected.stats.lines_removed);
        let redactor = &self.context.services.redactor;
        // Names of files are the agent's words.
        self.workspace.notes.extend(collected.stats.notes.iter().map(|note| redactor.redact(note).into_string()));
        self.diff = Some(redactor.redact_bytes(&collected.diff));
    }

    /// Decides the classes and writes the record: first the file, then the store.
    ///
    /// # Errors
    ///
    /// [`EngineError`] where one of the two cannot be written.
    pub(crate) async fn conclude(
        self,
        cause: Option<Failure>,
        journey: &mut Journey,
    ) -> Result<RunRecord, EngineError> {
        let services = std::sync::Arc::clone(&self.context.services);
        let classes = ending::classify(cause.as_ref(), self.verdict.as_ref(), self.retries);
        let cause = cause.map(|cause| redact_failure(cause, &services.redactor));
        let transitions = journey.end(classes.terminal, cause.as_ref().map(ToString::to_string));
        let usage = self.sessions.iter().map(|session| session.usage).fold(Usage::ZERO, Usage::plus);
        // What a host that died had begun is in no session's record, and is not nothing.
        let (known, billable) = self.cut_off.costs();
        let cost = self.sessions.iter().map(|session| session.cost).fold(known, |sum, cost| Some(sum? + cost?));
        // Starts that were cut off and are exempt cost the budget nothing, whatever they cost.
        let billable = self.sessions.iter().map(SessionRecord::billable).fold(billable, |sum, cost| Some(sum? + cost?));
        let (inputs, extra) = (self.inputs(), self.extra());
        let elapsed = self.before + services.clock.elapsed().saturating_sub(self.began);
        let record = RunRecord {
            schema: RECORD_SCHEMA,
            refrain_version: env!("CARGO_PKG_VERSION").to_owned(),
            attempt: self.id,
            cell_key: self.key,
            inputs,
            terminal: classes.terminal,
            exit_class: classes.exit,
            error_class: classes.error,
            failure: cause,
            solved: classes.solved,
            started_at: self.started_at,
            finished_at: services.clock.now(),
            duration_ms: u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
            workspace: self.workspace,
            sessions: self.sessions,
            usage,
            cost,
            billable_cost: billable,
            verdict: self.verdict,
            judge: self.judge,
            note: self.note,
            script_log: self.script_log,
            transitions,
            warnings: self.warnings.iter().map(|warning| services.redactor.redact(warning).into_string()).collect(),
        };
        write(&services, &record, extra).await?;
        Ok(record)
    }

    fn extra(&self) -> ResultExtra {
        let (plan, cell) = (&self.context.services.plan, self.context.cell());
        let latency = self.sessions.iter().map(|session| session.duration).sum::<Duration>();
        ResultExtra {
            diff: self.diff.clone(),
            harness_stdout: self.streams.stdout.clone(),
            harness_stderr: self.streams.stderr.clone(),
            latency_ms: Some(u64::try_from(latency.as_millis()).unwrap_or(u64::MAX)),
            time_to_first_attempt_ms: self.time_to_first_session(),
            retry_count: self.retries,
            cost_mode: Some(plan.models[cell.model].cost_mode),
            ..ResultExtra::default()
        }
    }

    /// Milliseconds from the attempt's beginning to the agent's first session.
    fn time_to_first_session(&self) -> Option<u64> {
        let first = self.sessions.iter().map(|session| session.started_at).min()?;
        // A clock that was set back in between measures nothing.
        u64::try_from(first.duration_since(self.started_at).as_millis()).ok()
    }

    fn inputs(&self) -> Inputs {
        let (services, cell) = (&self.context.services, self.context.cell());
        let plan = &services.plan;
        let orchestrator = &plan.orchestrators[cell.orchestrator];
        let task = &plan.tasks[cell.task];
        Inputs {
            harness: plan.harnesses[cell.harness].name.clone(),
            harness_version: self.harness_version.clone(),
            model: plan.models[cell.model].name.clone(),
            review_model: cell.review_model.map(|index| plan.models[index].name.clone()),
            task: task.id.clone(),
            track: task.track.to_string(),
            orchestrator: orchestrator.label.clone(),
            orchestrator_hash: orchestrator.manifest.hash.clone(),
            params: orchestrator.params.clone(),
            repeat: cell.repeat,
            runtime: services.runtime.name().to_owned(),
            image: self.image.clone().or_else(|| self.context.base()),
        }
    }
}

/// Writes the diff and the record beside each other, then the store: what a crash leaves between is imported later.
async fn write(services: &Services, record: &RunRecord, mut extra: ResultExtra) -> Result<(), EngineError> {
    if !services.store.holds(&record.attempt).await? {
        // Another host has the cell by now; its files are not touched, and what was spent here is booked all the same.
        services.store.finish_attempt(record, extra).await?;
        return Ok(());
    }
    extra.diff = write_files(services, record, extra.diff.take()).await?;
    services.store.finish_attempt(record, extra).await?;
    Ok(())
}

/// Writes diff and record; gives the diff back.
async fn write_files(
    services: &Services,
    record: &RunRecord,
    diff: Option<Vec<u8>>,
) -> Result<Option<Vec<u8>>, EngineError> {
    let path = services.layout.diff_path(&record.attempt);
    let (at, layout, record) = (path.clone(), services.layout.clone(), record.clone());
    let written = off_thread(move || {
        if let Some(diff) = diff.as_deref().filter(|diff| !diff.is_empty()) {
            record_file::write_atomic(&at, diff)?;
        }
        Ok((record_file::write_record(&layout, &record), diff))
    });
    let (recorded, diff) = written.await.map_err(|source| EngineError::File { action: "write", path, source })?;
    recorded?;
    Ok(diff)
}

/// Takes secrets out of a verdict's texts, and keeps the end of an overlong report.
pub(crate) fn redact_verdict(mut verdict: Verdict, redactor: &Redactor) -> Verdict {
    verdict.summary = redactor.redact(&verdict.summary).into_string();
    verdict.report = tail(redactor.redact(&verdict.report).into_string(), REPORT_KEPT);
    for test in &mut verdict.tests {
        test.id = redactor.redact(&test.id).into_string();
    }
    verdict
}

fn tail(text: String, kept: usize) -> String {
    if text.len() <= kept {
        return text;
    }
    let mut from = text.len() - kept;
    while !text.is_char_boundary(from) {
        from += 1;
    }
    format!("[refrain: {from} bytes left out]\n{}", &text[from..])
}

/// Takes secrets out of a failure by way of its JSON, so that no variant can be forgotten.
fn redact_failure(failure: Failure, redactor: &Redactor) -> Failure {
    let redacted = serde_json::to_value(&failure).ok().and_then(|mut value| {
        redactor.redact_json(&mut value);
        serde_json::from_value(value).ok()
    });
    redacted.unwrap_or(failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_lose_their_secrets_and_nothing_else() {
        let redactor = Redactor::new([("KEY".to_owned(), "abcdef-secret".to_owned())]);
        let failure = Failure::Runtime { message: "saw abcdef-secret here".to_owned() };
        let redacted = redact_failure(failure, &redactor);
        assert_eq!(redacted, Failure::Runtime { message: "saw [redacted:KEY] here".to_owned() });
        assert_eq!(redact_failure(Failure::Cancelled, &redactor), Failure::Cancelled);
    }

    #[test]
    fn an_overlong_report_keeps_its_end() {
        let kept = tail("ä".repeat(100), 51);
        assert_eq!(kept, format!("[refrain: 150 bytes left out]\n{}", "ä".repeat(25)));
    }
}
