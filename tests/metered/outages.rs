//! Whose failure it is where a harness, of whose words Refrain knows nothing, gets no answer from its provider.

use refrain::domain::failure::ProviderFault;
use refrain::domain::session::SessionEnd;

use crate::project::Project;
use crate::provider::Provider;
use crate::{is_clean, sessions};

fn class(project: &Project) -> (String, Option<bool>) {
    let ran = project.run(&["results", "--json"]);
    let results: serde_json::Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let result = &results["results"][0];
    (result["error_class"].as_str().expect("a class").to_owned(), result["solved"].as_bool())
}

#[test]
fn where_every_request_fails_it_is_the_providers_failure_whatever_the_harness_makes_of_it() {
    // It exits with 1, with 0, and after it was stopped.
    let ways = ["ask('status 503')", "\ntry: ask('status 503')\nexcept Exception: pass"];
    for (fails, fault, class_of_it) in [
        (ways[0], ProviderFault::Overloaded, "infrastructure"),
        (ways[1], ProviderFault::Overloaded, "infrastructure"),
        ("ask('status 429')", ProviderFault::RateLimited, "infrastructure"),
        ("ask('status 401')", ProviderFault::Authentication, "configuration"),
    ] {
        let provider = Provider::start();
        let project = Project::new(&provider, fails, "");
        let ran = project.run(&["run", "runs/metered.yaml"]);
        assert_eq!(ran.code, Some(11), "no verdict on the agent: {ran:?}");
        let session = sessions(&project).remove(0);
        assert!(
            matches!(&session.end, SessionEnd::Provider { fault: found, .. } if *found == fault),
            "{:?}",
            session.end
        );
        assert_eq!(class(&project), (class_of_it.to_owned(), None));
        is_clean(&project);
    }
}

#[test]
fn where_one_was_answered_the_end_is_the_agents_and_where_what_was_asked_is_wrong_it_is_not_the_providers() {
    for (fails, is_agents) in [("asks(1); ask('status 503')", true), ("ask('status 400')", false)] {
        let provider = Provider::start();
        let project = Project::new(&provider, fails, "");
        let ran = project.run(&["run", "runs/metered.yaml"]);
        let end = sessions(&project).remove(0).end;
        assert_eq!(matches!(end, SessionEnd::AgentFailed { .. }), is_agents, "{end:?} {ran:?}");
        assert!(!matches!(end, SessionEnd::Provider { .. }), "{end:?}");
        is_clean(&project);
    }
}

#[test]
fn a_harness_that_hangs_before_it_asks_anything_never_began() {
    let provider = Provider::start();
    let project = Project::new(&provider, "time.sleep(600)", "limits: {idle_timeout: 1}\n");
    let ran = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(11), "no verdict on the agent: {ran:?}");
    let session = sessions(&project).remove(0);
    assert!(matches!(session.end, SessionEnd::NotStarted { .. }), "{:?}", session.end);
    assert_eq!(class(&project), ("infrastructure".to_owned(), None));
}
