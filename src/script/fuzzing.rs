//! Doors for the fuzz targets of this repository; no part of the API.

use mlua::{Lua, Table, Value};

use super::convert::{Bounds, from_json, to_json};
use super::limits::ScriptLimits;

/// A value of a script, as a fuzzer makes it up: anything that Lua can hold and a host may meet.
#[derive(Debug, Clone)]
pub enum Sample {
    /// `nil`.
    Nil,
    /// A boolean.
    Boolean(bool),
    /// A whole number, as the host makes it.
    Integer(i64),
    /// Any number.
    Number(f64),
    /// Any bytes.
    Bytes(Vec<u8>),
    /// `json.null`.
    Null,
    /// A function, which no border lets through.
    Function,
    /// A table that was begun already, by its number from the outermost: so tables contain themselves and each other.
    Again(u8),
    /// A table: list items, then any keys; the last says whether it is frozen.
    Table(Vec<Sample>, Vec<(Sample, Sample)>, bool),
}

/// A VM for samples.
#[derive(Debug)]
pub struct Border {
    lua: Lua,
    null: Table,
    bounds: Bounds,
}

impl Border {
    /// Makes a VM; it can be used for any number of samples.
    ///
    /// # Errors
    ///
    /// A VM that cannot be made.
    pub fn new() -> mlua::Result<Self> {
        let lua = Lua::new();
        lua.set_memory_limit(64 << 20)?;
        let null = lua.create_table()?;
        Ok(Self { lua, null, bounds: Bounds::of(&ScriptLimits::default()) })
    }

    /// Takes a sample out of Lua, in again and out again; what came out the second time must be the same.
    ///
    /// # Errors
    ///
    /// What is not the same. That a value is refused is no error.
    pub fn lua_to_host(&self, sample: &Sample) -> Result<(), String> {
        let made = self.make(sample, &mut Vec::new());
        let Ok(value) = made else { return Ok(()) };
        let converted = to_json(&value, self.bounds, Some(&self.null));
        self.lua.gc_collect().map_err(|error| error.to_string())?;
        match converted {
            Ok(json) => self.host_to_lua(&json),
            Err(_) => Ok(()),
        }
    }

    /// Takes a value of the host into Lua and out again.
    ///
    /// # Errors
    ///
    /// What is not the same, as far as Lua can tell it apart.
    pub fn host_to_lua(&self, json: &serde_json::Value) -> Result<(), String> {
        let value = from_json(&self.lua, json, true, Some(&self.null)).map_err(|error| error.to_string())?;
        let back = match to_json(&value, self.bounds, Some(&self.null)) {
            Ok(back) => back,
            // The bounds are for what comes out of Lua; a host may hand in more.
            Err(_) if !within(json, 0) => return Ok(()),
            Err(reason) => return Err(format!("{json} came in, but not out again: {reason}")),
        };
        if same(json, &back) { Ok(()) } else { Err(format!("{json} came in, {back} came out")) }
    }

    fn make(&self, sample: &Sample, tables: &mut Vec<Table>) -> mlua::Result<Value> {
        Ok(match sample {
            Sample::Nil => Value::Nil,
            Sample::Boolean(flag) => Value::Boolean(*flag),
            Sample::Integer(number) => Value::Integer(*number),
            Sample::Number(number) => Value::Number(*number),
            Sample::Bytes(bytes) => Value::String(self.lua.create_string(bytes)?),
            Sample::Null => Value::Table(self.null.clone()),
            Sample::Function => Value::Function(self.lua.create_function(|_, ()| Ok(()))?),
            Sample::Again(number) => match tables.get(usize::from(*number)) {
                Some(table) => Value::Table(table.clone()),
                None => Value::Nil,
            },
            Sample::Table(items, fields, frozen) => {
                let table = self.lua.create_table()?;
                tables.push(table.clone());
                for (index, item) in items.iter().enumerate() {
                    table.raw_set(index + 1, self.make(item, tables)?)?;
                }
                for (key, value) in fields {
                    let (key, value) = (self.make(key, tables)?, self.make(value, tables)?);
                    // Nil and NaN are no keys.
                    let _ = table.raw_set(key, value);
                }
                table.set_readonly(*frozen);
                Value::Table(table)
            }
        })
    }
}

/// Tells whether a value keeps well below the bounds of depth and size.
fn within(json: &serde_json::Value, depth: usize) -> bool {
    depth < 30
        && match json {
            serde_json::Value::Array(items) => items.len() < 1000 && items.iter().all(|item| within(item, depth + 1)),
            serde_json::Value::Object(fields) => {
                fields.len() < 1000 && fields.values().all(|field| within(field, depth + 1))
            }
            _ => true,
        }
}

/// Compares as Lua tells apart: it knows one kind of number, no fields that are nil, and no empty lists.
fn same(before: &serde_json::Value, after: &serde_json::Value) -> bool {
    use serde_json::Value as Json;
    match (before, after) {
        (Json::Number(before), Json::Number(after)) => before.as_f64() == after.as_f64(),
        (Json::Array(before), Json::Object(after)) => before.is_empty() && after.is_empty(),
        (Json::Array(before), Json::Array(after)) => {
            before.len() == after.len() && before.iter().zip(after).all(|(before, after)| same(before, after))
        }
        (Json::Object(before), Json::Object(after)) => {
            let kept = before.iter().filter(|(_, field)| !field.is_null());
            kept.clone().count() == after.len()
                && kept.clone().all(|(key, field)| after.get(key).is_some_and(|after| same(field, after)))
        }
        _ => before == after,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_contain_itself() {
        let border = Border::new().expect("a VM");
        let fields = vec![(Sample::Bytes(b"me".to_vec()), Sample::Again(0)), (Sample::Nil, Sample::Nil)];
        assert_eq!(border.lua_to_host(&Sample::Table(Vec::new(), fields, true)), Ok(()));
        assert_eq!(
            border.lua_to_host(&Sample::Table(vec![Sample::Null, Sample::Number(0.1)], Vec::new(), false)),
            Ok(())
        );
    }

    #[test]
    fn what_differs_is_told() {
        assert!(!same(&serde_json::json!({"a": [1, null]}), &serde_json::json!({"a": [1]})));
        assert!(same(&serde_json::json!({"a": 1, "b": null, "c": []}), &serde_json::json!({"c": {}, "a": 1.0})));
    }
}
