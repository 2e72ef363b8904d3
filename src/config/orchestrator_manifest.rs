//! `orchestrator.toml`, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::domain::ParamValue;

/// A checked orchestrator manifest with the files beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct OrchestratorManifest {
    /// Its slug; for a built-in equal to its folder.
    pub slug: String,
    /// For people.
    pub name: String,
    /// For people.
    pub description: String,
    /// Where it came from.
    pub origin: Origin,
    /// Content hash of the whole directory (names and bytes).
    pub hash: String,
    /// The runner's path relative to the directory.
    pub runner: String,
    /// Declared parameters.
    pub params: BTreeMap<String, ParamSpec>,
}

/// Where an orchestrator lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Embedded in the binary: files by relative path.
    Builtin,
    /// A directory on the host, absolute and canonical.
    Directory(PathBuf),
}

/// A declared parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct ParamSpec {
    /// Its type.
    pub kind: ParamKind,
    /// Its default; a parameter without one must be given.
    pub default: Option<ParamValue>,
    /// Least value of a number.
    pub min: Option<f64>,
    /// Greatest value of a number.
    pub max: Option<f64>,
    /// Allowed values.
    pub choices: Vec<ParamValue>,
    /// For people.
    pub help: Option<String>,
}

/// Types of parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer,
    /// Any finite number; whole numbers are accepted.
    Number,
    /// Text.
    String,
    /// A list.
    List,
}
