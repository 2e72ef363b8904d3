//! Texts that a stream tells in pieces: what lies across two events is brought together in the first of them.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::Range;

use memchr::memmem::Finder;
use serde_json::Value;

use super::places::stands_alone;

/// Streams beyond this are left as they are: all of their events are held as values.
const LARGEST: usize = 64 << 20;

/// Siblings that tell which of several texts an event goes on with.
const TELLING: &[&str] = &["index", "output_index", "content_index", "summary_index", "item_id"];

/// A string of an event: its line, where it stands there, and the piece of text in it.
struct Fragment {
    line: usize,
    pointer: String,
    text: String,
    changed: bool,
}

/// Replaces a path by a mark where it lies across events of a stream; `None` where it does nowhere.
pub(super) fn joined(body: &[u8], path: &str, mark: &str) -> Option<Vec<u8>> {
    if body.len() > LARGEST {
        return None;
    }
    let lines: Vec<&[u8]> = body.split(|byte| *byte == b'\n').collect();
    let mut fragments = Vec::new();
    let mut channels = HashMap::<String, Vec<usize>>::new();
    for (line, text) in lines.iter().enumerate() {
        if let Some(value) = event(text) {
            gather(&value, line, (&mut String::new(), &mut String::new()), &mut |channel, fragment| {
                channels.entry(channel.to_owned()).or_default().push(fragments.len());
                fragments.push(fragment);
            });
        }
    }
    for members in channels.values().filter(|members| members.len() > 1) {
        join(&mut fragments, members, path, mark);
    }
    let mut changes = HashMap::<usize, Vec<&Fragment>>::new();
    for fragment in fragments.iter().filter(|fragment| fragment.changed) {
        changes.entry(fragment.line).or_default().push(fragment);
    }
    if changes.is_empty() {
        return None;
    }
    let rewritten = lines.iter().enumerate().map(|(line, text)| match changes.get(&line) {
        Some(changes) => rewrite(text, changes).unwrap_or_else(|| text.to_vec()),
        None => text.to_vec(),
    });
    Some(rewritten.collect::<Vec<_>>().join(&b'\n'))
}

fn event(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

fn rewrite(line: &[u8], changes: &[&Fragment]) -> Option<Vec<u8>> {
    let mut value = event(line)?;
    for Fragment { pointer, text, .. } in changes {
        *value.pointer_mut(pointer)? = Value::String(text.clone());
    }
    let end = if line.ends_with(b"\r") { "\r" } else { "" };
    Some(format!("data: {value}{end}").into_bytes())
}

/// Finds the strings of an event, each with the name of the text that it is a piece of.
fn gather(
    value: &Value,
    line: usize,
    (pointer, channel): (&mut String, &mut String),
    found: &mut impl FnMut(&str, Fragment),
) {
    let (length, named) = (pointer.len(), channel.len());
    match value {
        Value::String(text) => {
            found(channel, Fragment { line, pointer: pointer.clone(), text: text.clone(), changed: false });
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                let own = TELLING.iter().any(|name| item.get(*name).is_some());
                _ = write!(pointer, "/{index}");
                // What says its own number may stand anywhere in the list.
                _ = if own { channel.write_str("/*") } else { write!(channel, "/{index}") };
                gather(item, line, (pointer, channel), found);
                pointer.truncate(length);
                channel.truncate(named);
            }
        }
        Value::Object(fields) => {
            for name in TELLING {
                if let Some(told) = fields.get(*name).filter(|told| told.is_number() || told.is_string()) {
                    _ = write!(channel, "[{name}={told}]");
                }
            }
            let told = channel.len();
            for (key, value) in fields {
                _ = write!(pointer, "/{}", key.replace('~', "~0").replace('/', "~1"));
                _ = write!(channel, "/{key}");
                gather(value, line, (pointer, channel), found);
                pointer.truncate(length);
                channel.truncate(told);
            }
            channel.truncate(named);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Replaces the path in the text that these fragments are together.
fn join(fragments: &mut [Fragment], members: &[usize], path: &str, mark: &str) {
    let mut starts = Vec::with_capacity(members.len());
    let mut whole = String::new();
    for member in members {
        starts.push(whole.len());
        whole.push_str(&fragments[*member].text);
    }
    let bytes = whole.as_bytes();
    let alone = |at: &usize| stands_alone(&bytes[..*at], &bytes[at + path.len()..]);
    let found: Vec<usize> = Finder::new(path).find_iter(bytes).filter(alone).collect();
    // From behind: what lies before keeps its place.
    for at in found.into_iter().rev() {
        let Range { start, end } = at..at + path.len();
        let holds = |place: usize| starts.partition_point(|start| *start <= place) - 1;
        let (first, last) = (holds(start), holds(end - 1));
        for member in first..=last {
            let fragment = &mut fragments[members[member]];
            let from = starts[member];
            let before = if member == first { fragment.text[..start - from].to_owned() + mark } else { String::new() };
            let after = if member == last { &fragment.text[end - from..] } else { "" };
            (fragment.text, fragment.changed) = (before + after, true);
        }
    }
}
