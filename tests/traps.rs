//! The ten things that who drives a coding agent gets wrong, each with the recordings of the real programs that show it (and
//! where a recording cannot show it, with real processes).
//!
//! | | trap | test |
//! |---|---|---|
//! | 1 | the exit code does not tell success | `trap_01_…` |
//! | 2 | claude's failed results say `"subtype":"success"` | `trap_02_…` |
//! | 3 | killing the process that was started does not stop the harness | `trap_03_…` |
//! | 4 | no final event after a kill: what was spent is in a file, or nowhere | `trap_04_…` |
//! | 5 | usage is per request, per prompt, or of all sessions that were resumed | `trap_05_…` |
//! | 6 | side requests and subagents are spent and not reported | `trap_06_…` |
//! | 7 | a hang is long | `trap_07_…` |
//! | 8 | retrying is long | `trap_08_…` |
//! | 9 | standard input must end | `trap_09_…` |
//! | 10 | opencode asks again without end or pause | `trap_10_…` |

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_bed;
mod harness_manifests;
mod recordings;

use std::path::Path;
use std::time::Duration;

use refrain::domain::failure::{LimitKind, ProviderFault, Timer};
use refrain::domain::session::SessionEnd;
use refrain::harness::{AgentEvent, Harness};
use refrain::host::declared_harness;
use refrain::runtime::Stream;
use serde_json::{Value, json};

use harness_bed::{Bed, keeping};
use recordings::{End, end, file, folder, read, served, served_json, tokens};

const ALL: [&str; 9] =
    ["aider", "claude-code", "codex", "copilot", "gemini-cli", "mini-swe-agent", "opencode", "pi", "qwen-code"];

fn exit_code(harness: &str, case: &str) -> Option<i32> {
    file(harness, case, "exit_code").trim().parse().ok()
}

/// The last line of standard output that holds a text, as JSON.
fn line_with(harness: &str, case: &str, name: &str, text: &str) -> Value {
    let all = file(harness, case, name);
    let line = all.lines().rev().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{harness}/{case}: {text}"));
    serde_json::from_str(line).unwrap()
}

#[test]
fn trap_01_the_exit_code_does_not_tell_success() {
    let auth = End::Provider(ProviderFault::Authentication);
    let limited = End::Provider(ProviderFault::RateLimited);
    let overloaded = End::Provider(ProviderFault::Overloaded);
    for (harness, case, code, expected) in [
        ("aider", "unauthorized", 0, auth),
        ("aider", "rate_limited", 0, limited),
        ("aider", "context", 0, End::Limit(LimitKind::Tokens)),
        ("pi", "unauthorized", 0, auth),
        ("pi", "rate_limited", 0, limited),
        ("pi", "overloaded", 0, overloaded),
        ("mini-swe-agent", "cost", 0, End::Limit(LimitKind::Cost)),
        ("mini-swe-agent", "turns", 0, End::Limit(LimitKind::Turns)),
        ("mini-swe-agent", "refused", 0, End::Refused),
        ("gemini-cli", "empty", 0, End::Provider(ProviderFault::Unreachable)),
        ("gemini-cli", "refused", 0, End::Refused),
        // The HTTP status modulo 256.
        ("gemini-cli", "unauthorized", 401 % 256, auth),
        ("gemini-cli", "rate_limited", 429 % 256, limited),
        ("gemini-cli", "overloaded", 529 % 256, overloaded),
        ("claude-code", "sigint_during_tool", 0, End::Failed),
        // Every tool call that it asked for was denied.
        ("opencode", "no_permission_flag_outside_dir", 0, End::None),
    ] {
        assert_eq!(exit_code(harness, case), Some(code), "{harness}/{case}");
        assert_eq!(end(read(harness, case).outcome), expected, "{harness}/{case}");
    }
}

/// What it says is success, and cannot be told from one. Its own tokens lack the answer, so that the gateway's differ.
#[test]
fn trap_01_half_an_answer_of_qwen_is_no_whole_one() {
    let reading = read("qwen-code", "half");
    assert_eq!((exit_code("qwen-code", "half"), end(reading.outcome)), (Some(0), End::Completed));
    assert_eq!(reading.text.as_deref(), Some("half an answer that breaks off"));
    let told = line_with("qwen-code", "half", "stdout", "\"type\":\"result\"");
    assert_eq!(told["usage"]["output_tokens"], 190, "the twenty of the half answer are not in it");
}

#[test]
fn trap_02_a_failed_result_of_claude_says_success() {
    for (case, expected) in [
        ("unauthorized", End::Provider(ProviderFault::Authentication)),
        ("rate_limited", End::Provider(ProviderFault::RateLimited)),
        ("overloaded", End::Provider(ProviderFault::Overloaded)),
        ("context", End::Limit(LimitKind::Tokens)),
        ("empty", End::Provider(ProviderFault::Unreachable)),
        ("refused", End::Refused),
    ] {
        let result = line_with("claude-code", case, "stdout", "\"type\":\"result\"");
        assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(true)), "{case}");
        assert_eq!(end(read("claude-code", case).outcome), expected, "{case}");
    }
}

/// Each was stopped within a command of five minutes; three of them run their agent below a launcher.
#[test]
fn trap_03_a_stopped_harness_leaves_no_process() {
    for harness in ALL {
        assert_eq!(file(harness, "killed", "left"), "", "{harness}");
        assert_eq!(file(harness, "killed", "end").trim(), r#"{"kind": "timed_out", "timer": "run"}"#, "{harness}");
    }
    for harness in ["gemini-cli", "qwen-code", "copilot"] {
        assert!(served_json(harness, "killed")["requests"].as_u64().unwrap() <= 2, "{harness} went on");
    }
}

/// The same with a launcher that ignores the signal, whose agent is in a session of its own and has a command below it.
#[tokio::test]
async fn trap_03_the_agent_below_a_launcher_ends_with_it() {
    let mut bed = Bed::new().await;
    bed.options.limits.timeout = Some((Timer::Session, Duration::from_secs(1)));
    let line = r#"trap '' TERM INT HUP
        setsid sh -c 'trap "" TERM; sh -c "echo \$\$ > command; exec sleep 300" & echo $$ > agent; wait; echo late > done' &
        echo '{"type":"say","text":"begun"}'; while :; do sleep 300 & wait; done"#;
    let result = bed.run_with(&keeping(line), None).await.unwrap();
    assert!(matches!(result.end, SessionEnd::TimedOut { timer: Timer::Session, .. }), "{:?}", result.end);
    let workspace = bed.env.host_path(bed.env.workspace()).unwrap();
    for name in ["agent", "command"] {
        let process: u32 = std::fs::read_to_string(workspace.join(name)).unwrap().trim().parse().unwrap();
        // One that is dead stays in the table until its parent has asked for it.
        let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        assert!(state.is_empty() || state.contains(") Z "), "{name}: {state}");
    }
    assert!(!workspace.join("done").exists());
    bed.close().await;
}

#[test]
fn trap_04_after_a_kill_the_tokens_are_those_of_its_file_or_unknown() {
    for harness in ALL {
        let reading = read(harness, "killed");
        assert_eq!(end(reading.outcome), End::None, "{harness}");
        let told = tokens(reading.usage);
        match harness {
            // Nothing is written until a step is over.
            "opencode" | "aider" => assert!(reading.usage.is_unknown(), "{harness}: {told:?}"),
            // Of the steps that were over.
            "mini-swe-agent" => assert_eq!(told, [Some(100), Some(0), Some(0), Some(20)]),
            _ => {
                let [input, cache_read, _, output] = served(harness, "killed").map(Some);
                assert_eq!([told[0], told[1], told[3]], [input, cache_read, output], "{harness}");
            }
        }
        let from_file = !["opencode", "aider", "pi"].contains(&harness);
        let flagged = reading.warnings.iter().any(|warning| warning.contains("a request under way is not in them"));
        assert_eq!(flagged, from_file, "{harness}: {:?}", reading.warnings);
    }
}

/// The second session had one answer: 7 in, 4000 from the cache, 9 out. What is printed of it, and what is made of that.
#[test]
fn trap_05_a_resumed_session_has_its_own_tokens_or_none() {
    let own = [Some(7), Some(4000), Some(0), Some(9)];
    for (harness, text, path, counted) in [
        // Of the request, or the prompt.
        ("opencode", "step_finish", "/part/tokens/cache/read", 4000),
        ("pi", "message_end", "/message/usage/cacheRead", 4000),
        ("gemini-cli", "\"type\":\"result\"", "/stats/cached", 4000),
        ("claude-code", "\"type\":\"result\"", "/usage/cache_read_input_tokens", 4000),
        // Of the earlier session as well.
        ("claude-code", "\"type\":\"result\"", "/modelUsage/claude-sonnet-4-5/cacheReadInputTokens", 13_130),
        ("codex", "turn.completed", "/usage/cached_input_tokens", 13_130),
        ("qwen-code", "\"type\":\"result\"", "/usage/cache_read_input_tokens", 17_130),
    ] {
        let line = line_with(harness, "resumed", "stdout", text);
        assert_eq!(line.pointer(path), Some(&json!(counted)), "{harness}: {line}");
        let reading = read(harness, "resumed");
        if harness == "qwen-code" {
            assert!(reading.cumulative, "what a session that resumes makes unknown");
        } else {
            assert!(!reading.cumulative, "{harness}");
            let told = tokens(reading.usage);
            assert_eq!([told[0], told[1], told[3]], [own[0], own[1], own[3]], "{harness}");
        }
    }
    let reading = read("copilot", "resumed");
    assert_eq!((tokens(reading.usage), reading.cumulative), (own, false));
    assert!(file("copilot", "resumed", "session").contains("session.resume"));
}

#[test]
fn trap_06_side_requests_and_subagents_are_not_in_the_reports() {
    // A title, by a smaller model: the difference to what the gateway counts is exactly that.
    let by_model = &served_json("opencode", "plain")["by_model"];
    let title = by_model.as_object().unwrap().iter().find(|(model, _)| model.contains("haiku")).unwrap().1;
    let all = &served_json("opencode", "plain")["all"];
    let told = tokens(read("opencode", "plain").usage);
    for (class, told) in [("input", told[0]), ("output", told[3])] {
        let count = |of: &Value| of[class].as_u64().unwrap();
        assert!(count(title) > 0);
        assert_eq!(told, Some(count(all) - count(title)), "{class}");
    }
    // Its `usage` leaves the subagent out (700 in, 100 out); the models' own numbers do not.
    let result = line_with("claude-code", "subagent", "stdout", "\"type\":\"result\"");
    assert_eq!((&result["usage"]["input_tokens"], &result["usage"]["output_tokens"]), (&json!(700), &json!(100)));
    assert_eq!(tokens(read("claude-code", "subagent").usage), [1000, 0, 0, 140].map(Some));
    // It prints numbers that are rounded and lack requests: better none.
    assert!(file("aider", "plain", "stdout").contains("Tokens: "));
    assert!(read("aider", "plain").usage.is_unknown());
}

/// A minute without an answer: none of them gave up, all were ended by the limit on their time.
#[test]
fn trap_07_a_hang_ends_at_our_limit() {
    for harness in ALL {
        assert_eq!(file(harness, "hang", "end").trim(), r#"{"kind": "timed_out", "timer": "run"}"#, "{harness}");
        assert!(served_json(harness, "hang")["requests"].as_u64().unwrap() >= 1, "{harness} never asked");
        let reading = read(harness, "hang");
        assert_eq!(end(reading.outcome), End::None, "{harness}");
        assert!(reading.usage.is_unknown(), "{harness}: {:?}", reading.usage);
    }
}

/// A provider that keeps refusing is asked again for minutes, and is never the agent's failure.
#[test]
fn trap_08_retries_are_told_and_what_comes_of_them_is_the_providers() {
    for (case, fault) in [("rate_limited", ProviderFault::RateLimited), ("overloaded", ProviderFault::Overloaded)] {
        for harness in ALL {
            let requests = served_json(harness, case)["requests"].as_u64().unwrap();
            // It asks again only where it is told when.
            let once = (harness, case) == ("codex", "rate_limited");
            assert!(once || requests >= 3, "{harness}/{case}: {requests} requests");
            let found = end(read(harness, case).outcome);
            // Still at it when its time was up.
            let unfinished = (harness, case) == ("qwen-code", "rate_limited");
            assert_eq!(found, if unfinished { End::None } else { End::Provider(fault) }, "{harness}/{case}");
        }
    }
    for harness in ["claude-code", "copilot", "aider"] {
        assert!(throttled(harness, "rate_limited") >= 3, "{harness}: other cells must hear of it");
    }
}

/// How often a recording's live events say that the provider refused for too many requests.
fn throttled(harness: &str, case: &str) -> usize {
    let entry = harness_manifests::entry(harness, Value::Null);
    let mut reader = declared_harness(&entry, Path::new("refrain")).unwrap().reader();
    let mut events = Vec::new();
    for line in file(harness, case, "stdout").lines() {
        reader.line(Stream::Stdout, line.as_bytes(), &mut events);
    }
    let told = |event: &&AgentEvent| matches!(event, AgentEvent::Retrying { fault: ProviderFault::RateLimited, .. });
    events.iter().filter(told).count()
}

/// codex, opencode and pi wait for the end of their input before they ask for anything.
#[tokio::test]
async fn trap_09_standard_input_ends_also_where_the_prompt_is_no_part_of_it() {
    let bed = Bed::new().await;
    let line = r#"read_all=$(cat); echo "{\"type\":\"say\",\"text\":\"got ${#read_all}\"}"; echo '{"type":"end"}'"#;
    let by_stdin = bed.run_with(&keeping(line), None).await.unwrap();
    let by_argument = bed.run_with(&harness_bed::keeping_with(line, "argument"), None).await.unwrap();
    for (result, text) in
        [(by_stdin, format!("got {}", bed.request.prompt.trim_end().len())), (by_argument, "got 0".to_owned())]
    {
        assert_eq!(result.end, SessionEnd::Completed);
        assert_eq!(result.reading.text, Some(text));
    }
    bed.close().await;
    // It reads its input to the end, and then went to work.
    for harness in ["codex", "opencode", "pi"] {
        assert!(folder(harness, "plain").join("served").exists() && read(harness, "plain").tool_calls == Some(3));
    }
}

#[test]
fn trap_10_an_endless_loop_of_opencode_costs_its_time_and_is_not_its_answer() {
    assert!(served_json("opencode", "empty")["requests"].as_u64().unwrap() >= 30, "without a pause");
    assert_eq!(file("opencode", "empty", "end").trim(), r#"{"kind": "timed_out", "timer": "run"}"#);
    let reading = read("opencode", "empty");
    assert_eq!(end(reading.outcome), End::None);
    assert_eq!(reading.text, None);
}
