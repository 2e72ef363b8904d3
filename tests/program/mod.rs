//! The program as a process in a project of a test.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What a run of the program left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// The program in a folder that is its home too, with one key and nothing else of the surroundings that it looks at.
pub(crate) fn command(folder: &Path, args: &[&str], (name, key): (&str, &str)) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command.args(args).current_dir(folder).stdin(Stdio::null());
    for name in ["REFRAIN_PATH", "REFRAIN_LOG"] {
        command.env_remove(name);
    }
    command.env("REFRAIN_DB", folder.join("runs/refrain.db"));
    command.env("HOME", folder).env_remove("XDG_CONFIG_HOME").env(name, key);
    command
}

/// Runs it to its end.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().expect("the program starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Writes a file below a folder.
pub(crate) fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("below")).expect("folders");
    fs::write(path, text).expect("written");
}

/// Waits, far longer than it should take, until something holds.
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> Option<()>) {
    for _ in 0..6_000 {
        if holds().is_some() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("waited in vain: {what}");
}
