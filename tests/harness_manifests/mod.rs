//! The manifests under `harnesses/`, as the configuration reads them.

use std::path::Path;
use std::sync::Arc;

use refrain::config::harness_manifest::{
    ConfigField, ConfigKind, HarnessManifest, JsonLinesSpec, LineMeaning, LineRule, OutputSpec, PromptBy, UsageMode,
};
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
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("harnesses").join(name).join("harness.toml");
    let toml: Value = toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let run = &toml["run"];
    let argv = list(&run["argv"]).expect("argv");
    HarnessManifest {
        name: text(&toml["name"]).expect("name"),
        description: text(&toml["description"]).expect("description"),
        dir: None,
        hash: String::new(),
        argv,
        resume_args: list(&run["resume_args"]),
        cost_args: list(&run["cost_args"]),
        env: map(&toml["env"]),
        key_env: text(&toml["key_env"]),
        probe: list(&toml["probe"]["argv"]),
        prompt: match run["prompt"].as_str() {
            Some("stdin") => PromptBy::Stdin,
            Some("file") => PromptBy::File,
            _ => PromptBy::Argument,
        },
        files: map(&toml["files"]),
        config: toml["config"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), field(value)))
            .collect(),
        output: match toml["output"]["format"].as_str() {
            Some("json-lines") => OutputSpec::JsonLines(JsonLinesSpec {
                rules: toml["output"]["rule"].as_array().expect("rules").iter().map(rule).collect(),
            }),
            _ => OutputSpec::Text,
        },
    }
}

fn field(value: &Value) -> ConfigField {
    let kind = match value["type"].as_str() {
        Some("text") => ConfigKind::Text,
        Some("path") => ConfigKind::Path,
        Some("text-list") => ConfigKind::TextList,
        other => panic!("type {other:?}"),
    };
    ConfigField { kind, default: value.get("default").cloned(), help: text(&value["help"]).unwrap_or_default() }
}

fn rule(value: &Value) -> LineRule {
    LineRule {
        when: value["when"].as_object().cloned().unwrap_or_default().into_iter().collect(),
        is: meaning(value["is"].as_str().unwrap_or("data")),
        text: text(&value["text"]),
        ok: text(&value["ok"]),
        usage: map(&value["usage"]),
        usage_mode: match value["usage_mode"].as_str() {
            Some("sum") => UsageMode::Sum,
            Some("cumulative") => UsageMode::Cumulative,
            _ => UsageMode::Last,
        },
        cost: text(&value["cost"]),
        turns: text(&value["turns"]),
    }
}

fn meaning(name: &str) -> LineMeaning {
    match name {
        "data" => LineMeaning::Data,
        "message" => LineMeaning::Message,
        "tool" => LineMeaning::Tool,
        "session_id" => LineMeaning::SessionId,
        "completed" => LineMeaning::Completed,
        "failed" => LineMeaning::Failed,
        "refused" => LineMeaning::Refused,
        "auth_failed" => LineMeaning::AuthFailed,
        "rate_limited" => LineMeaning::RateLimited,
        "overloaded" => LineMeaning::Overloaded,
        "turn_limit" => LineMeaning::TurnLimit,
        "cost_limit" => LineMeaning::CostLimit,
        "token_limit" => LineMeaning::TokenLimit,
        "unreachable" => LineMeaning::Unreachable,
        "unknown_model" => LineMeaning::UnknownModel,
        "misconfigured" => LineMeaning::Misconfigured,
        other => panic!("meaning {other}"),
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn list(value: &Value) -> Option<Vec<String>> {
    Some(value.as_array()?.iter().filter_map(text).collect())
}

fn map(value: &Value) -> std::collections::BTreeMap<String, String> {
    value.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}
