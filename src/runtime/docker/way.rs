//! The way from one container to the host's gateway: what the container needs for it, and whether it leads there.

use std::net::IpAddr;
use std::path::PathBuf;

use bollard::models::ContainerCreateBody;

use super::container::Container;
use super::door;
use super::probe::{self, Answer};
use super::program::{self, Program};
use crate::runtime::RuntimeError;

/// Starts the relay before the main process.
const RELAY: &str = include_str!("relay.sh");
/// Tries an address with what an image has.
const PROBE: &str = include_str!("probe.sh");
/// The host's name in containers of a daemon that is elsewhere.
const HOST_NAME: &str = "host.docker.internal";
/// How many seconds a relay may take to start, on a machine that is busy.
const PATIENCE: u64 = 30;

/// A container's network, and its way to the gateway.
#[derive(Debug)]
pub(super) struct Way {
    /// What the daemon calls the network.
    pub(super) mode: &'static str,
    pub(super) target: Target,
}

/// What leads to the gateway.
#[derive(Debug)]
pub(super) enum Target {
    /// Nothing, and why.
    Nowhere(&'static str),
    /// The network: the gateway's address, or the host's name where it has none that containers know.
    Address { host: Option<IpAddr>, port: u16 },
    /// A relay in the container: its program, the gateway's socket, and the folder for it that is mounted.
    Relay { program: Program, socket: PathBuf, door: PathBuf },
}

impl Way {
    /// Adds to a container's description what it needs.
    pub(super) fn furnish(&self, body: &mut ContainerCreateBody) {
        let host = body.host_config.get_or_insert_default();
        match &self.target {
            Target::Nowhere(_) | Target::Address { host: Some(_), .. } => {}
            Target::Address { host: None, .. } => host.extra_hosts = Some(vec![format!("{HOST_NAME}:host-gateway")]),
            Target::Relay { program, door, .. } => {
                host.mounts.get_or_insert_default().extend(program.mounts(door));
                let main = body.entrypoint.take().into_iter().chain(body.cmd.take()).flatten();
                let words = ["-c", RELAY, "refrain-relay", &program.argv().join(" ")].map(str::to_owned);
                body.entrypoint = Some(vec!["sh".to_owned()]);
                body.cmd = Some(words.into_iter().chain(main).collect());
            }
        }
    }

    /// Puts the gateway's socket where the container has it mounted, in the place of any that is there.
    pub(super) async fn open_door(&self) -> Result<(), RuntimeError> {
        let Target::Relay { socket, door, .. } = &self.target else { return Ok(()) };
        let (socket, door) = (socket.clone(), door.clone());
        let linked = tokio::task::spawn_blocking(move || {
            door::link(&socket, &door).map_err(|source| RuntimeError::File { action: "link", path: socket, source })
        });
        let action = "put the gateway's socket into an environment";
        linked.await.map_err(|error| RuntimeError::Io { action, source: error.into() })?
    }

    /// Returns the gateway's base URL inside the container, once it was reached from there.
    pub(super) async fn reach(&self, container: &Container) -> Result<String, RuntimeError> {
        match &self.target {
            Target::Nowhere(why) => Err(RuntimeError::Unavailable {
                message: (*why).to_owned(),
                hint: "use `network: bridge` or `network: gateway-only`, or switch the gateway off for this run"
                    .to_owned(),
            }),
            Target::Relay { program, .. } => {
                let base = format!("http://{}", program::LISTEN);
                let mut argv = program.argv();
                argv.extend(["--check".to_owned(), PATIENCE.to_string()]);
                let hint = "the container's own log (`docker logs`) says more; a security module of this machine (SELinux, \
                            AppArmor) may keep containers from sockets of the host";
                judge(probe::ask(container, argv, PATIENCE + 10).await?, base, "through its relay", hint)
            }
            Target::Address { host, port } => {
                let host = host.map_or_else(|| HOST_NAME.to_owned(), |ip| ip.to_string());
                let base = if host.contains(':') {
                    format!("http://[{host}]:{port}")
                } else {
                    format!("http://{host}:{port}")
                };
                let argv = ["sh", "-c", PROBE, "refrain-probe", &host, &port.to_string(), &base].map(str::to_owned);
                let hint = "a firewall of this machine may drop what comes from containers (allow it on the bridge, such as \
                            `docker0`); a gateway on 127.0.0.1 is reached from Docker Desktop only; or use `network: \
                            gateway-only`";
                judge(probe::ask(container, argv.to_vec(), PATIENCE).await?, base, "over its network `bridge`", hint)
            }
        }
    }
}

fn judge(answer: Answer, base: String, how: &str, hint: &str) -> Result<String, RuntimeError> {
    match answer.code {
        Some(0) => Ok(base),
        Some(code) if code == i64::from(NOTHING_TO_TRY_WITH) => {
            tracing::debug!(address = base, "nothing in the image can try whether the gateway is reached");
            Ok(base)
        }
        _ => {
            let said = answer.output.trim();
            let said = if said.is_empty() { "no answer" } else { said };
            Err(RuntimeError::Unavailable {
                message: format!("the gateway was not reached at {base} from inside a container, {how}: {said}"),
                hint: hint.to_owned(),
            })
        }
    }
}

/// The exit code of the probe where the image holds no program that could try.
const NOTHING_TO_TRY_WITH: u8 = 99;
