//! Hidden tests of `duration_text::parse`.

use std::time::Duration;

use duration_text::parse;

fn millis(text: &str) -> Option<u128> {
    parse(text).ok().map(|duration: Duration| duration.as_millis())
}

#[test]
fn single_units() {
    for (text, expected) in [("2d", 172_800_000), ("3h", 10_800_000), ("90m", 5_400_000), ("7s", 7_000)] {
        assert_eq!(millis(text), Some(expected), "{text}");
    }
}

#[test]
fn milliseconds_alone() {
    assert_eq!(millis("500ms"), Some(500));
}

#[test]
fn milliseconds_after_seconds() {
    assert_eq!(millis("1s250ms"), Some(1_250));
}

#[test]
fn milliseconds_after_minutes() {
    assert_eq!(millis("1m5ms"), Some(60_005));
}

#[test]
fn combined_units() {
    assert_eq!(millis("1d2h3m4s"), Some(93_784_000));
}

#[test]
fn fractions() {
    assert_eq!(millis("1.5h"), Some(5_400_000));
}

#[test]
fn each_unit_once() {
    assert_eq!(millis("1h1h"), None);
    assert_eq!(millis("5ms5ms"), None);
}

#[test]
fn larger_units_first() {
    assert_eq!(millis("30m1h"), None);
    assert_eq!(millis("5ms1s"), None);
}

#[test]
fn errors() {
    for text in ["", "90", "h", "1x", "1h30", "1..5s", "-1s", "200y", "40000d", "5é"] {
        assert_eq!(millis(text), None, "{text}");
    }
}
