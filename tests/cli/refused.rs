//! Sessions that the budget refuses, and hosts that die after that.

use crate::bed::TestBed;
use crate::resuming::{
    CELL, SCRIPT, agents, database, end_the_agent, kill_in_the_second_session, project, wait_for_a_result, warnings,
};

/// A free cell whose script is refused a paid session, and whose host is killed in the one after that.
fn killed_after_a_refusal() -> TestBed {
    let bed = project();
    let file = std::fs::read_to_string(bed.path().join("runs/demo.yaml")).expect("read");
    let models = "{name: scripted-small, provider: none, cost_mode: subscription}, \
                  {name: scripted-large, provider: none, role: review}";
    bed.file("runs/demo.yaml", &(file.replace("{name: scripted-small, provider: none}", models) + "budget_usd: 0\n"));
    let refused = "local ok, why = pcall(session, \"refused\", { model = \"scripted-large\" })\n\
                   log.info(tostring(ok) .. tostring(why))\nlocal second = session(";
    bed.file("two/runner.lua", &SCRIPT.replace("local second = session(", refused));
    kill_in_the_second_session(&bed);
    bed
}

#[test]
fn a_session_after_one_that_was_refused_keeps_its_number_and_its_money_when_its_host_dies() {
    let bed = killed_after_a_refusal();
    end_the_agent(&bed);
    bed.file("go", "");
    let ran = bed.run(&["resume", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(agents(&bed), ["first", "second", "second"]);
    let record = bed.record(CELL);
    let numbers: Vec<_> = record["sessions"].as_array().expect("a list").iter().map(|held| &held["index"]).collect();
    assert_eq!(numbers, [1, 3], "{record}");
    assert!(record["script_log"].to_string().contains("the run's budget is used up"), "{record}");
    assert!(record["cost"].is_null() && warnings(&record).contains("session 3 was cut off"), "{record}");
    let unknown = "SELECT reference FROM ledger WHERE amount_micros IS NULL";
    let found: String = database(&bed).query_row(unknown, [], |row| row.get(0)).expect("one entry");
    assert_eq!(found, "s3 cut off 1");
}

#[test]
fn a_session_after_one_that_was_refused_is_not_held_twice_where_its_agent_has_finished() {
    let bed = killed_after_a_refusal();
    bed.file("go", "");
    wait_for_a_result(&bed, 3);
    let ran = bed.run(&["resume", "--progress", "lines"]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(agents(&bed), ["first", "second"]);
    let record = bed.record(CELL);
    assert_eq!((&record["cost"], record["sessions"].as_array().map(Vec::len)), (&300.into(), Some(2)), "{record}");
}
