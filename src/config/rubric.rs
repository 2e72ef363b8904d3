//! The rubric of a task, from any of its three forms.

use crate::domain::rubric::{Anchor, Criterion, Rubric};

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Node, Value};

/// The least score that solves a task whose rubric names none.
const PASS_SCORE: f64 = 0.5;

/// The most points of a criterion that names none.
const POINTS: u32 = 10;

/// Characters of a name that is made from a question.
const LONGEST_NAME: usize = 40;

/// Reads a rubric whose shape was checked; what does not fit was reported, and gives none.
pub(super) fn decode(node: &Node, out: &mut Diagnostics) -> Option<Rubric> {
    let rubric = |criteria| Rubric { version: 1, criteria, pass_score: PASS_SCORE, files: Vec::new() };
    match &node.value {
        Value::Text(question) if question.trim().is_empty() => None,
        Value::Text(question) => {
            let (name, question) = ("overall".to_owned(), question.trim().to_owned());
            Some(rubric(vec![Criterion { name, question, weight: 1.0, points: POINTS, anchors: Vec::new() }]))
        }
        Value::List(items) => Some(rubric(criteria(items, out)?)),
        Value::Map(_) => Some(Rubric {
            version: node.whole_of("version").unwrap_or(1),
            criteria: criteria(node.get("criteria")?.items(), out)?,
            pass_score: node.number_of("pass_score").unwrap_or(PASS_SCORE),
            files: node.texts_of("files"),
        }),
        _ => None,
    }
}

fn criteria(items: &[Node], out: &mut Diagnostics) -> Option<Vec<Criterion>> {
    let mut all: Vec<Criterion> = Vec::new();
    for node in items {
        let next = criterion(node, out)?;
        if all.iter().any(|known| known.name == next.name) {
            out.push(
                Diagnostic::error(format!("two criteria are called `{}`", next.name))
                    .at(&node.span, "again here")
                    .hint("give one of them another `name`"),
            );
            return None;
        }
        all.push(next);
    }
    (!all.is_empty()).then_some(all)
}

fn criterion(node: &Node, out: &mut Diagnostics) -> Option<Criterion> {
    if node.entries().is_empty() {
        return None;
    }
    let asked = node.text_of("question").or_else(|| node.text_of("criterion"));
    let question = asked.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let Some(question) = question else {
        out.push(
            Diagnostic::error("a criterion asks nothing")
                .at(&node.span, "`question` is missing or empty")
                .hint("add `question`: what is asked of the work"),
        );
        return None;
    };
    let points = node.whole_of("points").unwrap_or(POINTS);
    Some(Criterion {
        name: node.text_of("name").unwrap_or_else(|| name_of(&question)),
        question,
        weight: node.number_of("weight").unwrap_or(1.0),
        points,
        anchors: anchors(node, points, out)?,
    })
}

fn anchors(node: &Node, most: u32, out: &mut Diagnostics) -> Option<Vec<Anchor>> {
    let mut all = Vec::new();
    for entry in node.get("anchors").map(Node::entries).unwrap_or_default() {
        let Some(points) = entry.key.parse::<u32>().ok().filter(|points| *points <= most) else {
            out.push(
                Diagnostic::error(format!("an anchor stands at `{}`, which is no number of points", entry.key))
                    .at(&entry.key_span, format!("a whole number from 0 to {most}"))
                    .hint("`points` sets the most"),
            );
            return None;
        };
        all.push(Anchor { points, text: entry.value.text()?.trim().to_owned() });
    }
    all.sort_by_key(|anchor| anchor.points);
    Some(all)
}

/// Makes a name from a question: its letters and digits.
fn name_of(question: &str) -> String {
    let words = question.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let mut name = words.map(str::to_ascii_lowercase).collect::<Vec<_>>().join("-");
    name.truncate(LONGEST_NAME);
    let name = name.trim_end_matches('-');
    if name.is_empty() { "criterion".to_owned() } else { name.to_owned() }
}
