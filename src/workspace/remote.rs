//! Repositories behind a URL: cloned once into the cache, shared by all processes, fetched only when a commit is missing.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::source::{SourceError, resolve};
use super::{WorkspaceError, git};

/// How long git may take to clone or fetch.
const TIME_LIMIT: Duration = Duration::from_secs(15 * 60);
/// The kinds of URL that are fetched. `ext::` and the like run commands.
const PROTOCOLS: &[&str] = &["https", "ssh", "git", "file"];

/// The clones of one cache.
#[derive(Debug)]
pub(super) struct Remotes {
    dir: PathBuf,
    /// One task at a time works on a clone; another process's work is kept apart by git's own locks.
    busy: std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl Remotes {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir, busy: std::sync::Mutex::default() }
    }

    /// Returns a bare repository that has the commit, and the commit's id.
    pub(super) async fn fetch(&self, url: &str, commit: Option<&str>) -> Result<(PathBuf, String), SourceError> {
        check_url(url).map_err(SourceError::Seed)?;
        let lock = match self.busy.lock() {
            Ok(mut busy) => Arc::clone(busy.entry(url.to_owned()).or_default()),
            Err(_) => return Err(WorkspaceError::Interrupted.into()),
        };
        let _guard = lock.lock().await;
        let commit = match commit {
            Some(name) => name.to_owned(),
            None => self.head(url).await?,
        };
        let clone = self.dir.join(&blake3::hash(url.as_bytes()).to_hex()[..32]);
        if !clone.is_dir() {
            self.clone(url, &clone).await?;
        }
        let clone = clone.canonicalize().map_err(|e| WorkspaceError::file("open", &clone, e))?;
        if let Ok(id) = resolve(&clone, Some(&commit)) {
            return Ok((clone, id));
        }
        let all = ["fetch", "--quiet", "--force", "--", url, "+refs/*:refs/*"];
        remote_git(&clone, &all, url).await?;
        if resolve(&clone, Some(&commit)).is_err() {
            // A server may hand out a commit that no branch has. If it does not, the commit is unknown.
            let _ = remote_git(&clone, &["fetch", "--quiet", "--", url, &commit], url).await;
        }
        match resolve(&clone, Some(&commit)) {
            Ok(id) => Ok((clone, id)),
            Err(_) => Err(SourceError::Seed(format!("there is no commit `{commit}` in `{url}`"))),
        }
    }

    async fn head(&self, url: &str) -> Result<String, SourceError> {
        self.make_dir()?;
        let listed = remote_git(&self.dir, &["ls-remote", "--quiet", "--", url, "HEAD"], url).await?;
        match String::from_utf8_lossy(&listed).split_whitespace().next() {
            Some(id) => Ok(id.to_owned()),
            None => Err(SourceError::Seed(format!("`{url}` has no HEAD; name a commit with `repo_commit`"))),
        }
    }

    async fn clone(&self, url: &str, to: &Path) -> Result<(), SourceError> {
        self.make_dir()?;
        let temp = tempfile::Builder::new().prefix(super::leftovers::CLONING).tempdir_in(&self.dir);
        let temp = temp.map_err(|e| WorkspaceError::file("create", &self.dir, e))?;
        let clone = ["clone", "--quiet", "--bare", "--template=", "--", url, "clone"];
        remote_git(temp.path(), &clone, url).await?;
        let made = temp.path().join("clone");
        if let Err(error) = std::fs::rename(&made, to)
            && !to.is_dir()
        {
            return Err(WorkspaceError::file("rename", made, error).into());
        }
        Ok(())
    }

    fn make_dir(&self) -> Result<(), WorkspaceError> {
        std::fs::create_dir_all(&self.dir).map_err(|e| WorkspaceError::file("create", &self.dir, e))
    }
}

/// Runs git against a URL, within the time limit.
async fn remote_git(dir: &Path, args: &[&str], url: &str) -> Result<Vec<u8>, WorkspaceError> {
    let fail = |message: String| WorkspaceError::Fetch { url: url.to_owned(), message };
    let mut command = git::command(dir);
    command
        .args(args)
        .env("GIT_ALLOW_PROTOCOL", PROTOCOLS.join(":"))
        .env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        .env("GIT_ASKPASS", "true")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut command = tokio::process::Command::from(command);
    let child = command.kill_on_drop(true).spawn().map_err(|e| git::failed("clone", &e))?;
    let group = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
    let Ok(output) = tokio::time::timeout(TIME_LIMIT, child.wait_with_output()).await else {
        if let Some(group) = group {
            // The transport runs in processes of its own. If they are gone already, that is what was wanted.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        return Err(fail(format!("git did not finish within {} s", TIME_LIMIT.as_secs())));
    };
    let output = output.map_err(|e| git::failed("clone", &e))?;
    if output.status.success() { Ok(output.stdout) } else { Err(fail(git::said(&output.stderr, output.status))) }
}

/// Tells whether a URL is of a kind that is fetched; the error says what is wrong with it.
fn check_url(url: &str) -> Result<(), String> {
    let refused = |why: &str| Err(format!("the URL `{url}` is refused: {why}"));
    if url.starts_with('-') || url.chars().any(char::is_control) {
        return refused("it is not a URL");
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        return if !PROTOCOLS.contains(&scheme) {
            refused("use https, ssh, git or file")
        } else if rest.starts_with('-') || rest.is_empty() {
            refused("it names no host")
        } else {
            Ok(())
        };
    }
    if url.contains("::") {
        return refused("remote helpers run commands; use https, ssh, git or file");
    }
    match url.split_once(':') {
        // The short form of ssh: `user@host:path`.
        Some((host, path)) if host.contains('@') && !host.contains('/') && !path.starts_with('-') => Ok(()),
        _ => refused("it is not a URL; use https, ssh, git or file"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("https://example.org/a.git", true)]
    #[test_case("ssh://git@example.org/a.git", true)]
    #[test_case("file:///srv/a.git", true)]
    #[test_case("git@example.org:a/b.git", true)]
    #[test_case("ext::sh -c touch% /tmp/x", false)]
    #[test_case("--upload-pack=touch /tmp/x", false)]
    #[test_case("ssh://-oProxyCommand=x/a", false)]
    #[test_case("http://example.org/a.git", false)]
    #[test_case("fd::17", false)]
    #[test_case("just/a/path", false)]
    #[test_case("https://example.org/\u{1b}[2J", false)]
    fn urls_that_run_commands_are_refused(url: &str, allowed: bool) {
        assert_eq!(check_url(url).is_ok(), allowed);
    }
}
