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
        Ok(self.now.contains_key(&path) || self.is_folder(&path))
    }

    pub(in crate::script) fn read(&self, path: &str) -> Result<Answer, HostError> {
        let name = clean(path)?;
        match self.now.get(&name) {
            Some(content) => Ok(Answer::Bytes(content.clone())),
            None if self.is_folder(&name) => refuse(path, "is not a regular file"),
            None => Ok(Answer::Missing),
        }
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
        let Ok(glob) = GlobBuilder::new(pattern).literal_separator(true).build() else {
            return refuse(pattern, "is not a pattern such as `src/**/*.rs`");
        };
        let glob = glob.compile_matcher();
        Ok(self.now.keys().filter(|name| glob.is_match(name)).cloned().collect())
    }

    pub(super) fn write_scratch(&mut self, path: &str, content: Vec<u8>) -> Result<(), HostError> {
        let name = clean(path)?;
        if name.is_empty() {
            return refuse(path, "names no file");
        }
        let name = format!(".refrain/{name}");
        if self.is_folder(&name) {
            return refuse(path, "is a folder");
        }
        if name.match_indices('/').any(|(at, _)| self.now.contains_key(&name[..at])) {
            return refuse(path, "goes through something that is no folder");
        }
        self.now.insert(name, content);
        Ok(())
    }

    /// Takes the files of a winner; baseline and scratch files stay its own.
    pub(super) fn merge(&mut self, winner: &Self) {
        self.now.retain(|name, _| is_scratch(name));
        let content = winner.now.iter().filter(|(name, _)| !is_scratch(name));
        self.now.extend(content.map(|(name, content)| (name.clone(), content.clone())));
    }

    fn is_folder(&self, path: &str) -> bool {
        path.is_empty() || self.now.keys().any(|name| below(name, path).is_some())
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

/// Takes `.` out of a path and refuses what a real workspace refuses, in the same words.
fn clean(path: &str) -> Result<String, HostError> {
    if path.starts_with('/') {
        return refuse(path, "is absolute; paths are relative to the workspace");
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return refuse(path, "holds `..`; paths stay below the workspace");
    }
    if path.len() > 4000 || parts.iter().any(|part| part.len() > 255) {
        return refuse(path, "is too long: a name has at most 255 bytes, a path 4000");
    }
    Ok(parts.join("/"))
}

fn refuse<T>(path: &str, reason: &str) -> Result<T, HostError> {
    Err(HostError::Misuse { message: format!("`{path}` {reason}") })
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
