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
    for name in commands(&program) {
        let text = help(&[name]);
        assert!(text.contains("refrain ") && text.contains("Usage:"), "{name}: {text}");
        assert_snapshot!(format!("help_{name}"), text);
    }
    assert_snapshot!("help", program);
    assert_snapshot!("help_run_single", help(&["run", "single"]));
}

fn commands(program: &str) -> Vec<&str> {
    let list = program.split("Commands:\n").nth(1).expect("a list").split("\n\n").next().expect("a list");
    let names = list.lines().filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(names.len() >= 8, "{names:?}");
    names
}

/// The page of the reference that holds every help text.
fn reference() -> String {
    let program = help(&[]);
    let mut pages = vec![(String::new(), program.clone())];
    for name in commands(&program) {
        pages.push((format!(" {name}"), help(&[name])));
        if name == "run" {
            pages.push((" run single".to_owned(), help(&["run", "single"])));
        }
    }
    let mut text =
        "# Command line\n\nWhat `--help` prints. Exit codes have [a page of their own](exit-codes.md).\n".to_owned();
    for (name, help) in pages {
        text.push_str(&format!("\n## `refrain{name}`\n\n```text\n{}\n```\n", help.trim_end()));
    }
    text
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
