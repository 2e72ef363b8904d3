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

/// What all scripts begin with. `open_up` gives the owner back the permissions that an agent has taken away, as a copy on
/// the host does.
const TOOLS: &str = r#"open_up() {
  find "$1" -type d ! -perm -700 -exec chmod u+rwx -- {} \; 2>/dev/null
  find "$1" -type f ! -perm -400 -exec chmod u+r -- {} + 2>/dev/null
}
remove() { rm -rf -- "$1" 2>/dev/null || { open_up "$1"; rm -rf -- "$1"; }; }
clear() { find "$1" -mindepth 1 -maxdepth 1 ! -name .git ! -name .refrain -exec rm -rf -- {} +; }
empty() { clear "$1" 2>/dev/null || { open_up "$1"; clear "$1"; }; }
"#;
const COPY: &str = r#"copy() { mkdir -p -- "$2" && cp -a -- "$1/." "$2"; }
copy "$1" "$2" 2>/dev/null || { open_up "$1"; remove "$2"; copy "$1" "$2"; }"#;
// Not by `find -exec cp`, which succeeds whatever cp says.
const MERGE: &str = r#"take() (
  cd -- "$1" || exit 1
  for name in * .[!.]* ..?*; do
    case "$name" in .git|.refrain) continue ;; esac
    [ -e "./$name" ] || [ -L "./$name" ] || continue
    cp -a -- "./$name" "$2/" || exit 1
  done
)
empty "$2" || exit 1
take "$1" "$2" 2>/dev/null || { open_up "$1"; empty "$2" && take "$1" "$2"; }"#;
const DISCARD: &str = r#"remove "$1""#;

/// Copies a workspace, with its repository and scratch, to a folder that does not exist yet.
///
/// # Errors
///
/// A [`WorkspaceError`] with the path that failed.
pub async fn fork(env: &dyn Environment, from: &Path, to: &Path) -> Result<(), WorkspaceError> {
    let (Some(from_host), Some(to_host)) = (env.host_path(from), env.host_path(to)) else {
        return script(env, "fork", COPY, &[shell::word(from)?, shell::word(to)?]).await;
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
        return script(env, "merge", MERGE, &[shell::word(from)?, shell::word(into)?]).await;
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
        None => script(env, "discard", DISCARD, &[shell::word(fork)?]).await,
    }
}

async fn script(env: &dyn Environment, action: &'static str, text: &str, args: &[&str]) -> Result<(), WorkspaceError> {
    shell::must(env, action, &format!("{TOOLS}{text}"), args).await
}
