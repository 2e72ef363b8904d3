//! The ways to a daemon besides its socket: TCP, and TLS with certificates on both sides.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod docker;

use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use docker::runtime;
use refrain::clock::SystemClock;
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use refrain::runtime::{Runtime, RuntimeError};

/// The program `stunnel` between a TLS port and the daemon's socket.
struct Tunnel(Child);

impl Tunnel {
    async fn start(dir: &Path, port: u16) -> Self {
        let at = |name: &str| dir.join(name).display().to_string();
        let (cert, key, ca) = (at("server-cert.pem"), at("server-key.pem"), at("ca.pem"));
        let config = format!(
            "foreground = yes\npid =\n[docker]\naccept = 127.0.0.1:{port}\nconnect = /var/run/docker.sock\n\
             cert = {cert}\nkey = {key}\nCAfile = {ca}\nverifyChain = yes\n"
        );
        let file = dir.join("stunnel.conf");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new("stunnel");
        let process = command.arg(file).stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("stunnel runs");
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self(process)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Hands every connection on to the daemon's socket; returns the port.
fn relay() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            let far = UnixStream::connect("/var/run/docker.sock").unwrap();
            let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let (mut from, mut to) = (far, near);
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
        }
    });
    port
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A certificate authority, and certificates for both sides, as `docker` wants them in a folder.
fn certificates(dir: &Path) {
    let script = "set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-authority -keyout ca-key.pem -out ca.pem
for side in server client; do
    openssl req -newkey rsa:2048 -nodes -subj /CN=$side -keyout $side-key.pem -out $side.csr
    printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\\n' > $side.ext
    openssl x509 -req -in $side.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile $side.ext -out $side-cert.pem
done
cp client-key.pem key.pem; cp client-cert.pem cert.pem";
    let made = Command::new("sh").args(["-c", script]).current_dir(dir).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A runtime by the variables that the `docker` command reads.
fn by_variables(variables: &[(&str, String)]) -> DockerRuntime {
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
    DockerRuntime::new(Arc::new(SystemClock::new()), DockerEndpoint::from_variables(find))
}

#[tokio::test]
async fn a_daemon_is_reached_by_tcp_and_by_tls() {
    let Some(_) = runtime().await else { return };
    let host = format!("tcp://127.0.0.1:{}", relay());
    let info = by_variables(&[("DOCKER_HOST", host)]).preflight().await.unwrap();
    assert!(info.version.starts_with("docker "), "{}", info.version);

    if Command::new("stunnel").arg("-version").output().is_err() {
        assert!(std::env::var_os("REFRAIN_REQUIRE_DOCKER").is_none(), "the program stunnel is required");
        println!("skipped: no stunnel");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let port = free_port();
    let _tunnel = Tunnel::start(dir.path(), port).await;
    let secure = |folder: String| {
        let host = format!("tcp://127.0.0.1:{port}");
        let tls = ("DOCKER_TLS_VERIFY", "1".to_owned());
        by_variables(&[("DOCKER_HOST", host), tls, ("DOCKER_CERT_PATH", folder)])
    };
    let info = secure(dir.path().display().to_string()).preflight().await.unwrap();
    assert!(info.version.starts_with("docker "), "{}", info.version);

    // Another authority's certificates are worth nothing, and what is missing is said.
    let other = tempfile::tempdir().unwrap();
    certificates(other.path());
    let error = secure(other.path().display().to_string()).preflight().await;
    assert!(matches!(error, Err(RuntimeError::Unavailable { .. })), "{error:?}");
    let empty = tempfile::tempdir().unwrap();
    let Err(RuntimeError::Unavailable { message, hint }) = secure(empty.path().display().to_string()).preflight().await
    else {
        panic!("an error")
    };
    assert!(message.contains(".pem"), "{message}");
    assert!(hint.contains("DOCKER_CERT_PATH"), "{hint}");
}
