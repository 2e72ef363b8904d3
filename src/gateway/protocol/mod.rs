//! The languages of model providers: what a request asks, and what an answer tells.
//!
//! Pure readers: bytes go in as they pass, facts come out. Nothing is encoded anew, memory stays constant whatever passes,
//! and the cuts of a stream are no part of what it says. [`recognise`] finds the interface, a [`RequestReader`] reads a
//! request's body, an [`AnswerReader`] an answer's, a [`UsageFilter`] hides what was asked for on a client's behalf, and
//! [`refusal`] speaks in a provider's place.
//!
//! # What the five classes are
//!
//! [`Usage`](crate::domain::Usage) leaves cached tokens out of `input` and counts reasoning within `output`.
//!
//! | class | Anthropic | OpenAI Responses, Chat Completions | Gemini |
//! |---|---|---|---|
//! | `input` | `input_tokens` | `input_tokens`/`prompt_tokens` less the two below | `promptTokenCount` less the one below, and `toolUsePromptTokenCount` |
//! | `cache_read` | `cache_read_input_tokens` | `…_details.cached_tokens`, or DeepSeek's `prompt_cache_hit_tokens`; untold: 0 | `cachedContentTokenCount`; untold: 0 |
//! | `cache_write` | `cache_creation_input_tokens`, or the sum of `cache_creation` | `…_details.cache_write_tokens`; untold: 0 | 0: it has no such class |
//! | `output` | `output_tokens` | `output_tokens`/`completion_tokens` | `candidatesTokenCount` and `thoughtsTokenCount` |
//! | `reasoning` | `output_tokens_details.thinking_tokens`; untold: unknown | `…_details.reasoning_tokens`; untold: unknown | `thoughtsTokenCount`; untold: 0 |
//!
//! - **Untold with Anthropic** is unknown and `null` is zero: its documentation has the caches in every answer, and their
//!   tokens beside `input_tokens`.
//! - **Untold with OpenAI** is zero. Caches are parts of an input that is told, and a server that tells no parts bills all
//!   of it as input (no other reading has a price). The API of Chat Completions has no cache writes at all; OpenRouter
//!   tells them.
//! - **Untold with Gemini** is zero: its fields are left out where they are zero.
//! - Servers whose output leaves reasoning out are known by their total: what it has more than input and output is
//!   reasoning, and belongs to the output.
//! - Anthropic counts on from event to event, and the larger number holds. Of the others the last usage holds. Until a
//!   count is the last one it is unknown: a stream that is cut tells its input and not its output.
//! - `usage.iterations` of Anthropic: summaries of the conversation (`compaction`) are in no sum and are added. Where a
//!   second model advised, everything is unknown: its tokens have another price.
//! - Negative numbers, fractions, words, and parts that are larger than the whole: the classes concerned are unknown.

mod answer;
mod api;
mod counts;
mod encoding;
mod event;
mod filter;
mod json;
mod refusal;
mod request;
mod route;
mod sse;
mod story;

pub use answer::{AnswerReader, Fed, Told};
pub use api::{Api, Family};
pub use filter::UsageFilter;
pub use refusal::{RefusalKind, refusal};
pub use request::{Asked, RequestReader, Splice};
pub use route::{Route, recognise};
