use proptest::prelude::*;
use test_case::test_case;

use super::*;

const USAGE: &str = r#"{"id":"x","choices":[],"usage":{"prompt_tokens":1}}"#;
const TEXT: &str = r#"{"id":"x","choices":[{"delta":{"content":"\"usage\":{}"}}],"usage":null}"#;

fn filtered(text: &str, step: usize) -> String {
    let (mut filter, mut out) = (UsageFilter::new(), Vec::new());
    for piece in text.as_bytes().chunks(step) {
        out.extend_from_slice(&filter.pass(Bytes::copy_from_slice(piece)));
    }
    out.extend_from_slice(&filter.finish());
    String::from_utf8(out).expect("is text")
}

#[test_case("\n"; "line feeds")]
#[test_case("\r\n"; "both")]
#[test_case("\r"; "carriage returns")]
fn the_chunk_goes_and_all_else_stays(end: &str) {
    let text = |data: &str| format!("data: {data}{end}{end}");
    let kept_before = format!(": hello{end}{end}{}", text(TEXT));
    let whole = format!("{kept_before}{}{}", text(USAGE), text("[DONE]"));
    let expected = format!("{kept_before}{}", text("[DONE]"));
    for step in 1..whole.len() {
        assert_eq!(filtered(&whole, step), expected, "in pieces of {step}");
    }
}

#[test_case(r#"{"choices":[{"delta":{}}],"usage":{"prompt_tokens":1}}"#; "usage with a choice")]
#[test_case(r#"{"choices":[],"prompt_filter_results":[{"usage":{}}]}"#; "no choices and no usage")]
#[test_case(r#"{"choices":[],"usage":null}"#; "null usage")]
#[test_case(r#"{"choices":[{}],"choices":[],"usage":{}}"#; "a choice that is taken back")]
#[test_case(r#"{"usage":{"prompt_tokens":1}}"#; "no word of choices")]
#[test_case(r#"{"choices":[],"usage":{"#; "cut")]
fn other_chunks_stay(data: &str) {
    let text = format!("data: {data}\n\ndata: [DONE]\n\n");
    assert_eq!(filtered(&text, 7), text);
}

#[test]
fn a_last_chunk_without_its_blank_line_goes_too() {
    assert_eq!(filtered(&format!("data: {TEXT}\n\ndata: {USAGE}\n"), 11), format!("data: {TEXT}\n\n"));
}

#[test]
fn whole_events_pass_at_once_and_uncopied() {
    let mut filter = UsageFilter::new();
    let piece = Bytes::from(format!("data: {TEXT}\n\ndata: {TEXT}\n\n"));
    let passed = filter.pass(piece.clone());
    assert_eq!(passed.as_ptr(), piece.as_ptr());
    assert_eq!(passed, piece);
}

#[test]
fn an_event_with_a_choice_passes_as_it_comes() {
    let mut filter = UsageFilter::new();
    let piece = Bytes::from_static(b"data: {\"id\":\"x\",\"choices\":[{\"delta\":{\"content\":\"as it");
    assert_eq!(filter.pass(piece.clone()).as_ptr(), piece.as_ptr());
    assert_eq!(filter.pass(Bytes::from_static(b" comes\"}}],\"usage\":{}}\n\nda")), " comes\"}}],\"usage\":{}}\n\n");
    assert_eq!(filter.pass(Bytes::from_static(b"ta: {\"choices\":[],")), "");
    assert_eq!(filter.pass(Bytes::from_static(b"\"usage\":{}}\n\n")), "");
    assert!(filter.finish().is_empty());
}

#[test]
fn a_long_event_passes_before_its_end() {
    let long = "x".repeat(LONGEST);
    let mut filter = UsageFilter::new();
    let piece = Bytes::from(format!("data: {long}"));
    assert_eq!(filter.pass(piece.clone()), piece);
    assert_eq!(filter.pass(Bytes::from_static(b"y")), "y");
    assert_eq!(filter.pass(Bytes::from(format!("\n\ndata: {USAGE}\n\n"))), "\n\n");
    assert!(filter.finish().is_empty());
}

proptest! {
    #[test]
    fn cuts_are_no_part_of_it(parts in prop::collection::vec(0..7usize, 0..12), step in 1..80usize) {
        let end = ["\n", "\r\n", "\r"];
        let events: Vec<String> = parts.iter().map(|part| match part {
            0 => format!("data: {USAGE}"),
            1 => format!("data: {TEXT}"),
            2 => "data: [DONE]".to_owned(),
            3 => "event: x\ndata: {".to_owned(),
            part => end[part % 3].repeat(part - 3),
        }).collect();
        let text = events.join("\n\n");
        prop_assert_eq!(filtered(&text, step), filtered(&text, text.len().max(1)));
    }
}
