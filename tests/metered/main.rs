//! Runs of the program whose agents go through the gateway: what is counted, capped, kept and kept secret.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod alone;
mod canary;
mod cassettes;
mod outages;
#[path = "../program/mod.rs"]
mod program;
mod project;
mod provider;
#[path = "../requests/mod.rs"]
mod requests;
mod unpriced;

use refrain::domain::{CellId, Micros, RunName, SessionRecord, UsageSource};
use refrain::store::Store;

use program::wait_until;
use project::{KEY, Project};
use provider::{COST, Provider};

fn micros(requests: i64) -> Micros {
    Micros::new(requests * COST)
}

fn run_named(name: &str) -> RunName {
    RunName::new(name).unwrap()
}

fn run_name() -> RunName {
    run_named("metered")
}

fn sessions(project: &Project) -> Vec<SessionRecord> {
    let store = Store::open_read_only(&project.path().join("runs/refrain.db")).unwrap();
    let attempts = store.attempts(&run_name(), &CellId::from_stored(project::CELL)).wait().unwrap();
    let records = attempts.iter().map(|row| store.sessions(&row.id).wait().unwrap());
    records.flatten().collect()
}

fn is_clean(project: &Project) {
    let report = Store::open_read_only(&project.path().join("runs/refrain.db")).unwrap().check(None).wait().unwrap();
    assert!(report.is_clean(), "{report:?}");
}

#[test]
fn what_passes_is_counted_and_no_key_comes_near_the_agent() {
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(3); env()", "");
    let ran = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let session = sessions(&project).remove(0);
    assert_eq!((session.usage.input, session.usage.output), (Some(3_000), Some(300)));
    assert_eq!((session.cost, session.api_calls), (Some(micros(3)), Some(3)));
    assert_eq!(session.usage_source, Some(UsageSource::Gateway));
    assert!(session.reported_usage.is_unknown(), "the agent tells nothing");
    let asked = provider.asked();
    assert_eq!(asked.len(), 3);
    assert!(asked.iter().all(|asked| asked.path == "/v1/messages" && asked.headers.contains(KEY)), "{asked:?}");
    assert!(asked.iter().all(|asked| !asked.headers.contains("sk-refrain")), "{asked:?}");
    let env = project.left("env.txt");
    assert!(env.contains("sk-refrain-") && !env.contains(KEY), "the agent has a token and no key: {env}");
    let kept = project.everything_kept();
    for secret in [KEY.as_bytes(), b"sk-refrain-"] {
        let found = kept.iter().find(|(_, bytes)| bytes.windows(secret.len()).any(|window| window == secret));
        assert_eq!(found.map(|(path, _)| path), None, "a secret is on disk");
    }
    let store = Store::open_read_only(&project.path().join("runs/refrain.db")).unwrap();
    let calls = store.calls(&run_name(), None).wait().unwrap();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.booked_as.as_deref() == Some("s1") && !call.under_way), "{calls:?}");
    assert_eq!(calls[2].exchange.model_served.as_deref(), Some("claude-sonnet-4-5"));
    is_clean(&project);
    let shown = project.run(&["show", project::CELL]);
    assert!(shown.stdout.contains("by the gateway (3 requests)"), "{shown:?}");
    let events = project.events();
    assert_eq!(events.iter().filter(|event| event.contains("\"session_spend\"")).count(), 3);
    assert!(events.iter().any(|event| event.contains("\"run_cost\":13500")), "{events:?}");
}

#[test]
fn a_ceiling_refuses_the_next_request_and_ends_the_session() {
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(50)", "limits: {session_cost: 0.009}\n");
    let ran = project.run(&["run", "runs/metered.yaml"]);
    let session = sessions(&project).remove(0);
    assert_eq!(session.end.status().as_str(), "limit", "{:?} {ran:?}", session.end);
    assert!(session.end.reason().contains("cost limit of $0.009"), "{:?}", session.end);
    assert_eq!(provider.asked().len(), 2, "nothing is spent beyond what was under way");
    assert_eq!(session.cost, Some(micros(2)));
    is_clean(&project);
}

#[test]
fn a_runs_cap_ends_sessions_of_all_its_cells() {
    let provider = Provider::start();
    let settings = "budget_usd: 0.0135\nrepeats: 2\nparallel_runs: 2\n";
    let project = Project::new(&provider, "asks(50, 0.05)", settings);
    project.run(&["run", "runs/metered.yaml"]);
    let asked = provider.asked().len();
    // Three requests fill the cap; of the two cells each may have one more under way.
    assert!((3..=5).contains(&asked), "{asked}");
    is_clean(&project);
}

#[test]
fn what_a_killed_host_had_seen_is_on_the_books_to_the_micro_dollar() {
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(2); once(600); asks(1)", "");
    let mut host = project.start(&["run", "runs/metered.yaml"]);
    project.wait_for("waiting");
    host.kill().expect("killed");
    host.wait().expect("dead");
    let ran = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(provider.asked().len(), 5);
    let store = Store::open_read_only(&project.path().join("runs/refrain.db")).unwrap();
    let totals = store.ledger_totals(&run_name()).wait().unwrap();
    assert_eq!((totals.total, totals.unknown), (micros(5), 0), "{:?}", store.ledger(&run_name()).wait());
    is_clean(&project);
}

#[test]
fn what_a_killed_host_had_seen_of_a_free_cell_costs_the_budget_nothing() {
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(2); once(600); asks(1)", "budget_usd: 0\n")
        .with_model("cost_mode: subscription, auth_mode: api_key");
    let mut host = project.start(&["run", "runs/metered.yaml"]);
    project.wait_for("waiting");
    host.kill().expect("killed");
    host.wait().expect("dead");
    let ran = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("lost its host"), "it is given up: {ran:?}");
    let store = Store::open_read_only(&project.path().join("runs/refrain.db")).unwrap();
    let totals = store.ledger_totals(&run_name()).wait().unwrap();
    assert_eq!((totals.total, totals.billable_spent, totals.unknown), (micros(5), Micros::ZERO, 0), "{totals:?}");
    let attempts = store.attempts(&run_name(), &CellId::from_stored(project::CELL)).wait().unwrap();
    let costs: Vec<_> = attempts.iter().map(|row| (row.cost, row.billable)).collect();
    assert_eq!(costs, [2, 3].map(|requests| (Some(micros(requests)), Some(Micros::ZERO))));
    is_clean(&project);
}

#[test]
fn a_request_that_was_under_way_when_the_host_was_killed_is_lost_and_said_to_be() {
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(1); hangs_once(); asks(1)", "");
    let mut host = project.start(&["run", "runs/metered.yaml"]);
    wait_until("the hanging request is on record", || {
        let store = Store::open_read_only(&project.path().join("runs/refrain.db")).ok()?;
        let calls = store.calls(&run_name(), None).wait().ok()?;
        (calls.len() == 2 && calls.iter().filter(|call| call.under_way).count() == 1).then_some(())
    });
    host.kill().expect("killed");
    host.wait().expect("dead");
    let ran = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let store = Store::open_read_only(&project.path().join("runs/refrain.db")).unwrap();
    let totals = store.ledger_totals(&run_name()).wait().unwrap();
    assert_eq!(totals.total, micros(3), "a lower bound");
    assert!(totals.unknown > 0, "and said to be one");
    let calls = store.calls(&run_name(), None).wait().unwrap();
    let lost = calls.iter().filter(|call| call.exchange.end.as_str() == "lost").count();
    assert_eq!((lost, calls.iter().filter(|call| call.under_way).count()), (1, 0));
    is_clean(&project);
}

#[test]
fn a_run_is_played_again_from_its_tape_without_a_provider_and_without_a_key() {
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(2)", "gateway: {cassette: record, cassette_file: ../run.tape}\n");
    let recorded = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!((recorded.code, provider.asked().len()), (Some(0), 2), "{recorded:?}");
    let again = ["run", "runs/metered.yaml", "--set", "name=again", "--set", "gateway.cassette=replay"];
    let played = project.run_without_key(&again);
    assert_eq!((played.code, provider.asked().len()), (Some(0), 2), "nobody was asked: {played:?}");
    let store = Store::open_read_only(&project.path().join("runs/refrain.db")).unwrap();
    let calls = store.calls(&run_named("again"), None).wait().unwrap();
    assert_eq!(calls.iter().map(|call| call.exchange.usage.input).collect::<Vec<_>>(), [Some(1_000); 2], "{calls:?}");
    is_clean(&project);
}

#[test]
fn without_the_gateway_the_agent_has_the_key_and_nothing_is_counted() {
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(1); env()", "gateway: {mode: \"off\"}\n");
    let ran = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let session = sessions(&project).remove(0);
    assert_eq!((session.usage_source, session.api_calls), (Some(UsageSource::Harness), None));
    assert!(session.usage.is_unknown() && session.cost.is_none());
    assert!(!project.left("env.txt").contains("sk-refrain-"));
}
