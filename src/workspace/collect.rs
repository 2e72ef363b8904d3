//! Puts a seed into an environment, and takes out what became of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::diff::{DiffLimits, DiffStats, diff_snapshots};
use super::record::record;
use super::remove::remove_tree;
use super::seed::Seeded;
use super::snapshot::Snapshot;
use super::walk::Scope;
use super::{WorkspaceError, blocking};
use crate::runtime::Environment;

/// What an agent left, in a place it can no longer touch.
#[derive(Debug, Clone)]
pub struct Collected {
    /// The copy of the files on the host, without any `.git` and without the top-level `.refrain/`.
    pub tree: PathBuf,
    /// What it holds.
    pub snapshot: Snapshot,
    /// What changed since the baseline, as a patch for git.
    pub diff: Vec<u8>,
    /// Figures of the patch, and notes about what was left out of copy or patch.
    pub stats: DiffStats,
    /// Whether any file differs from the baseline.
    pub changed: bool,
}

/// Puts a seed's files and its repository into the environment's empty workspace.
///
/// # Errors
///
/// A [`WorkspaceError`] with the path that failed.
pub async fn place(seeded: &Seeded, env: &dyn Environment) -> Result<(), WorkspaceError> {
    place_tree(&seeded.tree, &seeded.git_template, env).await
}

/// Puts any tree into the environment's empty workspace, with a seed's repository beside it.
///
/// For evaluation: a collected tree comes without a repository, and the agent's own is not to be trusted.
///
/// # Errors
///
/// A [`WorkspaceError`] with the path that failed.
pub async fn place_tree(tree: &Path, git_template: &Path, env: &dyn Environment) -> Result<(), WorkspaceError> {
    let workspace = env.workspace();
    let Some(host) = env.host_path(workspace) else {
        env.put(tree, workspace).await?;
        env.put(git_template, &workspace.join(".git")).await?;
        return Ok(());
    };
    let (tree, template) = (tree.to_owned(), git_template.to_owned());
    blocking(move || {
        record(&tree, Scope::Everything, Some(&host))?;
        let git = host.join(".git");
        fs::create_dir(&git).map_err(|e| WorkspaceError::file("create", &git, e))?;
        record(&template, Scope::Everything, Some(&git))?;
        Ok(())
    })
    .await
}

/// Copies the workspace to the host folder `dest` and compares it with the baseline.
///
/// # Errors
///
/// A [`WorkspaceError`] with the path that failed. `dest` must not hold an earlier collection: each is written once.
pub async fn collect(env: &dyn Environment, seeded: &Seeded, dest: &Path) -> Result<Collected, WorkspaceError> {
    collect_at(env, env.workspace(), seeded, dest).await
}

/// The same for any folder inside the environment, such as a fork of the workspace.
///
/// # Errors
///
/// As for [`collect`].
pub async fn collect_at(
    env: &dyn Environment,
    root: &Path,
    seeded: &Seeded,
    dest: &Path,
) -> Result<Collected, WorkspaceError> {
    let host = env.host_path(root);
    let tree = tree_in(env, root, dest);
    if let Some(parent) = tree.parent() {
        fs::create_dir_all(parent).map_err(|e| WorkspaceError::file("create", parent, e))?;
    }
    fs::create_dir(&tree).map_err(|e| WorkspaceError::file("create", &tree, e))?;
    let (from, fetched) = if let Some(host) = host {
        (host, None)
    } else {
        let raw = dest.join("fetched");
        let notes = env.get(root, &raw).await?;
        (raw, Some(notes))
    };
    let seeded = seeded.clone();
    blocking(move || {
        let snapshot = record(&from, Scope::Files, Some(&tree))?;
        let mut notes = Vec::new();
        if let Some(left_out) = fetched {
            notes.extend(left_out);
            remove_tree(&from)?;
        }
        notes.extend(snapshot.notes());
        let base = (seeded.tree.as_path(), &*seeded.baseline);
        let diff = diff_snapshots(base, (&tree, &snapshot), DiffLimits::default())?;
        let mut stats = diff.stats;
        notes.append(&mut stats.notes);
        stats.notes = notes;
        let changed = !snapshot.same_files(&seeded.baseline);
        Ok(Collected { tree, snapshot, diff: diff.patch, stats, changed })
    })
    .await
}

/// Where a collection of `root` lies in `dest`: nothing else comes there where the files lie on the host already.
fn tree_in(env: &dyn Environment, root: &Path, dest: &Path) -> PathBuf {
    if env.host_path(root).is_some() { dest.to_owned() } else { dest.join("tree") }
}

/// Takes what a task's setup script has made of the workspace as the new baseline, so that it does not count as the
/// agent's work. The repository in the workspace stays as it is.
///
/// # Errors
///
/// As for [`collect`].
pub async fn rebase(env: &dyn Environment, seeded: &Arc<Seeded>, dest: &Path) -> Result<Arc<Seeded>, WorkspaceError> {
    let collected = collect(env, seeded, dest).await?;
    if !collected.changed {
        return Ok(Arc::clone(seeded));
    }
    let baseline = Arc::new(collected.snapshot);
    Ok(Arc::new(Seeded { tree: collected.tree, baseline, ..Seeded::clone(seeded) }))
}

/// Reads a collection again that [`collect`] has made in `dest` for an earlier host.
///
/// # Errors
///
/// A [`WorkspaceError`] with the path that failed.
pub async fn collected_before(
    env: &dyn Environment,
    seeded: &Seeded,
    dest: &Path,
) -> Result<Collected, WorkspaceError> {
    let (seeded, tree) = (seeded.clone(), tree_in(env, env.workspace(), dest));
    blocking(move || {
        let snapshot = Snapshot::of(&tree)?;
        let base = (seeded.tree.as_path(), &*seeded.baseline);
        let diff = diff_snapshots(base, (&tree, &snapshot), DiffLimits::default())?;
        let changed = !snapshot.same_files(&seeded.baseline);
        Ok(Collected { tree, snapshot, diff: diff.patch, stats: diff.stats, changed })
    })
    .await
}

/// Returns the baseline that [`rebase`] has left in `dest` for an earlier host, if it has left one.
///
/// # Errors
///
/// A [`WorkspaceError`] with the path that failed.
pub async fn rebased_before(
    env: &dyn Environment,
    seeded: &Arc<Seeded>,
    dest: &Path,
) -> Result<Arc<Seeded>, WorkspaceError> {
    let (seeded, tree) = (Arc::clone(seeded), tree_in(env, env.workspace(), dest));
    blocking(move || {
        if !tree.is_dir() {
            return Ok(seeded);
        }
        let baseline = Arc::new(Snapshot::of(&tree)?);
        Ok(Arc::new(Seeded { tree, baseline, ..Seeded::clone(&seeded) }))
    })
    .await
}
