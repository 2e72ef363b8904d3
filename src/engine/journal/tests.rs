use super::*;
use crate::script::port::WorkspaceId;

fn entry(seq: u64, answer: Option<(u64, &Reply)>) -> JournalEntry {
    let answer = answer.map(|(turn, reply)| {
        write_answer(turn, Duration::from_millis(10 * (turn + 1)), None, reply).expect("serializes")
    });
    let (call, args_hash) = ("clock.now".to_owned(), "h".to_owned());
    JournalEntry { seq, call, args_hash, at: Timestamp::UNIX_EPOCH, answer }
}

#[test]
fn every_reply_is_read_back_as_it_was_written() {
    let replies: Vec<Reply> = vec![
        Ok(Answer::Unit),
        Ok(Answer::Missing),
        Ok(Answer::Seconds(None)),
        Ok(Answer::Seconds(Some(0.1 + 0.2))),
        Ok(Answer::Bytes(b"text with \"quotes\"\n".to_vec())),
        Ok(Answer::Bytes(vec![0, 255, 10, 128])),
        Ok(Answer::Names(vec!["a".to_owned(), "b/c".to_owned()])),
        Ok(Answer::Workspace(WorkspaceId(3))),
        Err(HostError::Misuse { message: "no".to_owned() }),
        Err(HostError::Refused { limit: "budget".to_owned(), message: "spent".to_owned() }),
    ];
    let entries = (0..).zip(&replies).map(|(seq, reply)| entry(seq, Some((seq, reply)))).collect();
    let past = Past::read(entries).expect("read");
    for (seq, reply) in (0..).zip(replies) {
        assert_eq!(past.call(seq).and_then(|call| call.answer.clone()), Some((seq, reply)));
    }
    assert_eq!(past.elapsed, Duration::from_millis(100));
}

#[test]
fn bytes_are_kept_as_text_where_they_are_text() {
    let json = |bytes: &[u8]| serde_json::to_string(&Answer::Bytes(bytes.to_vec())).expect("serializes");
    assert_eq!(json(b"ab"), r#"{"answer":"bytes","value":{"text":"ab"}}"#);
    assert_eq!(json(&[255]), r#"{"answer":"bytes","value":{"base64":"/w=="}}"#);
}

#[test]
fn turns_are_an_order_of_their_own() {
    let unit = Ok(Answer::Unit);
    let past = Past::read(vec![entry(0, Some((1, &unit))), entry(1, Some((0, &unit))), entry(2, None)]).expect("read");
    assert_eq!((past.answers(), past.at_turn(0), past.at_turn(1), past.at_turn(2)), (2, Some(1), Some(0), None));
}

#[test]
fn a_journal_with_a_gap_or_damage_is_refused() {
    let unit = Ok(Answer::Unit);
    let gap = Past::read(vec![entry(0, Some((0, &unit))), entry(1, Some((2, &unit)))]);
    assert_eq!(gap, Err("the journal lacks answer 1".to_owned()));
    let damaged = JournalEntry { answer: Some("{}".to_owned()), ..entry(4, None) };
    assert!(Past::read(vec![damaged]).expect_err("damaged").starts_with("call 4 of the journal cannot be read"));
}

#[test]
fn arguments_tell_calls_apart() {
    let read = |path: &str| CallMark::of(&HostCall::Read { path: path.to_owned(), workspace: WorkspaceId::MAIN });
    assert_eq!(read("a"), read("a"));
    assert_ne!(read("a"), read("b"));
    let exists = CallMark::of(&HostCall::Exists { path: "a".to_owned(), workspace: WorkspaceId::MAIN });
    assert_ne!(read("a"), exists);
}

#[test]
fn secrets_reach_neither_script_nor_journal() {
    let redactor = Redactor::new([("KEY", "hunter2-hunter2")]);
    let shown = [
        Ok(Answer::Bytes(b"a hunter2-hunter2 b".to_vec())),
        Ok(Answer::Names(vec!["hunter2-hunter2.txt".to_owned()])),
        Err(HostError::Misuse { message: "`hunter2-hunter2` does not exist".to_owned() }),
    ];
    for reply in shown {
        let clean = redact(reply, &redactor);
        let written = write_answer(0, Duration::ZERO, None, &clean).expect("serializes");
        assert!(written.contains("[redacted:KEY]") && !written.contains("hunter2"), "{written}");
    }
}

#[test]
fn a_call_that_was_refused_tells_the_number_that_it_took() {
    let refused = |limit: &str| -> Reply {
        Err(HostError::Refused { limit: limit.to_owned(), message: "nothing is left".to_owned() })
    };
    let written = |session, reply: Reply| Some(write_answer(0, Duration::ZERO, session, &reply).expect("serializes"));
    let numbering = |answer| {
        let past = Past::read(vec![JournalEntry { answer, ..entry(0, None) }]).expect("read");
        past.call(0).map(|call| call.numbering)
    };
    let misuse: Reply = Err(HostError::Misuse { message: "its workspace is gone".to_owned() });
    assert_eq!(numbering(written(Some(3), refused("budget"))), Some(Numbering::Took(3)));
    assert_eq!(numbering(written(Some(4), misuse)), Some(Numbering::Took(4)));
    assert_eq!(numbering(written(None, refused("sessions"))), Some(Numbering::None));
    assert_eq!(numbering(None), Some(Numbering::None), "it is under way");
    // Earlier journals tell no numbers.
    let earlier = written(None, refused("budget"));
    assert!(earlier.as_ref().is_some_and(|answer| !answer.contains("session")), "{earlier:?}");
    assert_eq!(numbering(earlier), Some(Numbering::TookNext));
}
