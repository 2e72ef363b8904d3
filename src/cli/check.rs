//! `refrain check`: what is wrong with orchestrators, without running them.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{Failed, Outcome, exit, output};
use crate::config::orchestrator_manifest::{MANIFEST, OrchestratorManifest};
use crate::config::{ConfigError, Warnings};
use crate::redact::printable;
use crate::script::check::{Finding, Severity, check_dir, check_program};

/// Check orchestrators: manifest, parameters, scripts
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain check my-strategy\n  refrain check orchestrators\n\n\
                        Exit code 2 if there are errors; warnings alone are no error.")]
pub(super) struct Args {
    /// Orchestrators, or folders with orchestrators below them
    #[arg(default_value = ".", value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// What was found in one orchestrator.
struct Checked {
    dir: PathBuf,
    findings: Vec<Finding>,
    /// What is wrong with the manifest, with its own places.
    manifest: Result<Warnings, ConfigError>,
}

impl Checked {
    fn count(&self, severity: Severity) -> usize {
        let manifest = match (severity, &self.manifest) {
            (Severity::Error, Err(_)) => 1,
            (Severity::Warning, Ok(warnings)) => warnings.0.len(),
            _ => 0,
        };
        self.findings.iter().filter(|finding| finding.severity == severity).count() + manifest
    }
}

pub(super) fn main(args: &Args) -> Outcome {
    let mut dirs = Vec::new();
    for dir in &args.dirs {
        let before = dirs.len();
        find(dir, &mut dirs)?;
        if dirs.len() == before {
            let error = anyhow::anyhow!("there is no `{MANIFEST}` in `{}` or below it", dir.display());
            return Err(Failed::usage(error).with_hint("`refrain new SLUG` writes an orchestrator"));
        }
    }
    dirs.sort();
    dirs.dedup();
    let checked = dirs.into_iter().map(check).collect::<Result<Vec<_>, _>>()?;
    let errors: usize = checked.iter().map(|one| one.count(Severity::Error)).sum();
    let warnings: usize = checked.iter().map(|one| one.count(Severity::Warning)).sum();
    if args.json {
        let all: Vec<_> = checked.iter().map(as_json).collect();
        output::write_json(&json!({"schema": 1, "ok": errors == 0, "orchestrators": all}))?;
    } else {
        output::write(&checked.iter().map(as_text).collect::<String>())?;
        let (errors, warnings) = (counted(errors, "error"), counted(warnings, "warning"));
        output::write(&format!("{} checked: {errors}, {warnings}\n", checked.len()))?;
    }
    Ok(if errors == 0 { exit::OK } else { exit::USAGE })
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Finds orchestrators: the folder itself, else those below it.
fn find(dir: &Path, into: &mut Vec<PathBuf>) -> Result<(), Failed> {
    if dir.join(MANIFEST).is_file() {
        into.push(dir.to_owned());
        return Ok(());
    }
    let failed = |error: std::io::Error| Failed::usage(anyhow::anyhow!("cannot read `{}`: {error}", dir.display()));
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Symlinks are not followed: a circle of them would never end.
        let is_dir = entry.file_type().map_err(failed)?.is_dir();
        if is_dir && !name.starts_with('.') && name != "target" && name != "node_modules" {
            find(&entry.path(), into)?;
        }
    }
    Ok(())
}

fn check(dir: PathBuf) -> Result<Checked, Failed> {
    let loaded = OrchestratorManifest::read_dir(&dir);
    let mut findings = check_dir(&dir).map_err(Failed::usage)?;
    if let Ok((manifest, _)) = &loaded
        && !manifest.is_lua()
    {
        findings.extend(check_program(&dir, &manifest.runner));
    }
    let manifest = loaded.map(|(_, warnings)| warnings);
    if manifest.is_err() {
        // The manifest's own check says it better, and all of it.
        findings.retain(|finding| finding.file != MANIFEST);
    }
    Ok(Checked { dir, findings, manifest })
}

fn as_text(checked: &Checked) -> String {
    let mut text = match &checked.manifest {
        Ok(warnings) => warnings.0.iter().map(|warning| warning.render(true).trim_end().to_owned() + "\n").collect(),
        Err(error) => error.render(true).trim_end().to_owned() + "\n",
    };
    for finding in &checked.findings {
        let word = match finding.severity {
            Severity::Error => "\x1b[1;31merror\x1b[0m",
            Severity::Warning => "\x1b[1;33mwarning\x1b[0m",
        };
        let place = checked.dir.join(&finding.file).display().to_string();
        let (place, message) = (printable(&place), printable(&finding.message));
        text.push_str(&format!("{place}:{}: {word}: {message}\n", finding.line));
        for line in finding.snippet.iter().flat_map(|snippet| snippet.lines()) {
            text.push_str(&format!("  {}\n", printable(line)));
        }
    }
    text
}

fn as_json(checked: &Checked) -> serde_json::Value {
    let findings: Vec<_> = checked
        .findings
        .iter()
        .map(|finding| {
            let severity = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            };
            json!({"severity": severity, "file": finding.file, "line": finding.line, "message": finding.message})
        })
        .collect();
    let error = checked.manifest.as_ref().err().map(|error| error.render(false));
    let warnings: Vec<_> =
        checked.manifest.iter().flat_map(|warnings| &warnings.0).map(|one| one.render(false)).collect();
    json!({"dir": checked.dir, "manifest": error, "manifest_warnings": warnings, "findings": findings})
}
