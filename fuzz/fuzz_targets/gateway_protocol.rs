//! What passes the gateway: any bytes, cut anywhere, are read in the same way, and a splice leaves a body JSON.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use refrain::gateway::protocol::{AnswerReader, Api, Asked, RequestReader, Told, UsageFilter};

const APIS: [Api; 6] = [
    Api::AnthropicMessages,
    Api::OpenAiResponses,
    Api::OpenAiChat,
    Api::GeminiGenerate,
    Api::GeminiStream,
    Api::Models,
];
const ENCODINGS: [Option<&str>; 4] = [None, None, Some("gzip"), Some("deflate")];

fn asked<'a>(api: Api, pieces: impl Iterator<Item = &'a [u8]>) -> Asked {
    let mut reader = RequestReader::new(api);
    pieces.for_each(|piece| reader.feed(piece));
    reader.finish()
}

fn told<'a>(mut reader: AnswerReader, pieces: impl Iterator<Item = &'a [u8]>) -> Told {
    for piece in pieces {
        reader.feed(piece);
    }
    reader.finish()
}

fn passed<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut filter = UsageFilter::new();
    let mut out: Vec<u8> = pieces.flat_map(|piece| filter.pass(Bytes::copy_from_slice(piece))).collect();
    out.extend_from_slice(&filter.finish());
    out
}

// What is chosen stands at the end, so that answers and requests serve as seeds.
fuzz_target!(|input: &[u8]| {
    let Some((body, [api, status, step])) = input.split_last_chunk::<3>() else { return };
    let api = APIS[usize::from(*api) % APIS.len()];
    let pieces = || body.chunks(usize::from(*step).max(1));
    let whole = || std::iter::once(body);

    let wish = asked(api, whole());
    assert_eq!(wish, asked(api, pieces()), "the cuts of a request are no part of what it asks");
    if let Some(splice) = wish.usage_splice {
        let changed = splice.pieces(Bytes::copy_from_slice(body)).concat();
        assert_eq!(changed.len() as u64, splice.length(body.len() as u64));
        if serde_json::from_slice::<serde_json::Value>(body).is_ok() {
            let changed: serde_json::Value = serde_json::from_slice(&changed).expect("a spliced body is JSON still");
            assert_eq!(changed["stream_options"]["include_usage"], true);
        }
    }

    let encoding = ENCODINGS[usize::from(*status) % ENCODINGS.len()];
    let status = if *status < 200 { 200 } else { 400 };
    let reader = || AnswerReader::new(api, status, None, encoding);
    let answer = told(reader(), whole());
    assert_eq!(answer, told(reader(), pieces()), "the cuts of an answer are no part of what it says");
    if let (Some(output), Some(reasoning)) = (answer.usage.output, answer.usage.reasoning) {
        assert!(reasoning <= output);
    }

    assert_eq!(passed(whole()), passed(pieces()), "the cuts of a stream are no part of what is hidden");
});
