//! The ways to a daemon besides its socket: TCP, and TLS with certificates on both sides.

#![cfg(feature = "docker")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the test starts a real relay and waits for it")]

mod docker;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use docker::runtime;
use refrain::clock::SystemClock;
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use refrain::runtime::{Runtime, RuntimeError};

/// The program `socat` between a TCP port and the daemon's socket.
struct Relay(Child);

impl Relay {
    async fn start(listen: &str, port: u16) -> Self {
        let target = "UNIX-CONNECT:/var/run/docker.sock";
        let process = Command::new("socat").args([listen, target]).stdin(Stdio::null()).spawn().expect("socat runs");
        for _ in 0..100 {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Self(process)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
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
    if Command::new("socat").arg("-V").output().is_err() {
        assert!(std::env::var_os("REFRAIN_REQUIRE_DOCKER").is_none(), "the program socat is required");
        println!("skipped: no socat");
        return;
    }
    let port = free_port();
    let relay = Relay::start(&format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork"), port).await;
    let host = format!("tcp://127.0.0.1:{port}");
    let info = by_variables(&[("DOCKER_HOST", host)]).preflight().await.unwrap();
    assert!(info.version.starts_with("docker "), "{}", info.version);
    drop(relay);

    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path());
    let at = |name: &str| dir.path().join(name).display().to_string();
    let port = free_port();
    let (cert, key, ca) = (at("server-cert.pem"), at("server-key.pem"), at("ca.pem"));
    let listen =
        format!("OPENSSL-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,cert={cert},key={key},cafile={ca},verify=1");
    let _relay = Relay::start(&listen, port).await;
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
