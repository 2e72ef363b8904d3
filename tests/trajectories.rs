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
use refrain::report::trajectory::{Known, trajectory};
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
    let known = Known { attempt: &attempt, record: &record, harness_version: None, prompt: Some("fix it") };
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

#[test]
fn a_session_of_claude_code_has_its_words_its_tools_and_how_they_ended() {
    let document = document("claude-code", "edit");
    let steps = document["steps"].as_array().unwrap();
    assert_eq!((&steps[0]["source"], &steps[0]["message"]), (&"user".into(), &"fix it".into()));
    assert_eq!(steps.last().unwrap()["message"], "Fixed: add() now adds.");
    let names: Vec<_> = calls(&document).iter().map(|call| call["function_name"].as_str().unwrap()).collect();
    assert!(names.contains(&"Edit") && names.contains(&"Bash"), "{names:?}");
    let edit = calls(&document).into_iter().find(|call| call["function_name"] == "Edit").unwrap();
    assert_eq!(edit["arguments"], serde_json::json!({"path": "/work/ws/calc.py"}));
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
