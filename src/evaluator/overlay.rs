//! Lays hidden tests over a copy of the final tree, on the host, after the agent's processes are gone.
//!
//! Nothing is applied *to* what the agent left. Each path the tests use is first wiped, whatever is there (a file, a
//! folder, a symlink to somewhere else), and then written whole; no symlink of the tree is ever followed. A patch that
//! changes a file changes the baseline's version of it.
//!
//! Files that steer Python's test programs from beside the tests are put back as the baseline has them: see `guard`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use super::EvaluationError;
use super::patch::{self, Mode};
use crate::domain::task::HiddenTests;

/// Files that pytest or Python load by themselves from the folders of the tests and from those above them.
const LOADED: &[&str] = &["conftest.py", "pytest.ini", ".pytest.ini", "sitecustomize.py", "usercustomize.py"];

/// Modules at the root of the tree that would be found before the test program itself (`python -m pytest`).
const SHADOWS: &[&str] =
    &["pytest.py", "pytest/__init__.py", "_pytest/__init__.py", "unittest.py", "unittest/__init__.py"];

/// What was changed in the tree. Paths are relative to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overlaid {
    /// Removed, in this order, before anything was written below.
    pub wiped: Vec<PathBuf>,
    /// Written.
    pub written: Vec<PathBuf>,
}

enum Content {
    Bytes { bytes: Vec<u8>, executable: bool },
    CopyOf(PathBuf),
    Symlink(PathBuf),
    Deleted,
}

struct Placement {
    path: PathBuf,
    content: Content,
}

/// Lays the hidden tests over `tree`. `base` is the baseline's tree, where the host has one.
///
/// Without `base`, a patch that changes a file has only the agent's version to start from, and nothing can be put back
/// beside the tests.
///
/// # Errors
///
/// [`EvaluationError::Overlay`] if patch or folder make no sense (a path that leads out, a hunk that does not fit), and
/// [`EvaluationError::File`] for what the file system refuses.
pub fn lay(hidden: &HiddenTests, tree: &Path, base: Option<&Path>) -> Result<Overlaid, EvaluationError> {
    let placements = match hidden {
        HiddenTests::None => return Ok(Overlaid::default()),
        HiddenTests::Patch { patch } => from_patch(patch, tree, base)?,
        HiddenTests::Overlay { path } => from_folder(path)?,
    };
    let mut surface = Surface { tree, done: Overlaid::default() };
    if let Some(base) = base {
        guard(&mut surface, &placements, base)?;
    }
    for placement in placements {
        surface.place(&placement.path, placement.content)?;
    }
    Ok(surface.done)
}

/// Copies what was written to a folder of its own, for an environment that already holds the rest of the tree.
///
/// # Errors
///
/// [`EvaluationError::File`] for what the file system refuses.
pub fn stage(overlaid: &Overlaid, tree: &Path, staging: &Path) -> Result<(), EvaluationError> {
    fs::create_dir_all(staging).map_err(|source| file_error("create", staging, source))?;
    let mut surface = Surface { tree: staging, done: Overlaid::default() };
    for path in &overlaid.written {
        let from = tree.join(path);
        let metadata = fs::symlink_metadata(&from).map_err(|source| file_error("read", &from, source))?;
        let content = if metadata.is_symlink() {
            Content::Symlink(fs::read_link(&from).map_err(|source| file_error("read", &from, source))?)
        } else {
            Content::CopyOf(from)
        };
        surface.place(path, content)?;
    }
    Ok(())
}

/// Looks a path up without following any symlink on the way; `None` where nothing is there or a link is in the way.
#[must_use]
pub fn entry(tree: &Path, path: &Path) -> Option<fs::Metadata> {
    if !patch::stays_inside(path) {
        return None;
    }
    let mut at = tree.to_path_buf();
    let mut found = None;
    for part in path.components() {
        if found.as_ref().is_some_and(|metadata: &fs::Metadata| !metadata.is_dir()) {
            return None;
        }
        at.push(part);
        found = Some(fs::symlink_metadata(&at).ok()?);
    }
    found
}

/// Puts back, in every folder on the way to a hidden test, the files that Python's test programs load by themselves:
/// as the baseline has them, or gone where it has none. At the root, modules that would stand in for the test program
/// itself go too, unless the baseline has them.
fn guard(surface: &mut Surface<'_>, placements: &[Placement], base: &Path) -> Result<(), EvaluationError> {
    let mut folders: BTreeSet<PathBuf> = BTreeSet::new();
    for placement in placements {
        folders.extend(placement.path.ancestors().skip(1).map(Path::to_path_buf));
    }
    let loaded = folders.iter().flat_map(|folder| LOADED.iter().map(|name| (folder.join(name), true)));
    let shadows = SHADOWS.iter().map(|name| (PathBuf::from(name), false));
    for (path, restore) in loaded.chain(shadows).collect::<Vec<_>>() {
        let original = entry(base, &path).filter(fs::Metadata::is_file);
        match original {
            Some(_) if restore => surface.place(&path, Content::CopyOf(base.join(&path)))?,
            Some(_) => {}
            None => surface.remove_reachable(&path)?,
        }
    }
    Ok(())
}

fn from_patch(text: &str, tree: &Path, base: Option<&Path>) -> Result<Vec<Placement>, EvaluationError> {
    let origin = base.unwrap_or(tree);
    let mut placements = Vec::new();
    for file in patch::parse(text).map_err(|error| EvaluationError::Overlay(error.to_string()))? {
        let mut executable = false;
        let before = match &file.old {
            None => Vec::new(),
            Some(old) => {
                let metadata = entry(origin, old).filter(fs::Metadata::is_file).ok_or_else(|| {
                    EvaluationError::Overlay(format!(
                        "the patch changes `{}`, which the {} does not have as a file",
                        old.display(),
                        if base.is_some() { "baseline" } else { "tree" }
                    ))
                })?;
                executable = metadata.permissions().mode() & 0o111 != 0;
                let path = origin.join(old);
                fs::read(&path).map_err(|source| file_error("read", &path, source))?
            }
        };
        if let Some(old) = file.old.as_ref().filter(|old| file.new.as_ref() != Some(*old)) {
            placements.push(Placement { path: old.clone(), content: Content::Deleted });
        }
        let Some(new) = file.new.clone() else { continue };
        let bytes = file.apply(&before).map_err(|error| EvaluationError::Overlay(error.to_string()))?;
        let content = match file.mode {
            Some(Mode::Symlink) => {
                Content::Symlink(link_inside(&new, PathBuf::from(std::ffi::OsString::from_vec(bytes)))?)
            }
            Some(Mode::Executable) => Content::Bytes { bytes, executable: true },
            Some(Mode::Plain) => Content::Bytes { bytes, executable: false },
            None => Content::Bytes { bytes, executable },
        };
        placements.push(Placement { path: new, content });
    }
    Ok(placements)
}

fn from_folder(folder: &Path) -> Result<Vec<Placement>, EvaluationError> {
    let mut placements = Vec::new();
    walk(folder, Path::new(""), &mut placements)?;
    if placements.is_empty() {
        return Err(EvaluationError::Overlay(format!("the folder `{}` holds no file", folder.display())));
    }
    Ok(placements)
}

fn walk(root: &Path, below: &Path, into: &mut Vec<Placement>) -> Result<(), EvaluationError> {
    let folder = root.join(below);
    let entries = fs::read_dir(&folder).map_err(|source| file_error("read", &folder, source))?;
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(|source| file_error("read", &folder, source))?.file_name());
    }
    names.sort();
    for name in names {
        let path = below.join(&name);
        let full = root.join(&path);
        let metadata = fs::symlink_metadata(&full).map_err(|source| file_error("read", &full, source))?;
        if metadata.is_dir() {
            walk(root, &path, into)?;
            continue;
        }
        let content = if metadata.is_symlink() {
            let target = fs::read_link(&full).map_err(|source| file_error("read", &full, source))?;
            Content::Symlink(link_inside(&path, target)?)
        } else if metadata.is_file() {
            Content::CopyOf(full)
        } else {
            return Err(EvaluationError::Overlay(format!("`{}` is neither a file nor a folder", full.display())));
        };
        into.push(Placement { path, content });
    }
    Ok(())
}

/// Refuses a link of the tests that leads out of the workspace.
fn link_inside(at: &Path, target: PathBuf) -> Result<PathBuf, EvaluationError> {
    let mut depth = at.components().count().saturating_sub(1);
    for part in target.components() {
        let next = match part {
            Component::Normal(_) => depth.checked_add(1),
            Component::CurDir => Some(depth),
            Component::ParentDir => depth.checked_sub(1),
            Component::RootDir | Component::Prefix(_) => None,
        };
        depth = next.ok_or_else(|| {
            EvaluationError::Overlay(format!(
                "the link `{}` leads out of the workspace, to `{}`",
                at.display(),
                target.display()
            ))
        })?;
    }
    if target.as_os_str().as_bytes().is_empty() {
        return Err(EvaluationError::Overlay(format!("the link `{}` has no target", at.display())));
    }
    Ok(target)
}

/// A tree that is written to without ever following one of its symlinks.
struct Surface<'a> {
    tree: &'a Path,
    done: Overlaid,
}

impl Surface<'_> {
    fn place(&mut self, path: &Path, content: Content) -> Result<(), EvaluationError> {
        if !patch::stays_inside(path) {
            return Err(EvaluationError::Overlay(format!("`{}` leads out of the workspace", path.display())));
        }
        if matches!(content, Content::Deleted) {
            return self.remove_reachable(path);
        }
        self.folders_of(path)?;
        self.wipe(path)?;
        let full = self.tree.join(path);
        let written = match content {
            Content::Bytes { bytes, executable } => write_new(&full, &bytes, executable),
            Content::CopyOf(from) => {
                let executable = fs::metadata(&from).map(|m| m.permissions().mode() & 0o111 != 0);
                executable.and_then(|executable| write_new(&full, &fs::read(&from)?, executable))
            }
            Content::Symlink(target) => symlink(target, &full),
            Content::Deleted => Ok(()),
        };
        written.map_err(|source| file_error("write", &full, source))?;
        self.done.written.retain(|earlier| earlier != path);
        self.done.written.push(path.to_path_buf());
        Ok(())
    }

    /// Makes every folder on the way real: what stands there and is no folder goes.
    fn folders_of(&mut self, path: &Path) -> Result<(), EvaluationError> {
        let mut folders: Vec<&Path> = path.ancestors().skip(1).filter(|part| !part.as_os_str().is_empty()).collect();
        folders.reverse();
        make_writable(self.tree)?;
        for folder in folders {
            let full = self.tree.join(folder);
            match fs::symlink_metadata(&full) {
                Ok(metadata) if metadata.is_dir() => make_writable(&full)?,
                Ok(_) => {
                    self.wipe(folder)?;
                    fs::create_dir(&full).map_err(|source| file_error("create", &full, source))?;
                }
                Err(_) => fs::create_dir(&full).map_err(|source| file_error("create", &full, source))?,
            }
        }
        Ok(())
    }

    /// Removes what a program would find under a path: the path itself, or the symlink that leads there.
    fn remove_reachable(&mut self, path: &Path) -> Result<(), EvaluationError> {
        let mut parts: Vec<&Path> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
        parts.reverse();
        for part in parts {
            let Ok(metadata) = fs::symlink_metadata(self.tree.join(part)) else { return Ok(()) };
            if metadata.is_symlink() || part == path {
                return self.wipe(part);
            }
            if !metadata.is_dir() {
                return Ok(());
            }
            make_writable(&self.tree.join(part))?;
        }
        Ok(())
    }

    fn wipe(&mut self, path: &Path) -> Result<(), EvaluationError> {
        let full = self.tree.join(path);
        let Ok(metadata) = fs::symlink_metadata(&full) else { return Ok(()) };
        let removed = if metadata.is_dir() {
            // An agent may have taken the right to delete away from itself.
            fs::remove_dir_all(&full).or_else(|_| {
                unlock(&full)?;
                fs::remove_dir_all(&full)
            })
        } else {
            fs::remove_file(&full)
        };
        removed.map_err(|source| file_error("remove", &full, source))?;
        self.done.written.retain(|written| !written.starts_with(path));
        self.done.wiped.push(path.to_path_buf());
        Ok(())
    }
}

/// Makes a folder that is known to be one usable for its owner.
fn make_writable(folder: &Path) -> Result<(), EvaluationError> {
    let metadata = fs::symlink_metadata(folder).map_err(|source| file_error("read", folder, source))?;
    let mode = metadata.permissions().mode();
    if metadata.is_dir() && mode & 0o700 != 0o700 {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700))
            .map_err(|source| file_error("change the mode of", folder, source))?;
    }
    Ok(())
}

fn unlock(folder: &Path) -> std::io::Result<()> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            unlock(&path)?;
        }
    }
    Ok(())
}

/// Writes a file that must not exist: a link that appeared in its place is an error, not a way out.
fn write_new(path: &Path, bytes: &[u8], executable: bool) -> std::io::Result<()> {
    let mode = if executable { 0o755 } else { 0o644 };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)
}

fn file_error(action: &'static str, path: &Path, source: std::io::Error) -> EvaluationError {
    EvaluationError::File { action, path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests;
