//! Ceilings, and the pace of a provider that all sessions share.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use refrain::clock::ManualClock;
use refrain::domain::{ExchangeEnd, Micros, Usage};
use refrain::gateway::{Guard, Totals};
use tokio::sync::Semaphore;

use crate::client::Request;
use crate::provider::{Provider, anthropic};
use crate::{Bench, Setup, grant, messages};

async fn answers() -> Provider {
    Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await
}

/// Refuses from an amount on, and remembers what it heard.
struct Cap {
    most: Micros,
    heard: Mutex<Vec<Micros>>,
}

impl Guard for Cap {
    fn refuses(&self, totals: &Totals) -> Option<String> {
        (totals.charged() >= self.most).then(|| format!("the session has spent {} of {}", totals.known_cost, self.most))
    }

    fn may_pass(&self, totals: &Totals, promised: Micros) -> bool {
        totals.dearest > Micros::ZERO && totals.charged() + promised < self.most
    }

    fn spent(&self, totals: &Totals) {
        self.heard.lock().unwrap().push(totals.known_cost);
    }
}

#[tokio::test]
async fn a_ceiling_refuses_the_next_request_and_nothing_more_is_spent() {
    let provider = answers().await;
    let cap = Arc::new(Cap { most: Micros::new(2000), heard: Mutex::default() });
    let bench = Setup { guard: Some(Arc::clone(&cap) as Arc<dyn Guard>), ..Setup::new(provider.url()) }.start().await;
    let ask = || bench.post("/v1/messages").body(messages(false));
    assert_eq!(ask().text().await.0, 200);
    assert_eq!(ask().text().await.0, 200);
    for _ in 0..2 {
        let mut reply = ask().send().await.expect("an answer");
        assert_eq!((reply.status, reply.header("x-should-retry")), (403, Some("false")));
        let body: serde_json::Value = serde_json::from_slice(&reply.rest().await.expect("whole")).expect("JSON");
        assert_eq!(body["error"]["message"], "the session has spent $0.002940 of $0.0020");
    }
    assert_eq!((provider.seen().len(), bench.books.begun().len()), (2, 2));
    assert_eq!(*cap.heard.lock().unwrap(), [Micros::new(1470), Micros::new(2940)]);
    let refused = &bench.books.ended()[3];
    assert_eq!((refused.end, refused.status, refused.usage), (ExchangeEnd::Refused, Some(403), Usage::ZERO));
    assert_eq!(
        (refused.number, refused.model_asked.as_deref(), refused.cost),
        (4, Some("model-1"), Some(Micros::ZERO))
    );
    let totals = bench.capability.close().await;
    assert_eq!((totals.requests, totals.refused, totals.known_cost), (4, 2, Micros::new(2940)));
}

#[tokio::test]
async fn a_burst_of_requests_does_not_pass_a_ceiling() {
    let provider = Provider::play(|_, mut wire| async move {
        // Long enough for all others to have come meanwhile.
        tokio::time::sleep(Duration::from_millis(100)).await;
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await;
    let cap = Arc::new(Cap { most: Micros::new(4000), heard: Mutex::default() });
    let bench = Setup { guard: Some(cap as Arc<dyn Guard>), ..Setup::new(provider.url()) }.start().await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..20 {
        clients.spawn(bench.post("/v1/messages").body(messages(false)).text());
    }
    let mut answers: Vec<u16> = clients.join_all().await.into_iter().map(|(status, _)| status).collect();
    answers.sort_unstable();
    // Each costs 1,470: the third is the one that reaches the ceiling.
    assert_eq!(answers.iter().filter(|status| **status == 200).count(), 3, "{answers:?}");
    let totals = bench.capability.close().await;
    assert_eq!((totals.billed, totals.refused, totals.known_cost), (3, 17, Micros::new(4410)));
}

#[tokio::test]
async fn hanging_up_before_anything_is_told_is_not_free() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.gone().await;
        None
    })
    .await;
    let cap = Arc::new(Cap { most: Micros::new(1), heard: Mutex::default() });
    let bench = Setup { guard: Some(cap as Arc<dyn Guard>), ..Setup::new(provider.url()) }.start().await;
    let gone = bench.post("/v1/messages").body(messages(true)).leave().await;
    until(&provider, 1).await;
    drop(gone);
    let ended = bench.books.wait(1).await;
    assert_eq!((ended[0].end, ended[0].cost), (ExchangeEnd::ClientGone, None));
    let (status, body) = bench.post("/v1/messages").body(messages(true)).text().await;
    assert_eq!(status, 403, "what was asked is assumed to be paid for: {body}");
    let totals = bench.capability.close().await;
    assert!(totals.known_cost == Micros::ZERO && totals.assumed >= Micros::new(1), "{totals:?}");
    assert_eq!(provider.seen().len(), 1);
}

/// Asks until the provider has seen so many requests.
async fn until(provider: &Provider, count: usize) {
    while provider.seen().len() < count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes sure that the provider has seen no more requests than so many, even if given time.
async fn still(provider: &Provider, count: usize) {
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(provider.seen().len(), count);
}

#[tokio::test]
async fn requests_of_all_sessions_wait_for_each_other() {
    let leave = Arc::new(Semaphore::new(0));
    let given = Arc::clone(&leave);
    let provider = Provider::play(move |_, mut wire| {
        let leave = Arc::clone(&given);
        async move {
            leave.acquire().await.expect("open").forget();
            wire.answer(200, "", anthropic::whole()).await;
            Some(wire)
        }
    })
    .await;
    let mut setup = Setup::new(provider.url());
    setup.provider.concurrency = Some(1);
    let bench = setup.start().await;
    let other = bench.gateway.open(grant(None)).expect("another session");
    let of_other = || {
        Request::post(bench.address(), &format!("{}/v1/messages", other.path()))
            .header("x-api-key", other.token())
            .body(messages(false))
    };
    let mut clients = tokio::task::JoinSet::new();
    clients.spawn(bench.post("/v1/messages").body(messages(false)).text());
    until(&provider, 1).await;
    // One that goes away while it waits costs nothing and takes no turn.
    let gone = of_other().leave().await;
    while other.totals().under_way == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(gone);
    let ended = bench.books.wait(1).await;
    assert_eq!((ended[0].end, ended[0].usage), (ExchangeEnd::ClientGone, Usage::ZERO));
    clients.spawn(of_other().text());
    still(&provider, 1).await;
    leave.add_permits(1);
    until(&provider, 2).await;
    leave.add_permits(1);
    while let Some(client) = clients.join_next().await {
        assert_eq!(client.expect("a client").0, 200);
    }
}

#[tokio::test]
async fn a_minute_holds_as_many_requests_as_it_may() {
    let provider = answers().await;
    let clock = ManualClock::default();
    let mut setup = Setup { clock: Arc::new(clock.clone()), ..Setup::new(provider.url()) };
    setup.provider.requests_per_minute = Some(2);
    let bench = setup.start().await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..3 {
        clients.spawn(bench.post("/v1/messages").body(messages(false)).text());
    }
    until(&provider, 2).await;
    still(&provider, 2).await;
    clock.advance(Duration::from_secs(60));
    until(&provider, 3).await;
    while let Some(client) = clients.join_next().await {
        assert_eq!(client.expect("a client").0, 200);
    }
}

/// A provider that asks for a pause once, in its own way.
async fn pausing(headers: &'static str, body: &'static str) -> Provider {
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    Provider::play(move |_, mut wire| {
        let first = first.swap(false, std::sync::atomic::Ordering::SeqCst);
        async move {
            if first {
                wire.answer(429, headers, body).await;
            } else {
                wire.answer(200, "", anthropic::whole()).await;
            }
            Some(wire)
        }
    })
    .await
}

async fn holds_others(provider: Provider, path: &str, body: &str, told: &str) {
    let clock = ManualClock::default();
    let bench = Setup { clock: Arc::new(clock.clone()), ..Setup::new(provider.url()) }.start().await;
    let (status, answer) = bench.post(path).body("{}").text().await;
    assert_eq!((status, answer.as_str()), (429, body), "the provider's own answer passes");
    let other = bench.gateway.open(grant(None)).expect("another session");
    let request = Request::post(bench.address(), &format!("{}/v1/messages", other.path()))
        .header("x-api-key", other.token())
        .body(messages(false));
    let mut client = tokio::task::JoinSet::new();
    client.spawn(request.text());
    still(&provider, 1).await;
    clock.advance(Duration::from_secs(7));
    until(&provider, 2).await;
    assert_eq!(client.join_next().await.expect("a client").expect("ends").0, 200);
    let first = &bench.books.ended()[0];
    assert_eq!((first.status, first.usage, first.cost), (Some(429), Usage::ZERO, Some(Micros::ZERO)));
    assert!(first.message.as_deref().is_some_and(|message| message.contains(told)), "{first:?}");
}

#[tokio::test]
async fn a_pause_in_the_headers_holds_others() {
    const BODY: &str = r#"{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}"#;
    holds_others(pausing("retry-after: 7\r\n", BODY).await, "/v1/messages", BODY, "slow down").await;
}

#[tokio::test]
async fn a_pause_in_the_error_holds_others() {
    const BODY: &str = r#"{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"7s"}]}}"#;
    holds_others(pausing("", BODY).await, "/v1beta/models/m:generateContent", BODY, "quota").await;
}

#[tokio::test]
async fn a_stream_of_gemini_may_go_on_behind_its_reason_to_finish() {
    const FIRST: &str = r#"data: {"candidates":[{"content":{"parts":[{"text":"hi"}]},"finishReason":"STOP"}],"modelVersion":"model-1","usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":2,"totalTokenCount":12}}"#;
    const SECOND: &str = r#"data: {"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5,"totalTokenCount":15}}"#;
    let provider = Provider::play(|_, mut wire| async move {
        wire.begin("text/event-stream").await;
        wire.chunk(format!("{FIRST}\n\n")).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        wire.chunk(format!("{SECOND}\n\n")).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        wire.end().await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let (status, body) = bench.post("/v1beta/models/model-1:streamGenerateContent?alt=sse").body("{}").text().await;
    assert_eq!((status, body), (200, format!("{FIRST}\n\n{SECOND}\n\n")));
    let exchange = &bench.books.ended()[0];
    assert_eq!((exchange.end, exchange.usage.output), (ExchangeEnd::Complete, Some(5)));
    assert_eq!((exchange.model_asked.as_deref(), exchange.model_served.as_deref()), (Some("model-1"), Some("model-1")));
}

#[tokio::test]
async fn a_stream_of_gemini_may_pause_behind_its_reason_to_finish() {
    const FIRST: &str = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":2,\"totalTokenCount\":12}}\n\n";
    const SECOND: &str = "data: {\"candidates\":[{\"index\":1,\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":5,\"totalTokenCount\":15}}\n\n";
    let shown = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&shown);
    let provider = Provider::play(move |_, mut wire| {
        let shown = Arc::clone(&waits);
        async move {
            wire.begin("text/event-stream").await;
            wire.chunk(FIRST).await;
            shown.acquire().await.expect("open").forget();
            wire.chunk(SECOND).await;
            wire.end().await;
            Some(wire)
        }
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    let request = bench.post("/v1beta/models/model-1:streamGenerateContent?alt=sse").body("{}");
    let mut reply = request.send().await.expect("an answer");
    assert_eq!(reply.next_text().await, FIRST);
    assert_eq!(bench.books.ended(), [], "more may come");
    shown.add_permits(1);
    assert_eq!(reply.rest().await.expect("a whole answer"), SECOND.as_bytes());
    let exchange = bench.books.wait(1).await.remove(0);
    assert_eq!((exchange.end, exchange.usage.output), (ExchangeEnd::Complete, Some(5)));
}

#[tokio::test]
async fn the_last_piece_of_gemini_is_not_kept_for_an_end_that_does_not_come() {
    const LAST: &str = "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":10,\"candidatesTokenCount\":5,\"totalTokenCount\":15}}\n\n";
    for client_leaves in [true, false] {
        let provider = Provider::play(|_, mut wire| async move {
            wire.begin("text/event-stream").await;
            wire.chunk(LAST).await;
            wire.gone().await;
            None
        })
        .await;
        let bench = Bench::start(provider.url()).await;
        let request = bench.post("/v1beta/models/model-1:streamGenerateContent?alt=sse").body("{}");
        let mut reply = request.send().await.expect("an answer");
        let Bench { gateway: _running, books, capability } = bench;
        assert_eq!(reply.next_text().await, LAST);
        // What has come was all: nobody is to blame for the end.
        if client_leaves {
            drop(reply);
        } else {
            drop(capability);
        }
        let exchange = books.wait(1).await.remove(0);
        assert_eq!((exchange.end, exchange.usage.output, exchange.message), (ExchangeEnd::Complete, Some(5), None));
    }
}
