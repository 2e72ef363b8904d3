//! Typed reading of a document that was held against its shape: what does not fit was reported there and reads as absent.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::domain::Micros;

use super::document::{Node, Value};
use super::quantity;
use super::source::normalize;

impl Node {
    pub(crate) fn text_of(&self, key: &str) -> Option<String> {
        self.get(key)?.text().map(str::to_owned)
    }

    pub(crate) fn bool_of(&self, key: &str) -> Option<bool> {
        match self.get(key)?.value {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn whole_of<T: TryFrom<i64>>(&self, key: &str) -> Option<T> {
        match self.get(key)?.value {
            Value::Int(number) => T::try_from(number).ok(),
            _ => None,
        }
    }

    pub(crate) fn number_of(&self, key: &str) -> Option<f64> {
        self.get(key)?.number()
    }

    pub(crate) fn money_of(&self, key: &str) -> Option<Micros> {
        quantity::money(self.get(key)?).ok()
    }

    pub(crate) fn duration_of(&self, key: &str) -> Option<Duration> {
        quantity::duration(self.get(key)?).ok()
    }

    /// Returns a list of texts; a single text counts as a list of one.
    pub(crate) fn texts_of(&self, key: &str) -> Vec<String> {
        let Some(node) = self.get(key) else { return Vec::new() };
        match node.text() {
            Some(text) => vec![text.to_owned()],
            None => node.items().iter().filter_map(|item| item.text().map(str::to_owned)).collect(),
        }
    }

    /// Returns a free mapping as JSON.
    pub(crate) fn object_of(&self, key: &str) -> serde_json::Map<String, serde_json::Value> {
        match self.get(key).map(Self::to_json) {
            Some(serde_json::Value::Object(object)) => object,
            _ => serde_json::Map::new(),
        }
    }

    /// Returns a path, made absolute against the file that the value stands in.
    pub(crate) fn path_of(&self, key: &str) -> Option<PathBuf> {
        let node = self.get(key)?;
        node.text().map(|text| node.resolve(text))
    }

    /// Returns a list of paths, made absolute likewise; a single path counts as a list of one.
    pub(crate) fn paths_of(&self, key: &str) -> Vec<PathBuf> {
        let Some(node) = self.get(key) else { return Vec::new() };
        let items = if node.text().is_some() { std::slice::from_ref(node) } else { node.items() };
        items.iter().filter_map(|item| item.text().map(|text| item.resolve(text))).collect()
    }

    /// Makes a path absolute against the file that this node stands in.
    pub(crate) fn resolve(&self, path: &str) -> PathBuf {
        absolute(&self.span.source.base().join(path))
    }
}

/// Makes a path absolute against the current directory, without asking the disk about it.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    // Fails only for an empty path, or if the current directory is gone.
    normalize(&std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()))
}
