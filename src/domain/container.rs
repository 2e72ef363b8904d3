//! What a container is given: its network and its share of the machine.

use std::path::PathBuf;

/// The network of an environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Network {
    /// No network but the loopback device.
    None,
    /// The runtime's ordinary network.
    #[default]
    Bridge,
    /// Nothing but the host's gateway can be reached.
    GatewayOnly,
}

impl Network {
    /// The names that run files use, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["none", "bridge", "gateway-only"];

    /// Finds a network by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::None, Self::Bridge, Self::GatewayOnly].into_iter().find(|network| network.name() == name)
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bridge => "bridge",
            Self::GatewayOnly => "gateway-only",
        }
    }
}

/// When an image is pulled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Pull {
    /// When it is not there.
    #[default]
    Missing,
    /// Before every run.
    Always,
    /// Never: an image that is not there is an error.
    Never,
}

impl Pull {
    /// The names that run files use, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["missing", "always", "never"];

    /// Finds a policy by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Missing, Self::Always, Self::Never].into_iter().find(|pull| pull.name() == name)
    }

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Always => "always",
            Self::Never => "never",
        }
    }
}

/// What an environment that is a container may use.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerOptions {
    /// Its network.
    pub network: Network,
    /// When its image is pulled.
    pub pull: Pull,
    /// Most bytes of memory, swap included; no limit where `None`.
    pub memory_bytes: Option<u64>,
    /// Most CPUs, as a fraction of the machine's; no limit where `None`.
    pub cpus: Option<f64>,
    /// Most processes and threads.
    pub pids: u32,
    /// Most bytes that the container may write, where the daemon's storage can tell; no limit where `None`.
    pub disk_bytes: Option<u64>,
    /// Whether the image's own files are read-only: what a command writes goes to the workspace, the home and the
    /// folders for temporary files.
    pub read_only: bool,
    /// A folder of the image that the workspace stands in for: programs of the image find the workspace under that path.
    pub workspace: Option<PathBuf>,
}

impl ContainerOptions {
    /// The default limit of processes and threads.
    pub const PIDS: u32 = 4096;
}

impl Default for ContainerOptions {
    fn default() -> Self {
        Self {
            network: Network::default(),
            pull: Pull::default(),
            memory_bytes: None,
            cpus: None,
            pids: Self::PIDS,
            disk_bytes: None,
            read_only: true,
            workspace: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_finds_its_own_variant() {
        for name in Network::NAMES {
            assert_eq!(Network::parse(name).map(Network::name), Some(*name));
        }
        for name in Pull::NAMES {
            assert_eq!(Pull::parse(name).map(Pull::name), Some(*name));
        }
        assert_eq!(Network::parse("host"), None);
        assert_eq!(Pull::parse(""), None);
    }
}
