//! A provider that a test plays, byte by byte.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A provider that runs until it is dropped.
pub(crate) struct Provider {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    _tasks: JoinSet<()>,
}

/// A request as it came.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// Which connection it came on, from 1.
    pub(crate) connection: usize,
    /// Request line and headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// The provider's end of a connection.
pub(crate) struct Wire(pub(crate) BufReader<TcpStream>);

impl Wire {
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        // The gateway may be gone: that is what some tests want.
        let _ = self.0.write_all(bytes.as_ref()).await;
        let _ = self.0.flush().await;
    }

    /// Begins an answer that comes in chunks.
    pub(crate) async fn begin(&mut self, content_type: &str) {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n");
        self.write(head).await;
    }

    pub(crate) async fn chunk(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        self.write(framed).await;
    }

    pub(crate) async fn end(&mut self) {
        self.write("0\r\n\r\n").await;
    }

    /// Answers in one piece.
    pub(crate) async fn answer(&mut self, status: u16, headers: &str, body: impl AsRef<[u8]>) {
        let body = body.as_ref();
        let head = format!(
            "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
            body.len()
        );
        self.write([head.as_bytes(), body].concat()).await;
    }

    /// Waits until the other side is gone.
    pub(crate) async fn gone(&mut self) {
        let mut byte = [0];
        while self.0.read(&mut byte).await.is_ok_and(|count| count > 0) {}
    }

    /// Ends the connection with a reset.
    pub(crate) fn reset(self) {
        self.0.get_ref().set_zero_linger().expect("a socket");
    }
}

impl Provider {
    /// Answers each request by the given script, which returns the connection to keep it.
    pub(crate) async fn play<F, A>(script: F) -> Self
    where
        F: Fn(Seen, Wire) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Option<Wire>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let all = Arc::clone(&seen);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            for connection in 1.. {
                let (stream, _) = listener.accept().await.expect("a connection");
                stream.set_nodelay(true).expect("a socket");
                let (script, seen) = (script.clone(), Arc::clone(&all));
                connections.spawn(async move {
                    let mut wire = Wire(BufReader::new(stream));
                    while let Some(request) = read(&mut wire, connection).await {
                        seen.lock().unwrap().push(request.clone());
                        match script(request, wire).await {
                            Some(kept) => wire = kept,
                            None => return,
                        }
                    }
                });
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

async fn read(wire: &mut Wire, connection: usize) -> Option<Seen> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if wire.0.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
        if head[before..].trim().is_empty() {
            break;
        }
    }
    let mut seen = Seen { connection, head, body: Vec::new() };
    let length = seen.header("content-length").map_or(0, |length| length.parse().expect("a number"));
    seen.body.resize(length, 0);
    wire.0.read_exact(&mut seen.body).await.ok()?;
    Some(seen)
}

/// The events of an answer of Anthropic Messages.
pub(crate) mod anthropic {
    pub(crate) fn start() -> String {
        event(
            "message_start",
            r#"{"type":"message_start","message":{"id":"m1","type":"message","role":"assistant","model":"model-1","content":[],"usage":{"input_tokens":100,"cache_read_input_tokens":20,"cache_creation_input_tokens":10,"output_tokens":1}}}"#,
        )
    }

    pub(crate) fn text(text: &str) -> String {
        event(
            "content_block_delta",
            &format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#),
        )
    }

    pub(crate) fn delta() -> String {
        event(
            "message_delta",
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":50}}"#,
        )
    }

    pub(crate) fn stop() -> String {
        event("message_stop", r#"{"type":"message_stop"}"#)
    }

    /// The whole answer in one piece, with the same usage.
    pub(crate) fn whole() -> String {
        r#"{"id":"m1","type":"message","role":"assistant","model":"model-1","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn","usage":{"input_tokens":100,"cache_read_input_tokens":20,"cache_creation_input_tokens":10,"output_tokens":50}}"#.to_owned()
    }

    fn event(name: &str, data: &str) -> String {
        format!("event: {name}\ndata: {data}\n\n")
    }
}
