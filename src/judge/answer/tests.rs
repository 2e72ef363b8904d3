//! What is an answer and what is none.

use test_case::test_case;

use super::*;
use crate::domain::rubric::Criterion;

fn rubric() -> Rubric {
    let criterion = |name: &str| Criterion {
        name: name.to_owned(),
        question: "?".to_owned(),
        weight: 1.0,
        points: 10,
        anchors: Vec::new(),
    };
    Rubric { version: 1, criteria: vec![criterion("correct"), criterion("safe")], pass_score: 0.5, files: Vec::new() }
}

const GOOD: &str = r#"{"scores": {"safe": 4.5, "correct": 8}, "reasons": {"correct": "a {b}", "safe": "c"}}"#;

#[test_case(GOOD.to_owned(); "bare")]
#[test_case(format!("```json\n{GOOD}\n```"); "fenced")]
#[test_case(format!("Here: {GOOD}"); "prefaced")]
#[test_case(format!("{GOOD}\n\nI hope {{this}} helps, {{n}} times."); "trailing prose with braces")]
#[test_case(format!("As {{set}} out: {GOOD}"); "leading prose with braces")]
#[test_case(format!("<think>maybe {{\"scores\": {{}}}}</think>\n{GOOD}"); "a thought before it")]
fn prose_around_the_object_is_put_up_with(text: String) {
    let scores = parse(&text, &rubric()).expect("an answer");
    assert_eq!((scores.points, scores.reasons), (vec![8.0, 4.5], vec!["a {b}".to_owned(), "c".to_owned()]));
}

/// An answer with these scores.
fn scored(scores: &str) -> String {
    format!(r#"{{"scores": {{{scores}}}, "reasons": {{"correct": "", "safe": ""}}}}"#)
}

// B100.
#[test_case(r#"{"scores": {"correct": 8, "safe": 4}, "reasons": {"correct": "\q"}}"#, "the JSON is broken"; "illegal escape")]
#[test_case(r#"{"scores": {"correct": 8, "safe": 4}, "reas"#, "the JSON is broken"; "cut")]
#[test_case("I cannot judge this work.", "there is no JSON object"; "refusal")]
#[test_case("", "there is no JSON object"; "empty")]
// B101.
#[test_case(r#"{"score":90}"#, "the object has no `scores`"; "another key")]
#[test_case("[ERROR] 429 after 1 try", "there is no JSON object"; "digits in an error")]
#[test_case(&scored(r#""correct": 90, "safe": 1"#), "the score for `correct` is 90, not from 0 to 10"; "too high")]
#[test_case(&scored(r#""correct": -1, "safe": 1"#), "the score for `correct` is -1, not from 0 to 10"; "too low")]
#[test_case(&scored(r#""correct": 1e999, "safe": 1"#), "the JSON is broken"; "no finite number")]
#[test_case(&scored(r#""correct": "8", "safe": 1"#), "the score for `correct` is no number"; "text")]
#[test_case(&scored(r#""correct": null, "safe": 1"#), "the score for `correct` is no number"; "null")]
// B102.
#[test_case(r#"{"score":0.2,"parts":[{"score":1.0}]}"#, "the object has no `scores`"; "nested scores")]
#[test_case(&format!(r#"{{"verdict": {GOOD}}}"#), "the object has no `scores`"; "nested answer")]
#[test_case(&format!(r#"{{"note": "\q", "verdict": {GOOD}}}"#), "the JSON is broken"; "nested in what is broken")]
#[test_case(&format!("[{GOOD}]"), "the object stands inside something else"; "in a list")]
#[test_case(&format!("{{{GOOD}}}"), "the object stands inside something else"; "in braces")]
#[test_case(&format!("{GOOD}\n{GOOD}"), "there is more than one object"; "two")]
#[test_case(&scored(r#""correct": 1, "safe": 1, "correct": 10"#), "the JSON is broken"; "one key twice")]
// B103.
#[test_case(r#"{"rationale":"x"}"#, "the object has no `scores`"; "no scores")]
#[test_case(&scored(r#""correct": 8"#), "there is no score for `safe`"; "a criterion missing")]
#[test_case(&scored(r#""correct": 8, "safe": 1, "style": 3"#), "`scores` has `style`, which is no criterion"; "another criterion")]
#[test_case(r#"{"scores": {"correct": 8, "safe": 4}}"#, "the object has no `reasons`"; "no reasons")]
#[test_case(r#"{"scores": {"correct": 8, "safe": 4}, "reasons": {"correct": ""}}"#, "there is no reason for `safe`"; "a reason missing")]
#[test_case(r#"{"scores": [8, 4], "reasons": {}}"#, "`scores` is no object"; "a list of scores")]
fn what_cannot_be_believed_is_no_answer(text: &str, why: &str) {
    let error = parse(text, &rubric()).expect_err("no answer");
    assert!(error.starts_with(why), "{error}");
}
