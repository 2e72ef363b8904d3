//! Values that cross the border between Lua and Rust, within bounds of depth and size.

use mlua::{Lua, Table, Value};
use serde_json::{Map, Number};

use super::limits::ScriptLimits;

/// How deep and how large a value may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    depth: usize,
    bytes: usize,
}

impl Bounds {
    /// For values that are only shown.
    pub(crate) fn small() -> Self {
        Self { depth: 4, bytes: 4 << 10 }
    }

    pub(crate) fn of(limits: &ScriptLimits) -> Self {
        Self { depth: limits.value_depth, bytes: limits.value_bytes }
    }
}

/// Names a value's type as authors know it.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Integer(_) | Value::Number(_) => "number",
        Value::Error(_) => "error",
        other => other.type_name(),
    }
}

/// Converts a Lua value to JSON.
///
/// A table with only the keys 1 to n is a list, an empty table an empty object; everything else needs text keys.
pub(crate) fn to_json(value: &Value, bounds: Bounds, null: Option<&Table>) -> Result<serde_json::Value, String> {
    let mut left = bounds.bytes;
    Walk { max_depth: bounds.depth, max_bytes: bounds.bytes, left: &mut left, null }.value(value, 0)
}

struct Walk<'a> {
    max_depth: usize,
    max_bytes: usize,
    left: &'a mut usize,
    null: Option<&'a Table>,
}

impl Walk<'_> {
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                *self.left = left;
                Ok(())
            }
            None => Err(format!("the value is larger than {} bytes", self.max_bytes)),
        }
    }

    fn value(&mut self, value: &Value, depth: usize) -> Result<serde_json::Value, String> {
        self.spend(16)?;
        match value {
            Value::Nil => Ok(serde_json::Value::Null),
            Value::Boolean(flag) => Ok((*flag).into()),
            Value::Integer(number) => Ok((*number).into()),
            Value::Number(number) => Number::from_f64(*number)
                .map(serde_json::Value::Number)
                .ok_or_else(|| format!("{number} cannot be written as JSON")),
            Value::String(text) => {
                self.spend(text.as_bytes().len())?;
                let text = text.to_str().map_err(|_| "a string is not valid UTF-8".to_owned())?;
                Ok(serde_json::Value::String(text.to_owned()))
            }
            Value::Table(table) => self.table(table, depth),
            other => Err(format!("a {} cannot be converted", type_name(other))),
        }
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<serde_json::Value, String> {
        if self.null.is_some_and(|null| null == table) {
            return Ok(serde_json::Value::Null);
        }
        if depth >= self.max_depth {
            return Err(format!("the value is nested more than {} deep (or contains itself)", self.max_depth));
        }
        let length = table.raw_len();
        let mut list = Vec::new();
        let mut object = Map::new();
        for pair in table.pairs::<Value, Value>() {
            let (key, value) = pair.map_err(|error| error.to_string())?;
            match key {
                Value::Integer(index) if usize::try_from(index).is_ok_and(|index| (1..=length).contains(&index)) => {
                    if !object.is_empty() {
                        return Err(mixed());
                    }
                    // The array part comes first and in order.
                    list.push(self.value(&value, depth + 1)?);
                }
                Value::String(key) => {
                    if !list.is_empty() {
                        return Err(mixed());
                    }
                    self.spend(key.as_bytes().len())?;
                    let key = key.to_str().map_err(|_| "a key is not valid UTF-8".to_owned())?.to_owned();
                    object.insert(key, self.value(&value, depth + 1)?);
                }
                other => return Err(format!("a {} cannot be a key, or the list has holes", type_name(&other))),
            }
        }
        if list.is_empty() {
            // Lua tables have no order of their own; sorted keys make equal values equal texts.
            object.sort_keys();
            Ok(serde_json::Value::Object(object))
        } else {
            Ok(serde_json::Value::Array(list))
        }
    }
}

fn mixed() -> String {
    "a table has both list items and named fields".to_owned()
}

/// Converts JSON to Lua; every table is frozen where `frozen` says so. In lists, null becomes `null` where given.
pub(crate) fn from_json(
    lua: &Lua,
    value: &serde_json::Value,
    frozen: bool,
    null: Option<&Table>,
) -> mlua::Result<Value> {
    match value {
        serde_json::Value::Null => Ok(Value::Nil),
        serde_json::Value::Bool(flag) => Ok(Value::Boolean(*flag)),
        serde_json::Value::Number(number) => Ok(Value::Number(number.as_f64().unwrap_or(f64::NAN))),
        serde_json::Value::String(text) => Ok(Value::String(lua.create_string(text)?)),
        serde_json::Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for (index, item) in items.iter().enumerate() {
                let item = match (item, null) {
                    (serde_json::Value::Null, Some(null)) => Value::Table(null.clone()),
                    _ => from_json(lua, item, frozen, null)?,
                };
                table.raw_set(index + 1, item)?;
            }
            table.set_readonly(frozen);
            Ok(Value::Table(table))
        }
        serde_json::Value::Object(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (key, item) in fields {
                table.raw_set(key.as_str(), from_json(lua, item, frozen, null)?)?;
            }
            table.set_readonly(frozen);
            Ok(Value::Table(table))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;

    fn convert(code: &str) -> Result<serde_json::Value, String> {
        let lua = Lua::new();
        let value: Value = lua.load(code).eval().expect("evaluates");
        to_json(&value, Bounds { depth: 8, bytes: 4096 }, None)
    }

    #[test_case("{1, 'a', true}", json!([1, "a", true]); "list")]
    #[test_case("{b = 1, a = {x = 2.5}}", json!({"a": {"x": 2.5}, "b": 1}); "object with sorted keys")]
    #[test_case("{}", json!({}); "empty")]
    #[test_case("nil", json!(null); "nil")]
    fn converts(code: &str, expected: serde_json::Value) {
        assert_eq!(convert(code), Ok(expected));
    }

    #[test_case("0/0", "NaN"; "nan")]
    #[test_case("math.huge", "inf"; "infinite")]
    #[test_case("{1, x = 2}", "both list items and named"; "mixed")]
    #[test_case("{[1] = 1, [3] = 2}", "holes"; "holes")]
    #[test_case("{[true] = 1}", "cannot be a key"; "boolean key")]
    #[test_case("print", "a function cannot be converted"; "function")]
    #[test_case("'\\xff'", "UTF-8"; "bytes")]
    #[test_case("string.rep('x', 5000)", "larger than 4096"; "large")]
    #[test_case("(function() local t = {} t.t = t return t end)()", "nested more than 8"; "cycle")]
    fn refuses(code: &str, expected: &str) {
        let error = convert(code).expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }
}
