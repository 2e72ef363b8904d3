//! The readers of the gateway: bytes of requests and answers a second.
//!
//! ```text
//! cargo bench --bench gateway_protocol
//! ```

#![allow(missing_docs, reason = "the macros of the harness make items without documentation")]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use refrain::gateway::protocol::{AnswerReader, Api, RequestReader, UsageFilter};

/// What a socket gives at a time.
const PIECE: usize = 16 * 1024;

/// Bytes of each stream.
const SIZE: usize = 8 << 20;

/// A stream of text in small pieces, as the interface sends it.
fn stream(api: Api) -> Vec<u8> {
    let text = "All models are wrong, but some are useful. ";
    let (first, piece, last) = match api {
        Api::AnthropicMessages => (
            r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"usage":{"input_tokens":70,"cache_creation_input_tokens":30,"cache_read_input_tokens":3000,"output_tokens":1}}}

"#,
            format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{text}\"}}}}\n\n"
            ),
            "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":140}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
        ),
        Api::OpenAiResponses => (
            "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-x\"}}\n\n",
            format!(
                "event: response.output_text.delta\ndata: {{\"type\":\"response.output_text.delta\",\"sequence_number\":4,\"item_id\":\"msg_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"{text}\"}}\n\n"
            ),
            "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":70,\"output_tokens\":140}}}\n\n",
        ),
        Api::OpenAiChat => (
            "",
            format!(
                "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1764460800,\"model\":\"chat-x\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}],\"usage\":null}}\n\n"
            ),
            "data: {\"model\":\"chat-x\",\"choices\":[],\"usage\":{\"prompt_tokens\":70,\"completion_tokens\":140}}\n\ndata: [DONE]\n\n",
        ),
        _ => (
            "",
            format!(
                "data: {{\"candidates\":[{{\"content\":{{\"role\":\"model\",\"parts\":[{{\"text\":\"{text}\"}}]}},\"index\":0}}],\"usageMetadata\":{{\"promptTokenCount\":3100,\"candidatesTokenCount\":1,\"totalTokenCount\":3101}},\"modelVersion\":\"gemini-x\"}}\n\n"
            ),
            "data: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":3100,\"candidatesTokenCount\":140}}\n\n",
        ),
    };
    let mut bytes = first.as_bytes().to_vec();
    while bytes.len() < SIZE {
        bytes.extend_from_slice(piece.as_bytes());
    }
    bytes.extend_from_slice(last.as_bytes());
    bytes
}

fn answers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("answer");
    for api in [Api::AnthropicMessages, Api::OpenAiResponses, Api::OpenAiChat, Api::GeminiStream] {
        let bytes = stream(api);
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(api.name(), |bencher| {
            bencher.iter(|| {
                let mut reader = AnswerReader::new(api, 200, Some("text/event-stream"), None);
                for piece in bytes.chunks(PIECE) {
                    reader.feed(black_box(piece));
                }
                let told = reader.finish();
                assert!(told.complete && told.usage.output == Some(140), "{told:?}");
            });
        });
    }
    group.finish();
}

fn requests(criterion: &mut Criterion) {
    let message =
        serde_json::json!({"role": "user", "content": [{"type": "text", "text": "let x = \"1\";\n".repeat(300)}]});
    let body = serde_json::json!({"model": "m", "messages": vec![message; 2000], "stream": true}).to_string();
    let mut group = criterion.benchmark_group("request");
    group.throughput(Throughput::Bytes(body.len() as u64));
    group.bench_function("openai_chat", |bencher| {
        bencher.iter(|| {
            let mut reader = RequestReader::new(Api::OpenAiChat);
            for piece in body.as_bytes().chunks(PIECE) {
                reader.feed(black_box(piece));
            }
            assert!(reader.finish().usage_splice.is_some(), "the body is a whole one");
        });
    });
    group.finish();
}

fn filters(criterion: &mut Criterion) {
    let pieces: Vec<Bytes> = stream(Api::OpenAiChat).chunks(PIECE).map(Bytes::copy_from_slice).collect();
    let mut group = criterion.benchmark_group("usage_filter");
    group.throughput(Throughput::Bytes(pieces.iter().map(|piece| piece.len() as u64).sum()));
    group.bench_function("openai_chat", |bencher| {
        bencher.iter(|| {
            let mut filter = UsageFilter::new();
            for piece in &pieces {
                black_box(filter.pass(piece.clone()));
            }
            black_box(filter.finish());
        });
    });
    group.finish();
}

criterion_group!(benches, answers, requests, filters);
criterion_main!(benches);
