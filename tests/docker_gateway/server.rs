//! A small HTTP server in the place of a gateway, and a daemon that seems to be on another machine.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use refrain::runtime::GatewayDoors;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::task::JoinSet;

/// Listens where it is told. Ends when it is dropped.
pub(crate) struct Server {
    /// Where it listens in fact.
    pub(crate) doors: GatewayDoors,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(doors: &GatewayDoors) -> Self {
        let mut tasks = JoinSet::new();
        let mut listening = GatewayDoors::default();
        if let Some(address) = doors.tcp {
            let listener = tokio::net::TcpListener::bind(address).await.expect("the address is this machine's");
            listening.tcp = Some(listener.local_addr().expect("an address"));
            tasks.spawn(async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    connections.spawn(serve(stream));
                }
            });
        }
        if let Some(path) = &doors.unix {
            let listener = tokio::net::UnixListener::bind(path).expect("a socket");
            listening.unix = Some(path.clone());
            tasks.spawn(async move {
                let mut connections = JoinSet::new();
                while let Ok((stream, _)) = listener.accept().await {
                    connections.spawn(serve(stream));
                }
            });
        }
        Self { doors: listening, _tasks: tasks }
    }
}

/// Answers one request: `/zeros/N` with N bytes, `/wait/N` with N bytes after a while, `/count` with the length of the
/// body, anything else with what was asked.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin) {
    // Whoever goes away needs no answer.
    let _ = answer(stream).await;
}

async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut asked, mut line, mut length) = (String::new(), String::new(), 0_u64);
    stream.read_line(&mut asked).await?;
    while line != "\r\n" {
        line.clear();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let body = tokio::io::copy(&mut (&mut stream).take(length), &mut tokio::io::sink()).await?;
    let path = asked.split(' ').nth(1).unwrap_or_default();
    let number = |prefix: &str| path.strip_prefix(prefix).and_then(|rest| rest.parse::<usize>().ok());
    let (zeros, text) = match (number("/zeros/"), number("/wait/")) {
        (Some(zeros), _) => (zeros, String::new()),
        (_, Some(zeros)) => {
            // Until all the others have come too.
            tokio::time::sleep(Duration::from_secs(1)).await;
            (zeros, String::new())
        }
        _ if path == "/count" => (0, body.to_string()),
        _ => (0, format!("gateway {}", asked.rsplit_once(' ').map_or("", |(first, _)| first))),
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}", zeros + text.len());
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![0; 256 * 1024];
    let mut left = zeros;
    while left > 0 {
        let now = left.min(piece.len());
        stream.write_all(&piece[..now]).await?;
        left -= now;
    }
    stream.shutdown().await
}

/// Hands every connection on to the daemon's socket, and tells another kernel than there is; returns the port.
pub(crate) fn daemon_elsewhere() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim().to_owned();
    std::thread::spawn(move || {
        for near in listener.incoming() {
            let near = near.unwrap();
            let far = UnixStream::connect("/var/run/docker.sock").unwrap();
            let (mut from, mut to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let (mut from, mut to, kernel) = (far, near, kernel.clone());
            std::thread::spawn(move || {
                let mut buffer = vec![0; 1 << 20];
                loop {
                    // Answers of interest are short and come in one piece.
                    let length = from.read(&mut buffer).unwrap_or(0);
                    if length == 0 {
                        return;
                    }
                    let text = String::from_utf8_lossy(&buffer[..length]).replace(&kernel, &"9".repeat(kernel.len()));
                    if to.write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}
