use super::*;
use crate::harness::Outcome;
use test_case::test_case;

const COUNTING: &str = r#"
local usage = { input = 0, output = 0 }
local session
return {
  line = function(stream, line)
    local event = json.decode(line)
    if stream == "stderr" or not event then return nil end
    if event.boom then error("boom") end
    if event.spin then while true do end end
    if event.eat then local t = {} while true do t[#t + 1] = string.rep("x", 1e7) .. #t end end
    if event.id then return { kind = "session_id", id = event.id } end
    if event.odd then return { kind = "odd" } end
    usage.input += event.input or 0
    usage.output += event.output or 0
    return {
      { kind = "message", text = event.text },
      { kind = "tool", name = "sh", ok = true, seconds = 1.5 },
      { kind = "usage", input = usage.input, output = usage.output },
    }
  end,
  finish = function(code)
    return { outcome = code == 0 and "completed" or "failed", message = "it failed", usage = usage, cost = 0.25,
      turns = 2, tool_calls = 1, warnings = {} }
  end,
}
"#;

fn read(lines: &[&str], exit_code: Option<i32>) -> (Reading, Vec<AgentEvent>) {
    let mut reader = LuaReaders::new("mine", COUNTING).expect("loads").reader();
    let mut events = Vec::new();
    for line in lines {
        reader.line(Stream::Stdout, line.as_bytes(), &mut events);
    }
    (reader.finish(exit_code), events)
}

#[test]
fn a_whole_session() {
    let lines = [r#"{"id":"s-1"}"#, "noise", r#"{"text":"hi","input":100,"output":5}"#];
    let (reading, events) = read(&lines, Some(0));
    assert_eq!(reading.outcome, Some(Outcome::Completed));
    assert_eq!((reading.usage.input, reading.usage.output, reading.usage.cache_read), (Some(100), Some(5), None));
    assert_eq!((reading.cost, reading.turns, reading.tool_calls), (Some(Micros::new(250_000)), Some(2), Some(1)));
    assert_eq!((reading.text.as_deref(), reading.harness_session.as_deref()), (Some("hi"), Some("s-1")));
    assert!(reading.started && reading.warnings.is_empty(), "{:?}", reading.warnings);
    let duration = Some(Duration::from_millis(1500));
    assert!(events.contains(&AgentEvent::Tool { name: "sh".to_owned(), ok: Some(true), duration }));
    assert_eq!(read(&lines, Some(1)).0.outcome, Some(Outcome::Failed("it failed".to_owned())));
}

#[test_case(r#"{"boom":1}"#, "boom"; "an error")]
#[test_case(r#"{"spin":1}"#, "computed"; "an endless loop")]
#[test_case(r#"{"eat":1}"#, "memory"; "all memory")]
fn an_adapter_that_fails_in_the_middle_costs_numbers_and_not_the_session(line: &str, why: &str) {
    let lines = [r#"{"text":"hi","input":100,"output":5}"#, line, r#"{"text":"more","input":1,"output":1}"#];
    let (reading, events) = read(&lines, Some(0));
    assert_eq!(reading.outcome, Some(Outcome::Completed), "words and code 0");
    assert_eq!(reading.text.as_deref(), Some("hi"));
    assert!(reading.started && reading.usage.is_unknown() && reading.cost.is_none());
    assert_eq!(reading.warnings.len(), 1);
    assert!(reading.warnings[0].contains("tokens and cost are unknown") && reading.warnings[0].contains(why));
    assert_eq!(events.len(), 3, "what it told before stays told");
}

#[test]
fn an_event_that_nobody_knows_is_left_out_with_one_warning() {
    let (reading, events) = read(&[r#"{"odd":1}"#, r#"{"odd":1}"#, r#"{"text":"hi"}"#], Some(0));
    assert_eq!((reading.warnings.len(), events.len()), (1, 3));
    assert!(reading.warnings[0].contains("an event is left out"), "{:?}", reading.warnings);
}

#[test_case("return { line = function() end, finish = function() return 5 end }"; "a number")]
#[test_case("return { line = function() end, finish = function() return { tokens = 5 } end }"; "an unknown field")]
#[test_case("return { line = function() end, finish = function() error('x') end }"; "an error")]
fn a_report_that_is_none_is_a_failure_of_the_adapter(text: &str) {
    let mut reader = LuaReaders::new("mine", text).expect("loads").reader();
    reader.line(Stream::Stdout, b"words", &mut Vec::new());
    let reading = reader.finish(Some(0));
    assert_eq!((reading.outcome, reading.text.as_deref()), (Some(Outcome::Completed), Some("words")));
    assert!(reading.usage.is_unknown() && reading.warnings[0].contains("it failed"));
}

#[test_case(-1.0, None)]
#[test_case(1.5, None)]
#[test_case(f64::NAN, None)]
#[test_case(1e300, None)]
#[test_case(7.0, Some(7))]
fn counts(number: f64, expected: Option<u64>) {
    assert_eq!(whole(number), expected);
}

#[test]
fn what_does_not_load_is_an_error_of_the_configuration() {
    let error = LuaReaders::new("mine", "return {").expect_err("refused").to_string();
    assert!(error.contains("the adapter of harness `mine` does not load"), "{error}");
}
