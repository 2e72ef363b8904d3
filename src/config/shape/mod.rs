//! The shape of the four formats. One table per format drives the checks of a file *and* its JSON Schema, so the two
//! cannot say different things.

pub(crate) mod check;
pub(crate) mod manifest;
pub(crate) mod run;
pub(crate) mod task;

/// A mapping with known keys.
#[derive(Debug)]
pub(crate) struct Section {
    /// What messages call it: `run file`, `model`.
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [Field],
}

/// One key.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    /// One sentence for the schema.
    pub(crate) help: &'static str,
}

/// What may stand there.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// Text on one line that says something: no control characters, not empty.
    Line,
    /// Letters, digits, `.`, `_`, `-`.
    Name,
    /// The name of an environment variable; a key in its place is refused unseen.
    Variable,
    /// A path on the host.
    Path,
    /// A path below the workspace that every system can hold.
    Inside,
    /// `true` or `false`.
    Bool,
    /// A whole number in a range.
    Whole { min: i64, max: i64 },
    /// A number above zero, at most this.
    Positive { max: f64 },
    /// Dollars: a number, or text such as `25 USD`.
    Money,
    /// Seconds, or text such as `30m`.
    Duration,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// Anything. Literal keys are refused.
    Any,
    /// A list.
    List { of: &'static Kind, empty: bool },
    /// A mapping with known keys.
    Section(&'static Section),
    /// A mapping with free keys.
    Map(&'static Kind),
    /// A scalar of the first kind, or a collection of the second.
    Either(&'static Kind, &'static Kind),
    /// A list of the first kind, or a mapping of the second.
    ListOr(&'static Kind, &'static Kind),
}

/// Declares a key that must be there.
pub(crate) const fn required(name: &'static str, kind: Kind, help: &'static str) -> Field {
    Field { name, kind, required: true, help }
}

/// Declares a key that may be left out.
pub(crate) const fn optional(name: &'static str, kind: Kind, help: &'static str) -> Field {
    Field { name, kind, required: false, help }
}
