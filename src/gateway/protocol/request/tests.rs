use proptest::prelude::*;
use test_case::test_case;

use super::*;

fn asked(api: Api, body: &[u8]) -> Asked {
    let mut reader = RequestReader::new(api);
    reader.feed(body);
    reader.finish()
}

/// The body as the provider gets it.
fn spliced(body: &str) -> String {
    let Some(splice) = asked(Api::OpenAiChat, body.as_bytes()).usage_splice else { return body.to_owned() };
    let whole = Bytes::copy_from_slice(body.as_bytes());
    let changed = splice.pieces(whole).concat();
    assert_eq!(splice.length(body.len() as u64), changed.len() as u64);
    String::from_utf8(changed).expect("is text")
}

#[test_case(r#"{"model":"m","stream":true}"#, r#"{"model":"m","stream":true,"stream_options":{"include_usage":true}}"#; "none")]
#[test_case("{ \"stream\" : true }\n", "{ \"stream\" : true ,\"stream_options\":{\"include_usage\":true}}\n"; "white space")]
#[test_case(r#"{"stream":true,"stream_options":{}}"#, r#"{"stream":true,"stream_options":{"include_usage":true}}"#; "empty options")]
#[test_case(r#"{"stream_options":{"x":[{}]},"stream":true}"#, r#"{"stream_options":{"include_usage":true,"x":[{}]},"stream":true}"#; "other options")]
#[test_case(r#"{"stream":true,"stream_options":null}"#, r#"{"stream":true,"stream_options":{"include_usage":true}}"#; "null options")]
#[test_case(r#"{"stream":true,"stream_options":{"include_usage": false }}"#, r#"{"stream":true,"stream_options":{"include_usage": true }}"#; "declined")]
#[test_case(r#"{"stream":true,"stream_options":{"include_usage":null}}"#, r#"{"stream":true,"stream_options":{"include_usage":true}}"#; "declined by null")]
#[test_case(r#"{"stream":true,"stream_options":{"include\u005fusage":false}}"#, r#"{"stream":true,"stream_options":{"include\u005fusage":true}}"#; "escape in a key")]
#[test_case(r#"{"stream":false,"str\u0065am":true,"stream_options":{"include_usage":true},"stream_options":{"a":1}}"#, r#"{"stream":false,"str\u0065am":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true,"a":1}}"#; "the last of two counts")]
#[test_case(r#"{"messages":[{"stream_options":{"include_usage":true}}],"x":{"stream_options":null},"stream":true}"#, r#"{"messages":[{"stream_options":{"include_usage":true}}],"x":{"stream_options":null},"stream":true,"stream_options":{"include_usage":true}}"#; "the same names further in")]
#[test_case(r#"{"stream":true,"stream_options":{"nested":{"include_usage":true}}}"#, r#"{"stream":true,"stream_options":{"include_usage":true,"nested":{"include_usage":true}}}"#; "not that option")]
fn usage_is_asked_for(body: &str, expected: &str) {
    assert_eq!(spliced(body), expected);
    let parsed: serde_json::Value = serde_json::from_str(&spliced(body)).expect("is JSON still");
    assert_eq!(parsed["stream_options"]["include_usage"], true);
}

#[test_case(r#"{"stream":true,"stream_options":{"include_usage":true}}"#; "asked already")]
#[test_case(r#"{"stream":false}"#; "no stream")]
#[test_case(r#"{"model":"m"}"#; "no word of a stream")]
#[test_case(r#"{"stream":"true"}"#; "a string")]
#[test_case(r#"{"stream":true,"stream_options":[]}"#; "a wrong kind of options")]
#[test_case(r#"{"stream":true,"stream_options":{"include_usage":"yes"}}"#; "a wrong kind of wish")]
#[test_case(r#"{"stream":true,"stream_options":{"include_usage":{}}}"#; "a wish with parts")]
#[test_case(r#"{"stream":true"#; "cut")]
#[test_case(r#"{"stream":true}}"#; "too much")]
#[test_case(r#"[{"stream":true}]"#; "an array")]
#[test_case("stream=true"; "no JSON")]
#[test_case(""; "nothing")]
fn a_body_stays_as_it_is(body: &str) {
    assert_eq!(spliced(body), body);
}

#[test]
fn the_model_is_the_one_at_the_top() {
    let body = br#"{"metadata":{"model":"no"},"model":"an\u0074hropic/\ud83d\ude00\\","stream":true,"messages":[{"model":"no"}]}"#;
    let asked = asked(Api::AnthropicMessages, body);
    assert_eq!(asked.model.as_deref(), Some("anthropic/😀\\"));
    assert!(asked.stream);
    assert_eq!(asked.usage_splice, None);
    assert_eq!(asked.fingerprint, blake3::hash(body).to_hex().to_string());
}

#[test]
fn gemini_says_in_its_path_whether_it_streams() {
    assert!(asked(Api::GeminiStream, b"{}").stream);
    assert!(!asked(Api::GeminiGenerate, br#"{"stream":true}"#).stream);
}

#[test]
fn nesting_that_no_server_takes_is_not_followed() {
    let body = format!(r#"{{"stream":true,"x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(asked(Api::OpenAiChat, body.as_bytes()).usage_splice, None);
}

fn key() -> impl Strategy<Value = String> + Clone {
    prop_oneof!["stream", "stream_options", "include_usage", "model", ".{0,4}"]
}

fn object() -> impl Strategy<Value = serde_json::Value> {
    let pairs = prop::collection::vec((key(), json()), 0..5);
    pairs.prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect()))
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        ".*".prop_map(Into::into),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((key(), inner), 0..5)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_asked_does_not_depend_on_cuts(value in json(), pretty: bool, cuts in prop::collection::vec(1..20usize, 0..40)) {
        let body = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.expect("is JSON");
        let whole = asked(Api::OpenAiChat, &body);
        let mut reader = RequestReader::new(Api::OpenAiChat);
        let mut rest = body.as_slice();
        for cut in cuts {
            let (piece, after) = rest.split_at(cut.min(rest.len()));
            reader.feed(piece);
            rest = after;
        }
        reader.feed(rest);
        prop_assert_eq!(reader.finish(), whole);
    }

    #[test]
    fn a_splice_changes_nothing_else(mut value in object()) {
        value["stream"] = true.into();
        let body = value.to_string();
        let changed: serde_json::Value = serde_json::from_str(&spliced(&body)).expect("is JSON");
        let asks = |value: &serde_json::Value| value["stream_options"]["include_usage"] == true;
        let mut expected = value.clone();
        if value.get("stream_options").is_none_or(serde_json::Value::is_null) {
            expected["stream_options"] = serde_json::json!({"include_usage": true});
        } else if value["stream_options"].is_object()
            && matches!(value["stream_options"]["include_usage"], serde_json::Value::Null | serde_json::Value::Bool(_))
        {
            expected["stream_options"]["include_usage"] = true.into();
        } else {
            prop_assert!(!asks(&changed));
        }
        prop_assert_eq!(changed, expected);
    }

    #[test]
    fn any_bytes_are_read(body in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(asked(Api::OpenAiChat, &body).fingerprint, blake3::hash(&body).to_hex().to_string());
    }
}
