//! What a script may do with the files of a workspace: read below its root, write below `.refrain/`.
//!
//! Links are followed as long as they stay inside; one that leads out is refused, whoever made it and whenever.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, unlinkat};

use super::beneath::{Links, Miss, Place, find};
use super::walk::{Scope, Visitor, kind_of, list, open_file, open_folder, open_root, walk};
use super::{WorkspaceError, blocking, shell};
use crate::runtime::{Environment, ExecReport};

/// The largest file that a script may read, in bytes.
pub const MAX_READ_BYTES: u64 = 16 * 1024 * 1024;
/// The most bytes of names that a listing inside an environment may print.
const MAX_NAMES_BYTES: usize = 16 * 1024 * 1024;
/// The longest path, and the longest name in one.
const MAX_PATH_BYTES: usize = 4000;
const MAX_NAME_BYTES: usize = 255;
const SCRATCH: &str = ".refrain";

/// Finds the real place of `$2` below `$1` and leaves it in `$target`.
const RESOLVE: &str = r#"root=$(cd -- "$1" && pwd -P) || exit 43
target=$(readlink -f -- "$root/$2") || exit 43
case "$target" in "$root"|"$root"/*) ;; *) exit 44 ;; esac
"#;
const WRITE: &str = r#"root=$(cd -- "$1" && pwd -P) || exit 43
mkdir -p -- "$root/.refrain/$(dirname -- "$2")" || exit 44
folder=$(readlink -f -- "$root/.refrain/$(dirname -- "$2")") || exit 44
case "$folder" in "$root/.refrain"|"$root/.refrain"/*) ;; *) exit 44 ;; esac
target="$folder/$(basename -- "$2")"
[ ! -d "$target" ] || [ -L "$target" ] || exit 45
rm -f -- "$target" && cat > "$target""#;
const FIND: &str = r#"cd -- "$1" && find . -name .git -prune -o \( -type f -o -type l \) -print0"#;

/// The files of one workspace or fork, as a script may use them.
#[derive(Clone)]
pub struct WorkspaceFiles<'a> {
    env: &'a dyn Environment,
    root: PathBuf,
}

impl<'a> WorkspaceFiles<'a> {
    /// Gives access to the files below `root`, a path inside the environment.
    #[must_use]
    pub fn new(env: &'a dyn Environment, root: impl Into<PathBuf>) -> Self {
        Self { env, root: root.into() }
    }

    /// Reads a file; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Path`] for a path that leads out or names no file, [`WorkspaceError::TooLarge`] beyond
    /// [`MAX_READ_BYTES`].
    pub async fn read(&self, path: &str) -> Result<Option<Vec<u8>>, WorkspaceError> {
        check(path)?;
        let path = path.to_owned();
        if let Some(host) = self.host() {
            return blocking(move || read_host(&host, &path)).await;
        }
        let script =
            format!("{RESOLVE}[ -e \"$target\" ] || exit 43\n[ -f \"$target\" ] || exit 45\ncat -- \"$target\"");
        let limit = usize::try_from(MAX_READ_BYTES).unwrap_or(usize::MAX);
        let report = self.shell(&script, &path, limit).await?;
        match shell::code(&report) {
            Some(45) => Err(not_a_file(&path)),
            _ if report.stdout.cut => Err(WorkspaceError::TooLarge { path, limit: MAX_READ_BYTES }),
            _ => Ok(answer("read", &path, &report)?.then_some(report.stdout.bytes)),
        }
    }

    /// Tells whether a path leads to anything.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Path`] for a path that leads out.
    pub async fn exists(&self, path: &str) -> Result<bool, WorkspaceError> {
        check(path)?;
        let path = path.to_owned();
        if let Some(host) = self.host() {
            return blocking(move || exists_host(&host, &path)).await;
        }
        let report = self.shell(&format!("{RESOLVE}[ -e \"$target\" ] || exit 43"), &path, 1024).await?;
        answer("look at", &path, &report)
    }

    /// Lists the names in a folder, sorted, without `.git`; `None` where there is no such folder.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Path`] for a path that leads out.
    pub async fn list(&self, path: &str) -> Result<Option<Vec<String>>, WorkspaceError> {
        check(path)?;
        let path = path.to_owned();
        if let Some(host) = self.host() {
            return blocking(move || list_host(&host, &path)).await;
        }
        let script = format!(
            "{RESOLVE}[ -d \"$target\" ] || exit 43\ncd -- \"$target\" && find . -mindepth 1 -maxdepth 1 ! -name .git -print0"
        );
        let report = self.shell(&script, &path, MAX_NAMES_BYTES).await?;
        Ok(answer("list", &path, &report)?.then(|| names(&report.stdout.bytes)))
    }

    /// Finds files and links by a pattern such as `src/**/*.rs`, sorted. `*` stays within one folder; `.git` is never
    /// looked into.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Path`] for a pattern that is none.
    pub async fn glob(&self, pattern: &str) -> Result<Vec<String>, WorkspaceError> {
        let matcher = matcher(pattern)?;
        let mut found = if let Some(host) = self.host() {
            blocking(move || {
                let mut names = Names::default();
                walk(&host, Scope::Visible, &mut names)?;
                Ok(names.found)
            })
            .await?
        } else {
            let report = self.shell(FIND, "", MAX_NAMES_BYTES).await?;
            answer("search", pattern, &report)?;
            names(&report.stdout.bytes)
        };
        found.retain(|path| matcher.is_match(path));
        found.sort();
        Ok(found)
    }

    /// Writes a file below `.refrain/`, with its folders. `path` is relative to `.refrain/`.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError::Path`] for a path that leads out, also over a link that somebody put in its way.
    pub async fn write(&self, path: &str, content: &[u8]) -> Result<(), WorkspaceError> {
        check(path)?;
        let parts: Vec<String> = parts(path).map(str::to_owned).collect();
        if parts.is_empty() {
            return Err(WorkspaceError::Path { path: path.to_owned(), reason: "names no file" });
        }
        let path = path.to_owned();
        let content = content.to_vec();
        if let Some(host) = self.host() {
            return blocking(move || write_host(&host, &path, &parts, &content)).await;
        }
        let args = [shell::word(&self.root)?, &parts.join("/")];
        let report = shell::run(self.env, WRITE, &args, Some(content), 1024).await?;
        match shell::code(&report) {
            Some(45) => Err(a_folder(&path)),
            _ => answer("write", &path, &report).map(|_| ()),
        }
    }

    fn host(&self) -> Option<PathBuf> {
        self.env.host_path(&self.root)
    }

    async fn shell(&self, script: &str, path: &str, limit: usize) -> Result<ExecReport, WorkspaceError> {
        shell::run(self.env, script, &[shell::word(&self.root)?, path], None, limit).await
    }
}

/// Refuses what cannot be a path below the root.
fn check(path: &str) -> Result<(), WorkspaceError> {
    let refuse = |reason| Err(WorkspaceError::Path { path: path.to_owned(), reason });
    if path.contains('\0') {
        return refuse("holds a NUL byte");
    }
    if path.starts_with('/') {
        return refuse("is absolute; paths are relative to the workspace");
    }
    if path.split('/').any(|part| part == "..") {
        return refuse("holds `..`; paths stay below the workspace");
    }
    // No file system has such names; asking it would look like trouble with the workspace.
    if path.len() > MAX_PATH_BYTES || path.split('/').any(|part| part.len() > MAX_NAME_BYTES) {
        return refuse("is too long: a name has at most 255 bytes, a path 4000");
    }
    Ok(())
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty() && *part != ".")
}

fn leads_out(path: &str) -> WorkspaceError {
    WorkspaceError::Path { path: path.to_owned(), reason: "leads out of the workspace over a symlink" }
}

fn not_a_file(path: &str) -> WorkspaceError {
    WorkspaceError::Path { path: path.to_owned(), reason: "is not a regular file" }
}

fn a_folder(path: &str) -> WorkspaceError {
    WorkspaceError::Path { path: path.to_owned(), reason: "is a folder" }
}

/// Turns the exit of a script into yes, no (absent) or an error.
fn answer(action: &'static str, path: &str, report: &ExecReport) -> Result<bool, WorkspaceError> {
    match shell::code(report) {
        Some(0) => Ok(true),
        Some(shell::ABSENT) => Ok(false),
        Some(shell::OUTSIDE) => Err(leads_out(path)),
        _ => Err(shell::failed(action, report)),
    }
}

/// Splits what `find -print0` printed.
fn names(output: &[u8]) -> Vec<String> {
    let lines = output.split(|&b| b == 0).filter(|name| !name.is_empty());
    let mut names: Vec<String> =
        lines.map(|name| String::from_utf8_lossy(name.strip_prefix(b"./").unwrap_or(name)).into_owned()).collect();
    names.sort();
    names
}

fn matcher(pattern: &str) -> Result<GlobMatcher, WorkspaceError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let bad = WorkspaceError::Path { path: pattern.to_owned(), reason: "is not a pattern such as `src/**/*.rs`" };
    glob.map(|glob| glob.compile_matcher()).map_err(|_| bad)
}

/// Finds a path on the host; `None` where there is nothing.
fn locate(root: &Path, path: &str) -> Result<Option<Place>, WorkspaceError> {
    let folder = open_root(root).map_err(|e| WorkspaceError::file("open", root, e))?;
    found(find(&folder, path.as_bytes(), Links::Inside), root, path)
}

fn found<T>(result: Result<T, Miss>, root: &Path, path: &str) -> Result<Option<T>, WorkspaceError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Miss::Absent) => Ok(None),
        Err(Miss::Outside) => Err(leads_out(path)),
        Err(Miss::Io(error)) => Err(WorkspaceError::file("open", root.join(path), error)),
    }
}

fn exists_host(root: &Path, path: &str) -> Result<bool, WorkspaceError> {
    let place = locate(root, path)?;
    Ok(place.is_some_and(|place| place.name.is_none_or(|name| kind_of(&place.parent, &name).is_ok())))
}

fn read_host(root: &Path, path: &str) -> Result<Option<Vec<u8>>, WorkspaceError> {
    let Some(place) = locate(root, path)? else { return Ok(None) };
    let fail = |e| WorkspaceError::file("read", root.join(path), e);
    let Some(name) = place.name else { return Err(not_a_file(path)) };
    match kind_of(&place.parent, &name) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
        Ok(kind) if kind != rustix::fs::FileType::RegularFile => return Err(not_a_file(path)),
        Ok(_) => {}
    }
    let file = open_file(&place.parent, &name).map_err(fail)?;
    let mut content = Vec::new();
    file.take(MAX_READ_BYTES + 1).read_to_end(&mut content).map_err(fail)?;
    if content.len() as u64 > MAX_READ_BYTES {
        return Err(WorkspaceError::TooLarge { path: path.to_owned(), limit: MAX_READ_BYTES });
    }
    Ok(Some(content))
}

fn list_host(root: &Path, path: &str) -> Result<Option<Vec<String>>, WorkspaceError> {
    let Some(place) = locate(root, path)? else { return Ok(None) };
    let folder = match place.name {
        None => place.parent,
        Some(name) => match open_folder(&place.parent, &name) {
            Ok(folder) => folder,
            Err(error) => return found(Err(error.into()), root, path),
        },
    };
    let entries = list(&folder).map_err(|e| WorkspaceError::file("list", root.join(path), e))?;
    let shown = entries.iter().filter(|(name, _)| name.as_c_str() != c".git");
    Ok(Some(shown.map(|(name, _)| name.to_string_lossy().into_owned()).collect()))
}

/// Writes without following anything: a file that is in the way, link or not, is replaced.
fn write_host(root: &Path, path: &str, parts: &[String], content: &[u8]) -> Result<(), WorkspaceError> {
    let fail = |e: std::io::Error| WorkspaceError::file("write", root.join(SCRATCH).join(path), e);
    let name_of = |part: &str| CString::new(part).map_err(|e| fail(e.into()));
    let mut folder: OwnedFd = open_root(root).map_err(fail)?;
    let Some((last, folders)) = parts.split_last() else { return Ok(()) };
    for part in std::iter::once(SCRATCH).chain(folders.iter().map(String::as_str)) {
        let name = name_of(part)?;
        match mkdirat(&folder, &name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => return Err(fail(errno.into())),
        }
        folder = open_folder(&folder, &name).map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => leads_out(path),
            _ if error.kind() == std::io::ErrorKind::NotADirectory => {
                WorkspaceError::Path { path: path.to_owned(), reason: "goes through something that is no folder" }
            }
            _ => fail(error),
        })?;
    }
    let name = name_of(last)?;
    match unlinkat(&folder, &name, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(rustix::io::Errno::ISDIR) => return Err(a_folder(path)),
        Err(errno) => return Err(fail(errno.into())),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&folder, &name, flags, Mode::from_raw_mode(0o644)).map_err(|e| fail(e.into()))?;
    File::from(file).write_all(content).map_err(fail)
}

/// Gathers the names of files and links.
#[derive(Default)]
struct Names {
    found: Vec<String>,
}

impl Names {
    fn add(&mut self, path: &[u8]) {
        self.found.push(String::from_utf8_lossy(path).into_owned());
    }
}

impl Visitor for Names {
    fn enter(&mut self, _: &[u8], _: &CStr) -> Result<(), WorkspaceError> {
        Ok(())
    }
    fn leave(&mut self) {}
    fn file(&mut self, path: &[u8], _: &CStr, _: File) -> Result<(), WorkspaceError> {
        self.add(path);
        Ok(())
    }
    fn link(&mut self, path: &[u8], _: &CStr, _: &CStr) -> Result<(), WorkspaceError> {
        self.add(path);
        Ok(())
    }
    fn note(&mut self, _: String) {}
}
