//! Finds secrets: one pass of one automaton over short literals, and a closer look only where one of them stands.
//!
//! The automaton holds the first bytes of every form and the trigger of every shape. It stays small whatever the
//! secrets' length, so ordinary text runs through it at memory-like speed.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind, StartKind};

use super::forms;
use super::shapes::{Class, Found, SHAPES};

/// So many first bytes of a form are searched for; the rest is compared.
const PREFIX: usize = 8;
/// Up to so many bytes of literals the automaton is a table, the fastest kind; beyond, a table would be too large.
const TABLE_LITERALS: usize = 64 * 1024;
/// The bytes before a trigger that decide whether it starts a word.
const LOOK_BEHIND: usize = 32;

/// What a span is replaced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Nothing: the marker of a span that goes on was written before.
    Continued,
    /// `[redacted:NAME]`.
    Secret(usize),
    /// `[redacted]`.
    Shape,
}

/// Bytes to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    /// Where the literal that led to it begins; before `start` where the literal itself is shown (`Bearer `).
    pub(super) trigger: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) mark: Mark,
}

/// What a scan found.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// Unordered, may overlap.
    pub(super) spans: Vec<Span>,
    /// The first byte that may belong to a value that goes on after the bytes at hand.
    pub(super) open_value: usize,
    /// The same for a shape.
    pub(super) open_shape: usize,
    /// The class of a shape that reaches the end of the bytes at hand.
    pub(super) touching: Option<Class>,
}

struct Form {
    bytes: Vec<u8>,
    secret: usize,
}

enum Target {
    /// Forms that begin with the literal, as a range of the sorted list.
    Forms(Range<usize>),
    Shape(usize),
}

/// The automaton and what its literals stand for.
pub(super) struct Matcher {
    automaton: Option<AhoCorasick>,
    targets: Vec<Target>,
    /// Sorted by bytes, so that forms with one beginning stand together.
    forms: Vec<Form>,
    markers: Vec<String>,
    /// For each pair of bytes whether some literal begins with it.
    pairs: Vec<bool>,
    longest: usize,
}

impl Matcher {
    pub(super) fn new(secrets: &[(String, String)]) -> Self {
        let mut forms: Vec<Form> = Vec::new();
        for (secret, (_, value)) in secrets.iter().enumerate() {
            forms.extend(forms::of(value).into_iter().map(|bytes| Form { bytes, secret }));
        }
        forms.sort_by(|a, b| a.bytes.cmp(&b.bytes));
        // Two names for one value: the first name stands.
        forms.dedup_by(|later, first| later.bytes == first.bytes);

        let mut literals: Vec<Vec<u8>> = Vec::new();
        let mut targets = Vec::new();
        let mut at = 0;
        while at < forms.len() {
            let prefix = prefix_of(&forms[at].bytes).to_vec();
            let count = forms[at..].iter().take_while(|form| prefix_of(&form.bytes) == prefix).count();
            literals.push(prefix);
            targets.push(Target::Forms(at..at + count));
            at += count;
        }
        for (index, shape) in SHAPES.iter().enumerate() {
            literals.push(shape.trigger.as_bytes().to_vec());
            targets.push(Target::Shape(index));
        }
        let longest_trigger = SHAPES.iter().map(|shape| shape.trigger.len()).max().unwrap_or(0);
        let longest = forms.iter().map(|form| form.bytes.len()).max().unwrap_or(0).max(longest_trigger);
        let mut pairs = vec![false; 1 << 16];
        for literal in &literals {
            pairs[pair(literal[0], literal[1])] = true;
        }
        Self {
            automaton: automaton(&literals),
            targets,
            forms,
            markers: secrets.iter().map(|(name, _)| format!("[redacted:{name}]")).collect(),
            pairs,
            longest,
        }
    }

    pub(super) fn secret_count(&self) -> usize {
        self.markers.len()
    }

    /// Returns how many bytes before a position can matter to what stands there.
    pub(super) fn context(&self) -> usize {
        self.longest + LOOK_BEHIND
    }

    /// Finds every secret in bytes that are complete; sorted and disjoint.
    pub(super) fn spans(&self, hay: &[u8]) -> Vec<Span> {
        merged(self.scan(hay, 0, true).spans)
    }

    /// Looks for secrets. Shapes that begin before `from` were decided before and are passed over; `complete` says that
    /// what stands at the end of `hay` shall be decided as if nothing followed.
    pub(super) fn scan(&self, hay: &[u8], from: usize, complete: bool) -> Scan {
        let end = hay.len();
        let mut scan = Scan { open_value: self.open_value(hay), open_shape: end, ..Scan::default() };
        if !complete {
            scan.open_shape = open_trigger(hay);
        }
        let Some(automaton) = &self.automaton else { return scan };
        let mut passed = [0; SHAPES.len()];
        for found in automaton.find_overlapping_iter(hay) {
            match &self.targets[found.pattern().as_usize()] {
                Target::Forms(range) => self.compare(hay, found.start(), range.clone(), &mut scan.spans),
                Target::Shape(index) => {
                    let at = found.start();
                    if at < from || at < passed[*index] {
                        continue;
                    }
                    match SHAPES[*index].examine(hay, at, complete) {
                        Found::Nothing { until } => passed[*index] = until,
                        Found::Undecided => {
                            scan.open_shape = scan.open_shape.min(at);
                            passed[*index] = end;
                        }
                        Found::Secret { start, end: stop, class } => {
                            passed[*index] = stop;
                            if stop == end {
                                scan.touching = Some(class);
                            }
                            scan.spans.push(Span { trigger: at, start, end: stop, mark: Mark::Shape });
                        }
                    }
                }
            }
        }
        scan
    }

    /// Adds the longest form of a group that stands at `at`.
    fn compare(&self, hay: &[u8], at: usize, group: Range<usize>, spans: &mut Vec<Span>) {
        let matching = self.forms[group].iter().filter(|form| hay[at..].starts_with(&form.bytes));
        if let Some(form) = matching.max_by_key(|form| form.bytes.len()) {
            let end = at + form.bytes.len();
            spans.push(Span { trigger: at, start: at, end, mark: Mark::Secret(form.secret) });
        }
    }

    /// Returns where the longest end of `hay` that begins some form starts.
    fn open_value(&self, hay: &[u8]) -> usize {
        let from = hay.len().saturating_sub(self.longest.saturating_sub(1));
        (from..hay.len()).find(|&at| self.begins_a_form(&hay[at..])).unwrap_or(hay.len())
    }

    fn begins_a_form(&self, bytes: &[u8]) -> bool {
        if let [a, b, ..] = *bytes
            && !self.pairs[pair(a, b)]
        {
            return false;
        }
        let at = self.forms.partition_point(|form| form.bytes.as_slice() <= bytes);
        self.forms.get(at).is_some_and(|form| form.bytes.starts_with(bytes))
    }

    /// Writes `hay[range]` with the spans replaced; spans are sorted, disjoint and inside the range.
    pub(super) fn write_replaced(&self, hay: &[u8], range: Range<usize>, spans: &[Span], out: &mut Vec<u8>) {
        let mut at = range.start;
        for span in spans {
            out.extend_from_slice(&hay[at..span.start]);
            match span.mark {
                Mark::Secret(secret) => out.extend_from_slice(self.markers[secret].as_bytes()),
                Mark::Shape => out.extend_from_slice(b"[redacted]"),
                Mark::Continued => {}
            }
            at = span.end;
        }
        out.extend_from_slice(&hay[at..range.end]);
    }
}

/// Joins spans that overlap, so that no part of either survives. The joined span is named for the exact value in it.
pub(super) fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    let mut out: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if span.start < last.end => {
                last.end = last.end.max(span.end);
                last.trigger = last.trigger.min(span.trigger);
                last.mark = match (last.mark, span.mark) {
                    (Mark::Continued, _) | (_, Mark::Continued) => Mark::Continued,
                    (Mark::Shape, other) => other,
                    (first, _) => first,
                };
            }
            _ => out.push(span),
        }
    }
    out
}

fn automaton(literals: &[Vec<u8>]) -> Option<AhoCorasick> {
    let bytes: usize = literals.iter().map(Vec::len).sum();
    let kind = (bytes <= TABLE_LITERALS).then_some(AhoCorasickKind::DFA);
    let build = |kind| {
        AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .start_kind(StartKind::Unanchored)
            .kind(kind)
            .build(literals)
            .ok()
    };
    build(kind).or_else(|| build(None))
}

/// Returns where the longest end of `hay` that begins some trigger starts.
fn open_trigger(hay: &[u8]) -> usize {
    let longest = SHAPES.iter().map(|shape| shape.trigger.len()).max().unwrap_or(0);
    let from = hay.len().saturating_sub(longest);
    let begins =
        |tail: &[u8]| SHAPES.iter().any(|s| s.trigger.len() > tail.len() && s.trigger.as_bytes().starts_with(tail));
    (from..hay.len()).find(|&at| begins(&hay[at..])).unwrap_or(hay.len())
}

fn prefix_of(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(PREFIX)]
}

fn pair(a: u8, b: u8) -> usize {
    usize::from(a) << 8 | usize::from(b)
}
