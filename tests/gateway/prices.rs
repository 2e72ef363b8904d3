//! What an exchange costs.

use std::sync::Arc;

use refrain::domain::{ExchangeEnd, Micros};
use refrain::gateway::{Guard, Totals};

use crate::provider::Provider;
use crate::{Bench, Setup, messages};

/// An answer of this model: 100 in, 50 out, and 30 written to the cache, 20 of them for an hour.
fn answer(model: &str) -> String {
    format!(
        r#"{{"id":"m1","type":"message","role":"assistant","model":"{model}","content":[],"stop_reason":"end_turn","usage":{{"input_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":30,"cache_creation":{{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20}},"output_tokens":50}}}}"#
    )
}

#[tokio::test]
async fn what_is_cached_for_an_hour_costs_more_and_without_a_rate_nobody_knows() {
    for (model, cost) in [("model-2", Some(400 + 10 * 5 + 20 * 8 + 1_000)), ("model-1", None)] {
        let provider = Provider::play(move |_, mut wire| async move {
            wire.answer(200, "", answer(model)).await;
            Some(wire)
        })
        .await;
        let bench = Bench::start(provider.url()).await;
        bench.post("/v1/messages").body(messages(false)).text().await;
        let exchange = bench.books.wait(1).await.remove(0);
        assert_eq!(exchange.usage.cache_write, Some(30), "{exchange:?}");
        assert_eq!(exchange.cost, cost.map(Micros::new), "{exchange:?}");
    }
}

/// A whole answer of this model, as the interface gives it.
fn answers(body: String) -> impl Future<Output = Provider> {
    Provider::play(move |_, mut wire| {
        let body = body.clone();
        async move {
            wire.answer(200, "", body).await;
            Some(wire)
        }
    })
}

#[tokio::test]
async fn the_model_that_answered_has_the_price_and_another_without_one_is_unknown() {
    // An alias is the model that was asked; another family is not, whatever was asked.
    for (served, cost, assumed) in [
        ("model-1-20260101", Some(Micros::new(400 + 1_000 + 30 * 5)), Micros::ZERO),
        ("other-9", None, Micros::new(400 + 1_000 + 30 * 5)),
    ] {
        let body = answer(served)
            .replace(r#""cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"#, "");
        let provider = answers(body).await;
        let bench = Bench::start(provider.url()).await;
        bench.post("/v1/messages").body(messages(false)).text().await;
        let exchange = bench.books.wait(1).await.remove(0);
        assert_eq!(
            (exchange.model_asked.as_deref(), exchange.model_served.as_deref()),
            (Some("model-1"), Some(served))
        );
        assert_eq!(exchange.cost, cost, "{exchange:?}");
        // What a ceiling is held against is never less for that.
        assert_eq!(bench.capability.close().await.assumed, assumed);
    }
}

/// Refuses what has no price.
struct NoUnpriced;

impl Guard for NoUnpriced {
    fn refuses(&self, _: &Totals) -> Option<String> {
        None
    }

    fn refuses_unpriced(&self, model: Option<&str>) -> Option<String> {
        Some(format!("{} has no price", model.unwrap_or("nothing")))
    }

    fn may_pass(&self, _: &Totals, _: Micros) -> bool {
        true
    }

    fn spent(&self, _: &Totals) {}
}

#[tokio::test]
async fn a_model_without_a_price_is_refused_in_the_providers_words_before_anything_is_sent() {
    let provider = answers(answer("model-1")).await;
    let bench = Setup { guard: Some(Arc::new(NoUnpriced)), ..Setup::new(provider.url()) }.start().await;
    let asked = messages(false).replace("model-1", "model-9");
    let cases = [
        ("/v1/messages", asked.as_str(), "/error/type", "permission_error", "model-9"),
        ("/v1/chat/completions", &asked, "/error/code", "model_without_price", "model-9"),
        ("/v1/responses", r#"{"model":"model-9","input":"x"}"#, "/error/code", "model_without_price", "model-9"),
        (
            "/v1beta/models/model-8:generateContent",
            r#"{"contents":[]}"#,
            "/error/status",
            "PERMISSION_DENIED",
            "model-8",
        ),
        ("/v1/messages", r#"{"messages":[]}"#, "/error/type", "permission_error", "nothing"),
    ];
    for (path, body, place, word, model) in cases {
        let mut reply = bench.post(path).body(body).send().await.expect("an answer");
        assert_eq!((reply.status, reply.header("x-should-retry")), (403, Some("false")), "{path}");
        let body: serde_json::Value = serde_json::from_slice(&reply.rest().await.expect("whole")).expect("JSON");
        assert_eq!(body.pointer(place).and_then(|word| word.as_str()), Some(word), "{body}");
        let told = body["error"]["message"].as_str().expect("a message");
        assert_eq!(told, format!("{model} has no price"));
    }
    assert!(provider.seen().is_empty(), "nothing was sent");
    let refused = &bench.books.ended()[0];
    assert_eq!((refused.end, refused.cost), (ExchangeEnd::Refused, Some(Micros::ZERO)));
    // What has a price passes, and so does what nobody bills.
    assert_eq!(bench.post("/v1/messages").body(messages(false)).text().await.0, 200);
    assert_eq!(bench.post("/v1/messages/count_tokens").body(asked.as_str()).text().await.0, 200);
}
