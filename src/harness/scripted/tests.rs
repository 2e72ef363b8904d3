use std::fs;

use serde_json::Value;
use test_case::test_case;

use super::*;

struct Stage {
    dir: tempfile::TempDir,
}

impl Stage {
    fn new(play: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        fs::write(dir.path().join("play.yaml"), play).expect("written");
        fs::create_dir(dir.path().join("work")).expect("made");
        Self { dir }
    }

    /// Plays one session with these steps.
    fn steps(steps: &str) -> (Self, u8, Vec<Value>, String) {
        let stage = Self::new(&format!("plays:\n  - task: t\n    sessions:\n      - steps: {steps}\n"));
        let (code, records, err) = stage.act("t", None, 1);
        (stage, code, records, err)
    }

    fn act(&self, task: &str, phase: Option<&str>, session: u32) -> (u8, Vec<Value>, String) {
        self.play(task, phase, None, session)
    }

    fn play(&self, task: &str, phase: Option<&str>, label: Option<&str>, session: u32) -> (u8, Vec<Value>, String) {
        let (play, workspace) = (self.dir.path().join("play.yaml"), self.dir.path().join("work"));
        let scene = Scene { play: &play, task, phase, label, session, prompt: "p", workspace: &workspace };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let code = act(&scene, &mut out, &mut err);
        let out = String::from_utf8(out).expect("text");
        let records = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        (code, records, String::from_utf8(err).expect("text"))
    }

    fn file(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join("work").join(name)).expect("there")
    }
}

#[test]
fn steps_change_real_files_and_run_real_commands() {
    let (stage, code, records, err) = Stage::steps(
        r#"[{message: hi}, {write: {path: a/b, content: "one two\n"}}, {replace: {path: a/b, old: two, new: '2'}},
            {run: "cat a/b > c; exit 3"}, {write: {path: d, content: x}}, {delete: d}, {sleep: 0},
            {usage: {input: 5, output: 1}}, {cost: 0.25}, {noise: "not json"}, {message: bye}]"#,
    );
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(stage.file("c"), "one 2\n");
    assert!(!stage.dir.path().join("work/d").exists());
    let kinds: Vec<&str> = records.iter().filter_map(|record| record["type"].as_str()).collect();
    let expected = ["session", "message", "tool", "tool", "tool", "tool", "tool", "usage", "cost", "message", "result"];
    assert_eq!(kinds, expected);
    assert_eq!((&records[4]["ok"], &records[4]["exit_code"]), (&Value::Bool(false), &Value::from(3)));
    assert_eq!(records[7].get("cache_read"), None, "what is not told is unknown");
    let result = &records[10];
    assert_eq!((&result["status"], &result["text"], &result["turns"]), (&"completed".into(), &"bye".into(), &2.into()));
}

#[test_case("[{fail: no}]", 1, "failed"; "fail")]
#[test_case("[{refuse: no}]", 0, "refused"; "refuse")]
#[test_case("[{limit: turns}]", 1, "limit"; "limit")]
#[test_case("[{provider: rate_limited}]", 1, "provider"; "provider")]
fn endings(steps: &str, code: u8, status: &str) {
    let (_stage, found, records, _) = Stage::steps(&format!("{steps}\n            "));
    assert_eq!((found, records.last().expect("a record")["status"].as_str()), (code, Some(status)));
}

#[test]
fn an_exit_leaves_no_result_and_nothing_after_it_happens() {
    let (stage, code, records, _) = Stage::steps("[{exit: 7}, {write: {path: late, content: x}}]");
    assert_eq!((code, records.len()), (7, 1));
    assert!(!stage.dir.path().join("work/late").exists());
}

#[test_case("[{replace: {path: absent, old: a, new: b}}]", "step 1 (replace): cannot read `absent`"; "absent file")]
#[test_case("[{write: {path: f, content: aa}}, {replace: {path: f, old: a, new: b}}]",
    "step 2 (replace): `old` stands in `f` 2 times, not once"; "twice")]
#[test_case("[{write: {path: ../f, content: x}}]", "`../f` does not lie in the workspace"; "parent")]
#[test_case("[{write: {path: /etc/f, content: x}}]", "`/etc/f` does not lie in the workspace"; "absolute")]
#[test_case("[{delete: ''}]", "does not lie in the workspace"; "empty path")]
#[test_case("[{mesage: x}]", "mesage"; "unknown step")]
#[test_case("[{write: {path: f}}]", "content"; "missing field")]
#[test_case("[{usage: {inptu: 1}}]", "inptu"; "unknown class")]
#[test_case("[{limit: luck}]", "luck"; "unknown limit")]
#[test_case("[{sleep: -1}]", "`sleep: -1` must be a number from 0"; "negative time")]
#[test_case("[{sleep: .nan}]", "expected f64"; "no time")]
fn mistakes_in_a_play_are_told(steps: &str, expected: &str) {
    let (_stage, code, _, err) = Stage::steps(steps);
    assert_eq!(code, 2);
    assert!(err.starts_with("error: ") && err.contains(expected), "{err}");
}

const PARTS: &str = "
plays:
  - task: '*'
    sessions: [{steps: [{message: any}]}]
  - task: a
    sessions: [{steps: [{message: a1}]}, {steps: [{message: a2}]}]
  - task: a
    phase: review
    sessions: [{steps: [{message: review}]}]
";

#[test_case("a", None, 1, "a1"; "first")]
#[test_case("a", None, 2, "a2"; "second")]
#[test_case("a", None, 9, "a2"; "the last one repeats")]
#[test_case("a", Some("review"), 3, "review"; "phase")]
#[test_case("a", Some("implement"), 1, "a1"; "a phase without a part of its own")]
#[test_case("b", None, 1, "any"; "any task")]
fn the_most_special_part_plays(task: &str, phase: Option<&str>, session: u32, expected: &str) {
    let (code, records, err) = Stage::new(PARTS).act(task, phase, session);
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(records[1]["text"], expected);
}

const FORKS: &str = "
plays:
  - task: a
    label: fork 2
    sessions: [{steps: [{message: two}]}]
  - task: a
    label: 'fork *'
    sessions: [{steps: [{message: other}]}]
  - task: a
    phase: review
    sessions: [{steps: [{message: review}]}]
";

#[test_case(None, Some("fork 2"), Some("two"); "its label")]
#[test_case(None, Some("fork 13"), Some("other"); "a pattern")]
#[test_case(Some("review"), Some("fork 2"), Some("two"); "label before phase")]
#[test_case(Some("review"), Some("x"), Some("review"); "another label")]
#[test_case(None, Some("a fork 2"), None; "a part of the label is not enough")]
#[test_case(None, None, None; "no label")]
fn parts_are_told_apart_by_label(phase: Option<&str>, label: Option<&str>, expected: Option<&str>) {
    let (code, records, err) = Stage::new(FORKS).play("a", phase, label, 7);
    match expected {
        Some(text) => assert_eq!((code, records[1]["text"].as_str()), (0, Some(text)), "{err}"),
        None => assert!(code == 2 && err.contains("there are plays for: `a` with label `fork 2`, "), "{err}"),
    }
}

#[test]
fn a_task_without_a_play_is_told_with_those_that_have_one() {
    let stage = Stage::new("plays: [{task: a, phase: x, sessions: [{steps: []}]}]");
    let (code, _, err) = stage.act("a", Some("y"), 1);
    assert_eq!(code, 2);
    assert_eq!(err, "error: no play for task `a` in phase `y`; there are plays for: `a` in phase `x`\n");
    let (code, _, err) = Stage::new("plays: [{task: a, sessions: []}]").act("a", None, 1);
    assert_eq!(code, 2);
    assert!(err.contains("the play of task `a` has no sessions"), "{err}");
}
