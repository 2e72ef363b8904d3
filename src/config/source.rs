//! Text to be parsed: where it came from, what it says, and what of it may be shown.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::diagnostic::Diagnostic;
use super::nearest;
use super::secret;

/// The largest file that is read.
pub(crate) const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A file or a command-line value, read and known to be UTF-8.
pub(crate) struct Source {
    /// What messages call it.
    shown: String,
    /// The folder that relative paths in it start from; empty for the current directory.
    base: PathBuf,
    text: String,
    masked: OnceLock<String>,
}

impl Source {
    /// Reads a file; says clearly what stands in the way.
    pub(crate) fn read(path: &Path) -> Result<Arc<Self>, Diagnostic> {
        let shown = shown_path(path);
        let fail = |message: String| Diagnostic::error(message).in_file(&shown);
        let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => missing(path, &shown),
            _ => fail(format!("cannot read `{shown}`: {error}")),
        })?;
        if metadata.is_dir() {
            return Err(fail(format!("`{shown}` is a directory, not a file")).hint("name a file inside it"));
        }
        if !metadata.is_file() {
            return Err(fail(format!("`{shown}` is not a regular file")));
        }
        let too_large = || {
            fail(format!("`{shown}` is larger than {} MB", MAX_BYTES / (1024 * 1024)))
                .hint("a configuration file is short; put large texts into files of their own")
        };
        if metadata.len() > MAX_BYTES {
            return Err(too_large());
        }
        let mut bytes = Vec::new();
        // The bound holds even if the file grows, or is a pseudo file that reports no length.
        File::open(path)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
            .map_err(|error| fail(format!("cannot read `{shown}`: {error}")))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(too_large());
        }
        let base = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Self::decode(shown, base, bytes)
    }

    /// Takes the bytes of a file that is not on the disk.
    pub(crate) fn embedded(shown: &str, bytes: &[u8]) -> Result<Arc<Self>, Diagnostic> {
        Self::decode(shown.to_owned(), PathBuf::new(), bytes.to_vec())
    }

    /// Takes a value from the command line; `flag` is what messages call it.
    pub(crate) fn flag(flag: &str, text: &str) -> Arc<Self> {
        Arc::new(Self { shown: flag.to_owned(), base: PathBuf::new(), text: text.to_owned(), masked: OnceLock::new() })
    }

    fn decode(shown: String, base: PathBuf, bytes: Vec<u8>) -> Result<Arc<Self>, Diagnostic> {
        let mut text = String::from_utf8(bytes).map_err(|error| {
            let offset = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..offset].split(|&byte| byte == b'\n').count();
            Diagnostic::error(format!("`{shown}` is not UTF-8: line {line}, byte offset {offset}"))
                .in_file(&shown)
                .hint("save the file as UTF-8")
        })?;
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        Ok(Arc::new(Self { shown, base, text, masked: OnceLock::new() }))
    }

    /// Returns what messages call it.
    pub(crate) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the folder that relative paths in it start from.
    pub(crate) fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text with everything that may be a key replaced by `*`, byte for byte.
    pub(crate) fn masked(&self) -> &str {
        self.masked.get_or_init(|| secret::mask(&self.text))
    }
}

/// Leaves out the text: it may hold keys.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("shown", &self.shown).finish_non_exhaustive()
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        self.shown == other.shown && self.text == other.text
    }
}

impl Eq for Source {}

/// A piece of a source, in bytes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) source: Arc<Source>,
    pub(crate) range: Range<usize>,
}

impl Span {
    /// Makes a span; its ends are moved onto character borders.
    pub(crate) fn new(source: &Arc<Source>, range: Range<usize>) -> Self {
        let text = source.text();
        let mut start = range.start.min(text.len());
        let mut end = range.end.clamp(start, text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        while !text.is_char_boundary(end) {
            end += 1;
        }
        Self { source: Arc::clone(source), range: start..end }
    }

    /// Returns line and column, from 1; the column counts characters.
    pub(crate) fn position(&self) -> (usize, usize) {
        let before = &self.source.text()[..self.range.start];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |rest| rest.chars().count()) + 1;
        (line, column)
    }
}

/// Returns a path as messages show it: without `.` and resolvable `..`.
pub(crate) fn shown_path(path: &Path) -> String {
    let shown = normalize(path).display().to_string();
    if shown.is_empty() { ".".to_owned() } else { shown }
}

/// Removes `.` and resolves `..` without asking the disk.
pub(crate) fn normalize(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(clean.components().next_back(), Some(Component::Normal(_))) => {
                clean.pop();
            }
            Component::ParentDir | Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(part),
        }
    }
    clean
}

fn missing(path: &Path, shown: &str) -> Diagnostic {
    let error = Diagnostic::error(format!("`{shown}` does not exist")).in_file(shown);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else {
        return error.hint(format!("the folder `{}` does not exist either", shown_path(folder)));
    };
    let names: Vec<String> =
        entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    match nearest::find(&name, names.iter().map(String::as_str)) {
        Some(near) => {
            error.hint(format!("did you mean `{}`?", shown_path(&path.parent().unwrap_or(Path::new("")).join(near))))
        }
        None => error,
    }
}
