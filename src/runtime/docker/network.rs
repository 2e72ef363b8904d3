//! Networks of containers, and the way from each to the host's gateway.
//!
//! `bridge` reaches it by the bridge's own address on the host. `gateway-only` is no network at all: the gateway's Unix
//! socket lies in the container, and a relay of the host's own leads to it from the container's loopback device.

use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bollard::Docker;
use bollard::models::NetworkInspect;
use tokio::sync::OnceCell;

use super::connect::DockerEndpoint;
use super::door::{self, Folder};
use super::error::{failed, is_absent};
use super::program::Program;
use super::way::{Target, Way};
use crate::domain::Network;
use crate::runtime::{EnvironmentSpec, GatewayDoors, RuntimeError};

/// The daemon's ordinary network.
const BRIDGE: &str = "bridge";

/// Where the daemon's containers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On this machine, with the bridge's address on it where that can be listened on.
    Here(Option<IpAddr>),
    /// On another one, such as the virtual machine of Docker Desktop.
    Elsewhere,
}

/// What a runtime has found out about networks and made for them.
#[derive(Debug, Default)]
pub(super) struct Networks {
    place: OnceCell<Place>,
    program: OnceCell<Program>,
    folders: Mutex<Vec<Folder>>,
}

/// Whom to ask, and where the relay's program is if somebody has said it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Daemon<'a> {
    pub(super) client: &'a Docker,
    pub(super) endpoint: &'a DockerEndpoint,
    pub(super) relay: Option<&'a Path>,
}

impl Networks {
    /// Says where a gateway has to listen for a network.
    pub(super) async fn doors(
        &self,
        daemon: Daemon<'_>,
        network: Network,
        root: &Path,
    ) -> Result<GatewayDoors, RuntimeError> {
        match network {
            Network::None => Ok(GatewayDoors::default()),
            Network::Bridge => Ok(match self.place(daemon).await? {
                // Not every address of the machine: a gateway is no business of its other neighbours.
                Place::Here(Some(ip)) => GatewayDoors { tcp: Some((ip, 0).into()), unix: None },
                Place::Here(None) | Place::Elsewhere => GatewayDoors::loopback(),
            }),
            Network::GatewayOnly => {
                self.program(daemon).await?;
                let folder = Folder::make(root).map_err(|source| RuntimeError::File {
                    action: "create a folder in",
                    path: root.to_owned(),
                    source,
                })?;
                let unix = Some(folder.socket());
                self.folders.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
                Ok(GatewayDoors { tcp: None, unix })
            }
        }
    }

    /// Makes the way from an environment to its gateway ready.
    pub(super) async fn way(&self, daemon: Daemon<'_>, spec: &EnvironmentSpec) -> Result<Way, RuntimeError> {
        let network = spec.container.network;
        let mode = if network == Network::Bridge { BRIDGE } else { "none" };
        let target = match &spec.gateway {
            None => Target::Nowhere("the environment was opened without a gateway"),
            Some(_) if network == Network::None => Target::Nowhere("containers of `network: none` reach no gateway"),
            Some(doors) if network == Network::Bridge => self.by_address(daemon, doors).await?,
            Some(doors) => self.by_relay(daemon, doors, &spec.scratch).await?,
        };
        Ok(Way { mode, target })
    }

    async fn by_address(&self, daemon: Daemon<'_>, doors: &GatewayDoors) -> Result<Target, RuntimeError> {
        let address = doors.tcp.ok_or_else(|| RuntimeError::Unavailable {
            message: "the gateway does not listen on TCP, and containers of `network: bridge` use no other".to_owned(),
            hint: "let it listen on the bridge's address, or use `network: gateway-only`".to_owned(),
        })?;
        let (ip, place) = (address.ip(), self.place(daemon).await?);
        let host = match place {
            Place::Here(Some(bridge)) if ip.is_unspecified() => Some(bridge),
            _ if ip.is_unspecified() || ip.is_loopback() => None,
            _ => Some(ip),
        };
        Ok(Target::Address { host, port: address.port() })
    }

    async fn by_relay(&self, daemon: Daemon<'_>, doors: &GatewayDoors, scratch: &Path) -> Result<Target, RuntimeError> {
        let socket = doors.unix.clone().ok_or_else(|| RuntimeError::Unavailable {
            message: "the gateway listens on no Unix socket, and containers of `network: gateway-only` use no other"
                .to_owned(),
            hint: "let it listen where the runtime says, or use `network: bridge`".to_owned(),
        })?;
        Ok(Target::Relay { program: self.program(daemon).await?.clone(), socket, door: door::mounted(scratch) })
    }

    /// Returns the relay's program, where containers can use it at all.
    async fn program(&self, daemon: Daemon<'_>) -> Result<&Program, RuntimeError> {
        if self.place(daemon).await? == Place::Elsewhere {
            return Err(RuntimeError::Unavailable {
                message: format!(
                    "`network: gateway-only` needs a daemon on this machine: the one at `{}` runs its containers elsewhere, \
                     where no socket of this machine is",
                    daemon.endpoint.host
                ),
                hint: "use `network: bridge`, or run refrain where the daemon is".to_owned(),
            });
        }
        self.program.get_or_try_init(|| Program::find(daemon.relay)).await
    }

    async fn place(&self, daemon: Daemon<'_>) -> Result<Place, RuntimeError> {
        self.place.get_or_try_init(|| find(daemon)).await.copied()
    }
}

/// Returns the address of a bridge on its machine; of two, that of the fourth version.
fn address(network: &NetworkInspect) -> Option<IpAddr> {
    let configured = network.ipam.iter().flat_map(|ipam| ipam.config.iter().flatten());
    let mut found: Vec<IpAddr> = configured.filter_map(|config| config.gateway.as_ref()?.parse().ok()).collect();
    found.sort_by_key(IpAddr::is_ipv6);
    found.first().copied()
}

async fn find(daemon: Daemon<'_>) -> Result<Place, RuntimeError> {
    let info = daemon.client.info().await.map_err(|error| failed("ask the daemon about itself", &error))?;
    // A virtual machine has a kernel of its own, and mostly a name too.
    let here = |file: &str| std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let same = |said: Option<String>, file: &str| said.is_some() && said == here(file);
    if !same(info.kernel_version, "/proc/sys/kernel/osrelease") || !same(info.name, "/proc/sys/kernel/hostname") {
        return Ok(Place::Elsewhere);
    }
    let bridge = match daemon.client.inspect_network(BRIDGE, None).await {
        Ok(found) => address(&found),
        Err(error) if is_absent(&error) => None,
        Err(error) => return Err(failed("inspect the network `bridge`", &error)),
    };
    // A daemon without root has its bridge in a network of its own, where nothing of this process can listen.
    Ok(Place::Here(bridge.filter(|&ip| TcpListener::bind((ip, 0)).is_ok())))
}
