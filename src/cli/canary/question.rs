//! What a provider is asked, by each interface.

use serde::Serialize;
use serde_json::{Value, json};

/// What is asked.
const PROMPT: &str = "Answer with the one word: ready";

/// The most tokens of an answer: the least that all interfaces take.
const MOST: u32 = 16;

/// An interface of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Api {
    /// Anthropic Messages
    Messages,
    /// OpenAI Responses
    Responses,
    /// OpenAI Chat Completions, and what is compatible with it
    Chat,
    /// Gemini
    Gemini,
}

impl Api {
    /// The interfaces of a provider.
    pub(super) fn usual(provider: &str) -> &'static [Self] {
        match provider {
            "anthropic" => &[Self::Messages],
            "openai" => &[Self::Responses, Self::Chat],
            "gemini" | "google" => &[Self::Gemini],
            _ => &[Self::Chat],
        }
    }

    /// Its name for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Chat => "chat",
            Self::Gemini => "gemini",
        }
    }
}

/// A small model of a known provider.
pub(super) fn small_model(provider: &str, api: Api) -> Option<&'static str> {
    match (provider, api) {
        ("anthropic", Api::Messages) => Some("claude-haiku-4-5"),
        ("openai", Api::Responses | Api::Chat) => Some("gpt-5-mini"),
        ("gemini" | "google", Api::Gemini) => Some("gemini-2.5-flash-lite"),
        ("openrouter", Api::Chat) => Some("openai/gpt-5-mini"),
        _ => None,
    }
}

/// One question.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub(super) api: Api,
    pub(super) stream: bool,
    pub(super) model: String,
}

impl Question {
    pub(super) fn path(&self) -> String {
        match self.api {
            Api::Messages => "/v1/messages".to_owned(),
            Api::Responses => "/v1/responses".to_owned(),
            Api::Chat => "/v1/chat/completions".to_owned(),
            Api::Gemini if self.stream => format!("/v1beta/models/{}:streamGenerateContent?alt=sse", self.model),
            Api::Gemini => format!("/v1beta/models/{}:generateContent", self.model),
        }
    }

    pub(super) fn body(&self) -> Value {
        let (model, stream) = (&self.model, self.stream);
        match self.api {
            Api::Messages => {
                json!({"model": model, "max_tokens": MOST, "stream": stream, "messages": messages()})
            }
            // Some models think before they answer, and some servers know none of the names for a limit of that.
            Api::Responses => json!({"model": model, "stream": stream, "input": PROMPT, "store": false}),
            Api::Chat if stream => {
                let options = json!({"include_usage": true});
                json!({"model": model, "stream": true, "stream_options": options, "messages": messages()})
            }
            Api::Chat => json!({"model": model, "messages": messages()}),
            Api::Gemini => json!({"contents": contents(), "generationConfig": {"maxOutputTokens": MOST}}),
        }
    }

    /// Where the provider counts the input without answering, and what it is asked there.
    pub(super) fn counter(&self) -> Option<(String, Value)> {
        let model = &self.model;
        match self.api {
            Api::Messages => {
                Some(("/v1/messages/count_tokens".to_owned(), json!({"model": model, "messages": messages()})))
            }
            Api::Gemini => Some((format!("/v1beta/models/{model}:countTokens"), json!({"contents": contents()}))),
            Api::Responses | Api::Chat => None,
        }
    }
}

fn messages() -> Value {
    json!([{"role": "user", "content": PROMPT}])
}

fn contents() -> Value {
    json!([{"role": "user", "parts": [{"text": PROMPT}]}])
}
