//! `refrain list`: what there is to run with.

use std::path::{Path, PathBuf};

use clap::Subcommand;

use super::{Outcome, exit, output};
use crate::config::harness_manifest::HarnessManifest;
use crate::config::orchestrator_manifest::Origin;
use crate::config::{Catalog, TaskLibrary};

/// List harnesses, orchestrators, tasks or runs
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain list tasks\n  refrain list orchestrators --orchestrator-dir ./mine\n  \
                        refrain list runs")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The built-in harnesses, and with which version of its program each was tried
    Harnesses,
    /// The built-in orchestrators and those on the search path, with origin and content hash
    Orchestrators {
        /// Also look in this directory; may be given several times
        #[arg(long, value_name = "PATH")]
        orchestrator_dir: Vec<PathBuf>,
    },
    /// The tasks of a library
    Tasks {
        /// The library
        #[arg(default_value = "tasks")]
        library: PathBuf,
    },
    /// The runs in the store
    Runs {
        /// The results database
        #[arg(long, default_value = "refrain.db", env = "REFRAIN_DB")]
        db: PathBuf,
    },
}

pub(super) fn main(args: &Args) -> Outcome {
    match &args.what {
        What::Harnesses => harnesses(),
        What::Orchestrators { orchestrator_dir } => orchestrators(orchestrator_dir),
        What::Tasks { library } => tasks(library),
        What::Runs { db } => runs(db),
    }
}

/// Where orchestrators are looked for besides the built-in ones: the given directories, `REFRAIN_PATH`, the user's own.
pub(super) fn orchestrator_path(given: &[PathBuf]) -> Vec<PathBuf> {
    let mut path = given.to_vec();
    if let Some(variable) = std::env::var_os("REFRAIN_PATH") {
        path.extend(std::env::split_paths(&variable).filter(|dir| !dir.as_os_str().is_empty()));
    }
    let config = std::env::var_os("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".config")));
    path.extend(config.map(|config| config.join("refrain/orchestrators")).filter(|dir| dir.is_dir()));
    path
}

fn harnesses() -> Outcome {
    let rows = HarnessManifest::builtins()?.into_iter().map(|harness| {
        let resume = if harness.resume_args.is_some() { "yes" } else { "no" };
        let verified = harness.verified.unwrap_or_else(|| "never".to_owned());
        [harness.name, resume.to_owned(), verified, harness.description]
    });
    output::write(&output::table(["harness", "resumes", "verified", "description"], rows))?;
    Ok(exit::OK)
}

fn orchestrators(given: &[PathBuf]) -> Outcome {
    let catalog = Catalog::load(&orchestrator_path(given))?;
    let rows = catalog.orchestrators().iter().map(|manifest| {
        let origin = match &manifest.origin {
            Origin::Builtin => "built-in".to_owned(),
            Origin::Directory(path) => path.display().to_string(),
        };
        let hash = manifest.hash.chars().take(12).collect();
        [manifest.slug.clone(), origin, hash, manifest.description.clone()]
    });
    output::write(&output::table(["orchestrator", "origin", "hash", "description"], rows))?;
    Ok(exit::OK)
}

fn tasks(library: &Path) -> Outcome {
    let library = TaskLibrary::load(library)?;
    let rows = library.tasks().map(|task| {
        let difficulty = task.difficulty.clone().unwrap_or_else(|| "-".to_owned());
        [task.id.clone(), task.track.to_string(), difficulty, task.name.clone()]
    });
    output::write(&output::table(["task", "track", "difficulty", "name"], rows))?;
    Ok(exit::OK)
}

fn runs(db: &Path) -> Outcome {
    let store = super::results::open(db)?;
    let rows = store.runs().wait()?.into_iter().map(|run| {
        [
            run.name.to_string(),
            run.started_at.strftime("%Y-%m-%d %H:%M").to_string(),
            run.summary.total.to_string(),
            run.summary.passed.to_string(),
            run.summary.failed.to_string(),
            run.summary.errored.to_string(),
            crate::report::text::bounded_cost(run.summary.total_cost, run.summary.unknown_costs),
        ]
    });
    output::write(&output::table(["run", "started", "cells", "passed", "failed", "errored", "cost"], rows))?;
    Ok(exit::OK)
}
