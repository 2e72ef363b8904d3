//! Judges that score what people have scored.

use refrain::domain::{RunName, Trace};
use serde_json::{Value, json};

use super::project::{CELL, Project};
use super::provider::{COST, Does, Provider, scores};

/// Two examples: good work and bad.
fn examples(project: &Project) {
    let diff = |text: &str| {
        format!(
            "diff --git a/NOTE.md b/NOTE.md\nnew file mode 100644\n--- /dev/null\n+++ b/NOTE.md\n@@ -0,0 +1 @@\n+{text}\n"
        )
    };
    project.file("people/bad/example.yaml", "task: note\nscores: {clear: 2, right: 0}\n");
    project.file("people/bad/candidate.diff", &diff("The sum is 5."));
    project.file(
        "people/good/example.yaml",
        "task: note\nscores: {clear: 9, right: 10}\ndiff: work.diff\nchecked: [all is there]\n",
    );
    project.file("people/good/files/NOTE.md", "The sum is 4, as it lies there.\n");
    project.file("people/good/work.diff", &diff("The sum is 4."));
}

const CALIBRATE: [&str; 3] = ["calibrate", "runs/judged.yaml", "people"];

#[test]
fn agreement_is_found_kept_and_shown() {
    let provider = Provider::start(vec![scores(2.0, 3.0), scores(10.0, 10.0), scores(8.0, 8.0)]);
    let project = Project::new(&provider, "", "");
    examples(&project);
    let ran = project.run(&[&CALIBRATE[..], &["--json", "--min-agreement", "0.75"]].concat());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("bad (note): people 0.05, judge 0.28"), "{ran:?}");
    let found: Value = serde_json::from_str(&ran.stdout).unwrap();
    let found = &found["calibrations"][0];
    // Of four scores two are the same, one is a point apart, and one is three.
    let agreement = &found["agreement"];
    assert_eq!((&agreement["examples"], &agreement["scores"]), (&json!(2), &json!(4)));
    assert_eq!((&agreement["exact"], &agreement["within"]), (&json!(0.5), &json!(0.75)));
    assert_eq!((&agreement["kappa"], &agreement["spearman"]), (&json!(1.0), &Value::Null));
    assert_eq!((&found["task"], &found["cost"]), (&json!("note"), &json!(2 * COST)));
    let asked = provider.asked();
    assert!(asked[0].prompt().contains("+The sum is 5.") && asked[1].prompt().contains("- all is there"));
    assert!(asked[1].prompt().contains("the work left it\nThe sum is 4, as it lies there."), "{}", asked[1].prompt());
    let calls = project.store().calls(&RunName::new("calibration").unwrap(), None).wait().unwrap();
    assert!(
        calls.len() == 2 && calls.iter().all(|call| call.exchange.attribution.trace == Trace::Calibration),
        "{calls:?}"
    );
    // The run's judge is the same one, and its scores say how good it is.
    assert_eq!(project.run(&["run", "runs/judged.yaml"]).code, Some(0));
    assert_eq!(json!(project.judge().version), found["judge_version"]);
    let shown = project.run(&["show", CELL]).stdout;
    assert!(shown.contains("0.75 of 4 scores within 1 points, 0.50 exact"), "{shown}");
}

#[test]
fn a_threshold_and_a_failed_judge_have_their_exit_codes() {
    let provider = Provider::start(vec![scores(2.0, 3.0), scores(10.0, 10.0)]);
    let project = Project::new(&provider, "", "");
    examples(&project);
    let ran = project.run(&[&CALIBRATE[..], &["--min-agreement", "0.8"]].concat());
    assert_eq!(ran.code, Some(10), "{ran:?}");
    let provider = Provider::start(vec![Does::Says("no".to_owned()), scores(9.0, 10.0)]);
    let project = Project::new(&provider, ", retries: 0", "");
    examples(&project);
    let ran = project.run(&[&CALIBRATE[..], &["--min-agreement", "0.8"]].concat());
    assert_eq!(ran.code, Some(11), "{ran:?}");
    assert!(
        ran.stdout.contains("1.00 of 2 scores") && ran.stdout.contains("not judged: bad: there is no JSON"),
        "{ran:?}"
    );
}

#[test]
fn all_of_it_costs_no_more_than_it_may() {
    let provider = Provider::start(vec![scores(2.0, 0.0)]);
    let project = Project::new(&provider, "", "");
    examples(&project);
    let ran = project.run(&[&CALIBRATE[..], &["--max-cost", "0.005"]].concat());
    assert_eq!((ran.code, provider.asked().len()), (Some(11), 1), "{ran:?}");
    assert!(ran.stderr.contains("good (note): no score: status 403: cost limit of"), "{ran:?}");
}

#[test]
fn a_run_that_asks_for_agreement_does_not_start_without() {
    let provider = Provider::start(vec![scores(2.0, 0.0), scores(9.0, 10.0), scores(10.0, 10.0)]);
    let project = Project::new(&provider, ", min_agreement: 0.9", "");
    examples(&project);
    let ran = project.run(&["run", "runs/judged.yaml"]);
    assert_eq!((ran.code, provider.asked().len()), (Some(2), 0), "{ran:?}");
    assert!(ran.stderr.contains("needs an agreement of 0.9, but it was not calibrated"), "{ran:?}");
    assert_eq!(project.run(&CALIBRATE).code, Some(0));
    assert_eq!(project.run(&["run", "runs/judged.yaml"]).code, Some(0));
    // Another rubric is another judge.
    let task = std::fs::read_to_string(project.path().join("tasks/note/task.yaml")).unwrap();
    project.file("tasks/note/task.yaml", &task.replace("Is it right?", "Is it really right?"));
    let ran = project.run(&["run", "runs/judged.yaml", "--set", "name=other"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn what_is_wrong_with_an_example_is_said_with_its_place() {
    let provider = Provider::start(vec![scores(2.0, 0.0)]);
    let project = Project::new(&provider, "", "");
    examples(&project);
    project.file("people/bad/example.yaml", "task: note\nscores: {clear: 11, style: 0}\n");
    project.file("people/good/example.yaml", "task: nothing\nscores: {clear: 1}\n");
    let ran = project.run(&CALIBRATE);
    assert_eq!((ran.code, provider.asked().len()), (Some(2), 0));
    for part in [
        "criterion `clear` has no score from 0 to 10",
        "criterion `right` has no score from 0 to 10",
        "the rubric has no criterion `style`",
        "the run has no task `nothing` that its judge scores",
        "people/bad/example.yaml:2:",
    ] {
        assert!(ran.stderr.contains(part), "`{part}` in {}", ran.stderr);
    }
    let ran = project.run(&["calibrate", "runs/judged.yaml", "tasks"]);
    assert!(ran.code == Some(2) && ran.stderr.contains("`tasks` holds no example"), "{ran:?}");
}

#[test]
fn an_example_without_work_is_an_error_and_meets_no_threshold() {
    let provider = Provider::start(vec![scores(2.0, 3.0)]);
    for (written, beside) in [("diff: \"\"\n", None), ("", None), ("", Some(" \n"))] {
        let project = Project::new(&provider, "", "");
        project.file("people/empty/example.yaml", &format!("task: note\nscores: {{clear: 2, right: 0}}\n{written}"));
        if let Some(text) = beside {
            project.file("people/empty/candidate.diff", text);
        }
        let ran = project.run(&[&CALIBRATE[..], &["--min-agreement", "0.75"]].concat());
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("the example has no work"), "{ran:?}");
    }
    assert!(provider.asked().is_empty());
}
