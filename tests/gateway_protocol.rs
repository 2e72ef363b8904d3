//! What the scripted provider served, as the gateway reads it: every interface, streaming and not, with every fault.
#![cfg(feature = "gateway")]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::prelude::*;
use refrain::domain::Usage;
use refrain::gateway::protocol::{AnswerReader, Api, Told, UsageFilter, recognise};
use serde::Deserialize;
use test_case::test_case;

/// One answer of the scripted provider; `tests/fixtures/gateway/record.py` asked for it.
#[derive(Debug, Deserialize)]
struct Answer {
    api: String,
    streams: String,
    fault: serde_json::Value,
    path: String,
    status: u16,
    content_type: String,
    body: String,
    whole: bool,
    model: String,
    served: Option<Served>,
    outcome: String,
}

#[derive(Debug, Deserialize, Clone, Copy)]
struct Served {
    input: u64,
    cache_read: u64,
    cache_write: u64,
    output: u64,
    reasoning: u64,
}

impl Answer {
    fn all() -> Vec<Self> {
        let text = include_str!("fixtures/gateway/answers.jsonl");
        text.lines().map(|line| serde_json::from_str(line).expect("a line is an answer")).collect()
    }

    fn api(&self) -> Api {
        recognise("POST", &self.path).expect("the path is known").api
    }

    fn reader(&self, encoding: Option<&str>) -> AnswerReader {
        AnswerReader::new(self.api(), self.status, Some(&self.content_type), encoding)
    }

    fn told(&self) -> Told {
        read(self.reader(None), [self.body.as_bytes()])
    }

    /// What was served, in the classes that the interface tells.
    fn usage(&self) -> Usage {
        let Some(Served { input, cache_read, cache_write, output, reasoning }) = self.served else {
            return Usage::ZERO;
        };
        // Two interfaces have no cache writes: there they are input.
        let (input, cache_write) = if matches!(self.api(), Api::OpenAiChat | Api::GeminiGenerate | Api::GeminiStream) {
            (input + cache_write, 0)
        } else {
            (input, cache_write)
        };
        let reasoning = (self.api() != Api::AnthropicMessages).then_some(reasoning);
        Usage {
            input: Some(input),
            output: Some(output),
            cache_read: Some(cache_read),
            cache_write: Some(cache_write),
            reasoning,
        }
    }

    fn has_fault(&self, kind: &str) -> bool {
        self.fault["kind"] == kind
    }

    fn fails_in_stream(&self) -> bool {
        self.fault["in_stream"] == true && self.status == 200
    }
}

fn read<'a>(mut reader: AnswerReader, pieces: impl IntoIterator<Item = &'a [u8]>) -> Told {
    for piece in pieces {
        reader.feed(piece);
    }
    reader.finish()
}

#[test]
fn what_was_served_in_full_is_what_is_told() {
    let mut looked_at = 0;
    for answer in Answer::all() {
        let whole = answer.outcome == "complete" && answer.served.is_some();
        if !whole {
            continue;
        }
        looked_at += 1;
        assert_eq!(answer.api().name(), answer.api);
        let told = answer.told();
        assert_eq!(told.usage, answer.usage(), "{answer:?}");
        let model = answer.model.as_str();
        assert_eq!((told.model.as_deref(), told.complete, told.message), (Some(model), true, None), "{answer:?}");
    }
    assert_eq!(looked_at, 18);
}

#[test]
fn errors_cost_nothing_and_say_why() {
    let mut looked_at = 0;
    for answer in Answer::all().into_iter().filter(|answer| answer.status >= 400) {
        looked_at += 1;
        let told = answer.told();
        assert_eq!((told.usage, told.complete), (Usage::ZERO, true), "{answer:?}");
        let message = told.message.expect("an error has a message");
        let body: serde_json::Value = serde_json::from_str(&answer.body).expect("is JSON");
        assert_eq!(message, body["error"]["message"], "{answer:?}");
    }
    assert_eq!(looked_at, 5 * 9 + 4);
}

#[test]
fn an_error_within_a_stream_is_heard_and_the_output_unknown() {
    let answers: Vec<Answer> = Answer::all().into_iter().filter(Answer::fails_in_stream).collect();
    assert_eq!(answers.len(), 5);
    for answer in answers {
        let told = answer.told();
        assert_eq!(told.usage.output, None, "{answer:?}");
        assert!(
            told.complete && told.message.as_deref().is_some_and(|text| text.to_lowercase().contains("overloaded"))
        );
        if answer.api() == Api::AnthropicMessages {
            assert_eq!((told.usage.input, told.usage.cache_read), (Some(70), Some(3000)));
        }
    }
}

#[test]
fn an_empty_answer_tells_nothing() {
    let answers: Vec<Answer> = Answer::all().into_iter().filter(|answer| answer.has_fault("empty_body")).collect();
    assert_eq!(answers.len(), 9);
    for answer in answers {
        let told = answer.told();
        assert_eq!((told.usage, told.complete), (Usage::UNKNOWN, false));
        assert_eq!(told.message.as_deref(), Some("the answer is empty"));
    }
}

#[test]
fn a_cut_answer_is_not_complete_and_claims_no_output() {
    let answers: Vec<Answer> = Answer::all().into_iter().filter(|answer| answer.outcome == "cut").collect();
    assert_eq!(answers.len(), 18);
    for answer in answers {
        let told = answer.told();
        assert!(!told.complete, "{answer:?}");
        assert_eq!(told.usage.output, None, "{answer:?}");
        if answer.streams != "no" && matches!(answer.api(), Api::AnthropicMessages | Api::GeminiStream) {
            assert_eq!(told.usage.input, answer.usage().input, "{answer:?}");
            assert_eq!(told.usage.cache_read, answer.usage().cache_read, "{answer:?}");
        }
    }
}

#[test]
fn an_event_that_cannot_be_read_takes_none_of_the_others_along() {
    let answers =
        Answer::all().into_iter().filter(|answer| answer.outcome == "malformed" && answer.streams == "events");
    let mut looked_at = 0;
    for answer in answers {
        looked_at += 1;
        let told = answer.told();
        assert_eq!((told.usage, told.complete), (answer.usage(), true), "{answer:?}");
        assert_eq!(told.message.as_deref(), Some("1 event of the answer could not be read"), "{answer:?}");
    }
    assert_eq!(looked_at, 4);
}

#[test]
fn the_end_of_an_answer_is_seen_in_the_piece_that_holds_it() {
    let answers = Answer::all().into_iter().filter(|answer| answer.outcome == "complete" && answer.status == 200);
    for answer in answers.filter(|answer| !answer.has_fault("empty_body")) {
        let mut reader = answer.reader(None);
        let bytes = answer.body.as_bytes();
        let ends: Vec<usize> = (0..bytes.len()).filter(|at| reader.feed(&bytes[*at..=*at]).terminal).collect();
        let last = bytes.trim_ascii_end().len();
        assert!(ends.last().is_some_and(|end| *end + 2 >= last), "{ends:?} of {last}: {answer:?}");
    }
}

#[test]
fn usage_is_known_once_the_end_was_fed() {
    for answer in Answer::all().into_iter().filter(|answer| answer.outcome == "complete" && answer.served.is_some()) {
        let mut reader = answer.reader(None);
        reader.feed(answer.body.as_bytes());
        assert_eq!(reader.so_far(), answer.usage(), "{answer:?}");
    }
}

#[test_case("gzip")]
#[test_case("x-gzip")]
#[test_case("deflate")]
#[test_case("raw deflate")]
fn compressed_answers_tell_the_same(coding: &str) {
    for answer in Answer::all().into_iter().filter(|answer| !answer.body.is_empty() && answer.whole) {
        let (bytes, level) = (answer.body.as_bytes(), Compression::default());
        let packed = match coding {
            "deflate" => {
                let mut packer = ZlibEncoder::new(Vec::new(), level);
                packer.write_all(bytes).and_then(|()| packer.finish()).unwrap()
            }
            "raw deflate" => {
                let mut packer = DeflateEncoder::new(Vec::new(), level);
                packer.write_all(bytes).and_then(|()| packer.finish()).unwrap()
            }
            _ => {
                let mut packer = GzEncoder::new(Vec::new(), level);
                packer.write_all(bytes).and_then(|()| packer.finish()).unwrap()
            }
        };
        let name = coding.trim_start_matches("raw ");
        for step in [1, 7, packed.len()] {
            assert_eq!(read(answer.reader(Some(name)), packed.chunks(step)), answer.told(), "{answer:?}");
        }
    }
}

#[test]
fn compressed_events_are_told_as_soon_as_they_were_flushed() {
    let answer =
        Answer::all().into_iter().find(|answer| answer.api == "anthropic_messages" && answer.streams == "events");
    let answer = answer.expect("there is a stream");
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    let mut reader = answer.reader(Some("gzip"));
    let mut ends = Vec::new();
    let events: Vec<&str> = answer.body.split_inclusive("\n\n").collect();
    for event in &events {
        gzip.write_all(event.as_bytes()).and_then(|()| gzip.flush()).unwrap();
        let packed = std::mem::take(gzip.get_mut());
        ends.push(reader.feed(&packed).terminal);
    }
    assert_eq!(ends.iter().position(|end| *end), Some(events.len() - 1));
}

#[test]
fn an_encoding_that_is_not_read_is_said_so() {
    let mut reader = AnswerReader::new(Api::OpenAiChat, 200, None, Some("br"));
    reader.feed(b"\x1b\x00\x00");
    let told = reader.finish();
    // Nobody here can tell whether it came to its end. That it broke off is said where its frames do.
    assert_eq!((told.usage, told.complete), (Usage::UNKNOWN, true));
    assert!(told.message.is_some_and(|message| message.contains("br")));
}

#[test]
fn broken_compression_is_said_so() {
    for bytes in [&b"no gzip at all"[..], b"\x1F\x8B\x08\0\0\0\0\0\0\x03\xFF\xFF\xFF\xFF\xFF"] {
        let told = read(AnswerReader::new(Api::OpenAiChat, 200, None, Some("gzip")), bytes.chunks(4));
        assert_eq!((told.usage, told.complete), (Usage::UNKNOWN, false));
        assert_eq!(told.message.as_deref(), Some("the answer's compressed data is broken"));
    }
}

#[test]
fn a_client_that_did_not_ask_for_usage_does_not_see_it() {
    for answer in Answer::all().into_iter().filter(|answer| answer.api == "openai_chat" && answer.streams == "events") {
        let mut filter = UsageFilter::new();
        let mut passed = filter.pass(Bytes::copy_from_slice(answer.body.as_bytes())).to_vec();
        passed.extend_from_slice(&filter.finish());
        let shown = answer.body.split_inclusive("\n\n").filter(|event| !event.contains(r#""choices": [], "usage": {"#));
        assert_eq!(String::from_utf8(passed).unwrap(), shown.collect::<String>());
    }
}

/// All answers, whole and cut, with the line ends that are allowed.
fn answers() -> impl Strategy<Value = (usize, bool, usize)> {
    (0..Answer::all().len(), any::<bool>(), 1..400usize)
}

proptest! {
    #[test]
    fn cuts_of_a_stream_are_no_part_of_what_it_says((index, returns, step) in answers()) {
        let answer = Answer::all().swap_remove(index);
        let body = if returns { answer.body.replace('\n', "\r\n") } else { answer.body.clone() };
        let whole = read(answer.reader(None), [body.as_bytes()]);
        prop_assert_eq!(read(answer.reader(None), body.as_bytes().chunks(step)), whole.clone());
        if answer.streams == "events" {
            prop_assert_eq!(whole, answer.told());
        }
    }

    #[test]
    fn a_stream_that_ends_anywhere_never_tells_another_count((index, _, end) in answers(), share in 0..1000usize) {
        let answer = Answer::all().swap_remove(index);
        let bytes = answer.body.as_bytes();
        let cut = &bytes[..bytes.len() * share / 1000];
        let told = read(answer.reader(None), cut.chunks(end));
        prop_assume!(answer.status == 200 && answer.served.is_some());
        let (usage, served) = (told.usage, answer.usage());
        for (told, served) in [
            (usage.input, served.input),
            (usage.output, served.output),
            (usage.cache_read, served.cache_read),
            (usage.cache_write, served.cache_write),
            (usage.reasoning, served.reasoning),
        ] {
            prop_assert!(told.is_none() || told == served, "{:?} of {:?}", usage, served);
        }
    }
}
