//! Reads durations that people write.

use std::time::Duration;

/// Units, the larger first, and their length in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// The longest duration that is accepted, in milliseconds: 100 years.
const LONGEST: f64 = 100.0 * 365.25 * 86_400_000.0;

/// Reads a duration such as `1h30m`.
///
/// # Errors
///
/// A message that names the part at fault.
pub fn parse(text: &str) -> Result<Duration, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("empty duration".to_owned());
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(format!("`{rest}` has no unit"))?;
        let (number, tail) = rest.split_at(end);
        let number: f64 = number.parse().map_err(|_| format!("`{rest}` does not start with a number"))?;
        let (_, scale) = UNITS
            .iter()
            .find(|(name, _)| tail.starts_with(name))
            .ok_or(format!("`{tail}` is no unit"))?;
        total += number * *scale as f64;
        rest = &tail[1..];
    }
    if total > LONGEST {
        return Err(format!("`{text}` is too long"));
    }
    Ok(Duration::from_millis(total.round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_single_units() {
        assert_eq!(parse("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2d"), Ok(Duration::from_secs(172_800)));
    }

    #[test]
    fn reads_milliseconds() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn refuses_a_unit_twice() {
        assert!(parse("1h1h").is_err());
    }
}
