//! YAML (1.2, core schema) into a [`Node`]. The only file that knows the YAML library.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_saphyr::granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle, ScanError, Span as EventSpan, Tag};

use super::diagnostic::Diagnostic;
use super::document::{Entry, MAX_DEPTH, Node, Value};
use super::scalar;
use super::source::{Source, Span};

/// The most nodes that aliases (`*name`) may add.
const MAX_ALIASED_NODES: usize = 10_000;

/// Parses a file that holds one document.
pub(crate) fn parse(source: &Arc<Source>) -> Result<Node, Diagnostic> {
    parse_from(source, 0)
}

/// Parses what follows `start`; positions count from the start of the source.
pub(crate) fn parse_from(source: &Arc<Source>, start: usize) -> Result<Node, Diagnostic> {
    let mut builder =
        Builder { source, start, open: Vec::new(), done: None, anchors: HashMap::new(), aliased: 0, end: start };
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut documents = 0usize;
    for event in Parser::new_from_str_with_options(&source.text()[start..], options) {
        let (event, span) = event.map_err(|error| builder.syntax(&error))?;
        if matches!(event, Event::DocumentStart(..)) {
            documents += 1;
            if documents > 1 {
                let place = builder.place(span);
                return Err(Diagnostic::error("a second document begins here")
                    .at(&place, "one document per file")
                    .hint("remove the `---`, or put each document into a file of its own"));
            }
        }
        builder.take(event, span)?;
    }
    match builder.done {
        Some(node) if documents > 0 => Ok(node),
        _ => Err(Diagnostic::error(format!("`{}` is empty", source.shown())).in_file(source.shown())),
    }
}

/// A collection that is still open.
struct Open {
    start: usize,
    anchor: usize,
    kind: Kind,
}

enum Kind {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, seen: HashSet<String>, key: Option<(String, Span)>, merges: Vec<Node> },
}

struct Builder<'s> {
    source: &'s Arc<Source>,
    start: usize,
    open: Vec<Open>,
    done: Option<Node>,
    anchors: HashMap<usize, (Node, usize)>,
    aliased: usize,
    /// Where the last scalar ended: block collections end there, not where the next token is.
    end: usize,
}

impl Builder<'_> {
    fn take(&mut self, event: Event<'_>, span: EventSpan) -> Result<(), Diagnostic> {
        let place = self.place(span);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = self.scalar(&text, style, tag.as_deref(), &place)?;
                self.end = node.span.range.end.max(self.end);
                self.anchor(anchor, &node);
                self.put(node)
            }
            Event::SequenceStart(_, anchor, tag) => self.begin(Kind::List(Vec::new()), anchor, tag.as_deref(), &place),
            Event::MappingStart(_, anchor, tag) => {
                let kind = Kind::Map { entries: Vec::new(), seen: HashSet::new(), key: None, merges: Vec::new() };
                self.begin(kind, anchor, tag.as_deref(), &place)
            }
            Event::SequenceEnd | Event::MappingEnd => self.finish(&place),
            Event::Alias(id) => self.alias(id, &place),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, kind: Kind, anchor: usize, tag: Option<&Tag>, place: &Span) -> Result<(), Diagnostic> {
        if let Some(tag) = tag
            && !matches!(tag.core_suffix(), Some("seq" | "map"))
        {
            return Err(unknown_tag(tag, place));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err(
                Diagnostic::error(format!("values are nested deeper than {MAX_DEPTH} levels")).at(place, "too deep")
            );
        }
        self.open.push(Open { start: place.range.start, anchor, kind });
        Ok(())
    }

    fn finish(&mut self, place: &Span) -> Result<(), Diagnostic> {
        let Some(open) = self.open.pop() else { return Ok(()) };
        // A flow collection's end event covers its bracket; a block's covers nothing.
        let end = if place.range.is_empty() { self.end } else { place.range.end };
        self.end = self.end.max(end);
        let value = match open.kind {
            Kind::List(items) => Value::List(items),
            Kind::Map { mut entries, seen, merges, .. } => {
                for merge in merges {
                    merge_into(&mut entries, &seen, &merge)?;
                }
                Value::Map(entries)
            }
        };
        let node = Node::new(value, self.source, open.start..end.max(open.start));
        self.anchor(open.anchor, &node);
        self.put(node)
    }

    fn anchor(&mut self, id: usize, node: &Node) {
        if id != 0 {
            self.anchors.insert(id, (node.clone(), count(node)));
        }
    }

    fn alias(&mut self, id: usize, place: &Span) -> Result<(), Diagnostic> {
        let Some((node, size)) = self.anchors.get(&id) else {
            return Err(Diagnostic::error("an alias refers to a value that contains it").at(place, "endless"));
        };
        self.aliased = self.aliased.saturating_add(*size);
        if self.aliased > MAX_ALIASED_NODES {
            return Err(Diagnostic::error(format!("aliases expand to more than {MAX_ALIASED_NODES} values"))
                .at(place, "too many copies")
                .hint("write the values out, or use fewer aliases"));
        }
        let mut node = node.clone();
        node.span = place.clone();
        self.end = self.end.max(place.range.end);
        self.put(node)
    }

    fn put(&mut self, node: Node) -> Result<(), Diagnostic> {
        let Some(open) = self.open.last_mut() else {
            self.done = Some(node);
            return Ok(());
        };
        match &mut open.kind {
            Kind::List(items) => items.push(node),
            Kind::Map { entries, seen, key, merges } => match key.take() {
                None => *key = Some(as_key(&node)?),
                Some((name, _)) if name == "<<" => merges.push(node),
                Some((name, span)) => {
                    if !seen.insert(name.clone()) {
                        let first = entries.iter().find(|entry| entry.key == name).map(|entry| entry.key_span.clone());
                        let mut error =
                            Diagnostic::error(format!("key `{name}` is written twice")).at(&span, "again here");
                        if let Some(first) = first {
                            error = error.also(&first, "first here");
                        }
                        return Err(error.hint("remove one of them"));
                    }
                    entries.push(Entry { key: name, key_span: span, value: node });
                }
            },
        }
        Ok(())
    }

    fn scalar(&self, text: &str, style: ScalarStyle, tag: Option<&Tag>, place: &Span) -> Result<Node, Diagnostic> {
        let forced = match tag {
            None => false,
            Some(tag) if tag.core_suffix() == Some("str") => true,
            Some(tag) => return Err(unknown_tag(tag, place)),
        };
        let plain = style == ScalarStyle::Plain && !forced;
        let value = if !plain {
            Value::Text(text.to_owned())
        } else if place.range.is_empty() {
            Value::Null
        } else {
            scalar::resolve(text)
        };
        let mut node = Node::new(value, self.source, place.range.clone());
        node.plain = plain;
        Ok(node)
    }

    fn place(&self, span: EventSpan) -> Span {
        let byte = |marker: serde_saphyr::granit_parser::Marker| self.start + marker.byte_offset().unwrap_or(0);
        let text = self.source.text();
        let start = byte(span.start).min(text.len());
        let end = byte(span.end).clamp(start, text.len());
        // A block scalar's span reaches over its line breaks; what people see ends with its last character.
        let end = start + text.get(start..end).map_or(end - start, |piece| piece.trim_end().len());
        Span::new(self.source, start..end)
    }

    fn syntax(&self, error: &ScanError) -> Diagnostic {
        let at = self.start + error.marker().byte_offset().unwrap_or(0);
        let text = self.source.text();
        let at = at.min(text.len());
        let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let line = text[line_start..].lines().next().unwrap_or("");
        let indent = line.len() - line.trim_start().len();
        if let Some(tab) = line[..indent].find('\t') {
            let place = Span::new(self.source, line_start + tab..line_start + tab + 1);
            return Diagnostic::error("a tab cannot indent YAML").at(&place, "a tab").hint("indent with spaces");
        }
        let place = Span::new(self.source, at..at + 1);
        if matches!(error.kind(), ErrorKind::RecursionLimitExceeded) {
            return too_deep(&place);
        }
        let info = error.info();
        let place_only = Diagnostic::error(format!("this is not YAML: {info}")).at(&place, "here");
        if line.trim_start().starts_with(['@', '`', '%']) || info.contains("mapping values are not allowed") {
            return place_only.hint("put quotes around text that holds `: ` or begins with a special character");
        }
        place_only
    }
}

fn too_deep(place: &Span) -> Diagnostic {
    Diagnostic::error(format!("values are nested deeper than {MAX_DEPTH} levels")).at(place, "too deep")
}

fn as_key(node: &Node) -> Result<(String, Span), Diagnostic> {
    match &node.value {
        Value::List(_) | Value::Map(_) => {
            Err(Diagnostic::error("a key must be text, not a collection").at(&node.span, "used as a key"))
        }
        Value::Text(text) => Ok((text.clone(), node.span.clone())),
        // `1: x` and `true: x`: what was written is the name.
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            Ok((node.raw().to_owned(), node.span.clone()))
        }
    }
}

/// Adds what `<<: *name` brings; keys that stand in the mapping itself win.
fn merge_into(entries: &mut Vec<Entry>, own: &HashSet<String>, merge: &Node) -> Result<(), Diagnostic> {
    match &merge.value {
        Value::Map(merged) => {
            for entry in merged {
                if !own.contains(&entry.key) && !entries.iter().any(|known| known.key == entry.key) {
                    entries.push(entry.clone());
                }
            }
            Ok(())
        }
        Value::List(items) => items.iter().try_for_each(|item| match item.value {
            Value::Map(_) => merge_into(entries, own, item),
            _ => Err(not_mergeable(item)),
        }),
        _ => Err(not_mergeable(merge)),
    }
}

fn not_mergeable(node: &Node) -> Diagnostic {
    Diagnostic::error(format!("`<<` takes a mapping, not {}", node.kind())).at(&node.span, "cannot be merged")
}

fn unknown_tag(tag: &Tag, place: &Span) -> Diagnostic {
    Diagnostic::error(format!("the tag `{}` has no meaning here", tag.original()))
        .at(place, "tagged value")
        .hint("remove the tag")
}

fn count(node: &Node) -> usize {
    1 + node.items().iter().map(count).sum::<usize>()
        + node.entries().iter().map(|entry| count(&entry.value)).sum::<usize>()
}

#[cfg(test)]
#[path = "yaml/tests.rs"]
mod tests;
