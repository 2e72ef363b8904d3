//! Settings of harnesses: how a manifest declares them (`[config.NAME]`) and whether a run's values fit.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Node, Value};
use super::harness_manifest::{ConfigField, ConfigKind};
use super::nearest;
use super::shape::{Kind, check};
use super::source::Span;

impl ConfigKind {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "path" => Self::Path,
            "number" => Self::Number,
            "bool" => Self::Bool,
            "text-list" => Self::TextList,
            _ => return None,
        })
    }
}

/// Reads `[config]` of a manifest.
pub(crate) fn declared(table: &Node, out: &mut Diagnostics) -> BTreeMap<String, ConfigField> {
    let mut fields = BTreeMap::new();
    for entry in table.entries() {
        let Some(kind) = entry.value.text_of("type").and_then(|name| ConfigKind::parse(&name)) else { continue };
        let help = entry.value.text_of("help").unwrap_or_default();
        let default = entry
            .value
            .entry("default")
            .and_then(|default| fitting(kind, &entry.key, &default.value, &default.key_span, out));
        fields.insert(entry.key.clone(), ConfigField { kind, default, help });
    }
    fields
}

/// Checks a run's settings of a harness and completes them with defaults. `place` is where the harness is named.
pub(crate) fn given(
    harness: &str,
    fields: &BTreeMap<String, ConfigField>,
    table: Option<&Node>,
    place: &Span,
    out: &mut Diagnostics,
) -> serde_json::Map<String, Json> {
    let mut settings = serde_json::Map::new();
    for entry in table.map(Node::entries).unwrap_or_default() {
        let Some(field) = fields.get(&entry.key) else {
            out.push(
                Diagnostic::error(format!("harness `{harness}` has no setting `{}`", entry.key))
                    .at(&entry.key_span, "unknown setting")
                    .hint(nearest::hint(&entry.key, fields.keys().map(String::as_str))),
            );
            continue;
        };
        if let Some(value) = fitting(field.kind, &entry.key, &entry.value, &entry.key_span, out) {
            settings.insert(entry.key.clone(), value);
        }
    }
    for (name, field) in fields {
        let written = table.is_some_and(|table| table.get(name).is_some());
        match &field.default {
            Some(default) if !settings.contains_key(name) => drop(settings.insert(name.clone(), default.clone())),
            None if !written => out.push(
                Diagnostic::error(format!("harness `{harness}` needs the setting `{name}`"))
                    .at(place, format!("`config` has no `{name}`"))
                    .hint(if field.help.is_empty() {
                        format!("add `config: {{{name}: …}}`")
                    } else {
                        field.help.clone()
                    }),
            ),
            _ => {}
        }
    }
    settings
}

fn fitting(kind: ConfigKind, name: &str, node: &Node, key_span: &Span, out: &mut Diagnostics) -> Option<Json> {
    let before = out.count();
    match kind {
        ConfigKind::Text => check::of_kind(node, key_span, name, &Kind::Text, out),
        ConfigKind::Path => check::of_kind(node, key_span, name, &Kind::Path, out),
        ConfigKind::Bool => check::of_kind(node, key_span, name, &Kind::Bool, out),
        ConfigKind::TextList => check::of_kind(node, key_span, name, &Kind::List { of: &Kind::Text, empty: true }, out),
        ConfigKind::Number => {
            if !node.number().is_some_and(f64::is_finite) {
                out.push(
                    Diagnostic::error(format!("`{name}` takes a finite number, not {}", node.kind()))
                        .at(&node.span, "this value"),
                );
            }
        }
    }
    if out.count() > before {
        return None;
    }
    match (&node.value, kind) {
        (Value::Text(path), ConfigKind::Path) => Some(Json::String(node.resolve(path).display().to_string())),
        _ => Some(node.to_json()),
    }
}
