//! What is wrong with what people wrote, shown where it stands.

use std::fmt;

use annotate_snippets::{AnnotationKind, Element, Group, Level, Origin, Renderer, Snippet};

use super::secret;
use super::source::Span;

/// Whether a run can go on in spite of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but the author should know.
    Warning,
}

/// One problem: what, where, and what to do.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnostic {
    severity: Severity,
    message: String,
    /// The first is the place; others are related, maybe in another file.
    labels: Vec<Label>,
    /// Where there is a file but no place in it.
    file: Option<String>,
    hint: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Label {
    span: Span,
    text: String,
}

/// Problems that a run can live with. Prints one rendering after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Warnings(pub Vec<Diagnostic>);

/// Everything that is wrong with a run file and what it names. Prints all of it, with snippets and hints.
#[derive(Debug, Clone, PartialEq)]
pub struct ConfigError {
    diagnostics: Vec<Diagnostic>,
}

impl Diagnostic {
    pub(crate) fn error(message: impl Into<String>) -> Self {
        let message = clean(&message.into());
        Self { severity: Severity::Error, message, labels: Vec::new(), file: None, hint: None }
    }

    pub(crate) fn warning(message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(message) }
    }

    /// Sets the place and what is said under it.
    pub(crate) fn at(mut self, span: &Span, label: impl Into<String>) -> Self {
        self.labels.insert(0, Label { span: span.clone(), text: clean(&label.into()) });
        self
    }

    /// Adds a related place.
    pub(crate) fn also(mut self, span: &Span, label: impl Into<String>) -> Self {
        self.labels.push(Label { span: span.clone(), text: clean(&label.into()) });
        self
    }

    /// Names a file in which there is no place to point at.
    pub(crate) fn in_file(mut self, shown: &str) -> Self {
        self.file = Some(shown.to_owned());
        self
    }

    /// Says what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(clean(&hint.into()));
        self
    }

    /// Returns whether it is an error or a warning.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Returns the message: a lowercase fragment on one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns what to do about it, where that is known.
    #[must_use]
    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Returns file, line and column (from 1; 0 where there is only a file).
    #[must_use]
    pub fn location(&self) -> Option<(&str, usize, usize)> {
        match (self.labels.first(), &self.file) {
            (Some(label), _) => {
                let (line, column) = label.span.position();
                Some((label.span.source.shown(), line, column))
            }
            (None, Some(file)) => Some((file, 0, 0)),
            (None, None) => None,
        }
    }

    /// Renders it as compilers do: message, place, snippet, hint. `colour` adds terminal escapes.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group: Group<'_> = level.primary_title(&self.message).elements(Vec::<Element<'_>>::new());
        let mut shown: Vec<&Span> = Vec::new();
        for label in &self.labels {
            // One snippet for each file, in the order of the labels.
            if shown.iter().any(|span| span.source == label.span.source) {
                continue;
            }
            shown.push(&label.span);
            group = group.element(self.snippet(&label.span));
        }
        if let (true, Some(file)) = (self.labels.is_empty(), &self.file) {
            group = group.element(Origin::path(file.as_str()));
        }
        let mut text = renderer.render(&[group]);
        if let Some(hint) = &self.hint {
            text.push_str("\n\nhint: ");
            text.push_str(hint);
        }
        text
    }

    /// The snippet of one file, with all labels that are in it. Only the lines from the first to the last of them are
    /// handed to the renderer, which reads all it is given.
    fn snippet<'s>(&'s self, first: &'s Span) -> Snippet<'s, annotate_snippets::Annotation<'s>> {
        let here = || self.labels.iter().enumerate().filter(|(_, label)| label.span.source == first.source);
        let text = first.source.masked();
        let ranges = here().map(|(_, label)| one_line(&label.span));
        let (start, end) =
            ranges.fold((text.len(), 0), |(start, end), range| (start.min(range.start), end.max(range.end)));
        let from = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let to = text[end..].find('\n').map_or(text.len(), |newline| end + newline);
        let line = text[..from].matches('\n').count() + 1;
        let mut snippet = Snippet::source(&text[from..to]).line_start(line).path(first.source.shown());
        for (index, label) in here() {
            let kind =
                if index == 0 || label.span == *first { AnnotationKind::Primary } else { AnnotationKind::Context };
            let range = one_line(&label.span);
            snippet = snippet.annotation(kind.span(range.start - from..range.end - from).label(label.text.as_str()));
        }
        snippet
    }
}

/// Whatever a message repeats of a file, it repeats no key and nothing that a terminal would obey.
fn clean(text: &str) -> String {
    secret::mask_shapes(text).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// The part of a span that lies on its first line: a mark under a whole mapping would show all of it.
fn one_line(span: &Span) -> std::ops::Range<usize> {
    let text = &span.source.text()[span.range.clone()];
    let end = text.find('\n').map_or(text.len(), |at| text[..at].trim_end().len());
    span.range.start..span.range.start + end
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl ConfigError {
    pub(crate) fn new(diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics }
    }

    /// Returns the problems in the order in which they were found.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// Renders all of them, with terminal colours if asked for.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        join(&self.diagnostics, colour)
    }
}

impl From<Diagnostic> for ConfigError {
    fn from(diagnostic: Diagnostic) -> Self {
        Self::new(vec![diagnostic])
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for ConfigError {}

impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&join(&self.0, false))
    }
}

fn join(diagnostics: &[Diagnostic], colour: bool) -> String {
    diagnostics.iter().map(|diagnostic| diagnostic.render(colour)).collect::<Vec<_>>().join("\n\n")
}

/// The most problems that are shown at once.
const MAX_SHOWN: usize = 50;

/// A collector: everything that is found, in order.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    found: Vec<Diagnostic>,
    /// Problems beyond those that are shown.
    more: usize,
}

impl Diagnostics {
    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        // An anchor that is used twice brings the same problem twice.
        if self.found.contains(&diagnostic) {
            return;
        }
        // A file that is wrong throughout needs no ten thousand snippets. A first error is always kept.
        if !self.is_full() || (diagnostic.severity == Severity::Error && !self.has_errors()) {
            self.found.push(diagnostic);
        } else {
            self.more += 1;
        }
    }

    pub(crate) fn extend(&mut self, diagnostics: impl IntoIterator<Item = Diagnostic>) {
        diagnostics.into_iter().for_each(|diagnostic| self.push(diagnostic));
    }

    /// Keeps the value of a step that can fail, or its diagnostics.
    pub(crate) fn keep<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.extend(error.diagnostics)).ok()
    }

    /// Tells whether further problems are only counted.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() >= MAX_SHOWN
    }

    /// Returns how many problems were found so far.
    pub(crate) fn count(&self) -> usize {
        self.found.len() + self.more
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.iter().any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Ends a step: its warnings, or all that was found if there is an error.
    pub(crate) fn finish(mut self) -> Result<Warnings, ConfigError> {
        if self.more > 0 {
            let rest = format!("{} more problems are not shown", self.more);
            self.found.push(if self.has_errors() { Diagnostic::error(rest) } else { Diagnostic::warning(rest) });
        }
        if self.has_errors() { Err(ConfigError::new(self.found)) } else { Ok(Warnings(self.found)) }
    }
}
