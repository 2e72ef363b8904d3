//! Setting a folder inside an environment back to a copy of it.

use std::path::Path;

use super::record::record;
use super::remove::clear;
use super::walk::Scope;
use super::{WorkspaceError, blocking, shell};
use crate::runtime::Environment;

const SET_BACK: &str = r#"clear() { find "$1" -mindepth 1 -maxdepth 1 -exec rm -rf -- {} +; }
mkdir -p -- "$2" &&
{ clear "$2" 2>/dev/null || { find "$2" -mindepth 1 -type d -exec chmod u+rwx -- {} \; ; clear "$2"; } } &&
cp -a -- "$1/." "$2""#;

/// Tells whether a folder is there.
///
/// # Errors
///
/// A [`WorkspaceError`] if the environment cannot be asked.
pub async fn exists(env: &dyn Environment, folder: &Path) -> Result<bool, WorkspaceError> {
    if let Some(host) = env.host_path(folder) {
        return blocking(move || Ok(host.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()))).await;
    }
    let report = shell::run(env, r#"[ -d "$1" ] || exit 43"#, &[shell::word(folder)?], None, 1024).await?;
    match shell::code(&report) {
        Some(0) => Ok(true),
        Some(shell::ABSENT) => Ok(false),
        _ => Err(shell::failed("look at", &report)),
    }
}

/// Replaces everything in `folder` by what is in `copy`, which [`super::fork`] has made; the copy stays as it is.
///
/// # Errors
///
/// A [`WorkspaceError`]; `folder` may then hold a part of the files.
pub async fn set_back(env: &dyn Environment, copy: &Path, folder: &Path) -> Result<(), WorkspaceError> {
    let (Some(from), Some(into)) = (env.host_path(copy), env.host_path(folder)) else {
        return shell::must(env, "set back", SET_BACK, &[shell::word(copy)?, shell::word(folder)?]).await;
    };
    blocking(move || {
        clear(&into, &[])?;
        record(&from, Scope::Everything, Some(&into)).map(|_| ())
    })
    .await
}
