//! Starting a command: its program, its environment, its standard input, and what a refusal means.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Seek, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Child;

use crate::runtime::{Command, RuntimeError, Stdin};

/// What a command finds around it.
#[derive(Debug)]
pub(super) struct Surroundings {
    /// Variables of the environment, the runtime's own minimum first. Later ones win.
    pub(super) env: Vec<(String, String)>,
    /// Where it runs unless it says otherwise.
    pub(super) workspace: PathBuf,
    /// Where a file for standard input can be made.
    pub(super) scratch: PathBuf,
}

/// Starts `command` in a process group of its own, with `marks` last in its environment.
pub(super) async fn spawn(
    command: &Command,
    around: &Surroundings,
    marks: &[(String, String)],
    [stdout, stderr]: [Stdio; 2],
) -> Result<Child, RuntimeError> {
    let program = command.argv.first().map(String::as_str).unwrap_or_default();
    let refuse = |reason: String| RuntimeError::NotRunnable { program: program.to_owned(), reason };
    let cwd = command.cwd.as_deref().unwrap_or(&around.workspace);
    if !cwd.is_dir() {
        return Err(refuse(format!("its working directory `{}` does not exist", cwd.display())));
    }
    let mut env: Vec<(&str, &str)> = Vec::new();
    for (name, value) in around.env.iter().chain(&command.env).chain(marks) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(refuse(format!(
                "the variable `{}` cannot be set: it holds `=` or a NUL byte",
                name.escape_default()
            )));
        }
        env.push((name, value));
    }
    let path = env.iter().rev().find(|(name, _)| *name == "PATH").map_or("", |(_, value)| value);
    let file = find(program, path, cwd).map_err(&refuse)?;

    let mut spawn = std::process::Command::new(&file);
    spawn.arg0(program).args(&command.argv[1..]).env_clear().envs(env).current_dir(cwd).process_group(0);
    spawn.stdin(stdin(&command.stdin, &around.scratch)?).stdout(stdout).stderr(stderr);
    let mut spawn = tokio::process::Command::from(spawn);
    // A program that was written a moment ago can still be open for writing in a child that another thread has just
    // forked and that has not got to its own exec yet.
    for _ in 0..50 {
        match spawn.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy => {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            result => return result.map_err(|error| refuse(explain(&error, command, &file))),
        }
    }
    Err(refuse("somebody holds it open for writing".to_owned()))
}

/// Standard input is a file, never a pipe: a child that does not read it cannot hold anybody up.
fn stdin(from: &Stdin, scratch: &Path) -> Result<Stdio, RuntimeError> {
    match from {
        Stdin::Null => Ok(Stdio::null()),
        Stdin::Bytes(bytes) => {
            let write = || -> io::Result<fs::File> {
                let mut file = nameless_file(scratch)?;
                file.write_all(bytes)?;
                file.rewind()?;
                Ok(file)
            };
            write().map(Stdio::from).map_err(|source| RuntimeError::File {
                action: "write standard input below",
                path: scratch.into(),
                source,
            })
        }
    }
}

/// A file without a name: in memory where the system can, since a prompt is small and a file on disk would be made and
/// removed for every session.
fn nameless_file(scratch: &Path) -> io::Result<fs::File> {
    #[cfg(target_os = "linux")]
    if let Ok(file) = rustix::fs::memfd_create("refrain-stdin", rustix::fs::MemfdFlags::CLOEXEC) {
        return Ok(file.into());
    }
    tempfile::tempfile_in(scratch)
}

/// Finds the program as a shell would, in the command's own `PATH`.
fn find(program: &str, path: &str, cwd: &Path) -> Result<PathBuf, String> {
    if program.is_empty() {
        return Err("the command is empty".to_owned());
    }
    if program.contains('\0') {
        return Err("its name holds a NUL byte".to_owned());
    }
    if program.contains('/') {
        let file = cwd.join(program);
        return executable(&file).map(|()| file);
    }
    let mut refused = None;
    for dir in path.split(':').filter(|dir| !dir.is_empty()) {
        let file = cwd.join(dir).join(program);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(reason) if file.exists() => refused = refused.or(Some(reason)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| format!("there is no such program in PATH ({path})")))
}

fn executable(file: &Path) -> Result<(), String> {
    let shown = file.display();
    match fs::metadata(file) {
        Ok(metadata) if metadata.is_dir() => Err(format!("`{shown}` is a directory")),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => {
            Err(format!("`{shown}` is not executable; `chmod +x` it"))
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(format!("`{shown}` does not exist")),
        Err(error) => Err(format!("`{shown}`: {error}")),
    }
}

fn explain(error: &io::Error, command: &Command, file: &Path) -> String {
    match error.kind() {
        io::ErrorKind::ArgumentListTooLong => {
            let total: usize = command.argv.iter().map(String::len).sum();
            let longest = command.argv.iter().chain(command.env.iter().map(|(_, value)| value)).map(String::len).max();
            format!(
                "its arguments are too long for the operating system ({total} bytes in all, the longest argument or variable has \
                 {}; usual limits are 128 KiB for one and 2 MiB for all): pass long texts by file or standard input",
                longest.unwrap_or(0)
            )
        }
        io::ErrorKind::NotFound => {
            format!("`{}` is there, but the interpreter that it names is not", file.display())
        }
        io::ErrorKind::PermissionDenied => format!("`{}` may not be executed by this user", file.display()),
        io::ErrorKind::InvalidInput => "an argument holds a NUL byte".to_owned(),
        _ if error.raw_os_error() == Some(rustix::io::Errno::NOEXEC.raw_os_error()) => {
            format!("`{}` is no program for this machine; a script begins with `#!`", file.display())
        }
        _ => error.to_string(),
    }
}

/// Tells whether a variable may be set by a spec: its name is one that a process can carry.
pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !OsStr::new(name).as_encoded_bytes().iter().any(|&byte| byte == b'=' || byte == 0)
}
