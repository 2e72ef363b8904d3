//! Builds of a JSON value what fits a trajectory: long texts are cut while they are read, and what is too much is left out.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use crate::harness::excerpt;

/// Bytes of texts and values that are kept of one value, about.
const MOST: usize = 64 * 1024;

/// What of a value there is still room for.
pub(super) struct Excerpts(Cell<usize>);

impl Excerpts {
    pub(super) fn new() -> Self {
        Self(Cell::new(MOST))
    }

    /// Reads a value.
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(&self, json: D) -> Result<Value, D::Error> {
        Item(self).deserialize(json)
    }

    fn take(&self, bytes: usize) {
        self.0.set(self.0.get().saturating_sub(bytes.max(16)));
    }

    fn is_full(&self) -> bool {
        self.0.get() == 0
    }
}

#[derive(Clone, Copy)]
struct Item<'a>(&'a Excerpts);

impl<'de> DeserializeSeed<'de> for Item<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        if self.0.is_full() {
            IgnoredAny::deserialize(json)?;
            return Ok("[refrain: left out]".into());
        }
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Item<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        self.0.take(0);
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        self.0.take(0);
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        self.0.take(0);
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        self.0.take(0);
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        let kept = excerpt::of(text);
        self.0.take(kept.len());
        Ok(kept.into_owned().into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        self.0.take(0);
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        while !self.0.is_full() {
            match items.next_element_seed(self)? {
                Some(item) => kept.push(item),
                None => return Ok(kept.into()),
            }
        }
        let mut left = 0_usize;
        while items.next_element::<IgnoredAny>()?.is_some() {
            left += 1;
        }
        if left > 0 {
            kept.push(format!("[refrain: {left} items left out]").into());
        }
        Ok(kept.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        let mut left = 0_usize;
        while let Some(name) = fields.next_key::<String>()? {
            if self.0.is_full() {
                fields.next_value::<IgnoredAny>()?;
                left += 1;
                continue;
            }
            self.0.take(name.len());
            kept.insert(name, fields.next_value_seed(self)?);
        }
        if left > 0 {
            kept.insert("[refrain]".to_owned(), format!("{left} fields left out").into());
        }
        Ok(kept.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(value: &Value) -> Value {
        let text = value.to_string();
        Excerpts::new().deserialize(&mut serde_json::Deserializer::from_str(&text)).expect("JSON")
    }

    #[test]
    fn what_is_short_is_whole() {
        let value = json!({"a": [1, -2, 0.5, true, null, "x"], "b": {"c": "d"}});
        assert_eq!(read(&value), value);
    }

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let long = read(&json!({"text": "x".repeat(1_000_000), "after": 1}));
        assert!(long["text"].as_str().expect("a text").contains("bytes left out]"), "{long}");
        assert_eq!(long["after"], 1);
        let many = read(&json!(vec![7; 100_000]));
        let items = many.as_array().expect("a list");
        assert!(items.len() < 10_000);
        let left = format!("[refrain: {} items left out]", 100_000 - (items.len() - 1));
        assert_eq!(items.last(), Some(&left.into()));
        let fields: Map<String, Value> = (0..10_000).map(|at| (format!("field {at}"), "value".into())).collect();
        assert!(read(&fields.into())["[refrain]"].as_str().expect("said").ends_with("fields left out"));
    }
}
