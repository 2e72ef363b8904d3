//! Sessions as trajectories: on the screen and in files.

use serde_json::Value;

use crate::bed::{SOLVE, TestBed, play};

/// A run of one cell with two sessions.
fn refined() -> TestBed {
    let first = "[{message: tried}, {write: {path: greet.sh, content: echo bye}}]";
    let bed = TestBed::with_play(&play(&[first, SOLVE]));
    bed.file("runs/demo.yaml", &TestBed::run_file("orchestrators: [refine]\nrepeats: 1\n"));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "none"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    bed
}

fn exported(bed: &TestBed, args: &[&str]) -> Vec<String> {
    let ran = bed.run(&[&["export"], args].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let text = |path: &str| std::fs::read_to_string(bed.path().join(path)).expect("the file is there");
    ran.stdout.lines().map(text).collect()
}

#[test]
fn each_session_is_a_document_with_the_prompt_that_its_script_gave() {
    let bed = refined();
    let documents = exported(&bed, &["demo"]);
    let documents: Vec<Value> = documents.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
    assert_eq!(documents.len(), 2);
    let [first, second] = &documents[..] else { panic!("two sessions") };
    let prompt = first["steps"][0]["message"].as_str().expect("a prompt");
    assert!(prompt.contains("Greet the world."), "{prompt}");
    let again = second["steps"][0]["message"].as_str().expect("a prompt");
    assert_ne!(prompt, again, "the second prompt tells what failed");
    assert_eq!(first["steps"][1]["message"], "tried");
    assert_eq!(first["session_id"], second["session_id"]);
    assert_ne!(first["trajectory_id"], second["trajectory_id"]);
    // The first session told no tokens, the second all of them.
    assert!(first["final_metrics"].get("total_prompt_tokens").is_none(), "{first:#}");
    assert_eq!(second["final_metrics"]["total_prompt_tokens"], 100);
    assert_eq!(second["final_metrics"]["extra"]["usage_source"], "harness");
}

#[test]
fn lines_go_where_they_are_told_to_and_only_of_the_cell_that_was_asked_for() {
    let bed = refined();
    let files = exported(&bed, &["--format", "jsonl", "--cell", "greeting", "--out", "out/here"]);
    assert_eq!(files.len(), 2);
    let steps: Vec<Value> = files[0].lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!((&steps[0]["schema_version"], &steps[1]["source"]), (&"ATIF-v1.7".into(), &"user".into()));
    let ran = bed.run(&["export", "--cell", "none-such"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("no cell `none-such`"), "{ran:?}");
}

#[test]
fn the_screen_shows_each_session() {
    let bed = refined();
    let shown = bed.run(&["show", "greeting", "--trajectory"]).stdout;
    assert!(shown.contains("prompt  ") && shown.contains("agent   tried") && shown.contains("agent   done"), "{shown}");
}

#[test]
fn a_run_file_that_is_gone_takes_the_prompts_with_it_and_nothing_else() {
    let bed = refined();
    std::fs::remove_file(bed.path().join("runs/demo.yaml")).expect("removed");
    let shown = bed.run(&["show", "greeting", "--trajectory"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("agent   tried"), "{}", shown.stdout);
    assert!(shown.stdout.contains("note: the prompt is not stored"), "{}", shown.stdout);
}
