//! Money and durations as people write them.

use std::time::Duration;

use crate::domain::Micros;

use super::document::{Node, Value};

/// The longest duration that is accepted: a year.
const MAX_SECONDS: f64 = 366.0 * 86_400.0;

/// Reads an amount of dollars that is not negative.
pub(crate) fn money(node: &Node) -> Result<Micros, String> {
    let amount = match &node.value {
        Value::Text(text) => Micros::parse(text),
        _ => match node.number() {
            Some(number) => Micros::from_dollars(number),
            None => return Err(format!("takes dollars, not {}", node.kind())),
        },
    };
    match amount {
        Ok(amount) if amount < Micros::ZERO => Err("must not be negative".to_owned()),
        Ok(amount) => Ok(amount),
        Err(error) => Err(format!("takes dollars: {error}")),
    }
}

/// Reads a duration: a number of seconds, or numbers with units (`90s`, `30m`, `1h 30m`, `2d`).
pub(crate) fn duration(node: &Node) -> Result<Duration, String> {
    let seconds = match &node.value {
        Value::Text(text) => parse_duration(text),
        _ => node.number(),
    };
    let Some(seconds) = seconds else {
        return Err("takes seconds, or text such as `30m` or `1h 30m`".to_owned());
    };
    if !seconds.is_finite() {
        return Err("takes a finite number of seconds".to_owned());
    }
    if seconds <= 0.0 {
        return Err("must be longer than zero".to_owned());
    }
    if seconds > MAX_SECONDS {
        return Err("must not be longer than 366 days".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_duration(text: &str) -> Option<f64> {
    let mut rest = text.trim();
    if let Ok(seconds) = rest.parse::<f64>() {
        return Some(seconds);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = rest[digits..].trim_start();
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let factor = match &rest[..letters] {
            "ms" => 0.001,
            "s" | "sec" | "second" | "seconds" => 1.0,
            "m" | "min" | "minute" | "minutes" => 60.0,
            "h" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return None,
        };
        total += number * factor;
        rest = rest[letters..].trim_start();
    }
    (!text.trim().is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("30m", Some(1800.0))]
    #[test_case("1h 30m", Some(5400.0))]
    #[test_case("1h30m", Some(5400.0); "without a space")]
    #[test_case("90", Some(90.0); "bare")]
    #[test_case("1.5 s", Some(1.5); "fraction")]
    #[test_case("250ms", Some(0.25))]
    #[test_case("10 parsecs", None)]
    #[test_case("m", None)]
    #[test_case("", None; "empty")]
    fn durations(text: &str, expected: Option<f64>) {
        assert_eq!(parse_duration(text), expected);
    }
}
