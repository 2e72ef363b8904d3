//! Why a workspace could not be prepared, copied, compared or read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::domain::Failure;
use crate::runtime::RuntimeError;

/// Why a workspace operation failed. Cloneable, because all cells that wait for one seed share its failure.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// A file on the host could not be read or written.
    #[error("{action} `{}` failed", .path.display())]
    File {
        /// What was tried: `read`, `create`, ….
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why.
        #[source]
        source: Arc<std::io::Error>,
    },
    /// The task's seed cannot be used as it is: no such commit, a link that leads out, a URL of a kind that is refused.
    #[error("the seed of task `{task}` cannot be used: {message}")]
    Seed {
        /// The task.
        task: String,
        /// What is wrong and what to do.
        message: String,
    },
    /// The task's mutation does not apply to its seed.
    #[error("the mutation of task `{task}` does not apply to its seed: {message}")]
    Mutation {
        /// The task.
        task: String,
        /// What git said.
        message: String,
    },
    /// A repository could not be fetched; trying again may help.
    #[error("cannot fetch `{url}`: {message}")]
    Fetch {
        /// From where.
        url: String,
        /// What git said, or which limit ended it.
        message: String,
    },
    /// Git is missing or failed in a way that has nothing to do with the task.
    #[error("git {action} failed: {message}")]
    Git {
        /// What was tried.
        action: &'static str,
        /// What git said.
        message: String,
    },
    /// A script asked for a path that it may not have. The script's fault; nothing was touched.
    #[error("`{path}` {reason}")]
    Path {
        /// What it asked for.
        path: String,
        /// Why not.
        reason: &'static str,
    },
    /// A file is larger than a script may read.
    #[error("`{path}` has more than {limit} bytes")]
    TooLarge {
        /// The file.
        path: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The environment failed.
    #[error(transparent)]
    Runtime(Arc<RuntimeError>),
    /// The work was cut off because the host is shutting down.
    #[error("the work on the workspace was cut off")]
    Interrupted,
}

impl WorkspaceError {
    pub(super) fn file(action: &'static str, path: impl AsRef<Path>, source: impl Into<std::io::Error>) -> Self {
        Self::File { action, path: path.as_ref().to_owned(), source: Arc::new(source.into()) }
    }

    /// Tells whether a script's own request caused it, so that the script should see it.
    #[must_use]
    pub fn is_misuse(&self) -> bool {
        matches!(self, Self::Path { .. } | Self::TooLarge { .. })
    }

    /// Tells whether the task is at fault: the same input fails in the same way again.
    #[must_use]
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::Seed { .. } | Self::Mutation { .. })
    }

    /// Returns the message with its causes, in one line.
    #[must_use]
    pub fn full_message(&self) -> String {
        let mut message = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        message
    }
}

impl From<RuntimeError> for WorkspaceError {
    fn from(error: RuntimeError) -> Self {
        Self::Runtime(Arc::new(error))
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        let message = error.full_message();
        match error {
            WorkspaceError::Seed { .. } | WorkspaceError::Mutation { .. } => Self::Configuration { message },
            WorkspaceError::Runtime(_) => Self::Runtime { message },
            WorkspaceError::File { .. }
            | WorkspaceError::Fetch { .. }
            | WorkspaceError::Git { .. }
            | WorkspaceError::Path { .. }
            | WorkspaceError::TooLarge { .. }
            | WorkspaceError::Interrupted => Self::Workspace { message },
        }
    }
}
