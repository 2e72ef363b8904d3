//! Unified diffs in git's style, read into whole files. Nothing is ever applied to a tree that an agent had its hands
//! on: a hunk is applied to the text of the baseline, in memory.

use std::path::{Component, Path, PathBuf};

/// Why a patch cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatchError {
    /// The text is no unified diff.
    #[error("line {line} of the patch: {message}")]
    Syntax {
        /// Line in the patch, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A path leads out of the tree.
    #[error("the patch names `{0}`, which leads out of the workspace")]
    Outside(String),
    /// A hunk does not fit.
    #[error("the hunk at line {line} of `{path}` does not fit the baseline")]
    Mismatch {
        /// The file.
        path: String,
        /// Where the hunk says it belongs, from 1.
        line: usize,
    },
}

/// What a patch does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilePatch {
    /// The file that it starts from; `None` for a new file.
    pub old: Option<PathBuf>,
    /// The file that it leaves; `None` for a deletion.
    pub new: Option<PathBuf>,
    /// The mode that it sets, where it says one.
    pub mode: Option<Mode>,
    hunks: Vec<Hunk>,
}

/// The kinds of file that git knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `100644`.
    Plain,
    /// `100755`.
    Executable,
    /// `120000`: the content is the target.
    Symlink,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Hunk {
    /// First line in the old file, from 1; 0 for an empty old side.
    start: usize,
    old: Vec<Vec<u8>>,
    new: Vec<Vec<u8>>,
}

impl FilePatch {
    /// Applies the hunks to the text that the patch starts from; empty for a new file.
    ///
    /// A hunk may sit elsewhere than it says, as long as the lines it names are found; the nearest place wins.
    ///
    /// # Errors
    ///
    /// [`PatchError::Mismatch`] with the first hunk that does not fit.
    pub fn apply(&self, base: &[u8]) -> Result<Vec<u8>, PatchError> {
        let lines: Vec<&[u8]> = base.split_inclusive(|byte| *byte == b'\n').collect();
        let mut out = Vec::with_capacity(base.len());
        let mut done = 0;
        let mut shift = 0isize;
        for hunk in &self.hunks {
            let expected = hunk.start.saturating_sub(usize::from(!hunk.old.is_empty())).saturating_add_signed(shift);
            let at = hunk
                .find(&lines, done, expected)
                .ok_or_else(|| PatchError::Mismatch { path: self.name().display().to_string(), line: hunk.start })?;
            shift += at.cast_signed() - expected.cast_signed();
            out.extend(lines[done..at].iter().flat_map(|line| line.iter()));
            out.extend(hunk.new.iter().flatten());
            done = at + hunk.old.len();
        }
        out.extend(lines[done..].iter().flat_map(|line| line.iter()));
        Ok(out)
    }

    fn name(&self) -> &Path {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or(Path::new(""))
    }
}

impl Hunk {
    fn find(&self, lines: &[&[u8]], from: usize, expected: usize) -> Option<usize> {
        let last = lines.len().checked_sub(self.old.len())?;
        let fits = |at: usize| self.old.iter().zip(&lines[at..]).all(|(old, line)| old.as_slice() == *line);
        (from..=last).filter(|at| fits(*at)).min_by_key(|at| at.abs_diff(expected))
    }
}

/// Reads a patch. Text before the first file (a commit message) is left out.
///
/// # Errors
///
/// A [`PatchError`] for binary patches, copies, paths that lead out, and hunks whose lines do not add up.
pub fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchError> {
    let mut parser = Parser { lines: patch.split_inclusive('\n').collect(), at: 0 };
    let mut files = Vec::new();
    while let Some(line) = parser.peek() {
        if line.starts_with("diff --git ") || (line.starts_with("--- ") && parser.next_starts_with("+++ ")) {
            files.push(parser.file()?);
        } else {
            parser.at += 1;
        }
    }
    if files.is_empty() {
        return Err(PatchError::Syntax { line: 1, message: "no file was found; expected a unified diff".to_owned() });
    }
    Ok(files)
}

struct Parser<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).map(|line| line.trim_end_matches(['\n', '\r']))
    }

    fn next_starts_with(&self, prefix: &str) -> bool {
        self.lines.get(self.at + 1).is_some_and(|line| line.starts_with(prefix))
    }

    fn wrong(&self, message: impl Into<String>) -> PatchError {
        PatchError::Syntax { line: self.at + 1, message: message.into() }
    }

    fn file(&mut self) -> Result<FilePatch, PatchError> {
        let mut file = FilePatch { old: None, new: None, mode: None, hunks: Vec::new() };
        let mut created = false;
        let mut deleted = false;
        if let Some(names) = self.peek().and_then(|line| line.strip_prefix("diff --git ")) {
            (file.old, file.new) = git_names(names)?;
            self.at += 1;
        }
        while let Some(line) = self.peek() {
            if let Some(mode) = line.strip_prefix("new file mode ") {
                created = true;
                file.mode = Some(self.mode(mode)?);
            } else if let Some(mode) = line.strip_prefix("new mode ") {
                file.mode = Some(self.mode(mode)?);
            } else if line.starts_with("deleted file mode ") {
                deleted = true;
            } else if let Some(name) = line.strip_prefix("rename from ") {
                file.old = Some(inside(&unquote(name))?);
            } else if let Some(name) = line.strip_prefix("rename to ") {
                file.new = Some(inside(&unquote(name))?);
            } else if line.starts_with("copy from ") {
                return Err(self.wrong("copies are not supported; make the patch with `git diff --no-renames`"));
            } else if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return Err(self.wrong("binary files are not supported; put them in a `tests/` folder of the task"));
            } else if let Some(name) = line.strip_prefix("--- ").filter(|_| self.next_starts_with("+++ ")) {
                file.old = side(name, "a/")?;
                self.at += 1;
                let name = self.peek().and_then(|line| line.strip_prefix("+++ ")).unwrap_or_default();
                file.new = side(name, "b/")?;
            } else if line.starts_with("@@ ") {
                let hunk = self.hunk()?;
                file.hunks.push(hunk);
                continue;
            } else if line.starts_with("diff --git ") || line.starts_with("--- ") {
                break;
            } else if !["index ", "old mode ", "similarity ", "dissimilarity "]
                .iter()
                .any(|word| line.starts_with(word))
            {
                // A signature, an empty line, the next commit's message.
                break;
            }
            self.at += 1;
        }
        if created {
            file.old = None;
        }
        if deleted {
            file.new = None;
        }
        if file.old.is_none() && file.new.is_none() {
            return Err(self.wrong("a file without a name"));
        }
        Ok(file)
    }

    fn mode(&self, text: &str) -> Result<Mode, PatchError> {
        match text.trim() {
            "100644" => Ok(Mode::Plain),
            "100755" => Ok(Mode::Executable),
            "120000" => Ok(Mode::Symlink),
            other => Err(self.wrong(format!("mode `{other}` is not supported"))),
        }
    }

    fn hunk(&mut self) -> Result<Hunk, PatchError> {
        let header = self.peek().unwrap_or_default();
        let (start, mut old_left, mut new_left) =
            hunk_header(header).ok_or_else(|| self.wrong(format!("`{header}` is no hunk header")))?;
        self.at += 1;
        let mut hunk = Hunk { start, ..Hunk::default() };
        while old_left > 0 || new_left > 0 {
            let Some(line) = self.lines.get(self.at).copied() else {
                return Err(self.wrong("the patch ends inside a hunk"));
            };
            // Editors strip the blank that stands for an empty context line.
            let (sign, content) = match line.chars().next() {
                Some(sign @ (' ' | '+' | '-')) => (sign, &line[1..]),
                Some('\n' | '\r') => (' ', line),
                _ => return Err(self.wrong("a line of a hunk starts with ` `, `+` or `-`")),
            };
            let mut content = content.as_bytes().to_vec();
            // The last line of the patch text may have lost its own end.
            if content.last() != Some(&b'\n') {
                content.push(b'\n');
            }
            if self.next_starts_with("\\ ") {
                content.pop();
                self.at += 1;
            }
            let takes = |left: &mut usize| left.checked_sub(1).map(|rest| *left = rest);
            let fits = match sign {
                '+' => takes(&mut new_left),
                '-' => takes(&mut old_left),
                _ => takes(&mut old_left).and_then(|()| takes(&mut new_left)),
            };
            fits.ok_or_else(|| self.wrong("a hunk has more lines than its header says"))?;
            if sign != '+' {
                hunk.old.push(content.clone());
            }
            if sign != '-' {
                hunk.new.push(content);
            }
            self.at += 1;
        }
        Ok(hunk)
    }
}

/// Reads `@@ -1,2 +1,3 @@ fn context` into start, old count, new count.
fn hunk_header(line: &str) -> Option<(usize, usize, usize)> {
    let (ranges, _) = line.strip_prefix("@@ -")?.split_once(" @@")?;
    let (old, new) = ranges.split_once(" +")?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
            None => Some((text.parse().ok()?, 1)),
        }
    };
    let ((start, old), (_, new)) = (range(old)?, range(new)?);
    Some((start, old, new))
}

type Names = (Option<PathBuf>, Option<PathBuf>);

/// Takes the names of `diff --git a/x b/x`; lines that follow may say better.
fn git_names(text: &str) -> Result<Names, PatchError> {
    if let Some(rest) = text.strip_prefix('"') {
        let end = quoted_end(rest);
        let (old, new) = (&text[..=end], text.get(end + 2..).unwrap_or_default().trim_start());
        return Ok((side(old, "a/")?, side(new, "b/")?));
    }
    // Both names are equal unless a rename says otherwise, so the middle is where they part.
    let middle = text.len() / 2;
    match (text.get(..middle), text.get(middle + 1..)) {
        (Some(old), Some(new)) if old.strip_prefix("a/").is_some() && old.get(2..) == new.get(2..) => {
            Ok((side(old, "a/")?, side(new, "b/")?))
        }
        _ => Ok((None, None)),
    }
}

/// Position of the closing quote, counted from the opening one.
fn quoted_end(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'\\' if !escaped => escaped = true,
            b'"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// Takes the name of one side; `None` for `/dev/null`.
fn side(text: &str, prefix: &str) -> Result<Option<PathBuf>, PatchError> {
    // Plain diffs put a time stamp behind a tab.
    let name = unquote(text.split('\t').next().unwrap_or(text).trim_end());
    if name == b"/dev/null" {
        return Ok(None);
    }
    inside(name.strip_prefix(prefix.as_bytes()).unwrap_or(&name)).map(Some)
}

fn inside(name: &[u8]) -> Result<PathBuf, PatchError> {
    use std::os::unix::ffi::OsStrExt;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(name));
    if stays_inside(&path) {
        return Ok(path);
    }
    Err(PatchError::Outside(path.display().to_string()))
}

/// Tells whether a path is made of plain names alone.
pub(super) fn stays_inside(path: &Path) -> bool {
    path.components().next().is_some() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Undoes git's quoting of odd names (`"t\303\244st"`).
fn unquote(text: &str) -> Vec<u8> {
    let Some(inner) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
        return text.as_bytes().to_vec();
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.bytes().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'a') => out.push(7),
            Some(b'b') => out.push(8),
            Some(b'v') => out.push(11),
            Some(b'f') => out.push(12),
            Some(digit @ b'0'..=b'7') => {
                let mut value = u32::from(digit - b'0');
                for _ in 0..2 {
                    if let Some(next @ b'0'..=b'7') = bytes.peek().copied() {
                        value = value * 8 + u32::from(next - b'0');
                        bytes.next();
                    }
                }
                out.push(u8::try_from(value & 0xff).unwrap_or_default());
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}

#[cfg(test)]
mod tests;
