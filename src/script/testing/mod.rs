//! Strategy tests: every `*_test.lua` runs against mock sessions, a virtual clock and files in memory.
//!
//! Start with [`run_dir`]. Results are data; nothing is printed.

mod manifest;
mod recorder;
mod spec;
mod told;
mod world;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use manifest::Manifest;
pub(crate) use recorder::Recorder;

use super::bind::Files;
use super::error::ScriptError;
use super::limits::ScriptLimits;
use super::mock::{MockSetup, MockWorld};
use super::run::ScriptEnd;
use super::source::{ScriptSource, SourceError};

pub(crate) use spec::install;

/// Which tests run, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestOptions {
    /// Only tests whose name contains this.
    pub filter: Option<String>,
    /// Whether to count the lines of the orchestrator that run.
    pub coverage: bool,
}

impl TestOptions {
    /// Runs only tests whose name contains this.
    #[must_use]
    pub fn with_filter(mut self, filter: impl Into<String>) -> Self {
        self.filter = Some(filter.into());
        self
    }

    /// Counts the lines of the orchestrator that run.
    #[must_use]
    pub fn with_coverage(mut self) -> Self {
        self.coverage = true;
        self
    }
}

/// One test.
#[derive(Debug, Clone, PartialEq)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// Whether it passed.
    pub ok: bool,
    /// Why it failed.
    pub message: Option<String>,
    /// Where it failed: `file:line`, relative to the orchestrator's directory.
    pub place: Option<String>,
    /// What it printed, and what the scripts that it ran logged (`[run 1] …`); the last 200 lines.
    pub output: Vec<String>,
    /// Wall time.
    pub duration: Duration,
}

/// One test file.
#[derive(Debug, Clone, PartialEq)]
pub struct TestFile {
    /// The file.
    pub path: PathBuf,
    /// The folder of the orchestrator that it tests; places and covered files are relative to it.
    pub root: PathBuf,
    /// Its tests, in the order in which they ran.
    pub results: Vec<TestResult>,
    /// Why the file itself did not run to its end.
    pub error: Option<ScriptError>,
    /// How often each line of the orchestrator ran, by file and line; empty unless asked for.
    pub coverage: BTreeMap<String, BTreeMap<u32, u64>>,
}

/// What happens while tests run.
#[derive(Debug)]
#[non_exhaustive]
pub enum TestProgress<'a> {
    /// A test file begins.
    File(&'a Path),
    /// A test ended.
    Test(&'a TestResult),
    /// A test file ended; its tests have been told.
    FileEnd(&'a TestFile),
}

/// Hears of tests while they run.
pub type Listener = Arc<dyn Fn(&TestProgress<'_>) + Send + Sync>;

/// Everything that ran.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TestReport {
    /// The files, sorted.
    pub files: Vec<TestFile>,
}

impl TestReport {
    /// Tells whether there were tests and every one of them passed.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.passed() > 0 && self.failed() == 0
    }

    /// Returns how many tests passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.files.iter().flat_map(|file| &file.results).filter(|result| result.ok).count()
    }

    /// Returns how many tests failed; a file that did not run to its end counts as one.
    #[must_use]
    pub fn failed(&self) -> usize {
        let tests = self.files.iter().flat_map(|file| &file.results).filter(|result| !result.ok).count();
        tests + self.files.iter().filter(|file| file.error.is_some()).count()
    }
}

/// Runs the tests of a directory and of those below it, or of one test file.
///
/// # Errors
///
/// [`SourceError`] where the path cannot be read. A test that fails is no error.
pub fn run_dir(path: &Path, options: &TestOptions) -> Result<TestReport, SourceError> {
    run_each(path, options, None)
}

/// Does what [`run_dir`] does, and tells `listener` of each test as soon as it has ended.
///
/// # Errors
///
/// Like [`run_dir`].
pub fn run_dir_with(path: &Path, options: &TestOptions, listener: Listener) -> Result<TestReport, SourceError> {
    run_each(path, options, Some(&listener))
}

fn run_each(path: &Path, options: &TestOptions, listener: Option<&Listener>) -> Result<TestReport, SourceError> {
    let mut files = Vec::new();
    find(path, &mut files)?;
    files.sort();
    let files = files.iter().map(|file| run_file(file, options, listener)).collect::<Result<_, _>>()?;
    Ok(TestReport { files })
}

fn find(path: &Path, into: &mut Vec<PathBuf>) -> Result<(), SourceError> {
    let failed =
        |error: std::io::Error| SourceError::Directory { path: path.display().to_string(), message: error.to_string() };
    if path.is_file() {
        into.push(path.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Symlinks are not followed: a circle of them would never end.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
            find(&entry.path(), into)?;
        } else if kind.is_file() && name.ends_with("_test.lua") {
            into.push(entry.path());
        }
    }
    Ok(())
}

/// Finds the orchestrator that a test file belongs to: the nearest folder upwards with a manifest, else its own.
fn home(file: &Path) -> (&Path, String) {
    let own = file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let root = own.ancestors().take(8).find(|folder| folder.join("orchestrator.toml").is_file()).unwrap_or(own);
    let name = file.strip_prefix(root).unwrap_or(file).to_string_lossy().replace('\\', "/");
    (root, name)
}

fn run_file(path: &Path, options: &TestOptions, listener: Option<&Listener>) -> Result<TestFile, SourceError> {
    let tell = |progress: TestProgress<'_>| {
        if let Some(listener) = listener {
            listener(&progress);
        }
    };
    tell(TestProgress::File(path));
    let (root, name) = home(path);
    let source = ScriptSource::from_dir(root, &name)?;
    // The tests themselves have a world too, so that a slip in one is told like a slip in a script.
    let world = MockWorld::new(MockSetup::default());
    let recorder = Arc::new(Recorder::new(source.clone(), options, world.clone(), listener.cloned()));
    let files = Files {
        source,
        extra: vec![("test", include_str!("../../../lua-stdlib/test.lua"))],
        coverage: None,
        tests: Some(Arc::clone(&recorder)),
    };
    let limits = ScriptLimits::default().with_cpu(Duration::from_secs(5), Duration::from_secs(600));
    let outcome = world.play_files(files, world.inputs(""), limits);
    let error = match outcome.end {
        ScriptEnd::Returned { .. } => None,
        ScriptEnd::Failed(error) => Some(error),
        ScriptEnd::Stopped { reason, .. } => Some(ScriptError::new(
            super::error::ScriptErrorKind::Runtime,
            format!("the test file was stopped: {reason}"),
        )),
    };
    let (results, coverage) = recorder.finish();
    let file = TestFile { path: path.to_owned(), root: root.to_owned(), results, error, coverage };
    tell(TestProgress::FileEnd(&file));
    Ok(file)
}
