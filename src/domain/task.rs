//! Tasks: a prompt, a workspace to start from, checks that the agent may see and tests that it may not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failure::names;
use super::model::ModelRole;
use super::rubric::Rubric;

/// What kind of task it is; decides pairing with models, the default orchestrator and the evaluator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Track {
    /// A change to a repository, judged by hidden tests.
    #[default]
    Swe,
    /// Free work, judged by structure and rubric.
    OpenEnded,
    /// Several phases with roles (implement, review, revise), judged by hidden tests.
    MultiPhase,
}

names!(Track { Swe => "swe", OpenEnded => "open_ended", MultiPhase => "multi_phase" });

impl Track {
    /// Returns the slug of the orchestrator that runs when a run names none.
    #[must_use]
    pub fn default_orchestrator(self) -> &'static str {
        match self {
            Self::Swe | Self::OpenEnded => "one-shot",
            Self::MultiPhase => "phases",
        }
    }
}

/// What a phase is given besides its prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseInput {
    /// Nothing.
    #[default]
    None,
    /// The diff of the workspace against its baseline.
    Diff,
    /// The last message of the phase before.
    Output,
    /// The last message of the latest review phase.
    ReviewFeedback,
}

names!(PhaseInput { None => "none", Diff => "diff", Output => "output", ReviewFeedback => "review_feedback" });

/// One phase of a `multi_phase` task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// Its name, unique in the task.
    pub name: String,
    /// Which model runs it.
    pub model_role: ModelRole,
    /// Its prompt; the task's own where it has none.
    pub task_prompt: Option<String>,
    /// What it is given.
    pub input: PhaseInput,
    /// Its own limit, within the task's.
    pub timeout: Option<Duration>,
}

/// Where a workspace comes from. Paths are absolute on the host, but for an image's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Seed {
    /// An empty folder.
    Empty,
    /// A copy of a plain directory.
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// The tree of a commit in a local git repository, without its history.
    Git {
        /// The work tree or bare repository.
        path: PathBuf,
        /// The commit; the repository's `HEAD` where the task names none.
        commit: Option<String>,
    },
    /// The tree of a commit in a repository behind a URL.
    Url {
        /// The URL.
        url: String,
        /// The commit; the remote's `HEAD` where the task names none.
        commit: Option<String>,
    },
    /// A folder of the image that environments are made from. The workspace stands in for it there.
    Image {
        /// The folder, absolute inside the image.
        path: PathBuf,
    },
}

impl Seed {
    /// Returns the folder of the image, where it is one.
    #[must_use]
    pub fn image_folder(&self) -> Option<&Path> {
        match self {
            Self::Image { path } => Some(path),
            Self::Empty | Self::Directory { .. } | Self::Git { .. } | Self::Url { .. } => None,
        }
    }
}

/// Where hidden tests come from. They never exist in the agent's environment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HiddenTests {
    /// None: the test command judges the tree as it is.
    None,
    /// A unified diff whose new files (and new versions of files) are laid over the final tree.
    Patch {
        /// The patch text.
        patch: String,
    },
    /// A folder that is laid over the final tree.
    Overlay {
        /// The folder on the host.
        path: PathBuf,
    },
}

/// In which environment the tests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluateIn {
    /// A new one from the same image, with a copy of the final tree.
    #[default]
    Fresh,
    /// The one the agent worked in, after its processes are gone.
    Same,
}

names!(EvaluateIn { Fresh => "fresh", Same => "same" });

/// A checked task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Unique in the library.
    pub id: String,
    /// For people.
    pub name: String,
    /// Its kind.
    pub track: Track,
    /// For people and reports.
    pub difficulty: Option<String>,
    /// For people.
    pub description: Option<String>,
    /// What the workspace starts from.
    pub seed: Seed,
    /// A patch applied on the seed: the defect to find.
    pub mutation: Option<String>,
    /// A shell script run in the environment before the first session.
    pub setup_script: Option<String>,
    /// What the agent is told.
    pub prompt: String,
    /// Shell commands the agent may see and a script may run between sessions.
    pub checks: Vec<String>,
    /// The shell command that runs the tests.
    pub test_command: Option<String>,
    /// The hidden tests.
    pub hidden: HiddenTests,
    /// Test ids that fail before and must pass after.
    pub fail_to_pass: Vec<String>,
    /// Test ids that pass before and must still pass.
    pub pass_to_pass: Vec<String>,
    /// Files that must exist in the end.
    pub expected_files: Vec<String>,
    /// What a judge looks for.
    pub rubric: Option<Rubric>,
    /// The limit of the whole attempt, setup and evaluation apart.
    pub timeout: Duration,
    /// Whether more than one session makes sense.
    pub multi_session: bool,
    /// Where the tests run.
    pub evaluate: EvaluateIn,
    /// The phases of a `multi_phase` task.
    pub phases: Vec<Phase>,
    /// Free.
    pub metadata: serde_json::Map<String, serde_json::Value>,
    /// The file that defines the task.
    pub source: PathBuf,
}

impl Task {
    /// Tells whether a phase needs a review model.
    #[must_use]
    pub fn has_review_phase(&self) -> bool {
        self.phases.iter().any(|phase| phase.model_role == ModelRole::Review)
    }
}
