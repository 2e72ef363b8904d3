//! `refrain test`: strategy tests, in virtual time and without an agent.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::test_report::{self, Lines};
use super::{Failed, Outcome, exit, output};
use crate::script::SourceError;
use crate::script::testing::{TestOptions, TestProgress, TestReport, run_dir, run_dir_with};

/// Run the strategy tests (`*_test.lua`) of orchestrators
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain test\n  refrain test orchestrators --filter checks\n  \
                        refrain test my-strategy --coverage\n  refrain test my-strategy --watch\n\n\
                        Exit code 1 if a test fails, 2 if there is none.")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(super) struct Args {
    /// A folder, with everything below it, or one test file
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    path: PathBuf,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Print the results as JSON
    #[arg(long, conflicts_with = "tap")]
    json: bool,
    /// Print the results in the Test Anything Protocol
    #[arg(long)]
    tap: bool,
    /// Tell which lines of the orchestrator no test ran
    #[arg(long)]
    coverage: bool,
    /// Run again whenever a file changes, until interrupted
    #[arg(long, conflicts_with_all = ["json", "tap"])]
    watch: bool,
}

/// How often `--watch` looks for changes.
const PERIOD: Duration = Duration::from_millis(300);

pub(super) fn main(args: &Args) -> Outcome {
    if args.watch {
        return watch(args);
    }
    let report = run(args)?;
    if args.json {
        output::write_json(&test_report::json(&report))?;
    } else if args.tap {
        output::write(&test_report::tap(&report))?;
    } else {
        output::write(&test_report::summary(&report))?;
    }
    Ok(code(&report))
}

fn code(report: &TestReport) -> u8 {
    if report.ok() { exit::OK } else { exit::TESTS_FAILED }
}

fn run(args: &Args) -> Result<TestReport, Failed> {
    let mut options = TestOptions::default();
    if let Some(filter) = &args.filter {
        options = options.with_filter(filter);
    }
    if args.coverage {
        options = options.with_coverage();
    }
    let report = if args.json || args.tap {
        run_dir(&args.path, &options)
    } else {
        let lines = Mutex::new(Lines::default());
        let show = move |progress: &TestProgress<'_>| {
            let text = lines.lock().unwrap_or_else(PoisonError::into_inner).next(progress);
            // A pipe that is gone is told by what is written at the end.
            let _ = output::write(&text);
        };
        run_dir_with(&args.path, &options, Arc::new(show))
    };
    let report = report.map_err(|error| unreadable(&args.path, error))?;
    // A green run of no test would hide a wrong folder or a filter with a slip in it.
    if report.passed() + report.failed() == 0 {
        return Err(nothing(args, &report));
    }
    Ok(report)
}

fn unreadable(path: &Path, error: SourceError) -> Failed {
    let missing = !path.exists();
    let failed = Failed::usage(error);
    if missing { failed.with_hint("`refrain new SLUG` makes one; name its folder") } else { failed }
}

fn nothing(args: &Args, report: &TestReport) -> Failed {
    let shown = args.path.display();
    match &args.filter {
        _ if report.files.is_empty() => Failed::usage(anyhow::anyhow!("there is no `*_test.lua` in `{shown}`"))
            .with_hint("`refrain new SLUG` writes an orchestrator with a test"),
        Some(filter) => Failed::usage(anyhow::anyhow!("no test in `{shown}` has `{filter}` in its name")),
        None => Failed::usage(anyhow::anyhow!("the test files in `{shown}` hold no test"))
            .with_hint("begin with `local t = require(\"@std/test\")` and `t.test(\"name\", function() … end)`"),
    }
}

/// Runs the tests at every change. Ends with an interruption only.
fn watch(args: &Args) -> Outcome {
    loop {
        let before = stamps(&args.path);
        match run(args) {
            Ok(report) => output::write(&test_report::summary(&report))?,
            // The next change may mend it.
            Err(failed) => output::failure(&failed),
        }
        super::run::eprint_line(&format!("{:>12} for changes (stop with Ctrl-C)", "Watching"));
        while stamps(&args.path) == before {
            std::thread::sleep(PERIOD);
        }
    }
}

/// Returns the time and size of every file that tests can depend on. What cannot be read counts as gone.
fn stamps(path: &Path) -> BTreeMap<PathBuf, (Option<SystemTime>, u64)> {
    let mut found = BTreeMap::new();
    // The runner lies beside a single test file, not in it.
    let folder = if path.is_file() { path.parent().unwrap_or(path) } else { path };
    let mut folders = vec![if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let hidden = entry.file_name().to_string_lossy().starts_with('.') || entry.file_name() == "target";
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() && !hidden {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|ending| ending == "lua" || ending == "toml") {
                found.insert(entry.path(), (meta.modified().ok(), meta.len()));
            }
        }
    }
    found
}
