//! What one document of an answer tells: the whole of it, an event of a stream, or an element of an array.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::domain::Micros;

use super::api::Api;
use super::counts::{Count, Counts};
use super::json::{Key, Kind, Scalar, Visit};

/// What a document says it is, as far as it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Said {
    #[default]
    Other,
    /// The first event of an Anthropic stream: its count of the output is not the last one.
    Start,
    /// The last event of a stream, or with Gemini one that says why the answer ends.
    End,
    /// An error, in place of what else would have come.
    Error,
}

/// What a part of an exchange was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Iteration {
    /// One of the message's own: in its sums.
    #[default]
    Summed,
    /// A summary of the conversation: in no sum.
    Beside,
}

/// What a document tells.
#[derive(Debug, Default)]
pub(super) struct Event {
    pub(super) said: Said,
    pub(super) counts: Counts,
    pub(super) model: Option<String>,
    pub(super) error: Option<String>,
    /// A sentence where only errors have one, if it is an error.
    pub(super) remark: Option<String>,
    /// There are choices, and none in them.
    pub(super) no_choices: bool,
    pub(super) cost: Option<Micros>,
    /// Tokens of another model are among what was used.
    pub(super) foreign: bool,
    /// The iteration that is being read, and whether it counts beside the sums.
    iteration: Counts,
    iteration_kind: Iteration,
    /// What such iterations used.
    beside: Counts,
    /// The counts of a usage object whose end has not come.
    open: Counts,
}

enum Place {
    Type,
    Model,
    Error,
    Remark,
    Finish,
    Cost,
    Count(Key),
    IterationType,
    IterationCount(Key),
}

/// Where a value stands. An answer's object is also told within an envelope (`message`, `response`) or an array.
fn place(path: &[Key]) -> Option<Place> {
    let path = match path {
        // The envelope says what the event is; what is in it is of another type.
        [Key::Message | Key::Response, Key::Type] => return None,
        [Key::Item | Key::Message | Key::Response, rest @ ..] if !rest.is_empty() => rest,
        path => path,
    };
    match path {
        [Key::Type] => Some(Place::Type),
        [Key::Model] => Some(Place::Model),
        [Key::Error | Key::Detail] | [Key::Error, Key::Message] => Some(Place::Error),
        [Key::Message] => Some(Place::Remark),
        [Key::Candidates, Key::Item, Key::FinishReason] | [Key::PromptFeedback, Key::BlockReason] => {
            Some(Place::Finish)
        }
        [Key::Usage, rest @ ..] | [Key::Choices, Key::Item, Key::Usage, rest @ ..] => usage_place(rest),
        _ => None,
    }
}

fn usage_place(path: &[Key]) -> Option<Place> {
    match path {
        [Key::Cost] => Some(Place::Cost),
        [Key::Iterations, Key::Item, Key::Type] => Some(Place::IterationType),
        [Key::Iterations, Key::Item, key] | [Key::Iterations, Key::Item, Key::CacheCreation, key] => {
            Some(Place::IterationCount(*key))
        }
        [key] | [Key::InputDetails | Key::OutputDetails | Key::CacheCreation, key] => Some(Place::Count(*key)),
        _ => None,
    }
}

fn slot(counts: &mut Counts, key: Key) -> Option<&mut Count> {
    Some(match key {
        Key::Input => &mut counts.input,
        Key::CacheRead => &mut counts.cache_read,
        Key::CacheHit => &mut counts.cache_hit,
        Key::CacheWrite => &mut counts.cache_write,
        Key::CacheWriteShort => &mut counts.cache_write_short,
        Key::CacheWriteLong => &mut counts.cache_write_long,
        Key::ToolInput => &mut counts.tool_input,
        Key::Output => &mut counts.output,
        Key::Reasoning => &mut counts.reasoning,
        Key::Total => &mut counts.total,
        _ => return None,
    })
}

fn count(value: Scalar<'_>) -> Count {
    match value {
        Scalar::Number(number) => Count::parse(number),
        Scalar::Null => Count::Null,
        Scalar::String(_) | Scalar::True | Scalar::False => Count::Wrong,
    }
}

/// What an event of a stream is, by its type. Anthropic and OpenAI Responses name them differently enough.
fn said(name: &str) -> Said {
    match name {
        "message_start" => Said::Start,
        "message_stop" | "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled" => {
            Said::End
        }
        "error" => Said::Error,
        _ => Said::Other,
    }
}

impl Event {
    fn take(&mut self, place: Place, value: Scalar<'_>) {
        match (place, value) {
            (Place::Type, Scalar::String(name)) => self.said = said(name),
            (Place::Model, Scalar::String(name)) if !name.is_empty() => self.model = Some(name.to_owned()),
            (Place::Error, Scalar::String(text)) => self.error = Some(text.to_owned()),
            (Place::Remark, Scalar::String(text)) => self.remark = Some(text.to_owned()),
            (Place::Finish, Scalar::String(_)) => self.said = Said::End,
            (Place::Cost, Scalar::Number(number)) => {
                self.cost =
                    number.parse().ok().filter(|cost| *cost >= 0.0).and_then(|cost| Micros::from_dollars(cost).ok());
            }
            (Place::Count(key), value) => {
                if let Some(slot) = slot(&mut self.open, key) {
                    *slot = count(value);
                }
            }
            (Place::IterationType, Scalar::String(name)) => {
                self.iteration_kind = if name == "compaction" { Iteration::Beside } else { Iteration::Summed };
                self.foreign |= name == "advisor_message";
            }
            (Place::IterationCount(key), value) => {
                if let Some(slot) = slot(&mut self.iteration, key) {
                    *slot = count(value);
                }
            }
            _ => {}
        }
    }
}

impl Visit for Event {
    fn begins(&mut self, path: &[Key], kind: Kind, _at: u64) -> bool {
        match (path, kind) {
            ([Key::Choices], Kind::Array) => self.no_choices = true,
            ([Key::Choices, Key::Item], _) => self.no_choices = false,
            _ => {}
        }
        let Some(place) = place(path) else { return false };
        match kind {
            Kind::String | Kind::Number | Kind::Word => true,
            Kind::Object | Kind::Array => {
                if let Place::Count(key) = place
                    && let Some(slot) = slot(&mut self.open, key)
                {
                    *slot = Count::Wrong;
                }
                false
            }
        }
    }

    fn scalar(&mut self, path: &[Key], value: Scalar<'_>, _end: u64) {
        if let Some(place) = place(path) {
            self.take(place, value);
        }
    }

    fn closes(&mut self, path: &[Key], _kind: Kind, _at: u64) {
        let inner = match path {
            [Key::Item | Key::Message | Key::Response, rest @ ..] if !rest.is_empty() => rest,
            path => path,
        };
        match inner {
            [Key::Usage, Key::Iterations, Key::Item] => {
                let iteration = std::mem::take(&mut self.iteration);
                if std::mem::take(&mut self.iteration_kind) == Iteration::Beside {
                    self.beside = self.beside.plus(iteration);
                }
            }
            [Key::Usage] | [Key::Choices, Key::Item, Key::Usage] => {
                self.counts = std::mem::take(&mut self.open).plus(std::mem::take(&mut self.beside));
            }
            _ => {}
        }
    }
}

/// The key of a usage object. A quote in a string is escaped, so that what is found by it are keys.
pub(super) static USAGE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""usage""#));
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(br#""error""#));

/// From this length on an event is mostly text.
const LONG: usize = 1024;

/// Tells whether an event has to be read, given all its data in one piece. Most events of a stream are pieces of text,
/// which tell neither tokens nor an end; they are known by a look at a few bytes.
pub(super) fn may_tell(api: Api, model_known: bool, data: &[u8]) -> bool {
    match api {
        Api::AnthropicMessages => declared_type(data) != Some(b"content_block_delta"),
        Api::OpenAiResponses => {
            declared_type(data).is_none_or(|name| !name.starts_with(b"response.") || !name.ends_with(b".delta"))
        }
        // Skipping the text of a long one is faster than two searches through it.
        Api::OpenAiChat => data.len() > LONG || !model_known || has(data, &USAGE) || has(data, &ERROR),
        _ => true,
    }
}

/// Tells whether a key is there with a value.
pub(super) fn has(data: &[u8], key: &Finder<'_>) -> bool {
    key.find_iter(data).any(|at| !is_null(&data[at + key.needle().len()..]))
}

/// The type of an event that begins with it.
fn declared_type(data: &[u8]) -> Option<&[u8]> {
    let rest = data.strip_prefix(b"{\"type\":")?.trim_ascii_start().strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    (rest[end] == b'"').then(|| &rest[..end])
}

/// Tells whether a key's value is `null`, given what follows the key.
fn is_null(rest: &[u8]) -> bool {
    let value = rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
    value.is_some_and(|value| value.starts_with(b"null"))
}
