//! Answers pass as they come, and are on the books before their end is seen.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use refrain::domain::{ExchangeEnd, Micros, Usage};
use tokio::sync::Semaphore;

use crate::client::{Reply, Request};
use crate::provider::{Provider, anthropic};
use crate::{Bench, REAL_KEY, Setup, messages};

/// What the provider of these tests tells.
const TOLD: Usage =
    Usage { input: Some(100), cache_read: Some(20), cache_write: Some(10), output: Some(50), reasoning: None };

/// A provider of whole streams.
async fn streams() -> Provider {
    Provider::play(|_, mut wire| async move {
        wire.begin("text/event-stream").await;
        for event in [anthropic::start(), anthropic::text("hello"), anthropic::delta(), anthropic::stop()] {
            wire.chunk(event).await;
        }
        wire.end().await;
        Some(wire)
    })
    .await
}

#[tokio::test]
async fn each_chunk_is_with_the_client_before_the_next_one_is_made() {
    let turns = Arc::new(Semaphore::new(0));
    let taken = Arc::clone(&turns);
    let provider = Provider::play(move |_, mut wire| {
        let turns = Arc::clone(&taken);
        async move {
            wire.begin("text/event-stream").await;
            for event in [anthropic::start(), anthropic::text("one"), anthropic::text("two"), anthropic::delta()] {
                turns.acquire().await.expect("open").forget();
                wire.chunk(event).await;
            }
            wire.chunk(anthropic::stop()).await;
            wire.end().await;
            Some(wire)
        }
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/event-stream")));
    for expected in [anthropic::start(), anthropic::text("one"), anthropic::text("two"), anthropic::delta()] {
        assert_eq!(bench.books.ended(), [], "nothing has ended yet");
        turns.add_permits(1);
        assert_eq!(reply.next_text().await, expected);
    }
    assert_eq!(reply.next_text().await, anthropic::stop());
    assert_eq!(bench.books.ended().len(), 1, "on the books before the client saw the last event");
    assert_eq!(reply.piece().await.expect("no break"), None);

    let begun = &bench.books.begun()[0];
    assert_eq!((begun.usage, begun.cost, begun.end), (Usage::UNKNOWN, None, ExchangeEnd::Lost));
    assert_eq!((begun.status, begun.model_asked.as_deref()), (None, Some("model-1")));
    let exchange = &bench.books.ended()[0];
    assert_eq!((exchange.end, exchange.status, exchange.usage), (ExchangeEnd::Complete, Some(200), TOLD));
    assert_eq!(exchange.cost, Some(Micros::new(1470)));
    assert_eq!((exchange.model_asked.as_deref(), exchange.model_served.as_deref()), (Some("model-1"), Some("model-1")));
    assert_eq!((exchange.number, exchange.retry, exchange.api.as_str()), (1, 0, "anthropic_messages"));
    assert_eq!((exchange.provider.as_str(), exchange.message.as_deref()), ("scripted", None));
    assert_eq!(exchange.id, begun.id);
    assert_eq!(exchange.request_bytes, messages(true).len() as u64);
    assert!(exchange.first_byte.is_some());
}

#[tokio::test]
async fn the_last_event_waits_for_the_books() {
    let provider = streams().await;
    let bench = Bench::start(provider.url()).await;
    bench.books.hold();
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    for expected in [anthropic::start(), anthropic::text("hello"), anthropic::delta()] {
        let mut seen = String::new();
        while seen.len() < expected.len() {
            seen.push_str(&reply.next_text().await);
        }
        assert_eq!(seen, expected);
    }
    let late = tokio::time::timeout(Duration::from_millis(200), reply.piece()).await;
    assert!(late.is_err(), "the last event came before the exchange was recorded");
    bench.books.release();
    assert!(reply.next_text().await.contains("message_stop"));
}

#[tokio::test]
async fn the_end_of_a_body_of_known_length_waits_for_the_books() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.answer(200, "request-id: r1\r\n", anthropic::whole()).await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    bench.books.hold();
    let mut reply = bench.post("/v1/messages").body(messages(false)).send().await.expect("an answer");
    assert_eq!((reply.status, reply.header("request-id")), (200, Some("r1")));
    let late = tokio::time::timeout(Duration::from_millis(200), reply.rest()).await;
    assert!(late.is_err(), "the whole body came before the exchange was recorded");
    bench.books.release();
    assert_eq!(reply.rest().await.expect("a whole answer"), anthropic::whole().as_bytes());
    assert_eq!(bench.books.ended()[0].usage, TOLD);
}

#[tokio::test]
async fn the_key_is_put_in_and_the_token_stays_behind() {
    let provider = streams().await;
    let bench = Bench::start(provider.url()).await;
    let request = bench
        .post("/v1/messages?beta=true")
        .header("anthropic-version", "2023-06-01")
        .header("accept-encoding", "br, gzip")
        .body(messages(true));
    assert_eq!(request.text().await.0, 200);
    let seen = &provider.seen()[0];
    assert_eq!(seen.line(), "POST /v1/messages?beta=true HTTP/1.1");
    assert_eq!(seen.header("x-api-key"), Some(REAL_KEY));
    assert_eq!(seen.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(seen.header("accept-encoding"), Some("gzip"));
    assert_eq!(seen.header("host"), Some(provider.url().trim_start_matches("http://")));
    assert_eq!(seen.text(), messages(true), "byte by byte");
    assert!(!seen.head.contains(bench.capability.token()));
}

#[tokio::test]
async fn connections_are_used_again_on_both_sides() {
    let provider = streams().await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    reply.rest().await.expect("a whole answer");
    for _ in 0..3 {
        let request = bench.post("/v1/messages").body(messages(true));
        reply = request.send_on(reply.into_stream()).await.expect("another on the same connection");
        reply.rest().await.expect("a whole answer");
    }
    let connections: Vec<usize> = provider.seen().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1, 1, 1]);
    let numbers: Vec<u32> = bench.books.ended().iter().map(|exchange| exchange.number).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    let totals = bench.capability.totals();
    assert_eq!((totals.requests, totals.under_way, totals.cost), (4, 0, Some(Micros::new(4 * 1470))));
    assert_eq!(totals.usage.output, Some(200));
}

#[tokio::test]
async fn a_provider_that_closes_a_kept_connection_costs_no_request() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        None
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    for _ in 0..5 {
        let (status, body) = bench.post("/v1/messages").body(messages(false)).text().await;
        assert_eq!((status, body), (200, anthropic::whole()));
    }
    assert_eq!(bench.books.ended().len(), 5);
}

#[tokio::test]
async fn compressed_answers_pass_as_they_are_and_are_counted() {
    let packed = |text: &str| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gzip.write_all(text.as_bytes()).expect("writes");
        gzip.finish().expect("a member")
    };
    let stream = [anthropic::start(), anthropic::text("hello"), anthropic::delta(), anthropic::stop()].concat();
    let gzip = packed(&stream);
    let sent = gzip.clone();
    let provider = Provider::play(move |_, mut wire| {
        let gzip = sent.clone();
        async move {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n";
            wire.write(head).await;
            for piece in gzip.chunks(7) {
                wire.chunk(piece).await;
            }
            wire.end().await;
            Some(wire)
        }
    })
    .await;
    let bench = Setup { bodies: Some(1 << 20), ..Setup::new(provider.url()) }.start().await;
    let mut reply =
        bench.post("/v1/messages").header("accept-encoding", "gzip").body(messages(true)).send().await.unwrap();
    assert_eq!(reply.header("content-encoding"), Some("gzip"));
    assert_eq!(reply.rest().await.expect("a whole answer"), gzip);
    let exchange = &bench.books.ended()[0];
    assert_eq!((exchange.end, exchange.usage), (ExchangeEnd::Complete, TOLD));
    // What comes behind the last event, the checksum here, is not waited for.
    assert!((gzip.len() as u64 - 8..=gzip.len() as u64).contains(&exchange.answer_bytes), "{}", exchange.answer_bytes);
    let bodies = bench.books.bodies()[0].clone().expect("bodies");
    assert_eq!(bodies.answer, stream.as_bytes(), "kept without compression");
    assert_eq!((bodies.request, bodies.cut), (messages(true).into_bytes(), false));
}

#[tokio::test]
async fn usage_that_the_client_did_not_ask_for_is_asked_for_counted_and_hidden() {
    const CHUNK: &str = r#"data: {"id":"c","object":"chat.completion.chunk","model":"model-1","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}"#;
    const USAGE: &str = r#"data: {"id":"c","object":"chat.completion.chunk","model":"model-1","choices":[],"usage":{"prompt_tokens":30,"completion_tokens":7,"total_tokens":37,"prompt_tokens_details":{"cached_tokens":10}}}"#;
    let provider = Provider::play(|seen, mut wire| async move {
        wire.begin("text/event-stream").await;
        wire.chunk(format!("{CHUNK}\n\n")).await;
        if seen.text().contains("include_usage") {
            wire.chunk(format!("{USAGE}\n\n")).await;
        }
        wire.chunk("data: [DONE]\n\n").await;
        wire.end().await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(format!("{}/api/v1", provider.url())).await;
    let body = r#"{"model":"model-1","stream":true,"messages":[]}"#;
    let ask = |body: &str| {
        Request::post(bench.address(), &format!("{}/v1/chat/completions", bench.capability.path()))
            .header("authorization", &format!("Bearer {}", bench.capability.token()))
            .body(body)
    };
    assert_eq!(ask(body).text().await, (200, format!("{CHUNK}\n\ndata: [DONE]\n\n")));
    let seen = &provider.seen()[0];
    assert_eq!(seen.line(), "POST /api/v1/chat/completions HTTP/1.1");
    assert_eq!(seen.header("authorization"), Some(format!("Bearer {REAL_KEY}").as_str()));
    let sent: serde_json::Value = serde_json::from_str(seen.text()).expect("JSON");
    assert_eq!(sent["stream_options"]["include_usage"], true);
    let usage = Usage { input: Some(20), cache_read: Some(10), output: Some(7), cache_write: Some(0), reasoning: None };
    assert_eq!(bench.books.ended()[0].usage, usage);

    // Who asks sees it.
    let asking = r#"{"model":"model-1","stream":true,"stream_options":{"include_usage":true},"messages":[]}"#;
    assert_eq!(ask(asking).text().await, (200, format!("{CHUNK}\n\n{USAGE}\n\ndata: [DONE]\n\n")));
    assert_eq!(provider.seen()[1].text(), asking);
    assert_eq!(bench.books.ended()[1].usage, usage);
}

#[tokio::test]
async fn bodies_of_a_hundred_megabytes_pass_both_ways() {
    const LARGE: usize = 100 << 20;
    let provider = Provider::play(|seen, mut wire| async move {
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", seen.body.len());
        wire.write(head).await;
        wire.write(&seen.body).await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let mut body = br#"{"model":"model-1","messages":[{"role":"user","content":""#.to_vec();
    body.resize(LARGE - 4, b'x');
    body.extend_from_slice(br#""}]}"#);
    let mut reply = bench.post("/v1/messages").body(body.clone()).send().await.expect("an answer");
    let answer = reply.rest().await.expect("a whole answer");
    assert!(answer == body, "the same bytes");
    let exchange = &bench.books.ended()[0];
    assert_eq!((exchange.request_bytes, exchange.answer_bytes), (LARGE as u64, LARGE as u64));
    assert_eq!(exchange.model_asked.as_deref(), Some("model-1"));
}

#[tokio::test]
async fn a_client_that_waits_for_leave_to_send_its_body_gets_it() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let provider = streams().await;
    let bench = Bench::start(provider.url()).await;
    let mut stream = BufReader::new(tokio::net::TcpStream::connect(bench.address()).await.expect("connects"));
    let body = messages(true);
    let head = format!(
        "POST {}/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        bench.capability.path(),
        bench.capability.token(),
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("writes");
    let mut line = String::new();
    stream.read_line(&mut line).await.expect("reads");
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");
    stream.read_line(&mut line).await.expect("reads");
    stream.write_all(body.as_bytes()).await.expect("writes");
    assert_eq!(Reply::read(stream).await.expect("an answer").status, 200);
    assert_eq!(provider.seen()[0].header("expect"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_at_once_are_each_counted_once() {
    let provider = streams().await;
    let bench = Bench::start(provider.url()).await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let request = bench.post("/v1/messages").body(messages(true));
        clients.spawn(async move {
            let (status, body) = request.text().await;
            assert_eq!(status, 200);
            assert!(body.ends_with(&anthropic::stop()));
        });
    }
    while let Some(client) = clients.join_next().await {
        client.expect("a client ends well");
    }
    let mut numbers: Vec<u32> = bench.books.ended().iter().map(|exchange| exchange.number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=200).collect::<Vec<u32>>());
    let totals = bench.capability.close().await;
    assert_eq!((totals.requests, totals.under_way, totals.cost), (200, 0, Some(Micros::new(200 * 1470))));
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_whole() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.write("HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n").await;
        wire.write(anthropic::whole()).await;
        None
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let (status, body) = bench.post("/v1/messages").body(messages(false)).text().await;
    assert_eq!((status, body), (200, anthropic::whole()));
    assert_eq!(bench.books.ended()[0].usage, TOLD);
}
