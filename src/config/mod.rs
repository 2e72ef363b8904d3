//! What people write, checked: run and task files (YAML), orchestrator and harness manifests (TOML).
//!
//! Parse, then validate, then resolve: [`load`] turns a run file into a [`plan::RunPlan`] in which every name is
//! resolved, every default filled in and every cell enumerated. Later code never sees a half-checked value.
//!
//! A file becomes a tree of nodes that know their place (`document`, from `yaml` or `toml_source`), is held against the
//! one table of its format (`shape`, which is also its JSON Schema), and is then read by hand. All problems of all
//! files are collected and shown at once ([`ConfigError`]).

pub mod catalog;
mod cell_key;
mod content_hash;
mod diagnostic;
mod document;
pub mod examples;
mod fields;
#[cfg(feature = "test-util")]
#[doc(hidden)]
pub mod fuzzing;
pub mod gateway;
pub mod harness_manifest;
pub mod harness_metering;
mod harness_settings;
mod inside;
pub mod judge;
mod load;
mod matrix;
mod nearest;
pub mod orchestrator_manifest;
mod overrides;
mod params;
pub mod plan;
mod quantity;
mod rubric;
mod run_file;
mod scalar;
pub mod schema;
mod secret;
mod shape;
mod single;
mod source;
mod task_file;
mod task_library;
mod toml_source;
mod yaml;

pub use catalog::Catalog;
pub use diagnostic::{ConfigError, Diagnostic, Severity, Warnings};
pub use load::{LoadOptions, load};
pub use params::ParamError;
pub use plan::RunPlan;
pub use single::{SingleOptions, single};
pub use task_library::TaskLibrary;

/// Reads a YAML file that is not one of Refrain's own formats (such as a play of the `scripted` harness) as plain data.
///
/// # Errors
///
/// What is wrong with the file, with its place: the same checks as for run files (size, encoding, duplicate keys).
pub fn read_yaml(path: &std::path::Path) -> Result<serde_json::Value, ConfigError> {
    let source = source::Source::read(path)?;
    Ok(yaml::parse(&source)?.to_json())
}

/// The same for a text; `name` stands for the file in messages.
///
/// # Errors
///
/// As for [`read_yaml`].
pub fn parse_yaml(name: &str, text: &str) -> Result<serde_json::Value, ConfigError> {
    Ok(yaml::parse(&source::Source::flag(name, text))?.to_json())
}
