use test_case::test_case;

use super::*;

fn normal(body: &str) -> Value {
    let body = body.to_owned().into_bytes().into();
    let asked = RecordedRequest { api: "openai_chat".into(), path: "/v1".into(), fingerprint: String::new(), body };
    request(&asked, &Redactor::new([("KEY", "a-very-secret-value")]), &Places::default())
}

#[test_case("Today's date: 2026-11-30.", "Today's date: <date>."; "date")]
#[test_case("at 2026-11-30T00:30:24.123Z and 2026-11-30 00:30", "at <date> and <date>"; "moments")]
#[test_case("It is Monday, November 30, 2026 (US).", "It is <date> (US)."; "spelled date")]
#[test_case("Mon Nov 30 00:30:24 UTC 2026\n", "<date>\n"; "as a shell says it")]
#[test_case("-rw-r--r-- 1 me me 12 Nov 30 00:30 a.txt", "-rw-r--r-- 1 me me 12 <date> a.txt"; "as ls says it")]
#[test_case("took 12:30:01, not 3:4", "took <time>, not 3:4"; "times")]
#[test_case("id 7f9c24e8-3b1a-4e5d-9f00-0123456789ab!", "id <uuid>!"; "uuid")]
#[test_case("commit 4d9e6aaee56e11d0 at 1764460800123", "commit <id> at <number>"; "ids")]
#[test_case("16a8fbf fix; msg_0ffa60dd-d1f2-5f3f-a830-68cd058b11d1", "<id> fix; msg_<uuid>"; "short ids")]
#[test_case("Chunk ID: 123456\nPGID: 24729, pid 7; stupid 7", "<id>\n<id>, <id>; stupid 7"; "labelled ids")]
#[test_case("`/home/me/.claude/x`, /a/b.c/d, /.x, ./.y", "`<home>/.claude/x`, /a/b.c/d, /.x, ./.y"; "homes")]
#[test_case("0.0920 seconds, 1.5s, 12 ms, 5 seconds, 1.5 stars, 3s.", "<duration>, <duration>, <duration>, 5 seconds, 1.5 stars, 3s."; "durations")]
#[test_case("/tmp/xyz-12.a/src and /tmp", "<temporary>/src and /tmp"; "temporary")]
#[test_case("the facade was decaffeinated in March of 2026", "the facade was decaffeinated in March of 2026"; "words stay")]
#[test_case("add(2, 3) == 5; version 1.2.345; port 8080; 123456789", "add(2, 3) == 5; version 1.2.345; port 8080; 123456789"; "numbers stay")]
#[test_case("may 5 agents; mon 12; é2026-11-30", "<date> agents; mon 12; é2026-11-30"; "at the edges")]
fn words_of_a_run(text: &str, expected: &str) {
    assert_eq!(words::quiet(text), expected);
}

#[test]
fn the_working_directory_is_hidden_wherever_it_occurs() {
    let one = |place: &str, name: &str| {
        let prompt = format!("<env>\nWorking directory: {place}\n</env> Memory in ~/.x/{name}/m.");
        json!({"system": prompt, "messages": [{"content": format!("{place}/a.py, {place}2")}]}).to_string()
    };
    let (here, there) = (normal(&one("/home/me/w_1", "-home-me-w-1")), normal(&one("/srv/run.7", "-srv-run-7")));
    assert_eq!(here["messages"][0]["content"], "<directory>/a.py, /home/me/w_12");
    assert_eq!(here["system"], there["system"]);
}

#[test_case("<cwd>/a/b</cwd>", Some("/a/b"))]
#[test_case("Your current directory is `/a/b`.", Some("/a/b"))]
#[test_case("Primary working directory: /a/b.", Some("/a/b"))]
#[test_case("- **Workspace Directories:**\n  - /a/b\n", Some("/a/b"))]
#[test_case("the working directory and /a", None)]
#[test_case("cwd: /", None)]
fn directories_as_prompts_name_them(text: &str, path: Option<&str>) {
    let named = directory::named_in(&json!([1, {"x": text}]));
    assert_eq!(named.map(|place| place.hidden_in("/a/b")), path.map(|_| "<directory>".to_owned()));
}

#[test]
fn what_says_who_asks_is_left_out() {
    let value = normal(
        r#"{"model":"m","user":"u","metadata":{"user_id":"x"},"prompt_cache_key":"k","t":1764460800123,"n":4096,
            "input":[{"session_id":"s","metadata":"stays","text":"a-very-secret-value"}]}"#,
    );
    let expected =
        json!({"model": "m", "t": "<number>", "n": 4096, "input": [{"metadata": "stays", "text": "[redacted:KEY]"}]});
    assert_eq!(value, expected);
}

#[test]
fn a_body_that_is_no_json_is_a_text() {
    assert_eq!(normal("on 2026-11-30"), "on <date>");
}

#[test]
fn shapes() {
    let built = |text: &str, tool: &str| {
        shape(&json!({"model": "m", "messages": [
            {"role": "user", "content": text},
            {"role": "assistant", "content": [{"type": "tool_use", "name": tool, "input": {"a": text}}]},
        ]}))
    };
    assert_eq!(built("a", "bash"), built("b", "bash"));
    assert_ne!(built("a", "bash"), built("a", "edit"));
    let gemini = |part: Value| shape(&json!({"contents": [{"role": "model", "parts": [part]}]}));
    let call =
        |name: &str, argument: u32| json!({"functionCall": {"name": name, "args": argument}, "thoughtSignature": "x"});
    assert_eq!(gemini(call("a", 1)), gemini(call("a", 2)));
    assert_ne!(gemini(call("a", 1)), gemini(call("b", 1)));
    assert_ne!(gemini(call("a", 1)), gemini(json!({"text": "a"})));
}
