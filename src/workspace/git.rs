//! Runs git on the host, for seeds only: on the user's own repositories and on trees no agent has touched.
//!
//! Nothing of the machine's or the repository's configuration takes part: no hooks, no file system monitor, no global or
//! system settings, no attributes of a surrounding repository, no lazy download.

use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use super::WorkspaceError;

/// Variables that would point git at another repository or change what it does; a caller may run inside a git hook.
const FOREIGN: &[&str] = &[
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_TEMPLATE_DIR",
    "GIT_EXTERNAL_DIFF",
    "GIT_ATTR_SOURCE",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
    "GIT_TRACE",
    "GIT_TRACE2",
    "GIT_TRACE2_EVENT",
];

const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "core.ignoreCase=false",
    "core.precomposeUnicode=false",
    "core.protectNTFS=false",
    "core.logAllRefUpdates=false",
    "commit.gpgSign=false",
    "gc.auto=0",
    "pack.writeReverseIndex=false",
    "maintenance.auto=false",
    // The user named the repository; whose it is does not matter for reading it.
    "safe.directory=*",
];

/// Prepares git to run in `dir`, which must be a real path: no repository above its parent is looked for.
pub(super) fn command(dir: &Path) -> Command {
    let mut command = Command::new("git");
    for variable in FOREIGN {
        command.env_remove(variable);
    }
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    command
        .current_dir(dir)
        .env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_ATTR_NOSYSTEM", "1")
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("LC_ALL", "C");
    command
}

/// Runs git to its end. The inner error is what git said.
pub(super) fn run(
    action: &'static str,
    mut command: Command,
    input: Option<&[u8]>,
) -> Result<Result<Vec<u8>, String>, WorkspaceError> {
    let stdin = match input {
        Some(bytes) => Stdio::from(input_file(bytes).map_err(|e| failed(action, &e))?),
        None => Stdio::null(),
    };
    let output = command.stdin(stdin).output().map_err(|e| failed(action, &e))?;
    if output.status.success() {
        return Ok(Ok(output.stdout));
    }
    Ok(Err(said(&output.stderr, output.status)))
}

/// Runs git where any failure is the host's.
pub(super) fn must(action: &'static str, command: Command) -> Result<Vec<u8>, WorkspaceError> {
    run(action, command, None)?.map_err(|message| WorkspaceError::Git { action, message })
}

/// A file with the given bytes, to be read from its start: a pipe could fill up while git writes.
pub(super) fn input_file(bytes: &[u8]) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Says why git could not be run at all.
pub(super) fn failed(action: &'static str, error: &std::io::Error) -> WorkspaceError {
    let message = if error.kind() == std::io::ErrorKind::NotFound {
        "git is not installed or not on PATH".to_owned()
    } else {
        error.to_string()
    };
    WorkspaceError::Git { action, message }
}

/// Returns the last lines of what git said, on one line.
pub(super) fn said(stderr: &[u8], status: std::process::ExitStatus) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { status.to_string() } else { lines[lines.len().saturating_sub(5)..].join("; ") }
}
