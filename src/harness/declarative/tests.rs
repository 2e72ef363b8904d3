use std::collections::BTreeMap;

use serde_json::json;
use test_case::test_case;

use super::*;
use crate::config::harness_manifest::ConfigField;
use crate::config::harness_metering::BasePath;
use crate::domain::model::AuthMode;
use crate::domain::{CostMode, Key, Micros, Model, ModelRole};

fn manifest(argv: &[&str]) -> HarnessManifest {
    HarnessManifest {
        name: "h".to_owned(),
        description: String::new(),
        verified: None,
        dir: None,
        hash: String::new(),
        argv: argv.iter().map(|text| (*text).to_owned()).collect(),
        resume_args: None,
        cost_args: None,
        env: BTreeMap::new(),
        key_env: None,
        base_path: BasePath::default(),
        tolerance: 0.0,
        probe: None,
        install: None,
        prompt: PromptBy::Argument,
        files: BTreeMap::new(),
        config: BTreeMap::new(),
        output: OutputSpec::Text,
        session_file: None,
        adapter: None,
        credentials: Vec::new(),
    }
}

fn entry(manifest: HarnessManifest) -> HarnessEntry {
    HarnessEntry {
        name: "mine".to_owned(),
        manifest: Arc::new(manifest),
        version: None,
        image: None,
        observability_tier: "full".to_owned(),
        config: serde_json::Map::new(),
    }
}

fn load(manifest: HarnessManifest) -> Result<DeclarativeHarness, HarnessError> {
    DeclarativeHarness::new(&entry(manifest), Path::new("/bin/refrain"))
}

fn request() -> SessionRequest {
    SessionRequest {
        prompt: "do {it}".to_owned(),
        model: Model {
            name: "m".to_owned(),
            provider: "p".to_owned(),
            api_key_env: Some("HOST_KEY".to_owned()),
            role: ModelRole::Implementation,
            cost_mode: CostMode::Platform,
            auth_mode: AuthMode::ApiKey,
            credentials_path: None,
            config: serde_json::Map::new(),
        },
        task: "t".to_owned(),
        phase: None,
        label: None,
        index: 1,
        resume: None,
        workspace: PathBuf::from("/w"),
        home: PathBuf::from("/h"),
        session_dir: PathBuf::from("/s"),
        max_cost: None,
        base_url: None,
        api_key: None,
    }
}

fn strings(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn lists_are_spliced_in_where_they_apply() {
    let harness = load(HarnessManifest {
        resume_args: Some(strings(&["--resume", "{resume}"])),
        cost_args: Some(strings(&["--max", "{max_cost}"])),
        ..manifest(&["agent", "{resume_args}", "{cost_args}", "{prompt}"])
    })
    .expect("loads");
    assert!(harness.can_resume());
    let plain = harness.prepare(&request()).expect("prepares").command;
    assert_eq!(plain.argv, ["agent", "do {it}"]);
    assert_eq!(plain.cwd.as_deref(), Some(Path::new("/w")));
    let more = SessionRequest { resume: Some("s-1".into()), max_cost: Some(Micros::new(250_000)), ..request() };
    let argv = harness.prepare(&more).expect("prepares").command.argv;
    assert_eq!(argv, ["agent", "--resume", "s-1", "--max", "0.25", "do {it}"]);
}

#[test]
fn a_harness_that_cannot_resume_says_so() {
    let harness = load(manifest(&["agent", "{prompt}"])).expect("loads");
    let error = harness.prepare(&SessionRequest { resume: Some("s".into()), ..request() }).expect_err("refused");
    assert_eq!(error.to_string(), "harness `mine` cannot resume an earlier session: its manifest has no `resume_args`");
}

#[test]
fn a_list_setting_becomes_arguments_that_are_templates_themselves() {
    let list = ConfigField { kind: ConfigKind::TextList, default: None, help: String::new() };
    let text = ConfigField { kind: ConfigKind::Text, default: None, help: String::new() };
    let manifest = HarnessManifest {
        config: [("argv".to_owned(), list), ("line".to_owned(), text)].into(),
        ..manifest(&["{config.argv}", "--end"])
    };
    let with = |argv: serde_json::Value| {
        let mut entry = entry(manifest.clone());
        entry.config = serde_json::Map::from_iter([("argv".into(), argv), ("line".into(), "{prompt}".into())]);
        DeclarativeHarness::new(&entry, Path::new("/bin/refrain"))
    };
    let harness = with(json!(["sh", "-c", "{config.line}", "{prompt}"])).expect("loads");
    // A text setting is a value: it is not looked at again.
    let argv = harness.prepare(&request()).expect("prepares").command.argv;
    assert_eq!(argv, ["sh", "-c", "{prompt}", "do {it}", "--end"]);
    let error = with(json!(["{promt}"])).expect_err("refused").to_string();
    assert!(error.contains("`config.argv`") && error.contains("did you mean `{prompt}`?"), "{error}");
}

#[test_case(&["a", "{modle}"], "did you mean `{model}`?"; "typing error")]
#[test_case(&["a", "x{resume_args}"], "is a list"; "a list in a text")]
#[test_case(&["a", "{config.x}"], "no setting of this harness"; "undeclared setting")]
fn bad_templates_do_not_load(argv: &[&str], expected: &str) {
    let error = load(manifest(argv)).expect_err("refused").to_string();
    assert!(error.starts_with("harness `mine`: ") && error.contains(expected), "{error}");
}

#[test]
fn lists_without_a_place_do_not_load() {
    let resume = HarnessManifest { resume_args: Some(Vec::new()), ..manifest(&["a"]) };
    assert!(load(resume).expect_err("refused").to_string().contains("`argv` has no `{resume_args}`"));
    let cost = HarnessManifest { cost_args: Some(Vec::new()), ..manifest(&["a"]) };
    assert!(load(cost).expect_err("refused").to_string().contains("`argv` has no `{cost_args}`"));
    let circle =
        HarnessManifest { resume_args: Some(strings(&["{resume_args}"])), ..manifest(&["a", "{resume_args}"]) };
    assert!(load(circle).expect_err("refused").to_string().contains("cannot hold each other"));
}

#[test]
fn a_probe_depends_on_no_session() {
    let probe = HarnessManifest { probe: Some(strings(&["{refrain}", "--version"])), ..manifest(&["a"]) };
    assert_eq!(load(probe).expect("loads").probe().expect("there").argv, ["/bin/refrain", "--version"]);
    let probe = HarnessManifest { probe: Some(strings(&["{prompt}"])), ..manifest(&["a"]) };
    assert!(load(probe).expect_err("refused").to_string().contains("known for sessions only"));
}

#[test]
fn prompts_get_in_by_file_and_by_standard_input() {
    let harness = load(manifest(&["a", "{prompt_file}"])).expect("loads");
    let prepared = harness.prepare(&request()).expect("prepares");
    assert_eq!(prepared.command.argv, ["a", "/s/prompt.md"]);
    assert_eq!(prepared.files, [(PathBuf::from("/s/prompt.md"), b"do {it}".to_vec())]);
    let harness = load(HarnessManifest { prompt: PromptBy::Stdin, ..manifest(&["a"]) }).expect("loads");
    let prepared = harness.prepare(&request()).expect("prepares");
    assert_eq!(prepared.command.stdin, Stdin::Bytes(b"do {it}".to_vec()));
    assert!(prepared.files.is_empty());
}

#[test]
fn the_key_goes_into_the_environment_and_nowhere_else() {
    let request = SessionRequest { api_key: Some(Key::new("sk-1")), ..request() };
    let own = load(manifest(&["a"])).expect("loads").prepare(&request).expect("prepares").command;
    assert_eq!(own.env, [("HOST_KEY".to_owned(), "sk-1".to_owned())]);
    let mut usual = request.clone();
    usual.model.provider = "anthropic".to_owned();
    let usual = load(manifest(&["a"])).expect("loads").prepare(&usual).expect("prepares").command;
    let variables = usual.env.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    assert_eq!(variables, ["HOST_KEY", "ANTHROPIC_API_KEY"], "a program looks where its provider's key usually is");
    let named = HarnessManifest { key_env: Some("AGENT_KEY".to_owned()), ..manifest(&["a"]) };
    let named = load(named).expect("loads").prepare(&request).expect("prepares").command;
    assert!(!format!("{request:?} {named:?}").contains("sk-1"), "{named:?}");
    assert_eq!((named.argv.len(), named.env), (1, vec![("AGENT_KEY".to_owned(), "sk-1".to_owned())]));
}

#[test]
fn variables_and_files_without_a_value_are_left_out() {
    let manifest = HarnessManifest {
        env: [("URL".into(), "{model.config.url?}".into()), ("T".into(), "{task}".into())].into(),
        files: [
            ("{home}/a".into(), "{model.config.url?}".into()),
            ("{home}/b".into(), "{{\"m\": \"{model}\"}}".into()),
        ]
        .into(),
        ..manifest(&["a"])
    };
    let prepared = load(manifest).expect("loads").prepare(&request()).expect("prepares");
    assert_eq!(prepared.command.env, [("T".to_owned(), "t".to_owned())]);
    assert_eq!(prepared.files, [(PathBuf::from("/h/b"), b"{\"m\": \"m\"}".to_vec())]);
}

#[test]
fn files_need_absolute_paths() {
    let manifest = HarnessManifest { files: [("a".into(), "b".into())].into(), ..manifest(&["a"]) };
    let error = load(manifest).expect("loads").prepare(&request()).expect_err("refused").to_string();
    assert!(error.contains("begin it with `{home}/`"), "{error}");
}

#[test]
fn in_an_image_files_of_the_host_are_taken_along() {
    let host = tempfile::tempdir().expect("a folder");
    let play = host.path().join("a.play");
    std::fs::write(&play, "the play").expect("written");
    let field = |kind| ConfigField { kind, default: None, help: String::new() };
    let fields = [("play", ConfigKind::Path), ("tool", ConfigKind::Path), ("text", ConfigKind::Text)];
    let manifest = HarnessManifest {
        dir: Some("/host/harness".into()),
        config: fields.map(|(name, kind)| (name.to_owned(), field(kind))).into(),
        ..manifest(&["{refrain}", "{dir}/run", "{config.play}", "{config.tool}", "{config.text}", "{prompt}"])
    };
    let mut entry = entry(manifest);
    let shown = play.display().to_string();
    for (name, value) in [("play", shown.as_str()), ("tool", "/only/in/the/image"), ("text", shown.as_str())] {
        entry.config.insert(name.to_owned(), value.into());
    }
    let request = request();
    let harness =
        DeclarativeHarness::in_image(&entry, Path::new("/image/refrain"), Path::new("/image/dir")).expect("valid");
    let prepared = harness.prepare(&request).expect("prepared");
    let copy = request.session_dir.join("play-a.play");
    let expected = ["/image/refrain", "/image/dir/run", &copy.to_string_lossy(), "/only/in/the/image", &shown];
    assert_eq!(prepared.command.argv[..5], expected);
    assert_eq!(prepared.files, [(copy, b"the play".to_vec())]);

    let there = DeclarativeHarness::new(&entry, Path::new("/host/refrain")).expect("valid").prepare(&request);
    assert_eq!(there.expect("prepared").command.argv[..3], ["/host/refrain", "/host/harness/run", &shown]);

    entry.config.insert("play".to_owned(), host.path().display().to_string().into());
    let harness = DeclarativeHarness::in_image(&entry, Path::new("r"), Path::new("d")).expect("valid");
    let error = harness.prepare(&request).expect_err("a folder is not copied").to_string();
    assert!(error.contains("the setting `play` names the folder"), "{error}");
}
