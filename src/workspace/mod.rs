//! The task's files: where they come from, what an agent did to them, and what a script may do with them.
//!
//! The host never runs git on anything an agent has touched. It walks trees itself (`walk`, `record`), compares them
//! itself ([`diff`]), and follows no link that leads out. Git runs on the host in one place only: to prepare a seed from
//! the user's repository and to build, once for each seed, the repository that agents find (`seed`, `source`,
//! `template`).
//!
//! The life of a workspace: [`SeedCache::prepare`] → [`place`] → the agent → [`collect()`] (or, in between, [`fork()`],
//! [`merge`], [`discard`] and the reads of [`WorkspaceFiles`]). Judging the result is the evaluator's part.

mod access;
mod beneath;
mod checkpoint;
mod collect;
pub mod diff;
mod error;
mod fork;
mod git;
mod leftovers;
mod names;
mod record;
mod remote;
mod remove;
mod seed;
mod shell;
mod snapshot;
mod source;
mod template;
mod walk;

pub use access::{MAX_READ_BYTES, WorkspaceFiles};
pub use checkpoint::{exists, set_back};
pub use collect::{Collected, collect, collect_at, collected_before, place, place_tree, rebase, rebased_before};
pub use diff::{Diff, DiffLimits, DiffStats};
pub use error::WorkspaceError;
pub use fork::{discard, fork, merge};
pub use seed::{SeedCache, Seeded};
pub use snapshot::{FileEntry, FileKind, Snapshot};

/// Runs file work where it does not hold up other tasks.
async fn blocking<T, F>(work: F) -> Result<T, WorkspaceError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, WorkspaceError> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(WorkspaceError::Interrupted))
}
