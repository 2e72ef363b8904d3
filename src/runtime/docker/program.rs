//! The relay's program, on its way into containers: mounted for reading, with the loader and libraries of this machine.

use std::ffi::OsStr;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use bollard::models::{Mount, MountType};

use super::door;
use super::relay::parts::{self, LOADER, PROGRAM, Part};
use crate::runtime::RuntimeError;

/// Where its parts lie in a container.
const FOLDER: &str = "/refrain/relay";
/// Where the folder with the gateway's socket lies in a container.
pub(super) const DOOR: &str = "/refrain/gateway";
/// Where it listens in a container: what `refrain gateway` listens on by itself, and what no agent needs.
pub(super) const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 8877);
/// How long the program may take to say what it needs.
const ANSWER: Duration = Duration::from_secs(30);

/// A program that has said what it needs to run elsewhere.
#[derive(Debug, Clone)]
pub(super) struct Program {
    parts: Vec<Part>,
}

impl Program {
    /// Asks a program, or the one that runs right now if that is `refrain`.
    pub(super) async fn find(named: Option<&Path>) -> Result<Self, RuntimeError> {
        let path = named.map_or_else(this_program, |path| Ok(path.to_owned()))?;
        let mut command = tokio::process::Command::new(&path);
        command.args(["relay", "--parts"]).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
        let output = match tokio::time::timeout(ANSWER, command.output()).await {
            Ok(output) => output.map_err(|error| unfit(&path, &format!("cannot be run: {error}")))?,
            Err(_) => return Err(unfit(&path, "does not answer")),
        };
        let said = std::str::from_utf8(&output.stdout).ok().filter(|_| output.status.success());
        let parts = said.and_then(parts::from_text);
        let parts = parts.ok_or_else(|| unfit(&path, "does not know how to be a relay"))?;
        for part in &parts {
            let mode = std::fs::metadata(&part.path).map(|metadata| metadata.permissions().mode());
            let mode = mode.map_err(|error| unfit(&part.path, &format!("cannot be read: {error}")))?;
            // The container's root has no right to read what only its owner may.
            if mode & 0o004 == 0 || (part.name == PROGRAM && mode & 0o001 == 0) {
                return Err(unfit(&part.path, "may only be read and run by its owner; `chmod a+rx` it"));
            }
        }
        Ok(Self { parts })
    }

    /// Returns what a container mounts: the program's parts and the folder with the gateway's socket.
    pub(super) fn mounts(&self, door: &Path) -> Vec<Mount> {
        let mount = |source: &Path, target: String| Mount {
            typ: Some(MountType::BIND),
            source: Some(source.display().to_string()),
            target: Some(target),
            read_only: Some(true),
            ..Mount::default()
        };
        let parts = self.parts.iter().map(|part| mount(&part.path, format!("{FOLDER}/{}", part.name)));
        parts.chain([mount(door, DOOR.to_owned())]).collect()
    }

    /// Returns the command line of the relay in a container.
    pub(super) fn argv(&self) -> Vec<String> {
        let program = format!("{FOLDER}/{PROGRAM}");
        let mut argv = Vec::new();
        if self.parts.iter().any(|part| part.name == LOADER) {
            argv.extend([format!("{FOLDER}/{LOADER}"), "--library-path".to_owned(), FOLDER.to_owned()]);
        }
        argv.extend([program, "relay".to_owned()]);
        argv.extend(["--listen".to_owned(), LISTEN.to_string()]);
        argv.extend(["--to".to_owned(), format!("{DOOR}/{}", door::SOCKET)]);
        argv
    }
}

fn this_program() -> Result<PathBuf, RuntimeError> {
    let program = std::env::current_exe().map_err(|source| RuntimeError::Io { action: "find this program", source })?;
    if program.file_name() == Some(OsStr::new("refrain")) {
        return Ok(program);
    }
    Err(unfit(&program, "is not `refrain`"))
}

fn unfit(program: &Path, why: &str) -> RuntimeError {
    RuntimeError::Unavailable {
        message: format!(
            "`network: gateway-only` needs the program `refrain` as a relay: `{}` {why}",
            program.display()
        ),
        hint: "name it (`Host::builder().program(…)` or `DockerRuntime::with_relay`), or use `network: bridge`"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_is_no_relay_is_refused_by_its_name() {
        for (path, why) in
            [("/bin/true", "does not know how"), ("/bin/false", "does not know how"), ("/no/such", "cannot be run")]
        {
            let Err(RuntimeError::Unavailable { message, hint }) = Program::find(Some(Path::new(path))).await else {
                panic!("an error")
            };
            assert!(message.contains(path) && message.contains(why), "{message}");
            assert!(hint.contains("with_relay"), "{hint}");
        }
        // The tests' own program is none either.
        assert!(matches!(Program::find(None).await, Err(RuntimeError::Unavailable { .. })));
    }

    #[test]
    fn a_program_without_a_loader_is_run_as_it_is() {
        let part = |name: &str| Part { name: name.to_owned(), path: "/p".into() };
        let argv = |parts| Program { parts }.argv().join(" ");
        let rest = "/refrain/relay/program relay --listen 127.0.0.1:8877 --to /refrain/gateway/sock";
        assert_eq!(argv(vec![part(PROGRAM)]), rest);
        let loaded = argv(vec![part(PROGRAM), part(LOADER)]);
        assert_eq!(loaded, format!("/refrain/relay/loader --library-path /refrain/relay {rest}"));
    }
}
