//! The table of harnesses in `docs/harnesses.md` says what their manifests say. After a change:
//! `UPDATE_DOCS=1 cargo test --test harness_table`, and read the difference.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use refrain::config::harness_manifest::{HarnessManifest, JsonLinesSpec, OutputSpec};

const BEGIN: &str = "<!-- table: cargo test --test harness_table writes it -->\n";
const END: &str = "<!-- end of table -->";
const CLASSES: [&str; 5] = ["input", "output", "cache_read", "cache_write", "reasoning"];

fn streamed(manifest: &HarnessManifest) -> Option<&JsonLinesSpec> {
    match &manifest.output {
        OutputSpec::JsonLines(spec) => Some(spec),
        OutputSpec::Text => None,
    }
}

fn classes(spec: &JsonLinesSpec) -> BTreeSet<&str> {
    spec.rules.iter().flat_map(|rule| rule.usage.keys()).map(String::as_str).collect()
}

fn shown(told: &BTreeSet<&str>) -> String {
    CLASSES.iter().filter(|class| told.contains(*class)).copied().collect::<Vec<_>>().join(", ").replace('_', " ")
}

fn tokens(manifest: &HarnessManifest) -> String {
    let stream = streamed(manifest).map(classes).unwrap_or_default();
    let file = manifest.session_file.as_ref().map(|file| classes(&file.rules)).unwrap_or_default();
    let only_unknown = manifest.session_file.as_ref().is_some_and(|file| file.only_unknown);
    match (stream.is_empty(), file.is_empty()) {
        (true, true) => "unknown".to_owned(),
        (false, true) => shown(&stream),
        (false, false) if only_unknown => format!("{}; after a kill from its file", shown(&stream)),
        (_, false) => format!("{} (from its file)", shown(&file)),
    }
}

fn row(manifest: &HarnessManifest) -> String {
    let stream = match (&manifest.adapter, streamed(manifest)) {
        (Some(_), _) => "text, `adapter.lua`",
        (None, Some(_)) => "JSON lines",
        (None, None) => "text",
    };
    let file = manifest.session_file.as_ref().map(|file| &file.rules);
    let costs = streamed(manifest).into_iter().chain(file).flat_map(|spec| &spec.rules).any(|rule| rule.cost.is_some());
    let limits = [("turns", manifest.config.contains_key("max_turns")), ("money", manifest.cost_args.is_some())];
    let limits: Vec<&str> = limits.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect();
    let limits = if limits.is_empty() { "none".to_owned() } else { limits.join(", ") };
    let verified = manifest.verified.clone().unwrap_or_else(|| "never".to_owned());
    let unverified = verified.starts_with("unverified");
    let root = match (unverified, manifest.env.contains_key("IS_SANDBOX")) {
        (true, _) => "unknown",
        (false, true) => "by `IS_SANDBOX`",
        (false, false) => "yes",
    };
    let verified = if unverified { "*unverified*".to_owned() } else { verified };
    let yes = |flag: bool| if flag { "yes" } else { "no" };
    let resume = yes(manifest.resume_args.is_some());
    format!(
        "| `{}` | {stream} | {} | {} | {resume} | {limits} | {root} | {verified} |\n",
        manifest.name,
        tokens(manifest),
        yes(costs),
    )
}

#[test]
fn the_table_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/harnesses.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("the table is marked");
    let (found, after) = rest.split_once(END).expect("the table ends");
    let head =
        "| harness | stream | tokens | cost | resume | limits | root | verified |\n|---|---|---|---|---|---|---|---|\n";
    let rows = HarnessManifest::builtins().unwrap().iter().map(row).collect::<String>();
    let expected = format!("{head}{rows}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "docs/harnesses.md is stale (UPDATE_DOCS=1 writes it)");
}

#[test]
fn every_harness_has_a_readme_that_tells_its_ends_or_that_it_is_unverified() {
    for manifest in HarnessManifest::builtins().unwrap() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("harnesses").join(&manifest.name).join("README.md");
        let readme = std::fs::read_to_string(&path).unwrap();
        let agent = !["scripted", "command"].contains(&manifest.name.as_str());
        let unverified = manifest.verified.as_deref().is_some_and(|how| how.starts_with("unverified"));
        assert_eq!(readme.contains("**Unverified**"), unverified, "{}", manifest.name);
        assert!(!agent || unverified || readme.contains("| killed"), "{}: no table of ends", manifest.name);
        assert!(readme.contains(&format!("adapter: {}", manifest.name)) || !agent, "{}: no example", manifest.name);
    }
}
