//! Logs that are read once more, after a harness's rules have changed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bed::TestBed;

const HEAD: &str = "name = \"mine\"\ndescription = \"Prints what it is told to.\"\n\
    [run]\nargv = [\"sh\", \"-c\", \"cat '{config.says}'; echo echo hello world > greet.sh\", \"mine\", \"{prompt}\"]\n\
    [config.says]\ntype = \"path\"\nhelp = \"what it prints\"\n\
    [output]\nformat = \"json-lines\"\n";

/// Rules that know nothing of tokens.
const BLIND: &str = "[[output.rule]]\nwhen = { type = \"result\" }\nis = \"completed\"\ntext = \"said\"\n";

/// Rules that take what was read from the cache for input.
const WRONG: &str = "usage = { input = \"in\", output = \"out\" }\n";

const RIGHT: &str =
    "usage = { input = \"in - cached\", cache_read = \"cached\", output = \"out\", cache_write = \"none?\" }\n";

const SAYS: &str = "{\"type\":\"result\",\"said\":\"done\",\"in\":3000,\"cached\":1000,\"out\":200}\n";

const PRICES: &str = "[[price]]\nmodel = \"small\"\ninput = 10\noutput = 100\ncache_read = 1\ncache_write = 20\n\
    date = \"2026-11-01\"\nsource = \"a test\"\n";

/// Rules that count what was read from the cache as input, and say so.
fn all_input() -> String {
    RIGHT.replace("in - cached", "in").replace("\"cached\"", "\"none?\"")
}

fn rules(bed: &TestBed, rules: &[&str]) {
    bed.file("mine/harness.toml", &(HEAD.to_owned() + &rules.concat()));
}

/// A run of some cells by a harness with these rules, carried out.
fn project(first: &[&str], cells: usize) -> TestBed {
    let bed = planned(first, &format!("repeats: {cells}\n"));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "none"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    bed
}

/// A run with these settings by a harness with these rules.
fn planned(first: &[&str], settings: &str) -> TestBed {
    let bed = TestBed::with_play("plays: []\n");
    rules(&bed, first);
    bed.file("says.jsonl", SAYS);
    bed.file("prices.toml", PRICES);
    bed.file(
        "runs/demo.yaml",
        &format!(
            "name: demo\nharnesses:\n  - name: mine\n    adapter: ../mine\n    config: {{says: ../says.jsonl}}\n\
             models:\n  - {{name: small, provider: scripted}}\ntasks: [greeting]\nruntime: local\n\
             prices: [../prices.toml]\norchestrators: [one-shot]\n{settings}"
        ),
    );
    bed
}

fn reparse(bed: &TestBed, args: &[&str]) -> Value {
    let ran = bed.run(&[&["reparse", "demo", "--json"], args].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    serde_json::from_str(&ran.stdout).expect("JSON")
}

/// Changed, unchanged, skipped.
fn counts(told: &Value) -> [u64; 3] {
    ["changed", "unchanged", "skipped"].map(|name| told[name].as_u64().expect("a number"))
}

/// Cost of the run, and the number of spends that nobody knows, by its ledger.
fn books(bed: &TestBed) -> (Value, Value) {
    let status: Value = serde_json::from_str(&bed.run(&["status", "--json"]).stdout).expect("JSON");
    (status["money"]["total_micros"].clone(), status["money"]["unknown_costs"].clone())
}

fn is_sound(bed: &TestBed) {
    let ran = bed.run(&["store", "check"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

fn record_file(bed: &TestBed) -> Value {
    let found = walk(&bed.path().join(".refrain/runs")).into_iter().find(|path| path.ends_with("run_record.json"));
    let text = std::fs::read_to_string(found.expect("a record")).expect("read");
    // As the program's own output is shown to tests.
    serde_json::from_str(&text.replace(&bed.path().display().to_string(), "[dir]")).expect("JSON")
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("listed").flatten() {
        if entry.path().is_dir() { found.extend(walk(&entry.path())) } else { found.push(entry.path()) }
    }
    found
}

#[test]
fn what_a_mended_harness_tells_is_shown_first_and_put_on_record_when_it_is_asked_for() {
    let bed = project(&[BLIND], 1);
    let before = bed.record("greeting");
    assert_eq!((&before["cost"], books(&bed).1), (&Value::Null, json!(1)));
    assert_eq!(counts(&reparse(&bed, &[])), [0, 1, 0], "the same rules say the same");

    rules(&bed, &[BLIND, WRONG]);
    let shown = bed.run(&["reparse"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("usage.input") && shown.stdout.contains("1 session(s) would change"), "{shown:?}");
    assert!(shown.stderr.contains("nothing is written"), "{shown:?}");
    assert_eq!((bed.record("greeting"), record_file(&bed)), (before.clone(), before.clone()), "nothing was written");

    // Cache classes stay unknown, and the price with them.
    assert_eq!(counts(&reparse(&bed, &["--write"])), [1, 0, 0]);
    assert_eq!(bed.record("greeting")["sessions"][0]["usage"]["input"], 3000);
    assert_eq!((&bed.record("greeting")["cost"], books(&bed).1), (&Value::Null, json!(1)));

    rules(&bed, &[BLIND, RIGHT]);
    let told = reparse(&bed, &["--write"]);
    let cost =
        told["sessions"][0]["changes"].as_array().expect("a list").iter().find(|change| change["field"] == "cost");
    // 2000 × 10 + 1000 × 1 + 200 × 100, in micro-dollars.
    assert_eq!(cost, Some(&json!({"field": "cost", "old": null, "new": 41_000})), "{told:#}");
    let after = bed.record("greeting");
    assert_eq!((&after["cost"], &after["billable_cost"]), (&json!(41_000), &json!(41_000)));
    assert_eq!(
        (&after["usage"]["cache_read"], &after["sessions"][0]["price"]["model"]),
        (&json!(1000), &json!("small"))
    );
    for kept in ["verdict", "terminal", "exit_class", "error_class", "solved", "transitions", "workspace"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
    assert_eq!(books(&bed), (json!(41_000), json!(0)));
    let row = &bed.results()[0];
    assert_eq!((&row["total_cost_micros"], &row["cache_read_tokens"]), (&json!(41_000), &json!(1000)));
    assert_eq!(record_file(&bed), after);
    is_sound(&bed);
    assert_eq!(counts(&reparse(&bed, &["--write"])), [0, 1, 0], "the second time nothing changes");
}

#[test]
fn a_cost_that_is_not_known_any_more_or_another_one_is_corrected_on_the_ledger() {
    let bed = project(&[BLIND, RIGHT], 1);
    assert_eq!(books(&bed), (json!(41_000), json!(0)));
    rules(&bed, &[BLIND]);
    assert_eq!(counts(&reparse(&bed, &["--write"])), [1, 0, 0]);
    assert_eq!((bed.record("greeting")["cost"].clone(), books(&bed)), (Value::Null, (json!(0), json!(1))));
    is_sound(&bed);
    rules(&bed, &[BLIND, RIGHT]);
    assert_eq!(counts(&reparse(&bed, &["--write"])), [1, 0, 0]);
    assert_eq!(books(&bed), (json!(41_000), json!(0)));
    is_sound(&bed);
    let all_input = all_input();
    rules(&bed, &[BLIND, &all_input]);
    assert_eq!(counts(&reparse(&bed, &["--write"])), [1, 0, 0]);
    assert_eq!((bed.record("greeting")["cost"].clone(), books(&bed)), (json!(50_000), (json!(50_000), json!(0))));
    is_sound(&bed);
}

#[test]
fn what_was_reserved_counts_against_the_cap_until_the_cost_is_told() {
    let bed = planned(&[BLIND], "repeats: 3\nparallel_runs: 1\nbudget_usd: 1\nlimits: {cell_cost: 0.50}\n");
    let run = ["run", "runs/demo.yaml", "--progress", "lines", "--accept-changes"];
    let ran = bed.run(&run);
    assert_eq!(ran.code, Some(12), "{ran:?}");
    assert!(ran.stderr.contains("2 session(s) told no usage"), "{ran:?}");
    rules(&bed, &[BLIND, RIGHT]);
    assert_eq!(counts(&reparse(&bed, &["--write"])), [2, 0, 0]);
    assert_eq!(books(&bed), (json!(82_000), json!(0)), "nothing stands for what is known");
    assert_eq!(bed.record("r1")["cost"], json!(41_000));
    assert_eq!(bed.results()[0]["billable_micros"], json!(41_000));
    is_sound(&bed);
    let ran = bed.run(&run);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!((bed.results().len(), books(&bed).0), (3, json!(123_000)));
}

#[test]
fn how_it_ended_is_told_anew_and_the_verdict_stays() {
    let failing = BLIND.replace("completed", "refused");
    let bed = project(&[&failing, RIGHT], 1);
    let before = bed.record("greeting");
    assert_eq!(before["sessions"][0]["end"], json!({"kind": "refused", "message": "done"}));
    rules(&bed, &[BLIND, RIGHT]);
    let shown = bed.run(&["reparse", "--write"]).stdout;
    assert!(shown.contains("refused: done") && shown.contains("completed"), "{shown}");
    let after = bed.record("greeting");
    assert_eq!(after["sessions"][0]["end"], json!({"kind": "completed"}));
    for kept in ["verdict", "terminal", "exit_class", "error_class", "solved", "cost"] {
        assert_eq!(after[kept], before[kept], "{kept}");
    }
}

#[test]
fn logs_that_are_gone_or_damaged_and_harnesses_that_are_gone_are_told_and_counted() {
    let bed = project(&[BLIND], 3);
    rules(&bed, &[BLIND, RIGHT]);
    let mut logs: Vec<_> =
        walk(&bed.path().join(".refrain/runs")).into_iter().filter(|path| path.ends_with("stdout.log.gz")).collect();
    logs.sort();
    std::fs::remove_file(&logs[0]).expect("removed");
    let bytes = std::fs::read(&logs[1]).expect("read");
    std::fs::write(&logs[1], &bytes[..bytes.len() / 2]).expect("cut");
    let told = reparse(&bed, &["--write"]);
    assert_eq!(counts(&told), [1, 0, 2], "{told:#}");
    let reasons: Vec<_> =
        told["sessions"].as_array().expect("a list").iter().filter_map(|one| one["reason"].as_str()).collect();
    assert!(reasons.contains(&"its logs are gone"), "{reasons:?}");
    assert!(reasons.iter().any(|why| why.starts_with("its stdout.log cannot be read")), "{reasons:?}");
    is_sound(&bed);

    std::fs::remove_dir_all(bed.path().join("mine")).expect("removed");
    let ran = bed.run(&["reparse", "--write"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.contains("its harness `mine` is not known any more"), "{ran:?}");
    assert!(ran.stdout.contains("0 session(s) changed, 0 stay as they are, 3 skipped"), "{ran:?}");
}

#[test]
fn a_price_that_is_not_that_of_the_record_changes_nothing() {
    let bed = project(&[BLIND, RIGHT], 1);
    bed.file("prices.toml", &PRICES.replace("2026-11-01", "2026-11-02").replace("input = 10", "input = 20"));
    assert_eq!(counts(&reparse(&bed, &["--write"])), [0, 1, 0], "the same tokens cost what they cost");
    rules(&bed, &[BLIND, &RIGHT.replace("in - cached", "in")]);
    let told = reparse(&bed, &["--write"]);
    assert_eq!(counts(&told), [0, 0, 1]);
    assert!(told["sessions"][0]["reason"].as_str().expect("why").contains("`small` of 2026-11-01"), "{told:#}");
}

#[test]
fn a_process_that_is_killed_leaves_all_of_the_old_or_all_of_the_new() {
    let bed = project(&[BLIND, RIGHT], 4);
    let costs = || -> Vec<Value> { bed.results().iter().map(|row| row["total_cost_micros"].clone()).collect() };
    let (right, dearer) = (vec![json!(41_000); 4], vec![json!(50_000); 4]);
    let all_input = all_input();
    let mut now = right.clone();
    let mut killed = 0;
    for step in 0..14_u64 {
        let to_dearer = now == right;
        rules(&bed, &[BLIND, if to_dearer { &all_input } else { RIGHT }]);
        let wanted = if to_dearer { &dearer } else { &right };
        let mut child = bed.start(&["reparse", "--write"]);
        std::thread::sleep(Duration::from_millis(step * 25));
        killed += u32::from(child.try_wait().expect("asked").is_none());
        let _ = child.kill();
        child.wait().expect("ended");
        let found = costs();
        assert!(found == now || found == *wanted, "{found:?}");
        is_sound(&bed);
        now = found;
    }
    assert!(killed > 0, "one at least was killed while it worked");
    // What the last one had no time for is made up for: also the files beside the logs.
    rules(&bed, &[BLIND, RIGHT]);
    reparse(&bed, &["--write"]);
    assert_eq!(costs(), right);
    for path in walk(&bed.path().join(".refrain/runs")).into_iter().filter(|path| path.ends_with("run_record.json")) {
        let record: Value = serde_json::from_slice(&std::fs::read(path).expect("read")).expect("JSON");
        assert_eq!(record["cost"], 41_000);
    }
}
