//! The file that a harness keeps of a session inside the environment, read when the session is over.
//!
//! Some programs tell there what their output does not: tokens, how it ended, what was spent before they were killed. The
//! file is the agent's to write: it is copied out without following links, and what it says is believed as much as what
//! is printed.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use super::json_lines::{JsonLinesReader, Which};
use super::{AgentEvent, OutputReader, Reading};
use crate::config::harness_manifest::SessionFileSpec;
use crate::runtime::{Environment, RuntimeError, Stream};

/// The name that the copy has beside the logs.
pub const SESSION_LOG: &str = "session.log";

/// The longest file that is read as one document.
const LONGEST_DOCUMENT: u64 = 64 << 20;

/// Where a harness keeps its file of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// Absolute path inside the environment; `*` stands for any part of a name. Of several files the last by name counts.
    pub pattern: String,
    /// Whether the whole file is one record; else each line is one.
    pub one_document: bool,
}

impl SessionFile {
    /// Copies the file out of an environment, to [`SESSION_LOG`] in `folder`. `None` where there is none.
    ///
    /// # Errors
    ///
    /// What a reader should know: the reason why a file that may be there could not be read.
    pub(super) async fn collect(&self, env: &dyn Environment, folder: &Path) -> Result<Option<PathBuf>, String> {
        let (root, names) = self.split();
        let copies = folder.join("session-files");
        let got = env.get(&root, &copies).await;
        let found = match got {
            Ok(_) => find(&copies, &names),
            // The folder is not there: the harness has kept nothing.
            Err(RuntimeError::File { .. }) => None,
            Err(error) => return Err(error.to_string()),
        };
        let kept = folder.join(SESSION_LOG);
        let moved = found.map(|found| fs::rename(found, &kept)).transpose();
        // What stays would only be in the way of the next session's.
        let _ = fs::remove_dir_all(&copies);
        Ok(moved.map_err(|error| error.to_string())?.map(|()| kept))
    }

    /// Takes the pattern apart: a folder without `*`, and the names below it.
    fn split(&self) -> (PathBuf, Vec<String>) {
        let all: Vec<_> = Path::new(&self.pattern).components().collect();
        let has_star = |part: &Component<'_>| part.as_os_str().to_string_lossy().contains('*');
        let at = all.iter().position(has_star).unwrap_or(all.len()).min(all.len().saturating_sub(1));
        let names = all[at..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        (all[..at].iter().collect(), names)
    }

    /// Hands a copy to a reader; returns what a reader of the result should know.
    pub(super) fn read(&self, reader: &mut dyn OutputReader, copy: &Path) -> std::io::Result<Option<String>> {
        read_from(reader, self.one_document, &mut fs::File::open(copy)?)
    }
}

/// Hands what a harness has kept of a session to a reader, wherever it lies; returns what a reader of the result should
/// know.
///
/// # Errors
///
/// What the source says.
pub fn read_from(
    reader: &mut dyn OutputReader,
    one_document: bool,
    source: &mut dyn Read,
) -> std::io::Result<Option<String>> {
    each_record(one_document, source, &mut |record| reader.file_line(record))
}

/// Hands on each event that a file which a harness has kept shows.
///
/// # Errors
///
/// What the source says.
pub fn read_events(
    reader: &mut dyn OutputReader,
    one_document: bool,
    source: &mut dyn Read,
    on_event: &mut dyn FnMut(AgentEvent),
) -> std::io::Result<()> {
    let mut events = Vec::new();
    let mut on_record = |record: &[u8]| {
        reader.file_events(record, &mut events);
        events.drain(..).for_each(&mut *on_event);
    };
    each_record(one_document, source, &mut on_record).map(|_| ())
}

fn each_record(
    one_document: bool,
    source: &mut dyn Read,
    on_record: &mut dyn FnMut(&[u8]),
) -> std::io::Result<Option<String>> {
    if !one_document {
        let skipped = super::lines::read_lines(source, on_record)?;
        return Ok((skipped > 0).then(|| format!("{skipped} lines of its session file were too long to be read")));
    }
    let mut document = Vec::new();
    Read::take(&mut *source, LONGEST_DOCUMENT + 1).read_to_end(&mut document)?;
    if document.len() as u64 > LONGEST_DOCUMENT {
        let bytes = document.len() as u64 + std::io::copy(source, &mut std::io::sink())?;
        return Ok(Some(format!("its session file has {bytes} bytes; at most {LONGEST_DOCUMENT} are read")));
    }
    on_record(&document);
    Ok(None)
}

/// Finds the last file whose path fits the names, without following links.
fn find(folder: &Path, names: &[String]) -> Option<PathBuf> {
    let (name, rest) = names.split_first()?;
    let mut entries: Vec<_> = fs::read_dir(folder).ok()?.flatten().collect();
    entries.retain(|entry| fits(&entry.file_name().to_string_lossy(), name));
    entries.sort_by_key(fs::DirEntry::file_name);
    entries.into_iter().rev().find_map(|entry| {
        let kind = entry.file_type().ok()?;
        match rest {
            [] => kind.is_file().then(|| entry.path()),
            rest => kind.is_dir().then(|| find(&entry.path(), rest)).flatten(),
        }
    })
}

/// Tells whether a name fits a pattern in which `*` stands for any text.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(name) = name.strip_prefix(start) else { return false };
    name.char_indices().map(|(at, _)| at).chain([name.len()]).any(|at| fits(&name[at..], rest))
}

/// Returns an id that may stand in a pattern: one that is no name of a file stands for any.
pub(super) fn as_name(id: Option<&str>) -> &str {
    let plain = |id: &&str| id.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) && !id.starts_with('.');
    id.filter(|id| !id.is_empty()).filter(plain).unwrap_or("*")
}

/// Reads a harness's output and then its file, and puts together what both say.
pub(super) struct WithSessionFile {
    output: Box<dyn OutputReader>,
    file: JsonLinesReader,
    only_unknown: bool,
}

impl WithSessionFile {
    pub(super) fn new(output: Box<dyn OutputReader>, spec: &SessionFileSpec) -> Self {
        Self { output, file: JsonLinesReader::new(&spec.rules), only_unknown: spec.only_unknown }
    }

    /// One that tells what the file shows for trajectories.
    pub(super) fn detailed(output: Box<dyn OutputReader>, spec: &SessionFileSpec) -> Self {
        let file = JsonLinesReader::detailed(&spec.rules, Which::ForTrajectories);
        Self { output, file, only_unknown: spec.only_unknown }
    }
}

impl OutputReader for WithSessionFile {
    fn line(&mut self, stream: Stream, line: &[u8], events: &mut Vec<AgentEvent>) {
        self.output.line(stream, line, events);
    }

    fn file_line(&mut self, line: &[u8]) {
        self.file.record(line, &mut Vec::new());
    }

    fn file_events(&mut self, line: &[u8], events: &mut Vec<AgentEvent>) {
        self.file.record(line, events);
    }

    fn finish(self: Box<Self>, exit_code: Option<i32>) -> Reading {
        let output = self.output.finish(exit_code);
        let file = self.file.conclude();
        if file.started { together(output, file, self.only_unknown) } else { output }
    }
}

fn together(output: Reading, file: Reading, only_unknown: bool) -> Reading {
    let told = !output.usage.is_unknown();
    let takes_numbers = !(file.usage.is_unknown() || only_unknown && told);
    let mut warnings: Vec<String> = output.warnings.into_iter().chain(file.warnings).collect();
    if takes_numbers && file.outcome.is_none() && output.outcome.is_none() {
        warnings.push(
            "it told no end: its tokens are those in its file, and a request under way is not in them".to_owned(),
        );
    }
    let (usage, cache_write_long, cumulative) = if takes_numbers {
        (file.usage, file.cache_write_long, file.cumulative)
    } else {
        (output.usage, output.cache_write_long, output.cumulative)
    };
    Reading {
        started: true,
        outcome: file.outcome.or(output.outcome),
        text: file.text.or(output.text),
        usage,
        cache_write_long,
        cumulative,
        cost: if takes_numbers || !told { file.cost.or(output.cost) } else { output.cost },
        turns: file.turns.or(output.turns),
        tool_calls: file.tool_calls.or(output.tool_calls),
        harness_session: output.harness_session.or(file.harness_session),
        warnings,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("rollout-1-abc.jsonl", "rollout-*-abc.jsonl", true)]
    #[test_case("rollout-1-abd.jsonl", "rollout-*-abc.jsonl", false)]
    #[test_case("é", "*", true)]
    #[test_case("", "*", true)]
    #[test_case("aXbXc", "a*X*c", true)]
    #[test_case("abc", "ab", false)]
    fn names(name: &str, pattern: &str, expected: bool) {
        assert_eq!(fits(name, pattern), expected);
    }

    #[test_case(Some("01a2-b.c_D"), "01a2-b.c_D")]
    #[test_case(Some("../../etc/passwd"), "*"; "climbs")]
    #[test_case(Some(".."), "*"; "dots")]
    #[test_case(Some(""), "*"; "empty")]
    #[test_case(None, "*"; "unknown")]
    fn an_id_is_only_ever_a_name(id: Option<&str>, expected: &str) {
        assert_eq!(as_name(id), expected);
    }

    #[test_case("/home/a/.x/*/y-*.jsonl", "/home/a/.x", &["*", "y-*.jsonl"]; "stars")]
    #[test_case("/home/a/x.json", "/home/a", &["x.json"]; "none")]
    fn patterns(pattern: &str, root: &str, names: &[&str]) {
        let file = SessionFile { pattern: pattern.to_owned(), one_document: false };
        let (found_root, found) = file.split();
        assert_eq!((found_root.as_path(), found), (Path::new(root), names.iter().map(|n| (*n).to_owned()).collect()));
    }

    #[test]
    fn links_are_no_files_and_the_last_name_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["a/1.jsonl", "a/2.jsonl", "b/other"] {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("below")).expect("a folder");
            fs::write(path, name).expect("written");
        }
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("a/3.jsonl")).expect("linked");
        std::os::unix::fs::symlink(dir.path().join("a"), dir.path().join("c")).expect("linked");
        let found = find(dir.path(), &["*".to_owned(), "*.jsonl".to_owned()]).expect("found");
        assert_eq!(found, dir.path().join("a/2.jsonl"));
        assert_eq!(find(dir.path(), &["none".to_owned()]), None);
    }
}
