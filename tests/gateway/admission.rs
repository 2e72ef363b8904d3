//! Who may pass, and where the gateway listens.

use std::net::SocketAddr;
use std::sync::Arc;

use refrain::gateway::{Gateway, GatewayError, GatewayOptions, Grant, Key, Listen};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::books::Books;
use crate::client::Request;
use crate::provider::{Provider, anthropic};
use crate::{Bench, REAL_KEY, Setup, grant, messages};

async fn answers() -> Provider {
    Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn a_token_opens_its_own_session_only() {
    let provider = answers().await;
    let bench = Bench::start(provider.url()).await;
    let other = bench.gateway.open(grant(None)).expect("another session");
    assert_ne!(other.token(), bench.capability.token());
    let ask = |path: &str, name: &str, token: &str| {
        Request::post(bench.address(), &format!("{path}/v1/messages")).header(name, token).body(messages(false))
    };
    let wrong = [
        ask(other.path(), "x-api-key", bench.capability.token()),
        ask("/session/none", "x-api-key", bench.capability.token()),
        ask(bench.capability.path(), "x-api-key", "sk-refrain-0"),
        ask(bench.capability.path(), "x-api-key", REAL_KEY),
        ask(bench.capability.path(), "x-other", bench.capability.token()),
        ask(bench.capability.path(), "authorization", &format!("Basic {}", bench.capability.token())),
    ];
    for request in wrong {
        let mut reply = request.send().await.expect("an answer");
        assert_eq!((reply.status, reply.header("content-type")), (401, Some("application/json")));
        assert_eq!(reply.header("x-should-retry"), Some("false"));
        let body = String::from_utf8(reply.rest().await.expect("a whole answer")).expect("text");
        assert_eq!(json(&body)["error"]["type"], "authentication_error", "{body}");
    }
    assert_eq!((provider.seen().len(), bench.books.ended().len()), (0, 0));
    assert_eq!(ask(other.path(), "x-api-key", other.token()).text().await.0, 200);
    let totals = (bench.capability.totals().requests, other.totals().requests);
    assert_eq!(totals, (0, 1));
}

#[tokio::test]
async fn a_token_is_taken_wherever_clients_put_keys() {
    let provider = answers().await;
    let bench = Bench::start(provider.url()).await;
    let token = bench.capability.token().to_owned();
    let post = |path: &str| Request::post(bench.address(), &format!("{}{path}", bench.capability.path())).body("{}");
    assert_eq!(post("/v1/messages").header("Authorization", &format!("bearer {token}")).text().await.0, 200);
    assert_eq!(post("/v1/responses").header("authorization", &format!("Bearer {token}")).text().await.0, 200);
    let gemini = "/v1beta/models/m:generateContent";
    assert_eq!(post(gemini).header("x-goog-api-key", &token).text().await.0, 200);
    assert_eq!(post(&format!("{gemini}?alt=sse&key={token}")).text().await.0, 200);
    let stale = post("/v1/messages").header("x-api-key", "sk-ant-of-the-user");
    assert_eq!(stale.header("authorization", &format!("Bearer {token}")).text().await.0, 200);

    let seen = provider.seen();
    let keys =
        seen.iter().map(|seen| (seen.header("authorization"), seen.header("x-api-key"), seen.header("x-goog-api-key")));
    let bearer = format!("Bearer {REAL_KEY}");
    let expected = [
        (Some(bearer.as_str()), None, None),
        (Some(bearer.as_str()), None, None),
        (None, None, Some(REAL_KEY)),
        (None, None, Some(REAL_KEY)),
        (Some(bearer.as_str()), None, None),
    ];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    assert_eq!(seen[3].line(), format!("POST {gemini}?alt=sse HTTP/1.1"));
}

#[tokio::test]
async fn a_session_that_has_ended_makes_no_more_requests() {
    let provider = answers().await;
    let bench = Bench::start(provider.url()).await;
    let request = |bench: &Bench| bench.post("/v1/messages").body(messages(false));
    assert_eq!(request(&bench).text().await.0, 200);
    let late = request(&bench);
    assert_eq!(bench.capability.close().await.requests, 1);
    assert_eq!(late.text().await.0, 401);
    assert_eq!(provider.seen().len(), 1);
}

#[tokio::test]
async fn other_paths_are_not_there() {
    let provider = answers().await;
    let bench = Bench::start(provider.url()).await;
    let (status, body) = bench.post("/v1/files").body("{}").text().await;
    assert_eq!((status, json(&body)["error"]["type"].as_str()), (404, Some("not_found_error")), "{body}");
    let (status, body) = Request::post(bench.address(), "/v1/chat/completions").body("{}").text().await;
    assert_eq!((status, json(&body)["error"]["code"].as_str()), (404, Some("not_found")), "{body}");
    assert!(body.contains("/session/"), "it says what to do: {body}");
    let (status, body) = bench.post("/v1beta/models/m:batch").header("x-goog-api-key", "x").body("{}").text().await;
    assert_eq!((status, json(&body)["error"]["status"].as_str()), (404, Some("NOT_FOUND")), "{body}");
    assert_eq!(provider.seen().len(), 0);
}

#[tokio::test]
async fn looks_need_no_token() {
    let provider = answers().await;
    let bench = Bench::start(provider.url()).await;
    let get = |path: &str| Request::new(bench.address(), "GET", path);
    assert_eq!(get("/healthz").text().await, (200, r#"{"status":"ok"}"#.to_owned()));
    let mut reply = Request::new(bench.address(), "HEAD", bench.capability.path()).send().await.expect("an answer");
    assert_eq!(reply.status, 200);
    // A HEAD has no body: the next answer begins right behind its head.
    let mut stream = reply.into_stream();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("writes");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.expect("reads");
    assert!(rest.starts_with("HTTP/1.1 200 OK"), "{rest}");
    reply = get(&format!("{}/v1/models", bench.capability.path())).send().await.expect("an answer");
    assert_eq!(reply.status, 401, "what goes to the provider does");
}

#[tokio::test]
async fn what_is_free_is_passed_on_and_costs_nothing() {
    let provider = Provider::play(|_, mut wire| async move {
        wire.answer(200, "", r#"{"input_tokens":12}"#).await;
        Some(wire)
    })
    .await;
    let bench = Bench::start(provider.url()).await;
    assert_eq!(bench.post("/v1/messages/count_tokens").body(messages(false)).text().await.0, 200);
    let exchange = &bench.books.ended()[0];
    assert_eq!((exchange.api.as_str(), exchange.usage.total()), ("anthropic_count_tokens", Some(0)));
}

fn options(listen: Vec<Listen>) -> GatewayOptions {
    GatewayOptions {
        listen,
        providers: Vec::new(),
        prices: refrain::budget::PriceTable::default(),
        redactor: Arc::default(),
        clock: Arc::new(refrain::clock::SystemClock::new()),
        stalls: refrain::gateway::Stalls::default(),
        bounds: refrain::gateway::Bounds::default(),
        proxies: refrain::gateway::Proxies::default(),
        bodies: None,
    }
}

async fn start(listen: Vec<Listen>) -> Result<Gateway, GatewayError> {
    Gateway::start(options(listen), Arc::new(Books::default())).await
}

#[tokio::test]
async fn an_address_that_is_taken_or_is_not_ours_is_told() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let holder = std::net::TcpListener::bind(taken).expect("the port again");
    let error = start(vec![Listen::Tcp(taken)]).await.expect_err("it is taken");
    assert_eq!(
        error.to_string(),
        format!(
            "the gateway cannot listen on {taken}: another program does; name another address, or port 0 for a free one"
        )
    );
    drop(holder);
    let foreign = Listen::Tcp(SocketAddr::from(([192, 0, 2, 1], 0)));
    assert!(matches!(start(vec![foreign]).await, Err(GatewayError::Bind { .. })));
    assert!(matches!(start(vec![]).await, Err(GatewayError::NowhereToListen)));
}

#[tokio::test]
async fn a_unix_socket_is_served_replaced_when_dead_and_removed() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("gateway.sock");
    // A program that was killed left its socket.
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let gateway = start(vec![Listen::Unix(path.clone())]).await.expect("a dead socket is replaced");
    let mut stream = tokio::net::UnixStream::connect(&path).await.expect("connects");
    stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.expect("writes");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("reads");
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let second = start(vec![Listen::Unix(path.clone())]).await;
    assert!(matches!(second, Err(GatewayError::Taken { .. })), "{second:?}");
    gateway.shutdown().await;
    assert!(!path.exists());
    std::fs::write(&path, "not a socket").expect("writes");
    assert!(start(vec![Listen::Unix(path.clone())]).await.is_err());
    assert_eq!(std::fs::read_to_string(&path).expect("reads"), "not a socket");
}

#[tokio::test]
async fn grants_are_checked() {
    let bench = Setup::new("http://127.0.0.1:9".into()).start().await;
    let unknown = Grant { provider: "openai".into(), ..grant(None) };
    let error = bench.gateway.open(unknown).expect_err("there is none").to_string();
    assert_eq!(error, "the gateway has no provider `openai`; it has scripted");
    let wrong = Grant { base_url: Some("localhost:1".into()), ..grant(None) };
    assert!(matches!(bench.gateway.open(wrong), Err(GatewayError::BaseUrl { .. })));
    let of_two_lines = Grant { key: Some(Key::new("sk-0123456789\n")), ..grant(None) };
    let error = bench.gateway.open(of_two_lines).expect_err("no header holds it").to_string();
    let expected =
        "the key of provider `scripted` ends with a line break, which no HTTP header can hold; store it without that";
    assert_eq!(error, expected);
    let shown = format!("{:?} {:?} {:?}", bench.capability, bench.gateway, grant(None));
    assert!(!shown.contains(bench.capability.token()) && !shown.contains(REAL_KEY), "{shown}");
}

#[tokio::test]
async fn a_session_may_have_a_base_url_of_its_own() {
    let provider = answers().await;
    let bench = Bench::start("http://127.0.0.1:9".into()).await;
    let own = Grant { base_url: Some(format!("{}/own/v1", provider.url())), ..grant(None) };
    let own = bench.gateway.open(own).expect("a session");
    let request =
        Request::post(bench.address(), &format!("{}/v1/messages", own.path())).header("x-api-key", own.token());
    assert_eq!(request.body(messages(false)).text().await.0, 200);
    assert_eq!(provider.seen()[0].line(), "POST /own/v1/messages HTTP/1.1");
}
