//! A provider that answers at once, or holds a stream open, or sends a gigabyte: the model's name says which.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

const CHUNK: &str = r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"model-1","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}]}"#;
const LAST: &str = r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"model-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"id":"c1","object":"chat.completion.chunk","created":1,"model":"model-1","choices":[],"usage":{"prompt_tokens":900,"completion_tokens":5,"total_tokens":905}}"#;
const WHOLE: &str = r#"{"id":"c1","object":"chat.completion","created":1,"model":"model-1","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"completion_tokens":5,"total_tokens":905}}"#;

/// A provider that runs until it is dropped.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Upstream {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                stream.set_nodelay(true).expect("a socket");
                connections.spawn(attend(stream));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { address, _tasks: tasks }
    }
}

async fn attend(mut stream: TcpStream) {
    let mut bytes = Vec::with_capacity(16 << 10);
    while let Some(body) = read(&mut stream, &mut bytes).await {
        let has = |text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
        let done = if has("model-hold") {
            let begun = stream.write_all(format!("{}{}", head(), chunk(CHUNK)).as_bytes()).await;
            // Until the other side goes away.
            let _ = stream.read_u8().await;
            begun
        } else if has("model-large") {
            large(&mut stream).await
        } else if has(r#""stream":true"#) || has(r#""stream": true"#) {
            let events = [CHUNK, LAST, USAGE, "[DONE]"].map(chunk).concat();
            stream.write_all(format!("{}{events}0\r\n\r\n", head()).as_bytes()).await
        } else {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ";
            stream.write_all(format!("{head}{}\r\n\r\n{WHOLE}", WHOLE.len()).as_bytes()).await
        };
        if done.is_err() {
            return;
        }
    }
}

/// A gigabyte of events, 8 KiB of text in each.
async fn large(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(head().as_bytes()).await?;
    let event = CHUNK.replace("hello", &"lorem ipsum ".repeat(683));
    let events = chunk(&event).repeat(16);
    let mut left = 1_i64 << 30;
    while left > 0 {
        stream.write_all(events.as_bytes()).await?;
        left -= i64::try_from(events.len()).unwrap_or(i64::MAX);
    }
    let end = [LAST, USAGE, "[DONE]"].map(chunk).concat();
    stream.write_all(format!("{end}0\r\n\r\n").as_bytes()).await
}

fn head() -> &'static str {
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
}

fn chunk(data: &str) -> String {
    format!("{:x}\r\ndata: {data}\n\n\r\n", data.len() + 8)
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(head) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
            let length =
                text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.trim().parse().ok());
            let end = head + 4 + length.unwrap_or(0);
            if bytes.len() >= end {
                let body = bytes[head + 4..end].to_vec();
                bytes.drain(..end);
                return Some(body);
            }
        }
        if stream.read_buf(bytes).await.ok()? == 0 {
            return None;
        }
    }
}
