//! What must disappear, what must stay, and that no way of cutting a stream lets a secret through.

use data_encoding::{BASE64, BASE64URL, HEXLOWER};
use proptest::prelude::*;
use serde_json::json;
use test_case::test_case;

use super::*;

const KEY: &str = "sk-live/4f+9\"Z=q8~Kd?&x";

fn redactor() -> Redactor {
    Redactor::new([("API_KEY", KEY), ("OTHER", "hunter2-hunter2"), ("PEM", "line one of key 1\nline two of key 22\n")])
}

fn in_pieces(redactor: &Redactor, bytes: &[u8], sizes: impl IntoIterator<Item = usize>) -> Vec<u8> {
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    let mut rest = bytes;
    for size in sizes {
        let (piece, later) = rest.split_at(size.min(rest.len()));
        out.extend(stream.push(piece));
        rest = later;
    }
    out.extend(stream.push(rest));
    out.extend(stream.finish());
    out
}

#[test]
fn a_value_is_replaced_by_its_name() {
    let text = redactor().redact(&format!("key={KEY}; pw=hunter2-hunter2."));
    assert_eq!(text.as_str(), "key=[redacted:API_KEY]; pw=[redacted:OTHER].");
}

#[test]
fn every_encoded_form_is_found() {
    let redactor = redactor();
    let json = serde_json::to_string(KEY).expect("a string");
    let twice = serde_json::to_string(&json).expect("a string");
    let mut forms = vec![
        json.trim_matches('"').to_owned(),
        twice,
        HEXLOWER.encode(KEY.as_bytes()),
        HEXLOWER.encode(KEY.as_bytes()).to_uppercase(),
        "sk-live%2F4f%2B9%22Z%3Dq8~Kd%3F%26x".to_owned(),
        "sk-live%2f4f%2b9%22Z%3dq8~Kd%3f%26x".to_owned(),
    ];
    for before in ["", "u", "us"] {
        for after in ["", "\n", "@host"] {
            forms.push(BASE64.encode(format!("{before}{KEY}{after}").as_bytes()));
            forms.push(BASE64URL.encode(format!("{before}{KEY}{after}").as_bytes()));
        }
    }
    for form in forms {
        let text = redactor.redact(&format!("<{form}>"));
        assert!(text.as_str().contains("[redacted:API_KEY]"), "{form} gave {text}");
    }
}

#[test]
fn values_of_several_lines_are_found_whole_and_line_by_line() {
    let redactor = redactor();
    assert_eq!(redactor.redact("a line one of key 1\nline two of key 22 b").as_str(), "a [redacted:PEM] b");
    assert_eq!(
        redactor.redact("+line one of key 1\n+line two of key 22\n").as_str(),
        "+[redacted:PEM]\n+[redacted:PEM]\n"
    );
    assert_eq!(redactor.redact(r"line one of key 1\nline two of key 22").as_str(), "[redacted:PEM]");
}

#[test]
fn overlapping_values_leave_nothing_of_either() {
    let redactor = Redactor::new([("A", "abcdefgh"), ("B", "efghijkl"), ("C", "efghijklmnop")]);
    assert_eq!(redactor.redact("<abcdefghijkl>").as_str(), "<[redacted:A]>");
    assert_eq!(redactor.redact("<efghijklmnop>").as_str(), "<[redacted:C]>");
    assert_eq!(redactor.redact("abcdefghabcdefgh").as_str(), "[redacted:A][redacted:A]");
}

#[test_case("sk-proj-abcdEFGH1234ijklMNOP", "[redacted]"; "openai")]
#[test_case("key: sk-ant-api03-abcdefghijkl_mnop-9", "key: [redacted]"; "anthropic")]
#[test_case("ghp_0123456789abcdefghijABCDEFGHIJ012345,", "[redacted],"; "github classic")]
#[test_case("github_pat_11ABCDEFG0abcdefghij_KLMNOP", "[redacted]"; "github fine grained")]
#[test_case("AKIAIOSFODNN7EXAMPLE/x", "[redacted]/x"; "aws")]
#[test_case("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[redacted]"; "google")]
#[test_case("xoxb-1234567890-abcdef", "[redacted]"; "slack")]
#[test_case("Authorization: Bearer abc.DEF-123", "Authorization: Bearer [redacted]"; "bearer")]
#[test_case("authorization: bearer   0123456789abcdef", "authorization: bearer   [redacted]"; "bearer in small letters")]
#[test_case("t=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2lnbmF0dXJl.", "t=[redacted]."; "jwt")]
#[test_case(r"{\n  sk-abcdefghij0123456789\n", r"{\n  [redacted]\n"; "after spaces")]
#[test_case(r#""out\nsk-abcdefghij0123456789\n""#, r#""out\n[redacted]\n""#; "after an escaped line break")]
#[test_case("\x1b[31msk-abcdefghij0123456789\x1b[0m", "\x1b[31m[redacted]\x1b[0m"; "in colour")]
#[test_case("k%3Dsk-abcdefghij0123456789", "k%3D[redacted]"; "after a percent escape")]
fn shapes_are_replaced(text: &str, expected: &str) {
    assert_eq!(Redactor::default().redact(text).as_str(), expected);
}

#[test]
fn private_key_blocks_are_replaced_whole() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nabc=\n-----END RSA PRIVATE KEY-----";
    assert_eq!(Redactor::default().redact(&format!("a {key} b")).as_str(), "a [redacted] b");
    let escaped = key.replace('\n', "\\n");
    assert_eq!(Redactor::default().redact(&format!("\"{escaped}\"")).as_str(), "\"[redacted]\"");
    let diff = key.replace('\n', "\n+");
    assert_eq!(Redactor::default().redact(&format!("+{diff}\n")).as_str(), "+[redacted]\n");
    let cut = "-----BEGIN PRIVATE KEY-----\nMIIEow";
    assert_eq!(Redactor::default().redact(&format!("{cut}\"}}")).as_str(), "[redacted]\"}");
    let certificate = key.replace("RSA PRIVATE KEY", "CERTIFICATE");
    assert_eq!(Redactor::default().redact(&certificate).as_str(), certificate);
}

#[test_case("token_count=42")]
#[test_case("secretary=available")]
#[test_case("task-force-of-many-people-in-2024-and-more")]
#[test_case("sk-learn-contrib-packages-of-the-world")]
#[test_case("the Bearer Authentication scheme")]
#[test_case("bearer tokens; bearer of news")]
#[test_case("AKIA is a prefix, AIza another, eyJ a third")]
#[test_case("-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----")]
#[test_case("commit 4f1d2a9b3c5e6f708192a3b4c5d6e7f801234567")]
#[test_case("ghp_short sk-1 xoxb-1")]
fn harmless_text_stays(text: &str) {
    assert_eq!(redactor().redact(text).as_str(), text);
    assert_eq!(in_pieces(&redactor(), text.as_bytes(), vec![1; text.len()]), text.as_bytes());
}

#[test]
fn json_stays_json() {
    let mut value = json!({
        "command": format!("curl -H \"Authorization: Bearer sk-AAA\" \"http://x?k={KEY}\""),
        "nested": [{ (KEY): true }, 42],
        "count": 7,
    });
    redactor().redact_json(&mut value);
    let expected = json!({
        "command": "curl -H \"Authorization: Bearer [redacted]\" \"http://x?k=[redacted:API_KEY]\"",
        "nested": [{ "[redacted:API_KEY]": true }, 42],
        "count": 7,
    });
    assert_eq!(value, expected);
}

#[test]
fn a_number_that_is_a_secret_is_hidden() {
    let mut value = json!({ "pin": 123_456_789 });
    Redactor::new([("PIN", "123456789")]).redact_json(&mut value);
    assert_eq!(value, json!({ "pin": "[redacted:PIN]" }));
}

#[test]
fn short_values_are_named_in_a_warning_and_left_alone() {
    let redactor = Redactor::new([("PIN", "1234"), ("EMPTY", ""), ("GOOD\u{1b}[", "abcdef")]);
    assert_eq!(redactor.warnings().len(), 1);
    assert!(redactor.warnings()[0].contains("`PIN`") && !redactor.warnings()[0].contains("1234"));
    assert_eq!(redactor.redact("1234 abcdef").as_str(), "1234 [redacted:GOOD__]");
}

#[test]
fn debug_output_shows_no_value() {
    let redactor = redactor();
    let mut stream = redactor.stream();
    let _ = stream.push(b"hunter2-h");
    let shown = format!("{redactor:?} {stream:?}");
    assert!(!shown.contains("hunter2") && shown.contains("secrets: 3"), "{shown}");
}

#[test]
fn a_finished_line_is_not_held_back() {
    let mut stream = redactor().stream();
    assert_eq!(stream.push(b"running tests\n"), b"running tests\n");
    assert_eq!(stream.push(b"h"), b"");
    assert_eq!(stream.push(b"ello\n"), b"hello\n");
    assert_eq!(stream.finish(), b"");
}

#[test]
fn a_key_printed_byte_by_byte_is_hidden() {
    let text = format!("export K={KEY}\nexport P=hunter2-hunter2\n");
    let out = in_pieces(&redactor(), text.as_bytes(), vec![1; text.len()]);
    assert_eq!(out, b"export K=[redacted:API_KEY]\nexport P=[redacted:OTHER]\n");
}

#[test]
fn endless_shapes_and_values_take_bounded_memory() {
    let redactor = Redactor::new([("AS", "aaaaaaaa")]);
    for piece in [&b"k=sk-0123456789"[..], b"aaaaaaaaaaaaaaaaaaaaa", b"-----BEGIN PRIVATE KEY-----\nMIIE"] {
        let mut stream = redactor.stream();
        let mut out = stream.push(piece);
        for _ in 0..200 {
            out.extend(stream.push(&[b'a'; 8192]));
            assert!(stream.buffer.len() < 512 * 1024);
        }
        out.extend(stream.push(b"\"end\n"));
        out.extend(stream.finish());
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.len() < 2000 && text.ends_with("\"end\n") && !text.contains("aaaaaaaa"), "{text}");
    }
}

#[test]
fn hostile_repetition_ends_soon() {
    // Each of these made a naive search quadratic; as linear work they take milliseconds.
    for unit in ["sk-", "-eyJ", ".eyJ", "Bearer ", "AKIA", "-----BEGIN PRIVATE KEY-----", "eyJaaaaaaaaaa."] {
        let text = unit.repeat(100_000 / unit.len());
        let whole = redactor().redact_bytes(text.as_bytes());
        assert_eq!(in_pieces(&redactor(), text.as_bytes(), vec![4096; 80]), whole, "{unit}");
    }
}

#[test]
fn non_utf8_bytes_pass() {
    let mut bytes = vec![0xff, 0xe4, 0];
    bytes.extend_from_slice(KEY.as_bytes());
    bytes.push(0xfe);
    assert_eq!(redactor().redact_bytes(&bytes), b"\xff\xe4\x00[redacted:API_KEY]\xfe");
}

#[test]
fn values_beyond_ascii_are_found_in_escaped_json() {
    let redactor = Redactor::new([("PW", "pässwörd-😀")]);
    assert_eq!(redactor.redact("<pässwörd-😀>").as_str(), "<[redacted:PW]>");
    assert_eq!(redactor.redact(r"<p\u00e4ssw\u00f6rd-\ud83d\ude00>").as_str(), "<[redacted:PW]>");
    assert_eq!(redactor.redact("<p%C3%A4ssw%C3%B6rd-%F0%9F%98%80>").as_str(), "<[redacted:PW]>");
}

#[test]
fn serialized_redacted_text_is_a_plain_string() {
    let text = redactor().redact("x hunter2-hunter2");
    assert_eq!(serde_json::to_string(&text).expect("serializes"), "\"x [redacted:OTHER]\"");
    assert_eq!(Redacted::literal("ok").to_string(), "ok");
}

#[test_case("\x1b[2J\x1b[31mred\x1b[0m", "red"; "csi")]
#[test_case("a\x1b]52;c;ZXZpbA==\x07b", "ab"; "osc with bell")]
#[test_case("a\x1b]0;title\x1b\\b", "ab"; "osc with terminator")]
#[test_case("a\x1b]0;never ends\nnext", "a0;never ends\nnext"; "unterminated osc keeps what follows")]
#[test_case("a\x1bPq#0\x1b\\b\u{9d}x\u{9c}c\u{9b}6n", "abc"; "dcs and c1")]
#[test_case("\x1b[6n\x1b7\x1b(0x\x1b", "x"; "queries and charsets")]
#[test_case("a\u{202e}b\u{2066}c\u{200f}", "abc"; "bidi")]
#[test_case("tab\tline\r\nbell\x07\x7f", "tab\tline\nbell"; "controls")]
#[test_case("\x1b[31", "31"; "cut csi")]
#[test_case("grün 😀", "grün 😀"; "letters stay")]
fn terminals_get_only_printable_text(text: &str, expected: &str) {
    assert_eq!(printable(text), expected);
}

/// Pieces of text that collide with secrets, shapes and each other.
fn fragments() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "abcabcabd",
        "abcabc",
        "abc",
        "abd",
        "ab",
        " ",
        "\n",
        "sk-",
        "sk-ant-",
        "A1b2C3d4E5f6G7h8",
        "Bearer ",
        "eyJ",
        ".",
        "-----BEGIN ",
        "PRIVATE KEY",
        "-----",
        "-----END ",
        "ghp_",
        "YWJjYWJjYWJk",
        "\\n",
        "%61",
        "616263",
        "é",
        "AKIA",
        "x",
        "YWJj",
        "-",
        "\\",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn pieces_equal_the_whole(text in fragments(), sizes in prop::collection::vec(1usize..12, 0..300)) {
        let bytes = text.as_bytes();
        let redactor = Redactor::new([("A", "abcabcabd"), ("B", "bcabdsk-"), ("C", "abcabc\nab")]);
        let whole = redactor.redact(&text).into_string();
        prop_assert_eq!(String::from_utf8(in_pieces(&redactor, bytes, sizes)).expect("UTF-8"), whole);
    }

    #[test]
    fn no_secret_survives_any_cutting(
        secrets in prop::collection::vec("[a-c/+\"%é]{6,20}", 1..6),
        order in prop::collection::vec((0usize..6, "[a-c /\n]{0,6}"), 0..20),
        sizes in prop::collection::vec(1usize..9, 0..200),
    ) {
        let redactor = Redactor::new(secrets.iter().enumerate().map(|(i, s)| (format!("S{i}"), s.clone())));
        let mut text = String::new();
        for (index, between) in order {
            text.push_str(&secrets[index % secrets.len()]);
            text.push_str(&between);
        }
        let out = in_pieces(&redactor, text.as_bytes(), sizes);
        let out = String::from_utf8(out).expect("cut at character boundaries");
        // Markers are taken out so that text around them cannot join into what was never printed in one piece.
        for piece in out.split("[redacted:S").map(|part| part.split_once(']').map_or(part, |(_, rest)| rest)) {
            for secret in &secrets {
                prop_assert!(!piece.contains(secret.as_str()), "{} in {}", secret, out);
            }
        }
    }

    #[test]
    fn printable_text_holds_no_control(text in "\\PC{0,20}[\\x00-\\x1f\\x1b\\x9b\\[\\];a-z0-9]{0,40}") {
        prop_assert!(printable(&text).chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
    }
}

#[test]
fn an_error_shows_the_last_lines_without_escapes() {
    let output = (1..=20).map(|number| format!("line {number}\x1b[0m\n\n")).collect::<Vec<_>>().concat();
    let quoted = last_lines(&output, 12);
    assert!(quoted.starts_with("; its last lines:\n  line 9\n  line 10\n"), "{quoted}");
    assert!(quoted.ends_with("line 20"), "{quoted}");
    assert_eq!(last_lines("\n", 12), "; it printed nothing");
}

#[test]
fn what_is_learnt_holds_for_every_clone_and_for_streams_that_begin_then() {
    let redactor = Redactor::new([("KEY", "first-secret-value")]);
    let clone = redactor.clone();
    let mut begun = clone.stream();
    redactor.learn("LOGIN", " second-secret-value\n");
    redactor.learn("LOGIN", "short");
    redactor.learn("AGAIN", "first-secret-value");
    let text = "first-secret-value second-secret-value short";
    assert_eq!(clone.redact(text).as_str(), "[redacted:KEY] [redacted:LOGIN] short");
    let mut stream = clone.stream();
    let mut out = stream.push(text.as_bytes());
    out.extend(stream.finish());
    assert_eq!(out, b"[redacted:KEY] [redacted:LOGIN] short");
    let mut out = begun.push(text.as_bytes());
    out.extend(begun.finish());
    assert_eq!(out, b"[redacted:KEY] second-secret-value short");
}
