//! The built-in harnesses on recordings of the real programs, made by `scripts/record_transcripts.py` through Refrain
//! itself. Each holds what the provider served, so the right tokens are known: a reading tells them, or that they are
//! unknown, and where a program's own numbers are wrong this file says how.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_manifests;
mod recordings;

use std::collections::BTreeSet;

use refrain::domain::failure::{LimitKind, ProviderFault};

use recordings::{End, end, file, read, recordings, served, tokens};

/// Recordings whose numbers are not those that were served, with what they are and why.
const OTHERWISE: &[(&str, &str, [u64; 4])] = &[
    // The broken try is counted: 500 in, and the one token that its beginning told.
    ("pi", "cut", [1614, 9130, 2045, 245]),
    // Answers that a filter broke off are not in its file.
    ("codex", "filtered", [1000, 0, 2000, 50]),
    // Chat Completions has no writing to the cache: it is told as input.
    ("copilot", "refused_openai", [3120, 0, 0, 62]),
    ("copilot", "filtered_openai", [3120, 0, 0, 62]),
    // The answer that broke off is not counted.
    ("qwen-code", "half", [1070, 3000, 2030, 190]),
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

/// How a case ends, whatever the program.
fn usual(case: &str) -> End {
    match case {
        "plain" | "rate_limited_twice" | "cut" | "half" | "resumed" | "unpriced" => End::Completed,
        "unauthorized" => End::Provider(ProviderFault::Authentication),
        "rate_limited" => End::Provider(ProviderFault::RateLimited),
        "overloaded" => End::Provider(ProviderFault::Overloaded),
        "context" => End::Limit(LimitKind::Tokens),
        "empty" => End::Provider(ProviderFault::Unreachable),
        "refused" | "filtered" | "refused_openai" | "filtered_openai" => End::Refused,
        "turns" => End::Limit(LimitKind::Turns),
        "cost" => End::Limit(LimitKind::Cost),
        "hang" | "killed" => End::None,
        other => panic!("the case {other} is unknown"),
    }
}

/// Programs that end otherwise.
const PECULIAR: &[(&str, &str, End)] = &[
    // It does not ask again after a broken stream.
    ("gemini-cli", "cut", End::Provider(ProviderFault::Unreachable)),
    // It was still asking again when its time was up.
    ("opencode", "empty", End::None),
    ("qwen-code", "rate_limited", End::None),
    // It drops what the model says in refusing, and ends without a word.
    ("codex", "refused", End::Completed),
    // It asks five times more, and then reports success with an empty result.
    ("qwen-code", "refused", End::Completed),
    // It takes the words that came before the filter for the answer.
    ("qwen-code", "filtered", End::Completed),
    // It reports success without a word where the prompt was blocked.
    ("gemini-cli", "filtered", End::Completed),
    // It prints what the model said in refusing, and nothing of how that ended.
    ("aider", "refused", End::Completed),
    ("aider", "filtered_openai", End::Completed),
    // It has no words to print, and says that.
    ("aider", "refused_openai", End::Failed),
    // Answers with a part of another kind than text are answers without words to them, or the words are taken for text.
    ("opencode", "refused_openai", End::Completed),
    ("copilot", "refused_openai", End::Completed),
    ("pi", "refused_openai", End::Completed),
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
fn every_recorded_harness_has_the_cases_that_it_can_come_to() {
    let all = "plain unauthorized rate_limited rate_limited_twice overloaded context cut empty hang killed refused";
    let recorded: BTreeSet<(String, String)> = recordings().into_iter().collect();
    let mut missing = Vec::new();
    for manifest in refrain::config::harness_manifest::HarnessManifest::builtins().unwrap() {
        if !manifest.verified.as_deref().is_some_and(|how| how.contains("recordings")) {
            continue;
        }
        let more = [("resumed", manifest.resume_args.is_some()), ("turns", manifest.config.contains_key("max_turns"))];
        let more = more.iter().filter(|(_, can)| *can).map(|(case, _)| *case);
        let wanted = all.split(' ').chain(more).map(|case| (manifest.name.clone(), case.to_owned()));
        missing.extend(wanted.filter(|pair| !recorded.contains(pair)));
    }
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn what_was_stopped_left_nothing_behind() {
    for (harness, case) in recordings() {
        if ["hang", "killed"].contains(&case.as_str()) {
            assert!(file(&harness, &case, "end").contains("\"timed_out\""), "{harness}/{case}");
            assert_eq!(file(&harness, &case, "left"), "", "{harness}/{case}");
        }
    }
}

#[test]
fn a_cost_of_a_model_without_a_price_is_unknown() {
    assert!(file("mini-swe-agent", "unpriced", "session").contains("\"instance_cost\": 0.0"));
    assert_eq!(read("mini-swe-agent", "unpriced").cost, None);
    assert!(read("mini-swe-agent", "plain").cost.is_some());
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
