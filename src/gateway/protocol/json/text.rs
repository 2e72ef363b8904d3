//! The text of the key or the scalar at hand.

use std::borrow::Cow;

/// The most that is kept of it. Names of models and messages of errors are shorter.
const LONGEST: usize = 2048;

#[derive(Debug, Default)]
pub(super) struct Text {
    bytes: Vec<u8>,
    cut: bool,
    /// The code unit of the escape at hand.
    unit: u32,
    /// The first half of a pair of code units.
    high: Option<u32>,
}

impl Text {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.cut = false;
        self.high = None;
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.extend(&[byte]);
    }

    pub(super) fn extend(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        self.end_pair();
        let kept = bytes.len().min(LONGEST - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..kept]);
        self.cut |= kept < bytes.len();
    }

    pub(super) fn begin_unit(&mut self) {
        self.unit = 0;
    }

    pub(super) fn push_digit(&mut self, digit: u32) {
        self.unit = self.unit << 4 | digit;
    }

    pub(super) fn end_unit(&mut self) {
        let unit = self.unit;
        if let (Some(high), 0xDC00..=0xDFFF) = (self.high, unit) {
            self.high = None;
            self.push_char(0x1_0000 + ((high - 0xD800) << 10) + (unit - 0xDC00));
            return;
        }
        self.end_pair();
        if (0xD800..=0xDBFF).contains(&unit) {
            self.high = Some(unit);
        } else {
            self.push_char(unit);
        }
    }

    /// A first half that no second one follows is no character.
    fn end_pair(&mut self) {
        if self.high.take().is_some() {
            self.push_char(u32::MAX);
        }
    }

    fn push_char(&mut self, code: u32) {
        let mut buffer = [0; 4];
        let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.extend(character.encode_utf8(&mut buffer).as_bytes());
    }

    /// The text, if all of it is here.
    pub(super) fn whole(&self) -> Option<&[u8]> {
        (!self.cut && self.high.is_none()).then_some(&self.bytes)
    }

    /// The text as far as it is here.
    pub(super) fn lossy(&self) -> Cow<'_, str> {
        let bytes = if self.cut { trimmed(&self.bytes) } else { &self.bytes };
        String::from_utf8_lossy(bytes)
    }
}

/// Takes away a character that was cut in its middle.
fn trimmed(bytes: &[u8]) -> &[u8] {
    match str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}
