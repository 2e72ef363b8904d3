//! A socket between the runtime and the daemon that does to the streams of commands what bad connections do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use refrain::clock::SystemClock;
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What happens to the streams of commands from now on. Other requests always pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Streams {
    Pass,
    /// Those that are open are closed on both ends; new ones pass.
    Cut,
    /// Nothing more comes, and nothing is closed.
    Hold,
}

/// The proxy; it ends when it is dropped.
pub(crate) struct Proxy {
    streams: watch::Sender<Streams>,
    socket: PathBuf,
    _tasks: JoinSet<()>,
}

impl Proxy {
    pub(crate) fn new(folder: &Path) -> Self {
        let socket = folder.join("docker.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let (streams, state) = watch::channel(Streams::Pass);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(connect(client, state.clone()));
            }
        });
        Self { streams, socket, _tasks: tasks }
    }

    pub(crate) fn runtime(&self) -> DockerRuntime {
        let endpoint = DockerEndpoint { host: format!("unix://{}", self.socket.display()), tls: None };
        DockerRuntime::new(Arc::new(SystemClock::new()), endpoint)
    }

    pub(crate) fn set(&self, streams: Streams) {
        self.streams.send_replace(streams);
    }
}

async fn connect(client: UnixStream, state: watch::Receiver<Streams>) {
    let Ok(daemon) = UnixStream::connect("/var/run/docker.sock").await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_daemon, mut to_daemon) = daemon.into_split();
    let (marked, is_stream) = watch::channel(false);
    let forth = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_client.read(&mut buffer).await {
            let head = String::from_utf8_lossy(&buffer[..length.min(200)]).into_owned();
            if head.starts_with("POST") && head.contains("/exec/") && head.contains("/start") {
                marked.send_replace(true);
            }
            if to_daemon.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
        let _ = to_daemon.shutdown().await;
        // The mark is to be seen for as long as the connection lives.
        marked.closed().await;
    };
    let back = async {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_daemon.read(&mut buffer).await {
            if *is_stream.borrow() && *state.borrow() == Streams::Hold {
                std::future::pending::<()>().await;
            }
            if to_client.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
        let _ = to_client.shutdown().await;
    };
    let mut watched = is_stream.clone();
    let cut = async {
        let _ = watched.wait_for(|&is| is).await;
        let mut state = state.clone();
        state.mark_unchanged();
        while state.changed().await.is_ok() {
            if *state.borrow_and_update() == Streams::Cut {
                return;
            }
        }
    };
    tokio::select! {
        ((), ()) = async { tokio::join!(forth, back) } => {}
        () = cut => {}
    }
}
