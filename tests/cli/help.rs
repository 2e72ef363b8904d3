//! Help texts, word for word.

use std::path::PathBuf;

use insta::assert_snapshot;

use crate::bed::TestBed;

fn help(args: &[&str]) -> String {
    let ran = TestBed::new().run(&[args, &["--help"]].concat());
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    ran.stdout
}

#[test]
fn every_command_has_help_with_an_example() {
    let program = help(&[]);
    let names = commands(&program);
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        let text = help(&[&name]);
        let examples = text.split_once("Example:\n").or_else(|| text.split_once("Examples:\n"));
        assert!(examples.is_some_and(|(_, examples)| examples.starts_with("  refrain ")), "{name}: {text}");
        assert_snapshot!(format!("help_{name}"), text);
    }
    assert_snapshot!("help", program);
    assert_snapshot!("help_run_single", help(&["run", "single"]));
}

/// The commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("Commands:\n") else { return Vec::new() };
    // What is further in goes on with the line before.
    let lines = rest.split("\n\n").next().unwrap_or_default().lines().filter_map(|line| line.strip_prefix("  "));
    let names = lines.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// The page of the reference that holds every help text.
fn reference() -> String {
    let mut text =
        "# Command line\n\nWhat `--help` prints. Exit codes have [a page of their own](exit-codes.md).\n".to_owned();
    add_pages(&mut text, &[]);
    text
}

/// Adds the page of a command, then those of its own commands.
fn add_pages(text: &mut String, command: &[&str]) {
    let page = help(command);
    let name = format!("refrain {}", command.join(" "));
    text.push_str(&format!("\n## `{}`\n\n```text\n{}\n```\n", name.trim_end(), page.trim_end()));
    for below in commands(&page) {
        add_pages(text, &[command, &[below.as_str()]].concat());
    }
}

fn reference_path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/reference/cli.md")
}

#[test]
fn the_reference_is_up_to_date() {
    let on_disk = std::fs::read_to_string(reference_path()).unwrap_or_default();
    assert!(
        on_disk == reference(),
        "docs/reference/cli.md is stale; write it with `cargo test --test cli -- --ignored`"
    );
}

#[test]
#[ignore = "writes docs/reference/cli.md"]
fn write_the_reference() {
    std::fs::write(reference_path(), reference()).expect("written");
}

#[test]
fn the_version_is_told() {
    let ran = TestBed::new().run(&["--version"]);
    assert_eq!(ran.stdout, format!("refrain {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_name_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ran = TestBed::new().run(&["completions", shell]);
        assert!(ran.code == Some(0) && ran.stdout.contains("doctor"), "{shell}");
    }
}
