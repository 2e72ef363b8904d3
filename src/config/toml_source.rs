//! TOML into a [`Node`].

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diagnostic::Diagnostic;
use super::document::{Entry, MAX_DEPTH, Node, Value};
use super::source::{Source, Span};

/// Parses a manifest. Returns every syntax error of it.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Node, Vec<Diagnostic>> {
    if source.text().trim().is_empty() {
        return Err(vec![Diagnostic::error(format!("`{}` is empty", source.shown())).in_file(source.shown())]);
    }
    let (table, errors) = DeTable::parse_recoverable(source.text());
    if !errors.is_empty() {
        return Err(errors.iter().map(|error| syntax(source, error)).collect());
    }
    let range = 0..source.text().len();
    let value = map(source, table.get_ref(), 0).map_err(|error| vec![error])?;
    Ok(Node::new(value, source, range))
}

fn syntax(source: &Arc<Source>, error: &toml::de::Error) -> Diagnostic {
    let message = error.message().lines().next().unwrap_or("unreadable").to_owned();
    let diagnostic = Diagnostic::error(format!("this is not TOML: {message}"));
    match error.span() {
        Some(range) => diagnostic.at(&Span::new(source, range), "here"),
        None => diagnostic.in_file(source.shown()),
    }
}

fn map(source: &Arc<Source>, table: &DeTable<'_>, depth: usize) -> Result<Value, Diagnostic> {
    let mut entries = Vec::with_capacity(table.len());
    for (key, value) in table {
        let key_span = Span::new(source, key.span());
        entries.push(Entry { key: key.get_ref().to_string(), key_span, value: node(source, value, depth + 1)? });
    }
    // The parser sorts by name; messages and lists follow the file.
    entries.sort_by_key(|entry| entry.key_span.range.start);
    Ok(Value::Map(entries))
}

fn node(source: &Arc<Source>, spanned: &Spanned<DeValue<'_>>, depth: usize) -> Result<Node, Diagnostic> {
    let range = spanned.span();
    if depth > MAX_DEPTH {
        return Err(Diagnostic::error(format!("values are nested deeper than {MAX_DEPTH} levels"))
            .at(&Span::new(source, range), "too deep"));
    }
    let value = match spanned.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Integer(number) => Value::Int(i64::from_str_radix(number.as_str(), number.radix()).map_err(|_| {
            Diagnostic::error("the number is too large").at(&Span::new(source, range.clone()), "out of range")
        })?),
        DeValue::Float(number) => Value::Float(
            number
                .as_str()
                .parse()
                .map_err(|_| Diagnostic::error("this is not a number").at(&Span::new(source, range.clone()), "here"))?,
        ),
        DeValue::Datetime(_) => {
            return Err(Diagnostic::error("a date has no meaning here")
                .at(&Span::new(source, range.clone()), "a date")
                .hint("put quotes around it"));
        }
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| node(source, item, depth + 1)).collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => map(source, table, depth)?,
    };
    Ok(Node::new(value, source, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_order_and_the_places() {
        let source = Source::flag("x.toml", "z = 1\n[run]\nargv = [\"a\", 'b']\n[a]\nf = 1.5\n");
        let node = parse(&source).expect("parses");
        let keys: Vec<&str> = node.entries().iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["z", "run", "a"]);
        let argv = node.get("run").and_then(|run| run.get("argv")).expect("is there");
        assert_eq!(argv.raw(), "[\"a\", 'b']");
        assert_eq!(argv.items()[1].text(), Some("b"));
    }

    #[test]
    fn says_every_syntax_error() {
        let source = Source::flag("x.toml", "a = \nb = 1\nb = 2\n");
        let errors = parse(&source).expect_err("does not parse");
        let text: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert!(errors.len() >= 2, "{text:?}");
        assert!(text.iter().any(|error| error.contains("duplicate key")), "{text:?}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[a-z0-9 =.\\-\\[\\]{}'\"#\\\\\n\t,_+äü\u{1b}]{0,80}") {
            let source = Source::flag("x.toml", &text);
            match parse(&source) {
                Ok(node) => {
                    let mut out = crate::config::diagnostic::Diagnostics::default();
                    crate::config::shape::check::section(&node, &crate::config::shape::manifest::HARNESS, &node.span, &mut out);
                    crate::config::params::declared(&node, &mut out);
                    proptest::prop_assert!(!out.finish().expect_err("keys are missing").to_string().is_empty());
                }
                Err(problems) => proptest::prop_assert!(problems.iter().all(|problem| !problem.to_string().is_empty())),
            }
        }
    }
}
