//! Copies of a workspace inside an environment: made, merged back, thrown away.
//!
//! All paths are inside the environment. The copies are made where the files are: on the host for an environment whose
//! files lie there, else by the environment's own `cp`.

use std::fs;
use std::path::Path;

use super::record::record;
use super::remove::{clear, remove_tree};
use super::walk::Scope;
use super::{WorkspaceError, blocking, shell};
use crate::runtime::Environment;

/// What a merge leaves as it is in the workspace it merges into.
const KEPT: &[&str] = &[".git", ".refrain"];

const COPY: &str = r#"mkdir -p -- "$2" && cp -a -- "$1/." "$2""#;
const MERGE: &str = r#"clear() { find "$1" -mindepth 1 -maxdepth 1 ! -name .git ! -name .refrain -exec rm -rf -- {} +; }
clear "$2" 2>/dev/null || { find "$2" -mindepth 1 -type d -exec chmod u+rwx -- {} \; ; clear "$2"; } &&
find "$1" -mindepth 1 -maxdepth 1 ! -name .git ! -name .refrain -exec cp -a -- {} "$2" \;"#;

/// Copies a workspace, with its repository and scratch, to a folder that does not exist yet.
///
/// # Errors
///
/// A [`WorkspaceError`] with the path that failed.
pub async fn fork(env: &dyn Environment, from: &Path, to: &Path) -> Result<(), WorkspaceError> {
    let (Some(from_host), Some(to_host)) = (env.host_path(from), env.host_path(to)) else {
        return shell::must(env, "fork", COPY, &[shell::word(from)?, shell::word(to)?]).await;
    };
    blocking(move || {
        if let Some(parent) = to_host.parent() {
            fs::create_dir_all(parent).map_err(|e| WorkspaceError::file("create", parent, e))?;
        }
        fs::create_dir(&to_host).map_err(|e| WorkspaceError::file("create", &to_host, e))?;
        record(&from_host, Scope::Everything, Some(&to_host)).map(|_| ())
    })
    .await
}

/// Replaces the files of `into` by those of `from`. `into` keeps its own repository and scratch.
///
/// # Errors
///
/// A [`WorkspaceError`]; `into` may then hold a part of the files.
pub async fn merge(env: &dyn Environment, from: &Path, into: &Path) -> Result<(), WorkspaceError> {
    if from == into {
        return Ok(());
    }
    let (Some(from_host), Some(into_host)) = (env.host_path(from), env.host_path(into)) else {
        return shell::must(env, "merge", MERGE, &[shell::word(from)?, shell::word(into)?]).await;
    };
    blocking(move || {
        clear(&into_host, KEPT)?;
        record(&from_host, Scope::Content, Some(&into_host)).map(|_| ())
    })
    .await
}

/// Removes a fork. One that is gone already is no error.
///
/// # Errors
///
/// [`WorkspaceError::Path`] for the workspace itself, else a [`WorkspaceError`] with the path that failed.
pub async fn discard(env: &dyn Environment, fork: &Path) -> Result<(), WorkspaceError> {
    if env.workspace().starts_with(fork) {
        let path = fork.to_string_lossy().into_owned();
        return Err(WorkspaceError::Path { path, reason: "is the workspace itself; only forks can be discarded" });
    }
    match env.host_path(fork) {
        Some(host) => blocking(move || remove_tree(&host)).await,
        None => {
            shell::must(env, "discard", r#"chmod -R u+rwx -- "$1" 2>/dev/null; rm -rf -- "$1""#, &[shell::word(fork)?])
                .await
        }
    }
}
