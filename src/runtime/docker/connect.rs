//! Finding the daemon and speaking a version of its API that it knows.

use std::path::PathBuf;

use bollard::{API_DEFAULT_VERSION, Docker};

use super::error::chain;
use crate::runtime::RuntimeError;

/// Where the daemon is looked for when nothing is said.
const DEFAULT_SOCKET: &str = "unix:///var/run/docker.sock";
/// Bound of one answer of the daemon, in seconds. A tree of many files takes its time.
const ANSWER_SECONDS: u64 = 600;

/// Certificates of a TLS connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// A folder with `ca.pem`, `cert.pem` and `key.pem`.
    pub folder: PathBuf,
}

/// Where the daemon is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DockerEndpoint {
    /// `unix:///path`, `tcp://host:port` or `https://host:port`.
    pub host: String,
    /// Certificates, where the daemon wants them.
    pub tls: Option<Tls>,
}

impl Default for DockerEndpoint {
    fn default() -> Self {
        Self { host: DEFAULT_SOCKET.to_owned(), tls: None }
    }
}

impl DockerEndpoint {
    /// Reads `DOCKER_HOST`, `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH` the way the `docker` command does; where no host
    /// is named, podman's socket stands in for a missing docker socket.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let said = |name: &str| variable(name).filter(|value| !value.is_empty());
        let tls = said("DOCKER_TLS_VERIFY").and_then(|_| {
            let folder = said("DOCKER_CERT_PATH").map(PathBuf::from);
            let home = || said("HOME").map(|home| PathBuf::from(home).join(".docker"));
            Some(Tls { folder: folder.or_else(home)? })
        });
        let host = said("DOCKER_HOST").unwrap_or_else(|| {
            let user = said("XDG_RUNTIME_DIR").map(|dir| format!("{dir}/podman/podman.sock"));
            let sockets = [Some("/var/run/docker.sock".to_owned()), user, Some("/run/podman/podman.sock".to_owned())];
            let found = sockets.into_iter().flatten().find(|path| std::path::Path::new(path).exists());
            found.map_or_else(|| DEFAULT_SOCKET.to_owned(), |path| format!("unix://{path}"))
        });
        Self { host, tls }
    }

    fn is_socket(&self) -> bool {
        self.host.starts_with("unix://")
    }
}

/// Connects and agrees on a version.
pub(super) async fn connect(endpoint: &DockerEndpoint) -> Result<Docker, RuntimeError> {
    let host = endpoint.host.as_str();
    let client = match &endpoint.tls {
        Some(tls) if !endpoint.is_socket() => {
            let file = |name: &str| tls.folder.join(name);
            let (key, cert, ca) = (file("key.pem"), file("cert.pem"), file("ca.pem"));
            Docker::connect_with_ssl(host, &key, &cert, &ca, ANSWER_SECONDS, API_DEFAULT_VERSION)
        }
        _ if endpoint.is_socket() => Docker::connect_with_unix(host, ANSWER_SECONDS, API_DEFAULT_VERSION),
        _ => Docker::connect_with_http(host, ANSWER_SECONDS, API_DEFAULT_VERSION),
    };
    let refused = |error: bollard::errors::Error| unavailable(endpoint, &error);
    client.map_err(refused)?.negotiate_version().await.map_err(refused)
}

/// Returns the daemon's name and version.
pub(super) async fn describe(client: &Docker, endpoint: &DockerEndpoint) -> Result<String, RuntimeError> {
    let version = client.version().await.map_err(|error| unavailable(endpoint, &error))?;
    let known = |text: Option<String>| text.unwrap_or_else(|| "unknown".to_owned());
    Ok(format!("docker {} (API {})", known(version.version), known(version.api_version)))
}

fn unavailable(endpoint: &DockerEndpoint, error: &bollard::errors::Error) -> RuntimeError {
    let message = format!("no Docker daemon answers at `{}`: {}", endpoint.host, chain(error));
    let hint = if endpoint.is_socket() {
        "start it (`systemctl start docker`, or `dockerd` as root), add this user to the group `docker`, name another one \
         with DOCKER_HOST, or set `runtime: local`"
    } else {
        "check DOCKER_HOST, and DOCKER_TLS_VERIFY with DOCKER_CERT_PATH if the daemon wants TLS; or set `runtime: local`"
    };
    RuntimeError::Unavailable { message, hint: hint.to_owned() }
}
