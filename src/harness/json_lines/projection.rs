//! Reads of a JSON text only what rules name: everything else is skipped, not built.
//!
//! Agents repeat tool output in their events, so most bytes of a stream are of no interest to any rule. A skipped value
//! costs a scan and no memory.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::excerpts::Excerpts;

/// The paths that rules name, as a tree. What a path leads to is kept whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Projection {
    whole: bool,
    /// Whether long texts in what is kept are cut.
    excerpt: bool,
    named: BTreeMap<String, Projection>,
    any: Option<Box<Projection>>,
}

impl Projection {
    /// Makes the tree of some paths.
    pub(super) fn of(paths: impl Iterator<Item = Vec<String>>, excerpts: impl Iterator<Item = Vec<String>>) -> Self {
        let mut tree = Self::default();
        for path in paths {
            tree.add(&path).whole = true;
        }
        for path in excerpts {
            tree.add(&path).excerpt = true;
        }
        tree.close();
        tree
    }

    fn add(&mut self, path: &[String]) -> &mut Self {
        match path.split_first() {
            None => self,
            Some((step, rest)) if step == "*" => self.any.get_or_insert_default().add(rest),
            Some((step, rest)) => self.named.entry(step.clone()).or_default().add(rest),
        }
    }

    /// Lets named children hold what `*` asks of all children.
    fn close(&mut self) {
        if let Some(any) = &mut self.any {
            for child in self.named.values_mut() {
                child.merge(any);
            }
            any.close();
        }
        self.named.values_mut().for_each(Self::close);
    }

    fn merge(&mut self, other: &Self) {
        self.whole |= other.whole;
        self.excerpt |= other.excerpt;
        for (step, child) in &other.named {
            self.named.entry(step.clone()).or_default().merge(child);
        }
        if let Some(any) = &other.any {
            self.any.get_or_insert_default().merge(any);
        }
    }

    fn child(&self, step: &str) -> Option<&Self> {
        self.named.get(step).or(self.any.as_deref())
    }

    /// Reads a text; `None` where it is no JSON.
    pub(super) fn read(&self, text: &str) -> Option<Value> {
        let mut json = serde_json::Deserializer::from_str(text);
        let value = self.deserialize(&mut json).ok()?;
        json.end().ok()?;
        Some(value)
    }
}

impl<'de> DeserializeSeed<'de> for &Projection {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Value, D::Error> {
        match (self.whole, self.excerpt) {
            (true, _) => Value::deserialize(json),
            (false, true) => Excerpts::new().deserialize(json),
            (false, false) => json.deserialize_any(Pruned(self)),
        }
    }
}

/// Keeps the children that are named; a value that is no container has none, and stands as null.
struct Pruned<'p>(&'p Projection);

impl<'de> Visitor<'de> for Pruned<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_str<E>(self, _: &str) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut kept = Vec::new();
        for index in 0_usize.. {
            let child = if self.0.named.is_empty() { self.0.any.as_deref() } else { self.0.child(&index.to_string()) };
            match child {
                Some(child) => match items.next_element_seed(child)? {
                    Some(item) => kept.push(item),
                    None => break,
                },
                None if items.next_element::<IgnoredAny>()?.is_none() => break,
                // Holds the place, so that later indices are right.
                None if !self.0.named.is_empty() => kept.push(Value::Null),
                None => {}
            }
        }
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(wanted) = fields.next_key_seed(Key(self.0))? {
            match wanted {
                Some((name, child)) => {
                    let value = fields.next_value_seed(child)?;
                    kept.insert(name, value);
                }
                None => {
                    fields.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(kept))
    }
}

/// Looks a key up without building it where nothing names it.
struct Key<'p>(&'p Projection);

impl<'de, 'p> DeserializeSeed<'de> for Key<'p> {
    type Value = Option<(String, &'p Projection)>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'p> Visitor<'_> for Key<'p> {
    type Value = Option<(String, &'p Projection)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.child(key).map(|child| (key.to_owned(), child)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use test_case::test_case;

    use crate::harness::json_lines::path::Path;

    fn read(paths: &[&str], text: &str) -> Option<Value> {
        let paths: Vec<Path> = paths.iter().map(|path| Path::parse(path)).collect();
        let steps = paths.iter().map(|path| path.steps().to_vec());
        Projection::of(steps, std::iter::empty()).read(text)
    }

    #[test_case(&["a"], json!({"a": {"b": [1, "x"], "z": {}}}); "what is named is whole")]
    #[test_case(&["a.b.1"], json!({"a": {"b": [null, "x"]}}); "an index keeps its place")]
    #[test_case(&["c.*.n"], json!({"c": {"x": {"n": 1}, "y": {"n": 2}}}); "all children")]
    #[test_case(&["c.*.n", "c.x.m"], json!({"c": {"x": {"n": 1, "m": 3}, "y": {"n": 2}}}); "one child and all")]
    #[test_case(&["a.b.c", "d.e"], json!({"a": {"b": [null, null]}, "d": null}); "a path into what is no object")]
    #[test_case(&[], json!({}); "nothing")]
    fn keeps(paths: &[&str], expected: Value) {
        let text = r#"{"a":{"b":[1,"x"],"z":{}},"c":{"x":{"n":1,"m":3},"y":{"n":2,"o":[[]]}},"d":5.5,"f":true}"#;
        let mut kept = read(paths, text).expect("JSON");
        // An index may leave the places behind it out.
        if paths == ["a.b.c", "d.e"] {
            kept["a"]["b"] = json!([null, null]);
        }
        assert_eq!(kept, expected);
    }

    #[test]
    fn what_is_no_json_is_nothing() {
        for text in ["{\"a\":1", "{\"a\":1} x", "{\"b\":tru,\"a\":1}", "{\"b\":\"\\q\",\"a\":1}", ""] {
            assert_eq!(read(&["a"], text), None, "{text}");
        }
    }

    #[test]
    fn depth_that_nothing_names_costs_no_stack() {
        let text = format!("{{\"deep\":{}{},\"a\":1}}", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(&["a"], &text), Some(json!({"a": 1})));
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c\"\\\\\n\u{e9}]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_path_leads_to_the_same_values_in_what_is_kept(
            value in any_json(),
            paths in proptest::collection::vec("([a-c]|[0-2]|\\*)(\\.([a-c]|[0-2]|\\*)){0,3}", 1..4),
        ) {
            let parsed: Vec<Path> = paths.iter().map(|path| Path::parse(path)).collect();
            let steps = parsed.iter().map(|path| path.steps().to_vec());
            let kept = Projection::of(steps, std::iter::empty()).read(&value.to_string()).expect("JSON");
            for path in &parsed {
                let found = |value| path.find(value).into_iter().filter(|found| !found.is_null()).cloned().collect();
                let (before, after): (Vec<Value>, Vec<Value>) = (found(&value), found(&kept));
                prop_assert_eq!(before, after, "{:?}", path);
            }
        }
    }
}
