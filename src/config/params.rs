//! Parameters of orchestrators: how a manifest declares them, and whether given values fit.

use std::collections::BTreeMap;

use crate::domain::{ParamValue, Params};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Node, Value};
use super::nearest;
use super::orchestrator_manifest::{ParamKind, ParamSpec};
use super::scalar;
use super::shape::{check, manifest};
use super::source::{Source, Span};

/// Why a value does not fit a parameter: a message that begins with the parameter's name, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ParamError {
    /// What is wrong.
    pub message: String,
    /// What would be right, where that is known.
    pub hint: Option<String>,
}

impl ParamKind {
    /// Returns the name that manifests use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::List => "list",
        }
    }

    /// Finds a type by its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Boolean, Self::Integer, Self::Number, Self::String, Self::List]
            .into_iter()
            .find(|kind| kind.as_str() == name)
    }

    fn of(value: &ParamValue) -> Self {
        match value {
            ParamValue::Bool(_) => Self::Boolean,
            ParamValue::Int(_) => Self::Integer,
            ParamValue::Float(_) => Self::Number,
            ParamValue::Text(_) => Self::String,
            ParamValue::List(_) => Self::List,
        }
    }
}

impl ParamSpec {
    /// Checks a value against type, range and choices; whole numbers become numbers where a number is declared.
    ///
    /// # Errors
    ///
    /// A [`ParamError`] that says what was expected and what came.
    pub fn check(&self, name: &str, value: ParamValue) -> Result<ParamValue, ParamError> {
        let fail =
            |what: String| Err(ParamError { message: format!("parameter `{name}` {what}"), hint: self.help.clone() });
        let value = match convert(self.kind, value) {
            Ok(value) => value,
            Err(value) => return fail(takes(self.kind, &value)),
        };
        let value = match (self.items, value) {
            (Some(kind), ParamValue::List(items)) => {
                let mut list = Vec::with_capacity(items.len());
                for (at, item) in items.into_iter().enumerate() {
                    match convert(kind, item) {
                        Ok(ParamValue::Float(number)) if !number.is_finite() => {
                            return fail("takes a finite number".to_owned());
                        }
                        Ok(item) => list.push(item),
                        Err(item) => return fail(format!("(item {}) {}", at + 1, takes(kind, &item))),
                    }
                }
                ParamValue::List(list)
            }
            (_, value) => value,
        };
        #[expect(clippy::cast_precision_loss, reason = "bounds are declared as doubles")]
        let number = match &value {
            ParamValue::Int(number) => Some(*number as f64),
            ParamValue::Float(number) if !number.is_finite() => return fail("takes a finite number".to_owned()),
            ParamValue::Float(number) => Some(*number),
            _ => None,
        };
        if let (Some(number), Some(min)) = (number, self.min)
            && number < min
        {
            return fail(format!("must be at least {min}"));
        }
        if let (Some(number), Some(max)) = (number, self.max)
            && number > max
        {
            return fail(format!("must be at most {max}"));
        }
        if !self.choices.is_empty() && !self.choices.contains(&value) {
            let all = self.choices.iter().map(show).collect::<Vec<_>>().join(", ");
            return fail(format!("must be one of {all}"));
        }
        Ok(value)
    }
}

/// Converts a value to a type, or gives it back; whole numbers become numbers where a number is declared.
fn convert(kind: ParamKind, value: ParamValue) -> Result<ParamValue, ParamValue> {
    match (kind, value) {
        #[expect(clippy::cast_precision_loss, reason = "a script sees every number as a double")]
        (ParamKind::Number, ParamValue::Int(number)) => Ok(ParamValue::Float(number as f64)),
        (kind, value) if kind == ParamKind::of(&value) => Ok(value),
        (_, value) => Err(value),
    }
}

fn takes(kind: ParamKind, value: &ParamValue) -> String {
    format!("takes {}, not {}", with_article(kind.as_str()), with_article(value.type_name()))
}

/// Completes given parameters with defaults.
///
/// # Errors
///
/// A [`ParamError`] for the first value that is unknown, does not fit, or is missing.
pub(crate) fn complete(specs: &BTreeMap<String, ParamSpec>, given: Params) -> Result<Params, ParamError> {
    let mut params = Params::new();
    for (name, value) in given {
        let Some(spec) = specs.get(&name) else {
            return Err(ParamError {
                message: format!("there is no parameter `{name}`"),
                hint: Some(nearest::hint(&name, specs.keys().map(String::as_str))),
            });
        };
        params.insert(name.clone(), spec.check(&name, value)?);
    }
    for (name, spec) in specs {
        match (&spec.default, params.contains_key(name)) {
            (_, true) => {}
            (Some(default), false) => drop(params.insert(name.clone(), default.clone())),
            (None, false) => {
                return Err(ParamError {
                    message: format!("parameter `{name}` has no default and must be given"),
                    hint: spec.help.clone(),
                });
            }
        }
    }
    Ok(params)
}

/// Reads `[params]` of a manifest, in both forms.
pub(crate) fn declared(table: &Node, out: &mut Diagnostics) -> BTreeMap<String, ParamSpec> {
    let mut specs = BTreeMap::new();
    for entry in table.entries() {
        if !is_identifier(&entry.key) {
            out.push(
                Diagnostic::error(format!("`{}` cannot name a parameter", entry.key))
                    .at(&entry.key_span, "letters, digits and `_` only")
                    .hint("scripts read it as `params.name`"),
            );
            continue;
        }
        let spec = match entry.value.value {
            Value::Map(_) => {
                check::section(&entry.value, &manifest::PARAM, &entry.key_span, out);
                long_form(&entry.key, &entry.key_span, &entry.value, out)
            }
            _ => value_of(&entry.value, &entry.key, out).map(|default| ParamSpec {
                kind: ParamKind::of(&default),
                items: None,
                default: Some(default),
                min: None,
                max: None,
                choices: Vec::new(),
                help: None,
            }),
        };
        if let Some(spec) = spec {
            specs.insert(entry.key.clone(), spec);
        }
    }
    specs
}

fn long_form(name: &str, key_span: &Span, table: &Node, out: &mut Diagnostics) -> Option<ParamSpec> {
    let before = out.count();
    let default = table.get("default").and_then(|node| value_of(node, name, out));
    let kind = match (table.get("type").and_then(Node::text), &default) {
        (Some(kind), _) => ParamKind::parse(kind)?,
        (None, Some(default)) => ParamKind::of(default),
        (None, None) => {
            out.push(
                Diagnostic::error(format!("parameter `{name}` has neither a type nor a default"))
                    .at(key_span, "of which type?")
                    .hint(format!("add `type`: {}", manifest::PARAM_TYPES.join(", "))),
            );
            return None;
        }
    };
    let help = table.text_of("help");
    let items = items(table, kind, out);
    let mut spec = ParamSpec { kind, items, default: None, min: None, max: None, choices: Vec::new(), help };
    spec.min = bound(table, "min", kind, out);
    spec.max = bound(table, "max", kind, out);
    if let (Some(min), Some(max), Some(node)) = (spec.min, spec.max, table.get("max"))
        && min > max
    {
        out.push(
            Diagnostic::error(format!("parameter `{name}`: `max` is less than `min`")).at(&node.span, "too small"),
        );
    }
    let mut choices = Vec::new();
    for node in table.get("choices").map(Node::items).unwrap_or_default() {
        let checked = value_of(node, name, out).map(|value| spec.check(name, value));
        match checked {
            Some(Ok(choice)) => choices.push(choice),
            Some(Err(error)) => out.push(at(&error, &node.span, "this choice")),
            None => {}
        }
    }
    spec.choices = choices;
    if let (Some(default), Some(node)) = (default, table.get("default")) {
        match spec.check(name, default) {
            Ok(default) => spec.default = Some(default),
            Err(error) => out.push(at(&error, &node.span, "this default")),
        }
    }
    // One word at a time: what is wrong comes first.
    if spec.help.is_none() && table.get("default").is_none() && out.count() == before {
        out.push(
            Diagnostic::warning(format!("parameter `{name}` must be given, and nothing says what it is"))
                .at(key_span, "neither `default` nor `help`")
                .hint("add `help`: it is shown to whoever leaves the parameter out"),
        );
    }
    Some(spec)
}

/// Reads the type of a list's items.
fn items(table: &Node, kind: ParamKind, out: &mut Diagnostics) -> Option<ParamKind> {
    let entry = table.entry("items")?;
    if kind == ParamKind::List {
        return entry.value.text().and_then(ParamKind::parse);
    }
    out.push(
        Diagnostic::error(format!("`items` has no meaning for {}", with_article(kind.as_str())))
            .at(&entry.key_span, "lists only"),
    );
    None
}

fn bound(table: &Node, key: &str, kind: ParamKind, out: &mut Diagnostics) -> Option<f64> {
    let entry = table.entry(key)?;
    if !matches!(kind, ParamKind::Integer | ParamKind::Number) {
        out.push(
            Diagnostic::error(format!("`{key}` has no meaning for a {}", kind.as_str()))
                .at(&entry.key_span, "numbers only"),
        );
        return None;
    }
    let number = entry.value.number().filter(|number| number.is_finite());
    if number.is_none() {
        out.push(Diagnostic::error(format!("`{key}` takes a finite number")).at(&entry.value.span, "not a number"));
    }
    number
}

/// Reads the values that a run file or a command line gives.
pub(crate) fn given(owner: &str, specs: &BTreeMap<String, ParamSpec>, table: &Node, out: &mut Diagnostics) -> Params {
    let mut params = Params::new();
    for entry in table.entries() {
        let Some(spec) = specs.get(&entry.key) else {
            out.push(
                Diagnostic::error(format!("orchestrator `{owner}` rejected parameter `{}`", entry.key))
                    .at(&entry.key_span, "unknown parameter")
                    .hint(nearest::hint(&entry.key, specs.keys().map(String::as_str))),
            );
            continue;
        };
        // Texts that YAML takes for something else are told as such, with what to write.
        let texts: Vec<&Node> = match (spec.kind, spec.items) {
            (ParamKind::String, _) => vec![&entry.value],
            (ParamKind::List, Some(ParamKind::String)) => entry.value.items().iter().collect(),
            _ => Vec::new(),
        };
        let before = out.count();
        for node in texts.into_iter().filter(|node| node.plain) {
            check::of_kind(node, &entry.key_span, &entry.key, &super::shape::Kind::Text, out);
        }
        if out.count() > before {
            continue;
        }
        let Some(value) = value_of(&entry.value, &entry.key, out) else { continue };
        match spec.check(&entry.key, value) {
            Ok(value) => drop(params.insert(entry.key.clone(), value)),
            Err(error) => out.push(at(&error, &entry.value.span, "this value")),
        }
    }
    params
}

/// Reads the text of `--param key=value` by the declared type. `start` is where the value begins in the source.
pub(crate) fn from_text(spec: &ParamSpec, source: &std::sync::Arc<Source>, start: usize) -> Node {
    let text = &source.text()[start..];
    let value = match spec.kind {
        ParamKind::String => Value::Text(text.to_owned()),
        ParamKind::List => return list_from_text(spec.items, source, start),
        ParamKind::Boolean | ParamKind::Integer | ParamKind::Number => scalar::resolve(text.trim()),
    };
    Node::new(value, source, start..source.text().len())
}

/// `[a, b]` as in YAML, or `a,b`.
fn list_from_text(items_are: Option<ParamKind>, source: &std::sync::Arc<Source>, start: usize) -> Node {
    let text = &source.text()[start..];
    if text.trim_start().starts_with('[')
        && let Ok(node) = super::yaml::parse_from(source, start)
    {
        return node;
    }
    let mut items = Vec::new();
    let mut at = start;
    for piece in text.split(',').filter(|_| !text.is_empty()) {
        let range = at..at + piece.len();
        let value = match items_are {
            Some(ParamKind::String) => Value::Text(piece.trim().to_owned()),
            _ => scalar::resolve(piece.trim()),
        };
        items.push(Node::new(value, source, range));
        at += piece.len() + 1;
    }
    Node::new(Value::List(items), source, start..source.text().len())
}

/// Converts a node; mappings and nothing are no values of parameters.
fn value_of(node: &Node, name: &str, out: &mut Diagnostics) -> Option<ParamValue> {
    match &node.value {
        Value::Bool(value) => Some(ParamValue::Bool(*value)),
        Value::Int(number) => Some(ParamValue::Int(*number)),
        Value::Float(number) if number.is_finite() => Some(ParamValue::Float(*number)),
        Value::Float(_) => {
            out.push(
                Diagnostic::error(format!("parameter `{name}` takes a finite number")).at(&node.span, "not finite"),
            );
            None
        }
        Value::Text(text) => Some(ParamValue::Text(text.clone())),
        Value::List(items) => {
            let values: Vec<_> = items.iter().filter_map(|item| value_of(item, name, out)).collect();
            (values.len() == items.len()).then_some(ParamValue::List(values))
        }
        Value::Null | Value::Map(_) => {
            out.push(
                Diagnostic::error(format!("parameter `{name}` cannot hold {}", node.kind()))
                    .at(&node.span, "a boolean, a number, text or a list"),
            );
            None
        }
    }
}

fn at(error: &ParamError, span: &Span, label: &str) -> Diagnostic {
    let diagnostic = Diagnostic::error(error.message.clone()).at(span, label);
    match &error.hint {
        Some(hint) => diagnostic.hint(hint.clone()),
        None => diagnostic,
    }
}

fn show(value: &ParamValue) -> String {
    match value {
        ParamValue::Bool(value) => format!("`{value}`"),
        ParamValue::Int(value) => format!("`{value}`"),
        ParamValue::Float(value) => format!("`{value}`"),
        ParamValue::Text(value) => format!("`{value}`"),
        ParamValue::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
    }
}

fn with_article(kind: &str) -> String {
    if kind == "integer" { format!("an {kind}") } else { format!("a {kind}") }
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
#[path = "params/tests.rs"]
mod tests;
