//! What clients may take of the gateway: connections, time, and memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use refrain::clock::ManualClock;
use refrain::domain::{ExchangeEnd, Usage};
use refrain::gateway::Bounds;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::client::{Reply, Request};
use crate::provider::{Provider, anthropic};
use crate::{Bench, Setup, grant, messages};

async fn answers() -> Provider {
    Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await
}

async fn bounded(provider: &Provider, bounds: Bounds) -> Bench {
    Setup { bounds, ..Setup::new(provider.url()) }.start().await
}

/// The head of a request with a body of this length.
fn head(bench: &Bench, path: &str, length: usize) -> String {
    format!(
        "POST {}{path} HTTP/1.1\r\nhost: gateway\r\nx-api-key: {}\r\ncontent-length: {length}\r\n\r\n",
        bench.capability.path(),
        bench.capability.token()
    )
}

/// Sends this and returns the connection.
async fn sent(address: SocketAddr, bytes: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(bytes).await.expect("writes");
    stream
}

/// Tells whether the other side has closed.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(Duration::from_secs(30), stream.read(&mut [0; 1])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn a_body_that_stops_coming_gets_a_timeout_and_one_record() {
    let provider = answers().await;
    let bounds = Bounds { body: Duration::from_millis(100), ..Bounds::default() };
    for (path, expected) in [
        ("/v1/messages", r#"/error/type "timeout_error""#),
        ("/v1/chat/completions", r#"/error/code "request_timeout""#),
        ("/v1beta/models/m:generateContent", r#"/error/status "DEADLINE_EXCEEDED""#),
    ] {
        let bench = bounded(&provider, bounds).await;
        let begun = format!("{}{}", head(&bench, path, 1_000), &messages(false)[..10]);
        let stream = sent(bench.address(), begun.as_bytes()).await;
        let mut reply = Reply::read(BufReader::new(stream)).await.expect("an answer");
        assert_eq!((reply.status, reply.header("connection")), (408, Some("close")), "{path}");
        let body: serde_json::Value = serde_json::from_slice(&reply.rest().await.expect("whole")).expect("JSON");
        let (place, value) = expected.split_once(' ').expect("two words");
        assert_eq!(body.pointer(place).expect("is there").to_string(), value, "{body}");
        assert!(is_closed(reply.into_stream().get_mut()).await, "what may still come is no request");
        let totals = bench.capability.close().await;
        assert_eq!((totals.requests, totals.refused, totals.under_way), (1, 1, 0));
        let [exchange] = bench.books.ended().try_into().expect("one record");
        assert_eq!((exchange.end, exchange.status, exchange.usage), (ExchangeEnd::Refused, Some(408), Usage::ZERO));
        assert_eq!((exchange.request_bytes, bench.books.begun().len()), (10, 0));
        assert_eq!(exchange.message.as_deref(), Some("nothing of the request's body came for 100ms"));
    }
    assert_eq!(provider.seen().len(), 0);
}

#[tokio::test]
async fn a_body_that_comes_slowly_is_taken() {
    let provider = answers().await;
    let clock = ManualClock::default();
    let bounds = Bounds { body: Duration::from_secs(10), ..Bounds::default() };
    let bench = Setup { bounds, clock: Arc::new(clock.clone()), ..Setup::new(provider.url()) }.start().await;
    let body = messages(false);
    let mut stream = sent(bench.address(), head(&bench, "/v1/messages", body.len()).as_bytes()).await;
    for piece in body.as_bytes().chunks(20) {
        stream.write_all(piece).await.expect("writes");
        // Until it has come in: then seven more seconds are no ten.
        tokio::time::sleep(Duration::from_millis(20)).await;
        clock.advance(Duration::from_secs(7));
    }
    assert_eq!(Reply::read(BufReader::new(stream)).await.expect("an answer").status, 200);
    assert_eq!(provider.seen()[0].text(), body);
}

#[tokio::test]
async fn a_stranger_whose_body_stops_coming_is_answered() {
    let provider = answers().await;
    let bench = bounded(&provider, Bounds { body: Duration::from_millis(50), ..Bounds::default() }).await;
    let begun = b"POST /session/none/v1/messages HTTP/1.1\r\nhost: gateway\r\ncontent-length: 1000\r\n\r\n{";
    let stream = sent(bench.address(), begun).await;
    assert_eq!(Reply::read(BufReader::new(stream)).await.expect("an answer").status, 401);
}

#[tokio::test]
async fn a_body_without_end_is_refused_and_recorded() {
    let provider = answers().await;
    let bench = bounded(&provider, Bounds { request: 1 << 20, ..Bounds::default() }).await;
    let head = head(&bench, "/v1/messages", 0).replace("content-length: 0", "transfer-encoding: chunked");
    let mut stream = sent(bench.address(), head.as_bytes()).await;
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    for _ in 0..17 {
        // The gateway may have closed already.
        let _ = stream.write_all(chunk.as_bytes()).await;
    }
    let mut reply = Reply::read(BufReader::new(stream)).await.expect("an answer");
    let body: serde_json::Value = serde_json::from_slice(&reply.rest().await.expect("whole")).expect("JSON");
    assert_eq!((reply.status, &body["error"]["type"]), (413, &"request_too_large".into()));
    let [exchange] = bench.books.wait(1).await.try_into().expect("one record");
    assert_eq!((exchange.end, exchange.status), (ExchangeEnd::Refused, Some(413)));
}

#[tokio::test]
async fn a_session_holds_only_so_much_memory_with_all_its_requests() {
    let provider = answers().await;
    let bench = bounded(&provider, Bounds { held: 3 << 20, ..Bounds::default() }).await;
    let large = messages(false).replace("\"hi\"", &format!("\"{}\"", "x".repeat(2 << 20)));
    // The end of the first is kept back.
    let begun = format!("{}{}", head(&bench, "/v1/messages", large.len()), &large[..large.len() - 1]);
    let mut first = sent(bench.address(), begun.as_bytes()).await;
    let mut refused = 0;
    while refused == 0 {
        let (status, _) = bench.post("/v1/messages").body(large.clone()).text().await;
        refused += usize::from(status == 413);
    }
    first.write_all(b"}").await.expect("writes");
    assert_eq!(Reply::read(BufReader::new(first)).await.expect("an answer").status, 200);
    // What was held is free again.
    assert_eq!(bench.post("/v1/messages").body(large).text().await.0, 200);
    assert_eq!(provider.seen().last().expect("one").body.len(), (2 << 20) + messages(false).len() - 2);
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let provider = answers().await;
    let bench = Bench::start(provider.url()).await;
    let long = format!("POST /{} HTTP/1.1\r\n\r\n", "x".repeat(1 << 17));
    let large = format!("GET /healthz HTTP/1.1\r\nx-large: {}\r\n\r\n", "x".repeat(1 << 20));
    let many = format!("GET /healthz HTTP/1.1\r\n{}\r\n", "x-many: 1\r\n".repeat(129));
    for (request, expected) in [(long, 414), (large, 431), (many, 431)] {
        let mut stream = TcpStream::connect(bench.address()).await.expect("connects");
        // It may have closed before all was written.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(String::from_utf8_lossy(&answer), format!("HTTP/1.1 {expected}"));
    }
}

#[tokio::test]
async fn a_head_that_stops_coming_ends_its_connection() {
    let provider = answers().await;
    let bench = bounded(&provider, Bounds { head: Duration::from_millis(50), ..Bounds::default() }).await;
    for begun in ["", "POST /session"] {
        let mut stream = sent(bench.address(), begun.as_bytes()).await;
        assert!(is_closed(&mut stream).await, "{begun:?}");
    }
}

#[tokio::test]
async fn a_session_has_only_so_many_connections_and_others_have_theirs() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.begin("text/event-stream").await;
        wire.chunk(anthropic::start()).await;
        wire.gone().await;
        None
    })
    .await;
    let bench = bounded(&provider, Bounds { connections_per_session: 2, ..Bounds::default() }).await;
    let ask = || bench.post("/v1/messages").body(messages(true)).send();
    let (first, _second) = (ask().await.expect("an answer"), ask().await.expect("an answer"));
    let mut third = ask().await.expect("an answer");
    assert_eq!((third.status, third.header("connection")), (429, Some("close")));
    let body: serde_json::Value = serde_json::from_slice(&third.rest().await.expect("whole")).expect("JSON");
    assert_eq!(body["error"]["type"], "rate_limit_error");
    let other = bench.gateway.open(grant(None)).expect("another session");
    let request = Request::post(bench.address(), &format!("{}/v1/messages", other.path()));
    let request = request.header("x-api-key", other.token()).body(messages(true));
    assert_eq!(request.send().await.expect("an answer").status, 200);
    drop(first);
    while ask().await.expect("an answer").status == 429 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn those_who_say_nothing_leave_for_those_who_do() {
    let provider = answers().await;
    let bench = bounded(&provider, Bounds { connections: 3, ..Bounds::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(sent(bench.address(), b"POST").await);
    }
    let mut known = Vec::new();
    for _ in 0..3 {
        let reply = bench.post("/v1/messages").body(messages(false)).send().await.expect("an answer");
        assert_eq!(reply.status, 200);
        known.push(reply);
    }
    for stream in &mut silent {
        assert!(is_closed(stream).await);
    }
    // All places are taken by a session under way now.
    let mut late = TcpStream::connect(bench.address()).await.expect("connects");
    let mut answer = String::new();
    late.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{answer}");
    assert_eq!(serde_json::from_str::<serde_json::Value>(body).expect("JSON")["error"]["type"], "overloaded_error");
}

#[tokio::test]
async fn a_client_that_reads_nothing_does_not_outlive_its_session() {
    let written = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&written);
    let provider = Provider::play(move |_, mut wire| {
        let written = Arc::clone(&counted);
        async move {
            wire.begin("text/event-stream").await;
            let chunk = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
            while wire.0.write_all(chunk.as_bytes()).await.is_ok() {
                written.fetch_add(1, Ordering::SeqCst);
            }
            None
        }
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let _stuck = bench.post("/v1/messages").body(messages(true)).leave().await;
    // Until all that lies between is full.
    let mut before = usize::MAX;
    while written.load(Ordering::SeqCst) == 0 || written.load(Ordering::SeqCst) != before {
        before = written.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let Bench { gateway: _running, books, capability } = bench;
    drop(capability);
    let exchange = books.wait(1).await.remove(0);
    assert_eq!(exchange.end, ExchangeEnd::ClientGone);
}
