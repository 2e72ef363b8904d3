//! The beginning and the end of texts that are too long to be kept.

use std::borrow::Cow;

/// The longest text that is kept whole, in bytes.
pub const LONGEST: usize = 16 * 1024;

/// How much of a longer one is kept of its beginning; the rest is of its end, where programs say how they went.
const BEGINNING: usize = 12 * 1024;

/// Room for the words in the middle: what was cut once is not cut again.
const NOTICE: usize = 64;

/// Cuts a text to about [`LONGEST`] bytes; between its beginning and its end it says how much is left out.
#[must_use]
pub fn of(text: &str) -> Cow<'_, str> {
    if text.len() <= LONGEST + NOTICE {
        return Cow::Borrowed(text);
    }
    let mut first = BEGINNING;
    while !text.is_char_boundary(first) {
        first -= 1;
    }
    let mut last = text.len() - (LONGEST - BEGINNING);
    while !text.is_char_boundary(last) {
        last += 1;
    }
    Cow::Owned(format!("{}\n[refrain: {} bytes left out]\n{}", &text[..first], last - first, &text[last..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end_and_says_what_is_missing() {
        assert_eq!(of("short"), "short");
        let text = format!("first {} last", "ä".repeat(50_000));
        let cut = of(&text);
        assert_eq!(of(&cut), cut, "once is enough");
        assert!(cut.starts_with("first ä") && cut.ends_with("ä last") && cut.len() < LONGEST + 64);
        let left_out: usize =
            cut.split("[refrain: ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
        assert_eq!(
            cut.len() - "\n[refrain:  bytes left out]\n".len() - left_out.to_string().len() + left_out,
            text.len()
        );
    }
}
