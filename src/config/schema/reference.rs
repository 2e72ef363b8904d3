//! The page of the reference that lists every key, made from the tables that check the files.

use std::fmt::Write as _;
use std::path::Path;

use super::{Kind, Section, manifest, run, task};

const HEAD: &str = "# Keys of run files, tasks and manifests

Made from the tables that check these files, as the [JSON Schemas](../../schemas) are. A key that is not listed is an error. What is
in brackets holds where a key is left out.
";

fn page() -> String {
    let mut text = HEAD.to_owned();
    let formats: [(&str, &[&Section]); 5] = [
        ("Run files (`runs/*.yaml`)", &[&run::RUN]),
        ("Tasks (`tasks/ID/task.yaml`)", &[&task::TASK]),
        ("Task libraries (`tasks/*.yaml`)", &[&task::LIBRARY]),
        ("Orchestrators (`orchestrator.toml`)", &[&manifest::ORCHESTRATOR, &manifest::PARAM]),
        ("Harnesses (`harness.toml`)", &[&manifest::HARNESS]),
    ];
    for (heading, sections) in formats {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n## {heading}\n");
        let [first, rest @ ..] = sections else { continue };
        add(&mut text, first, "", heading.starts_with("Task lib"));
        for section in rest {
            let _ = write!(text, "\n### `params.KEY`\n");
            add(&mut text, section, "params.KEY", false);
        }
    }
    text
}

/// Adds the table of a mapping, then those of the mappings in it.
fn add(text: &mut String, section: &Section, at: &str, shallow: bool) {
    text.push_str("\n| key | what may stand there | what it is |\n|---|---|---|\n");
    for field in section.fields {
        let needed = if field.required { " (needed)" } else { "" };
        let _ = writeln!(text, "| `{}` | {}{needed} | {} |", field.name, shown(&field.kind), field.help);
    }
    for field in section.fields.iter().filter(|_| !shallow) {
        let Some((inner, step)) = below(&field.kind) else { continue };
        let place = if at.is_empty() { field.name.to_owned() } else { format!("{at}.{}", field.name) };
        let place = format!("{place}{step}");
        let _ = write!(text, "\n### `{place}`\n");
        add(text, inner, &place, false);
    }
}

/// The mapping with known keys that a value holds, and the step to it.
fn below(kind: &Kind) -> Option<(&'static Section, String)> {
    match kind {
        Kind::Section(section) => Some((section, String::new())),
        Kind::List { of, .. } => below(of).map(|(section, step)| (section, format!("[]{step}"))),
        Kind::Map(of) => below(of).map(|(section, step)| (section, format!(".NAME{step}"))),
        Kind::Either(one, other) => below(one).or_else(|| below(other)),
        // The mapping says all that the list may.
        Kind::ListOr(list, mapping) => below(mapping).or_else(|| below(list)),
        _ => None,
    }
}

fn shown(kind: &Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Line => "a line of text".to_owned(),
        Kind::Name => "letters, digits, `.`, `_`, `-`".to_owned(),
        Kind::Variable => "the name of a variable".to_owned(),
        Kind::Path => "a path".to_owned(),
        Kind::Inside => "a path below the folder".to_owned(),
        Kind::Bool => "`true` or `false`".to_owned(),
        Kind::Whole { min, max } if min == max => format!("{min}"),
        Kind::Whole { min, max: i64::MAX } => format!("a whole number from {min}"),
        Kind::Whole { min, max } => format!("a whole number from {min} to {max}"),
        Kind::Positive { max } => format!("a number above 0, at most {max}"),
        Kind::Money => "dollars: a number, or text such as `25 USD`".to_owned(),
        Kind::Duration => "seconds, or text such as `30m`".to_owned(),
        Kind::Choice(choices) => choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", "),
        Kind::Any => "anything".to_owned(),
        Kind::List { of, .. } => format!("a list; each: {}", shown(of)),
        Kind::Section(_) => "keys, see below".to_owned(),
        Kind::Map(of) => format!("names, each with: {}", shown(of)),
        Kind::Either(one, other) | Kind::ListOr(one, other) => format!("{}; or {}", shown(one), shown(other)),
    }
}

#[test]
fn the_page_of_all_keys_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/run-file.md");
    let expected = page();
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::write(&path, &expected).expect("written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "docs/reference/run-file.md is stale: run this test with UPDATE_SCHEMAS=1");
}
