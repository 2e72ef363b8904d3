//! JSON.

use mlua::{LuaString, Value};

use super::Binder;
use crate::script::convert::{from_json, to_json};
use crate::script::gate::{Marks, Raised, misuse};

/// Most bytes of JSON that are read at once.
const MAX_JSON: usize = 4 << 20;
/// Most places at which `json.extract` tries to read a value.
const MAX_STARTS: usize = 200;

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.plain("json_encode", |lua, gate, (value, pretty): (Value, Option<bool>)| {
        let marks = Marks::of(lua)?;
        let json = to_json(&value, gate.bounds(), Some(&marks.null))
            .map_err(|reason| Raised::Misuse(format!("json.encode: {reason}")))?;
        let text =
            if pretty == Some(true) { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
        text.map_err(|error| Raised::Misuse(format!("json.encode: {error}")))
    })?;
    binder.plain("json_decode", |lua, _, text: LuaString| {
        let bytes = text.as_bytes();
        if bytes.len() > MAX_JSON {
            return misuse(format!("json.decode: at most {MAX_JSON} bytes, got {}", bytes.len()));
        }
        let json: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| Raised::Misuse(format!("json.decode: {error}")))?;
        Ok(from_json(lua, &json, false, Some(&Marks::of(lua)?.null))?)
    })?;
    binder.plain("json_extract", |lua, _, text: LuaString| {
        let bytes = text.as_bytes();
        if bytes.len() > MAX_JSON {
            return misuse(format!("json.extract: at most {MAX_JSON} bytes, got {}", bytes.len()));
        }
        match extract(&bytes) {
            Some(json) => Ok(from_json(lua, &json, false, Some(&Marks::of(lua)?.null))?),
            None => Ok(Value::Nil),
        }
    })?;
    binder.plain("json_null", |lua, _, ()| Ok(Marks::of(lua)?.null.clone()))
}

/// Finds the first object or list in a text. The number of tries is bounded, since each may read to the end.
fn extract(bytes: &[u8]) -> Option<serde_json::Value> {
    let starts = bytes.iter().enumerate().filter(|(_, byte)| matches!(byte, b'{' | b'[')).map(|(at, _)| at);
    starts.take(MAX_STARTS).find_map(|at| {
        let mut values = serde_json::Deserializer::from_slice(&bytes[at..]).into_iter::<serde_json::Value>();
        values.next().and_then(Result::ok)
    })
}

#[cfg(test)]
mod tests {
    use super::extract;
    use serde_json::json;
    use test_case::test_case;

    #[test_case("Sure: {\"score\": 3} as asked", Some(json!({"score": 3})); "in prose")]
    #[test_case("```json\n[1, 2]\n```", Some(json!([1, 2])); "fenced")]
    #[test_case("see [the file] {\"ok\": true}", Some(json!({"ok": true})); "after brackets that are none")]
    #[test_case("no value", None; "none")]
    fn finds_values(text: &str, expected: Option<serde_json::Value>) {
        assert_eq!(extract(text.as_bytes()), expected);
    }
}
