//! What a provider's answer says of its tokens. Read apart from the meter's own reader, and simply: a whole answer is in memory.

use serde_json::Value;

use super::question::Api;
use crate::domain::Usage;

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) usage: Usage,
    pub(super) model: Option<String>,
}

/// Reads an answer: one document, or the events of a stream.
pub(super) fn read(api: Api, answer: &[u8]) -> anyhow::Result<Told> {
    let parts = parts(answer)?;
    let (mut usage, mut model) = (Usage::UNKNOWN, None);
    for part in &parts {
        let (counts, name) = match api {
            // The first event of a stream tells the input, a later one the output.
            Api::Messages => (at(part, &["/usage", "/message/usage"]), at(part, &["/model", "/message/model"])),
            Api::Responses => (at(part, &["/usage", "/response/usage"]), at(part, &["/model", "/response/model"])),
            Api::Chat => (at(part, &["/usage"]), at(part, &["/model"])),
            Api::Gemini => (at(part, &["/usageMetadata"]), at(part, &["/modelVersion"])),
        };
        if let Some(counts) = counts {
            let told = match api {
                Api::Messages => of_messages(counts),
                Api::Responses => of_openai(counts, ["input_tokens", "output_tokens"]),
                Api::Chat => of_openai(counts, ["prompt_tokens", "completion_tokens"]),
                Api::Gemini => of_gemini(counts),
            };
            usage = usage.overlaid_by(told);
        }
        model = name.and_then(Value::as_str).map(str::to_owned).or(model);
    }
    anyhow::ensure!(!usage.is_unknown(), "the answer tells no tokens: {}", short(answer));
    Ok(Told { usage, model })
}

/// Reads what a counter says.
pub(super) fn counter(answer: &[u8]) -> anyhow::Result<u64> {
    let told: Value = serde_json::from_slice(answer)?;
    let count = at(&told, &["/input_tokens", "/totalTokens"]).and_then(Value::as_u64);
    count.ok_or_else(|| anyhow::anyhow!("it tells no tokens: {}", short(answer)))
}

/// The beginning of an answer, for messages.
pub(super) fn short(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).chars().take(300).collect()
}

fn parts(answer: &[u8]) -> anyhow::Result<Vec<Value>> {
    if let Ok(whole) = serde_json::from_slice(answer) {
        return Ok(vec![whole]);
    }
    let text = String::from_utf8_lossy(answer);
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let events: Result<Vec<Value>, _> = data.filter(|data| *data != "[DONE]").map(serde_json::from_str).collect();
    let events = events.map_err(|error| anyhow::anyhow!("an event of the answer is no JSON: {error}"))?;
    anyhow::ensure!(!events.is_empty(), "the answer is neither JSON nor a stream of events: {}", short(answer));
    Ok(events)
}

fn at<'a>(value: &'a Value, paths: &[&str]) -> Option<&'a Value> {
    paths.iter().find_map(|path| value.pointer(path)).filter(|found| !found.is_null())
}

fn count(counts: &Value, path: &str) -> Option<u64> {
    counts.pointer(path).and_then(Value::as_u64)
}

fn of_messages(counts: &Value) -> Usage {
    Usage {
        input: count(counts, "/input_tokens"),
        output: count(counts, "/output_tokens"),
        cache_read: count(counts, "/cache_read_input_tokens"),
        cache_write: count(counts, "/cache_creation_input_tokens"),
        reasoning: None,
    }
}

/// The input holds what is cached; caches that are not told are none.
fn of_openai(counts: &Value, [input, output]: [&str; 2]) -> Usage {
    let part = |name: &str, what: &str| count(counts, &format!("/{name}_details/{what}"));
    let cached = part(input, "cached_tokens").unwrap_or(0);
    let written = part(input, "cache_write_tokens").unwrap_or(0);
    let all = count(counts, &format!("/{input}"));
    let said = count(counts, &format!("/{output}"));
    // Some servers leave reasoning out of the output, and count it in the total.
    let by_total = all.and_then(|all| count(counts, "/total_tokens")?.checked_sub(all));
    Usage {
        input: all.map(|all| all.saturating_sub(cached + written)),
        output: said.map(|said| by_total.unwrap_or(said).max(said)),
        cache_read: Some(cached),
        cache_write: Some(written),
        reasoning: part(output, "reasoning_tokens"),
    }
}

/// What is zero is left out.
fn of_gemini(counts: &Value) -> Usage {
    let part = |name: &str| count(counts, &format!("/{name}")).unwrap_or(0);
    let cached = part("cachedContentTokenCount");
    let input = count(counts, "/promptTokenCount");
    Usage {
        input: input.map(|all| all.saturating_sub(cached) + part("toolUsePromptTokenCount")),
        output: Some(part("candidatesTokenCount") + part("thoughtsTokenCount")),
        cache_read: Some(cached),
        cache_write: Some(0),
        reasoning: Some(part("thoughtsTokenCount")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    const MESSAGES: &str = "event: message_start\ndata: {\"message\":{\"model\":\"m\",\"usage\":{\"input_tokens\":9,\
                            \"cache_read_input_tokens\":0,\"cache_creation_input_tokens\":2,\"output_tokens\":1}}}\n\n\
                            event: message_delta\ndata: {\"usage\":{\"output_tokens\":4}}\n\n";
    const RESPONSES: &str = "data: {\"type\":\"response.created\",\"response\":{\"model\":\"m\",\"usage\":null}}\n\n\
                             data: {\"type\":\"response.completed\",\"response\":{\"model\":\"m\",\"usage\":{\
                             \"input_tokens\":11,\"input_tokens_details\":{\"cached_tokens\":2},\"output_tokens\":4,\
                             \"output_tokens_details\":{\"reasoning_tokens\":3},\"total_tokens\":15}}}\n\n";
    const CHAT: &str = "data: {\"model\":\"m\",\"choices\":[],\"usage\":null}\n\ndata: {\"model\":\"m\",\"choices\":[],\
                        \"usage\":{\"prompt_tokens\":11,\"completion_tokens\":1,\"total_tokens\":15,\
                        \"prompt_tokens_details\":{\"cached_tokens\":2}}}\n\ndata: [DONE]\n\n";
    const GEMINI: &str = "{\"modelVersion\":\"m\",\"usageMetadata\":{\"promptTokenCount\":11,\"candidatesTokenCount\":1,\
                          \"thoughtsTokenCount\":3,\"cachedContentTokenCount\":2}}";

    #[test_case(Api::Messages, MESSAGES, [9, 0, 2, 4], None; "messages")]
    #[test_case(Api::Responses, RESPONSES, [9, 2, 0, 4], Some(3); "responses")]
    #[test_case(Api::Chat, CHAT, [9, 2, 0, 4], None; "chat whose output leaves reasoning out")]
    #[test_case(Api::Gemini, GEMINI, [9, 2, 0, 4], Some(3); "gemini")]
    fn what_an_answer_tells(api: Api, answer: &str, [input, read_, written, output]: [u64; 4], reasoning: Option<u64>) {
        let told = read(api, answer.as_bytes()).expect("it tells");
        let usage = Usage {
            input: Some(input),
            output: Some(output),
            cache_read: Some(read_),
            cache_write: Some(written),
            reasoning,
        };
        assert_eq!(told, Told { usage, model: Some("m".to_owned()) });
    }

    #[test_case("{\"choices\":[]}", "tells no tokens"; "no usage")]
    #[test_case("<html>", "neither JSON nor a stream"; "no answer")]
    #[test_case("data: {\"cut", "no JSON"; "cut")]
    fn what_tells_nothing_is_said(answer: &str, message: &str) {
        let error = read(Api::Chat, answer.as_bytes()).expect_err("nothing is told").to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn counters() {
        assert_eq!(counter(b"{\"input_tokens\":7}").ok(), Some(7));
        assert_eq!(counter(b"{\"totalTokens\":8}").ok(), Some(8));
        assert!(counter(b"{\"error\":{}}").is_err());
    }
}
