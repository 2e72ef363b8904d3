use std::io::Write;
use std::path::PathBuf;

use bytes::Bytes;
use test_case::test_case;

use super::*;
use crate::domain::{CellId, ExchangeEnd, RunName, Trace};

fn whose(session: u32) -> Attribution {
    Attribution {
        run: RunName::new("any").expect("a name"),
        cell: Some(CellId::build("h", "m", "t", 1, None, None)),
        attempt: 1,
        session,
        phase: None,
        role: None,
        trace: Trace::Agent,
    }
}

fn asks(text: &str) -> RecordedRequest {
    let body = serde_json::json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string();
    RecordedRequest {
        api: "anthropic_messages".to_owned(),
        path: "/v1/messages?beta=true".to_owned(),
        fingerprint: blake3::hash(body.as_bytes()).to_hex().to_string(),
        body: body.into(),
    }
}

fn says(pieces: &[&'static [u8]]) -> RecordedAnswer {
    RecordedAnswer {
        status: Some(200),
        headers: vec![("content-type".to_owned(), "text/event-stream".to_owned())],
        pieces: pieces.iter().map(|piece| Bytes::from_static(piece)).collect(),
        end: ExchangeEnd::Complete,
    }
}

fn redactor() -> Redactor {
    Redactor::new([("KEY", "a-very-secret-value")])
}

/// A folder and a tape in it with three exchanges of session 1 and one of session 2.
async fn recorded(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let tape = Cassette::record(&path, redactor()).expect("a tape");
    assert!(!tape.plays());
    for (session, number, text, answer) in [
        (1, 2, "title", says(&[b"t"])),
        (1, 1, "on 2026-11-30: a-very-secret-value", says(&[b"data: a\n\n", b"data: \xFF\n\n"])),
        (2, 1, "title", says(&[b"other"])),
        (1, 3, "title", says(&[b"a-very-", b"secret-value"])),
    ] {
        tape.keep((&whose(session), &Places::default()), number, &asks(text), answer).await.expect("is written");
    }
    (folder, path)
}

#[test_case("run.tape"; "plain")]
#[test_case("run.tape.gz"; "compressed")]
#[tokio::test]
async fn each_request_gets_its_answer_and_once(name: &str) {
    let (_folder, path) = recorded(name).await;
    let tape = Cassette::replay(&path, Matching::Exact, redactor()).expect("a tape");
    assert!(tape.plays());
    let answer =
        |session, text: &str| tape.answer(&whose(session), &Places::default(), &asks(text)).map(|answer| answer.pieces);
    assert_eq!(answer(1, "title"), Ok(says(&[b"t"]).pieces));
    assert_eq!(answer(1, "on 2027-01-02: a-very-secret-value"), Ok(says(&[b"data: a\n\n", b"data: \xFF\n\n"]).pieces));
    assert_eq!(answer(1, "title"), Ok(says(&[b"[redacted:KEY]"]).pieces));
    assert_eq!(answer(2, "title"), Ok(says(&[b"other"]).pieces));
    let parted = answer(1, "title").expect_err("no fourth");
    assert_eq!(
        parted.message,
        "the cassette has no further anthropic_messages request in this session, after 3 exchanges"
    );
}

#[tokio::test]
async fn no_secret_is_on_the_tape() {
    let (_folder, path) = recorded("run.tape").await;
    let text = std::fs::read_to_string(path).expect("is text");
    assert!(!text.contains("a-very-secret-value") && text.contains("[redacted:KEY]"));
    assert!(text.starts_with(r#"{"refrain_tape":1,"by":"refrain "#), "{text}");
}

#[tokio::test]
async fn a_request_that_parts_is_told_with_its_difference() {
    let (_folder, path) = recorded("run.tape").await;
    let tape = Cassette::replay(&path, Matching::Exact, redactor()).expect("a tape");
    let parted = tape.answer(&whose(2), &Places::default(), &asks("title\nand more")).expect_err("another request");
    assert_eq!(
        parted.message,
        "the request parts from the cassette, which expected exchange 1 of 1 of this session; record anew if this is \
         meant\n--- cassette\n+++ request\n@@ -4,0 +4,1 @@\n messages[0].content: title\n+messages[0].content: and more\n"
    );
    let parted = tape.answer(&whose(7), &Places::default(), &asks("title")).expect_err("another session");
    assert!(parted.message.contains("nothing of cell h__m__t__r1, attempt 1, session 7 (agent)"), "{parted}");
    // A request that parted takes no answer away.
    assert!(tape.answer(&whose(2), &Places::default(), &asks("title")).is_ok());
}

#[tokio::test]
async fn a_long_difference_is_cut() {
    let (_folder, path) = recorded("run.tape").await;
    let tape = Cassette::replay(&path, Matching::Exact, redactor()).expect("a tape");
    let parted =
        tape.answer(&whose(2), &Places::default(), &asks(&"x".repeat(900).repeat(3))).expect_err("another request");
    assert!(parted.message.len() < 1000 && parted.message.contains('…'), "{parted}");
    let lines = (0..100).map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    let parted = tape.answer(&whose(2), &Places::default(), &asks(&lines)).expect_err("another request");
    assert!(parted.message.lines().count() < 30 && parted.message.ends_with("… and more\n"), "{parted}");
}

#[tokio::test]
async fn what_is_built_alike_may_do() {
    let (_folder, path) = recorded("run.tape").await;
    let tape = Cassette::replay(&path, Matching::Shape, redactor()).expect("a tape");
    let answer = |text: &str| tape.answer(&whose(1), &Places::default(), &asks(text)).map(|answer| answer.pieces);
    assert_eq!(answer("title"), Ok(says(&[b"t"]).pieces), "an equal one goes first");
    assert_eq!(answer("something else"), Ok(says(&[b"data: a\n\n", b"data: \xFF\n\n"]).pieces));
    let mut other = asks("title");
    other.body = r#"{"model":"another","messages":[{"role":"user","content":"title"}]}"#.into();
    assert!(tape.answer(&whose(1), &Places::default(), &other).is_err());
}

#[test_case("run.tape"; "plain")]
#[test_case("run.tape.gz"; "compressed")]
#[tokio::test]
async fn a_tape_cut_anywhere_is_of_use_up_to_its_last_whole_line(name: &str) {
    let (folder, path) = recorded(name).await;
    let bytes = std::fs::read(&path).expect("a file");
    let cut = folder.path().join(format!("cut-{name}"));
    let mut counts = Vec::new();
    for length in 1..=bytes.len() {
        std::fs::write(&cut, &bytes[..length]).expect("is written");
        match tape::read(&cut) {
            Ok(lines) => counts.push(lines.len()),
            Err(CassetteError::NoTape { .. }) => assert!(counts.is_empty(), "a head was read, and then none"),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(counts.is_sorted(), "{counts:?}");
    assert_eq!(counts.last(), Some(&4));
    // What is recorded next stands behind the last whole line.
    std::fs::write(&cut, &bytes[..bytes.len() - 3]).expect("is written");
    let tape = Cassette::record(&cut, redactor()).expect("a tape");
    tape.keep((&whose(3), &Places::default()), 1, &asks("new"), says(&[b"n"])).await.expect("is written");
    assert_eq!(tape::read(&cut).expect("a tape").len(), 4);
}

#[tokio::test]
async fn of_a_session_recorded_twice_the_last_holds() {
    let (_folder, path) = recorded("run.tape").await;
    let again = Cassette::record(&path, redactor()).expect("a tape");
    again.keep((&whose(1), &Places::default()), 1, &asks("title"), says(&[b"new"])).await.expect("is written");
    let tape = Cassette::replay(&path, Matching::Exact, redactor()).expect("a tape");
    assert_eq!(
        tape.answer(&whose(1), &Places::default(), &asks("title")).expect("is there").pieces,
        says(&[b"new"]).pieces
    );
    assert!(tape.answer(&whose(1), &Places::default(), &asks("title")).is_err());
    assert!(tape.answer(&whose(2), &Places::default(), &asks("title")).is_ok());
}

#[test_case(b"", "it is empty"; "empty")]
#[test_case(b"hello\n", "its first line is no head"; "another file")]
#[test_case(b"{\"refrain_tape\":1", "it has no line"; "half a head")]
#[test_case(b"{\"refrain_tape\":1,\"by\":\"x\"}\n{\"part\":1}\n", "a line of it is no exchange"; "half a line")]
#[test_case(b"{\"refrain_tape\":2,\"by\":\"x\"}\n", "has version 2"; "later version")]
fn files_that_are_no_tapes(bytes: &[u8], message: &str) {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(bytes).expect("is written");
    let error = Cassette::replay(file.path(), Matching::Exact, redactor()).expect_err("no tape");
    assert!(error.to_string().contains(message), "{error}");
    assert!(error.to_string().contains(&file.path().display().to_string()));
    let unchanged = matches!(error, CassetteError::NoTape { .. }) && !bytes.is_empty() && bytes.ends_with(b"\n");
    if unchanged && !message.contains("no exchange") {
        assert!(Cassette::record(file.path(), redactor()).is_err(), "another's file is not written to");
        assert_eq!(std::fs::read(file.path()).expect("is there"), bytes);
    }
}

#[tokio::test]
async fn an_attempt_that_was_not_recorded_plays_the_last_before_it() {
    let (_folder, path) = recorded("run.tape").await;
    let tape = Cassette::record(&path, redactor()).expect("a tape");
    let attempt = |attempt| Attribution { attempt, ..whose(1) };
    tape.keep((&attempt(3), &Places::default()), 1, &asks("title"), says(&[b"third"])).await.expect("is written");
    let tape = Cassette::replay(&path, Matching::Exact, redactor()).expect("a tape");
    let answer = |number| tape.answer(&attempt(number), &Places::default(), &asks("title")).map(|answer| answer.pieces);
    assert_eq!(answer(2), Ok(says(&[b"t"]).pieces), "of the first");
    assert_eq!(answer(9), Ok(says(&[b"third"]).pieces));
    let run = Attribution { run: RunName::new("another").expect("a name"), ..whose(2) };
    assert!(tape.answer(&run, &Places::default(), &asks("title")).is_ok(), "whatever the run is called");
}

#[tokio::test]
async fn a_difference_far_into_a_line_is_shown() {
    let (_folder, path) = recorded("run.tape").await;
    let tape = Cassette::record(&path, redactor()).expect("a tape");
    let long = |end: &str| asks(&format!("{}{end}{}", "word ".repeat(200), " tail".repeat(200)));
    tape.keep((&whose(4), &Places::default()), 1, &asks("other"), says(&[b"o"])).await.expect("is written");
    tape.keep((&whose(4), &Places::default()), 2, &long("before"), says(&[b"l"])).await.expect("is written");
    let tape = Cassette::replay(&path, Matching::Exact, redactor()).expect("a tape");
    let parted = tape.answer(&whose(4), &Places::default(), &asks("nothing alike")).expect_err("another request");
    assert!(parted.message.contains("exchange 1 of 2"), "{parted}");
    tape.answer(&whose(4), &Places::default(), &asks("other")).expect("is there");
    let parted = tape.answer(&whose(4), &Places::default(), &long("after")).expect_err("another request");
    let lines: Vec<&str> = parted.message.lines().skip(3).collect();
    let [_, _, gone, new] = lines.as_slice() else { panic!("{parted}") };
    assert!(gone.starts_with("-messages[0].content: …") && gone.contains("word before tail"), "{parted}");
    assert!(new.starts_with("+messages[0].content: …") && new.contains("word after tail"), "{parted}");
    assert!(lines.iter().all(|line| line.chars().count() < 220), "{parted}");
}
