//! What an unquoted YAML scalar means, and where readers of different age disagree about it.

use super::document::Value;

/// Resolves a plain scalar by the core schema of YAML 1.2.
pub(crate) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        _ => {}
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return whole(digits, 8, text);
    }
    if let Some(digits) = text.strip_prefix("0x") {
        return whole(digits, 16, text);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse::<i64>().map_or_else(|_| float(text), Value::Int);
    }
    if is_float(unsigned) { float(text) } else { Value::Text(text.to_owned()) }
}

fn whole(digits: &str, radix: u32, text: &str) -> Value {
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return Value::Text(text.to_owned());
    }
    i64::from_str_radix(digits, radix).map_or_else(|_| Value::Text(text.to_owned()), Value::Int)
}

fn float(text: &str) -> Value {
    text.parse::<f64>().map_or_else(|_| Value::Text(text.to_owned()), Value::Float)
}

/// `(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa_ok = match mantissa.split_once('.') {
        Some((before, after)) => digits(before) && digits(after) && !(before.is_empty() && after.is_empty()),
        None => !mantissa.is_empty() && digits(mantissa),
    };
    let exponent_ok = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    mantissa_ok && exponent_ok
}

/// Says what other readers take an unquoted text for, where they do not take it for text.
pub(crate) fn misread(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "yes" | "no" | "on" | "off" | "y" | "n" => return Some("a boolean"),
        _ => {}
    }
    let bytes = text.as_bytes();
    let date = bytes.len() >= 10
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5..7].iter().all(u8::is_ascii_digit)
        && bytes[7] == b'-'
        && bytes[8..10].iter().all(u8::is_ascii_digit)
        && bytes.get(10).is_none_or(|byte| matches!(byte, b'T' | b't' | b' '));
    if date {
        return Some("a date");
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let starts_with_digit = unsigned.starts_with(|c: char| c.is_ascii_digit());
    let groups = |separator: char| {
        unsigned.contains(separator)
            && unsigned.split(separator).all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    (starts_with_digit && (groups(':') || groups('_'))).then_some("a number")
}

/// Tells whether a number is written so that readers disagree about its value (`010` is 10 or 8).
pub(crate) fn ambiguous_number(raw: &str) -> bool {
    let unsigned = raw.strip_prefix(['+', '-']).unwrap_or(raw);
    let mut bytes = unsigned.bytes();
    bytes.next() == Some(b'0')
        && bytes.next().is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'o' | b'x' | b'b'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("007", Value::Int(7))]
    #[test_case("1e3", Value::Float(1000.0))]
    #[test_case("1.10", Value::Float(1.1))]
    #[test_case("0o17", Value::Int(15))]
    #[test_case("0x1F", Value::Int(31))]
    #[test_case("~", Value::Null)]
    #[test_case("no", Value::Text("no".into()))]
    #[test_case("1_000", Value::Text("1_000".into()))]
    #[test_case("v1.2.3", Value::Text("v1.2.3".into()))]
    #[test_case("1.2.3", Value::Text("1.2.3".into()))]
    #[test_case("-", Value::Text("-".into()))]
    #[test_case(".", Value::Text(".".into()))]
    #[test_case("e5", Value::Text("e5".into()))]
    #[test_case("99999999999999999999", Value::Float(1e20))]
    #[test_case("-.inf", Value::Float(f64::NEG_INFINITY))]
    fn resolves(text: &str, expected: Value) {
        assert_eq!(resolve(text), expected);
    }

    #[test_case("no", Some("a boolean"))]
    #[test_case("On", Some("a boolean"))]
    #[test_case("2024-01-01", Some("a date"))]
    #[test_case("2024-01-01T10:00:00Z", Some("a date"))]
    #[test_case("12:30:45", Some("a number"))]
    #[test_case("1_000", Some("a number"))]
    #[test_case("2024-01-01-fix", None; "date with more")]
    #[test_case("nothing", None)]
    #[test_case("1.2.3", None)]
    fn misreadings(text: &str, expected: Option<&str>) {
        assert_eq!(misread(text), expected);
    }

    #[test_case("010", true)]
    #[test_case("0o17", true)]
    #[test_case("0", false)]
    #[test_case("0.5", false)]
    fn ambiguity(raw: &str, expected: bool) {
        assert_eq!(ambiguous_number(raw), expected);
    }
}
