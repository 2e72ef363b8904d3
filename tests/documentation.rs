//! What the documents say is there is there.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("the document is readable")
}

/// Every Markdown file of the project.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            let name = path.file_name().expect("has a name").to_string_lossy().into_owned();
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "node_modules" {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

#[test]
fn the_table_of_places_names_real_places() {
    let text = read("ARCHITECTURE.md");
    let table = text.split("## Where is…").nth(1).expect("the table is there");
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert!(rows.len() > 20, "{rows:?}");
    for row in rows {
        let place = row.rsplit('|').nth(1).expect("two columns").trim().trim_matches('`');
        assert!(root().join(place).exists(), "`{place}` does not exist ({row})");
    }
}

#[test]
fn every_module_has_its_place_in_the_architecture() {
    let text = read("ARCHITECTURE.md");
    for entry in fs::read_dir(root().join("src")).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            let name = format!("`src/{}`", path.file_name().expect("has a name").to_string_lossy());
            assert!(text.contains(&name), "ARCHITECTURE.md does not say what {name} is");
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let text = fs::read_to_string(&document).expect("readable");
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = target.split('#').next().unwrap_or(target);
            if path.is_empty() || path.contains("://") || path.starts_with("mailto:") || path.contains(' ') {
                continue;
            }
            let folder = document.parent().unwrap_or(Path::new(""));
            if !folder.join(path).exists() {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn exit_codes_are_documented() {
    let code = read("src/cli/exit.rs");
    let documented = read("docs/reference/exit-codes.md");
    let values = code.lines().filter(|line| line.contains("const")).filter_map(|line| line.split("u8 = ").nth(1));
    let values: Vec<&str> = values.map(|value| value.trim_end_matches(';')).collect();
    assert!(values.len() >= 9, "{values:?}");
    for value in values {
        assert!(documented.contains(&format!("| {value} |")), "exit code {value} is not in the table");
    }
}

#[test]
fn exit_codes_of_help_texts_are_in_the_table() {
    let (pages, table) = (read("docs/reference/cli.md"), read("docs/reference/exit-codes.md"));
    let mut seen = 0;
    for page in pages.split("\n## `refrain").skip(1) {
        let command = page.split('`').next().expect("a name").trim();
        let told = page.split("Exit code").nth(1).map(|told| told.split("```").next().unwrap_or_default());
        // A code begins what it stands for; other numbers do not follow a colon, a comma or a semicolon.
        let words: Vec<&str> = told.into_iter().flat_map(str::split_whitespace).collect();
        let first = words.iter().position(|word| word.parse::<u8>().is_ok()).unwrap_or_default();
        for (at, word) in words.iter().enumerate().filter(|(_, word)| word.parse::<u8>().is_ok()) {
            assert!(at == first || words[at - 1].ends_with([',', ';']), "{command}: {words:?}");
            let row = table.lines().find(|line| line.starts_with(&format!("| {word} |")));
            let row = row.unwrap_or_else(|| panic!("{command}: exit code {word} is not in the table"));
            // What 1 means differs from command to command.
            assert!(*word != "1" || row.contains(&format!("`{command}")), "`{command}` is not in the row of 1");
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen}");
}

#[test]
fn decisions_are_listed() {
    let index = read("docs/decisions/README.md");
    for entry in fs::read_dir(root().join("docs/decisions")).expect("readable") {
        let name = entry.expect("readable").file_name().to_string_lossy().into_owned();
        assert!(name == "README.md" || index.contains(&name), "{name} is not in the index");
    }
}
