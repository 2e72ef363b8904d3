//! What an exchange costs.

use refrain::domain::Micros;

use crate::provider::Provider;
use crate::{Bench, messages};

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
