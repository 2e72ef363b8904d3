//! Doors for the fuzz targets of this repository; no part of the API.
//!
//! Each takes a text as a file would hold it, checks it as a load would, and shows what is wrong with it: messages with
//! snippets are made from any text, so they must stand any text. Nothing is read from the disk but what the text names.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use super::catalog::Catalog;
use super::diagnostic::{ConfigError, Diagnostic, Diagnostics};
use super::harness_manifest::HarnessManifest;
use super::orchestrator_manifest::{OrchestratorManifest, Origin};
use super::shape::{check, run, task};
use super::source::{Source, Span};
use super::{overrides, params, run_file, task_file, yaml};
use crate::domain::Params;

static CATALOG: LazyLock<Option<Catalog>> = LazyLock::new(|| Catalog::load(&[]).ok());

/// Reads an `orchestrator.toml`; its parameters are completed too.
///
/// # Errors
///
/// What a user would read, with and without colours.
pub fn orchestrator_manifest(text: &str) -> Result<OrchestratorManifest, String> {
    let decoded =
        OrchestratorManifest::decode(&Source::flag("orchestrator.toml", text), Origin::Builtin, String::new());
    let (manifest, _) = decoded.map_err(|error| shown(&error))?;
    // A default must fit its own declaration; only a parameter without one may be missed.
    if let Err(error) = params::complete(&manifest.params, Params::new())
        && manifest.params.values().all(|spec| spec.default.is_some())
    {
        return Err(format!("accepted, but its own defaults are not: {}", error.message));
    }
    Ok(manifest)
}

/// Reads a `harness.toml`.
///
/// # Errors
///
/// What a user would read, with and without colours.
pub fn harness_manifest(text: &str) -> Result<HarnessManifest, String> {
    HarnessManifest::decode(&Source::flag("harness.toml", text), None, String::new(), None)
        .map_err(|error| shown(&error))
}

/// Reads a run file with one `--set`, but for its tasks; returns how many problems were found.
pub fn run_file(text: &str, set: &str) -> usize {
    let source = Source::flag("run.yaml", text);
    let mut out = Diagnostics::default();
    let (Some(catalog), Some(mut root)) = (CATALOG.as_ref(), parsed(&source, &mut out)) else { return problems(out) };
    if let Err(problem) = overrides::apply(&mut root, set) {
        out.push(problem);
    }
    check::section(&root, &run::RUN, &Span::new(&source, 0..source.text().len()), &mut out);
    run_file::harnesses(&root, catalog, &mut out);
    run_file::models(&root, &mut out);
    for named in run_file::orchestrators(&root, catalog, &mut out).unwrap_or_default() {
        if let Some(table) = &named.params {
            params::given(&named.label, &named.manifest.params, table, &mut out);
        }
    }
    run_file::limits(&root, &mut out);
    run_file::retry(&root);
    root.to_json();
    problems(out)
}

/// Reads a file of tasks, and the same text as a `task.yaml`; returns how many problems were found.
pub fn task_file(text: &str) -> usize {
    let source = Source::flag("tasks.yaml", text);
    let mut out = Diagnostics::default();
    let Some(root) = parsed(&source, &mut out) else { return problems(out) };
    let whole = Span::new(&source, 0..source.text().len());
    let places = task_file::Places { own: PathBuf::new(), library: PathBuf::new(), is_folder: false };
    check::section(&root, &task::LIBRARY, &whole, &mut out);
    for node in root.get("tasks").map(super::document::Node::items).unwrap_or_default() {
        task_file::decode(node, None, &mut out);
        task_file::seed(node, &places, &mut out);
    }
    check::section(&root, &task::TASK, &whole, &mut out);
    task_file::decode(&root, None, &mut out);
    problems(out)
}

fn parsed(source: &Arc<Source>, out: &mut Diagnostics) -> Option<super::document::Node> {
    yaml::parse(source).map_err(|problem: Diagnostic| out.push(problem)).ok()
}

fn problems(out: Diagnostics) -> usize {
    match out.finish() {
        Ok(warnings) => warnings.0.iter().inspect(|warning| drop(warning.render(true))).count(),
        Err(error) => {
            shown(&error);
            error.diagnostics().len()
        }
    }
}

/// Shows an error in every way there is.
fn shown(error: &ConfigError) -> String {
    let places = error.diagnostics().iter().filter_map(|diagnostic| diagnostic.location()).count();
    format!("{}{}({places} places)", error.render(false), error.render(true))
}
