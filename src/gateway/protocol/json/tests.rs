use proptest::prelude::*;
use test_case::test_case;

use super::*;

/// Writes down what it hears.
#[derive(Debug, Default, PartialEq)]
struct Heard(Vec<String>);

impl Visit for Heard {
    fn begins(&mut self, path: &[Key], kind: Kind, at: u64) -> bool {
        self.0.push(format!("{path:?} {kind:?} {at}"));
        true
    }

    fn scalar(&mut self, path: &[Key], value: Scalar<'_>, end: u64) {
        self.0.push(format!("{path:?} {value:?} {end}"));
    }

    fn closes(&mut self, path: &[Key], kind: Kind, at: u64) {
        self.0.push(format!("{path:?} ends {kind:?} {at}"));
    }
}

fn scanned(text: &[u8], step: usize) -> (bool, bool, Heard) {
    let (mut scanner, mut heard) = (Scanner::new(), Heard::default());
    for piece in text.chunks(step) {
        scanner.feed(piece, &mut heard);
    }
    (scanner.is_complete(), scanner.is_broken(), heard)
}

#[test]
fn values_with_their_paths_and_places() {
    let (complete, _, heard) = scanned(br#"{"model": [1, null], "x":{"usage":"a\u00e9"}}"#, 5);
    assert!(complete);
    assert_eq!(
        heard.0,
        [
            "[] Object 0",
            "[Model] Array 10",
            "[Model, Item] Number 11",
            "[Model, Item] Number(\"1\") 12",
            "[Model, Item] Word 14",
            "[Model, Item] Null 18",
            "[Model] ends Array 18",
            "[Other] Object 25",
            "[Other, Usage] String 34",
            "[Other, Usage] String(\"aé\") 43",
            "[Other] ends Object 43",
            "[] ends Object 44",
        ]
    );
}

#[test_case("{]"; "wrong end")]
#[test_case("{\"a\" 1}"; "no colon")]
#[test_case("{\"a\":1,}"; "comma before the end")]
#[test_case("[1,]"; "comma before the end of an array")]
#[test_case("[1 2]"; "no comma")]
#[test_case("{1:2}"; "number as a key")]
#[test_case("[nul]"; "half a word")]
#[test_case("[\"\\x\"]"; "unknown escape")]
#[test_case("[\"\\u12g4\"]"; "wrong digit")]
#[test_case("{} x"; "something after it")]
#[test_case("}"; "an end only")]
fn what_is_no_json_is_broken(text: &str) {
    let (complete, broken, _) = scanned(text.as_bytes(), 3);
    assert!(broken && !complete);
    assert!(serde_json::from_str::<serde_json::Value>(text).is_err());
}

#[test]
fn a_long_text_is_cut_between_characters() {
    let text = format!("\"{}\"", "é".repeat(2000));
    let (complete, _, heard) = scanned(text.as_bytes(), 999);
    assert!(complete);
    assert!(heard.0[1].contains(&"é".repeat(1024)) && !heard.0[1].contains('\u{FFFD}'));
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    scalar.prop_recursive(6, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
            prop::collection::vec((any::<String>(), inner), 0..5)
                .prop_map(|pairs| serde_json::Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn cuts_are_no_part_of_it(value in json(), pretty: bool, step in 1..40usize) {
        let text = if pretty { serde_json::to_vec_pretty(&value) } else { serde_json::to_vec(&value) }.expect("is JSON");
        let whole = scanned(&text, text.len());
        prop_assert!(!whole.1 && (whole.0 || !(value.is_object() || value.is_array())) || value.is_string());
        prop_assert_eq!(scanned(&text, step), whole);
    }

    #[test]
    fn strings_are_read_as_they_are_meant(text: String) {
        let written = serde_json::to_string(&[&text]).expect("is JSON");
        let (_, _, heard) = scanned(written.as_bytes(), 3);
        let expected = format!("[Item] {:?} {}", Scalar::String(&text), written.len() - 1);
        if text.len() <= 1024 {
            prop_assert_eq!(&heard.0[2], &expected);
        }
    }

    #[test]
    fn any_bytes_are_read(text in prop::collection::vec(any::<u8>(), 0..200), step in 1..40usize) {
        prop_assert_eq!(scanned(&text, step), scanned(&text, 200));
    }
}
