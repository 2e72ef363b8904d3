//! Where a script's files come from, with nothing outside its own directory in reach.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::compiled::Compiled;

/// Most bytes that are ever read of one script file; the limit in force may be lower.
const MAX_FILE: u64 = 4 << 20;

/// Why a script file cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The directory itself is not usable.
    #[error("cannot open the orchestrator directory {path}: {message}")]
    Directory {
        /// The directory.
        path: String,
        /// The system's words.
        message: String,
    },
    /// A path that is absolute, climbs, or holds bytes that no script file needs.
    #[error("`{path}` is no path below the orchestrator's directory: {reason}")]
    Path {
        /// The path as written.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The name exists with other capitals; it would break on another system.
    #[error("`{path}` is spelt `{actual}` on disk; use the same capitals")]
    Case {
        /// The path as written.
        path: String,
        /// The name on disk.
        actual: String,
    },
    /// A symlink that leads out of the directory.
    #[error("`{path}` leads out of the orchestrator's directory through a symlink")]
    Escapes {
        /// The path as written.
        path: String,
    },
    /// A directory, pipe, socket or device.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// The path as written.
        path: String,
    },
    /// Larger than any script may be.
    #[error("`{path}` is larger than {limit} bytes")]
    TooLarge {
        /// The path as written.
        path: String,
        /// The limit.
        limit: u64,
    },
    /// The system refused.
    #[error("cannot read `{path}`: {message}")]
    Io {
        /// The path as written.
        path: String,
        /// The system's words.
        message: String,
    },
}

/// Gives out the files of one orchestrator.
pub trait ScriptFiles: Send + Sync + fmt::Debug {
    /// Reads a file by its path relative to the orchestrator's directory; `None` where there is none.
    ///
    /// # Errors
    ///
    /// A [`SourceError`] for paths that lead out and for everything that is no readable regular file.
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError>;
}

/// A script: its runner and the files it may `require`.
#[derive(Debug, Clone)]
pub struct ScriptSource {
    runner: String,
    files: Arc<dyn ScriptFiles>,
    compiled: Arc<Compiled>,
}

impl ScriptSource {
    /// Takes files from a directory, which is canonicalized first.
    ///
    /// # Errors
    ///
    /// [`SourceError::Directory`] where it cannot be opened, [`SourceError::Path`] where `runner` leads out of it.
    pub fn from_dir(directory: &Path, runner: &str) -> Result<Self, SourceError> {
        let shown = directory.display().to_string();
        let root = directory
            .canonicalize()
            .map_err(|error| SourceError::Directory { path: shown.clone(), message: error.to_string() })?;
        if !root.is_dir() {
            return Err(SourceError::Directory { path: shown, message: "not a directory".to_owned() });
        }
        parts(runner)?;
        Ok(Self::new(runner, Arc::new(Directory { root })))
    }

    /// Takes files from memory: embedded ones, or those of a test.
    #[must_use]
    pub fn from_embedded(files: BTreeMap<String, Cow<'static, [u8]>>, runner: &str) -> Self {
        Self::new(runner, Arc::new(Embedded(files)))
    }

    /// Makes a script of one file.
    #[must_use]
    pub fn from_text(runner: &str, text: impl Into<String>) -> Self {
        let text = Cow::Owned(text.into().into_bytes());
        Self::from_embedded(BTreeMap::from([(runner.to_owned(), text)]), runner)
    }

    /// Takes files from anywhere.
    #[must_use]
    pub fn new(runner: &str, files: Arc<dyn ScriptFiles>) -> Self {
        Self { runner: runner.to_owned(), files, compiled: Arc::default() }
    }

    /// Returns the runner's path.
    #[must_use]
    pub fn runner(&self) -> &str {
        &self.runner
    }

    /// Reads one of the script's files; see [`ScriptFiles::read`].
    ///
    /// # Errors
    ///
    /// Those of [`ScriptFiles::read`].
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        self.files.read(path)
    }

    /// Returns the bytecode of one of the script's files, given its text; `None` where it does not compile.
    pub(super) fn bytecode(&self, path: &str, text: &[u8]) -> Option<Arc<[u8]>> {
        self.compiled.of(path, text)
    }

    /// Returns the same files with another one to start with.
    #[must_use]
    pub fn with_runner(&self, runner: &str) -> Self {
        Self { runner: runner.to_owned(), files: Arc::clone(&self.files), compiled: Arc::clone(&self.compiled) }
    }
}

/// Splits a relative path into its parts and refuses everything that is more than that.
fn parts(path: &str) -> Result<Vec<&str>, SourceError> {
    let refuse = |reason| Err(SourceError::Path { path: path.to_owned(), reason });
    if path.is_empty() || path.len() > 1024 {
        return refuse("it is empty or too long");
    }
    if path.starts_with('/') {
        return refuse("it is absolute");
    }
    if path.contains(['\\', '\0', ':']) {
        return refuse("it holds a backslash, a colon or a NUL");
    }
    let parts: Vec<&str> = path.split('/').collect();
    if parts.iter().any(|part| matches!(*part, "" | "." | "..")) {
        return refuse("it has an empty part, `.` or `..`");
    }
    Ok(parts)
}

#[derive(Debug)]
struct Directory {
    root: PathBuf,
}

impl Directory {
    /// Finds a path part by part, so that a file system that ignores capitals cannot hide a misspelling.
    fn locate(&self, path: &str) -> Result<Option<PathBuf>, SourceError> {
        let io = |error: std::io::Error| SourceError::Io { path: path.to_owned(), message: error.to_string() };
        let mut at = self.root.clone();
        for part in parts(path)? {
            let entries = match std::fs::read_dir(&at) {
                Ok(entries) => entries,
                Err(error)
                    if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
                {
                    return Ok(None);
                }
                Err(error) => return Err(io(error)),
            };
            let mut other_case = None;
            let mut found = false;
            for entry in entries {
                let name = entry.map_err(io)?.file_name();
                if name == part {
                    found = true;
                    break;
                }
                if name.to_string_lossy().eq_ignore_ascii_case(part) {
                    other_case = Some(name.to_string_lossy().into_owned());
                }
            }
            match (found, other_case) {
                (true, _) => at.push(part),
                (false, Some(actual)) => return Err(SourceError::Case { path: path.to_owned(), actual }),
                (false, None) => return Ok(None),
            }
            // Checked at each step: listing what a symlink points to would already be a look outside.
            let real = at.canonicalize().map_err(io)?;
            if !real.starts_with(&self.root) {
                return Err(SourceError::Escapes { path: path.to_owned() });
            }
        }
        Ok(Some(at))
    }
}

impl ScriptFiles for Directory {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(at) = self.locate(path)? else { return Ok(None) };
        let io = |error: std::io::Error| SourceError::Io { path: path.to_owned(), message: error.to_string() };
        // Asked before opening: opening a pipe would wait for its other end.
        if !at.metadata().map_err(io)?.is_file() {
            return Err(SourceError::NotAFile { path: path.to_owned() });
        }
        let mut bytes = Vec::new();
        std::fs::File::open(&at).map_err(io)?.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_FILE {
            return Err(SourceError::TooLarge { path: path.to_owned(), limit: MAX_FILE });
        }
        Ok(Some(bytes))
    }
}

#[derive(Debug)]
struct Embedded(BTreeMap<String, Cow<'static, [u8]>>);

impl ScriptFiles for Embedded {
    fn read(&self, path: &str) -> Result<Option<Vec<u8>>, SourceError> {
        parts(path)?;
        if let Some(content) = self.0.get(path) {
            return Ok(Some(content.to_vec()));
        }
        match self.0.keys().find(|name| name.eq_ignore_ascii_case(path)) {
            Some(actual) => Err(SourceError::Case { path: path.to_owned(), actual: actual.clone() }),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use test_case::test_case;

    fn directory() -> (tempfile::TempDir, ScriptSource) {
        let outer = tempfile::tempdir().expect("temporary folder");
        let root = outer.path().join("orchestrator");
        fs::create_dir_all(root.join("lib")).expect("folder");
        fs::write(root.join("runner.lua"), "return 1").expect("runner");
        fs::write(root.join("lib/Scores.lua"), "return 2").expect("module");
        fs::write(outer.path().join("secret.lua"), "return 'secret'").expect("secret");
        std::os::unix::fs::symlink("../secret.lua", root.join("link.lua")).expect("symlink");
        std::os::unix::fs::symlink("..", root.join("up")).expect("symlink");
        std::os::unix::fs::symlink("runner.lua", root.join("alias.lua")).expect("symlink");
        let source = ScriptSource::from_dir(&root, "runner.lua").expect("opens");
        (outer, source)
    }

    #[test]
    fn reads_files_below_the_directory() {
        let (_guard, source) = directory();
        assert_eq!(source.read("runner.lua"), Ok(Some(b"return 1".to_vec())));
        assert_eq!(source.read("lib/Scores.lua"), Ok(Some(b"return 2".to_vec())));
        assert_eq!(source.read("alias.lua"), Ok(Some(b"return 1".to_vec())));
        assert_eq!(source.read("lib/none.lua"), Ok(None));
        assert_eq!(source.read("runner.lua/x.lua"), Ok(None));
    }

    #[test_case("../secret.lua"; "parent")]
    #[test_case("lib/../../secret.lua"; "parent inside")]
    #[test_case("/etc/passwd"; "absolute")]
    #[test_case("lib//Scores.lua"; "empty part")]
    #[test_case("./runner.lua"; "dot")]
    #[test_case("lib\\Scores.lua"; "backslash")]
    #[test_case("runner.lua\0"; "nul")]
    #[test_case(""; "empty")]
    fn refuses_paths_that_are_more_than_relative(path: &str) {
        let (_guard, source) = directory();
        assert!(matches!(source.read(path), Err(SourceError::Path { .. })), "{:?}", source.read(path));
    }

    #[test]
    fn refuses_symlinks_that_lead_out() {
        let (_guard, source) = directory();
        assert!(matches!(source.read("link.lua"), Err(SourceError::Escapes { .. })));
        assert!(matches!(source.read("up/secret.lua"), Err(SourceError::Escapes { .. })));
    }

    #[test]
    fn insists_on_the_same_capitals() {
        let (_guard, source) = directory();
        let error = source.read("lib/scores.lua").expect_err("other capitals");
        assert_eq!(error.to_string(), "`lib/scores.lua` is spelt `Scores.lua` on disk; use the same capitals");
        let embedded = ScriptSource::from_text("Runner.lua", "");
        assert!(matches!(embedded.read("runner.lua"), Err(SourceError::Case { .. })));
    }

    #[test]
    fn refuses_what_is_no_regular_file() {
        let (_guard, source) = directory();
        assert!(matches!(source.read("lib"), Err(SourceError::NotAFile { .. })));
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = ScriptSource::from_dir(Path::new("/nonexistent/orchestrator"), "runner.lua").expect_err("missing");
        assert!(error.to_string().contains("/nonexistent/orchestrator"));
    }
}
