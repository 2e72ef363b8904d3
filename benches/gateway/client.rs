//! A client that does little beside waiting, so that it measures others.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Whom to ask, and as whom.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// What stands before `/v1/chat/completions`.
    pub(crate) path: String,
    pub(crate) token: String,
}

/// An answer that has come.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) first_byte: Duration,
    bytes: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Target {
    pub(crate) async fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).await.expect("connects");
        stream.set_nodelay(true).expect("a socket");
        stream
    }

    fn request(&self, model: &str, stream: bool) -> Vec<u8> {
        // As large as the requests that agents make at the start: some prompt, some tools.
        let prompt = "You fix what is asked for and nothing else. ".repeat(100);
        // Whoever asks for the usage of a stream sees it; from the others the gateway hides it.
        let options = if model == "model-large-told" { r#""stream_options":{"include_usage":true},"# } else { "" };
        let body = format!(
            r#"{{"model":"{model}","stream":{stream},{options}"messages":[{{"role":"system","content":"{prompt}"}},{{"role":"user","content":"Fix the bug."}}]}}"#
        );
        let Self { address, path, token } = self;
        format!(
            "POST {path}/v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\naccept-encoding: identity\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }
}

/// Asks and waits for the whole answer.
pub(crate) async fn ask(connection: &mut TcpStream, target: &Target, model: &str, stream: bool) -> Answer {
    let request = target.request(model, stream);
    let start = Instant::now();
    connection.write_all(&request).await.expect("writes");
    let mut bytes = Vec::with_capacity(4096);
    let mut first_byte = None;
    while !is_whole(&bytes) {
        let count = connection.read_buf(&mut bytes).await.expect("reads");
        assert!(count > 0, "the connection ended: {}", String::from_utf8_lossy(&bytes));
        first_byte.get_or_insert_with(|| start.elapsed());
    }
    let status = std::str::from_utf8(&bytes[9..12]).ok().and_then(|status| status.parse().ok()).expect("a status");
    Answer { status, first_byte: first_byte.expect("something came"), bytes }
}

/// Asks and waits for the first event.
pub(crate) async fn begin(connection: &mut TcpStream, target: &Target, model: &str) {
    connection.write_all(&target.request(model, true)).await.expect("writes");
    let mut bytes = Vec::new();
    while !bytes.windows(6).any(|window| window == b"data: ") {
        assert!(connection.read_buf(&mut bytes).await.expect("reads") > 0, "the connection ended");
    }
}

/// Asks and counts the bytes of the answer.
pub(crate) async fn drain(connection: &mut TcpStream, target: &Target, model: &str) -> u64 {
    connection.write_all(&target.request(model, true)).await.expect("writes");
    let mut buffer = vec![0; 1 << 18];
    let mut length = 0;
    let mut tail = Vec::new();
    loop {
        let count = connection.read(&mut buffer).await.expect("reads");
        assert!(count > 0, "the connection ended after {length} bytes");
        length += count as u64;
        tail.extend_from_slice(&buffer[count.saturating_sub(5)..count]);
        if tail.ends_with(b"0\r\n\r\n") {
            return length;
        }
        tail.drain(..tail.len().saturating_sub(5));
    }
}

fn is_whole(bytes: &[u8]) -> bool {
    let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    match text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse::<usize>().ok()) {
        Some(length) => bytes.len() >= head + 4 + length,
        None => bytes.ends_with(b"0\r\n\r\n"),
    }
}
