//! Values of orchestrator parameters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A parameter's value, as scripts see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any finite number.
    Float(f64),
    /// Text.
    Text(String),
    /// A list of values.
    List(Vec<ParamValue>),
}

/// Parameters by name, in a stable order.
pub type Params = BTreeMap<String, ParamValue>;

impl ParamValue {
    /// Returns the name of the value's type, as manifests spell it.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "boolean",
            Self::Int(_) => "integer",
            Self::Float(_) => "number",
            Self::Text(_) => "string",
            Self::List(_) => "list",
        }
    }
}
