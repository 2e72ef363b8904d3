use serde_json::json;
use test_case::test_case;

use super::*;

/// Makes the event of a provider that tells a piece of text with this index.
type Tell<'t> = &'t dyn Fn(u32, &str) -> serde_json::Value;

fn places() -> Places {
    Places::new([
        ("directory", Path::new("/srv/run.1/work")),
        ("home", Path::new("/srv/run.1/home")),
        ("root", Path::new("/")),
    ])
}

fn elsewhere() -> Places {
    Places::new([("directory", Path::new("/w")), ("home", Path::new("/home/me/"))])
}

#[test_case("/srv/run.1/work", "<directory>"; "alone")]
#[test_case("cd /srv/run.1/work/src; ls '/srv/run.1/work'.", "cd <directory>/src; ls '<directory>'."; "in a sentence")]
#[test_case("/srv/run.1/work2 /srv/run.1/work-2 /srv/run.1/work.py", "/srv/run.1/work2 /srv/run.1/work-2 /srv/run.1/work.py"; "others")]
#[test_case("/mnt/srv/run.1/work", "/mnt/srv/run.1/work"; "below another")]
#[test_case("~/.x/-srv-run-1-work/m, /srv/run.1/home/.x", "~/.x/<directory-as-a-name>/m, <home>/.x"; "as a name")]
fn texts(text: &str, expected: &str) {
    assert_eq!(places().quiet(text), expected);
}

/// The events of a stream, each with such data.
fn stream(data: &[serde_json::Value]) -> Vec<Bytes> {
    data.iter().map(|data| Bytes::from(format!("event: x\ndata: {data}\n\n"))).collect()
}

fn text(pieces: &[Bytes]) -> String {
    String::from_utf8(pieces.concat()).expect("text")
}

#[test]
fn an_answer_that_is_played_elsewhere_names_the_folders_there() {
    let told = r#"{"text":"see\n/srv/run.1/work/a.py and /srv/run.1/home"}"#;
    let kept = places().hidden_in(vec![Bytes::from_static(told.as_bytes())]);
    assert_eq!(text(&kept), r#"{"text":"see\n{{refrain:directory}}/a.py and {{refrain:home}}"}"#);
    assert_eq!(text(&elsewhere().shown_in(kept.clone())), r#"{"text":"see\n/w/a.py and /home/me"}"#);
    assert_eq!(text(&places().shown_in(kept)), told);
    let plain = vec![Bytes::from_static(b"nothing "), Bytes::from_static(b"of it")];
    assert_eq!(places().hidden_in(plain.clone()), plain, "pieces stay as they came");
}

#[test]
fn a_path_in_pieces_is_brought_together_whichever_provider_tells_it() {
    let anthropic = |index: u32, text: &str| json!({"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}});
    let openai = |index: u32, text: &str| json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "function": {"arguments": text}}]}}]});
    let responses =
        |index: u32, text: &str| json!({"type": "response.output_text.delta", "output_index": index, "delta": text});
    let gemini = |_: u32, text: &str| json!({"candidates": [{"content": {"parts": [{"text": text}]}}]});
    let tellers: [Tell<'_>; 4] = [&anthropic, &openai, &responses, &gemini];
    for tell in tellers {
        let pieces = ["{\"path\":\"/srv", "/run.1/", "work/a\", \"/srv/run.1/wo", "rk\",\"", "/srv/run.1/workshop\"}"];
        let kept = places().hidden_in(stream(&pieces.map(|piece| tell(1, piece))));
        let expected = [
            "{\"path\":\"{{refrain:directory}}",
            "",
            "/a\", \"{{refrain:directory}}",
            "\",\"",
            "/srv/run.1/workshop\"}",
        ];
        assert_eq!(text(&kept), text(&stream(&expected.map(|piece| tell(1, piece)))));
        assert_eq!(kept.len(), 5, "an event in each piece");
        let shown = elsewhere().shown_in(kept);
        assert_eq!(shown[0], stream(&[tell(1, "{\"path\":\"/w")])[0]);
    }
}

#[test]
fn pieces_of_different_texts_are_not_put_together() {
    let tell = |index: u32, text: &str| json!({"type": "content_block_delta", "index": index, "delta": {"text": text}});
    let told = stream(&[tell(0, "/srv/run.1"), tell(1, "/work"), tell(0, "/home")]);
    let kept = places().hidden_in(told);
    assert_eq!(text(&kept), text(&stream(&[tell(0, "{{refrain:home}}"), tell(1, "/work"), tell(0, "")])));
}

#[test]
fn paths_that_json_cannot_hold_are_left_out() {
    let places =
        Places::new([("directory", Path::new("/a\"b")), ("home", Path::new("relative")), ("root", Path::new("/"))]);
    assert_eq!(places, Places::default());
}
