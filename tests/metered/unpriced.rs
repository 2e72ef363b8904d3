//! Models without a price, and models that answer in the place of others.

use refrain::domain::Micros;
use refrain::domain::session::SessionEnd;

use crate::program::Ran;
use crate::project::{self, Project};
use crate::provider::{COST, Provider};
use crate::{is_clean, sessions};

fn result(project: &Project) -> serde_json::Value {
    let ran = project.run(&["results", "--json"]);
    let results: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    results["results"][0].clone()
}

fn run(project: &Project) -> Ran {
    project.run(&["run", "runs/metered.yaml"])
}

#[test]
fn where_a_ceiling_applies_a_model_without_a_price_ends_the_attempt_as_wrongly_configured() {
    for ceiling in ["budget_usd: 1\n", "limits: {cell_cost: 1}\n", "limits: {session_cost: 1}\n"] {
        let provider = Provider::start();
        let project = Project::new(&provider, "asks(1); ask('a title', 'mystery-1'); asks(1)", ceiling);
        let ran = run(&project);
        assert_eq!(ran.code, Some(11), "no verdict on the agent: {ran:?}");
        assert_eq!(provider.asked().len(), 1, "the request was not sent, and nothing followed");
        let session = sessions(&project).remove(0);
        let SessionEnd::Misconfigured { message } = &session.end else { panic!("{:?}", session.end) };
        for part in ["`mystery-1` has no price", "a ceiling of $1.", "`allow_unpriced: true`", "`prices`"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!((session.cost, session.api_calls), (Some(Micros::new(COST)), Some(2)));
        let result = result(&project);
        assert_eq!((result["error_class"].as_str(), result["solved"].as_bool()), (Some("configuration"), None));
        let shown = project.run(&["show", project::CELL]);
        assert!(
            shown.stdout.contains("`mystery-1` has no price") && shown.stdout.contains("[configuration]"),
            "{shown:?}"
        );
        is_clean(&project);
    }
}

#[test]
fn where_it_may_a_model_without_a_price_passes_and_is_said_to_be_unknown() {
    for settings in ["limits: {session_cost: 1}\nallow_unpriced: true\n", ""] {
        let provider = Provider::start();
        let project = Project::new(&provider, "asks(1); ask('a title', 'mystery-1'); asks(1)", settings);
        let ran = run(&project);
        assert_eq!((ran.code, provider.asked().len()), (Some(0), 3), "{ran:?}");
        let session = sessions(&project).remove(0);
        assert_eq!((session.cost, session.cost_at_least), (None, Some(Micros::new(2 * COST))));
        assert_eq!(session.usage.input, Some(3_000), "its tokens are known");
        let told = "model `mystery-1` has no price: what 1 request(s) to it cost is unknown, and no ceiling holds them";
        assert_eq!(session.warnings, [told]);
        assert!(project.run(&["show", project::CELL]).stdout.contains(told));
        assert!(ran.stderr.contains("at least $0.0090"), "{}", ran.stderr);
        is_clean(&project);
    }
}

#[test]
fn a_run_whose_own_model_has_no_price_does_not_start_under_a_ceiling() {
    for (ceiling, name) in [
        ("limits: {session_cost: 1}\n", "`limits.session_cost` is set"),
        ("limits: {cell_cost: 1}\n", "`limits.cell_cost` is set"),
        ("budget_usd: 1\n", "the budget is capped"),
    ] {
        let provider = Provider::start();
        let project = Project::new(&provider, "asks(1)", ceiling);
        let ran = project.run(&[
            "run",
            "runs/metered.yaml",
            "--set",
            "models=[{name: mystery-1, provider: anthropic, api_key_env: FAKE_KEY}]",
        ]);
        assert_eq!((ran.code, provider.asked().len()), (Some(2), 0), "{ran:?}");
        let told = format!("{name}, but nobody knows what `mystery-1` costs");
        assert!(ran.stderr.contains(&told) && ran.stderr.contains("allow_unpriced"), "{}", ran.stderr);
    }
}

#[test]
fn a_model_that_answers_in_the_place_of_another_is_told_and_has_its_own_price() {
    let provider = Provider::start();
    let does = "ask('as claude-sonnet-4-5-20250929'); ask('as claude-haiku-4-5-20251001')";
    let project = Project::new(&provider, does, "");
    let ran = run(&project);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let session = sessions(&project).remove(0);
    let told = "model: asked for `claude-sonnet-4-5`, answered by `claude-haiku-4-5-20251001` (1 request(s))";
    assert_eq!(session.discrepancies, [told], "a dated release of what was asked is no other model");
    // 1,000 tokens in and 100 out, of Sonnet once and once of Haiku.
    assert_eq!(session.cost, Some(Micros::new(COST + 1_500)));
    assert!(project.run(&["show", project::CELL]).stdout.contains(&format!("differs: {told}")));
    assert_eq!(result(&project)["discrepancies"][0], told);
    let results = project.run(&["results"]).stdout;
    assert!(results.contains("1 of 1 cells have figures or models that differ"), "{results}");
    is_clean(&project);
}
