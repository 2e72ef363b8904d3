//! The run file's own parts: harnesses, models, orchestrators, limits. Names are resolved here.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::model::{AuthMode, CostMode, Model, ModelRole};
use crate::domain::{ContainerOptions, Network, Pull};

use super::catalog::Catalog;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::document::{Entry, Node};
use super::harness_manifest::HarnessManifest;
use super::harness_settings;
use super::orchestrator_manifest::OrchestratorManifest;
use super::plan::{HarnessEntry, RetryPlan, RunLimits};
use super::source::Span;

/// An orchestrator that the run names; its parameters are not completed yet.
#[derive(Debug)]
pub(crate) struct NamedOrchestrator {
    pub(crate) label: String,
    pub(crate) manifest: Arc<OrchestratorManifest>,
    pub(crate) params: Option<Node>,
    pub(crate) span: Span,
}

/// Reads `harnesses`.
pub(crate) fn harnesses(root: &Node, catalog: &Catalog, out: &mut Diagnostics) -> Vec<HarnessEntry> {
    let image = root.text_of("docker_image");
    let mut entries: Vec<HarnessEntry> = Vec::new();
    let mut places: Vec<Span> = Vec::new();
    for node in root.get("harnesses").map(Node::items).unwrap_or_default() {
        let Some(named) = node.entry("name") else { continue };
        let Some(name) = named.value.text() else { continue };
        if let Some(index) = entries.iter().position(|entry| entry.name == name) {
            out.push(twice("harnesses", name, &named.value.span, &places[index]));
            continue;
        }
        let Some(manifest) = adapter(node, named, catalog, out) else { continue };
        let config = harness_settings::given(name, &manifest.config, node.get("config"), &named.value.span, out);
        let version = node.text_of("version");
        // What installs itself wants its version for that; the image is another thing.
        let installs = manifest.install.as_ref().is_some_and(|install| install.script.is_some());
        let tag = version.as_deref().filter(|_| !installs);
        entries.push(HarnessEntry {
            name: name.to_owned(),
            image: image_of(node.text_of("docker_image"), tag, image.as_deref()),
            manifest,
            version,
            observability_tier: node.text_of("observability_tier").unwrap_or_else(|| "full".to_owned()),
            config,
        });
        places.push(named.value.span.clone());
    }
    entries
}

fn adapter(node: &Node, named: &Entry, catalog: &Catalog, out: &mut Diagnostics) -> Option<Arc<HarnessManifest>> {
    let value = node.get("adapter").unwrap_or(&named.value);
    let adapter = value.text()?;
    if is_path(adapter) {
        let dir = value.span.source.base().join(adapter);
        if !dir.is_dir() {
            out.push(
                Diagnostic::error(format!("`adapter` names no folder: `{adapter}`"))
                    .at(&value.span, "does not exist")
                    .hint("a path starts from the folder of this file"),
            );
            return None;
        }
        return out.keep(HarnessManifest::from_dir(&dir)).map(Arc::new);
    }
    let found = catalog.find_harness(adapter);
    if let Some(own) = found.as_ref().filter(|own| own.is_of_host())
        && named.value.text() != Some(own.name.as_str())
    {
        out.push(
            Diagnostic::error(format!("harness `{}` is the host's, and goes by its own name", own.name))
                .at(&named.value.span, "another name")
                .hint(format!("write `name: {}` and leave `adapter` out", own.name)),
        );
        return None;
    }
    if found.is_none() {
        out.push(catalog.no_harness(adapter).at(&value.span, "unknown harness"));
    }
    found
}

/// Own image, else own version as a tag on the run's image, else the run's image.
fn image_of(own: Option<String>, version: Option<&str>, run: Option<&str>) -> Option<String> {
    match (own, version, run) {
        (Some(own), _, _) => Some(own),
        (None, Some(version), Some(run)) => Some(format!("{}:{version}", untagged(run))),
        (None, None, run) => run.map(str::to_owned),
        (None, Some(_), None) => None,
    }
}

/// An image without tag and digest; a port of a registry is no tag.
fn untagged(image: &str) -> &str {
    let image = image.split('@').next().unwrap_or(image);
    match image.rfind(':') {
        Some(colon) if !image[colon..].contains('/') => &image[..colon],
        _ => image,
    }
}

/// Reads `models`.
pub(crate) fn models(root: &Node, out: &mut Diagnostics) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    let mut places: Vec<Span> = Vec::new();
    for node in root.get("models").map(Node::items).unwrap_or_default() {
        let Some(named) = node.get("name") else { continue };
        let Some(name) = named.text() else { continue };
        let role = node.text_of("role").and_then(|name| ModelRole::parse(&name)).unwrap_or_default();
        if let Some(index) = models.iter().position(|model| model.name == name && model.role == role) {
            out.push(twice("models", name, &named.span, &places[index]));
            continue;
        }
        let credentials = node.get("credentials_path").and_then(|value| {
            let path = value.text()?;
            // `~` is resolved where the credentials are used: it is the home of whoever runs.
            Some(if path.starts_with('~') { path.to_owned() } else { value.resolve(path).display().to_string() })
        });
        models.push(Model {
            name: name.to_owned(),
            provider: node.text_of("provider").unwrap_or_else(|| "unspecified".to_owned()),
            api_key_env: node.text_of("api_key_env"),
            role,
            cost_mode: node.text_of("cost_mode").and_then(|name| CostMode::parse(&name)).unwrap_or_default(),
            auth_mode: node.text_of("auth_mode").and_then(|name| AuthMode::parse(&name)).unwrap_or_default(),
            credentials_path: credentials,
            config: node.object_of("config"),
        });
        places.push(named.span.clone());
    }
    models
}

/// Reads `orchestrators`; `None` where the run leaves the choice to the tracks.
pub(crate) fn orchestrators(root: &Node, catalog: &Catalog, out: &mut Diagnostics) -> Option<Vec<NamedOrchestrator>> {
    let list = root.get("orchestrators")?;
    let mut all: Vec<NamedOrchestrator> = Vec::new();
    for node in list.items() {
        let Some(named) = orchestrator(node, catalog, out) else { continue };
        match all.iter().find(|known| known.label == named.label) {
            Some(known) => out.push(
                twice("orchestrators", &named.label, &named.span, &known.span)
                    .hint("give one of them a label of its own: `as: other-name`"),
            ),
            None => all.push(named),
        }
    }
    Some(all)
}

fn orchestrator(node: &Node, catalog: &Catalog, out: &mut Diagnostics) -> Option<NamedOrchestrator> {
    let (manifest, span) = match (node.text(), node.get("slug"), node.get("dir")) {
        (Some(slug), _, _) => (by_slug(slug, &node.span, catalog, out)?, &node.span),
        (None, Some(slug), None) => (by_slug(slug.text()?, &slug.span, catalog, out)?, &slug.span),
        (None, None, Some(dir)) => (by_dir(dir, out)?, &dir.span),
        (None, Some(slug), Some(dir)) => {
            out.push(
                Diagnostic::error("an orchestrator is named twice: by `slug` and by `dir`")
                    .at(&dir.span, "and by folder")
                    .also(&slug.span, "by slug")
                    .hint("keep one of them; `as` sets the label"),
            );
            return None;
        }
        (None, None, None) => {
            if !node.entries().is_empty() {
                out.push(
                    Diagnostic::error("an orchestrator has neither `slug` nor `dir`")
                        .at(&node.span, "which one?")
                        .hint("add `slug`, or the path of its folder as `dir`"),
                );
            }
            return None;
        }
    };
    Some(NamedOrchestrator {
        label: node.text_of("as").unwrap_or_else(|| manifest.slug.clone()),
        manifest,
        params: node.get("params").cloned(),
        span: span.clone(),
    })
}

fn by_slug(slug: &str, place: &Span, catalog: &Catalog, out: &mut Diagnostics) -> Option<Arc<OrchestratorManifest>> {
    let found = catalog.find_orchestrator(slug);
    if found.is_none() {
        let mut error = catalog.no_orchestrator(slug).at(place, "unknown orchestrator");
        if is_path(slug) {
            error = error.hint(format!("a folder is named by `dir`: `- dir: {slug}`"));
        }
        out.push(error);
    }
    found
}

fn by_dir(dir: &Node, out: &mut Diagnostics) -> Option<Arc<OrchestratorManifest>> {
    let path = dir.span.source.base().join(dir.text()?);
    if !path.is_dir() {
        out.push(
            Diagnostic::error("`dir` names no folder")
                .at(&dir.span, "does not exist")
                .hint("a path starts from the folder of this file"),
        );
        return None;
    }
    out.keep(OrchestratorManifest::from_dir(&path)).map(Arc::new)
}

fn is_path(text: &str) -> bool {
    text.starts_with("./") || text.starts_with("../") || text == "." || text == ".." || Path::new(text).is_absolute()
}

fn twice(list: &str, name: &str, again: &Span, first: &Span) -> Diagnostic {
    Diagnostic::error(format!("two {list} are called `{name}`"))
        .at(again, "again here")
        .also(first, "first here")
        .hint("give one of them another name")
}

/// Reads `limits`; an inner limit above an outer one is a warning.
pub(crate) fn limits(root: &Node, out: &mut Diagnostics) -> RunLimits {
    let empty = Node::new(super::document::Value::Null, &root.span.source, 0..0);
    let node = root.get("limits").unwrap_or(&empty);
    let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
    let limits = RunLimits {
        cell_cost: node.money_of("cell_cost"),
        session_cost: node.money_of("session_cost"),
        sessions: node.whole_of("sessions").unwrap_or(100),
        idle_timeout: node.duration_of("idle_timeout").unwrap_or(minutes(30)),
        setup_timeout: node.duration_of("setup_timeout").unwrap_or(minutes(10)),
        evaluation_timeout: node.duration_of("evaluation_timeout").unwrap_or(minutes(10)),
        output_bytes: node.whole_of("output_bytes").unwrap_or(64 * 1024 * 1024),
    };
    let budget = root.money_of("budget_usd");
    let mut wider = |inner: &str, outer: &str, is_wider: bool| {
        if let Some(entry) = node.entry(inner).filter(|_| is_wider) {
            out.push(
                Diagnostic::warning(format!("`{inner}` is larger than `{outer}`"))
                    .at(&entry.value.span, format!("`{outer}` ends it first")),
            );
        }
    };
    let exceeds =
        |inner: Option<_>, outer: Option<_>| matches!((inner, outer), (Some(inner), Some(outer)) if inner > outer);
    wider("session_cost", "cell_cost", exceeds(limits.session_cost, limits.cell_cost));
    wider("session_cost", "budget_usd", exceeds(limits.session_cost, budget));
    wider("cell_cost", "budget_usd", exceeds(limits.cell_cost, budget));
    let whole = root.duration_of("max_runtime_seconds");
    wider("idle_timeout", "max_runtime_seconds", whole.is_some_and(|whole| limits.idle_timeout > whole));
    limits
}

/// Reads `network` and `container`.
pub(crate) fn container(root: &Node) -> ContainerOptions {
    let default = ContainerOptions {
        network: root.text_of("network").and_then(|name| Network::parse(&name)).unwrap_or_default(),
        ..ContainerOptions::default()
    };
    let Some(node) = root.get("container") else { return default };
    let mebibytes = |key| node.whole_of::<u64>(key).map(|value| value << 20);
    ContainerOptions {
        pull: node.text_of("pull").and_then(|name| Pull::parse(&name)).unwrap_or_default(),
        memory_bytes: mebibytes("memory_mb"),
        cpus: node.number_of("cpus"),
        pids: node.whole_of("pids").unwrap_or(default.pids),
        disk_bytes: mebibytes("disk_mb"),
        read_only: node.bool_of("read_only").unwrap_or(default.read_only),
        ..default
    }
}

/// Reads `retry`.
pub(crate) fn retry(root: &Node) -> RetryPlan {
    let node = root.get("retry");
    RetryPlan {
        infrastructure: node.and_then(|node| node.whole_of("infrastructure")).unwrap_or(3),
        on_timeout: node.and_then(|node| node.bool_of("on_timeout")).unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case(Some("own:1"), Some("2"), Some("run:3"), Some("own:1"); "own image first")]
    #[test_case(None, Some("2"), Some("run:3"), Some("run:2"); "version as a tag")]
    #[test_case(None, Some("2"), Some("host:5000/run"), Some("host:5000/run:2"); "a port is no tag")]
    #[test_case(None, Some("2"), Some("run@sha256:abc"), Some("run:2"); "a digest goes")]
    #[test_case(None, None, Some("run:3"), Some("run:3"); "the run's image")]
    #[test_case(None, Some("2"), None, None; "nothing to tag")]
    fn images(own: Option<&str>, version: Option<&str>, run: Option<&str>, expected: Option<&str>) {
        assert_eq!(image_of(own.map(str::to_owned), version, run).as_deref(), expected);
    }
}
