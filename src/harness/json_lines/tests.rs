use std::collections::BTreeMap;

use serde_json::json;
use test_case::test_case;

use super::*;
use crate::config::harness_manifest::{LineRule, UsageMode};

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
        exit_codes: [(53, LineMeaning::TurnLimit), (2, LineMeaning::Misconfigured)].into(),
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
    assert!(events.contains(&AgentEvent::Tool { name: "sh".to_owned(), ok: Some(false), duration: None }));
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
    let spec = JsonLinesSpec {
        rules: vec![LineRule { usage, usage_mode: mode, ..LineRule::default() }],
        ..JsonLinesSpec::default()
    };
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

fn events_of(rules: Vec<LineRule>, output: &str) -> (Reading, Vec<AgentEvent>) {
    let mut reader = Box::new(JsonLinesReader::new(&JsonLinesSpec { rules, ..JsonLinesSpec::default() }));
    let mut events = Vec::new();
    output.lines().for_each(|line| reader.line(Stream::Stdout, line.as_bytes(), &mut events));
    (reader.finish(None), events)
}

fn call_rules() -> Vec<LineRule> {
    let paths = |rule: LineRule| LineRule { id: Some("id".to_owned()), time: Some("at".to_owned()), ..rule };
    vec![
        paths(rule(&[("type", json!("call"))], LineMeaning::Tool, Some("name"))),
        LineRule {
            ok: Some("status".to_owned()),
            ..paths(rule(&[("type", json!("done"))], LineMeaning::ToolEnd, Some("name")))
        },
    ]
}

#[test]
fn calls_that_overlap_end_with_their_own_names_and_times() {
    let (reading, events) = events_of(
        call_rules(),
        r#"{"type":"call","id":"1","name":"sh","at":"2026-01-01T00:00:00.000Z"}
{"type":"call","id":"2","name":"edit","at":1767225600100}
{"type":"done","id":"2","status":"error","at":1767225600350}
{"type":"done","id":"1","status":"success","at":"2026-01-01T00:00:02.500Z"}
{"type":"done","id":"3","status":0}"#,
    );
    let begun = |name: &str| AgentEvent::Tool { name: name.to_owned(), ok: None, duration: None };
    let ended = |name: &str, ok, milliseconds: Option<u64>| AgentEvent::ToolEnd {
        name: name.to_owned(),
        ok: Some(ok),
        duration: milliseconds.map(Duration::from_millis),
    };
    let expected = [
        begun("sh"),
        begun("edit"),
        ended("edit", false, Some(250)),
        ended("sh", true, Some(2500)),
        ended("unknown", true, None),
    ];
    assert_eq!(events, expected);
    assert_eq!(reading.tool_calls, Some(2));
}

#[test]
fn a_clock_that_went_back_gives_no_duration() {
    let (_, events) = events_of(
        call_rules(),
        "{\"type\":\"call\",\"id\":\"1\",\"name\":\"sh\",\"at\":9}\n{\"type\":\"done\",\"id\":\"1\",\"at\":5}",
    );
    assert_eq!(events[1], AgentEvent::ToolEnd { name: "sh".to_owned(), ok: None, duration: None });
}

#[test]
fn pieces_of_a_message_are_put_together() {
    let rules = vec![
        rule(&[("type", json!("piece"))], LineMeaning::MessagePart, Some("text")),
        rule(&[("type", json!("call"))], LineMeaning::Tool, Some("name")),
    ];
    let output = r#"{"type":"piece","text":"I "}
{"type":"piece","text":"look."}
{"type":"other"}
{"type":"call","name":"sh"}
{"type":"piece","text":"Done"}
{"type":"piece","text":"!"}"#;
    let (reading, events) = events_of(rules, output);
    let call = AgentEvent::Tool { name: "sh".to_owned(), ok: None, duration: None };
    assert_eq!(events, [AgentEvent::Message("I look.".to_owned()), call]);
    assert_eq!(reading.text.as_deref(), Some("Done!"));
}

#[test]
fn edits_commands_and_errors_are_told() {
    let rules = vec![
        rule(&[("type", json!("edit"))], LineMeaning::FileEdit, Some("path")),
        LineRule { ok: Some("code".to_owned()), ..rule(&[("type", json!("run"))], LineMeaning::Command, Some("line")) },
        rule(&[("type", json!("error"))], LineMeaning::Error, Some("text")),
    ];
    let output = r#"{"type":"edit","path":"a.rs"}
{"type":"run","line":"make","code":2}
{"type":"error","text":"reconnecting"}"#;
    let expected = [
        AgentEvent::FileEdit("a.rs".to_owned()),
        AgentEvent::Command { line: "make".to_owned(), ok: Some(false) },
        AgentEvent::Error("reconnecting".to_owned()),
    ];
    let (reading, events) = events_of(rules, output);
    assert_eq!(events, expected);
    assert_eq!((reading.outcome, reading.tool_calls), (None, None));
}

#[test]
fn what_was_before_a_restart_is_of_another_session() {
    let mut rules = spec().rules;
    rules.push(rule(&[("type", json!("resumed"))], LineMeaning::Restart, None));
    let output = r#"{"type":"say","text":"earlier"}
{"type":"tokens","in":100,"out":5,"usd":0.5}
{"type":"fatal","error":"e","turns":1}
{"type":"resumed"}
{"type":"tokens","in":7,"out":9,"usd":0.25}
{"type":"end","text":"now","turns":1}"#;
    let (reading, _) = events_of(rules, output);
    assert_eq!((reading.usage.input, reading.usage.output), (Some(7), Some(9)));
    assert_eq!((reading.cost, reading.text.as_deref()), (Some(Micros::new(250_000)), Some("now")));
    assert_eq!((reading.outcome, reading.warnings.len()), (Some(Outcome::Completed), 0));
}

#[test_case(&[("cache_write", "models.*.written"), ("cache_write_long", "models.*.hour")], Some(21); "told apart")]
#[test_case(&[("cache_write", "models.*.written")], None; "what is not told is not zero")]
fn what_the_cache_keeps_for_an_hour(paths: &[(&str, &str)], long: Option<u64>) {
    let usage = paths.iter().map(|(class, path)| ((*class).to_owned(), (*path).to_owned())).collect();
    let told = LineRule { usage, usage_mode: UsageMode::Sum, ..rule(&[], LineMeaning::Data, None) };
    let mut reader = JsonLinesReader::new(&JsonLinesSpec { rules: vec![told], ..JsonLinesSpec::default() });
    let first = r#"{"models":{"a":{"written":30,"hour":20},"b":{"written":5,"hour":1}}}"#;
    for line in [first, r#"{"models":{"a":{"written":7,"hour":0}}}"#] {
        reader.record(line.as_bytes(), &mut Vec::new());
    }
    let reading = reader.conclude();
    assert_eq!((reading.usage.cache_write, reading.cache_write_long), (Some(42), long));
}

#[test_case(Some(53), r#"{"type":"say","text":"hi"}"#, Some(LineMeaning::TurnLimit); "a code that means something")]
#[test_case(Some(1), r#"{"type":"say","text":"hi"}"#, None; "one that means nothing")]
#[test_case(None, r#"{"type":"say","text":"hi"}"#, None; "killed")]
#[test_case(Some(53), "nothing that it understands", None; "it never began")]
#[test_case(Some(53), r#"{"type":"end","text":"done"}"#, Some(LineMeaning::Completed); "a line goes before the code")]
fn an_exit_code_tells_the_end_where_no_line_does(code: Option<i32>, line: &str, expected: Option<LineMeaning>) {
    let mut reader = Box::new(JsonLinesReader::new(&spec()));
    reader.line(Stream::Stdout, line.as_bytes(), &mut Vec::new());
    assert_eq!(reader.finish(code).outcome, expected.and_then(|meaning| outcome(meaning, None)));
}

#[test]
fn an_end_that_is_taken_back_is_none() {
    let mut rules = spec().rules;
    rules.push(rule(&[("type", json!("again"))], LineMeaning::GoesOn, None));
    let (reading, _) = events_of(rules, "{\"type\":\"fatal\",\"error\":\"e\"}\n{\"type\":\"again\"}");
    assert_eq!((reading.outcome, reading.started), (None, true));
}

#[test]
fn a_failure_without_a_reason_leaves_one_that_was_explained() {
    let mut rules = spec().rules;
    rules.push(rule(&[("type", json!("blocked"))], LineMeaning::Refused, Some("text")));
    let read = |output: &str| events_of(rules.clone(), output).0;
    let reading = read("{\"type\":\"blocked\",\"text\":\"unsafe\"}\n{\"type\":\"fatal\"}");
    assert_eq!(reading.outcome, Some(Outcome::Refused("unsafe".to_owned())));
    assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
    let reading = read("{\"type\":\"blocked\",\"text\":\"unsafe\"}\n{\"type\":\"fatal\",\"error\":\"why\"}");
    assert_eq!(reading.outcome, Some(Outcome::Failed("why".to_owned())));
    let reading = read("{\"type\":\"end\",\"text\":\"done\"}\n{\"type\":\"fatal\"}");
    assert!(matches!(reading.outcome, Some(Outcome::Failed(_))));
}
