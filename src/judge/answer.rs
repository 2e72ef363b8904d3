//! What an answer of a judge says: one JSON object with the agreed keys and a score in range for each criterion, or why
//! it is no answer. Nothing is clamped, guessed, or taken from inside something else.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::domain::rubric::Rubric;

/// The key of the scores.
const SCORES: &str = "scores";

/// The key of the reasons.
const REASONS: &str = "reasons";

/// What an answer says, in the order of the rubric's criteria.
#[derive(Debug, Clone, PartialEq)]
pub struct Scores {
    /// Points.
    pub points: Vec<f64>,
    /// Why.
    pub reasons: Vec<String>,
}

/// Reads an answer. Text around the object is put up with: a fence, a preface, an afterthought, a thought before it.
///
/// # Errors
///
/// Why the answer cannot be used.
pub fn parse(text: &str, rubric: &Rubric) -> Result<Scores, String> {
    let members = only_object(after_thought(text))?;
    let scores = member(&members, SCORES)?;
    let reasons = member(&members, REASONS)?;
    let points = rubric.criteria.iter().map(|criterion| {
        let value = scores.get(&criterion.name);
        let number = value.ok_or_else(|| format!("there is no score for `{}`", criterion.name))?;
        let number = number.as_f64().ok_or_else(|| format!("the score for `{}` is no number", criterion.name))?;
        if !(0.0..=f64::from(criterion.points)).contains(&number) {
            return Err(format!("the score for `{}` is {number}, not from 0 to {}", criterion.name, criterion.points));
        }
        Ok(number)
    });
    let points = points.collect::<Result<Vec<f64>, String>>()?;
    for (name, of) in [(SCORES, &scores), (REASONS, &reasons)] {
        let known = |key: &str| rubric.criteria.iter().any(|criterion| criterion.name == key);
        if let Some((key, _)) = of.0.iter().find(|(key, _)| !known(key)) {
            return Err(format!("`{name}` has `{key}`, which is no criterion"));
        }
    }
    let reasons = rubric.criteria.iter().map(|criterion| {
        let text = reasons.get(&criterion.name).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| format!("there is no reason for `{}`", criterion.name))
    });
    Ok(Scores { points, reasons: reasons.collect::<Result<_, _>>()? })
}

/// Leaves out what a model thought aloud before its answer.
fn after_thought(text: &str) -> &str {
    let text = text.trim();
    if !text.starts_with("<think>") {
        return text;
    }
    text.split_once("</think>").map_or(text, |(_, answer)| answer)
}

/// The members of an object, each key once.
#[derive(Debug)]
struct Members(Vec<(String, Value)>);

impl Members {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Strict::deserialize(deserializer)? {
            Strict(Value::Object(fields)) => Ok(Self(fields.into_iter().collect())),
            Strict(_) => Err(serde::de::Error::custom("it is no object")),
        }
    }
}

/// A value whose objects have each key once, at any depth: of two scores for one criterion neither is believed.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(Strict(item)) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some((key, Strict(value))) = map.next_entry::<String, Strict>()? {
            if fields.contains_key(&key) {
                return Err(serde::de::Error::custom(format_args!("`{key}` is there twice")));
            }
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

fn member(members: &Members, key: &str) -> Result<Members, String> {
    match members.get(key) {
        None => Err(format!("the object has no `{key}`")),
        Some(Value::Object(fields)) => Ok(Members(fields.clone().into_iter().collect())),
        Some(_) => Err(format!("`{key}` is no object")),
    }
}

/// Finds the one object at the top of a text.
fn only_object(text: &str) -> Result<Members, String> {
    let mut found: Option<Members> = None;
    let mut at = 0;
    while let Some(start) = text[at..].find('{').map(|offset| at + offset) {
        let rest = &text[start..];
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<Members>();
        match stream.next() {
            Some(Ok(members)) => {
                let end = start + stream.byte_offset();
                if is_inside(&text[..start], &text[end..]) {
                    return Err("the object stands inside something else".to_owned());
                }
                if found.replace(members).is_some() {
                    return Err("there is more than one object".to_owned());
                }
                at = end;
            }
            // Prose has braces too. What begins like an object and is none must not be searched for a part that is one.
            Some(Err(error)) if begins_an_object(rest) => return Err(format!("the JSON is broken: {error}")),
            Some(Err(_)) | None => at = start + 1,
        }
    }
    found.ok_or_else(|| "there is no JSON object".to_owned())
}

fn begins_an_object(rest: &str) -> bool {
    rest[1..].trim_start().starts_with(['"', '}', '\''])
}

fn is_inside(before: &str, after: &str) -> bool {
    before.trim_end().ends_with(['[', '{']) || after.trim_start().starts_with([']', '}'])
}

#[cfg(test)]
#[path = "answer/tests.rs"]
mod tests;
