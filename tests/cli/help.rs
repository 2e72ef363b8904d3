//! Help texts, word for word.

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
    let commands = program.split("Commands:\n").nth(1).expect("a list").split("\n\n").next().expect("a list");
    let names: Vec<&str> = commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        let text = help(&[name]);
        assert!(text.contains("refrain ") && text.contains("Usage:"), "{name}: {text}");
        assert_snapshot!(format!("help_{name}"), text);
    }
    assert_snapshot!("help", program);
    assert_snapshot!("help_run_single", help(&["run", "single"]));
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
