//! A judge's request and answer in the shapes of the interfaces that it is asked by.

use serde_json::{Value, json};

use super::prompt::Prompt;
use crate::config::judge::{JudgeInterface, JudgePlan};

/// Characters of a provider's error that are told.
const LONGEST_ERROR: usize = 500;

/// Returns path and body of a request.
#[must_use]
pub fn request(judge: &JudgePlan, prompt: &Prompt) -> (String, Value) {
    let (model, tokens) = (judge.model.name.as_str(), judge.max_tokens);
    match judge.interface {
        JudgeInterface::AnthropicMessages => {
            let messages = json!([{"role": "user", "content": prompt.text}]);
            let body = json!({"model": model, "max_tokens": tokens, "system": prompt.system, "messages": messages});
            ("/v1/messages".to_owned(), body)
        }
        JudgeInterface::OpenAiChat => {
            let messages =
                json!([{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.text}]);
            let mut body = json!({"model": model, "messages": messages});
            // OpenAI's newer models refuse the key that everybody else knows.
            let key = if judge.model.provider == "openai" { "max_completion_tokens" } else { "max_tokens" };
            body[key] = json!(tokens);
            ("/v1/chat/completions".to_owned(), body)
        }
        JudgeInterface::GeminiGenerate => {
            let body = json!({
                "systemInstruction": {"parts": [{"text": prompt.system}]},
                "contents": [{"role": "user", "parts": [{"text": prompt.text}]}],
                "generationConfig": {"maxOutputTokens": tokens},
            });
            (format!("/v1beta/models/{model}:generateContent"), body)
        }
    }
}

/// Returns what the model said in an answer: its text, and none of its thoughts.
///
/// # Errors
///
/// Why there is none.
pub fn said(interface: JudgeInterface, answer: &Value) -> Result<String, String> {
    let (text, stop) = match interface {
        JudgeInterface::AnthropicMessages => (blocks(&answer["content"]), &answer["stop_reason"]),
        JudgeInterface::OpenAiChat => {
            let message = &answer["choices"][0]["message"];
            if let Some(refusal) = message["refusal"].as_str().filter(|refusal| !refusal.is_empty()) {
                return Err(format!("the model refused: {}", shortened(refusal)));
            }
            let content = &message["content"];
            let text = content.as_str().map_or_else(|| blocks(content), str::to_owned);
            (text, &answer["choices"][0]["finish_reason"])
        }
        JudgeInterface::GeminiGenerate => {
            let candidate = &answer["candidates"][0];
            let parts = candidate["content"]["parts"].as_array().into_iter().flatten();
            let spoken = parts.filter(|part| part["thought"] != json!(true)).filter_map(|part| part["text"].as_str());
            (spoken.collect(), &candidate["finishReason"])
        }
    };
    match stop.as_str() {
        Some("refusal" | "content_filter" | "SAFETY") => Err("the model refused".to_owned()),
        Some("max_tokens" | "length" | "MAX_TOKENS") => {
            Err("the answer was cut at `max_tokens`: raise it in `judge`".to_owned())
        }
        _ if text.trim().is_empty() => Err("the answer holds no text".to_owned()),
        _ => Ok(text),
    }
}

/// Joins the blocks of text; a thinking model's thoughts are blocks of another type.
fn blocks(content: &Value) -> String {
    let texts = content.as_array().into_iter().flatten().filter(|block| block["type"] == "text");
    texts.filter_map(|block| block["text"].as_str()).collect()
}

/// Returns what a provider, or the gateway in its place, says in an error's body.
#[must_use]
pub fn complaint(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let message = serde_json::from_slice::<Value>(body).ok().and_then(|body| {
        let error = &body["error"];
        error["message"].as_str().or_else(|| error.as_str()).map(str::to_owned)
    });
    shortened(&message.unwrap_or_else(|| text.into_owned()))
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(LONGEST_ERROR).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    use JudgeInterface::{AnthropicMessages, GeminiGenerate, OpenAiChat};

    #[test_case(AnthropicMessages, json!({"content": [{"type": "thinking", "thinking": "no"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "stop_reason": "end_turn"}), "ab"; "thoughts are no text")]
    #[test_case(OpenAiChat, json!({"choices": [{"message": {"content": "ab", "reasoning_content": "no"}, "finish_reason": "stop"}]}), "ab"; "chat")]
    #[test_case(OpenAiChat, json!({"choices": [{"message": {"content": [{"type": "text", "text": "ab"}]}}]}), "ab"; "chat in parts")]
    #[test_case(GeminiGenerate, json!({"candidates": [{"content": {"parts": [{"text": "no", "thought": true}, {"text": "ab"}]}, "finishReason": "STOP"}]}), "ab"; "gemini")]
    fn the_text_is_found(interface: JudgeInterface, answer: Value, text: &str) {
        assert_eq!(said(interface, &answer).as_deref(), Ok(text));
    }

    #[test_case(AnthropicMessages, json!({"content": [{"type": "thinking", "thinking": "{}"}]}), "holds no text"; "only thoughts")]
    #[test_case(AnthropicMessages, json!({"content": [{"type": "text", "text": "{}"}], "stop_reason": "max_tokens"}), "cut at `max_tokens`"; "cut")]
    #[test_case(AnthropicMessages, json!({"content": [], "stop_reason": "refusal"}), "refused"; "refused")]
    #[test_case(OpenAiChat, json!({"choices": [{"message": {"content": null, "refusal": "I will not"}}]}), "refused: I will not"; "refused in words")]
    #[test_case(OpenAiChat, json!({"choices": []}), "holds no text"; "no choice")]
    #[test_case(GeminiGenerate, json!({"candidates": [{"finishReason": "SAFETY"}]}), "refused"; "not safe")]
    fn what_is_no_answer_is_said(interface: JudgeInterface, answer: Value, why: &str) {
        let error = said(interface, &answer).expect_err("no text");
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn complaints_are_found_in_any_shape() {
        assert_eq!(complaint(br#"{"type":"error","error":{"type":"x","message":"busy"}}"#), "busy");
        assert_eq!(complaint(br#"{"error":"busy"}"#), "busy");
        assert_eq!(complaint(b"<html>busy</html>"), "<html>busy</html>");
    }
}
