//! The one tree that YAML and TOML are parsed into: every node and every key knows where it stands.

use std::ops::Range;
use std::sync::Arc;

use super::source::{Source, Span};

/// The deepest nesting that is accepted.
pub(crate) const MAX_DEPTH: usize = 64;

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) span: Span,
    /// Whether it is a scalar written without quotes in a format where readers then guess its type.
    pub(crate) plain: bool,
}

/// What a node holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// Nothing, written or left out.
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// Entries in the order of the file; keys are unique.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn new(value: Value, source: &Arc<Source>, range: Range<usize>) -> Self {
        Self { value, span: Span::new(source, range), plain: false }
    }

    /// Returns the text of the file that the node was read from.
    pub(crate) fn raw(&self) -> &str {
        &self.span.source.text()[self.span.range.clone()]
    }

    /// Names the kind of value, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// Returns the entries of a mapping; none for anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the elements of a list; none for anything else.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the entry of a key that has a value.
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key && !entry.value.is_null())
    }

    /// Returns the value of a key, if there is one.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns a text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns a number.
    #[expect(
        clippy::cast_precision_loss,
        reason = "settings are far below 2^53; larger ones are range-checked as integers"
    )]
    pub(crate) fn number(&self) -> Option<f64> {
        match self.value {
            Value::Int(number) => Some(number as f64),
            Value::Float(number) => Some(number),
            _ => None,
        }
    }

    /// Converts to JSON; numbers that JSON cannot hold become text.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Int(value) => Json::from(*value),
            Value::Float(value) => {
                serde_json::Number::from_f64(*value).map_or_else(|| Json::String(value.to_string()), Json::Number)
            }
            Value::Text(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(Self::to_json).collect()),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect())
            }
        }
    }
}
