//! Recorded output of the real programs as trajectories. They are left in Cargo's temporary folder, so that a validator of
//! the format can be run over them.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod harness_manifests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use refrain::domain::{AttemptId, CellId, RunName, SessionRecord};
use refrain::host::{Adapter, read_stored};
use refrain::report::atif;
use refrain::report::trajectory::{Happening, Known, trajectory};
use serde_json::Value;

fn transcripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

/// The trajectory of a recording, as its document reads.
fn document(harness: &str, case: &str) -> Value {
    let adapter = Adapter::of(&harness_manifests::entry(harness, Value::Null)).unwrap();
    let happenings = read_stored(&adapter, &transcripts().join(harness).join(case)).unwrap();
    let attempt = AttemptId { run: RunName::new("recorded").unwrap(), cell: CellId::from_stored(case), number: 1 };
    let record = SessionRecord {
        harness: harness.to_owned(),
        model: "model".to_owned(),
        text: None,
        ..SessionRecord::completed(1, Timestamp::UNIX_EPOCH, "")
    };
    let known =
        Known { attempt: &attempt, record: &record, harness_version: None, prompt: Some("fix it"), price: None };
    let mut bytes = Vec::new();
    atif::write_document(&trajectory(known, happenings, Vec::new()), &mut bytes).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trajectories");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{harness}-{case}.json")), &bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

fn calls(document: &Value) -> Vec<&Value> {
    let steps = document["steps"].as_array().unwrap().iter();
    steps.filter_map(|step| step["tool_calls"].as_array()).flatten().collect()
}

#[test]
fn every_recording_is_a_trajectory_whose_steps_and_calls_are_numbered_and_whose_results_belong_to_their_step() {
    let mut seen = 0;
    for harness in fs::read_dir(transcripts()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir())
    {
        for case in fs::read_dir(&harness).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
            let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
            let document = document(&name(&harness), &name(&case));
            let mut ids = BTreeSet::new();
            for (at, step) in document["steps"].as_array().unwrap().iter().enumerate() {
                assert_eq!(step["step_id"], at + 1);
                assert!(step["message"].is_string());
                let own: Vec<_> = step["tool_calls"].as_array().into_iter().flatten().collect();
                assert!(own.iter().all(|call| ids.insert(call["tool_call_id"].as_str().unwrap().to_owned())));
                for result in step["observation"]["results"].as_array().into_iter().flatten() {
                    assert!(
                        own.iter().any(|call| call["tool_call_id"] == result["source_call_id"]),
                        "{}",
                        case.display()
                    );
                }
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} recordings");
}

/// What the tools came to, in order.
fn outputs(document: &Value) -> Vec<String> {
    let steps = document["steps"].as_array().unwrap().iter();
    let results = steps.filter_map(|step| step["observation"]["results"].as_array()).flatten();
    results.filter_map(|result| result["content"].as_str().map(str::to_owned)).collect()
}

/// The sums of the metrics of all steps: prompt, completion and cached tokens, and micro-dollars.
fn sums(document: &Value) -> [u64; 4] {
    let mut sums = [0; 4];
    for metrics in document["steps"].as_array().unwrap().iter().map(|step| &step["metrics"]) {
        for (sum, name) in sums.iter_mut().zip(["prompt_tokens", "completion_tokens", "cached_tokens"]) {
            *sum += metrics[name].as_u64().unwrap_or(0);
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "cents")]
        let micros = (metrics["cost_usd"].as_f64().unwrap_or(0.0) * 1e6).round() as u64;
        sums[3] += micros;
    }
    sums
}

#[test]
fn the_figures_of_steps_add_up_to_those_of_the_session_and_times_go_on() {
    // As in `tests/transcripts`: 1114 tokens beside the cache, 9130 from it, 2045 into it, 244 out, by list price 17410.
    for (harness, case) in [
        ("claude-code", "plain"),
        ("opencode", "edit"),
        ("opencode", "plain"),
        ("pi", "plain"),
        ("mini-swe-agent", "plain"),
    ] {
        let document = document(harness, case);
        let [prompt, completion, cached, micros] = sums(&document);
        assert_eq!([prompt, completion, cached], [1114 + 9130 + 2045, 244, 9130], "{harness}/{case}");
        assert!(harness == "claude-code" || micros.abs_diff(17_410) < 5, "{harness}/{case}: {micros}");
        let steps = document["steps"].as_array().unwrap();
        let times: Vec<_> = steps[1..].iter().filter_map(|step| step["timestamp"].as_str()).collect();
        assert!(times.len() > 2 && times.is_sorted(), "{harness}/{case}: {times:?}");
        let agents: Vec<_> = steps.iter().filter(|step| step["source"] == "agent").collect();
        assert_eq!(agents.len(), 4, "{harness}/{case}: a step for each request");
        assert!(agents.iter().all(|step| step["metrics"].is_object()), "{harness}/{case}");
        for call in calls(&document) {
            assert!(!call["arguments"].as_object().unwrap().is_empty(), "{harness}/{case}: {call}");
        }
        assert_eq!(outputs(&document).len(), calls(&document).len(), "{harness}/{case}");
    }
}

#[test]
fn a_session_that_is_told_by_a_file_has_its_steps_from_there() {
    let document = document("mini-swe-agent", "plain");
    let steps = document["steps"].as_array().unwrap();
    let said: Vec<_> = steps[1..].iter().map(|step| step["message"].as_str().unwrap()).collect();
    assert_eq!(said, ["I will look at the program.", "add() subtracts; I fix it.", "Now I run it.", "I submit."]);
    assert_eq!(steps[3]["tool_calls"][0]["arguments"], serde_json::json!({"command": "python3 calc.py"}));
    assert_eq!(outputs(&document)[2], "ok\n");
}

#[test]
fn thoughts_stand_with_the_step_that_they_led_to() {
    let document = document("codex", "thinking");
    let step = &document["steps"][1];
    assert_eq!(step["message"], "I will look at the program.");
    assert_eq!(step["reasoning_content"], "The user wants add fixed. I should read first.");
    assert_eq!(outputs(&document)[0], "calc.py\n");
}

#[test]
fn a_long_output_keeps_its_ends_and_says_what_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let output = format!("begin {} end", "x".repeat(1_000_000));
    let call = serde_json::json!({"type": "assistant", "message": {"id": "m", "content":
        [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "cat x", "text": "y".repeat(100_000)}}]}});
    let end = serde_json::json!({"type": "user", "message": {"content":
        [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": output}]}]}});
    fs::write(folder.path().join("stdout"), format!("{call}\n{end}\n")).unwrap();
    let adapter = Adapter::of(&harness_manifests::entry("claude-code", Value::Null)).unwrap();
    let found = read_stored(&adapter, folder.path()).unwrap();
    let kept = found.iter().find_map(|one| match one {
        Happening::Output(text) => Some(text),
        _ => None,
    });
    let kept = kept.unwrap();
    assert!(kept.starts_with("begin x") && kept.ends_with("x end") && kept.len() < 17_000);
    assert!(kept.contains("\n[refrain: 983626 bytes left out]\n"));
    assert!(format!("{found:?}").len() < 60_000, "arguments are cut too");
}

#[test]
fn a_session_of_claude_code_has_its_words_its_tools_and_how_they_ended() {
    let document = document("claude-code", "edit");
    let steps = document["steps"].as_array().unwrap();
    assert_eq!((&steps[0]["source"], &steps[0]["message"]), (&"user".into(), &"fix it".into()));
    assert_eq!(steps.last().unwrap()["message"], "Fixed: add() now adds.");
    let names: Vec<_> = calls(&document).iter().map(|call| call["function_name"].as_str().unwrap()).collect();
    assert!(names.contains(&"Edit") && names.contains(&"Bash"), "{names:?}");
    let edit = calls(&document).into_iter().find(|call| call["function_name"] == "Edit").unwrap();
    let given = serde_json::json!({"replace_all": false, "file_path": "/work/ws/calc.py", "old_string": "return a - b",
        "new_string": "return a + b"});
    assert_eq!(edit["arguments"], given);
    assert_eq!(steps[1]["timestamp"], "2026-11-29T15:22:14.753Z");
    assert_eq!(outputs(&document).last().map(String::as_str), Some("ok"));
    // What was written after its message's beginning, its stream does not tell.
    let metrics = serde_json::json!({"prompt_tokens": 3000, "cached_tokens": 0,
        "extra": {"input_tokens": 1000, "cache_write_tokens": 2000}});
    assert_eq!(steps[1]["metrics"], metrics);
    let results = steps.iter().filter_map(|step| step["observation"]["results"].as_array()).flatten().count();
    assert_eq!(results, names.len(), "each call told its end");
}

#[test]
fn a_session_of_codex_has_its_commands_and_whether_they_worked() {
    let document = document("codex", "edit");
    let ran: Vec<_> = calls(&document).into_iter().filter(|call| call["arguments"]["command"].is_string()).collect();
    assert!(!ran.is_empty());
    let known =
        document["steps"].as_array().unwrap().iter().filter_map(|step| step["observation"]["results"].as_array());
    assert!(known.flatten().any(|result| result["extra"]["ok"] == true), "{document:#}");
}

#[test]
fn plain_text_is_one_message_and_refusals_are_notices() {
    let plain = document("aider", "plain");
    assert!(plain["steps"].as_array().unwrap().len() < 8, "{plain:#}");
    let refused = document("claude-code", "rate_limited");
    assert!(refused["steps"].as_array().unwrap().iter().any(|step| step["source"] == "system"), "{refused:#}");
}
