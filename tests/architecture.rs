//! The layers hold: imports go down only, files stay readable, names say what is inside.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which modules of this crate each module may import. The list is the architecture; see `ARCHITECTURE.md`.
const TABLE: &[(&str, &[&str])] = &[
    // L0: nouns.
    ("domain", &[]),
    ("redact", &["domain"]),
    // L1: pure policies and parsing.
    ("clock", &["domain"]),
    ("config", &["domain"]),
    ("budget", &["domain"]),
    ("retry", &["domain"]),
    // L2: adapters to the world.
    ("runtime", &["domain", "redact", "clock", "config"]),
    ("workspace", &["domain", "redact", "clock", "config", "runtime"]),
    ("harness", &["domain", "redact", "clock", "config", "runtime"]),
    ("evaluator", &["domain", "redact", "clock", "config", "runtime", "workspace"]),
    ("judge", &["domain", "redact", "clock", "config", "retry"]),
    ("script", &["domain", "redact", "clock", "config"]),
    ("store", &["domain", "redact", "clock", "config", "budget"]),
    ("gateway", &["domain", "redact", "clock", "config", "budget", "retry"]),
    // L3.
    (
        "engine",
        &[
            "domain",
            "redact",
            "clock",
            "config",
            "budget",
            "retry",
            "runtime",
            "workspace",
            "harness",
            "evaluator",
            "judge",
            "script",
            "store",
            "gateway",
        ],
    ),
    // L4: reads events and the store, never the engine.
    ("report", &["domain", "redact", "clock", "config", "store"]),
    // L5: the embedding API.
    (
        "host",
        &[
            "domain",
            "redact",
            "clock",
            "config",
            "budget",
            "retry",
            "runtime",
            "workspace",
            "harness",
            "evaluator",
            "judge",
            "script",
            "store",
            "gateway",
            "engine",
            "report",
        ],
    ),
    // L6: the binary; it sees what an embedder sees.
    (
        "cli",
        &[
            "domain",
            "redact",
            "clock",
            "config",
            "runtime",
            "harness",
            "judge",
            "script",
            "store",
            "gateway",
            "report",
            "host",
            "workspace",
        ],
    ),
];

/// Folder names that tell nothing.
const VAGUE: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc", "imp", "types"];

/// Hard stop for the length of a file without its tests.
const MAX_LINES: usize = 500;

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("source folder is readable") {
        let path = entry.expect("entry is readable").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            into.push(path);
        }
    }
}

fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&root, &mut files);
    files.sort();
    assert!(files.len() > 20, "the source folder was found");
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).expect("source is UTF-8"))).collect()
}

/// The top-level module that a source file belongs to; `None` for `lib.rs` and `main.rs`.
fn module_of(path: &Path) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let relative = path.strip_prefix(root).expect("below src");
    let mut parts = relative.components();
    let first = parts.next()?.as_os_str().to_string_lossy().into_owned();
    parts.next().is_some().then_some(first)
}

/// Every `crate::module` that a text names outside comments.
fn imports(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or("");
        for rest in code.split("crate::").skip(1) {
            if let Some(group) = rest.strip_prefix('{') {
                let group = group.split('}').next().unwrap_or(group);
                found.extend(group.split(',').map(|item| item.trim().split("::").next().unwrap_or("").to_owned()));
            } else {
                let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                found.insert(name);
            }
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

#[test]
fn imports_follow_the_table() {
    let table: BTreeMap<&str, &[&str]> = TABLE.iter().copied().collect();
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let Some(module) = module_of(&path) else { continue };
        let Some(allowed) = table.get(module.as_str()) else {
            wrong.push(format!("{}: module `{module}` is not in the table", path.display()));
            continue;
        };
        for import in imports(&text) {
            if import != module && table.contains_key(import.as_str()) && !allowed.contains(&import.as_str()) {
                wrong.push(format!("{}: `{module}` must not import `{import}`", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn the_table_has_no_cycle() {
    // The table lists modules bottom-up; an edge may only point to an earlier line.
    for (i, (module, allowed)) in TABLE.iter().enumerate() {
        for import in *allowed {
            let at = TABLE.iter().position(|(name, _)| name == import).expect("the table names known modules");
            assert!(at < i, "`{module}` imports `{import}`, which stands above it");
        }
    }
}

#[test]
fn files_are_short_and_named_for_what_they_hold() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let stem = path.file_stem().expect("has a name").to_string_lossy().into_owned();
        if VAGUE.contains(&stem.as_str()) {
            wrong.push(format!("{}: the name tells nothing", path.display()));
        }
        let code = text.lines().take_while(|line| *line != "mod tests {").count();
        let is_tests = path.file_name().is_some_and(|name| name == "tests.rs");
        if code > MAX_LINES && !is_tests {
            wrong.push(format!("{}: {code} lines; split it", path.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn foreign_libraries_stay_behind_one_door() {
    // One file (or folder) each, so that a library can be exchanged and its types never reach a public signature.
    let doors: &[(&str, &[&str])] = &[
        ("serde_saphyr", &["src/config/yaml.rs"]),
        ("mlua", &["src/script/"]),
        ("rusqlite", &["src/store/"]),
        ("bollard", &["src/runtime/docker/"]),
        ("tar", &["src/runtime/docker/"]),
        ("hyper", &["src/gateway/"]),
        ("hyper_util", &["src/gateway/"]),
        ("hyper_rustls", &["src/gateway/"]),
        ("rustls", &["src/gateway/"]),
        ("anyhow", &["src/cli/", "src/main.rs"]),
        ("clap", &["src/cli/", "src/main.rs"]),
    ];
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let shown = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("below the crate").display().to_string();
        for (library, places) in doors {
            let uses = text
                .lines()
                .map(|line| line.split("//").next().unwrap_or(""))
                .any(|code| code.contains(&format!("{library}::")));
            if uses && !places.iter().any(|place| shown.starts_with(place)) {
                wrong.push(format!("{shown}: `{library}` is used outside {places:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// What is the embedder's business: the terminal, the process, the logger, signals, the async runtime.
const EMBEDDERS: &[&str] = &[
    "println!",
    "eprintln!",
    "print!(",
    "eprint!(",
    "dbg!(",
    "process::exit",
    "process::abort",
    "tracing_subscriber",
    "set_global_default",
    "signal::",
    "panic::set_hook",
    "runtime::Builder",
    "runtime::Runtime::new",
    "tokio::main",
];

#[test]
fn the_library_neither_prints_nor_exits_nor_takes_over_the_process() {
    let mut wrong = Vec::new();
    let mut looked_at = 0;
    for (path, text) in sources() {
        let of_the_program = module_of(&path).as_deref() == Some("cli") || path.ends_with("src/main.rs");
        if of_the_program || path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        looked_at += 1;
        let library = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or(&text);
        for (number, line) in library.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            let found = EMBEDDERS.iter().filter(|word| code.contains(**word));
            wrong.extend(found.map(|word| format!("{}:{}: `{word}`", path.display(), number + 1)));
        }
    }
    assert!(looked_at > 100, "{looked_at} files");
    assert!(wrong.is_empty(), "these belong to the embedder:\n{}", wrong.join("\n"));
}
