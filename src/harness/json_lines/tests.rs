use std::collections::BTreeMap;

use serde_json::json;
use test_case::test_case;

use super::*;

fn rule(when: &[(&str, Value)], is: LineMeaning, text: Option<&str>) -> LineRule {
    LineRule {
        when: when.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect(),
        is,
        text: text.map(str::to_owned),
        turns: Some("turns".to_owned()),
        ..LineRule::default()
    }
}

fn spec() -> JsonLinesSpec {
    let usage: BTreeMap<String, String> =
        [("input", "in - cached?"), ("output", "out")].map(|(class, path)| (class.to_owned(), path.to_owned())).into();
    JsonLinesSpec {
        rules: vec![
            rule(&[("type", json!("start"))], LineMeaning::SessionId, Some("id")),
            rule(&[("type", json!("say"))], LineMeaning::Message, Some("text")),
            LineRule { ok: Some("ok".to_owned()), ..rule(&[("type", json!("tool"))], LineMeaning::Tool, Some("name")) },
            LineRule {
                usage,
                usage_mode: UsageMode::Sum,
                cost: Some("usd".to_owned()),
                turns: None,
                ..rule(&[("type", json!("tokens"))], LineMeaning::Data, None)
            },
            rule(&[("type", json!("end")), ("status", json!("failed"))], LineMeaning::Failed, Some("error")),
            rule(&[("type", json!("end"))], LineMeaning::Completed, Some("text")),
            rule(&[("type", json!("fatal"))], LineMeaning::Failed, Some("error")),
        ],
    }
}

fn read_bytes(output: &[u8]) -> (Reading, Vec<AgentEvent>) {
    let mut reader = Box::new(JsonLinesReader::new(&spec()));
    let mut events = Vec::new();
    for line in output.split(|&byte| byte == b'\n') {
        reader.line(Stream::Stdout, line, &mut events);
    }
    (reader.finish(None), events)
}

fn read(output: &str) -> Reading {
    read_bytes(output.as_bytes()).0
}

#[test]
fn a_whole_session() {
    let (reading, events) = read_bytes(
        br#"{"type":"start","id":"s-1"}
{"type":"say","text":"hello"}
{"type":"tool","name":"sh","ok":false}
{"type":"tokens","in":100,"cached":60,"out":5,"usd":0.5}
{"type":"tokens","in":10,"out":7,"usd":0.25}
{"type":"end","text":"done","turns":2}"#,
    );
    assert_eq!(reading.outcome, Some(Outcome::Completed));
    assert_eq!(reading.text.as_deref(), Some("done"));
    assert_eq!((reading.usage.input, reading.usage.output, reading.usage.cache_read), (Some(50), Some(12), None));
    assert_eq!(reading.cost, Some(Micros::new(750_000)));
    assert_eq!((reading.turns, reading.tool_calls), (Some(2), Some(1)));
    assert_eq!(reading.harness_session.as_deref(), Some("s-1"));
    assert!(reading.warnings.is_empty() && reading.started);
    assert_eq!(events.last(), Some(&AgentEvent::Finished));
    assert!(events.contains(&AgentEvent::Tool { name: "sh".to_owned(), ok: Some(false) }));
    assert!(events.contains(&AgentEvent::Cost(Micros::new(750_000))));
}

#[test]
fn lines_that_are_no_records_are_ignored() {
    let reading = read(
        "Loaded cached credentials.\n{\n  \"type\": \"end\",\n  \"text\": 1\n}\n[1]\n\"x\"\n{\"type\":\"end\"}\nSDK shut down\n\n",
    );
    assert_eq!(reading.outcome, Some(Outcome::Completed));
    assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
    let nothing = read("SDK shut down");
    assert_eq!((nothing.started, nothing.outcome, nothing.tool_calls), (false, None, None));
}

#[test]
fn a_cut_last_line_is_told_and_its_numbers_are_unknown() {
    let reading = read("{\"type\":\"say\",\"text\":\"a\"}\n{\"type\":\"tokens\",\"in\":1");
    assert_eq!(reading.warnings, ["the last line of the output is cut"]);
    assert!(reading.usage.is_unknown());
}

#[test]
fn bytes_that_are_no_utf_8_do_not_cost_the_record() {
    let (reading, _) = read_bytes(b"{\"type\":\"end\",\"text\":\"bad \xff byte\"}");
    assert_eq!(reading.outcome, Some(Outcome::Completed));
    assert_eq!(reading.text.as_deref(), Some("bad \u{fffd} byte"));
}

#[test_case(&["end 3", "fatal 0"], Outcome::Completed, true; "a bogus error after a success with turns")]
#[test_case(&["fatal 0", "end 3"], Outcome::Completed, true; "an error, then an internal retry that worked")]
#[test_case(&["end 3", "fatal 1"], Outcome::Failed("e".into()), true; "a later failure with turns")]
#[test_case(&["fatal 0"], Outcome::Failed("e".into()), false; "a failure alone")]
#[test_case(&["end 0", "fatal 0"], Outcome::Failed("e".into()), true; "an empty success is none")]
#[test_case(&["end 1", "end 2"], Outcome::Completed, false; "two prompts")]
fn several_results(records: &[&str], expected: Outcome, conflict: bool) {
    let lines: Vec<String> = records
        .iter()
        .map(|record| {
            let (kind, turns) = record.split_once(' ').expect("two words");
            format!("{{\"type\":\"{kind}\",\"error\":\"e\",\"turns\":{turns}}}")
        })
        .collect();
    let reading = read(&lines.join("\n"));
    assert_eq!(reading.outcome, Some(expected));
    assert_eq!(reading.warnings.iter().any(|warning| warning.starts_with("conflicting results")), conflict);
}

#[test]
fn a_failure_inside_a_completed_event_is_a_failure() {
    let reading = read("{\"type\":\"end\",\"status\":\"failed\",\"error\":\"no\"}");
    assert_eq!(reading.outcome, Some(Outcome::Failed("no".to_owned())));
    let without_words = read("{\"type\":\"fatal\"}");
    assert!(matches!(without_words.outcome, Some(Outcome::Failed(message)) if !message.is_empty()));
}

#[test]
fn standard_error_holds_no_records() {
    let mut reader = Box::new(JsonLinesReader::new(&spec()));
    reader.line(Stream::Stderr, b"{\"type\":\"end\"}", &mut Vec::new());
    let reading = reader.finish(Some(0));
    assert_eq!((reading.started, reading.outcome), (false, None));
}

#[test_case(UsageMode::Last, (Some(2), Some(9), false); "last")]
#[test_case(UsageMode::Sum, (Some(3), None, false); "sum: a class that one line leaves out is unknown")]
#[test_case(UsageMode::Cumulative, (Some(2), Some(9), true); "cumulative")]
fn modes(mode: UsageMode, expected: (Option<u64>, Option<u64>, bool)) {
    let usage = [("input".to_owned(), "i".to_owned()), ("output".to_owned(), "o".to_owned())].into();
    let spec = JsonLinesSpec { rules: vec![LineRule { usage, usage_mode: mode, ..LineRule::default() }] };
    let mut reader = Box::new(JsonLinesReader::new(&spec));
    for line in ["{\"i\":1,\"o\":9}", "{\"i\":2}", "{\"other\":1}"] {
        reader.line(Stream::Stdout, line.as_bytes(), &mut Vec::new());
    }
    let reading = reader.finish(None);
    assert_eq!((reading.usage.input, reading.usage.output, reading.cumulative), expected);
}

#[test]
fn no_line_makes_the_reader_fail() {
    for line in ["{", "null", "{\"type\":{}}", "{\"type\":\"tokens\",\"in\":-1,\"usd\":-3}", "{\"type\":\"tool\"}"] {
        let (reading, events) = read_bytes(line.as_bytes());
        assert_eq!(reading.outcome, None, "{line}");
        assert_eq!(reading.cost, None, "{line}");
        assert!(events.len() <= 1, "{line}: {events:?}");
    }
}
