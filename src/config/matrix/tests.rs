use std::collections::HashSet;
use std::fs;

use crate::config::{ConfigError, LoadOptions, RunPlan, SingleOptions, Warnings, load, single};

fn write(dir: &std::path::Path, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().expect("below")).expect("folders");
    fs::write(path, text).expect("written");
}

const HEAD: &str = "name: grid\nharnesses:\n  - {name: h1, adapter: command, config: {command: echo}}\n  - {name: h2, adapter: command, config: {command: echo}}\n";
const TASKS: &str = "tasks:
  - {id: fix, task_prompt: x, test_command: make}
  - {id: write, track: open_ended, task_prompt: x, multi_session: false}
  - {id: solo, track: multi_phase, task_prompt: x, test_command: make, phases: [{name: a}]}
  - {id: duo, track: multi_phase, task_prompt: x, test_command: make, phases: [{name: a}, {name: b, model_role: review}]}
";

fn project(run: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    write(dir.path(), "runs/r.yaml", &format!("{HEAD}{run}"));
    write(dir.path(), "tasks/t.yaml", TASKS);
    write(dir.path(), "mine/orchestrator.toml", "slug = \"mine\"\napi = 1\n[params]\nrounds = 1\n");
    write(dir.path(), "mine/runner.lua", "return {}");
    dir
}

fn library(tasks: usize) -> String {
    let lines = (0..tasks).map(|n| format!("  - {{id: t{n}, task_prompt: x, test_command: make}}"));
    format!("tasks:\n{}\n", lines.collect::<Vec<_>>().join("\n"))
}

fn try_load(run: &str, change: impl FnOnce(&mut LoadOptions)) -> Result<(RunPlan, Warnings), ConfigError> {
    let dir = project(run);
    let mut options = LoadOptions::new(dir.path().join("runs/r.yaml"));
    change(&mut options);
    load(options)
}

fn ids(run: &str) -> Vec<String> {
    let (plan, _) = try_load(run, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    plan.cells.iter().map(|cell| cell.id.to_string()).collect()
}

fn error(run: &str) -> String {
    try_load(run, |_| {}).expect_err("must be refused").to_string()
}

#[test]
fn order_is_harness_model_review_task_orchestrator_repeat() {
    let run =
        "models: [{name: m1}, {name: m2}]\ntasks: [fix, solo]\nrepeats: 2\norchestrators: [one-shot, {dir: ../mine}]\n";
    let ids = ids(run);
    let expected = [
        "h1__m1__fix__r1",
        "h1__m1__fix__r2",
        "h1__m1__fix__r1__orch-mine",
        "h1__m1__fix__r2__orch-mine",
        "h1__m1__solo__r1",
        "h1__m1__solo__r2",
        "h1__m1__solo__r1__orch-mine",
        "h1__m1__solo__r2__orch-mine",
        "h1__m2__fix__r1",
    ];
    assert_eq!(ids[..9], expected);
    assert_eq!(ids.len(), 2 * 2 * 2 * 2 * 2);
}

#[test]
fn pairing_follows_track_and_role() {
    let models = "models: [{name: a}, {name: b}, {name: r1, role: review}, {name: r2, role: review}]\nrepeats: 1\n";
    let of = |task: &str| ids(&format!("{models}tasks: [{task}]\n"));
    let first_harness = |all: Vec<String>| all.into_iter().filter(|id| id.starts_with("h1")).collect::<Vec<_>>();
    assert_eq!(first_harness(of("fix")), ["h1__a__fix__r1", "h1__b__fix__r1", "h1__r1__fix__r1", "h1__r2__fix__r1"]);
    assert_eq!(first_harness(of("solo")), ["h1__a__solo__r1", "h1__b__solo__r1"]);
    assert_eq!(
        first_harness(of("duo")),
        ["h1__a__duo__r1__rev-r1", "h1__a__duo__r1__rev-r2", "h1__b__duo__r1__rev-r1", "h1__b__duo__r1__rev-r2"]
    );
}

#[test]
fn a_track_runs_under_its_own_orchestrator_by_default() {
    let (plan, _) = try_load("models: [{name: m}]\ntasks: [fix, solo]\n", |_| {}).expect("loads");
    let slug = |id: &str| {
        let cell = plan.cells.iter().find(|cell| cell.id.as_str() == id).expect("a cell");
        plan.orchestrators[cell.orchestrator].manifest.slug.clone()
    };
    assert_eq!((slug("h1__m__fix__r5").as_str(), slug("h1__m__solo__r5").as_str()), ("one-shot", "phases"));
}

#[test]
fn a_plain_one_shot_stands_for_each_tracks_own() {
    let slugs = |orchestrators: &str| {
        let run = format!("models: [{{name: m}}]\ntasks: [solo]\nrepeats: 1\norchestrators: {orchestrators}\n");
        let (plan, _) = try_load(&run, |_| {}).unwrap_or_else(|error| panic!("{error}"));
        let cells = plan.cells.iter().filter(|cell| cell.harness == 0);
        cells
            .map(|cell| format!("{} {}", cell.id, plan.orchestrators[cell.orchestrator].manifest.slug))
            .collect::<Vec<_>>()
    };
    assert_eq!(slugs("[one-shot]"), ["h1__m__solo__r1 phases"]);
    assert_eq!(slugs("[one-shot, phases]"), ["h1__m__solo__r1 phases"]);
    assert_eq!(slugs("[phases]"), ["h1__m__solo__r1 phases"]);
    assert_eq!(slugs("[{slug: one-shot, as: whole}]"), ["h1__m__solo__r1__orch-whole one-shot"]);
}

#[test]
fn the_whole_library_in_its_order() {
    let run = "models: [{name: m}, {name: r, role: review}]\nrepeats: 1\ntasks: [duo, '*']\n";
    let (plan, _) = try_load(run, |_| {}).expect("loads");
    let tasks: Vec<&str> = plan.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(tasks, ["duo", "fix", "write", "solo"]);
}

#[test]
fn a_task_of_one_session_is_refused_under_another_orchestrator() {
    let run = "models: [{name: m}]\ntasks: [write]\norchestrators: [{dir: ../mine}]\n";
    let text = error(run);
    assert!(text.contains("task `write` does not allow orchestrator `mine`"), "{text}");
    assert!(text.contains("runs/r.yaml:") && text.contains("tasks/t.yaml:3:10"), "{text}");
    assert_eq!(ids("models: [{name: m}]\ntasks: [write]\norchestrators: [one-shot]\nrepeats: 1\n").len(), 2);
}

#[test]
fn a_missing_role_is_refused() {
    let text = error("models: [{name: m}]\ntasks: [duo]\n");
    assert!(text.contains("task `duo` needs a model with the role `review`"), "{text}");
    let text = error("models: [{name: m, role: review}]\ntasks: [duo]\n");
    assert!(text.contains("needs a model with the role `implementation`"), "{text}");
}

#[test]
fn ids_that_meet_are_refused() {
    let text = error(
        "models: [{name: m}]\ntasks: [fix]\norchestrators: [{dir: ../mine}, {dir: ../mine, params: {rounds: 2}}]\n",
    );
    assert!(text.contains("two orchestrators are called `mine`") && text.contains("as: other-name"), "{text}");
    let two = "models: [{name: m}]\nrepeats: 1\ntasks: [fix]\norchestrators: [{dir: ../mine}, {dir: ../mine, as: twice, params: {rounds: 2}}]\n";
    assert_eq!(ids(two)[..2], ["h1__m__fix__r1__orch-mine", "h1__m__fix__r1__orch-twice"]);
}

#[test]
fn a_folder_with_the_slug_of_a_default_is_not_the_default() {
    let dir = project("models: [{name: m}]\ntasks: [fix]\nrepeats: 1\norchestrators: [{dir: ../mine}]\n");
    write(dir.path(), "mine/orchestrator.toml", "slug = \"one-shot\"\napi = 1\n");
    let (plan, _) = load(LoadOptions::new(dir.path().join("runs/r.yaml"))).expect("loads");
    assert_eq!(plan.cells[0].id.as_str(), "h1__m__fix__r1__orch-one-shot");
}

#[test]
fn only_keeps_what_a_pattern_matches() {
    let run = "models: [{name: m}]\ntasks: [fix, solo]\nrepeats: 2\n";
    let kept = |patterns: &[&str]| {
        let only: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        try_load(run, |options| options.only = only).map(|(plan, _)| plan.cells.len())
    };
    assert_eq!(kept(&["h1__*"]).expect("some"), 4);
    assert_eq!(kept(&["*__fix__r1", "h2__m__solo__r2"]).expect("some"), 3);
    let none = kept(&["*nothing*"]).expect_err("none").to_string();
    assert!(none.contains("`--only *nothing*` matches none of the 8 cells"), "{none}");
    let bad = kept(&["[z"]).expect_err("no pattern").to_string();
    assert!(bad.contains("`--only [z` is no pattern"), "{bad}");
}

#[test]
fn flags_go_over_the_file() {
    let run = "models: [{name: m}]\ntasks: [fix]\norchestrators: [{dir: ../mine, params: {rounds: 2}}]\n";
    let (plan, _) = try_load(run, |options| {
        options.set = vec!["repeats=3".to_owned(), "models.0.name=other".to_owned(), "limits.sessions=4".to_owned()];
        options.params = vec!["mine.rounds=9".to_owned()];
    })
    .expect("loads");
    assert_eq!((plan.repeats, plan.limits.sessions, plan.models[0].name.as_str()), (3, 4, "other"));
    assert_eq!(plan.orchestrators[0].params["rounds"], crate::domain::ParamValue::Int(9));
    for (flag, message) in [
        ("round=1", "no orchestrator of this run has a parameter `round`"),
        ("other.rounds=1", "the run has no orchestrator `other`"),
        ("rounds=x", "parameter `rounds` takes an integer, not a string"),
        ("rounds", "`--param` takes `key=value`"),
    ] {
        let error = try_load(run, |options| options.params = vec![flag.to_owned()]).expect_err(flag).to_string();
        assert!(error.contains(message) && error.contains("--> --param:1:"), "{error}");
    }
}

#[test]
fn a_hundred_thousand_cells_are_counted_and_all_different() {
    let dir = project("models: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]\ntasks: ['*']\nrepeats: 100\n");
    write(dir.path(), "tasks/t.yaml", &library(100));
    let (plan, _) = load(LoadOptions::new(dir.path().join("runs/r.yaml"))).expect("loads");
    assert_eq!(plan.cells.len(), 100_000);
    let different: HashSet<&str> = plan.cells.iter().map(|cell| cell.id.as_str()).collect();
    assert_eq!(different.len(), 100_000);
    let keys: HashSet<_> = plan.cells.iter().map(|cell| plan.cell_key(cell)).collect();
    // Both harnesses and all tasks mean the same work here; the models do not.
    assert_eq!(keys.len(), 5);
}

#[test]
fn too_many_cells_are_refused_before_they_are_made() {
    let run = "models: [{name: a}]\ntasks: [fix]\nrepeats: 10000\n";
    let dir = project(run);
    write(dir.path(), "tasks/t.yaml", &library(60));
    let mut options = LoadOptions::new(dir.path().join("runs/r.yaml"));
    options.set = vec!["tasks=\"*\"".to_owned()];
    let error = load(options).expect_err("too many").to_string();
    assert!(error.contains("the run has 1200000 cells, more than 1000000"), "{error}");
}

#[test]
fn one_cell_needs_no_run_file() {
    let dir = project("");
    let options = |task: &str| SingleOptions {
        task: task.to_owned(),
        harness: "command".to_owned(),
        model: "org/model:tag".to_owned(),
        task_library: Some(dir.path().join("tasks")),
        set: vec!["harnesses.0.config.command=echo".to_owned(), "runtime=local".to_owned()],
        ..SingleOptions::default()
    };
    let (plan, _) = single(options("fix")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.cells.len(), 1);
    assert_eq!(plan.cells[0].id.as_str(), "command__org/model:tag__fix__r1");
    assert_eq!((plan.name.as_str(), plan.runtime.as_str()), ("single", "local"));
    let (plan, _) = single(options("duo")).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.cells[0].id.as_str(), "command__org/model:tag__duo__r1__rev-org/model:tag");
    let mut with = options("fix");
    with.orchestrator = Some(dir.path().join("mine").display().to_string());
    with.params = vec!["rounds=4".to_owned()];
    let (plan, _) = single(with).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(plan.cells[0].id.as_str(), "command__org/model:tag__fix__r1__orch-mine");
    let error = single(options("fixx")).expect_err("unknown").to_string();
    assert!(error.contains("there is no task `fixx`") && error.contains("did you mean `fix`?"), "{error}");
}
