//! The repository that an agent finds: one commit of the base tree, and no trace of anything before it.

use std::fs;
use std::path::Path;

use super::{WorkspaceError, git};

/// Author and committer, and the time of both: the commit's id shall depend on the files alone.
const NAME: &str = "Refrain";
const EMAIL: &str = "refrain@localhost";
const DATE: &str = "2000-01-01T00:00:00+00:00";

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n";

/// What of a fresh repository is kept; hooks, samples, logs and left-over messages are not.
const KEPT: &[&str] = &["HEAD", "config", "index", "objects", "packed-refs", "refs"];

/// Folders that git makes anew when it needs them. Each of them would cost every cell a folder.
const EMPTIED: &[&str] = &["objects/info", "refs/heads", "refs/tags"];

/// Builds a `.git` folder at `git_dir` with one commit of `tree` on `main`; returns the commit's id.
///
/// Both must lie in folders that are in no repository or be real paths, and `git_dir` must not exist.
pub(super) fn build(tree: &Path, git_dir: &Path) -> Result<String, WorkspaceError> {
    let run = |action: &'static str, args: &[&str]| {
        let mut command = git::command(tree);
        command.env("GIT_DIR", git_dir).env("GIT_WORK_TREE", tree).args(args);
        for who in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{who}_NAME"), NAME);
            command.env(format!("GIT_{who}_EMAIL"), EMAIL);
            command.env(format!("GIT_{who}_DATE"), DATE);
        }
        git::must(action, command)
    };
    run("init", &["init", "--quiet", "--template=", "--initial-branch=main", "--object-format=sha1"])?;
    // Ignored files of the seed are part of it.
    run("add", &["add", "--all", "--force", "."])?;
    run("commit", &["commit", "--quiet", "--allow-empty", "--no-verify", "--message=Base"])?;
    // One pack instead of many objects: less to copy for each cell.
    run("repack", &["repack", "-a", "-d", "-q", "-n"])?;
    run("pack-refs", &["pack-refs", "--all"])?;
    let id = run("rev-parse", &["rev-parse", "HEAD"])?;
    keep_only_what_is_needed(git_dir)?;
    Ok(String::from_utf8_lossy(&id).trim().to_owned())
}

fn keep_only_what_is_needed(git_dir: &Path) -> Result<(), WorkspaceError> {
    let fail = |path: &Path, e| WorkspaceError::file("clean", path, e);
    for entry in fs::read_dir(git_dir).map_err(|e| fail(git_dir, e))? {
        let path = entry.map_err(|e| fail(git_dir, e))?.path();
        let is_kept = path.file_name().is_some_and(|name| KEPT.iter().any(|kept| name == *kept));
        if is_kept {
            continue;
        }
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(|e| fail(&path, e))?;
    }
    for folder in EMPTIED.iter().map(|name| git_dir.join(name)).filter(|folder| folder.exists()) {
        // Not with its content: what is in it would be missed.
        fs::remove_dir(&folder).map_err(|e| fail(&folder, e))?;
    }
    let config = git_dir.join("config");
    fs::write(&config, CONFIG).map_err(|e| fail(&config, e))
}
