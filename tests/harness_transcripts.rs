//! The built-in descriptors on recorded output of the real programs. What was served in each recording is known, so
//! the expected tokens are those of the provider, not those of a parser.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_manifests;

use std::path::{Path, PathBuf};

use refrain::domain::failure::{LimitKind, ProviderFault};
use refrain::domain::{Micros, Usage};
use refrain::harness::declarative::DeclarativeHarness;
use refrain::harness::session::read_logs;
use refrain::harness::{Harness, Outcome, Reading};
use refrain::runtime::Stream;
use test_case::test_case;

fn read(harness: &str, case: &str) -> Reading {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(harness).join(case);
    let entry = harness_manifests::entry(harness, serde_json::Value::Null);
    let reader = DeclarativeHarness::new(&entry, Path::new("refrain")).unwrap().reader();
    let exit_code = std::fs::read_to_string(folder.join("exit_code")).unwrap();
    let logs: [(Stream, PathBuf); 2] =
        [(Stream::Stdout, folder.join("stdout")), (Stream::Stderr, folder.join("stderr"))];
    read_logs(reader, &logs, exit_code.trim().parse().ok()).unwrap()
}

/// `[input without cache, cache read, cache write, output]`.
fn tokens(usage: Usage) -> [Option<u64>; 4] {
    [usage.input, usage.cache_read, usage.cache_write, usage.output]
}

#[test_case("claude-code", "edit", [1114, 9130, 2045, 244]; "claude edit")]
#[test_case("claude-code", "resume", [7, 4000, 0, 9]; "claude resume counts this run alone")]
#[test_case("claude-code", "subagent", [1000, 0, 0, 140]; "claude with a subagent")]
#[test_case("claude-code", "max_budget", [1070, 3000, 2030, 190]; "claude at its budget")]
#[test_case("claude-code", "max_turns_2", [1070, 3000, 2030, 190]; "claude at its turns")]
#[test_case("claude-code", "stream_json_input_two_turns", [1135, 12430, 2045, 252]; "claude with two prompts")]
#[test_case("codex", "edit", [1114, 9130, 2045, 244]; "codex edit")]
#[test_case("codex", "thinking", [1010, 2000, 0, 267]; "codex thinking: reasoning is part of the output")]
#[test_case("opencode", "edit", [1114, 9130, 2045, 244]; "opencode edit, without the title request")]
#[test_case("opencode", "openai_model", [1010, 2000, 0, 267]; "opencode openai: reasoning beside the output")]
#[test_case("opencode", "thinking", [1010, 2000, 0, 267]; "opencode anthropic: reasoning in the output")]
#[test_case("opencode", "resume_last", [7, 4000, 0, 9]; "opencode resume")]
fn tokens_are_those_that_were_served(harness: &str, case: &str, served: [u64; 4]) {
    let reading = read(harness, case);
    assert_eq!(tokens(reading.usage), served.map(Some));
    assert_eq!(reading.warnings, Vec::<String>::new());
}

#[test]
fn what_claude_codes_cache_keeps_for_an_hour_is_read_where_it_is_told() {
    assert_eq!(read("claude-code", "edit").cache_write_long, Some(0));
    assert_eq!(read("claude-code", "sigkill_during_tool").cache_write_long, None);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts/claude-code/edit");
    let told = std::fs::read_to_string(folder.join("stdout")).unwrap();
    let told =
        told.replace(r#""cacheCreationEphemeral1hInputTokens":0"#, r#""cacheCreationEphemeral1hInputTokens":2000"#);
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("stdout");
    std::fs::write(&log, told).unwrap();
    let entry = harness_manifests::entry("claude-code", serde_json::Value::Null);
    let reader = DeclarativeHarness::new(&entry, Path::new("refrain")).unwrap().reader();
    let reading = read_logs(reader, &[(Stream::Stdout, log)], Some(0)).unwrap();
    assert_eq!((reading.usage.cache_write, reading.cache_write_long), (Some(2045), Some(2000)));
}

#[test]
fn costs_are_those_of_the_session() {
    // 0.01740975, to the nearest millionth.
    assert_eq!(read("claude-code", "edit").cost, Some(Micros::new(17_410)));
    assert_eq!(read("claude-code", "resume").cost, Some(Micros::new(1_356)));
    assert_eq!(read("codex", "edit").cost, None);
    assert_eq!(read("opencode", "resume_last").cost, Some(Micros::new(1_356)));
}

#[test]
fn a_counter_that_includes_resumed_sessions_is_marked() {
    let reading = read("codex", "resume_last");
    assert!(reading.cumulative);
    assert_eq!(tokens(reading.usage), [1121, 13130, 2045, 253].map(Some));
    assert!(!read("claude-code", "resume").cumulative);
}

#[test]
fn what_is_not_told_is_unknown() {
    for (harness, case) in [
        ("codex", "fault_context_length"),
        ("codex", "sigkill_during_tool"),
        ("claude-code", "sigkill_during_tool"),
        ("claude-code", "fault_401"),
        ("opencode", "sigkill_during_tool"),
    ] {
        let reading = read(harness, case);
        assert!(reading.usage.is_unknown(), "{harness} {case}: {:?}", reading.usage);
        assert!(reading.started, "{harness} {case}");
    }
}

#[test_case("claude-code", "edit", "Fixed: add() now adds.", 4; "claude")]
#[test_case("codex", "edit", "Fixed: add() now adds.", 4; "codex")]
#[test_case("opencode", "edit", "Fixed: add() now adds.", 4; "opencode")]
fn the_last_message_the_tools_and_the_session(harness: &str, case: &str, text: &str, least: u64) {
    let reading = read(harness, case);
    assert_eq!(reading.outcome, Some(Outcome::Completed));
    assert_eq!(reading.text.as_deref(), Some(text));
    assert!(reading.tool_calls.is_some_and(|calls| calls >= least), "{:?}", reading.tool_calls);
    assert!(reading.harness_session.is_some());
}

#[derive(Debug, PartialEq)]
enum Kind {
    Completed,
    Failed,
    Misconfigured,
    Limit(LimitKind),
    Provider(ProviderFault),
    None,
}

fn kind(outcome: Option<Outcome>) -> Kind {
    match outcome {
        None => Kind::None,
        Some(Outcome::Completed) => Kind::Completed,
        Some(Outcome::Failed(_)) => Kind::Failed,
        Some(Outcome::Misconfigured(_)) => Kind::Misconfigured,
        Some(Outcome::Limit(limit, _)) => Kind::Limit(limit),
        Some(Outcome::Provider(fault, _)) => Kind::Provider(fault),
        Some(other) => panic!("{other:?}"),
    }
}

#[test_case("claude-code", "fault_401", Kind::Provider(ProviderFault::Authentication))]
#[test_case("claude-code", "missing_key", Kind::Provider(ProviderFault::Authentication))]
#[test_case("claude-code", "fault_429_forever", Kind::Provider(ProviderFault::RateLimited))]
#[test_case("claude-code", "fault_529_forever", Kind::Provider(ProviderFault::Overloaded))]
#[test_case("claude-code", "provider_down", Kind::Provider(ProviderFault::Unreachable))]
#[test_case("claude-code", "fault_empty_body_forever", Kind::Provider(ProviderFault::Unreachable))]
#[test_case("claude-code", "max_turns_2", Kind::Limit(LimitKind::Turns))]
#[test_case("claude-code", "max_budget", Kind::Limit(LimitKind::Cost))]
#[test_case("claude-code", "fault_context_length", Kind::Limit(LimitKind::Tokens))]
#[test_case("claude-code", "resume_unknown_id", Kind::Misconfigured)]
#[test_case("claude-code", "sigint_during_tool", Kind::Failed)]
#[test_case("claude-code", "sigkill_during_tool", Kind::None)]
#[test_case("claude-code", "session_id_reused", Kind::None)]
#[test_case("codex", "fault_401", Kind::Provider(ProviderFault::Authentication))]
#[test_case("codex", "missing_key", Kind::Provider(ProviderFault::Authentication))]
#[test_case("codex", "fault_429_forever", Kind::Provider(ProviderFault::RateLimited))]
#[test_case("codex", "fault_503_forever", Kind::Provider(ProviderFault::Overloaded))]
#[test_case("codex", "fault_529_forever", Kind::Provider(ProviderFault::Overloaded))]
#[test_case("codex", "fault_empty_body_forever", Kind::Provider(ProviderFault::Unreachable))]
#[test_case("codex", "fault_context_length", Kind::Limit(LimitKind::Tokens))]
#[test_case("codex", "fault_500_once_after_two_turns", Kind::Completed)]
#[test_case("codex", "provider_down", Kind::None)]
#[test_case("codex", "resume_unknown_id", Kind::None)]
#[test_case("opencode", "fault_401", Kind::Provider(ProviderFault::Authentication))]
#[test_case("opencode", "missing_key", Kind::Provider(ProviderFault::Authentication))]
#[test_case("opencode", "fault_429_forever", Kind::Provider(ProviderFault::RateLimited))]
#[test_case("opencode", "fault_529_forever", Kind::Provider(ProviderFault::Overloaded))]
#[test_case("opencode", "provider_down", Kind::Provider(ProviderFault::Unreachable))]
#[test_case("opencode", "unknown_model", Kind::Failed)]
#[test_case("opencode", "resume_unknown_id", Kind::None)]
#[test_case("opencode", "no_permission_flag_outside_dir", Kind::None)]
fn endings_are_told_apart(harness: &str, case: &str, expected: Kind) {
    assert_eq!(kind(read(harness, case).outcome), expected);
}
