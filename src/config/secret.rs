//! Values that look like keys: they are refused in files, and never shown.

/// Beginnings of keys that providers give out.
const PREFIXES: &[&str] = &[
    "sk-",
    "sk_live_",
    "sk_test_",
    "rk_live_",
    "pk_live_",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "ASIA",
    "AIza",
    "hf_",
    "gsk_",
    "xai-",
    "eyJ",
    "ya29.",
    "npm_",
    "pypi-",
];

/// Parts of names whose values are secret.
const SECRET_NAMES: &[&str] =
    &["api_key", "apikey", "api-key", "access_token", "auth_token", "secret", "password", "passwd"];

/// Tells whether a text has the shape of a key.
pub(crate) fn looks_like_key(text: &str) -> bool {
    let text = text.trim();
    let text = text.strip_prefix("Bearer ").unwrap_or(text);
    if text.starts_with("-----BEGIN ") {
        return true;
    }
    let Some(prefix) = PREFIXES.iter().find(|prefix| text.starts_with(**prefix)) else { return false };
    let rest = &text[prefix.len()..];
    // Names such as `sk-learn-fixes` begin like keys; keys are longer and hold digits.
    rest.len() >= 14 && rest.bytes().all(is_key_byte) && rest.bytes().any(|byte| byte.is_ascii_digit())
}

/// Tells whether a name announces a secret value (`api_key`, `db_password`), as opposed to the name of a variable.
pub(crate) fn names_a_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let refers = ["_env", "_file", "_path", "_var", "_name"].iter().any(|end| name.ends_with(end));
    !refers && SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Replaces whatever may be a key by `*`, byte for byte, so that positions stay: key shapes, and the values of names
/// that announce a secret.
pub(crate) fn mask(text: &str) -> String {
    mask_shapes(text).split_inclusive('\n').map(mask_named).collect()
}

/// Replaces what has the shape of a key by `*`.
pub(crate) fn mask_shapes(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii() && is_key_byte(c as u8)).len();
        let take = if word > 0 { word } else { c.len_utf8() };
        let (piece, after) = rest.split_at(take);
        if looks_like_key(piece) {
            masked.extend(std::iter::repeat_n('*', take));
        } else {
            masked.push_str(piece);
        }
        rest = after;
    }
    masked
}

/// Masks the values of secret names in one line: up to its end, or to the next entry of a `{…}`.
fn mask_named(line: &str) -> String {
    let mut masked = line.to_owned();
    for (at, _) in line.match_indices([':', '=']) {
        let before = line[..at].trim_end().trim_end_matches(['"', '\'']);
        let start = before
            .rfind(|c: char| !is_name_char(c))
            .map_or(0, |end| end + before[end..].chars().next().map_or(0, char::len_utf8));
        if !names_a_secret(&before[start..]) {
            continue;
        }
        let flow = line[..at].contains('{');
        let value = &line[at + 1..];
        let end = value.find(|c| c == '\n' || (flow && matches!(c, ',' | '}'))).unwrap_or(value.len());
        masked.replace_range(at + 1..at + 1 + end, &stars(&value[..end]));
    }
    masked
}

/// Hides a text; blanks and the number of bytes stay.
fn stars(text: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() {
            hidden.push(c);
        } else {
            hidden.extend(std::iter::repeat_n('*', c.len_utf8()));
        }
    }
    hidden
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// Returns a value as messages show it: masked, on one line, at most 40 characters.
pub(crate) fn shown(text: &str) -> String {
    let masked = mask(text);
    let line: String = masked.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.chars().count() <= 40 {
        return line;
    }
    let cut: String = line.chars().take(37).collect();
    format!("{cut}...")
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'+' | b'/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("sk-ant-api03-abcdefgh", true; "provider key")]
    #[test_case("AKIAIOSFODNN7EXAMPLE", true; "cloud key")]
    #[test_case("Bearer sk-abcdefghijkl1234", true; "bearer")]
    #[test_case("OPENAI_API_KEY", false; "name of a variable")]
    #[test_case("sk-short", false; "too short")]
    #[test_case("sk-learn-estimators", false; "name that begins like one")]
    #[test_case("skeleton", false; "word")]
    fn shapes(text: &str, expected: bool) {
        assert_eq!(looks_like_key(text), expected);
    }

    #[test_case("api_key", true)]
    #[test_case("DB_PASSWORD", true)]
    #[test_case("api_key_env", false)]
    #[test_case("max_tokens", false)]
    fn names(name: &str, expected: bool) {
        assert_eq!(names_a_secret(name), expected);
    }

    #[test_case("a: sk-live-0123456789ab # x", "a: ******************** # x"; "shape")]
    #[test_case("password: \"hünter 2\"", "password: ******** **"; "name")]
    #[test_case("- {a: 1, api_key: hunter2, b: 2}", "- {a: 1, api_key: *******, b: 2}"; "name in braces")]
    #[test_case("api_key_env: NAME", "api_key_env: NAME"; "name of a variable")]
    #[test_case("x: \"api_key\": 'é, y'", "x: \"api_key\": **** **"; "quoted name")]
    fn masks_in_place(text: &str, expected: &str) {
        assert_eq!(mask(text), expected);
        assert_eq!(mask(&format!("{text}\nb: 1\n")), format!("{expected}\nb: 1\n"));
        assert_eq!(mask(text).len(), text.len());
    }
}
