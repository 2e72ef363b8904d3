//! `refrain doctor`: what this machine has and lacks for running Refrain.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use super::{Outcome, exit, output};
use crate::clock::SystemClock;
use crate::runtime::local::LocalRuntime;
use crate::runtime::{Runtime, RuntimeError, RuntimeInfo};

/// Check what runs need: git, sh, a compiler, disk space, a writable store, keys
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  refrain doctor\n  refrain doctor --canary\n\n\
                        Exit codes: 0 all is well, 1 the canary found a key, 2 something that every run needs is \
                        missing. Keys are never printed.")]
pub(super) struct Args {
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
    /// Instead plant keys in a run, let its agent print them in every form, and prove that nothing kept or shown holds one.
    /// (`refrain canary` is something else: it checks the meter of money.)
    #[arg(long)]
    canary: bool,
}

/// How a finding is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Only some runs need it.
    Note,
    /// No run works without it.
    Missing,
}

#[derive(Debug, serde::Serialize)]
struct Finding {
    what: &'static str,
    state: State,
    detail: String,
    hint: Option<&'static str>,
}

/// Variables that the agents' providers take their keys from.
const KEYS: &[&str] = &["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY"];

/// Bytes that a run should find free.
const WANTED_DISK: u64 = 2 * 1024 * 1024 * 1024;

pub(super) fn main(args: &Args) -> Outcome {
    if args.canary {
        return super::doctor_canary::main(args.json);
    }
    let mut findings = vec![
        program("git", &["--version"], State::Missing, "install git (Debian: `apt-get install git`)"),
        shell(),
        program("c++", &["--version"], State::Note, "only for building Refrain (Debian: `apt-get install g++`)"),
        runtime(),
        #[cfg(feature = "docker")]
        containers(),
        disk(Path::new(".")),
        folder(Path::new(".")),
    ];
    findings.extend(KEYS.iter().map(|key| key_of(key)));
    let missing = findings.iter().any(|finding| finding.state == State::Missing);
    if args.json {
        output::write_json(&serde_json::json!({"schema": 1, "ok": !missing, "findings": findings}))?;
    } else {
        for finding in &findings {
            let word = match finding.state {
                State::Ok => "\x1b[32mok\x1b[0m",
                State::Note => "\x1b[33mnote\x1b[0m",
                State::Missing => "\x1b[31mmissing\x1b[0m",
            };
            let hint = finding.hint.map(|hint| format!(": {hint}")).unwrap_or_default();
            output::write(&format!("{word:>16}  {:<20} {}{hint}\n", finding.what, finding.detail))?;
        }
    }
    Ok(if missing { exit::USAGE } else { exit::OK })
}

fn program(what: &'static str, args: &[&str], without: State, hint: &'static str) -> Finding {
    let run = Command::new(what).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output();
    match run {
        Ok(run) if run.status.success() => {
            let text = String::from_utf8_lossy(&run.stdout);
            Finding { what, state: State::Ok, detail: text.lines().next().unwrap_or("").to_owned(), hint: None }
        }
        Ok(run) => Finding { what, state: without, detail: format!("fails ({})", run.status), hint: Some(hint) },
        Err(error) => Finding { what, state: without, detail: error.to_string(), hint: Some(hint) },
    }
}

fn shell() -> Finding {
    let finding = program("sh", &["-c", "echo present"], State::Missing, "a POSIX shell is needed to run commands");
    Finding { detail: finding.detail.replace("present", "a POSIX shell"), ..finding }
}

/// Processes of this machine, with what a run says of them before its first cell.
#[expect(clippy::disallowed_methods, reason = "the program reads the environment, the library does not")]
fn runtime() -> Finding {
    let runtime = LocalRuntime::new(Arc::new(SystemClock::new()));
    let runtime = match std::env::var("PATH") {
        Ok(path) => runtime.with_path(path),
        Err(_) => runtime,
    };
    asked("runtime local", State::Missing, &runtime, Some("set PATH to folders that hold a POSIX shell"))
}

/// Asks the Docker daemon, as a run would; nothing is started.
#[cfg(feature = "docker")]
fn containers() -> Finding {
    use crate::runtime::docker::{DockerEndpoint, DockerRuntime};

    let hint = Some("start a daemon (`systemctl start docker`, or `dockerd` as root), or name one with DOCKER_HOST");
    // A variable that is no text names no daemon.
    #[expect(clippy::disallowed_methods, reason = "the program reads the environment, the library does not")]
    let endpoint = DockerEndpoint::from_variables(|name| std::env::var(name).ok());
    let runtime = DockerRuntime::new(Arc::new(SystemClock::new()), endpoint);
    asked("runtime docker", State::Note, &runtime, hint)
}

/// Asks a runtime what a run asks it; `without` is what it is not to have it.
fn asked(what: &'static str, without: State, runtime: &dyn Runtime, hint: Option<&'static str>) -> Finding {
    let not = |detail: String, hint| Finding { what, state: without, detail, hint };
    let asked = async { tokio::time::timeout(Duration::from_secs(10), runtime.preflight()).await };
    let answer = tokio::runtime::Builder::new_current_thread().enable_all().build().map(|tokio| tokio.block_on(asked));
    match answer {
        Ok(Ok(Ok(info))) => Finding { what, state: State::Ok, detail: shown(&info), hint: None },
        Ok(Ok(Err(RuntimeError::Unavailable { message, .. }))) => not(message, hint),
        Ok(Ok(Err(error))) => not(error.to_string(), hint),
        Ok(Err(_)) => not("no answer within 10 s".to_owned(), hint),
        Err(error) => not(error.to_string(), None),
    }
}

/// Says which version it is, and what a user should know of it.
fn shown(info: &RuntimeInfo) -> String {
    let parts: Vec<&str> = std::iter::once(&info.version).chain(&info.notes).map(String::as_str).collect();
    parts.join("; ")
}

fn disk(dir: &Path) -> Finding {
    match rustix::fs::statvfs(dir) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let detail = format!("{} GB free", free / 1_000_000_000);
            let enough = free >= WANTED_DISK;
            let hint = (!enough).then_some("runs keep trees and logs; at least 2 GB should be free");
            Finding { what: "disk", state: if enough { State::Ok } else { State::Note }, detail, hint }
        }
        Err(error) => Finding { what: "disk", state: State::Note, detail: error.to_string(), hint: None },
    }
}

fn folder(dir: &Path) -> Finding {
    match tempfile::tempfile_in(dir) {
        Ok(_) => Finding { what: "this directory", state: State::Ok, detail: "writable".to_owned(), hint: None },
        Err(error) => Finding {
            what: "this directory",
            state: State::Missing,
            detail: error.to_string(),
            hint: Some("results go to `refrain.db` and `.refrain/` here"),
        },
    }
}

fn key_of(name: &'static str) -> Finding {
    match std::env::var_os(name) {
        // Not even a part or the length: either would help to guess it.
        Some(value) if !value.is_empty() => {
            Finding { what: name, state: State::Ok, detail: "set (hidden)".to_owned(), hint: None }
        }
        _ => Finding { what: name, state: State::Note, detail: "not set".to_owned(), hint: None },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let finding = program("no-such-program-here", &[], State::Missing, "install it");
        assert_eq!((finding.state, finding.hint), (State::Missing, Some("install it")));
    }

    #[test]
    fn a_key_is_never_shown() {
        let finding = key_of("PATH");
        assert_eq!(finding.detail, "set (hidden)");
    }
}
