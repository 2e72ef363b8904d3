//! The workspaces of one attempt by their numbers: 0 is its own, the others are forks that its script made.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::runtime::Environment;
use crate::workspace::{self, WorkspaceError};

/// Paths inside the environment, by number. Numbers are never used again.
#[derive(Debug)]
pub(crate) struct Spaces {
    forks: PathBuf,
    next: u32,
    paths: BTreeMap<u32, PathBuf>,
}

/// Why a workspace cannot be forked, merged or thrown away.
#[derive(Debug)]
pub(crate) enum SpaceError {
    /// There is none of that number (any more).
    Unknown(u32),
    /// The files.
    Workspace(WorkspaceError),
}

impl Spaces {
    /// Begins with the attempt's own workspace.
    pub(crate) fn new(main: &Path) -> Self {
        let name = main.file_name().map_or_else(|| "work".into(), |name| name.to_string_lossy().into_owned());
        let forks = main.with_file_name(format!("{name}-forks"));
        Self { forks, next: 1, paths: BTreeMap::from([(0, main.to_owned())]) }
    }

    /// Returns where a workspace lies.
    pub(crate) fn path(&self, number: u32) -> Result<&Path, SpaceError> {
        self.paths.get(&number).map(PathBuf::as_path).ok_or(SpaceError::Unknown(number))
    }

    /// Copies a workspace.
    pub(crate) async fn fork(&mut self, env: &dyn Environment, from: u32) -> Result<u32, SpaceError> {
        let number = self.next;
        let to = self.forks.join(number.to_string());
        workspace::fork(env, self.path(from)?, &to).await.map_err(SpaceError::Workspace)?;
        self.next += 1;
        self.paths.insert(number, to);
        Ok(number)
    }

    /// Replaces the files of `into` by those of `from`.
    pub(crate) async fn merge(&self, env: &dyn Environment, from: u32, into: u32) -> Result<(), SpaceError> {
        workspace::merge(env, self.path(from)?, self.path(into)?).await.map_err(SpaceError::Workspace)
    }

    /// Tells whether there are forks.
    pub(crate) fn are_forked(&self) -> bool {
        self.paths.len() > 1
    }

    /// Takes up a fork that an earlier host has made.
    pub(crate) fn made(&mut self, number: u32) {
        self.next = self.next.max(number + 1);
        self.paths.insert(number, self.forks.join(number.to_string()));
    }

    /// Takes note that an earlier host has thrown a fork away.
    pub(crate) fn gone(&mut self, number: u32) {
        self.paths.remove(&number);
    }

    /// Removes what forks that were cut off have left, so many at most.
    pub(crate) async fn clear(&self, env: &dyn Environment, count: u32) -> Result<(), SpaceError> {
        for number in self.next..self.next.saturating_add(count) {
            let left = self.forks.join(number.to_string());
            workspace::discard(env, &left).await.map_err(SpaceError::Workspace)?;
        }
        Ok(())
    }

    /// Throws a fork away.
    pub(crate) async fn discard(&mut self, env: &dyn Environment, number: u32) -> Result<(), SpaceError> {
        workspace::discard(env, self.path(number)?).await.map_err(SpaceError::Workspace)?;
        self.paths.remove(&number);
        Ok(())
    }
}
