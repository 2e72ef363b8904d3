//! Whatever breaks, each exchange is recorded once, with what is known of it.

use std::sync::Arc;
use std::time::Duration;

use refrain::clock::ManualClock;
use refrain::domain::{Exchange, ExchangeEnd, Micros, Usage};
use refrain::gateway::Stalls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

use crate::provider::{Provider, Wire, anthropic};
use crate::{Bench, REAL_KEY, Setup, messages};

/// The input is told at the start; of the output nobody knows how much it was.
const HALF: Usage =
    Usage { input: Some(100), cache_read: Some(20), cache_write: Some(10), output: None, reasoning: None };

/// Streams half an answer and then does something.
async fn half<F, A>(then: F) -> Provider
where
    F: Fn(Wire) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Option<Wire>> + Send + 'static,
{
    Provider::play(move |_, mut wire| {
        let then = then.clone();
        async move {
            wire.begin("text/event-stream").await;
            wire.chunk(anthropic::start()).await;
            wire.chunk(anthropic::text("half")).await;
            then(wire).await
        }
    })
    .await
}

/// Waits for the one exchange, ends everything, and makes sure that it stayed the only one.
async fn only(bench: Bench) -> Exchange {
    bench.books.wait(1).await;
    let totals = bench.capability.close().await;
    assert_eq!((totals.requests, totals.under_way), (1, 0));
    bench.gateway.shutdown().await;
    let mut ended = bench.books.ended();
    assert_eq!(ended.len(), 1, "{ended:?}");
    ended.remove(0)
}

#[tokio::test]
async fn a_client_that_goes_away_within_the_answer() {
    let provider = half(|mut wire| async move {
        wire.gone().await;
        None
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    assert_eq!(reply.next_text().await, anthropic::start());
    drop(reply);
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.status, exchange.usage), (ExchangeEnd::ClientGone, Some(200), HALF));
    assert_eq!((exchange.cost, exchange.model_served.as_deref()), (None, Some("model-1")));
}

#[tokio::test]
async fn a_client_that_goes_away_before_the_answer_begins() {
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let provider = Provider::play(move |_, mut wire| {
        let told = told.clone();
        async move {
            told.send("asked").expect("the test listens");
            wire.gone().await;
            told.send("gone").expect("the test listens");
            None
        }
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let stream = bench.post("/v1/messages").body(messages(true)).leave().await;
    assert_eq!(heard.recv().await, Some("asked"));
    drop(stream);
    assert_eq!(heard.recv().await, Some("gone"), "the provider is not left waiting");
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.status), (ExchangeEnd::ClientGone, None));
    assert_eq!((exchange.usage, exchange.cost), (Usage::UNKNOWN, None), "a provider may bill it");
}

#[tokio::test]
async fn a_client_that_goes_away_within_its_request_cost_nothing() {
    use tokio::io::AsyncWriteExt;
    let provider = half(|wire| async move { Some(wire) }).await;
    let bench = Bench::start(provider.url()).await;
    let mut stream = tokio::net::TcpStream::connect(bench.address()).await.expect("connects");
    let head = format!(
        "POST {}/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 1000\r\n\r\n{{\"model\"",
        bench.capability.path(),
        bench.capability.token(),
    );
    stream.write_all(head.as_bytes()).await.expect("writes");
    while bench.capability.totals().under_way == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stream);
    let books = bench.books.clone();
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.usage), (ExchangeEnd::ClientGone, Usage::ZERO));
    assert_eq!((exchange.cost, exchange.request_bytes), (Some(Micros::ZERO), 8));
    assert_eq!((books.begun(), provider.seen().len()), (vec![], 0), "nothing was sent");
}

#[tokio::test]
async fn a_stream_that_is_cut() {
    let provider = half(|_| async { None }).await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    reply.rest().await.expect_err("the client sees the break");
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.usage, exchange.cost), (ExchangeEnd::UpstreamCut, HALF, None));
    assert!(exchange.message.is_some());
}

#[tokio::test]
async fn a_stream_that_is_reset() {
    let provider = half(|wire| async move {
        tokio::time::sleep(Duration::from_millis(20)).await;
        wire.reset();
        None
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    reply.rest().await.expect_err("the client sees the break");
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.usage), (ExchangeEnd::UpstreamCut, HALF));
}

#[tokio::test]
async fn a_stream_that_ends_cleanly_without_its_last_event() {
    let provider = half(|mut wire| async move {
        wire.end().await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    let body = reply.rest().await.expect("the client sees what the provider sent");
    assert_eq!(String::from_utf8(body).expect("text"), anthropic::start() + &anthropic::text("half"));
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.usage), (ExchangeEnd::UpstreamCut, HALF));
}

#[tokio::test]
async fn a_body_that_is_shorter_than_it_said() {
    let provider = Provider::play(|_, mut wire| async move {
        let whole = anthropic::whole();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", whole.len());
        wire.write(head + &whole[..whole.len() / 2]).await;
        None
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(false)).send().await.expect("an answer");
    reply.rest().await.expect_err("the client sees the break");
    assert_eq!(only(bench).await.end, ExchangeEnd::UpstreamCut);
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer() {
    let provider = Provider::play(|_, _| async { None }).await;
    let bench = Bench::start(provider.url()).await;
    let (status, body) = bench.post("/v1/messages").body(messages(true)).text().await;
    let error: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, error["error"]["type"].as_str()), (502, Some("api_error")), "{body}");
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.status, exchange.usage), (ExchangeEnd::UpstreamCut, Some(502), Usage::UNKNOWN));
}

#[tokio::test]
async fn a_provider_that_is_not_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let bench = Bench::start(url).await;
    let (status, body) = bench.post("/v1/messages").body(messages(true)).text().await;
    assert_eq!(status, 502, "{body}");
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.status), (ExchangeEnd::Unreachable, Some(502)));
    assert_eq!((exchange.usage, exchange.cost), (Usage::ZERO, Some(Micros::ZERO)), "nobody can bill it");
    let message = exchange.message.expect("a reason");
    assert!(message.contains("refused"), "{message}");
}

#[tokio::test]
async fn a_provider_that_never_answers() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.gone().await;
        None
    })
    .await;
    let stalls = Stalls { first_byte: Duration::from_millis(100), ..Stalls::default() };
    let bench = Setup { stalls, ..Setup::new(provider.url()) }.start().await;
    let (status, body) = bench.post("/v1/messages").body(messages(true)).text().await;
    assert_eq!(status, 504, "{body}");
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.usage), (ExchangeEnd::UpstreamStalled, Usage::UNKNOWN));
}

#[tokio::test]
async fn a_provider_that_falls_silent_within_its_answer() {
    let provider = half(|mut wire| async move {
        wire.gone().await;
        None
    })
    .await;
    let stalls = Stalls { idle: Duration::from_secs(1), ..Stalls::default() };
    let bench = Setup { stalls, ..Setup::new(provider.url()) }.start().await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    reply.rest().await.expect_err("the client sees the break");
    let exchange = only(bench).await;
    assert_eq!((exchange.end, exchange.status, exchange.usage), (ExchangeEnd::UpstreamStalled, Some(200), HALF));
}

#[tokio::test]
async fn a_slow_provider_is_not_a_silent_one() {
    const PING: &str = ": ping\n\n";
    let turns = Arc::new(Semaphore::new(0));
    let taken = Arc::clone(&turns);
    let provider = Provider::play(move |_, mut wire| {
        let turns = Arc::clone(&taken);
        async move {
            wire.begin("text/event-stream").await;
            for event in [anthropic::start(), PING.into(), PING.into(), anthropic::delta() + &anthropic::stop()] {
                turns.acquire().await.expect("open").forget();
                wire.chunk(event).await;
            }
            wire.end().await;
            Some(wire)
        }
    })
    .await;
    let clock = ManualClock::default();
    let stalls = Stalls { idle: Duration::from_secs(100), ..Stalls::default() };
    let bench = Setup { stalls, clock: Arc::new(clock.clone()), ..Setup::new(provider.url()) }.start().await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    for expected in [anthropic::start(), PING.into(), PING.into()] {
        turns.add_permits(1);
        assert_eq!(reply.next_text().await, expected);
        clock.advance(Duration::from_secs(90));
    }
    turns.add_permits(1);
    reply.rest().await.expect("a whole answer");
    assert_eq!(only(bench).await.end, ExchangeEnd::Complete);
}

#[tokio::test]
async fn an_error_of_the_provider_passes_and_costs_nothing() {
    const ERROR: &str = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let provider = Provider::play(|_, mut wire| async move {
        wire.answer(529, "x-should-retry: true\r\n", ERROR).await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    for _ in 0..3 {
        let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
        assert_eq!((reply.status, reply.header("x-should-retry")), (529, Some("true")));
        assert_eq!(reply.rest().await.expect("a whole answer"), ERROR.as_bytes());
    }
    let ended = bench.books.ended();
    assert_eq!(ended.iter().map(|exchange| exchange.retry).collect::<Vec<_>>(), [0, 1, 2]);
    for exchange in ended {
        assert_eq!((exchange.end, exchange.status), (ExchangeEnd::Complete, Some(529)));
        assert_eq!((exchange.usage, exchange.cost), (Usage::ZERO, Some(Micros::ZERO)));
        assert_eq!(exchange.model_asked.as_deref(), Some("model-1"));
        assert!(exchange.message.expect("a message").contains("Overloaded"));
    }
}

#[tokio::test]
async fn books_that_cannot_be_kept_end_the_session() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    bench.books.fail("the disk is full");
    let mut reply = bench.post("/v1/messages").body(messages(false)).send().await.expect("a head");
    reply.rest().await.expect_err("the client sees the exchange fail");
    let (status, body) = bench.post("/v1/messages").body(messages(false)).text().await;
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("the disk is full"), "{body}");
    assert_eq!(provider.seen().len(), 1, "nothing more is spent");
}

#[tokio::test]
async fn a_gateway_that_ends_loses_what_is_under_way_and_says_so() {
    let provider = half(|mut wire| async move {
        wire.gone().await;
        None
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    assert_eq!(reply.next_text().await, anthropic::start());
    bench.gateway.shutdown().await;
    let ended = bench.books.ended();
    assert_eq!(ended.len(), 1, "it is on the books when the gateway has ended");
    assert_eq!((ended[0].end, ended[0].usage), (ExchangeEnd::Lost, HALF));
    reply.rest().await.expect_err("the client sees the break");
    assert!(bench.gateway.open(crate::grant(None)).is_err());
}

#[tokio::test]
async fn what_is_under_way_when_a_session_is_dropped_is_cut() {
    let provider = half(|mut wire| async move {
        wire.gone().await;
        None
    })
    .await;
    let Bench { gateway, books, capability } = Bench::start(provider.url()).await;
    let bench = Bench { gateway, books, capability };
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    assert_eq!(reply.next_text().await, anthropic::start());
    let request = bench.post("/v1/messages").body(messages(true));
    drop(bench.capability);
    reply.rest().await.expect_err("the client sees the break");
    assert_eq!(bench.books.wait(1).await[0].end, ExchangeEnd::ClientGone);
    assert_eq!(request.text().await.0, 401, "its token is worth nothing");
}

#[tokio::test]
async fn nothing_that_is_recorded_holds_the_key() {
    let provider = Provider::play(|seen, mut wire| async move {
        // A provider that tells the key back.
        let key = seen.header("x-api-key").unwrap_or_default().to_owned();
        let error =
            format!(r#"{{"type":"error","error":{{"type":"authentication_error","message":"bad key {key}"}}}}"#);
        wire.answer(401, "", error).await;
        Some(wire)
    })
    .await;
    let bench = Setup { bodies: Some(1 << 16), ..Setup::new(provider.url()) }.start().await;
    let told =
        format!(r#"{{"model":"model-1","messages":[{{"role":"user","content":"{}"}}]}}"#, bench.capability.token());
    assert_eq!(bench.post("/v1/messages").body(told).text().await.0, 401);
    let (exchange, bodies) = (&bench.books.ended()[0], bench.books.bodies()[0].clone().expect("bodies"));
    let all = format!(
        "{exchange:?} {:?} {} {}",
        bench.books.begun(),
        String::from_utf8_lossy(&bodies.request),
        String::from_utf8_lossy(&bodies.answer)
    );
    assert!(all.contains("bad key"), "{all}");
    assert!(!all.contains(REAL_KEY), "{all}");
    assert!(!all.contains(bench.capability.token()), "{all}");
}

#[tokio::test]
async fn what_is_under_way_when_a_session_ends_gets_some_time_and_is_cut() {
    let provider = half(|mut wire| async move {
        wire.gone().await;
        None
    })
    .await;
    let clock = ManualClock::default();
    let setup = Setup { clock: Arc::new(clock.clone()), ..Setup::new(provider.url()) };
    let bench = setup.start().await;
    // A program that was left behind keeps its connection.
    let mut reply = bench.post("/v1/messages").body(messages(true)).send().await.expect("an answer");
    assert_eq!(reply.next_text().await, anthropic::start());
    let Bench { gateway: _gateway, books, capability } = bench;
    let mut closing = Box::pin(capability.close());
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut closing).await.is_err());
    assert_eq!(books.ended(), []);
    clock.advance(Duration::from_secs(5));
    let totals = closing.await;
    assert_eq!((totals.requests, totals.under_way, totals.cost), (1, 0, None));
    assert_eq!(totals.usage, HALF);
    let exchange = &books.ended()[0];
    assert_eq!(exchange.end, ExchangeEnd::ClientGone);
    assert!(exchange.message.as_deref().is_some_and(|message| message.contains("session ended")));
}

#[tokio::test]
async fn a_body_whose_pieces_cannot_be_told_apart_is_the_clients_mistake() {
    let provider = Provider::play(|_, _| async { None }).await;
    let bench = Bench::start(provider.url()).await;
    let mut stream = tokio::net::TcpStream::connect(bench.address()).await.expect("connects");
    let (path, token) = (bench.capability.path(), bench.capability.token());
    let request = format!(
        "POST {path}/v1/messages HTTP/1.1\r\nhost: x\r\nx-api-key: {token}\r\ntransfer-encoding: chunked\r\n\r\n\
         5\r\n{{\"mod\r\nno size\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("invalid_request_error"), "{answer}");
    let ended = bench.books.wait(1).await.remove(0);
    assert_eq!((ended.end, ended.status, ended.cost), (ExchangeEnd::Refused, Some(400), Some(Micros::ZERO)));
    assert!(provider.seen().is_empty());
}
