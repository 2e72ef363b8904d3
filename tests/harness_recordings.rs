//! The built-in harnesses on recordings of the real programs, made by `scripts/record_transcripts.py` through Refrain
//! itself. Each holds what the provider served, so the right tokens are known: a reading tells them, or that they are
//! unknown, and where a program's own numbers are wrong this file says how.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_manifests;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use refrain::domain::Usage;
use refrain::domain::failure::{LimitKind, ProviderFault};
use refrain::harness::session::read_all;
use refrain::harness::session_file::SessionFile;
use refrain::harness::{Harness, Outcome, Reading};
use refrain::host::declared_harness;
use refrain::runtime::Stream;
use serde_json::Value;

fn folder(harness: &str, case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(harness).join(case)
}

/// Every recording, as harness and case.
fn recordings() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    let mut all = Vec::new();
    for harness in names(&root) {
        let cases = names(&root.join(&harness)).into_iter();
        all.extend(
            cases.filter(|case| folder(&harness, case).join("served").exists()).map(|case| (harness.clone(), case)),
        );
    }
    all.sort();
    all
}

fn read(harness: &str, case: &str) -> Reading {
    let folder = folder(harness, case);
    let entry = harness_manifests::entry(harness, Value::Null);
    let one_document = entry.manifest.session_file.as_ref().is_some_and(|spec| spec.one_document);
    let file = SessionFile { pattern: String::new(), one_document };
    let copy = folder.join("session");
    let reader = declared_harness(&entry, Path::new("refrain")).unwrap().reader();
    let exit_code = std::fs::read_to_string(folder.join("exit_code")).unwrap();
    let logs = [(Stream::Stdout, folder.join("stdout")), (Stream::Stderr, folder.join("stderr"))];
    let file = copy.exists().then_some((&file, copy.as_path()));
    read_all(reader, &logs, file, exit_code.trim().parse().ok()).unwrap()
}

/// What the provider served, in the classes of a reading: without what the program asked beside its conversation.
fn served(harness: &str, case: &str) -> [u64; 4] {
    if case == "resumed" {
        // The second session's one answer.
        return [7, 4000, 0, 9];
    }
    let text = std::fs::read_to_string(folder(harness, case).join("served")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let by_model = json["by_model"].as_object().unwrap().iter();
    let main = by_model.filter(|(model, _)| !model.contains("haiku") && !model.contains("flash-lite"));
    main.fold([0; 4], |sum, (_, told)| {
        let class = |name: &str| told[name].as_u64().unwrap();
        [sum[0] + class("input"), sum[1] + class("cache_read"), sum[2] + class("cache_write"), sum[3] + class("output")]
    })
}

fn tokens(usage: Usage) -> [Option<u64>; 4] {
    [usage.input, usage.cache_read, usage.cache_write, usage.output]
}

/// Recordings whose numbers are not those that were served, with what they are and why.
const OTHERWISE: &[(&str, &str, [u64; 4])] = &[
    // The broken try is counted: 500 in, and the one token that its beginning told.
    ("pi", "cut", [1614, 9130, 2045, 245]),
];

#[test]
fn tokens_are_those_that_were_served_or_unknown() {
    let mut wrong = Vec::new();
    let recordings = recordings();
    assert!(recordings.len() > 40, "the recordings were found");
    for (harness, case) in &recordings {
        let reading = read(harness, case);
        let mut expected = served(harness, case);
        let known = OTHERWISE.iter().find(|(known, of, _)| known == harness && of == case);
        expected = known.map_or(expected, |(.., numbers)| *numbers);
        let told = tokens(reading.usage);
        if told[2].is_none() {
            // APIs that tell no cache writes count them as input.
            expected[0] += expected[2];
        }
        let differs = told.iter().zip(expected).any(|(told, expected)| told.is_some_and(|told| told != expected));
        // What a program that was stopped has noted may lack what was under way; a warning says so.
        let flagged = reading.warnings.iter().any(|warning| warning.contains("a request under way is not in them"));
        let too_many = told.iter().zip(expected).any(|(told, expected)| told.is_some_and(|told| told > expected));
        let excused = reading.cumulative || (flagged && !too_many);
        if differs && !excused {
            wrong.push(format!("{harness}/{case}: told {told:?}, served {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn what_came_to_its_end_has_tokens() {
    let without = ["aider"];
    for (harness, case) in recordings() {
        let whole = ["plain", "rate_limited_twice"].contains(&case.as_str());
        if whole && !without.contains(&harness.as_str()) {
            let usage = read(&harness, &case).usage;
            assert!(usage.input.is_some() && usage.output.is_some() && usage.cache_read.is_some(), "{harness}/{case}");
        }
    }
}

#[derive(Debug, PartialEq, Clone, Copy)]
enum End {
    Completed,
    Failed,
    Limit(LimitKind),
    Provider(ProviderFault),
    None,
}

fn end(outcome: Option<Outcome>) -> End {
    match outcome {
        None => End::None,
        Some(Outcome::Completed) => End::Completed,
        Some(Outcome::Failed(_)) => End::Failed,
        Some(Outcome::Limit(limit, _)) => End::Limit(limit),
        Some(Outcome::Provider(fault, _)) => End::Provider(fault),
        Some(other) => panic!("{other:?}"),
    }
}

/// How a case ends, whatever the program.
fn usual(case: &str) -> End {
    match case {
        "plain" | "rate_limited_twice" | "cut" | "resumed" => End::Completed,
        "unauthorized" => End::Provider(ProviderFault::Authentication),
        "rate_limited" => End::Provider(ProviderFault::RateLimited),
        "overloaded" => End::Provider(ProviderFault::Overloaded),
        "context" => End::Limit(LimitKind::Tokens),
        "empty" => End::Provider(ProviderFault::Unreachable),
        "hang" | "killed" => End::None,
        other => panic!("the case {other} is unknown"),
    }
}

/// Programs that end otherwise.
const PECULIAR: &[(&str, &str, End)] = &[
    // It says that it failed, and not why.
    ("gemini-cli", "empty", End::Failed),
    // It does not ask again after a broken stream.
    ("gemini-cli", "cut", End::Provider(ProviderFault::Unreachable)),
    // It was still asking again when its time was up.
    ("opencode", "empty", End::None),
    ("qwen-code", "rate_limited", End::None),
    ("mini-swe-agent", "rate_limited", End::None),
    ("mini-swe-agent", "overloaded", End::None),
    ("mini-swe-agent", "empty", End::None),
];

#[test]
fn ends_are_told_apart() {
    let mut wrong = Vec::new();
    for (harness, case) in recordings() {
        let peculiar = PECULIAR.iter().find(|(known, of, _)| *known == harness && *of == case);
        let expected = peculiar.map_or_else(|| usual(&case), |(.., end)| *end);
        let reading = read(&harness, &case);
        let found = end(reading.outcome.clone());
        if found != expected {
            wrong.push(format!("{harness}/{case}: {:?}, expected {expected:?}", reading.outcome));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_harness_that_a_registry_has_was_recorded() {
    let recorded: BTreeSet<String> = recordings().into_iter().map(|(harness, _)| harness).collect();
    for manifest in refrain::config::harness_manifest::HarnessManifest::builtins().unwrap() {
        let real = manifest.verified.as_deref().is_some_and(|how| how.contains("recordings"));
        assert_eq!(real, recorded.contains(&manifest.name), "{}", manifest.name);
    }
}

#[test]
fn tool_calls_are_counted_where_the_stream_tells_them() {
    for harness in ["claude-code", "codex", "opencode", "gemini-cli", "qwen-code", "pi", "copilot"] {
        let reading = read(harness, "plain");
        assert_eq!(reading.tool_calls, Some(3), "{harness}");
        assert_eq!(reading.text.as_deref(), Some("Fixed: add() now adds."), "{harness}");
        assert!(reading.harness_session.is_some(), "{harness}");
    }
}
