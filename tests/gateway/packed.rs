//! Requests that a client has compressed.

use std::io::Write;

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use refrain::domain::{ExchangeEnd, Usage};
use refrain::gateway::cassette::Cassette;
use refrain::redact::Redactor;

use crate::provider::{Provider, anthropic};
use crate::{Bench, REAL_KEY, Setup, messages};

async fn provider() -> Provider {
    Provider::play(|_, mut wire| async move {
        wire.answer(200, "", anthropic::whole()).await;
        Some(wire)
    })
    .await
}

fn packed(coding: &str, text: &str) -> Vec<u8> {
    if coding == "gzip" {
        let mut packer = GzEncoder::new(Vec::new(), Compression::default());
        packer.write_all(text.as_bytes()).expect("packs");
        return packer.finish().expect("packs");
    }
    let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).expect("packs");
    packer.finish().expect("packs")
}

async fn bench(provider: &Provider) -> Bench {
    Setup { bodies: Some(1 << 16), ..Setup::new(provider.url()) }.start().await
}

async fn post(bench: &Bench, path: &str, coding: &str, body: Vec<u8>) {
    let (status, _) = bench.post(path).header("content-encoding", coding).body(body).text().await;
    assert_eq!(status, 200);
}

#[tokio::test]
async fn what_is_packed_passes_as_it_is_and_is_read_and_kept_without_secrets() {
    for coding in ["gzip", "deflate"] {
        let provider = provider().await;
        let bench = bench(&provider).await;
        let plain = messages(false).replace("\"hi\"", &format!("\"{REAL_KEY}\""));
        let body = packed(coding, &plain);
        post(&bench, "/v1/messages", coding, body.clone()).await;
        let (seen, exchange) = (provider.seen().remove(0), bench.books.wait(1).await.remove(0));
        assert_eq!((seen.body.as_slice(), seen.header("content-encoding")), (body.as_slice(), Some(coding)));
        assert_eq!((exchange.model_asked.as_deref(), exchange.request_bytes), (Some("model-1"), body.len() as u64));
        let bodies = bench.books.bodies()[0].clone().expect("bodies");
        assert_eq!(String::from_utf8_lossy(&bodies.request), plain.replace(REAL_KEY, "[redacted:KEY]"));
        assert!(!bodies.cut);
    }
}

#[tokio::test]
async fn what_is_packed_in_another_way_is_not_kept() {
    // Another coding, and one that is not what it says.
    for coding in ["zstd", "gzip, gzip", "gzip"] {
        let provider = provider().await;
        let bench = bench(&provider).await;
        let body = messages(false).replace("\"hi\"", &format!("\"{REAL_KEY}\"")).into_bytes();
        post(&bench, "/v1/messages", coding, body.clone()).await;
        assert_eq!(provider.seen()[0].body, body);
        let (exchange, bodies) = (bench.books.wait(1).await.remove(0), bench.books.bodies()[0].clone());
        let bodies = bodies.expect("bodies");
        assert_eq!((exchange.model_asked, bodies.request, bodies.cut), (None, Vec::new(), true));
    }
}

#[tokio::test]
async fn nothing_is_put_into_a_packed_request() {
    let provider = provider().await;
    let bench = bench(&provider).await;
    let body = packed("gzip", r#"{"model":"model-1","stream":true,"messages":[]}"#);
    post(&bench, "/v1/chat/completions", "gzip", body.clone()).await;
    assert_eq!(provider.seen()[0].body, body);
}

#[tokio::test]
async fn a_cassette_holds_packed_requests_as_text() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("run.tape");
    let cassette = Cassette::record(&path, Redactor::new([("KEY", REAL_KEY)])).expect("a cassette");
    let provider = provider().await;
    let bench = Setup { cassette: Some(cassette), ..Setup::new(provider.url()) }.start().await;
    let plain = messages(false).replace("\"hi\"", &format!("\"say {REAL_KEY}\""));
    post(&bench, "/v1/messages", "gzip", packed("gzip", &plain)).await;
    let tape = std::fs::read_to_string(&path).expect("reads");
    assert!(tape.contains("say [redacted:KEY]") && !tape.contains(REAL_KEY), "{tape}");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_is_not_asked_for_and_costs_nobody_knows_what() {
    for coding in ["zstd", "br", "gzip, br"] {
        let provider = Provider::play(move |_, mut wire| async move {
            wire.answer(200, &format!("content-encoding: {coding}\r\n"), b"\x28\xb5\x2f\xfd whatever").await;
            Some(wire)
        })
        .await;
        let bench = bench(&provider).await;
        let request = bench.post("/v1/messages").header("accept-encoding", "gzip, deflate, br, zstd;q=0.9");
        let mut reply = request.body(messages(false)).send().await.expect("an answer");
        assert_eq!((reply.status, reply.header("content-encoding")), (200, Some(coding)));
        assert_eq!(reply.rest().await.expect("whole"), b"\x28\xb5\x2f\xfd whatever", "it passes as it is");
        assert_eq!(provider.seen()[0].header("accept-encoding"), Some("gzip, deflate"));
        let (exchange, bodies) = (bench.books.wait(1).await.remove(0), bench.books.bodies()[0].clone());
        assert_eq!((exchange.end, exchange.usage, exchange.cost), (ExchangeEnd::Complete, Usage::UNKNOWN, None));
        assert_eq!(exchange.message, Some(format!("the answer is encoded as {coding:?}, which is not read")));
        let bodies = bodies.expect("bodies");
        assert!(bodies.cut && bodies.answer.is_empty());
        let totals = bench.capability.totals();
        assert_eq!((totals.billed, totals.usage, totals.cost), (1, Usage::UNKNOWN, None));
        assert!(totals.assumed > refrain::domain::Micros::ZERO, "ceilings do not take it for free: {totals:?}");
    }
}
