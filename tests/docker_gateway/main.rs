//! How containers reach a gateway of the host, and that they reach nothing else: on the real engine.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "tests read where the daemon is")]
#![allow(clippy::print_stdout, reason = "what a container complains of explains a failure")]

#[path = "../docker/mod.rs"]
mod docker;
mod server;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use docker::{BUSYBOX, DEBIAN, containers, docker as command, runtime, spec};
use refrain::clock::SystemClock;
use refrain::domain::Network;
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use refrain::runtime::{Command, Environment, EnvironmentSpec, GatewayDoors, Output, Runtime, RuntimeError};
use serde_json::Value;
use server::Server;
use tokio_util::sync::CancellationToken;

/// A container and the gateway that it reaches.
struct Place {
    runtime: DockerRuntime,
    env: Box<dyn Environment>,
    id: String,
    /// The gateway's address as the container sees it.
    base: String,
    dir: tempfile::TempDir,
    server: Server,
}

fn ready(runtime: DockerRuntime) -> DockerRuntime {
    runtime.with_relay(PathBuf::from(env!("CARGO_BIN_EXE_refrain")))
}

fn spec_on(network: Network, gateway: Option<GatewayDoors>, name: &str, image: &str, dir: &Path) -> EnvironmentSpec {
    let mut spec = spec(name, image, dir);
    spec.container.network = network;
    EnvironmentSpec { gateway, ..spec }
}

impl Place {
    async fn open(network: Network, name: &str, image: &str) -> Option<Self> {
        let runtime = ready(runtime().await?);
        let dir = tempfile::tempdir().unwrap();
        let doors = runtime.gateway_doors(network, dir.path()).await.unwrap();
        let server = Server::start(&doors).await;
        let mut spec = spec_on(network, Some(server.doors.clone()), name, image, dir.path());
        spec.env = vec![("PROVIDER_KEY".to_owned(), "hunter2-hunter2".to_owned())];
        let env = runtime.open(spec).await.unwrap();
        let base = env.gateway_address().await.unwrap();
        let id = containers(name)[0].clone();
        Some(Self { runtime, env, id, base, dir, server })
    }

    /// Runs a command as the agent; returns what it printed.
    async fn agent(&self, script: &str) -> String {
        let report =
            self.env.exec(&Command::shell(script), Output::capture(), &CancellationToken::new()).await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if !report.stderr.bytes.is_empty() {
            println!("{}", text(&report.stderr.bytes));
        }
        text(&report.stdout.bytes)
    }

    async fn python(&self, script: &str) -> String {
        self.env.put_file(script.as_bytes(), &self.env.workspace().join("script.py"), false).await.unwrap();
        self.agent("exec python3 script.py").await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_barest_image_reaches_the_gateway_and_shows_no_key() {
    let Some(place) = Place::open(Network::GatewayOnly, "relay-bare", BUSYBOX).await else { return };
    assert_eq!(place.base, "http://127.0.0.1:8877");
    let fetch = format!("wget -q -O - {}/hello", place.base);
    assert_eq!(place.agent(&fetch).await, "gateway GET /hello");
    assert_eq!(place.agent("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '").await, "lo");
    // The whole way again, without the relay: there is nothing in between that would keep anything back.
    assert_eq!(place.agent("ls /refrain/gateway; touch /refrain/gateway/x 2>/dev/null || echo no").await, "sock\nno");

    let text = command(&["inspect", &place.id]);
    assert!(!text.contains("hunter2"), "a key is in the container's description");
    let described: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(described[0]["HostConfig"]["NetworkMode"], "none");
    let mounts = described[0]["Mounts"].as_array().unwrap();
    let bound: Vec<_> = mounts.iter().filter(|mount| mount["Type"] == "bind").collect();
    assert!(bound.len() >= 2 && bound.iter().all(|mount| mount["RW"] == false), "{bound:?}");

    assert!(place.dir.path().join("environment/gateway/sock").exists());
    let left = || std::fs::read_dir(place.dir.path()).unwrap().count();
    assert_eq!(left(), 2, "the environment's folder and the gateway's");
    place.env.close().await.unwrap();
    assert_eq!(left(), 1, "the gateway's folder");
    drop(place.runtime);
    assert_eq!(left(), 0);
}

/// Tries every way out that an agent may think of. Prints the ones that lead somewhere.
const WAYS_OUT: &str = r"
import socket, sys
def tcp(name, family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(3)
        try: s.connect(address)
        except OSError: return
        print('reached', name)
def udp(name, family, address, ask):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(3)
        try:
            s.sendto(ask, address)
            s.recvfrom(512)
        except OSError: return
        print('answered', name)
port, abstract, hosts = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
query = b'\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01'
for host in hosts:
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    for p in (port, 53, 80, 443, 2375, 8000): tcp('%s:%d' % (host, p), family, (host, p))
    udp('%s:53/udp' % host, family, (host, 53), query)
tcp('abstract socket', socket.AF_UNIX, '\0' + abstract)
for name in ('example.com', 'host.docker.internal', 'localhost.localdomain.'):
    try: print('resolved', name, socket.getaddrinfo(name, 80))
    except OSError: pass
print('done')
";

#[tokio::test(flavor = "multi_thread")]
async fn from_gateway_only_nothing_else_is_reached() {
    let Some(place) = Place::open(Network::GatewayOnly, "relay-alone", DEBIAN).await else { return };
    // The host answers on every address it has, and a neighbour on the ordinary network answers on its own.
    let host = std::net::TcpListener::bind("[::]:0").unwrap();
    let port = host.local_addr().unwrap().port();
    std::thread::spawn(move || for _ in host.incoming() {});
    let unique = format!("refrain-test-{}", std::process::id());
    let address =
        <std::os::unix::net::SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(&unique).unwrap();
    let _abstract = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    let serve = "import http.server as h; h.HTTPServer(('', 8000), h.SimpleHTTPRequestHandler).serve_forever()";
    let label = "refrain.run=test-relay-alone-neighbour";
    let neighbour = command(&["run", "-d", "--label", label, DEBIAN, "python3", "-c", serve]);
    let neighbour_ip = command(&["inspect", "-f", "{{.NetworkSettings.IPAddress}}", &neighbour]);
    let bridge = command(&["network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", "bridge"]);
    let own = std::process::Command::new("hostname").arg("-I").output().unwrap();
    let own = String::from_utf8_lossy(&own.stdout).into_owned();

    let mut hosts = vec![bridge.as_str(), &neighbour_ip, "8.8.8.8", "1.1.1.1", "169.254.169.254", "127.0.0.11"];
    hosts.extend(["127.0.0.1", "::1", "2001:4860:4860::8888", "fd00:ec2::254", "169.254.170.2"]);
    hosts.extend(own.split_whitespace());
    let arguments = format!("{port} {unique} {}", hosts.join(" "));
    place.env.put_file(WAYS_OUT.as_bytes(), &place.env.workspace().join("out.py"), false).await.unwrap();
    let reached = place.agent(&format!("python3 out.py {arguments}")).await;
    let answer = place.python(&fetch_by_python(&place.base)).await;
    // The same from a container on the ordinary network, so that the test can fail.
    let script =
        format!("cat > /out.py <<'END'\n{WAYS_OUT}\nEND\npython3 /out.py {port} {unique} {bridge} {neighbour_ip}");
    let control = command(&["run", "--rm", DEBIAN, "sh", "-c", &script]);
    command(&["rm", "-fv", &neighbour]);
    place.env.close().await.unwrap();
    assert_eq!(reached, "done");
    assert_eq!(answer, "gateway GET /hello");
    assert!(control.contains(&format!("reached {bridge}:{port}")), "{control}");
    assert!(control.contains(&format!("reached {neighbour_ip}:8000")), "{control}");
}

fn fetch_by_python(base: &str) -> String {
    format!("import urllib.request as u; print(u.urlopen('{base}/hello').read().decode())")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_cannot_end_the_relay_and_one_that_dies_is_started_again() {
    let Some(place) = Place::open(Network::GatewayOnly, "relay-killed", BUSYBOX).await else { return };
    let fetch = format!("wget -q -O - {}/hello", place.base);
    let pids = || {
        let found = command(&["exec", &place.id, "sh", "-c", "pidof loader program; exit 0"]);
        let mut pids: Vec<_> = found.split_whitespace().map(str::to_owned).collect();
        pids.sort();
        pids
    };
    let before = pids();
    assert_eq!(before.len(), 1, "{before:?}");
    let everything = "for p in /proc/[0-9]*; do kill -9 ${p#/proc/} 2> /dev/null; done; echo tried";
    assert_eq!(place.agent(&format!("trap '' TERM; (sleep 300 &) ; p=$$; {everything}")).await, "");
    place.agent("kill -9 -1").await;
    place.env.quiesce().await.unwrap();
    assert_eq!(pids(), before);
    assert_eq!(place.agent(&fetch).await, "gateway GET /hello");

    // Only root can, and the kernel where memory is short.
    command(&["exec", "-u", "0", &place.id, "kill", "-9", &before[0]]);
    let mut waited = 0;
    while place.agent(&fetch).await != "gateway GET /hello" {
        assert!(waited < 300, "the relay was not started again");
        waited += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_ne!(pids(), before);
    place.env.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn long_streams_and_many_connections_pass() {
    const STREAM: u64 = 500_000_000;
    let Some(place) = Place::open(Network::GatewayOnly, "relay-load", DEBIAN).await else { return };
    let base = &place.base;
    let script = format!(
        "
import urllib.request as u, threading, time
def read(path):
    total = 0
    with u.urlopen('{base}' + path) as answer:
        while True:
            piece = answer.read(1 << 20)
            if not piece: return total
            total += len(piece)
began = time.monotonic()
print('down', read('/zeros/{STREAM}'))
took = time.monotonic() - began
body = (b'x' * 1000 for _ in range(100_000))
print('up', u.urlopen(u.Request('{base}/count', body, {{'Content-Length': '100000000'}})).read().decode())
got = []
def one(n): got.append(read('/wait/%d' % (1000 + n)))
threads = [threading.Thread(target=one, args=(n,)) for n in range(100)]
for t in threads: t.start()
for t in threads: t.join()
print('parallel', len(got), sum(got))
print('speed %.0f' % ({STREAM} / 1e6 / took))
"
    );
    let said = place.python(&script).await;
    place.env.close().await.unwrap();
    let (counts, speed) = said.rsplit_once('\n').unwrap();
    println!("MB/s through the relay: {speed}");
    let sum: u64 = (1000..1100).sum();
    assert_eq!(counts, format!("down {STREAM}\nup 100000000\nparallel 100 {sum}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_is_taken_over_reaches_the_later_host() {
    let Some(place) = Place::open(Network::GatewayOnly, "relay-taken", BUSYBOX).await else { return };
    let Place { runtime, env, id, dir, server, .. } = place;
    // As if the host had died: the container is another process's, which is gone with its gateway.
    let deed = dir.path().join("environment/container.json");
    let text = std::fs::read_to_string(&deed).unwrap();
    let gone = text.replace("\"started\":", "\"started\":9");
    assert_ne!(text, gone);
    std::fs::write(&deed, gone).unwrap();
    drop((runtime, env, server));
    let fetch = ["exec", &id, "wget", "-q", "-O", "-", "http://127.0.0.1:8877/hello"];
    assert_eq!(command(&fetch), "");

    let later = ready(docker::runtime().await.unwrap());
    let server = Server::start(&later.gateway_doors(Network::GatewayOnly, dir.path()).await.unwrap()).await;
    let spec = spec_on(Network::GatewayOnly, Some(server.doors.clone()), "relay-taken", BUSYBOX, dir.path());
    let env = later.reattach(&spec).await.unwrap().expect("there is one");
    assert_eq!(env.gateway_address().await.unwrap(), "http://127.0.0.1:8877");
    assert_eq!(command(&fetch), "gateway GET /hello");
    env.close().await.unwrap();
    assert_eq!(containers("relay-taken"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn on_bridge_the_gateway_listens_on_the_bridge_alone() {
    let address = command(&["network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", "bridge"]);
    for (name, image) in [("bridge-bare", BUSYBOX), ("bridge-whole", DEBIAN)] {
        let Some(place) = Place::open(Network::Bridge, name, image).await else { return };
        assert!(place.base.starts_with(&format!("http://{address}:")), "{}", place.base);
        let port = place.base.rsplit(':').next().unwrap();
        assert!(std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_err(), "it listens on loopback too");
        let answer = if image == BUSYBOX {
            place.agent(&format!("wget -q -O - {}/hello", place.base)).await
        } else {
            place.python(&fetch_by_python(&place.base)).await
        };
        place.env.close().await.unwrap();
        assert_eq!(answer, "gateway GET /hello");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_reached_is_named_with_where_it_was_tried() {
    let Some(runtime) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let doors = runtime.gateway_doors(Network::Bridge, dir.path()).await.unwrap();
    let closed = std::net::TcpListener::bind(doors.tcp.unwrap()).unwrap().local_addr().unwrap();
    let local = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (local, closed) = ((local.local_addr().unwrap(), local), closed);
    for (image, tcp, base) in [
        (BUSYBOX, closed, format!("http://{closed}")),
        (DEBIAN, closed, format!("http://{closed}")),
        // As a gateway on 127.0.0.1 is for every container on Linux.
        (DEBIAN, local.0, format!("http://host.docker.internal:{}", local.0.port())),
    ] {
        let gateway = Some(GatewayDoors { tcp: Some(tcp), unix: None });
        let env = runtime.open(spec_on(Network::Bridge, gateway, "far", image, dir.path())).await.unwrap();
        let answer = env.gateway_address().await;
        env.close().await.unwrap();
        let Err(RuntimeError::Unavailable { message, hint }) = answer else { panic!("{answer:?}") };
        assert!(message.contains(&base) && message.contains("from inside a container"), "{message}");
        assert!(hint.contains("firewall"), "{hint}");
    }
    for (network, gateway, why) in [
        (Network::None, Some(GatewayDoors::loopback()), "`network: none`"),
        (Network::Bridge, None, "without a gateway"),
        (Network::GatewayOnly, None, "without a gateway"),
    ] {
        let env = runtime.open(spec_on(network, gateway, "no-way", BUSYBOX, dir.path())).await.unwrap();
        let answer = env.gateway_address().await;
        env.close().await.unwrap();
        let Err(RuntimeError::Unavailable { message, .. }) = answer else { panic!("{answer:?}") };
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(runtime.gateway_doors(Network::None, dir.path()).await.unwrap(), GatewayDoors::default());
    let unfit = Some(GatewayDoors { tcp: Some(closed), unix: None });
    let opened = ready(runtime).open(spec_on(Network::GatewayOnly, unfit, "no-way", BUSYBOX, dir.path())).await;
    let Err(RuntimeError::Unavailable { message, .. }) = opened else { panic!("an error") };
    assert!(message.contains("no Unix socket"), "{message}");
    assert_eq!(containers("no-way"), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_only_is_refused_before_any_container_where_it_cannot_work() {
    let Some(plain) = runtime().await else { return };
    let dir = tempfile::tempdir().unwrap();
    // The program that runs is this test, and no relay.
    let Err(RuntimeError::Unavailable { message, hint }) = plain.gateway_doors(Network::GatewayOnly, dir.path()).await
    else {
        panic!("an error")
    };
    assert!(message.contains("as a relay") && message.contains("docker_gateway"), "{message}");
    assert!(hint.contains("with_relay"), "{hint}");

    // A daemon in a virtual machine has another kernel.
    let endpoint = DockerEndpoint { host: format!("tcp://127.0.0.1:{}", server::daemon_elsewhere()), tls: None };
    let elsewhere = ready(DockerRuntime::new(Arc::new(SystemClock::new()), endpoint.clone()));
    let Err(RuntimeError::Unavailable { message, .. }) =
        elsewhere.gateway_doors(Network::GatewayOnly, dir.path()).await
    else {
        panic!("an error")
    };
    assert!(message.contains(&endpoint.host) && message.contains("elsewhere"), "{message}");
    let doors = elsewhere.gateway_doors(Network::Bridge, dir.path()).await.unwrap();
    assert_eq!(doors, GatewayDoors::loopback(), "where it is, the host is reached by its name");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
