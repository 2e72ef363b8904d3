//! Money: caps of runs, cells and sessions that stop what runs, debts that stay, and prices of one's own.

use serde_json::Value;

use crate::bed::{Ran, TestBed, play};

/// Steps of an agent that spends ten cents a second, and does not stop by itself.
const SPENDER: &str = "[{message: working}, {usage: {input: 100000, output: 0}}, {sleep: 0.7}, \
                       {usage: {input: 100000, output: 0}}, {sleep: 0.7}, {usage: {input: 100000, output: 0}}, \
                       {sleep: 0.7}, {usage: {input: 100000, output: 0}}, {sleep: 60}]";

/// An agent that spends ten cents and is done.
const TEN_CENTS: &str =
    "[{message: done}, {write: {path: greet.sh, content: echo hello world}}, {usage: {input: 100000, output: 0}}]";

const CELL: &str = "scripted__scripted-small__greeting__r1";

fn project(steps: &str, settings: &str) -> TestBed {
    let bed = TestBed::with_play(&play(&[steps]));
    bed.file("runs/demo.yaml", &TestBed::run_file(settings));
    bed
}

/// Adds an orchestrator named `mine` with this script.
fn with_script(bed: &TestBed, script: &str) {
    bed.file(
        "mine/orchestrator.toml",
        "slug = \"mine\"\nname = \"Mine\"\ndescription = \"Mine.\"\nrunner = \"runner.lua\"\napi = 1\n",
    );
    bed.file("mine/runner.lua", script);
}

fn run(bed: &TestBed) -> Ran {
    bed.run(&["run", "runs/demo.yaml", "--progress", "lines"])
}

fn status(bed: &TestBed) -> Value {
    serde_json::from_str(&bed.run(&["status", "--json"]).stdout).expect("valid JSON")
}

fn sessions(record: &Value) -> &Vec<Value> {
    record["sessions"].as_array().expect("a list")
}

#[test]
fn a_session_is_stopped_while_it_runs() {
    let bed = project(SPENDER, "repeats: 1\nlimits: {session_cost: 0.15}\n");
    let ran = run(&bed);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let record = bed.record(CELL);
    assert_eq!((record["error_class"].as_str(), &record["cost"]), (Some("limit"), &200_000.into()), "{record}");
    assert!(record["failure"].to_string().contains("cost limit of $0.1500 reached: $0.2000 spent"), "{record}");
}

#[test]
fn a_scripts_own_limit_stops_a_session_too() {
    let bed = project(SPENDER, "repeats: 1\norchestrators: [{dir: ../mine}]\n");
    with_script(&bed, "local result = session(task.prompt, { max_cost = 0.05 })\nlog.info(result.status)\n");
    let ran = run(&bed);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let record = bed.record("greeting");
    assert_eq!(sessions(&record)[0]["cost"], 100_000);
    assert_eq!(record["script_log"], serde_json::json!(["info: limit"]));
}

#[test]
fn sessions_side_by_side_share_what_the_cell_has() {
    let bed = project(SPENDER, "repeats: 1\nlimits: {cell_cost: 0.25}\norchestrators: [{dir: ../mine}]\n");
    with_script(
        &bed,
        "local parallel = require('@std/parallel')\nlocal fork = require('@std/fork')\n\
         parallel.map({ fork.create(), fork.create() }, function(copy)\n\
         return session('go', { workspace = copy })\nend)\n",
    );
    let ran = run(&bed);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let record = bed.record("greeting");
    assert_eq!(sessions(&record).len(), 2, "{record}");
    let cost = record["cost"].as_i64().expect("known");
    // Each spends in steps of ten cents: one step each is allowed, and the first to take another is stopped with it; the
    // other one notices at its own next step. Alone, each could have spent thirty.
    assert!((300_000..=400_000).contains(&cost), "{record}");
    assert!(sessions(&record).iter().all(|session| session["cost"].as_i64() <= Some(200_000)), "{record}");
}

#[test]
fn what_is_promised_to_one_session_is_kept_from_the_others() {
    let slow = TEN_CENTS.replace("[{message: done}", "[{message: done}, {sleep: 3}");
    let bed = project(&slow, "repeats: 1\nlimits: {cell_cost: 0.50}\norchestrators: [{dir: ../mine}]\n");
    with_script(
        &bed,
        "local parallel = require('@std/parallel')\nlocal budget = require('@std/budget')\n\
         local clock = require('@std/clock')\nparallel.map({ 'spend', 'look' }, function(what)\n\
         if what == 'spend' then return session('a', { max_cost = 0.40 }) end\n\
         clock.sleep(1)\nlog.info(string.format('%.2f', budget.remaining()))\nreturn nil\nend)\n\
         log.info(string.format('%.2f', budget.remaining()))\n",
    );
    let ran = run(&bed);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let log = bed.record("greeting")["script_log"].clone();
    assert_eq!(log, serde_json::json!(["info: 0.10", "info: 0.40"]));
}

#[test]
fn the_runs_cap_stops_a_session_and_the_debt_stays() {
    let bed = project(SPENDER, "repeats: 2\nbudget_usd: 0.25\n");
    let ran = run(&bed);
    assert_eq!(ran.code, Some(12), "{}", ran.stderr);
    let skipped = "Budget cap reached (-$0.0500 remaining < $0.3000 estimated)";
    assert!(ran.stderr.contains(skipped), "{}", ran.stderr);
    assert!(ran.stderr.contains("Billable cost: $0.3000 / $0.2500 budget cap"), "{}", ran.stderr);
    assert_eq!(bed.results()[0]["error_class"], "limit");
    // The same command again: the money is still gone.
    let again = run(&bed);
    assert_eq!(again.code, Some(12), "{}", again.stderr);
    assert!(again.stderr.contains(skipped), "{}", again.stderr);
    assert_eq!(bed.results().len(), 1);
}

#[test]
fn a_cap_of_zero_is_a_cap_and_a_subscription_is_free_of_it() {
    let bed = project(TEN_CENTS, "repeats: 1\nbudget_usd: 0\n");
    let ran = run(&bed);
    assert_eq!(ran.code, Some(12), "{}", ran.stderr);
    assert!(ran.stderr.contains("Budget cap reached ($0.0000 remaining)"), "{}", ran.stderr);
    let file = TestBed::run_file("repeats: 1\nbudget_usd: 0\n");
    bed.file("runs/demo.yaml", &file.replace("provider: scripted}", "provider: scripted, cost_mode: subscription}"));
    let ran = run(&bed);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let now = status(&bed);
    assert_eq!((&now["money"]["total_micros"], &now["money"]["billable_micros"]), (&100_000.into(), &0.into()));
}

#[test]
fn a_paid_model_counts_in_an_exempt_cell() {
    let bed = project(TEN_CENTS, "repeats: 1\nbudget_usd: 1\norchestrators: [{dir: ../mine}]\n");
    let models = "models:\n  - {name: scripted-small, provider: scripted, cost_mode: subscription}\n  \
                  - {name: scripted-large, provider: scripted, role: review}\n";
    let file = TestBed::run_file("repeats: 1\nbudget_usd: 1\norchestrators: [{dir: ../mine}]\n");
    bed.file("runs/demo.yaml", &file.replace("models:\n  - {name: scripted-small, provider: scripted}\n", models));
    with_script(&bed, "session(task.prompt)\nsession('look at it', { model = 'scripted-large' })\n");
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines", "--only", "*small*"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let now = status(&bed);
    assert_eq!((&now["money"]["total_micros"], &now["money"]["billable_micros"]), (&600_000.into(), &500_000.into()));
    let row = &bed.results()[0];
    assert_eq!((&row["total_cost_micros"], &row["billable_micros"]), (&600_000.into(), &500_000.into()));
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
}

#[test]
fn the_runs_cap_stops_a_paid_session_of_an_exempt_cell_and_no_other() {
    let bed = project(SPENDER, "");
    let models = "models:\n  - {name: scripted-small, provider: scripted, cost_mode: subscription}\n  \
                  - {name: scripted-large, provider: scripted, role: review}\n";
    let file = TestBed::run_file("repeats: 1\nbudget_usd: 0.60\norchestrators: [{dir: ../mine}]\n");
    bed.file("runs/demo.yaml", &file.replace("models:\n  - {name: scripted-small, provider: scripted}\n", models));
    // The first one spends 20 cents of nobody's budget before its own limit stops it.
    with_script(
        &bed,
        "session(task.prompt, { max_cost = 0.15 })\nlocal paid = session('x', { model = 'scripted-large' })\n\
         log.info(paid.reason)\nlocal refused, why = pcall(session, 'x', { model = 'scripted-large' })\n\
         log.info(tostring(why))\nlog.info(session('x', { max_cost = 0.05 }).reason)\n",
    );
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "lines", "--only", "*small*"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let record = bed.record("greeting");
    let costs: Vec<_> = sessions(&record).iter().map(|session| session["cost"].as_i64()).collect();
    // A step of the dear model is 50 cents: two of them are over the cap, and there is no third.
    assert_eq!(costs, [Some(200_000), Some(1_000_000), Some(100_000)], "{record}");
    let log = record["script_log"].to_string();
    assert!(log.contains("cost limit of $0.6000 reached: $1.0000 spent"), "{log}");
    assert!(log.contains("the run's budget is used up"), "{log}");
    assert_eq!((&record["cost"], &record["billable_cost"]), (&1_300_000.into(), &1_000_000.into()));
}

#[test]
fn a_cells_limit_is_for_all_its_attempts() {
    let steps = "[{message: x}, {usage: {input: 100000, output: 0}}, {provider: overloaded}]";
    let bed = project(steps, "repeats: 1\nlimits: {cell_cost: 0.10}\nretry: {infrastructure: 2}\n");
    let ran = run(&bed);
    assert_eq!(ran.code, Some(11), "{}", ran.stderr);
    let row = &bed.results()[0];
    // Nothing is left for a second attempt: how the first one ended is how the cell did, and that decides nothing.
    assert_eq!((&row["total_cost_micros"], &row["attempt"]), (&100_000.into(), &1.into()), "{row}");
    assert_eq!(row["terminal_state"], "infrastructure_error", "{row}");
    let again = run(&bed);
    assert_eq!(again.code, Some(12), "{}", again.stderr);
    assert!(again.stderr.contains("the cell's limit of $0.1000 is used up"), "{}", again.stderr);
    let file = TestBed::run_file("repeats: 1\nlimits: {cell_cost: 0.30}\nretry: {infrastructure: 0}\n");
    bed.file("runs/demo.yaml", &file);
    assert_eq!(run(&bed).code, Some(11));
    assert_eq!(bed.results()[0]["attempt"], 2, "with a higher limit it is tried again");
}

#[test]
fn a_capped_run_of_unknown_costs_stops_and_goes_on_once_that_is_settled() {
    // Its stream tells no tokens.
    let mute = "[{message: done}, {write: {path: greet.sh, content: echo hello world}}]";
    let bed = project(mute, "repeats: 5\nparallel_runs: 1\nbudget_usd: 1\nlimits: {cell_cost: 0.50}\n");
    let ran = run(&bed);
    assert_eq!(ran.code, Some(12), "{}", ran.stderr);
    assert_eq!(bed.results().len(), 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("Budget cap reached ($0.0000 remaining < $0.5000 estimated)"), "{}", ran.stderr);
    let listed = bed.run(&["store", "settle", "demo"]);
    assert!(listed.stdout.contains("$0.5000 counts against the cap"), "{listed:?}");
    assert_eq!(bed.run(&["store", "settle", "demo", "--release", "--reason", "a free model"]).code, Some(0));
    assert_eq!(run(&bed).code, Some(12));
    assert_eq!(bed.results().len(), 4);
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
}

#[test]
fn a_cell_that_finds_the_runs_budget_used_up_before_its_first_session_is_skipped_and_not_decided() {
    // What each of three cells may spend is what is reserved for it, and what nobody has reserved: two of them spend that.
    let steps = "[{message: done}, {write: {path: greet.sh, content: echo hello world}}, \
                 {usage: {input: 500000, output: 0}}]";
    let settings = |dollars: &str| format!("repeats: 4\nparallel_runs: 3\nbudget_usd: {dollars}\n");
    let bed = project(steps, &settings("1"));
    let task = std::fs::read_to_string(bed.path().join("tasks/greeting/task.yaml")).expect("read");
    // The third one to come is set up until both are judged.
    let setup = format!(
        "setup_script: |\n  cd '{}'\n  if mkdir one || mkdir two; then exit 0; fi\n  if mkdir three; then\n    \
         until [ $(grep -c . judged) -ge 2 ]; do sleep 0.05; done\n  fi\n  exit 0\n",
        bed.path().display()
    );
    bed.file("tasks/greeting/task.yaml", &format!("{task}{setup}"));
    bed.file("judged", "");
    let hidden = std::fs::read_to_string(bed.path().join("tasks/greeting/tests/hidden.sh")).expect("read");
    let noted = format!("echo one more >> '{}'\n{hidden}", bed.path().join("judged").display());
    bed.file("tasks/greeting/tests/hidden.sh", &noted);
    let ran = run(&bed);
    assert_eq!(ran.code, Some(12), "{}", ran.stderr);
    // A cell that comes a little later finds less, and is stopped at that: either way it is decided.
    assert!(ran.stderr.contains("0 errored, 2 skipped"), "{}", ran.stderr);
    assert!(ran.stderr.contains("the run's budget was used up before its first session"), "{}", ran.stderr);
    bed.file("runs/demo.yaml", &TestBed::run_file(&settings("20")));
    let ran = run(&bed);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.contains("0 errored, 0 skipped"), "{}", ran.stderr);
    assert_eq!(bed.results().len(), 4);
    assert_eq!(bed.run(&["store", "check"]).code, Some(0));
}

#[test]
fn prices_of_ones_own_go_first() {
    let price = |dollars: u32| {
        format!(
            "[[price]]\nmodel = \"scripted-small\"\ninput = {dollars}\noutput = 0\ncache_read = 0\ncache_write = 0\n\
             date = \"2026-11-01\"\nsource = \"our contract\"\n"
        )
    };
    let bed = project(TEN_CENTS, "repeats: 1\nprices: ours.toml\n");
    bed.file("runs/ours.toml", &price(2));
    assert_eq!(run(&bed).code, Some(0));
    assert_eq!(bed.results()[0]["total_cost_micros"], 200_000);
    // Whoever asks later sees what it was priced by.
    let used = sessions(&bed.record(CELL))[0]["price"].clone();
    assert_eq!((used["date"].as_str(), used["source"].as_str()), (Some("2026-11-01"), Some("our contract")));
    assert_eq!(used["model"], "scripted-small");
    assert!(used["file"].as_str().is_some_and(|file| file.ends_with("runs/ours.toml")), "{used}");

    let bed = project(TEN_CENTS, "repeats: 1\nprices: [ours.toml]\n");
    bed.file("runs/ours.toml", &price(2));
    bed.file("dearer.toml", &price(7));
    let ran = bed.run(&["run", "runs/demo.yaml", "--progress", "none", "--prices", "dearer.toml"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(bed.results()[0]["total_cost_micros"], 700_000);
}

#[test]
fn a_price_file_that_is_wrong_stops_the_run_before_it_begins() {
    for (content, expected) in [
        (None, "the price file `[dir]/runs/ours.toml` cannot be read"),
        (Some("[[price]]\nmodel = \"m\"\ninput = 1\noutput = 1\nsource = \"x\"\n"), "missing field `date`"),
        (
            Some("[[price]]\nmodel = \"m\"\ninput = -1\noutput = 1\ndate = \"2026-01-01\"\nsource = \"x\"\n"),
            "is no price",
        ),
    ] {
        let bed = project(TEN_CENTS, "repeats: 1\nprices: ours.toml\n");
        if let Some(content) = content {
            bed.file("runs/ours.toml", content);
        }
        let ran = run(&bed);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(expected), "{}", ran.stderr);
        assert!(!bed.path().join("refrain.db").exists());
    }
}

#[test]
fn an_error_that_is_not_the_agents_is_counted_once() {
    let bed = project(TEN_CENTS, "repeats: 1\norchestrators: [{dir: ../mine}]\n");
    with_script(&bed, "session(task.prompt)\nerror('lost the thread')\n");
    for _ in 0..2 {
        let ran = run(&bed);
        assert_eq!(ran.code, Some(11), "{}", ran.stderr);
        assert!(ran.stderr.contains("1 cell: 0 passed, 0 failed, 1 errored, 0 skipped"), "{}", ran.stderr);
    }
}

#[test]
fn what_is_to_be_settled_must_be_there() {
    let bed = project(TEN_CENTS, "repeats: 1\n");
    assert_eq!(run(&bed).code, Some(0));
    for (place, told) in [
        ("x#x", "`x#x` names no attempt of a cell"),
        ("#9", "`#9` names no attempt of a cell"),
        ("greeting#0", "`greeting#0` names no attempt of a cell"),
        ("greeting#9", "has no attempt 9; its last one is 1"),
        ("farewell", "no cell `farewell`"),
        ("greeting#1", "there is nothing to settle"),
    ] {
        let ran = bed.run(&["store", "settle", "demo", place, "--release", "--reason", "x"]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(told), "{place}: {}", ran.stderr);
    }
    let negative = bed.run(&["store", "settle", "demo", "greeting#1", "--cost", "-1", "--reason", "x"]);
    assert!(negative.code == Some(2) && negative.stderr.contains("zero or more"), "{negative:?}");
}
