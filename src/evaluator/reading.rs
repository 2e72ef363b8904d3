//! Finds the test results in what a test command left: JUnit files first, then the format that the task names, then
//! those that its command names, then whatever one reader alone recognises.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use super::formats::{self, Format, SuiteReport};

/// Name for tasks that are to be judged by the exit code, whatever is printed.
const EXIT_CODE: &str = "exit_code";

/// The most bytes of a report file or of a stream that are read.
const MAX_BYTES: u64 = 32 * 1024 * 1024;

/// The most report files.
const MAX_FILES: usize = 1000;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) report: Option<SuiteReport>,
    /// The formats, joined by `+`.
    pub(super) format: Option<String>,
    /// Whether results were to be expected.
    pub(super) expected: bool,
}

/// Reads the JUnit files of a folder; `None` where it holds none.
///
/// # Errors
///
/// What is wrong with a file: it is there, so it was to be read.
pub(super) fn junit_files(folder: &Path) -> Result<Option<SuiteReport>, String> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(None) };
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    // Links are left alone: the tests ran the agent's code, and that could have made one.
    files.retain(|path| {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml"))
            && fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
    });
    files.sort();
    if files.len() > MAX_FILES {
        return Err(format!("{} report files were written, more than {MAX_FILES}", files.len()));
    }
    let mut merged: Option<SuiteReport> = None;
    for path in files {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (bytes, cut) =
            read_bounded(&path).map_err(|error| format!("the report `{name}` cannot be read: {error}"))?;
        if cut {
            return Err(format!("the report `{name}` is larger than {} MiB", MAX_BYTES / 1024 / 1024));
        }
        let report = formats::read(Format::Junit, &bytes)
            .ok_or_else(|| format!("the report `{name}` is no complete JUnit XML"))?;
        merged = Some(match merged {
            Some(earlier) => earlier.merged(report),
            None => report,
        });
    }
    Ok(merged)
}

/// Finds the results. `chosen` is the task's own word for the format.
///
/// # Errors
///
/// An unknown word, or an output that several readers recognise.
pub(super) fn find(
    junit: Option<SuiteReport>,
    chosen: Option<&str>,
    command: &str,
    output: &[u8],
) -> Result<Found, String> {
    let chosen = match chosen {
        Some(EXIT_CODE) => return Ok(Found::default()),
        Some(word) => Some(Format::parse(word).ok_or_else(|| unknown_format(word))?),
        None => None,
    };
    if junit.is_some() {
        return Ok(Found { report: junit, format: Some(Format::Junit.to_string()), expected: true });
    }
    let wanted = chosen.map_or_else(|| formats::named_in(command), |format| vec![format]);
    let expected = !wanted.is_empty();
    let mut read = read_all(if expected { &wanted } else { Format::ALL }, output);
    if !expected && read.len() > 1 {
        // An output of one program may look half like another's; one that has its end is the real one.
        if read.iter().filter(|(_, report)| report.finished).count() == 1 {
            read.retain(|(_, report)| report.finished);
        } else {
            let names: Vec<&str> = read.iter().map(|(format, _)| format.as_str()).collect();
            return Err(format!(
                "the test output reads as {}; set `test_format` in the task's metadata or write JUnit XML to `$REFRAIN_REPORT_DIR`",
                names.join(" and as ")
            ));
        }
    }
    let format = read.iter().map(|(format, _)| format.as_str()).collect::<Vec<_>>().join("+");
    let report = read.into_iter().map(|(_, report)| report).reduce(SuiteReport::merged);
    Ok(Found { format: report.is_some().then_some(format), report, expected })
}

fn read_all(candidates: &[Format], output: &[u8]) -> Vec<(Format, SuiteReport)> {
    candidates.iter().filter_map(|format| Some((*format, formats::read(*format, output)?))).collect()
}

fn unknown_format(word: &str) -> String {
    let known: Vec<&str> = Format::ALL.iter().map(|format| format.as_str()).chain([EXIT_CODE]).collect();
    format!("the task's `test_format` is `{word}`; known are {}", known.join(", "))
}

/// Reads a file up to the bound; for a longer one its end, and `true`.
pub(super) fn read_bounded(path: &Path) -> std::io::Result<(Vec<u8>, bool)> {
    use std::io::{Seek as _, SeekFrom};
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let cut = length > MAX_BYTES;
    if cut {
        file.seek(SeekFrom::Start(length - MAX_BYTES))?;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok((bytes, cut))
}

#[cfg(test)]
mod tests;
