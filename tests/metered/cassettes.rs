//! A run on a cassette: recorded once, played again in another place without a provider.

use refrain::domain::Micros;

use super::project::Project;
use super::provider::Provider;
use super::{is_clean, micros, sessions};

fn settings(mode: &str, tape: &std::path::Path) -> String {
    format!("gateway: {{cassette: {mode}, cassette_file: \"{}\"}}\n", tape.display())
}

#[test]
fn a_recorded_run_runs_again_without_its_provider_and_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("run.tape.gz");
    let does = "import os\nask('I am in the working directory: ' + os.getcwd() + '\\n')\nasks(2)";
    let provider = Provider::start();
    let recorded = Project::new(&provider, does, &settings("record", &tape));
    let ran = recorded.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let before = sessions(&recorded).remove(0);
    assert_eq!((before.cost, before.api_calls), (Some(micros(3)), Some(3)));

    let replayed = Project::new(&provider, does, &settings("replay", &tape));
    let ran = replayed.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let after = sessions(&replayed).remove(0);
    assert_eq!((after.usage, after.api_calls), (before.usage, before.api_calls));
    assert_eq!(after.cost, Some(Micros::ZERO));
    assert_eq!(provider.asked().len(), 3, "the provider was not asked again");
    is_clean(&replayed);

    let other = Project::new(&provider, "ask('something else')", &settings("replay", &tape));
    let ran = other.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(11), "the agent failed because the host refused: {ran:?}");
    assert_eq!(provider.asked().len(), 3);
}

#[test]
fn a_cassette_that_is_none_is_told_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("run.tape");
    let provider = Provider::start();
    let project = Project::new(&provider, "asks(1)", &settings("replay", &tape));
    let ran = project.run(&["run", "runs/metered.yaml"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.stderr.contains("run.tape cannot be used"), "{ran:?}");
}

#[test]
fn an_agent_with_absolute_paths_is_played_in_another_run_and_folder() {
    let folder = tempfile::tempdir().unwrap();
    let tape = folder.path().join("run.tape");
    let does = "path = ask('say ' + os.getcwd() + '/made.txt')['content'][0]['text']\n\
                open(path, 'w').close()\n\
                ask('made ' + os.path.abspath('made.txt') + ' for ' + os.environ['HOME'])\n\
                assert os.path.exists('made.txt'), path";
    let provider = Provider::start();
    let recorded = Project::new(&provider, does, &settings("record", &tape));
    let ran = recorded.run(&["run", "runs/metered.yaml"]);
    assert_eq!((ran.code, provider.asked().len()), (Some(0), 2), "{ran:?}");
    let kept = std::fs::read_to_string(&tape).unwrap();
    assert!(!kept.contains(&recorded.path().display().to_string()), "{kept}");
    let replayed = Project::new(&provider, does, &settings("replay", &tape));
    let ran = replayed.run(&["run", "runs/metered.yaml", "--set", "name=metered-by-another-name"]);
    assert_eq!((ran.code, provider.asked().len()), (Some(0), 2), "{ran:?}");
    let shape = ["--set", "name=third", "--set", "gateway.matching=shape"];
    let other = Project::new(&provider, &does.replace("made ", "I have made "), &settings("replay", &tape));
    let parted = other.run(&["run", "runs/metered.yaml", "--set", "name=second"]);
    assert_eq!(parted.code, Some(11), "{parted:?}");
    assert!(
        parted.stderr.contains("-messages[0].content: made <directory>/made.txt for <home>\n"),
        "{}",
        parted.stderr
    );
    let ran = other.run(&[&["run", "runs/metered.yaml"], shape.as_slice()].concat());
    assert_eq!((ran.code, provider.asked().len()), (Some(0), 2), "{ran:?}");
}
