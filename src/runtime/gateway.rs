//! How environments reach a gateway of the host, told without knowing the gateway: addresses and paths.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

/// Where a gateway of this process listens, or is to listen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GatewayDoors {
    /// An address; port 0 asks for a free one.
    pub tcp: Option<SocketAddr>,
    /// A Unix socket.
    pub unix: Option<PathBuf>,
}

impl GatewayDoors {
    /// The loopback device, on a free port: for environments that are processes of this machine.
    #[must_use]
    pub const fn loopback() -> Self {
        Self { tcp: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)), unix: None }
    }

    /// Returns the base URL for processes of this machine; `None` where nothing listens on TCP.
    #[must_use]
    pub fn base_on_this_machine(&self) -> Option<String> {
        let mut address = self.tcp?;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            IpAddr::V4(_) | IpAddr::V6(_) => {}
        }
        Some(format!("http://{address}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_reached_by_loopback() {
        let base = |address: &str| {
            let tcp = Some(address.parse().expect("an address"));
            GatewayDoors { tcp, unix: None }.base_on_this_machine()
        };
        assert_eq!(base("127.0.0.1:8877").as_deref(), Some("http://127.0.0.1:8877"));
        assert_eq!(base("0.0.0.0:8877").as_deref(), Some("http://127.0.0.1:8877"));
        assert_eq!(base("[::]:8877").as_deref(), Some("http://[::1]:8877"));
        assert_eq!(base("192.0.2.7:1").as_deref(), Some("http://192.0.2.7:1"));
        assert_eq!(GatewayDoors { tcp: None, unix: Some("/s".into()) }.base_on_this_machine(), None);
    }
}
