use super::*;

fn told(api: Api, body: &str) -> Told {
    let mut reader = AnswerReader::new(api, 200, None, None);
    reader.feed(body.as_bytes());
    reader.finish()
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
    let body = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude\",\"usage\":{\"input_tokens\":70,\"cache_creation_input_tokens\":30,\"cache_read_input_tokens\":3000,\"output_tokens\":1}}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"\\\"usage\\\"\"}}\n\n: ping\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":140}}\n\ndata: {\"type\":\"message_stop\"}\n\n";
    let told = told(Api::AnthropicMessages, body);
    assert_eq!(told.usage, usage(70, 3000, 30, 140, None));
    assert_eq!((told.model.as_deref(), told.complete, told.message), (Some("claude"), true, None));
}

#[test]
fn the_type_of_a_message_is_not_that_of_its_event() {
    let body = "data: {\"type\":\"message_start\",\"message\":{\"type\":\"message\",\"model\":\"claude\",\"usage\":{\"input_tokens\":70,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,\"output_tokens\":1}}}\n\n";
    let told = told(Api::AnthropicMessages, body);
    assert_eq!(
        (told.usage.input, told.usage.output),
        (Some(70), None),
        "one token of output is where it begins, not ends"
    );
}
