//! The forms in which one secret value may appear in output.

use std::collections::BTreeSet;

use data_encoding::{BASE64_NOPAD, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};

use super::MIN_SECRET_BYTES;

/// The shortest line of a value of several lines that is searched for by itself (a diff puts a sign before each line).
const MIN_LINE_BYTES: usize = 16;

/// Returns every form of a value that is searched for, without repeats.
pub(super) fn of(value: &str) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::new();
    add_text_forms(value, &mut forms);
    if value.contains('\n') {
        for line in value.lines().map(str::trim) {
            // The first and last line of a key block are the same in every key.
            if line.len() >= MIN_LINE_BYTES && !line.starts_with("-----") {
                add_text_forms(line, &mut forms);
            }
        }
    }
    let bytes = value.as_bytes();
    forms.insert(HEXLOWER.encode(bytes).into_bytes());
    forms.insert(HEXUPPER.encode(bytes).into_bytes());
    for shift in 0..3 {
        forms.insert(base64_core(bytes, shift, &BASE64_NOPAD));
        forms.insert(base64_core(bytes, shift, &BASE64URL_NOPAD));
    }
    forms.retain(|form| form.len() >= MIN_SECRET_BYTES);
    forms
}

/// Adds the forms that keep most characters as they are: raw, JSON-escaped (once and twice), percent-encoded.
fn add_text_forms(text: &str, forms: &mut BTreeSet<Vec<u8>>) {
    let strict = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    let component = |b: u8| strict(b) || b"!'()*".contains(&b);
    forms.insert(text.as_bytes().to_vec());
    for escaped in [json_escaped(text), json_ascii(text), json_escaped(text).replace('/', "\\/")] {
        forms.insert(json_escaped(&escaped).into_bytes());
        forms.insert(escaped.into_bytes());
    }
    for keep in [&strict as &dyn Fn(u8) -> bool, &component] {
        let encoded = percent(text, keep);
        forms.insert(lower_escapes(&encoded));
        forms.insert(encoded.replace("%20", "+").into_bytes());
        forms.insert(encoded.into_bytes());
    }
}

/// The text as it stands between the quotes of a JSON string.
fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// The same from writers that escape everything beyond ASCII.
fn json_ascii(text: &str) -> String {
    let mut out = String::new();
    let mut units = [0u16; 2];
    for c in json_escaped(text).chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

fn percent(text: &str, keep: &dyn Fn(u8) -> bool) -> String {
    text.bytes().map(|b| if keep(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Lowers the digits of every `%XX` and nothing else.
fn lower_escapes(encoded: &str) -> Vec<u8> {
    let mut bytes = encoded.as_bytes().to_vec();
    for at in 0..bytes.len() {
        if bytes[at] == b'%' {
            let end = bytes.len().min(at + 3);
            bytes[at..end].make_ascii_lowercase();
        }
    }
    bytes
}

/// The base64 characters that `bytes` alone decide when `shift` other bytes stand before them in a group of three.
///
/// The characters at both ends that also hold bits of the neighbours are left off, so the form matches in any text.
fn base64_core(bytes: &[u8], shift: usize, encoding: &data_encoding::Encoding) -> Vec<u8> {
    let mut padded = vec![0; shift];
    padded.extend_from_slice(bytes);
    let encoded = encoding.encode(&padded);
    let first = (shift * 8).div_ceil(6);
    let end = padded.len() * 8 / 6;
    encoded.as_bytes()[first..end].to_vec()
}
