//! Every message about a bad file, with the input that brings it about.
//!
//! `docs/reference/config-errors.md` is made from these cases: it holds each rendered error, so it is their snapshot as
//! well. After a change of a message: `UPDATE_DOCS=1 cargo test --test config_errors`, and read the difference.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::fs;
use std::path::Path;

use refrain::config::{LoadOptions, load};

#[path = "config_errors/cases.rs"]
mod cases;

use cases::{Case, Group};

/// Runs a case in a folder of its own; returns errors and warnings as a user sees them.
fn rendered(case: &Case) -> String {
    let dir = tempfile::tempdir().unwrap();
    let base = [("runs/run.yaml", cases::RUN), ("tasks/fix.yaml", cases::TASKS)];
    let own = case.files.iter().map(|(name, text)| (*name, text.as_str()));
    for (name, text) in base.into_iter().chain(own) {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    if let Some(prepare) = case.prepare {
        prepare(dir.path());
    }
    let mut options = LoadOptions::new(dir.path().join(case.path));
    case.flags.iter().for_each(|flag| match flag {
        ("--set", value) => options.set.push((*value).to_owned()),
        ("--param", value) => options.params.push((*value).to_owned()),
        ("--only", value) => options.only.push((*value).to_owned()),
        ("--orchestrator-dir", value) => options.orchestrator_dirs.push(dir.path().join(value)),
        (flag, _) => panic!("unknown flag {flag}"),
    });
    let text = match load(options) {
        Ok((_, warnings)) => warnings.to_string(),
        Err(error) => error.to_string(),
    };
    text.replace(&format!("{}/", dir.path().display()), "")
}

/// The messages of a rendering: what follows `error: ` or `warning: `.
fn messages(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("error: ").or_else(|| line.strip_prefix("warning: "))).collect()
}

fn document(groups: &[Group]) -> String {
    let mut table = String::new();
    let mut details = String::new();
    for group in groups {
        write!(table, "\n## {}\n\n| message | caused by |\n|---|---|\n", group.title).unwrap();
        for case in &group.cases {
            let text = rendered(case);
            let message = messages(&text).join("; ").replace('|', "\\|");
            writeln!(table, "| {message} | {} |", case.cause.replace('|', "\\|")).unwrap();
            write!(details, "\n### {}\n\n```text\n{}\n```\n", case.cause, text.trim_end()).unwrap();
        }
    }
    format!(
        "# Messages about configuration\n\nEvery message about a run file, a task file, a manifest or a flag that changes \
         one, with an input that causes it. All problems of all files are shown at once, at most fifty; keys are never \
         shown. The list is made from `tests/config_errors.rs`, which fails when it is out of date.\n{table}\n# As they are \
         shown\n{details}"
    )
}

#[test]
fn each_case_says_what_is_wrong() {
    let mut wrong = Vec::new();
    for group in cases::all() {
        for case in &group.cases {
            let text = rendered(case);
            let found = messages(&text);
            let said = found.len() == 1 && found[0].starts_with(case.message);
            if !said || !(text.contains("-->") || text.contains("--only")) {
                wrong.push(format!(
                    "{}: expected one message `{}…` with its place, found\n{text}",
                    case.cause, case.message
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn the_reference_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/config-errors.md");
    let expected = document(&cases::all());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    let stale = expected.lines().zip(found.lines()).find(|(expected, found)| expected != found);
    assert!(found == expected, "docs/reference/config-errors.md is stale (UPDATE_DOCS=1 writes it): {stale:?}");
}

#[test]
fn all_problems_of_all_files_are_shown_at_once() {
    let case = cases::many_problems();
    let text = rendered(&case);
    let places: Vec<&str> = text.lines().filter_map(|line| line.trim_start().strip_prefix("--> ")).collect();
    assert_eq!(
        places,
        [
            "runs/run.yaml:1:7",
            "runs/run.yaml:8:1",
            "runs/run.yaml:9:10",
            "tasks/fix.yaml:2:5",
            "tasks/fix.yaml:2:5",
            "tasks/more.yaml:1:1"
        ],
        "{text}"
    );
}

#[test]
fn a_file_that_is_wrong_throughout_ends_soon() {
    let many: Vec<String> = (0..20_000).map(|n| format!("wrong_{n}: 1")).collect();
    let case = cases::run_text(&format!("{}{}\n", cases::RUN, many.join("\n")));
    let text = rendered(&case);
    assert_eq!(messages(&text).len(), 51);
    assert!(text.ends_with("error: 19950 more problems are not shown"), "{}", &text[text.len() - 200..]);
}

#[test]
fn no_rendering_holds_a_key() {
    let secret = "sk-live-0123456789abcdef";
    for line in [
        format!("api_key: {secret}"),
        format!("models: [{{name: gpt, api_key: {secret}}}]"),
        format!("models: [{{name: gpt, api_key_env: {secret}}}]"),
        format!("models: [{{name: gpt, config: {{headers: {{authorization: 'Bearer {secret}'}}}}}}]"),
        format!("models: [{{name: gpt, config: {{db_password: {secret}}}, role: {secret}}}]"),
        format!("tasks: [{secret}]"),
        format!("docker_image: {secret}"),
        format!("unknown: {secret}"),
        format!("budget_usd: {secret}"),
        format!("name: {secret}"),
        format!("{secret}: 1"),
    ] {
        let key = line.split(':').next().unwrap();
        let run: Vec<&str> = cases::RUN.lines().filter(|known| !known.starts_with(&format!("{key}:"))).collect();
        let text = rendered(&cases::run_text(&format!("{}\n{line}\n", run.join("\n"))));
        assert!(text.contains("error: "), "{line} is refused");
        assert!(!text.contains(secret) && !text.contains("0123456789abcdef"), "{text}");
    }
}

/// Literals of messages in the sources must each be covered by a case, so that the reference stays complete.
#[test]
fn every_message_of_the_sources_has_a_case() {
    // What only the operating system can bring about, what is said of the rest of a long list, what `refrain check` shows
    // alone, and what takes a host with a harness of its own, or another build.
    let exempt = [
        "cannot read",
        "more problems are not shown",
        "this is not a number",
        "the run file has no `name`",
        "must be given, and nothing says what it is",
        "is the host's, and goes by its own name",
        "and this build of refrain has none",
    ];
    let shown: Vec<String> = cases::all()
        .iter()
        .flat_map(|group| group.cases.iter().map(rendered).collect::<Vec<_>>())
        .flat_map(|text| messages(&text).into_iter().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let mut missing = Vec::new();
    let literals = literals(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config"));
    assert!(literals.len() > 60, "the messages were found");
    // What `refrain calibrate` says of its examples is tested with it.
    for (file, literal) in literals.into_iter().filter(|(file, _)| file != "examples.rs") {
        let parts: Vec<&str> = split_placeholders(&literal);
        let covered = shown.iter().any(|message| holds_in_order(message, &parts));
        if !covered && !exempt.iter().any(|text| literal.contains(text)) {
            missing.push(format!("{file}: {literal}"));
        }
    }
    assert!(missing.is_empty(), "messages without a case:\n{}", missing.join("\n"));
}

/// Finds the string literals that begin a message.
fn literals(dir: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(literals(&path));
            continue;
        }
        if path.file_name().is_some_and(|name| name == "tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for opening in ["Diagnostic::error(", "Diagnostic::warning(", "fail(", "wrong(node, name, "] {
            for piece in text.split(opening).skip(1) {
                let piece = piece.trim_start().strip_prefix("format!(").unwrap_or(piece).trim_start();
                if let Some(literal) = piece.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
                    found.push((path.file_name().unwrap().to_string_lossy().into_owned(), literal.0.to_owned()));
                }
            }
        }
    }
    found
}

fn split_placeholders(literal: &str) -> Vec<&str> {
    literal.split(['{', '}']).step_by(2).filter(|part| !part.trim().is_empty()).collect()
}

fn holds_in_order(message: &str, parts: &[&str]) -> bool {
    let mut rest = message;
    parts.iter().all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}
