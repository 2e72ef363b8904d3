use test_case::test_case;

use super::*;

fn told(api: Api, body: &str) -> Told {
    let mut reader = AnswerReader::new(api, 200, None, None);
    reader.feed(body.as_bytes());
    reader.finish()
}

/// A stream of events with this data.
fn stream(events: &[&str]) -> String {
    events.iter().flat_map(|data| ["data: ", data, "\n\n"]).collect()
}

fn usage(input: u64, cache_read: u64, cache_write: u64, output: u64, reasoning: Option<u64>) -> Usage {
    Usage {
        input: Some(input),
        output: Some(output),
        cache_read: Some(cache_read),
        cache_write: Some(cache_write),
        reasoning,
    }
}

#[test]
fn anthropic_counts_on() {
    let body = stream(&[
        r#"{"type":"message_start","message":{"model":"claude","usage":{"input_tokens":70,"cache_creation_input_tokens":30,"cache_read_input_tokens":3000,"output_tokens":1}}}"#,
        r#"{"type":"content_block_delta","delta":{"text":"\"usage\""}}"#,
        r#"{"type":"message_delta","usage":{"output_tokens":140}}"#,
        r#"{"type":"message_stop"}"#,
    ]);
    let told = told(Api::AnthropicMessages, &body);
    assert_eq!(told.usage, usage(70, 3000, 30, 140, None));
    assert_eq!((told.model.as_deref(), told.complete, told.message), (Some("claude"), true, None));
}

#[test]
fn the_type_of_a_message_is_not_that_of_its_event() {
    let body = stream(&[
        r#"{"type":"message_start","message":{"type":"message","model":"claude","usage":{"input_tokens":70,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}"#,
    ]);
    let told = told(Api::AnthropicMessages, &body);
    assert_eq!(
        (told.usage.input, told.usage.output),
        (Some(70), None),
        "one token of output is where it begins, not ends"
    );
}

// What stands in `usage` of an answer in one piece, and what it means.
#[test_case(r#"{"input_tokens":5,"cache_creation_input_tokens":null,"cache_read_input_tokens":null,"output_tokens":3}"#, usage(5, 0, 0, 3, None); "null is nothing")]
#[test_case(r#"{"input_tokens":5,"output_tokens":3}"#, Usage { input: Some(5), output: Some(3), ..Usage::UNKNOWN }; "untold is unknown")]
#[test_case(r#"{"input_tokens":5,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":4},"cache_read_input_tokens":1,"output_tokens":3}"#, usage(5, 1, 6, 3, None); "the sum of cache writes")]
#[test_case(r#"{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":30,"output_tokens_details":{"thinking_tokens":20},"server_tool_use":{"web_search_requests":2}}"#, usage(5, 0, 0, 30, Some(20)); "thoughts")]
#[test_case(r#"{"input_tokens":23,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":10,"iterations":[{"type":"compaction","input_tokens":180,"cache_creation_input_tokens":1,"cache_read_input_tokens":2,"output_tokens":35},{"type":"message","input_tokens":23,"output_tokens":10}]}"#, usage(203, 2, 1, 45, None); "a summary is beside the sums")]
#[test_case(r#"{"input_tokens":23,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":10,"iterations":[{"input_tokens":7,"type":"advisor_message"}]}"#, Usage::UNKNOWN; "another model advised")]
#[test_case(r#"{"input_tokens":-5,"cache_creation_input_tokens":"0","cache_read_input_tokens":[],"output_tokens":3}"#, Usage { output: Some(3), ..Usage::UNKNOWN }; "no counts")]
#[test_case("{}", Usage::UNKNOWN; "empty")]
#[test_case("null", Usage::UNKNOWN; "none")]
fn anthropic_usage(text: &str, expected: Usage) {
    let body =
        format!(r#"{{"type":"message","model":"m","content":[{{"usage":{{"input_tokens":9}}}}],"usage":{text}}}"#);
    assert_eq!(told(Api::AnthropicMessages, &body).usage, expected);
}

#[test_case(r#"{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}"#, usage(10, 0, 0, 4, None); "no parts")]
#[test_case(r#"{"prompt_tokens":194,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":1},"cost":0.95,"prompt_tokens_details":{"cached_tokens":50,"cache_write_tokens":100,"audio_tokens":0},"total_tokens":196}"#, usage(44, 50, 100, 2, Some(1)); "openrouter")]
#[test_case(r#"{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":36}"#, usage(36, 64, 0, 5, None); "deepseek")]
#[test_case(r#"{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":null}"#, usage(100, 0, 0, 5, None); "null parts")]
#[test_case(r#"{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":11}}"#, Usage { output: Some(4), ..Usage::UNKNOWN }; "more cached than read")]
#[test_case(r#"{"prompt_tokens":1.5,"completion_tokens":4}"#, Usage { output: Some(4), cache_read: Some(0), cache_write: Some(0), ..Usage::UNKNOWN }; "a fraction")]
fn chat_usage(text: &str, expected: Usage) {
    let body = format!(r#"{{"model":"m","choices":[{{"message":{{"content":"x"}}}}],"usage":{text}}}"#);
    assert_eq!(told(Api::OpenAiChat, &body).usage, expected);
    let end = format!(r#"{{"model":"m","choices":[],"usage":{text}}}"#);
    let events = stream(&[r#"{"model":"m","choices":[{"delta":{"content":"x"}}],"usage":null}"#, &end, "[DONE]"]);
    assert_eq!(told(Api::OpenAiChat, &events).usage, expected);
}

#[test_case(r#"{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":5,"thoughtsTokenCount":7,"toolUsePromptTokenCount":3,"totalTokenCount":115}"#, usage(63, 40, 0, 12, Some(7)); "all")]
#[test_case(r#"{"promptTokenCount":100,"totalTokenCount":100}"#, usage(100, 0, 0, 0, Some(0)); "zeros are left out")]
#[test_case(r#"{"candidatesTokenCount":5}"#, Usage { input: None, ..usage(0, 0, 0, 5, Some(0)) }; "no prompt")]
#[test_case(r#"{"promptTokenCount":100,"thoughtsTokenCount":-1}"#, Usage { output: None, reasoning: None, ..usage(100, 0, 0, 0, None) }; "negative thoughts")]
fn gemini_usage(text: &str, expected: Usage) {
    let chunk = format!(r#"{{"candidates":[{{"finishReason":"STOP"}}],"usageMetadata":{text},"modelVersion":"m"}}"#);
    let early = r#"{"candidates":[{}],"usageMetadata":{"promptTokenCount":9999}}"#;
    assert_eq!(told(Api::GeminiGenerate, &chunk).usage, expected);
    assert_eq!(told(Api::GeminiStream, &stream(&[early, &chunk])).usage, expected);
    assert_eq!(told(Api::GeminiStream, &format!("[{early},\r\n{chunk}\n]")).usage, expected);
}

#[test]
fn the_price_that_a_provider_tells_is_kept() {
    let body = r#"{"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":0.001234}}"#;
    assert_eq!(told(Api::OpenAiChat, body).cost, Some(Micros::new(1234)));
    let none = r#"{"model":"m","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"cost":{"total":1}}}"#;
    assert_eq!(told(Api::OpenAiChat, none).cost, None);
}

#[test]
fn responses_are_told_by_their_last_event() {
    for (kind, message) in [("completed", None), ("incomplete", None), ("failed", Some("no \"luck\""))] {
        let error =
            message.map_or("null".to_owned(), |text| serde_json::json!({"code": "x", "message": text}).to_string());
        let last = format!(
            r#"{{"type":"response.{kind}","response":{{"model":"m","status":"{kind}","error":{error},"usage":{{"input_tokens":10,"input_tokens_details":{{"cached_tokens":3}},"output_tokens":4,"output_tokens_details":{{"reasoning_tokens":2}},"total_tokens":14}}}}}}"#
        );
        let body = stream(&[
            r#"{"type":"response.created","response":{"model":"m","usage":null}}"#,
            r#"{"type":"response.output_text.delta","delta":"x"}"#,
            &last,
        ]);
        let told = told(Api::OpenAiResponses, &body);
        assert_eq!((told.usage, told.complete), (usage(7, 3, 0, 4, Some(2)), true));
        assert_eq!(told.message.as_deref(), message);
    }
}

#[test]
fn an_error_event_ends_a_stream() {
    let body = stream(&[r#"{"type":"error","code":"server_error","message":"It broke.","param":null}"#]);
    let told = told(Api::OpenAiResponses, &body);
    assert_eq!((told.complete, told.message.as_deref(), told.usage), (true, Some("It broke."), Usage::UNKNOWN));
}

#[test]
fn usage_among_pieces_of_text_is_settled_by_the_end_only() {
    let first =
        r#"{"model":"m","choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#;
    let second =
        r#"{"model":"m","choices":[{"delta":{"content":"y"}}],"usage":{"prompt_tokens":9,"completion_tokens":2}}"#;
    let cut = told(Api::OpenAiChat, &stream(&[first, second]));
    assert_eq!((cut.usage.input, cut.usage.output, cut.complete), (Some(9), None, false));
    let whole = told(Api::OpenAiChat, &stream(&[first, second, "[DONE]"]));
    assert_eq!((whole.usage, whole.complete), (usage(9, 0, 0, 2, None), true));
}

#[test]
fn a_stream_is_known_by_what_comes_and_not_by_its_header() {
    let mut reader = AnswerReader::new(Api::OpenAiChat, 200, Some("application/json"), None);
    let chunk = r#"{"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}"#;
    reader.feed(b"\xEF\xBB");
    reader.feed(b"\xBF\r\n");
    reader.feed(stream(&[chunk, "[DONE]"]).as_bytes());
    assert_eq!(reader.finish().usage, usage(9, 0, 0, 1, None));
}

#[test]
fn an_event_over_many_lines_is_read() {
    let body = "data: {\"model\":\"m\",\ndata: \"choices\":[],\ndata: \"usage\":{\"prompt_tokens\":9,\ndata: \"completion_tokens\":1}}\n\n";
    assert_eq!(told(Api::OpenAiChat, body).usage, usage(9, 0, 0, 1, None));
}

#[test]
fn an_event_of_any_size_is_read_without_being_kept() {
    let text = "x".repeat(40 << 20);
    let last = format!(
        r#"{{"type":"response.completed","response":{{"output":[{{"text":"{text}"}}],"model":"m","usage":{{"input_tokens":10,"output_tokens":4}}}}}}"#
    );
    let body = stream(&[&last]);
    let mut reader = AnswerReader::new(Api::OpenAiResponses, 200, None, None);
    for piece in body.as_bytes().chunks(16 << 10) {
        reader.feed(piece);
    }
    assert_eq!(reader.finish().usage, usage(10, 0, 0, 4, None));
}

#[test]
fn pages_of_proxies_are_no_messages() {
    let mut reader = AnswerReader::new(Api::AnthropicMessages, 502, Some("text/html"), None);
    reader.feed(b"<html>data: {\"error\":{\"message\":\"no\"}}</html>");
    let told = reader.finish();
    assert_eq!(told.message.as_deref(), Some("status 502 with text/html and no message"));
    assert_eq!(told.usage, Usage::ZERO);
}

#[test_case(r#"{"error":"short"}"#, "short")]
#[test_case(r#"{"detail":"of a framework"}"#, "of a framework")]
#[test_case(r#"{"message":"at the top"}"#, "at the top")]
#[test_case(r#"[{"error":{"code":400,"message":"in an array"}}]"#, "in an array")]
fn errors_in_many_shapes(body: &str, message: &str) {
    let mut reader = AnswerReader::new(Api::GeminiStream, 400, None, None);
    reader.feed(body.as_bytes());
    assert_eq!(reader.finish().message.as_deref(), Some(message));
}

#[test]
fn interfaces_that_are_free_cost_nothing() {
    let mut reader = AnswerReader::new(Api::AnthropicCountTokens, 200, None, None);
    reader.feed(br#"{"input_tokens":2095}"#);
    let told = reader.finish();
    assert_eq!((told.usage, told.complete, told.message), (Usage::ZERO, true, None));
}
