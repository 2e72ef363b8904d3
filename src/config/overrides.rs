//! `--set key=value`: changes of a run file, made on the document before it is checked.

use std::sync::Arc;

use super::diagnostic::Diagnostic;
use super::document::{Entry, Node, Value};
use super::source::{Source, Span};
use super::yaml;

/// Changes one value; a key that is not there is added, and checked like any other.
pub(crate) fn apply(document: &mut Node, argument: &str) -> Result<(), Diagnostic> {
    let source = Source::flag("--set", argument);
    let (path, at) = split(&source, "--set")?;
    let value = value(&source, at)?;
    let mut node = document;
    let mut start = 0;
    let parts: Vec<&str> = path.split('.').collect();
    for (depth, part) in parts.iter().enumerate() {
        let place = Span::new(&source, start..start + part.len());
        let last = depth + 1 == parts.len();
        start += part.len() + 1;
        node = step(node, part, &place, last)?;
    }
    *node = value;
    Ok(())
}

/// Splits `key=value`; returns the key and where the value starts.
pub(crate) fn split<'s>(source: &'s Arc<Source>, flag: &str) -> Result<(&'s str, usize), Diagnostic> {
    let text = source.text();
    match text.split_once('=') {
        Some((key, _)) if !key.trim().is_empty() => Ok((key, key.len() + 1)),
        _ => Err(Diagnostic::error(format!("`{flag}` takes `key=value`"))
            .at(&Span::new(source, 0..text.len()), "no key and value")
            .hint(format!("write `{flag} key=value`"))),
    }
}

fn value(source: &Arc<Source>, at: usize) -> Result<Node, Diagnostic> {
    if source.text()[at..].trim().is_empty() {
        return Ok(Node::new(Value::Null, source, at..source.text().len()));
    }
    yaml::parse_from(source, at)
}

/// Goes one step down, making the mappings that are missing.
fn step<'n>(node: &'n mut Node, part: &str, place: &Span, last: bool) -> Result<&'n mut Node, Diagnostic> {
    let kind = node.kind();
    if node.is_null() {
        node.value = Value::Map(Vec::new());
    }
    match &mut node.value {
        Value::Map(entries) => {
            let known = entries.iter().position(|entry| entry.key == part);
            let index = known.unwrap_or_else(|| {
                let value = if last { Value::Null } else { Value::Map(Vec::new()) };
                let value = Node { value, span: place.clone(), plain: false };
                entries.push(Entry { key: part.to_owned(), key_span: place.clone(), value });
                entries.len() - 1
            });
            // Messages about the new value show the flag, not the file.
            entries[index].key_span = place.clone();
            Ok(&mut entries[index].value)
        }
        Value::List(items) => {
            let count = items.len();
            let index = part.parse::<usize>().ok().filter(|index| *index < count);
            match index {
                Some(index) => Ok(&mut items[index]),
                None => Err(Diagnostic::error(format!("`--set` names element `{part}` of a list of {count}"))
                    .at(place, "no such element")
                    .hint("elements count from 0")),
            }
        }
        _ => Err(Diagnostic::error(format!("`--set` goes into {kind}")).at(place, "there is nothing below it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(yaml: &str, arguments: &[&str]) -> serde_json::Value {
        let mut node = super::super::yaml::parse(&Source::flag("x", yaml)).expect("parses");
        for argument in arguments {
            apply(&mut node, argument).expect("applies");
        }
        node.to_json()
    }

    #[test]
    fn replaces_adds_and_goes_into_lists() {
        let json = changed(
            "a: 1\nlist:\n  - x: 1\n",
            &["a=2", "b.c=text", "list.0.x=[1, two]", "empty=", "quoted=\"007\"", "eq=a=b"],
        );
        let expected = serde_json::json!({
            "a": 2, "list": [{"x": [1, "two"]}], "b": {"c": "text"}, "empty": null, "quoted": "007", "eq": "a=b",
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn says_what_is_wrong_with_the_flag() {
        for (argument, message) in [
            ("novalue", "`--set` takes `key=value`"),
            ("=1", "`--set` takes `key=value`"),
            ("list.7=1", "names element `7` of a list of 1"),
            ("a.b=1", "goes into a whole number"),
            ("a=[1", "this is not YAML"),
        ] {
            let mut node = super::super::yaml::parse(&Source::flag("x", "a: 1\nlist: [1]\n")).expect("parses");
            let error = apply(&mut node, argument).expect_err(argument).to_string();
            assert!(error.contains(message) && error.contains("--> --set:1:"), "{error}");
        }
    }
}
