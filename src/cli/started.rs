//! What a run was started with, so that it can be gone on with by its name alone.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use super::Failed;
use crate::config::{LoadOptions, RunPlan};
use crate::domain::RunName;
use crate::store::{Layout, record_file};

/// The file, in the run's folder.
const FILE: &str = "started.json";

/// The folder of records and logs that lies beside a database, unless the run file says otherwise.
pub(super) fn state_beside(db: &Path) -> PathBuf {
    db.parent().unwrap_or(Path::new("")).join(".refrain")
}

/// A run file, and what the command line changed about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Started {
    file: PathBuf,
    set: Vec<String>,
    params: Vec<String>,
    orchestrator_dirs: Vec<PathBuf>,
    only: Vec<String>,
    #[serde(default)]
    prices: Vec<PathBuf>,
    #[serde(default)]
    no_check_gateway: bool,
}

impl Started {
    pub(super) fn of(options: &LoadOptions, prices: &[PathBuf], check_gateway: bool) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        Self {
            file: absolute(&options.path),
            set: options.set.clone(),
            params: options.params.clone(),
            orchestrator_dirs: options.orchestrator_dirs.iter().map(absolute).collect(),
            only: options.only.clone(),
            prices: prices.iter().map(absolute).collect(),
            no_check_gateway: !check_gateway,
        }
    }

    /// Tells whether it is tried, before the first cell, that environments reach the gateway.
    pub(super) fn checks_gateway(&self) -> bool {
        !self.no_check_gateway
    }

    /// Keeps it for a later `resume` or `replay`. Where it cannot be kept the run is none the worse for it.
    pub(super) fn save(&self, plan: &RunPlan) {
        let folder = Layout::new(&plan.state_dir).run(&plan.name);
        let path = folder.join(FILE);
        let write = || -> std::io::Result<()> {
            std::fs::create_dir_all(&folder)?;
            record_file::write_atomic(&path, &serde_json::to_vec_pretty(self)?)
        };
        record_file::remove_unfinished(&folder);
        if let Err(error) = write() {
            tracing::warn!(path = %path.display(), %error, "`refrain resume` will not know this run by its name");
        }
    }

    /// Reads what a run was started with, from the state folder beside a database.
    pub(super) fn read(db: &Path, run: &RunName) -> Result<Self, Failed> {
        let path = Layout::new(state_beside(db)).run(run).join(FILE);
        let unknown = || format!("nothing is known of how run `{run}` was started");
        let text = std::fs::read(&path).with_context(unknown).map_err(Failed::usage);
        let text = text.map_err(|failed| failed.with_hint("give its run file: `refrain run FILE`"))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("`{}` cannot be read", path.display()))
            .map_err(Failed::usage)
    }

    /// Loads the plan again. A run that was forked has another name than its file.
    pub(super) fn load(&self, run: &RunName) -> Result<RunPlan, Failed> {
        let options = LoadOptions {
            set: self.set.clone(),
            params: self.params.clone(),
            orchestrator_dirs: self.orchestrator_dirs.clone(),
            only: self.only.clone(),
            ..LoadOptions::new(&self.file)
        };
        let (mut plan, warnings) = crate::config::load(options)?;
        super::run::show_warnings(&warnings);
        plan.name = run.clone();
        plan.prices.extend(self.prices.iter().cloned());
        Ok(plan)
    }
}
