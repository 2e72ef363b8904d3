//! Servers in processes of their own, and what they take.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use refrain::budget::PriceTable;
use refrain::clock::SystemClock;
use refrain::config::gateway::{ProviderEntry, ProviderProxy, Recording};
use refrain::domain::{Attribution, Exchange, RunName, Trace};
use refrain::gateway::{
    Bodies, Bounds, Gateway, GatewayOptions, Grant, Key, Listen, Provider, Proxies, ProxyChoice, Recorder,
    RecorderError, Stalls,
};
use refrain::host::{StandaloneGateway, StandaloneOptions};
use refrain::redact::Redactor;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::client::Target;
use crate::upstream::Upstream;

/// A server under measurement. It ends when dropped.
pub(crate) struct Server {
    pub(crate) target: Target,
    child: Child,
}

struct NoBooks;

#[async_trait]
impl Recorder for NoBooks {
    async fn begun(&self, _: &Exchange) -> Result<(), RecorderError> {
        Ok(())
    }

    async fn ended(&self, _: Exchange, _: Option<Bodies>) -> Result<(), RecorderError> {
        Ok(())
    }
}

/// Lets this process and its children open as many files as the system allows.
pub(crate) fn allow_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the limit can be raised");
}

/// Runs a gateway before a provider until standard input ends. The first line says where it is, and the token.
pub(crate) async fn serve(url: &str) {
    let options = GatewayOptions {
        listen: vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))],
        providers: vec![Provider {
            name: "bench".into(),
            base_url: url.into(),
            concurrency: None,
            requests_per_minute: None,
            proxy: ProxyChoice::Direct,
        }],
        prices: PriceTable::bundled().expect("prices"),
        redactor: Arc::new(Redactor::default()),
        clock: Arc::new(SystemClock::new()),
        stalls: Stalls::default(),
        bounds: Bounds::default(),
        proxies: Proxies::default(),
        bodies: None,
    };
    let gateway = Gateway::start(options, Arc::new(NoBooks)).await.expect("a gateway");
    let attribution = Attribution {
        run: RunName::new("bench").expect("a name"),
        cell: None,
        attempt: 1,
        session: 1,
        phase: None,
        role: None,
        trace: Trace::Agent,
    };
    let grant = Grant {
        attribution,
        provider: "bench".into(),
        key: Some(Key::new("sk-real-0123456789")),
        base_url: None,
        guard: None,
        places: refrain::gateway::cassette::Places::default(),
    };
    let capability = gateway.open(grant).expect("a capability");
    println!("{} {} {}", gateway.addresses()[0], capability.path(), capability.token());
    let waiting = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    waiting.await.expect("waits").expect("reads");
}

/// The same with books that are kept in this database.
pub(crate) async fn serve_with_store(url: &str, db: &str) {
    let options = StandaloneOptions {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        db: db.into(),
        providers: vec![ProviderEntry {
            name: "bench".into(),
            base_url: url.into(),
            concurrency: None,
            requests_per_minute: None,
            api_key_env: Some("KEY".into()),
            proxy: ProviderProxy::Off,
        }],
        proxies: Proxies::default(),
        keys: [("KEY".to_owned(), Key::new("sk-real-0123456789"))].into(),
        prices: Vec::new(),
        allow_unpriced: false,
        record: Recording::Meta,
        max_cost: None,
    };
    let mut gateway = StandaloneGateway::start(options).await.expect("a gateway");
    let listen = gateway.listen();
    let door = gateway.open("bench", Trace::Check).expect("a door");
    let path = door.base_url().strip_prefix(&format!("http://{listen}")).expect("a path");
    println!("{listen} {path} {}", door.token());
    let waiting = tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink()));
    waiting.await.expect("waits").expect("reads");
    gateway.close().await;
}

/// A folder for a database. It is removed when dropped.
pub(crate) struct Folder(std::path::PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("refrain-bench-gateway-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Server {
    /// Starts this program again as a gateway before the provider.
    pub(crate) fn gateway(provider: &Upstream) -> Self {
        Self::start(&[format!("http://{}", provider.address)])
    }

    /// The same with a database in this folder.
    pub(crate) fn gateway_with_store(provider: &Upstream, folder: &Folder) -> Self {
        Self::start(&[format!("http://{}", provider.address), folder.0.join("bench.db").display().to_string()])
    }

    fn start(arguments: &[String]) -> Self {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .arg("serve")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a gateway starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("output")).read_line(&mut line).expect("a line");
        let parts: Vec<&str> = line.split_whitespace().collect();
        let [address, path, token] = parts.as_slice() else { panic!("{line:?}") };
        let address = address.parse().expect("an address");
        let target = Target { address, path: (*path).to_owned(), token: (*token).to_owned() };
        Self { target, child }
    }

    /// Starts LiteLLM's proxy before the provider, with one worker, and waits until it answers.
    pub(crate) async fn peer(program: &str, provider: &Upstream) -> Self {
        let dir = std::env::temp_dir().join("refrain-bench-peer.yaml");
        let config = format!(
            "model_list:\n  - model_name: model-1\n    litellm_params:\n      model: openai/model-1\n      api_base: http://{}/v1\n      api_key: sk-real-0123456789\ngeneral_settings:\n  master_key: sk-bench-1234\n",
            provider.address
        );
        std::fs::write(&dir, config).expect("writes");
        let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
        let child = Command::new(program)
            .arg("--config")
            .arg(&dir)
            .args(["--host", "127.0.0.1", "--port", &port.to_string(), "--num_workers", "1", "--telemetry", "False"])
            .envs([("LITELLM_LOCAL_MODEL_COST_MAP", "True"), ("LITELLM_LOG", "ERROR"), ("NO_DOCS", "True")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the peer starts");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self { target: Target { address, path: String::new(), token: "sk-bench-1234".into() }, child };
        for _ in 0..1_200 {
            if tokio::net::TcpStream::connect(address).await.is_ok() {
                return server;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the peer does not answer on {address}")
    }

    /// CPU time that its process has taken, user and system.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it runs");
        let after = stat.rsplit(')').next().expect("a name").split_whitespace();
        let ticks: u64 = after.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("ticks")).sum();
        Duration::from_millis(ticks * 10)
    }

    /// A size of its memory in megabytes: `VmRSS` now, `VmHWM` at the most.
    pub(crate) fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find(|line| line.starts_with(name)).expect("a size");
        let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        kib * 1024 / 1_000_000
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The gateway ends with its input, the peer by this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
