//! A workspace in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use globset::GlobBuilder;

use crate::script::port::{Answer, HostError};

/// Files by path relative to the workspace, and what they were at the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MockFiles {
    base: BTreeMap<String, Vec<u8>>,
    now: BTreeMap<String, Vec<u8>>,
}

impl MockFiles {
    /// Makes a workspace; these files are its baseline.
    #[must_use]
    pub fn new(files: BTreeMap<String, Vec<u8>>) -> Self {
        Self { base: files.clone(), now: files }
    }

    /// Returns every file.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<String, Vec<u8>> {
        &self.now
    }

    /// Writes a file.
    pub fn write(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.now.insert(path.to_owned(), content.into());
    }

    /// Writes files, and removes those that are `None`.
    pub fn apply(&mut self, changes: &BTreeMap<String, Option<Vec<u8>>>) {
        for (path, content) in changes {
            match content {
                Some(content) => self.now.insert(path.clone(), content.clone()),
                None => self.now.remove(path),
            };
        }
    }

    /// Tells whether there is such a file or folder.
    ///
    /// # Errors
    ///
    /// [`HostError::Misuse`] for a path that leads out.
    pub fn exists(&self, path: &str) -> Result<bool, HostError> {
        let path = clean(path)?;
        Ok(path.is_empty() || self.now.contains_key(&path) || self.now.keys().any(|name| below(name, &path).is_some()))
    }

    pub(in crate::script) fn read(&self, path: &str) -> Result<Answer, HostError> {
        Ok(self.now.get(&clean(path)?).map_or(Answer::Missing, |content| Answer::Bytes(content.clone())))
    }

    pub(super) fn list(&self, path: &str) -> Result<Answer, HostError> {
        let path = clean(path)?;
        let names: BTreeSet<String> = self
            .now
            .keys()
            .filter_map(|name| below(name, &path))
            .filter_map(|rest| rest.split('/').next().map(str::to_owned))
            .collect();
        if names.is_empty() && !path.is_empty() {
            return Ok(Answer::Missing);
        }
        Ok(Answer::Names(names.into_iter().collect()))
    }

    pub(in crate::script) fn glob(&self, pattern: &str) -> Result<Vec<String>, HostError> {
        let glob = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| HostError::Misuse { message: format!("workspace.glob: {error}") })?
            .compile_matcher();
        Ok(self.now.keys().filter(|name| glob.is_match(name) && !is_scratch(name)).cloned().collect())
    }

    pub(super) fn write_scratch(&mut self, path: &str, content: Vec<u8>) -> Result<(), HostError> {
        let path = clean(path)?;
        if path.is_empty() {
            return Err(HostError::Misuse { message: "workspace.write: the path names no file".to_owned() });
        }
        self.now.insert(format!(".refrain/{path}"), content);
        Ok(())
    }

    /// Shows what changed since the start, scratch files left out: whole files, which is enough for a prompt in a test.
    #[must_use]
    pub fn diff(&self) -> String {
        let names: BTreeSet<&String> =
            self.base.keys().chain(self.now.keys()).filter(|name| !is_scratch(name)).collect();
        let mut out = String::new();
        for name in names {
            let (before, after) = (self.base.get(name), self.now.get(name));
            if before == after {
                continue;
            }
            let side =
                |present: bool, prefix| if present { format!("{prefix}/{name}") } else { "/dev/null".to_owned() };
            let _ = writeln!(out, "--- {}\n+++ {}", side(before.is_some(), "a"), side(after.is_some(), "b"));
            for (sign, content) in [('-', before), ('+', after)] {
                for line in String::from_utf8_lossy(content.map_or(&[], Vec::as_slice)).lines() {
                    let _ = writeln!(out, "{sign}{line}");
                }
            }
        }
        out
    }
}

fn is_scratch(path: &str) -> bool {
    path.starts_with(".refrain/")
}

/// Returns the rest of a path below a folder.
fn below<'p>(path: &'p str, folder: &str) -> Option<&'p str> {
    if folder.is_empty() { Some(path) } else { path.strip_prefix(folder)?.strip_prefix('/') }
}

/// Takes `.` out of a path and refuses what leads out, as a real workspace does.
fn clean(path: &str) -> Result<String, HostError> {
    let refuse = |reason| HostError::Misuse { message: format!("`{path}` is no path of the workspace: {reason}") };
    if path.starts_with('/') {
        return Err(refuse("it is absolute"));
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err(refuse("it leads out"));
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> MockFiles {
        MockFiles::new(BTreeMap::from([
            ("src/a.py".to_owned(), b"old\n".to_vec()),
            ("src/lib/b.py".to_owned(), b"same\n".to_vec()),
        ]))
    }

    #[test]
    fn lists_globs_and_finds() {
        let files = files();
        assert_eq!(files.list("src"), Ok(Answer::Names(vec!["a.py".to_owned(), "lib".to_owned()])));
        assert_eq!(files.list("none"), Ok(Answer::Missing));
        assert_eq!(files.glob("src/*.py"), Ok(vec!["src/a.py".to_owned()]));
        assert_eq!(files.glob("**/*.py"), Ok(vec!["src/a.py".to_owned(), "src/lib/b.py".to_owned()]));
        assert_eq!(files.exists("./src/lib"), Ok(true));
        assert!(files.exists("../x").is_err() && files.exists("/etc").is_err());
    }

    #[test]
    fn the_diff_leaves_scratch_files_out() {
        let mut files = files();
        files.write("src/a.py", "new\n");
        files.write_scratch("notes.md", b"x".to_vec()).expect("writes");
        assert_eq!(files.diff(), "--- a/src/a.py\n+++ b/src/a.py\n-old\n+new\n");
    }
}
