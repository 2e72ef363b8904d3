//! Checks of arguments against the table of functions, and help for misspelt names.

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::Binder;
use crate::script::api::{self, Kind, Param};
use crate::script::convert::type_name;
use crate::script::gate::{Gate, Marks, Raised, misuse};

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.plain("check", |lua, _, (path, values): (String, MultiValue)| check(lua, &path, &values))?;
    binder.plain("misuse", |_, _, message: String| misuse::<()>(message))
}

/// Checks the arguments of a call; names function, argument, what was expected and what came.
pub(super) fn check(lua: &Lua, path: &str, values: &MultiValue) -> Result<(), Raised> {
    let Some(function) = api::find(path) else { return misuse(format!("`{path}` is no function of the host")) };
    let marks = Marks::of(lua)?;
    for (index, param) in function.params.iter().enumerate() {
        let value = values.get(index).unwrap_or(&Value::Nil);
        let what = || format!("{path}: argument {} ({})", index + 1, param.name);
        check_value(&marks, value, param, what)?;
        if let (Kind::Options(fields), Value::Table(options)) = (param.kind, value) {
            check_options(&marks, path, fields, options)?;
        }
    }
    let extra = values.iter().skip(function.params.len()).any(|value| !value.is_nil());
    if extra {
        let count = function.params.len();
        return misuse(format!(
            "{path}: takes {count} argument{}, got {}",
            if count == 1 { "" } else { "s" },
            values.len()
        ));
    }
    Ok(())
}

fn check_options(marks: &Marks, path: &str, fields: &[Param], options: &Table) -> Result<(), Raised> {
    for pair in options.pairs::<Value, Value>() {
        let (key, value) = pair?;
        let Value::String(name) = &key else {
            return misuse(format!("{path}: option names are strings, got a {}", type_name(&key)));
        };
        let name = name.to_string_lossy();
        let Some(field) = fields.iter().find(|field| field.name == name) else {
            let known = fields.iter().map(|field| field.name);
            return misuse(format!("{path}: unknown option `{name}`{}", suggestion(&name, known)));
        };
        check_value(marks, &value, field, || format!("{path}: option `{name}`"))?;
    }
    Ok(())
}

fn check_value(marks: &Marks, value: &Value, param: &Param, what: impl Fn() -> String) -> Result<(), Raised> {
    if value.is_nil() && (param.optional || matches!(param.kind, Kind::Any)) {
        return Ok(());
    }
    let Some(problem) = mismatch(marks, value, param.kind) else { return Ok(()) };
    misuse(format!("{} must be {}, got {problem}", what(), param.kind.expected()))
}

/// Says what came, where it is not what was expected.
fn mismatch(marks: &Marks, value: &Value, kind: Kind) -> Option<String> {
    let fits = match kind {
        Kind::Any => true,
        Kind::Some => !value.is_nil(),
        Kind::Bytes => matches!(value, Value::String(_)),
        Kind::Text => return text_problem(value),
        Kind::Number => return number_problem(value, |_| true),
        Kind::Seconds | Kind::Dollars => return number_problem(value, |number| (0.0..=1e12).contains(&number)),
        #[expect(clippy::cast_precision_loss, reason = "the bounds in the table are small")]
        Kind::Integer(min, max) => {
            return number_problem(value, |number| {
                number.fract() == 0.0 && number >= min as f64 && number <= max as f64
            });
        }
        Kind::Boolean => matches!(value, Value::Boolean(_)),
        Kind::Table | Kind::Options(_) => matches!(value, Value::Table(_)),
        Kind::List => return list_problem(value),
        Kind::Function => matches!(value, Value::Function(_)),
        Kind::Session => matches!(value, Value::Table(table) if marks.is(table, "Session")),
        Kind::Workspace => matches!(value, Value::Table(table) if marks.is(table, "Workspace")),
        Kind::Choice(words) => {
            let Value::String(word) = value else { return Some(described(value)) };
            let word = word.to_string_lossy();
            if words.contains(&word.as_str()) {
                return None;
            }
            return Some(format!("`{word}`{}", suggestion(&word, words.iter().copied())));
        }
    };
    (!fits).then(|| described(value))
}

fn text_problem(value: &Value) -> Option<String> {
    let Value::String(text) = value else { return Some(described(value)) };
    match text.to_str() {
        Err(_) => Some("bytes that are no UTF-8".to_owned()),
        Ok(text) => text.find('\0').map(|at| format!("a NUL at byte {}", at + 1)),
    }
}

fn number_problem(value: &Value, fits: impl Fn(f64) -> bool) -> Option<String> {
    let number = match value {
        #[expect(clippy::cast_precision_loss, reason = "Luau has no other numbers")]
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        other => return Some(described(other)),
    };
    (!number.is_finite() || !fits(number)).then(|| format!("{number}"))
}

fn list_problem(value: &Value) -> Option<String> {
    let Value::Table(table) = value else { return Some(described(value)) };
    let length = table.raw_len();
    let keys = table.pairs::<Value, Value>().count();
    (keys != length).then(|| "a table with named fields or holes".to_owned())
}

fn described(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        other => type_name(other).to_owned(),
    }
}

/// Finds the nearest of the known names, or lists a few of them.
pub(crate) fn suggestion<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let near = known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), *other))
        .filter(|(distance, other)| *distance <= 1 + other.len() / 4)
        .min();
    match near {
        Some((_, other)) => format!("; did you mean `{other}`?"),
        None if known.is_empty() => String::new(),
        None if known.len() <= 16 => format!("; there is {}", known.join(", ")),
        None => String::new(),
    }
}

/// Returns the text keys of a table.
fn keys(table: &Table) -> Vec<String> {
    let keys = table.pairs::<Value, Value>().filter_map(|pair| Some(pair.ok()?.0.as_string()?.to_string_lossy()));
    keys.collect()
}

/// Raises for a field that a table of the host does not have.
pub(super) fn unknown(_: &Lua, _: &Gate, (table, key, known): (String, Value, Table)) -> Result<(), Raised> {
    let shown = match &key {
        Value::String(name) => name.to_string_lossy(),
        other => return no_key(&table, other),
    };
    if let Some(hint) = absent(&format!("{table}.{shown}")) {
        return misuse(format!("`{table}.{shown}` does not exist in scripts: {hint}"));
    }
    let names = keys(&known);
    no_field(&table, &shown, names.iter().map(String::as_str))
}

/// Raises for a field that a table of this shape cannot have; one that it may have is absent, which is no mistake.
pub(super) fn field(_: &Lua, _: &Gate, (name, key): (LuaString, Value)) -> Result<(), Raised> {
    let name = name.to_string_lossy();
    let Value::String(key) = key else { return no_key(&name, &key) };
    let key = key.to_string_lossy();
    if api::fields(&name).any(|field| field == key) { Ok(()) } else { no_field(&name, &key, api::fields(&name)) }
}

fn no_field<'n>(table: &str, key: &str, known: impl Iterator<Item = &'n str>) -> Result<(), Raised> {
    misuse(format!("`{table}` has no field `{key}`{}", suggestion(key, known)))
}

fn no_key(table: &str, key: &Value) -> Result<(), Raised> {
    misuse(format!("`{table}` has no field for a {} key", type_name(key)))
}

/// Raises for a global that does not exist.
pub(super) fn unknown_global(_: &Lua, _: &Gate, (key, known): (Value, Table)) -> Result<(), Raised> {
    let shown = match &key {
        Value::String(name) => name.to_string_lossy(),
        other => return misuse(format!("a global cannot be a {}", type_name(other))),
    };
    if let Some(hint) = absent(&shown) {
        return misuse(format!("`{shown}` does not exist in scripts: {hint}"));
    }
    let names = keys(&known);
    misuse(format!("unknown global `{shown}`{}", suggestion(&shown, names.iter().map(String::as_str))))
}

/// Says what to use in place of what other Lua hosts have.
pub(crate) fn absent(name: &str) -> Option<&'static str> {
    Some(match name {
        "io" | "file" => "read with @std/workspace, write below `.refrain/` with workspace.write",
        "coroutine" => "use parallel.map of @std/parallel",
        "debug" => "log what you need; errors carry a trace",
        "load" | "loadstring" | "dofile" | "loadfile" => "scripts are files; use require",
        "getfenv" | "setfenv" | "_G" | "_ENV" => "there is no access to environments; use locals and modules",
        "collectgarbage" | "gcinfo" => "memory is the host's business",
        "newproxy" | "package" => "use tables and require",
        "os.getenv" | "os.execute" | "os.exit" | "os.remove" | "os.rename" | "os.tmpname" => {
            "os has only time and clock; run commands with @std/exec"
        }
        "os.date" | "os.difftime" => "os has only time and clock",
        "math.randomseed" => "the run seeds math.random so that it can be repeated",
        _ => return None,
    })
}
