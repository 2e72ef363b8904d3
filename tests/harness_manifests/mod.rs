//! The built-in harnesses, set up as a run file would.

use std::sync::Arc;

use refrain::config::harness_manifest::HarnessManifest;
use refrain::config::plan::HarnessEntry;
use serde_json::Value;

/// Loads a built-in harness with settings, its defaults filled in.
pub(crate) fn entry(name: &str, config: Value) -> HarnessEntry {
    let manifest = manifest(name);
    let mut settings = serde_json::Map::new();
    for (key, field) in &manifest.config {
        settings.extend(field.default.clone().map(|default| (key.clone(), default)));
    }
    settings.extend(config.as_object().cloned().unwrap_or_default());
    HarnessEntry {
        name: name.to_owned(),
        manifest: Arc::new(manifest),
        version: None,
        image: None,
        observability_tier: "full".to_owned(),
        config: settings,
    }
}

fn manifest(name: &str) -> HarnessManifest {
    let mut all = HarnessManifest::builtins().unwrap().into_iter();
    all.find(|manifest| manifest.name == name).unwrap()
}
