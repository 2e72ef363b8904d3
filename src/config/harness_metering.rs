//! What a harness manifest says for the meter: how the harness is pointed at it.

use std::collections::BTreeMap;

use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::Node;
use super::harness_manifest::texts;

/// What a harness wants behind the address of a provider, such as `/v1`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BasePath {
    /// For every provider without one of its own.
    pub otherwise: String,
    /// By the names of providers.
    pub by_provider: BTreeMap<String, String>,
}

impl BasePath {
    /// Returns the path for a provider.
    #[must_use]
    pub fn of(&self, provider: &str) -> &str {
        self.by_provider.get(provider).unwrap_or(&self.otherwise)
    }

    pub(super) fn read(node: Option<&Node>, out: &mut Diagnostics) -> Self {
        let entries = node.map(Node::entries).unwrap_or_default().iter().map(|entry| &entry.value);
        for value in node.into_iter().filter(|node| node.text().is_some()).chain(entries) {
            let text = value.text().unwrap_or_default();
            if !text.is_empty() && (!text.starts_with('/') || text.ends_with('/')) {
                out.push(
                    Diagnostic::error("`base_path` begins with `/` and ends without one")
                        .at(&value.span, "no path")
                        .hint("write it like `/v1`, or leave it out"),
                );
            }
        }
        let otherwise = node.and_then(Node::text).unwrap_or_default().to_owned();
        Self { otherwise, by_provider: texts(node) }
    }
}

/// Tells whether a text names `{NAME}` or `{NAME?}`.
pub(super) fn names(text: &str, name: &str) -> bool {
    text.contains(&format!("{{{name}}}")) || text.contains(&format!("{{{name}?}}"))
}
