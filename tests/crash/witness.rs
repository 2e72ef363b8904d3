//! Keeps the agents' log where agents cannot write files: they tell it over the network.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::docker::docker;

/// Listens for as long as the test runs.
pub(crate) struct Witness {
    port: u16,
}

impl Witness {
    pub(crate) fn listen(log: PathBuf) -> Self {
        let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let log = log.clone();
                // Each by itself: of an agent whose container was removed in the middle nothing more ever comes.
                std::thread::spawn(move || stream.and_then(|stream| hear(stream, &log)));
            }
        });
        Self { port }
    }

    /// Defines, for a shell in a container, how a line gets into the log: told again until it is heard.
    pub(crate) fn note(&self) -> String {
        let host = docker(&["network", "inspect", "bridge", "-f", "{{(index .IPAM.Config 0).Gateway}}"]);
        format!("note() {{ until echo \"$1\" | nc -w 10 {host} {} | grep -q heard; do sleep 0.1; done; }}\n", self.port)
    }
}

fn hear(mut stream: TcpStream, log: &Path) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut line = Vec::new();
    let mut buffer = [0; 1024];
    // What an agent was killed over is no line.
    while !line.ends_with(b"\n") {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Ok(());
        }
        line.extend_from_slice(&buffer[..length]);
    }
    // One write: lines of several agents do not mix.
    OpenOptions::new().append(true).open(log)?.write_all(&line)?;
    stream.write_all(b"heard\n")
}
