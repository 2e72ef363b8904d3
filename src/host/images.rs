//! What the cells of a plan need before the first of them: images, with their harnesses installed.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::builder::Parts;
use super::error::Error;
use crate::config::RunPlan;
use crate::config::harness_manifest::InstallSpec;
use crate::config::plan::HarnessEntry;
use crate::engine::{CancelHandle, CancelLevel, EngineError};
use crate::harness::Harness;
use crate::harness::declarative::DeclarativeHarness;
use crate::runtime::prepare::{FOLDER, PROGRAM};
use crate::runtime::{Install, PrepareRequest, PreparedImage, Runtime};

/// The least time between two lines of an installer that are passed on.
const BETWEEN_LINES: Duration = Duration::from_secs(2);

/// What was made ready for one harness of a plan.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ReadyHarness {
    /// The harness.
    pub harness: String,
    /// Its image; `None` on a runtime without images.
    pub image: Option<PreparedImage>,
}

/// Makes ready what the plan's harnesses need, one after the other; those without a cell need nothing.
pub(super) async fn make_ready(
    parts: &Parts,
    plan: &RunPlan,
    runtime: &dyn Runtime,
    cancel: &CancelHandle,
) -> Result<Vec<Option<PreparedImage>>, Error> {
    let mut images = Vec::with_capacity(plan.harnesses.len());
    for (index, entry) in plan.harnesses.iter().enumerate() {
        let needed = plan.cells.iter().any(|cell| cell.harness == index);
        images.push(if needed { one(parts, plan, runtime, entry, cancel).await? } else { None });
    }
    Ok(images)
}

async fn one(
    parts: &Parts,
    plan: &RunPlan,
    runtime: &dyn Runtime,
    entry: &HarnessEntry,
    cancel: &CancelHandle,
) -> Result<Option<PreparedImage>, Error> {
    let request = PrepareRequest {
        name: entry.name.clone(),
        image: entry.image.clone(),
        container: plan.container.clone(),
        install: if runtime.is_host() { None } else { install(parts, plan, entry)? },
        stop: CancellationToken::new(),
    };
    let last = Mutex::new(None);
    let progress = |line: &str| {
        let now = parts.clock.elapsed();
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| now.saturating_sub(last) >= BETWEEN_LINES) {
            *last = Some(now);
            if let Some(notice) = &parts.notice {
                notice(&format!("{}: {line}", entry.name));
            }
        }
    };
    let preparing = runtime.prepare(&request, &progress);
    tokio::pin!(preparing);
    let mut level = cancel.subscribe();
    let prepared = tokio::select! {
        prepared = &mut preparing => prepared,
        // Already the first Ctrl-C starts nothing new, and this is no session that could finish.
        _ = level.wait_for(|level| *level != CancelLevel::None) => {
            request.stop.cancel();
            preparing.await
        }
    };
    prepared.map_err(|source| {
        EngineError::Prepare { harness: entry.name.clone(), runtime: plan.runtime.clone(), source }.into()
    })
}

/// What is put into the image for a harness; `None` where the image is used as it is.
fn install(parts: &Parts, plan: &RunPlan, entry: &HarnessEntry) -> Result<Option<Install>, Error> {
    // A harness of the embedder's own knows where its program is.
    if parts.harnesses.contains_key(&entry.name) {
        return Ok(None);
    }
    let manifest = &entry.manifest;
    let spec = match &manifest.install {
        Some(spec) => spec.clone(),
        None if manifest.names_dir() => InstallSpec::default(),
        None => return Ok(None),
    };
    let program = if spec.host_program { Some(program(parts)?) } else { None };
    let bound = plan.limits.setup_timeout;
    let env = [("REFRAIN_HARNESS", entry.name.as_str()), ("REFRAIN_VERSION", entry.version.as_deref().unwrap_or(""))];
    Ok(Some(Install {
        content: manifest.dir.as_ref().map(|_| manifest.hash.clone()).unwrap_or_default(),
        script: spec.script,
        env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        folder: manifest.dir.clone(),
        program,
        probe: in_image(entry)?.probe().map(|probe| probe.argv),
        timeout: spec.timeout.map_or(bound, |own| own.min(bound)),
    }))
}

fn program(parts: &Parts) -> Result<PathBuf, Error> {
    parts.program.clone().ok_or_else(|| {
        let message = "the harness needs the refrain program in its image, and this host does not know where it is";
        Error::configuration(message)
    })
}

/// A harness as it is in an image that was made ready for it.
pub(super) fn in_image(entry: &HarnessEntry) -> Result<DeclarativeHarness, Error> {
    DeclarativeHarness::in_image(entry, PROGRAM.as_ref(), FOLDER.as_ref())
        .map_err(|error| Error::configuration(error.to_string()))
}
