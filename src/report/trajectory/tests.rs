use jiff::Timestamp;
use serde_json::json;

use super::*;
use crate::domain::{CellId, Micros, RunName, UsageSource};
use crate::report::atif::{write_document, write_lines};

fn attempt() -> AttemptId {
    AttemptId { run: RunName::new("demo").expect("valid"), cell: CellId::from_stored("c__r1"), number: 2 }
}

fn record(text: &str) -> SessionRecord {
    SessionRecord {
        harness: "claude-code".to_owned(),
        model: "m".to_owned(),
        ..SessionRecord::completed(3, Timestamp::UNIX_EPOCH, text)
    }
}

fn made(record: &SessionRecord, prompt: Option<&str>, happenings: Vec<Happening>) -> Value {
    let attempt = attempt();
    let known = Known { attempt: &attempt, record, harness_version: None, prompt, price: None };
    let mut bytes = Vec::new();
    write_document(&trajectory(known, happenings, Vec::new()), &mut bytes).expect("written");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn call(name: &str) -> Happening {
    Happening::Call { name: name.to_owned(), ok: None, duration: None }
}

fn end(name: &str, ok: bool) -> Happening {
    Happening::CallEnd { name: name.to_owned(), ok: Some(ok), duration: Some(Duration::from_millis(7)) }
}

#[test]
fn what_is_unknown_is_left_out_and_told_in_the_notes() {
    let document = made(&record("done"), None, Vec::new());
    assert_eq!(document["final_metrics"], json!({"total_steps": 2}));
    let notes = document["notes"].as_str().expect("notes");
    for told in ["the prompt is not stored", "the log shows no event", "tokens are unknown", "the cost is unknown"] {
        assert!(notes.contains(told), "{told}: {notes}");
    }
    assert_eq!(document["steps"][0]["message"], NO_PROMPT);
    assert_eq!(document["steps"][1], json!({"step_id": 2, "source": "agent", "message": "done"}));
    assert_eq!(document["agent"], json!({"name": "claude-code", "version": "unknown", "model_name": "m"}));
    assert_eq!(document["trajectory_id"], "demo/c__r1/a2/s3");
}

#[test]
fn prompt_tokens_include_cached_ones_and_one_unknown_class_makes_them_unknown() {
    let usage =
        Usage { input: Some(10), output: Some(5), cache_read: Some(100), cache_write: Some(20), reasoning: None };
    let cost = Some(Micros::new(1_500));
    let counted = SessionRecord { usage, cost, usage_source: Some(UsageSource::Gateway), ..record("done") };
    let metrics = made(&counted, Some("do"), Vec::new())["final_metrics"].clone();
    let expected = json!({
        "total_prompt_tokens": 130, "total_completion_tokens": 5, "total_cached_tokens": 100, "total_cost_usd": 0.0015,
        "total_steps": 2,
        "extra": {"usage_source": "gateway", "input_tokens": 10, "cache_write_tokens": 20},
    });
    assert_eq!(metrics, expected);
    let part = SessionRecord { usage: Usage { cache_write: None, ..usage }, ..counted };
    let metrics = made(&part, Some("do"), Vec::new())["final_metrics"].clone();
    assert!(metrics.get("total_prompt_tokens").is_none() && metrics["total_cached_tokens"] == 100, "{metrics}");
}

#[test]
fn results_stand_in_the_step_of_their_call_and_later_calls_in_a_step_of_their_own() {
    let document = made(
        &record("fixed"),
        Some("fix it"),
        vec![
            Happening::Message("look".to_owned()),
            call("Read"),
            call("Bash"),
            Happening::Command { line: "ls".to_owned(), ok: None },
            end("Bash", true),
            Happening::Notice("429".to_owned()),
            end("Read", false),
            call("Edit"),
            Happening::FileEdit("a.py".to_owned()),
            Happening::Message("fixed".to_owned()),
        ],
    );
    let steps = document["steps"].as_array().expect("steps");
    let sources: Vec<_> = steps.iter().map(|step| step["source"].as_str().expect("a source")).collect();
    assert_eq!(sources, ["user", "agent", "system", "agent", "agent"]);
    assert_eq!(
        steps[1],
        json!({
            "step_id": 2, "source": "agent", "message": "look",
            "tool_calls": [
                {"tool_call_id": "call-1", "function_name": "Read", "arguments": {}},
                {"tool_call_id": "call-2", "function_name": "Bash", "arguments": {"command": "ls"}},
            ],
            "observation": {"results": [
                {"source_call_id": "call-2", "extra": {"ok": true, "duration_ms": 7}},
                {"source_call_id": "call-1", "extra": {"ok": false, "duration_ms": 7}},
            ]},
        })
    );
    assert_eq!(steps[3]["tool_calls"][0]["arguments"], json!({"path": "a.py"}));
    assert!(steps[3].get("observation").is_none(), "nothing told its end");
}

#[test]
fn a_command_that_no_tool_call_told_is_a_call_of_its_own() {
    let ran = Happening::Command { line: "make".to_owned(), ok: Some(false) };
    let document = made(&record("done"), Some("do"), vec![ran]);
    let step = &document["steps"][1];
    let expected = json!([{"tool_call_id": "call-1", "function_name": "command", "arguments": {"command": "make"}}]);
    assert_eq!(step["tool_calls"], expected);
    assert_eq!(step["observation"]["results"], json!([{"source_call_id": "call-1", "extra": {"ok": false}}]));
}

#[test]
fn lines_hold_what_the_document_holds() {
    let (record, attempt) = (record("done"), attempt());
    let known =
        Known { attempt: &attempt, record: &record, harness_version: Some("1"), prompt: Some("do"), price: None };
    let made = trajectory(known, vec![Happening::Message("done\n\nso".to_owned())], Vec::new());
    let mut bytes = Vec::new();
    write_lines(&made, &mut bytes).expect("written");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let mut head = lines.next().expect("a head");
    head["steps"] = lines.collect::<Vec<_>>().into();
    assert_eq!(head, serde_json::to_value(&made).expect("JSON"));
    assert_eq!(made.steps.len(), 2, "its last words are not told twice");
}
