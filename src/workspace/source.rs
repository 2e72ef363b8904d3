//! Fills an empty folder from a task's seed: a directory, or the tree of a commit.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::Path;
use std::process::{ChildStdout, Stdio};

use tempfile::TempDir;

use super::WorkspaceError;
use super::beneath::{Links, Miss, find};
use super::names::{as_path, quoted};
use super::record::record;
use super::walk::{Scope, open_root};
use super::{git, snapshot::FileKind};

/// Says what is wrong with a seed; the cache adds which task's it is.
#[derive(Debug)]
pub(super) enum SourceError {
    /// The seed cannot be used.
    Seed(String),
    /// Something else failed.
    Other(WorkspaceError),
}

impl From<WorkspaceError> for SourceError {
    fn from(error: WorkspaceError) -> Self {
        Self::Other(error)
    }
}

fn seed<T>(message: impl Into<String>) -> Result<T, SourceError> {
    Err(SourceError::Seed(message.into()))
}

/// Copies a directory without its `.git`; returns notes. A link that leads out of the directory is an error.
pub(super) fn copy_directory(from: &Path, tree: &Path) -> Result<Vec<String>, SourceError> {
    if !from.is_dir() {
        return seed(format!("`{}` is not a directory", from.display()));
    }
    let snapshot = record(from, Scope::Files, Some(tree))?;
    let root = open_root(tree).map_err(|e| WorkspaceError::file("open", tree, e))?;
    let links = snapshot.entries().filter(|(_, entry)| entry.kind == FileKind::Symlink);
    for (path, _) in links {
        if matches!(find(&root, path, Links::Inside), Err(Miss::Outside)) {
            return seed(format!(
                "the symlink {} in `{}` leads out of the directory; make it relative, or replace it by what it points to",
                quoted(path),
                from.display()
            ));
        }
    }
    Ok(snapshot.notes())
}

/// Copies what was taken out of an image, without its `.git`; returns notes. Its links may lead anywhere: what they
/// lead to is in the same image.
pub(super) fn copy_fetched(from: &TempDir, notes: Vec<String>, tree: &Path) -> Result<Vec<String>, SourceError> {
    let snapshot = record(from.path(), Scope::Files, Some(tree))?;
    Ok(notes.into_iter().chain(snapshot.notes()).collect())
}

/// One entry of a commit's tree.
struct TreeEntry {
    mode: String,
    object: String,
    path: Vec<u8>,
}

/// Writes the tree of a commit, byte for byte as it is stored; returns notes.
pub(super) fn export_commit(repository: &Path, commit: Option<&str>, tree: &Path) -> Result<Vec<String>, SourceError> {
    let Ok(repository) = repository.canonicalize() else {
        return seed(format!("`{}` does not exist", repository.display()));
    };
    let commit = resolve(&repository, commit)?;
    let mut notes = Vec::new();
    let (mut files, mut links) = (Vec::new(), Vec::new());
    for entry in list(&repository, &commit)? {
        check_path(&entry.path)?;
        match entry.mode.as_str() {
            "120000" => links.push(entry),
            "160000" => notes.push(format!("the submodule {} is left empty", quoted(&entry.path))),
            _ => files.push(entry),
        }
    }
    // Links come last: what is written before them goes into folders made here, whatever a forged tree says.
    files.append(&mut links);
    write_all(&repository, &files, tree)?;
    Ok(notes)
}

/// Returns the id of a commit; `HEAD` where none is named.
pub(super) fn resolve(repository: &Path, commit: Option<&str>) -> Result<String, SourceError> {
    let name = commit.unwrap_or("HEAD");
    let mut command = git::command(repository);
    command.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]).arg(format!("{name}^{{commit}}"));
    if let Ok(id) = git::run("rev-parse", command, None)? {
        return Ok(String::from_utf8_lossy(&id).trim().to_owned());
    }
    let mut probe = git::command(repository);
    probe.args(["rev-parse", "--git-dir"]);
    let shown = repository.display();
    match git::run("rev-parse", probe, None)? {
        Err(said) => seed(format!("`{shown}` is not a git repository ({said})")),
        Ok(_) if commit.is_none() => seed(format!("`{shown}` has no commit yet; commit its files first")),
        Ok(_) => seed(format!("there is no commit `{name}` in `{shown}`")),
    }
}

fn list(repository: &Path, commit: &str) -> Result<Vec<TreeEntry>, SourceError> {
    let mut command = git::command(repository);
    command.args(["ls-tree", "-r", "-z", "--full-tree", commit]);
    let output = git::must("ls-tree", command)?;
    let lines = output.split(|&b| b == 0).filter(|line| !line.is_empty());
    lines
        .map(|line| parse(line).ok_or_else(|| SourceError::Seed("git listed a tree in an unknown form".into())))
        .collect()
}

/// Reads `mode type object\tpath`.
fn parse(line: &[u8]) -> Option<TreeEntry> {
    let tab = line.iter().position(|&b| b == b'\t')?;
    let head = std::str::from_utf8(&line[..tab]).ok()?;
    let mut words = head.split(' ');
    let (mode, _, object) = (words.next()?, words.next()?, words.next()?);
    Some(TreeEntry { mode: mode.to_owned(), object: object.to_owned(), path: line[tab + 1..].to_vec() })
}

/// Refuses paths that git itself would never check out.
fn check_path(path: &[u8]) -> Result<(), SourceError> {
    let is_bad = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.eq_ignore_ascii_case(b".git");
    if path.split(|&b| b == b'/').any(is_bad) {
        return seed(format!("its tree holds the forbidden path {}", quoted(path)));
    }
    Ok(())
}

fn write_all(repository: &Path, entries: &[TreeEntry], tree: &Path) -> Result<(), SourceError> {
    let mut wanted = entries.iter().map(|entry| entry.object.as_str()).collect::<Vec<_>>().join("\n");
    wanted.push('\n');
    let input = git::input_file(wanted.as_bytes()).map_err(|e| git::failed("cat-file", &e))?;
    let mut child = git::command(repository)
        .args(["cat-file", "--batch", "--buffer"])
        .stdin(Stdio::from(input))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| git::failed("cat-file", &e))?;
    let result = match child.stdout.take() {
        Some(stdout) => write_blobs(&mut BufReader::new(stdout), entries, tree),
        None => Ok(()),
    };
    if result.is_err() {
        // It may be blocked on a pipe that nobody reads any more.
        let _ = child.kill();
    }
    child.wait().map_err(|e| git::failed("cat-file", &e))?;
    result
}

fn write_blobs(blobs: &mut BufReader<ChildStdout>, entries: &[TreeEntry], tree: &Path) -> Result<(), SourceError> {
    for entry in entries {
        let path = tree.join(as_path(&entry.path));
        let read = |e: std::io::Error| git::failed("cat-file", &e);
        let write = |e: std::io::Error| WorkspaceError::file("create", &path, e);
        let mut header = String::new();
        blobs.read_line(&mut header).map_err(read)?;
        let size = header.trim_end().split_once(" blob ").and_then(|(_, size)| size.parse::<u64>().ok());
        let Some(size) = size else {
            return seed(format!(
                "the content of {} is missing from the repository (a partial clone?): {}",
                quoted(&entry.path),
                header.trim_end()
            ));
        };
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(write)?;
        }
        let mut content = blobs.take(size);
        if entry.mode == "120000" {
            let mut target = Vec::new();
            content.read_to_end(&mut target).map_err(read)?;
            symlink(as_path(&target), &path).map_err(write)?;
        } else {
            let mut file = create(&path, entry.mode == "100755").map_err(write)?;
            std::io::copy(&mut content, &mut file).map_err(write)?;
            file.flush().map_err(write)?;
        }
        let mut newline = [0];
        blobs.read_exact(&mut newline).map_err(read)?;
    }
    Ok(())
}

fn create(path: &Path, executable: bool) -> std::io::Result<File> {
    let mode = if executable { 0o755 } else { 0o644 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}
