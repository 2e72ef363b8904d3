//! Holds a document against its shape and collects everything that does not fit.

use crate::domain::name;

use super::{Field, Kind, Section};
use crate::config::diagnostic::{Diagnostic, Diagnostics};
use crate::config::document::{Node, Value};
use crate::config::source::Span;
use crate::config::{inside, nearest, quantity, scalar, secret};

/// Checks a mapping with known keys. `whole` stands for what has no place of its own, such as a missing key.
pub(crate) fn section(node: &Node, section: &Section, whole: &Span, out: &mut Diagnostics) {
    if !matches!(node.value, Value::Map(_)) {
        let known = nearest::listed(section.fields.iter().map(|field| field.name));
        out.push(
            Diagnostic::error(format!("the {} must be a mapping, not {}", section.name, node.kind()))
                .at(&node.span, "expected `key: value`")
                .hint(known),
        );
        return;
    }
    for entry in node.entries() {
        match section.fields.iter().find(|field| field.name == entry.key) {
            Some(field) => value(&entry.value, &entry.key_span, field, out),
            None => unknown_key(section, &entry.key, &entry.key_span, &entry.value, out),
        }
    }
    for field in section.fields.iter().filter(|field| field.required) {
        if !node.entries().iter().any(|entry| entry.key == field.name) {
            out.push(
                Diagnostic::error(format!("the {} has no `{}`", section.name, field.name))
                    .at(whole, format!("`{}` is missing", field.name))
                    .hint(format!("add `{}`: {}", field.name, lower_first(field.help))),
            );
        }
    }
}

fn unknown_key(section: &Section, key: &str, key_span: &Span, node: &Node, out: &mut Diagnostics) {
    if secret::names_a_secret(key) && node.text().is_some() {
        out.push(literal_key(key, key_span));
        return;
    }
    let known = section.fields.iter().map(|field| field.name);
    let error = Diagnostic::error(format!("the {} has no key `{key}`", section.name)).at(key_span, "unknown key");
    // The nearest name is not looked for where nobody will see it.
    out.push(if out.is_full() { error } else { error.hint(nearest::hint(key, known)) });
}

fn literal_key(key: &str, place: &Span) -> Diagnostic {
    Diagnostic::error(format!("`{key}` holds what looks like a key"))
        .at(place, "the value is not shown")
        .hint("keys never stand in files: put it into an environment variable and name that in `api_key_env`")
}

fn value(node: &Node, key_span: &Span, field: &Field, out: &mut Diagnostics) {
    if node.is_null() && !field.required {
        return;
    }
    of_kind(node, key_span, field.name, &field.kind, out);
}

/// Checks one value; `name` is what messages call it.
pub(crate) fn of_kind(node: &Node, key_span: &Span, name: &str, kind: &Kind, out: &mut Diagnostics) {
    match kind {
        Kind::Text => drop(text(node, name, out)),
        Kind::Path | Kind::Line => line(node, name, out),
        Kind::Name => {
            if let Some(value) = text(node, name, out)
                && let Err(error) = name::check(value)
            {
                out.push(wrong(node, name, format!("is no name: {error}")).hint(suggest_name(value)));
            }
        }
        Kind::Variable => variable(node, name, out),
        Kind::Inside => {
            if let Some(value) = text(node, name, out)
                && let Err(why) = inside::check(value)
            {
                out.push(
                    wrong(node, name, format!("must stay inside, but `{}` {why}", secret::shown(value)))
                        .hint("write a relative path such as `src/main.rs`"),
                );
            }
        }
        Kind::Bool => boolean(node, name, out),
        Kind::Whole { min, max } => whole(node, name, *min, *max, out),
        Kind::Positive { max } => positive(node, name, *max, out),
        Kind::Money => quantity_of(node, name, quantity::money(node).err(), "such as `25` or `0.50 USD`", out),
        Kind::Duration => quantity_of(node, name, quantity::duration(node).err(), "such as `600` or `30m`", out),
        Kind::Choice(choices) => choice(node, name, choices, out),
        Kind::Any => no_secrets(node, key_span, name, out),
        Kind::List { of, empty } => list(node, key_span, name, of, *empty, out),
        Kind::Section(inner) => section(node, inner, &node.span, out),
        Kind::Map(of) => map(node, name, of, out),
        Kind::ListOr(list, mapping) => {
            let is_list = matches!(node.value, Value::List(_));
            of_kind(node, key_span, name, if is_list { list } else { mapping }, out);
        }
        Kind::Either(scalar, collection) => {
            let is_collection = matches!(node.value, Value::List(_) | Value::Map(_));
            of_kind(node, key_span, name, if is_collection { collection } else { scalar }, out);
        }
    }
}

/// Starts a diagnostic about a value.
fn wrong(node: &Node, name: &str, what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(format!("`{name}` {what}")).at(&node.span, found(node))
}

fn found(node: &Node) -> String {
    match &node.value {
        Value::Null => "nothing is here".to_owned(),
        Value::List(_) | Value::Map(_) => format!("this is {}", node.kind()),
        Value::Text(value) => format!("found text `{}`", secret::shown(value)),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            format!("found {} `{}`", node.kind().trim_start_matches("a "), secret::shown(node.raw()))
        }
    }
}

/// Takes text; refuses what is no text, and what another reader would not take for text.
fn text<'n>(node: &'n Node, name: &str, out: &mut Diagnostics) -> Option<&'n str> {
    match &node.value {
        Value::Text(value) => {
            if node.plain
                && let Some(other) = scalar::misread(value)
            {
                out.push(
                    wrong(node, name, format!("is text, but some readers take `{value}` for {other}"))
                        .hint(format!("put quotes around it: \"{value}\"")),
                );
                return None;
            }
            if secret::looks_like_key(value) {
                out.push(literal_key(name, &node.span));
                return None;
            }
            if value.contains('\0') {
                out.push(Diagnostic::error(format!("`{name}` holds a NUL character")).at(&node.span, "here"));
                return None;
            }
            Some(value)
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            let raw = node.raw();
            out.push(
                wrong(node, name, format!("is text, but `{raw}` without quotes is {}", node.kind()))
                    .hint(format!("put quotes around it: \"{raw}\"")),
            );
            None
        }
        Value::Null if !node.raw().is_empty() => {
            let raw = node.raw();
            out.push(
                wrong(node, name, format!("is text, but `{raw}` without quotes means nothing at all"))
                    .hint(format!("put quotes around it if you mean the text: \"{raw}\"")),
            );
            None
        }
        Value::Null | Value::List(_) | Value::Map(_) => {
            out.push(wrong(node, name, format!("takes text, not {}", node.kind())));
            None
        }
    }
}

fn line(node: &Node, name: &str, out: &mut Diagnostics) {
    let Some(value) = text(node, name, out) else { return };
    if value.trim().is_empty() {
        out.push(Diagnostic::error(format!("`{name}` is empty")).at(&node.span, "nothing is here"));
    } else if value.trim_end_matches('\n').chars().any(char::is_control) {
        out.push(
            Diagnostic::error(format!("`{name}` must be one line without control characters"))
                .at(&node.span, "more than a line"),
        );
    }
}

fn variable(node: &Node, name: &str, out: &mut Diagnostics) {
    let Some(value) = text(node, name, out) else { return };
    let is_variable = value.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_variable {
        // The value may be a key of a shape that nobody knows: it is not repeated.
        out.push(
            Diagnostic::error(format!("`{name}` takes the name of an environment variable"))
                .at(&node.span, "letters, digits and `_` only")
                .hint("write the variable's name, such as `OPENAI_API_KEY`, without `$`"),
        );
    }
}

fn boolean(node: &Node, name: &str, out: &mut Diagnostics) {
    if matches!(node.value, Value::Bool(_)) {
        return;
    }
    let error = wrong(node, name, "takes `true` or `false`");
    let hint = match node.text().map(str::to_ascii_lowercase).as_deref() {
        Some("yes" | "on" | "y" | "true") => Some("write `true`"),
        Some("no" | "off" | "n" | "false") => Some("write `false`"),
        _ => None,
    };
    out.push(match hint {
        Some(hint) => error.hint(hint),
        None => error,
    });
}

fn whole(node: &Node, name: &str, min: i64, max: i64, out: &mut Diagnostics) {
    let range = if max == i64::MAX { format!("at least {min}") } else { format!("between {min} and {max}") };
    match &node.value {
        Value::Int(number) if node.plain && scalar::ambiguous_number(node.raw()) => out.push(
            wrong(node, name, "is a number that readers disagree about")
                .hint(format!("write `{number}` if you mean that")),
        ),
        Value::Int(number) if (min..=max).contains(number) => {}
        Value::Int(_) => out.push(wrong(node, name, format!("must be {range}"))),
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e15 => {
            out.push(wrong(node, name, "takes a whole number").hint(format!("write `{number:.0}`")));
        }
        _ => out.push(wrong(node, name, format!("takes a whole number {range}"))),
    }
}

fn positive(node: &Node, name: &str, max: f64, out: &mut Diagnostics) {
    match node.number() {
        Some(_) if node.plain && scalar::ambiguous_number(node.raw()) => out
            .push(wrong(node, name, "is a number that readers disagree about").hint("write it without a leading zero")),
        Some(number) if number > 0.0 && number <= max => {}
        _ => out.push(wrong(node, name, format!("takes a number above 0, at most {max}"))),
    }
}

fn quantity_of(node: &Node, name: &str, problem: Option<String>, example: &str, out: &mut Diagnostics) {
    if let Some(problem) = problem {
        let error = wrong(node, name, &problem);
        out.push(if problem.starts_with("takes") { error.hint(format!("write a value {example}")) } else { error });
    } else if node.plain && node.number().is_some() && scalar::ambiguous_number(node.raw()) {
        out.push(wrong(node, name, "is a number that readers disagree about").hint("write it without a leading zero"));
    }
}

fn choice(node: &Node, name: &str, choices: &[&str], out: &mut Diagnostics) {
    let Some(value) = text(node, name, out) else { return };
    if !choices.contains(&value) {
        let all = choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ");
        let error = wrong(node, name, format!("must be one of {all}"));
        out.push(match nearest::find(value, choices.iter().copied()) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error,
        });
    }
}

fn list(node: &Node, key_span: &Span, name: &str, of: &Kind, empty: bool, out: &mut Diagnostics) {
    match &node.value {
        Value::List(items) if items.is_empty() && !empty => {
            out.push(Diagnostic::error(format!("`{name}` is empty")).at(&node.span, "name at least one"));
        }
        Value::List(items) => items.iter().for_each(|item| of_kind(item, key_span, name, of, out)),
        Value::Null => out.push(Diagnostic::error(format!("`{name}` is empty")).at(key_span, "name at least one")),
        _ => out
            .push(wrong(node, name, format!("takes a list, not {}", node.kind())).hint("write `- ` before each entry")),
    }
}

fn map(node: &Node, name: &str, of: &Kind, out: &mut Diagnostics) {
    if !matches!(node.value, Value::Map(_)) {
        out.push(wrong(node, name, format!("takes a mapping, not {}", node.kind())));
        return;
    }
    for entry in node.entries() {
        of_kind(&entry.value, &entry.key_span, &entry.key, of, out);
    }
}

/// Free values: only literal keys are refused.
fn no_secrets(node: &Node, key_span: &Span, name: &str, out: &mut Diagnostics) {
    if let Some(value) = node.text() {
        let refers = value.starts_with('$') || value.starts_with('{') || value.is_empty();
        if secret::looks_like_key(value) || (secret::names_a_secret(name) && !refers) {
            out.push(literal_key(name, key_span));
        }
    }
    node.items().iter().for_each(|item| no_secrets(item, key_span, name, out));
    for entry in node.entries() {
        no_secrets(&entry.value, &entry.key_span, &entry.key, out);
    }
}

fn suggest_name(value: &str) -> String {
    let clean: String = value
        .trim()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '-' })
        .take(128)
        .collect();
    let clean = clean.trim_start_matches(['.', '-']).trim_end_matches('-');
    if clean.is_empty() { "choose a name such as `nightly`".to_owned() } else { format!("`{clean}` would do") }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.trim_end_matches('.').chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}
