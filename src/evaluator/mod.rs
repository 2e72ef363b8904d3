//! What judges a final workspace. Hidden tests are laid over a copy of the tree after the agent's processes are gone,
//! the test command runs outside the agent's reach, and its machine-readable results must agree with its exit code.
//!
//! What cannot be believed is [`EvaluationError::Undecided`], never a guess. Start with [`TestSuiteEvaluator`]; the
//! decision itself is the pure function [`classify::classify`].

pub mod classify;
pub mod formats;
mod matching;
pub mod overlay;
pub mod patch;
mod reading;
pub mod suite;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

pub use suite::TestSuiteEvaluator;

use crate::domain::{AttemptId, ContainerOptions, Task, Verdict};
use crate::runtime::{Environment, Runtime};

/// Why no verdict could be had. Always an `evaluation_error` or infrastructure, never a score of 0.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvaluationError {
    /// The task's tests cannot be laid over the tree.
    #[error("the hidden tests do not fit: {0}")]
    Overlay(String),
    /// The test command ran but its result cannot be believed: no test ran, numbers and exit code disagree.
    #[error("{message}")]
    Undecided {
        /// What is wrong.
        message: String,
        /// The end of the output.
        output: String,
    },
    /// The test command did not end in time, and the task declares no tests that could count as not run.
    #[error("the test command did not end within {limit:?}{partial}")]
    Timeout {
        /// The limit.
        limit: Duration,
        /// What had been seen by then (`; until then 2 tests passed and 1 failed`), or nothing.
        partial: String,
        /// The end of the output.
        output: String,
    },
    /// Cancelled.
    #[error("cancelled")]
    Cancelled,
    /// The environment failed.
    #[error(transparent)]
    Runtime(#[from] crate::runtime::RuntimeError),
    /// The host could not read or write the evaluation's files.
    #[error("cannot {action} `{}`", .path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What an evaluator is given.
pub struct EvaluationInput<'a> {
    /// The task.
    pub task: &'a Task,
    /// Whose work it is.
    pub attempt: &'a AttemptId,
    /// A copy of the final tree on the host, which nobody else touches; the evaluator may change it.
    pub tree: &'a Path,
    /// The tree that the agent started from, on the host, where there is one. Without it a test patch that changes a file
    /// has only the agent's version to start from, and files that steer the tests (`conftest.py`) cannot be put back.
    pub base: Option<&'a Path>,
    /// A scratch folder on the host, for this evaluation alone.
    pub scratch: &'a Path,
    /// Whether the final tree differs from the baseline.
    pub changed: bool,
    /// Whether the visible checks pass on the final tree, where they were run.
    pub checks_pass: Option<bool>,
    /// Where a fresh environment can be opened.
    pub runtime: &'a dyn Runtime,
    /// The agent's environment, its processes gone, for `evaluate: same`.
    pub environment: &'a dyn Environment,
    /// The image, for runtimes that have images.
    pub image: Option<&'a str>,
    /// What a fresh environment may use, for runtimes whose environments are containers.
    pub container: &'a ContainerOptions,
    /// Ends the evaluation.
    pub stop: &'a CancellationToken,
}

/// Judges a final tree.
#[async_trait]
pub trait Evaluator: Send + Sync {
    /// Judges. Runs nothing of the tree on the host itself.
    ///
    /// # Errors
    ///
    /// An [`EvaluationError`] where there is no verdict; a task that is not solved is a verdict.
    async fn evaluate(&self, input: EvaluationInput<'_>) -> Result<Verdict, EvaluationError>;
}
