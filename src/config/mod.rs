//! What people write, checked: run and task files (YAML), orchestrator and harness manifests (TOML).
//!
//! Parse, then validate, then resolve: [`load`] turns a run file into a [`plan::RunPlan`] in which every name is
//! resolved, every default filled in and every cell enumerated. Later code never sees a half-checked value.

pub mod harness_manifest;
pub mod orchestrator_manifest;
pub mod plan;

pub use plan::RunPlan;
