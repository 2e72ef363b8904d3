use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::*;
use crate::engine::journal::{Effect, effect, write_answer};
use crate::script::mock::{MockSetup, MockWorld};
use crate::script::port::ExecAnswer;
use crate::script::{Answer, HostCall, ScriptEnd, ScriptLimits, ScriptPort, ScriptSource, StopHandle, run};
use crate::store::JournalEntry;

fn mark(name: &'static str) -> CallMark {
    CallMark { name, args_hash: "h".to_owned() }
}

fn entry(seq: u64, name: &str, turn: Option<u64>) -> JournalEntry {
    let answer = turn.map(|turn| write_answer(turn, Duration::ZERO, None, &Ok(Answer::Unit)).expect("serializes"));
    let (call, args_hash) = (name.to_owned(), "h".to_owned());
    JournalEntry { seq, call, args_hash, at: Timestamp::UNIX_EPOCH, answer }
}

fn past(entries: Vec<JournalEntry>) -> Past {
    Past::read(entries).expect("a journal")
}

#[test]
fn answers_of_the_past_come_in_their_order_and_one_at_a_time() {
    let mut desk: Desk<&str> = Desk::new(Some(past(vec![entry(0, "a", Some(1)), entry(1, "b", Some(0))])));
    for (name, waiter) in [("a", "first"), ("b", "second")] {
        let seq = desk.number();
        assert_eq!(desk.ask(seq, &mark(name), false, waiter), Asked::Waits);
    }
    assert!(matches!(desk.idle(), Idle::Hand("second", Ok(Answer::Unit))));
    // Until the script is idle again nothing more comes.
    assert!(desk.hand().is_none());
    assert!(matches!(desk.idle(), Idle::Hand("first", Ok(Answer::Unit))));
    assert!(matches!(desk.idle(), Idle::Over(held) if held.is_empty()));
    assert!(matches!(desk.idle(), Idle::Nothing));
}

#[test]
fn calls_that_were_under_way_and_new_ones_wait_for_the_end_of_the_past() {
    let mut desk: Desk<u32> = Desk::new(Some(past(vec![entry(0, "a", None), entry(1, "b", Some(0))])));
    for (name, waiter) in [("a", 0), ("b", 1), ("c", 2)] {
        let seq = desk.number();
        assert_eq!(desk.ask(seq, &mark(name), false, waiter), Asked::Waits);
    }
    assert!(matches!(desk.idle(), Idle::Hand(1, _)));
    let Idle::Over(held) = desk.idle() else { panic!("the past is over") };
    let held: Vec<_> = held.iter().map(|held| (held.seq, held.under_way, held.waiter)).collect();
    assert_eq!(held, [(0, true, 0), (2, false, 2)]);
    desk.open();
    let turn = desk.turn();
    assert_eq!(turn, 1);
    assert!(desk.put(turn, 2, Ok(Answer::Unit)).is_some_and(|(waiter, _)| waiter == 2));
}

#[test]
fn a_script_that_ends_before_its_calls_are_answered_has_done_what_it_did() {
    let entries = || vec![entry(0, "session", Some(1)), entry(1, "session", Some(0))];
    let ended = |entries| {
        let mut desk: Desk<()> = Desk::new(Some(past(entries)));
        for _ in 0..2 {
            let seq = desk.number();
            assert_eq!(desk.ask(seq, &mark("session"), false, ()), Asked::Waits);
        }
        assert!(matches!(desk.idle(), Idle::Hand(..)));
        desk.unmet()
    };
    assert_eq!(ended(entries()), None, "it raised over the answer of call 1, and call 0 was answered too late");
    let more = entries().into_iter().chain([entry(2, "exec.run", Some(2))]).collect();
    let unmet = "the script made 2 calls, the journal goes on with call 2, `exec.run`";
    assert_eq!(ended(more).as_deref(), Some(unmet));
}

#[test]
fn another_call_other_arguments_and_a_missing_call_part_from_the_past() {
    let journal = || past(vec![entry(0, "session", Some(0)), entry(1, "checks.run", Some(1))]);
    let mut desk: Desk<()> = Desk::new(Some(journal()));
    let seq = desk.number();
    assert_eq!(
        desk.ask(seq, &mark("checks.run"), false, ()),
        Asked::Diverged("call 0 was `checks.run`, the journal has `session`".to_owned())
    );
    let mut desk: Desk<()> = Desk::new(Some(journal()));
    let seq = desk.number();
    let other = CallMark { args_hash: "other".to_owned(), ..mark("session") };
    let Asked::Diverged(reason) = desk.ask(seq, &other, false, ()) else { panic!("diverges") };
    assert_eq!(reason, "call 0 was `session`, the journal has `session` with other arguments");
    let mut desk: Desk<()> = Desk::new(Some(journal()));
    let seq = desk.number();
    assert_eq!(desk.ask(seq, &mark("session"), false, ()), Asked::Waits);
    assert!(matches!(desk.idle(), Idle::Hand(..)));
    let unmet = "the script made 1 calls, the journal goes on with call 1, `checks.run`";
    assert_eq!(desk.unmet().as_deref(), Some(unmet));
    assert!(matches!(desk.idle(), Idle::Diverged(reason) if reason == unmet));
}

type Way = oneshot::Sender<Reply>;

/// A port that answers after a time of its own choice, journals, and can go on after a journal.
#[derive(Clone)]
struct Recorder {
    desk: Arc<Mutex<Desk<(HostCall, Way)>>>,
    /// In the order of turns.
    journal: Arc<Mutex<Vec<JournalEntry>>>,
    seed: u64,
}

impl Recorder {
    fn new(seed: u64, past: Option<Past>) -> Self {
        Self { desk: Arc::new(Mutex::new(Desk::new(past))), journal: Arc::default(), seed }
    }

    fn keep(&self, seq: u64, mark: &CallMark, turn: u64, reply: &Reply) {
        let answer = Some(write_answer(turn, Duration::ZERO, None, reply).expect("serializes"));
        let (call, args_hash) = (mark.name.to_owned(), mark.args_hash.clone());
        let entry = JournalEntry { seq, call, args_hash, at: Timestamp::UNIX_EPOCH, answer };
        self.journal.lock().expect("unpoisoned").push(entry);
    }

    fn begin(&self, seq: u64, mark: CallMark, call: HostCall, way: Way) {
        let own = self.clone();
        let pause = (self.seed ^ (seq * 7919)).wrapping_mul(2_654_435_761) % 4;
        tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_millis(pause));
            let reply = match &call {
                HostCall::Exec { .. } => Ok(Answer::Exec(ExecAnswer::default())),
                HostCall::Exists { .. } => Ok(Answer::Bool(true)),
                _ => Ok(Answer::Seconds(Some(1.0))),
            };
            let mut desk = own.desk.lock().expect("unpoisoned");
            let turn = desk.turn();
            own.keep(seq, &mark, turn, &reply);
            if let Some(((_, way), reply)) = desk.put(turn, (call, way), reply) {
                drop(way.send(reply));
            }
        });
    }
}

#[async_trait]
impl ScriptPort for Recorder {
    async fn call(&self, call: HostCall) -> Reply {
        let (way, answer) = oneshot::channel();
        let mark = CallMark::of(&call);
        let at_once = effect(&call) == Effect::Observes;
        {
            let mut desk = self.desk.lock().expect("unpoisoned");
            let seq = desk.number();
            match desk.ask(seq, &mark, at_once, (call, way)) {
                Asked::Known(reply) => return reply,
                Asked::Diverged(reason) => panic!("{reason}"),
                Asked::Waits => {}
                Asked::New(_) if at_once && desk.is_quiet() => {
                    let turn = desk.pass();
                    let reply = Ok(Answer::Seconds(Some(2.0)));
                    self.keep(seq, &mark, turn, &reply);
                    return reply;
                }
                Asked::New((call, way)) => {
                    desk.begun();
                    self.begin(seq, mark, call, way);
                }
            }
        }
        answer.await.expect("answered")
    }

    fn idle(&self) {
        let mut desk = self.desk.lock().expect("unpoisoned");
        match desk.idle() {
            Idle::Hand((_, way), reply) => drop(way.send(reply)),
            Idle::Nothing => {}
            Idle::Over(held) => {
                desk.open();
                for held in held {
                    self.begin(held.seq, held.mark, held.waiter.0, held.waiter.1);
                }
            }
            Idle::Diverged(reason) => panic!("{reason}"),
        }
    }
}

/// Branches that share what they see, so that every order of answers gives another result.
const RACE: &str = r#"
local parallel, exec = require("@std/parallel"), require("@std/exec")
local workspace, clock = require("@std/workspace"), require("@std/clock")
local seen = {}
parallel.map({ 1, 2, 3, 4, 5, 6 }, function(item)
  for round = 1, 4 do
    exec.run({ "tool", tostring(item), tostring(round), tostring(#seen) })
    table.insert(seen, item)
    if #seen % 3 == 0 then clock.now() end
    if item % 2 == 0 then workspace.exists("file-" .. #seen) end
  end
end, { width = 4 })
return { note = table.concat(seen, ",") .. "@" .. clock.now() }
"#;

/// Runs the script after a past; returns its result and what it asked anew, in the order of turns.
fn play(seed: u64, past: Option<Past>) -> (String, Vec<JournalEntry>) {
    let port = Recorder::new(seed, past);
    let journal = Arc::clone(&port.journal);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("one");
    let inputs = MockWorld::new(MockSetup::default()).inputs("go");
    let source = ScriptSource::from_text("runner.lua", RACE);
    let outcome = runtime.block_on(run(&source, inputs, Arc::new(port), ScriptLimits::default(), StopHandle::new()));
    let ScriptEnd::Returned { note: Some(note), .. } = outcome.end else { panic!("{outcome:?}") };
    let entries = journal.lock().expect("unpoisoned").clone();
    (note, entries)
}

#[test]
fn a_script_with_branches_does_over_its_journal_what_it_did_at_first() {
    let mut notes = std::collections::HashSet::new();
    for seed in 0..6 {
        let (note, journal) = play(seed, None);
        let (again, new) = play(seed + 100, Some(past(journal.clone())));
        assert_eq!((again, new.len()), (note.clone(), 0), "seed {seed}");
        for cut in [1, journal.len() / 3, journal.len() / 2, journal.len() - 1] {
            // Another host goes on from here, with other times; a third one finds what both have done.
            let kept: Vec<_> = journal.iter().take(cut).cloned().collect();
            let (other, new) = play(seed + 200, Some(past(kept.clone())));
            let whole: Vec<_> = kept.into_iter().chain(new).collect();
            let (last, rest) = play(seed + 300, Some(past(whole)));
            assert_eq!((last, rest.len()), (other, 0), "seed {seed}, cut after {cut}");
        }
        notes.insert(note);
    }
    assert!(notes.len() > 1, "the order of answers made no difference: this shows nothing");
}
