//! Commands that only read: dry runs, lists, results, doctor.

use insta::assert_snapshot;

use crate::bed::{SOLVE, TestBed, play};

#[test]
fn a_dry_run_shows_the_first_cells_and_the_total() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = bed.run(&["run", "runs/demo.yaml", "--dry-run", "--set", "repeats=25"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_snapshot!(ran.stdout);
    assert!(!bed.path().join("refrain.db").exists());
}

#[test]
fn a_dry_run_as_json_lists_every_cell() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = bed.run(&["run", "runs/demo.yaml", "--dry-run", "--json", "--set", "repeats=25"]);
    let plan: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_eq!((plan["total"].as_u64(), plan["cells"].as_array().map(Vec::len)), (Some(25), Some(25)));
    assert_eq!(plan["cells"][24]["cell_id"], "scripted__scripted-small__greeting__r25");
}

#[test]
fn only_takes_a_pattern() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = bed.run(&["run", "runs/demo.yaml", "--dry-run", "--set", "repeats=25", "--only", "*__r1?"]);
    assert!(ran.stdout.ends_with("\n10 cells\n"), "{}", ran.stdout);
}

#[test]
fn the_totals_are_those_of_the_cells_that_were_asked_for() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let args = ["run", "runs/demo.yaml", "--progress", "none", "--json", "--set", "repeats=3"];
    assert_eq!(bed.run(&args).code, Some(0));
    let ran = bed.run(&[&args[..], &["--only", "*__r2"]].concat());
    let totals: serde_json::Value = serde_json::from_str(&ran.stdout).expect("valid JSON");
    assert_eq!(
        (totals["schema"].as_u64(), totals["total"].as_u64(), totals["passed"].as_u64()),
        (Some(1), Some(1), Some(1))
    );
}

#[test]
fn lists_show_what_there_is() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let tasks = bed.run(&["list", "tasks"]);
    assert_eq!(
        (tasks.code, tasks.stdout.as_str()),
        (Some(0), "TASK      TRACK  DIFFICULTY  NAME\ngreeting  swe    -           Greet\n")
    );
    for (what, name) in [("harnesses", "scripted"), ("orchestrators", "refine")] {
        let ran = bed.run(&["list", what]);
        assert!(ran.code == Some(0) && ran.stdout.contains(name), "{ran:?}");
    }
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    let runs = bed.run(&["list", "runs"]);
    assert!(runs.stdout.contains("demo") && runs.stdout.contains("$0.000150"), "{}", runs.stdout);
}

#[test]
fn results_are_a_table_and_a_comparison() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    let shown = bed.run(&["results"]).stdout;
    assert!(shown.contains("PASSED  scripted__scripted-small__greeting__r1  1     1/1"), "{shown}");
    assert!(shown.contains("one-shot      scripted  scripted-small  1/1     100%  0        $0.000150"), "{shown}");
}

#[test]
fn a_cell_with_several_attempts_lists_them() {
    let bed = TestBed::with_play(&play(&["[{provider: rate_limited}]"]));
    let args = ["run", "runs/demo.yaml", "--progress", "none", "--set", "retry.infrastructure=0"];
    assert_eq!(bed.run(&args).code, Some(11));
    assert!(!bed.run(&["show", "greeting"]).stdout.contains("\nattempts\n"));
    bed.file("runs/demo.play.yaml", &play(&[SOLVE]));
    assert_eq!(bed.run(&args).code, Some(0));
    let last = bed.run(&["show", "greeting"]).stdout;
    assert!(
        last.contains("\nattempts\n    1  ") && last.contains("\n  > 2  ") && last.contains("infrastructure_error")
    );
    assert!(last.contains("+echo hello world"), "{last}");
    // The diff of the second attempt is not the first one's.
    let first = bed.run(&["show", "greeting", "--attempt", "1"]).stdout;
    assert!(first.contains("\n  > 1  ") && !first.contains("+echo hello world"), "{first}");
}

#[test]
fn the_store_keeps_how_the_streams_of_the_last_session_end() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    assert_eq!(bed.run(&["run", "runs/demo.yaml", "--progress", "none"]).code, Some(0));
    let store = refrain::store::Store::open_read_only(&bed.path().join("refrain.db")).expect("a store");
    let row = store.results(None, &refrain::store::ResultFilter::default()).wait().expect("readable").remove(0);
    let texts = store.texts(&row.run, &row.cell).wait().expect("readable").expect("a result");
    assert!(texts.harness_stdout.is_some_and(|text| text.contains("done")));
    assert_eq!(texts.harness_stderr, None);
    assert!(row.time_to_first_attempt_ms.is_some_and(|first| first <= row.duration_ms));
}

#[test]
fn doctor_masks_keys() {
    let bed = TestBed::new();
    let output = bed.command(&["doctor"]).env("OPENAI_API_KEY", "sk-visible-nowhere").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("OPENAI_API_KEY") && text.contains("set (hidden)"), "{text}");
    assert!(!text.contains("visible"), "{text}");
}

#[test]
fn doctor_names_what_is_missing() {
    let bed = TestBed::new();
    let output = bed.command(&["doctor", "--json"]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("valid JSON");
    let git = &report["findings"][0];
    assert_eq!((git["what"].as_str(), git["state"].as_str()), (Some("git"), Some("missing")));
}

#[test]
fn init_writes_a_project_that_runs() {
    let bed = TestBed::new();
    assert_eq!(bed.run(&["init", "new"]).code, Some(0));
    let ran = bed
        .command(&["run", "runs/starter.yaml", "--progress", "lines"])
        .current_dir(bed.path().join("new"))
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(0), "{shown}");
    assert!(shown.contains("1 passed, 1 failed, 0 errored"), "{shown}");
    let ignored = std::fs::read_to_string(bed.path().join("new/.gitignore")).unwrap();
    assert_eq!(ignored, "/.refrain/\n/refrain.db*\n");
}

#[test]
fn json_progress_is_a_gapless_stream_on_standard_output() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "json"]);
    let events: Vec<serde_json::Value> =
        ran.stdout.lines().map(|line| serde_json::from_str(line).expect("valid JSON")).collect();
    for (seq, event) in events.iter().enumerate() {
        assert_eq!((event["seq"].as_u64(), event["run"].as_str()), (Some(seq as u64), Some("demo")));
    }
    let kinds: Vec<_> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!((kinds.first(), kinds.last()), (Some(&"run_started"), Some(&"run_finished")));
}

#[test]
fn a_cost_of_which_a_part_is_unknown_is_bounded_by_what_is_known() {
    let silent = "[{message: working}]";
    let bed = TestBed::with_play(&play(&[&SOLVE.replace("echo hello world", "echo nearly"), silent]));
    let refine = "repeats: 1\norchestrators: [{slug: refine, params: {max_rounds: 2}}]\n";
    bed.file("runs/demo.yaml", &TestBed::run_file(refine));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines"]);
    assert!(ran.stderr.contains("Billable cost: at least $0.000150"), "{}", ran.stderr);
    let shown = bed.run(&["results"]).stdout;
    assert!(shown.contains("≥ $0.000150 (1 unknown)"), "{shown}");
    assert!(bed.results()[0]["total_cost_micros"].is_null());
}

/// The names in code marks in the part of the page about JSON with this heading; only those of the rows that begin so.
fn documented(heading: &str, row: &str) -> Vec<String> {
    let page = include_str!("../../docs/reference/json.md");
    let part = page.split(&format!("\n## {heading}\n")).nth(1).expect("a part").split("\n## ").next().expect("a part");
    let rows = part.lines().filter(|line| line.starts_with(&format!("| {row}")));
    rows.flat_map(|line| line.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn keys(value: &serde_json::Value) -> Vec<String> {
    value.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn the_page_about_json_tells_what_is_printed() {
    let bed = TestBed::with_play(&play(&[SOLVE]));
    let events = bed.run(&["run", "runs/demo.yaml", "--progress", "json"]);
    let mut seen = std::collections::BTreeSet::new();
    for line in events.stdout.lines() {
        let event: serde_json::Value = serde_json::from_str(line).expect("valid JSON");
        let kind = event["event"].as_str().expect("a kind").to_owned();
        let told = documented("Events", &format!("`{kind}`"));
        for key in keys(&event) {
            let always = ["schema", "seq", "at", "run", "event"].contains(&key.as_str());
            assert!(always || told.contains(&key), "`{key}` of `{kind}` is not told");
        }
        seen.insert(kind);
    }
    assert!(seen.len() >= 8, "{seen:?}");
    let read = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&bed.run(args).stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"))
    };
    let mut totals = documented("Totals", "`");
    totals.push("schema".to_owned());
    let mut printed = keys(&read(&["run", "runs/demo.yaml", "--json", "--progress", "none"]));
    totals.sort();
    totals.dedup();
    printed.sort();
    assert_eq!(totals, printed);
    let results = read(&["results", "--json"]);
    let record = read(&["show", "greeting", "--json"]);
    for (part, real) in [("Results", keys(&results["results"][0])), ("Run records", keys(&record))] {
        let told = documented(part, "`");
        assert!(told.len() > 10, "{part}: {told:?}");
        assert!(told.iter().all(|key| real.contains(key)), "{part}: {told:?}, but there are {real:?}");
    }
}
