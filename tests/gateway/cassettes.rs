//! What passed is played again, offline and for nothing.

use std::path::Path;

use refrain::domain::{Exchange, ExchangeEnd, Micros, Usage};
use refrain::gateway::Grant;
use refrain::gateway::cassette::{Cassette, Matching, Places};
use refrain::redact::Redactor;

use crate::provider::{Provider, anthropic};
use crate::{Bench, REAL_KEY, Setup, messages};

const CHUNK: &str = "data: {\"model\":\"model-1\",\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n";
const CHUNK_OF_USAGE: &str =
    "data: {\"model\":\"model-1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// Where nobody listens.
const NOWHERE: &str = "http://127.0.0.1:1";

/// A provider that streams, is overloaded, cuts, and says its own key.
async fn provider() -> Provider {
    Provider::play(|seen, mut wire| async move {
        let body = seen.text().to_owned();
        if seen.line().contains("/chat/completions") {
            wire.begin("text/event-stream").await;
            for event in [CHUNK, CHUNK_OF_USAGE, DONE] {
                wire.chunk(event).await;
            }
            wire.end().await;
        } else if body.contains("overload") {
            wire.answer(529, "retry-after: 7\r\n", r#"{"type":"error","error":{"message":"Overloaded"}}"#).await;
        } else if body.contains("cut") {
            wire.begin("text/event-stream").await;
            wire.chunk(anthropic::start()).await;
            return None;
        } else if body.contains("secret") {
            wire.answer(200, "", format!("{{\"text\":\"{REAL_KEY}\"}}")).await;
        } else {
            wire.begin("text/event-stream").await;
            for event in [anthropic::start(), anthropic::text("hello"), anthropic::delta(), anthropic::stop()] {
                wire.chunk(event).await;
            }
            wire.end().await;
        }
        Some(wire)
    })
    .await
}

/// A request that says this.
fn says(text: &str) -> String {
    messages(true).replace("\"hi\"", &format!("{text:?}"))
}

/// What a client saw: status, waiting time, body, and whether that came to its end.
type Seen = (u16, Option<String>, String, bool);

async fn ask(bench: &Bench, path: &str, body: String) -> Seen {
    let mut reply = bench.post(path).header("accept-encoding", "gzip").body(body).send().await.expect("an answer");
    let wait = reply.header("retry-after").map(str::to_owned);
    let (mut text, mut whole) = (Vec::new(), true);
    loop {
        match reply.piece().await {
            Ok(Some(piece)) => text.extend_from_slice(&piece),
            Ok(None) => break,
            Err(_) => {
                whole = false;
                break;
            }
        }
    }
    (reply.status, wait, String::from_utf8(text).expect("text"), whole)
}

async fn session(bench: &Bench, day: &str) -> Vec<Seen> {
    let mut seen = Vec::new();
    for text in ["work", "overload", "work", "cut", "secret"] {
        seen.push(ask(bench, "/v1/messages?beta=true", says(&format!("{day}: {text}"))).await);
    }
    let chat = r#"{"model":"model-1","stream":true,"messages":[]}"#.to_owned();
    seen.push(ask(bench, "/v1/chat/completions", chat).await);
    seen
}

async fn start(url: &str, cassette: Cassette) -> Bench {
    let mut setup = Setup::new(url.to_owned());
    setup.cassette = Some(cassette);
    setup.start().await
}

fn redactor() -> Redactor {
    Redactor::new([("KEY", REAL_KEY)])
}

fn replay(path: &Path) -> Cassette {
    Cassette::replay(path, Matching::Exact, redactor()).expect("a cassette")
}

fn told(exchanges: Vec<Exchange>) -> Vec<(u32, Option<u16>, ExchangeEnd, Usage)> {
    let told = exchanges.into_iter().map(|exchange| (exchange.number, exchange.status, exchange.end, exchange.usage));
    let mut told: Vec<_> = told.collect();
    told.sort_by_key(|(number, ..)| *number);
    told
}

#[tokio::test]
async fn a_session_is_played_as_it_was_without_a_provider() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["run.tape", "run.tape.gz"] {
        let path = folder.path().join(name);
        let provider = provider().await;
        let bench = start(&provider.url(), Cassette::record(&path, redactor()).expect("a cassette")).await;
        let recorded = session(&bench, "2026-11-30").await;
        let first = told(bench.books.wait(6).await);
        assert_eq!(recorded[1].1.as_deref(), Some("7"));
        assert_eq!((recorded[3].0, recorded[3].3), (200, false), "the answer was cut");
        assert_eq!(recorded[5].2, format!("{CHUNK}{DONE}"));
        let plain = provider.seen().iter().all(|seen| seen.header("accept-encoding") == Some("identity"));
        assert!(plain, "a cassette holds text");

        let bench = start(NOWHERE, replay(&path)).await;
        let mut expected = recorded;
        expected[1].1 = Some("0".to_owned());
        expected[4].2 = expected[4].2.replace(REAL_KEY, "[redacted:KEY]");
        assert_eq!(session(&bench, "2027-01-02").await, expected);
        let exchanges = bench.books.wait(6).await;
        assert!(exchanges.iter().all(|exchange| exchange.cost == Some(Micros::ZERO)), "{exchanges:?}");
        assert_eq!(told(exchanges), first);
        assert_eq!(bench.capability.totals().known_cost, Micros::ZERO);
    }
}

#[tokio::test]
async fn a_request_that_parts_is_refused_with_its_difference() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.tape");
    let provider = provider().await;
    let bench = start(&provider.url(), Cassette::record(&path, redactor()).expect("a cassette")).await;
    ask(&bench, "/v1/messages", says("work")).await;

    let bench = start(NOWHERE, replay(&path)).await;
    let (status, _, body, _) = ask(&bench, "/v1/messages", says("other work")).await;
    assert_eq!(status, 403);
    let error: serde_json::Value = serde_json::from_str(&body).expect("is JSON");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("expected exchange 1 of 1"), "{message}");
    assert!(message.contains("-messages[0].content: work\n+messages[0].content: other work\n"), "{message}");
    let exchange = bench.books.wait(1).await.remove(0);
    assert_eq!((exchange.end, exchange.usage), (ExchangeEnd::Refused, Usage::ZERO));
    assert_eq!(
        exchange.message.as_deref(),
        Some(
            "the request parts from the cassette, which expected exchange 1 of 1 of this session; record anew if this is \
             meant\n--- cassette\n+++ request\n@@ -5,1 +5,1 @@\n messages[0].role: user\n-messages[0].content: work\n\
             +messages[0].content: other work"
        )
    );
    // The session can go on where the tape goes on.
    assert_eq!(ask(&bench, "/v1/messages", says("work")).await.0, 200);
}

#[tokio::test]
async fn a_provider_that_was_not_reached_is_not_reached_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.tape");
    let bench = start(NOWHERE, Cassette::record(&path, redactor()).expect("a cassette")).await;
    assert_eq!(ask(&bench, "/v1/messages", says("work")).await.0, 502);
    let bench = start(NOWHERE, replay(&path)).await;
    assert_eq!(ask(&bench, "/v1/messages", says("work")).await.0, 502);
    assert_eq!(bench.books.wait(1).await[0].end, ExchangeEnd::Unreachable);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_cassette_that_takes_no_more_lets_nothing_be_paid_for() {
    use std::os::fd::AsRawFd;

    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    // A file that cannot grow, as on a disk that is full.
    let file = memfd_create("tape", MemfdFlags::ALLOW_SEALING).expect("a file");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let cassette = Cassette::record(Path::new(&path), redactor()).expect("a cassette");
    fcntl_add_seals(&file, SealFlags::GROW).expect("is sealed");
    assert_eq!(cassette.broken(), None);
    let provider = provider().await;
    let bench = start(&provider.url(), cassette.clone()).await;
    let (.., whole) = ask(&bench, "/v1/messages", says("work")).await;
    assert!(!whole, "it could not be kept");
    assert!(cassette.broken().is_some_and(|message| message.contains("cannot be used")));

    let other = bench.gateway.open(crate::grant(None)).expect("a session");
    let request = crate::client::Request::post(bench.address(), &format!("{}/v1/messages", other.path()));
    let (status, body) = request.header("x-api-key", other.token()).body(says("work")).text().await;
    assert_eq!(status, 403);
    assert!(body.contains("no exchange can be recorded any more"), "{body}");
    assert_eq!(provider.seen().len(), 1);
}

/// A provider that says which file to read, its path in pieces.
async fn pathfinder() -> Provider {
    Provider::play(|seen, mut wire| async move {
        let body: serde_json::Value = serde_json::from_slice(&seen.body).expect("JSON");
        let path = body["messages"][0]["content"].as_str().expect("a text").to_owned();
        wire.begin("text/event-stream").await;
        wire.chunk(anthropic::start()).await;
        for piece in path.as_bytes().chunks(5) {
            wire.chunk(anthropic::text(std::str::from_utf8(piece).expect("text"))).await;
        }
        for event in [anthropic::delta(), anthropic::stop()] {
            wire.chunk(event).await;
        }
        wire.end().await;
        Some(wire)
    })
    .await
}

/// What the texts of a stream say together, asked in a session with such a workspace.
async fn reads(bench: &Bench, workspace: &str) -> String {
    let places = Places::new([("directory", Path::new(workspace))]);
    let capability = bench.gateway.open(Grant { places, ..crate::grant(None) }).expect("a session");
    let request = crate::client::Request::post(bench.address(), &format!("{}/v1/messages", capability.path()));
    let request = request.header("x-api-key", capability.token()).body(says(&format!("{workspace}/src/main.rs")));
    let (status, body) = request.text().await;
    assert_eq!(status, 200, "{body}");
    let data = body.lines().filter_map(|line| line.strip_prefix("data: "));
    let values = data.map(|data| serde_json::from_str::<serde_json::Value>(data).expect("JSON"));
    values.filter_map(|value| Some(value["delta"]["text"].as_str()?.to_owned())).collect()
}

#[tokio::test]
async fn an_agent_with_absolute_paths_is_played_in_another_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.tape");
    let provider = pathfinder().await;
    let bench = start(&provider.url(), Cassette::record(&path, redactor()).expect("a cassette")).await;
    assert_eq!(reads(&bench, "/srv/one/work").await, "/srv/one/work/src/main.rs");
    let tape = std::fs::read_to_string(&path).expect("a tape");
    assert!(!tape.contains("/srv/one"), "{tape}");
    for workspace in ["/elsewhere/w", "/workspace"] {
        let bench = start(NOWHERE, replay(&path)).await;
        assert_eq!(reads(&bench, workspace).await, format!("{workspace}/src/main.rs"));
    }
}

#[tokio::test]
async fn a_recorded_pause_holds_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.tape");
    let provider = provider().await;
    let bench = start(&provider.url(), Cassette::record(&path, redactor()).expect("a cassette")).await;
    assert_eq!(ask(&bench, "/v1/messages", says("overload")).await.0, 529);
    let clock = refrain::clock::ManualClock::default();
    let mut setup = Setup::new(NOWHERE.to_owned());
    (setup.cassette, setup.clock) = (Some(replay(&path)), std::sync::Arc::new(clock));
    let bench = setup.start().await;
    let seen = ask(&bench, "/v1/messages", says("overload")).await;
    assert_eq!((seen.0, seen.1.as_deref()), (529, Some("0")));
    // Time stands still, so that whoever waits for it waits for ever.
    assert_eq!(ask(&bench, "/v1/messages", says("more")).await.0, 403);
    assert_eq!(bench.capability.close().await.played, 1);
}
