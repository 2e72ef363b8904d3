//! Where everything beside the database lies: `<state>/runs/<run>/<cell>/<attempt>/` and `<state>/blobs/`.
//!
//! Names come from [`crate::domain::name::external`], so that ids which differ in one odd character, or only in case,
//! never share a folder, and no id leads out of it.

use std::io;
use std::path::{Path, PathBuf};

use crate::domain::name::external;
use crate::domain::{AttemptId, CellId, RunName};

/// The file name of a run record.
pub const RECORD_FILE: &str = "run_record.json";

/// The file name of an attempt's whole diff.
pub const DIFF_FILE: &str = "diff.patch";

/// The file name of what an attempt's judge was asked.
pub const JUDGE_PROMPT_FILE: &str = "judge_prompt.txt";

/// The longest readable part of a folder's name; with the hash it stays far below what file systems allow.
const READABLE: usize = 80;

/// The folders of a project's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Describes the folders below `state_dir` (`.refrain`). Creates nothing.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self { root: state_dir.into() }
    }

    /// Returns the state folder itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder that holds one folder for each run.
    #[must_use]
    pub fn runs(&self) -> PathBuf {
        self.root.join("runs")
    }

    /// Returns the folder of a run.
    #[must_use]
    pub fn run(&self, run: &RunName) -> PathBuf {
        self.runs().join(external(run.as_str(), READABLE))
    }

    /// Returns the folder of a cell.
    #[must_use]
    pub fn cell(&self, run: &RunName, cell: &CellId) -> PathBuf {
        self.run(run).join(external(cell.as_str(), READABLE))
    }

    /// Returns the folder of an attempt. No other attempt ever writes there.
    #[must_use]
    pub fn attempt(&self, attempt: &AttemptId) -> PathBuf {
        self.cell(&attempt.run, &attempt.cell).join(format!("a{}", attempt.number))
    }

    /// Returns where an attempt's record lies.
    #[must_use]
    pub fn record_path(&self, attempt: &AttemptId) -> PathBuf {
        self.attempt(attempt).join(RECORD_FILE)
    }

    /// Returns where an attempt's whole diff lies.
    #[must_use]
    pub fn diff_path(&self, attempt: &AttemptId) -> PathBuf {
        self.attempt(attempt).join(DIFF_FILE)
    }

    /// Returns where lies what the judge of an attempt was asked.
    #[must_use]
    pub fn judge_prompt_path(&self, attempt: &AttemptId) -> PathBuf {
        self.attempt(attempt).join(JUDGE_PROMPT_FILE)
    }

    /// Returns where lies how far a judge agrees with people, by what the judge is known by.
    #[must_use]
    pub fn calibration_path(&self, version: &str) -> PathBuf {
        self.root.join("calibrations").join(format!("{}.json", external(version, READABLE)))
    }

    /// Returns the folder for what only lives as long as an attempt's environment: homes, workspaces, spools.
    #[must_use]
    pub fn scratch(&self, attempt: &AttemptId) -> PathBuf {
        self.scratch_root().join(attempt.external_name())
    }

    /// Returns the folder that holds the scratch folders of all attempts.
    #[must_use]
    pub fn scratch_root(&self) -> PathBuf {
        self.root.join("scratch")
    }

    /// Returns the folder of prepared workspaces.
    #[must_use]
    pub fn seeds(&self) -> PathBuf {
        self.root.join("seeds")
    }

    /// Creates the state folder, with a `.gitignore` of its own so that nothing in it is ever committed.
    ///
    /// # Errors
    ///
    /// Whatever the operating system refuses.
    pub fn prepare(&self) -> io::Result<()> {
        std::fs::create_dir_all(&self.root)?;
        let ignore = self.root.join(".gitignore");
        if !ignore.exists() {
            std::fs::write(ignore, "*\n")?;
        }
        Ok(())
    }

    /// Returns the folder of content-addressed blobs.
    #[must_use]
    pub fn blobs(&self) -> PathBuf {
        self.root.join("blobs")
    }
}

/// Returns how many bytes an ordinary user may still write on the file system of `path`.
///
/// # Errors
///
/// Whatever the operating system refuses, such as a path that does not exist.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let stat = rustix::fs::statvfs(path)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(run: &str, cell: &str, number: u32) -> AttemptId {
        AttemptId { run: RunName::new(run).expect("valid"), cell: CellId::from_stored(cell), number }
    }

    #[test]
    fn no_two_attempts_share_a_folder_and_none_leads_out() {
        let layout = Layout::new("/state");
        let ids = [
            attempt("a", "x/y__r1", 1),
            attempt("a", "x_y__r1", 1),
            attempt("a", "X_y__r1", 1),
            attempt("a", "x_y__r1", 2),
            attempt("A", "x_y__r1", 1),
            attempt("a", "../../../etc", 1),
            attempt("a", &"long".repeat(500), 1),
            attempt("a", &("long".repeat(500) + "x"), 1),
        ];
        let mut folders: Vec<_> = ids.iter().map(|id| layout.attempt(id)).collect();
        for folder in &folders {
            assert_eq!(folder.components().count(), 6, "{}", folder.display());
            assert!(folder.starts_with("/state/runs"), "{}", folder.display());
            assert!(folder.components().all(|part| part.as_os_str().len() < 200), "{}", folder.display());
        }
        folders.sort();
        folders.dedup();
        assert_eq!(folders.len(), ids.len());
    }
}
