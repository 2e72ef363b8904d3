//! Requests without what differs from run to run.

mod directory;
mod words;

use serde_json::{Map, Value, json};

use crate::redact::Redactor;

use super::places::Places;
use super::tape::RecordedRequest;

/// Fields at the top of a request that say who asks and not what.
const AT_THE_TOP: &[&str] =
    &["metadata", "user", "client_metadata", "prompt_cache_key", "prompt_cache_retention", "safety_identifier"];

/// Fields that are ids of something that is made anew in each run.
const ANYWHERE: &[&str] = &["session_id", "conversation_id", "thread_id", "request_id"];

/// Numbers from here on are moments: seconds or milliseconds since 1970.
const FIRST_MOMENT: f64 = 1e9;

/// Returns the request's JSON as it is compared and kept; a text where it is none.
pub(super) fn request(request: &RecordedRequest, redactor: &Redactor, places: &Places) -> Value {
    let mut value = serde_json::from_slice(&request.body)
        .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&request.body).into_owned()));
    redactor.redact_json(&mut value);
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, _| !AT_THE_TOP.contains(&name.as_str()));
    }
    let place = directory::named_in(&value);
    quieten(&mut value, (places, place.as_ref()));
    value
}

fn quieten(value: &mut Value, (places, place): (&Places, Option<&directory::Place>)) {
    match value {
        Value::String(text) => {
            *text = places.quiet(text);
            if let Some(place) = place {
                *text = place.hidden_in(text);
            }
            *text = words::quiet(text);
        }
        Value::Number(number) if number.as_f64().is_some_and(|number| number >= FIRST_MOMENT) => {
            *value = Value::String("<number>".to_owned());
        }
        Value::Array(items) => items.iter_mut().for_each(|item| quieten(item, (places, place))),
        Value::Object(fields) => {
            fields.retain(|name, _| !ANYWHERE.contains(&name.as_str()));
            fields.values_mut().for_each(|value| quieten(value, (places, place)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// How a request is built: model, and of each message its role, kinds of content and tools called.
pub(super) fn shape(request: &Value) -> Value {
    let messages = ["messages", "input", "contents"].iter().find_map(|name| request.get(name)?.as_array());
    let built: Vec<Value> = messages.into_iter().flatten().map(message).collect();
    json!({"model": request.get("model"), "stream": request.get("stream"), "messages": built})
}

fn message(message: &Value) -> Value {
    let mut out = Map::new();
    for name in ["role", "type", "name"] {
        if let Some(Value::String(text)) = message.get(name) {
            out.insert(name.to_owned(), text.clone().into());
        }
    }
    let parts = ["content", "parts", "tool_calls"].iter().filter_map(|name| message.get(name)?.as_array());
    let kinds: Vec<Value> = parts.flatten().map(kind).collect();
    out.insert("parts".to_owned(), kinds.into());
    out.into()
}

/// The kind of a part, and the tool that it calls.
fn kind(part: &Value) -> Value {
    let name =
        part.get("name").or_else(|| part.pointer("/function/name")).or_else(|| part.pointer("/functionCall/name"));
    let kind = part.get("type").cloned().or_else(|| {
        // Gemini has the kind as the name of the field.
        part.as_object()?.keys().find(|key| *key != "thoughtSignature").map(|key| key.as_str().into())
    });
    json!([kind, name])
}

#[cfg(test)]
mod tests;
