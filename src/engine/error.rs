//! Why a run could not be carried out at all. A cell that ends badly is no error: it is a result.

use super::worklist::{self, Changed};
use crate::domain::CellId;
use crate::runtime::RuntimeError;
use crate::store::StoreError;

/// Why a run stopped or never began.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store cannot keep results, so nothing more is run.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// A cell could not keep its results on the way, so nothing more is run.
    #[error("the results of `{cell}` could not be kept: {message}")]
    Unkept {
        /// Which.
        cell: CellId,
        /// Why.
        message: String,
    },
    /// The runtime is not usable.
    #[error("the runtime `{name}` is not usable")]
    Runtime {
        /// Its name.
        name: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// Environments do not reach the gateway.
    #[error("environments do not reach the gateway")]
    Gateway {
        /// Which address was tried, and from where.
        #[source]
        source: RuntimeError,
    },
    /// What the cells of a harness need could not be made ready.
    #[error("harness `{harness}` cannot be made ready on the runtime `{runtime}`")]
    Prepare {
        /// The harness.
        harness: String,
        /// The runtime.
        runtime: String,
        /// Why.
        #[source]
        source: RuntimeError,
    },
    /// No runtime of that name is registered.
    #[error("there is no runtime `{name}`; known: {}", known.join(", "))]
    UnknownRuntime {
        /// The name.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Cells of this run that cost something were made of something else.
    #[error(
        "{} cell(s) of this run were made from something else than there is now: {}; first: `{}`",
        changed.len(),
        worklist::describe_changes(changed),
        changed.first().map_or("", |changed| changed.cell.as_str())
    )]
    Changed {
        /// Which, and what of them.
        changed: Vec<Changed>,
    },
    /// A ceiling in money is to hold and a model has no price.
    #[error("{ceiling}, but nobody knows what `{model}` costs")]
    Unpriced {
        /// The model.
        model: String,
        /// Which ceiling.
        ceiling: &'static str,
    },
    /// A folder of the run cannot be made or written.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl EngineError {
    /// Says what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hints().into_iter().next(),
            Self::Runtime { source, .. } | Self::Prepare { source, .. } => match source {
                RuntimeError::Unavailable { hint, .. } | RuntimeError::Install { hint, .. } => Some(hint.clone()),
                _ => None,
            },
            Self::Gateway { source } => Some(match source {
                RuntimeError::Unavailable { hint, .. } => format!("{hint}; `--no-check-gateway` starts all the same"),
                _ => "`--no-check-gateway` starts all the same".to_owned(),
            }),
            Self::Unkept { .. } => Some(
                "see that there is space and that files can be written, then give the same command again".to_owned(),
            ),
            Self::Changed { .. } => Some(
                "put it back, pass `--fork` to run under a new name beside the old results, or pass `--accept-changes` \
                 to keep the finished cells as they are"
                    .to_owned(),
            ),
            Self::Unpriced { .. } => Some(
                "give it a price in a file of your own (`prices` in the run file, or `--prices FILE`), or set \
                 `allow_unpriced: true`: the cap does not see what it costs then"
                    .to_owned(),
            ),
            Self::UnknownRuntime { name, .. } if name == "docker" => {
                Some("this program was built without the feature `docker`: set `runtime: local`".to_owned())
            }
            Self::UnknownRuntime { .. } | Self::File { .. } => None,
        }
    }
}
