use std::fs;

use super::*;
use crate::config::{LoadOptions, load};

fn plan(harness: &str, model: &str, more: &str) -> (RunPlan, Vec<String>) {
    let dir = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(dir.path().join("tasks/a")).expect("made");
    fs::write(dir.path().join("tasks/a/task.yaml"), "id: a\ntask_prompt: fix it\ntest_command: make\n")
        .expect("written");
    let run = format!("name: one\nharnesses: [{harness}]\nmodels: [{model}]\ntasks: [a]\nrepeats: 1\n{more}");
    fs::write(dir.path().join("run.yaml"), run).expect("written");
    let (plan, warnings) =
        load(LoadOptions::new(dir.path().join("run.yaml"))).unwrap_or_else(|error| panic!("{error}"));
    let told = warnings.0.iter().map(|warning| warning.message().to_owned()).collect();
    (plan, told)
}

fn goes(harness: &str, model: &str, more: &str) -> (bool, Vec<String>) {
    let (plan, told) = plan(harness, model, more);
    (plan.uses_gateway(), told)
}

#[test]
#[cfg(feature = "gateway")]
fn what_can_be_metered_is_and_the_rest_is_told_once() {
    let (claude, play) = ("{name: claude-code}", "{name: command, config: {command: make}}");
    assert_eq!(goes(claude, "{name: m, provider: anthropic}", ""), (true, vec![]));
    assert_eq!(goes(claude, "{name: m, provider: anthropic}", "gateway: {mode: \"off\"}\n"), (false, vec![]));
    assert_eq!(
        goes(claude, "{name: m, provider: mine}", "providers: {mine: {base_url: 'http://h:1'}}\n"),
        (true, vec![])
    );
    assert_eq!(goes(claude, "{name: m, config: {base_url: 'http://h:1'}}", ""), (true, vec![]), "it names its place");
    assert_eq!(goes(play, "{name: m}", ""), (false, vec![]), "it asks nobody");
    let (metered, told) = goes(play, "{name: m, provider: openai}, {name: m2, provider: openai}", "");
    assert!(!metered && told.len() == 1 && told[0].contains("harness `command` cannot be pointed at it"), "{told:?}");
    let own = "{name: command, config: {argv: [sh, -c, 'curl {base_url}']}}";
    assert_eq!(goes(own, "{name: m, provider: openai}", ""), (true, vec![]), "a setting can name the place");
}

#[test]
fn a_run_changes_what_is_known_of_a_provider_and_adds_others() {
    let more = "providers:\n  openai: {concurrency: 3, requests_per_minute: 60}\n  mine: {base_url: 'https://mine.example/v1/', api_key_env: MINE}\n";
    let (plan, _) = plan("{name: claude-code}", "{name: m, provider: mine}, {name: m2, provider: openai}", more);
    let openai = plan.provider("openai").expect("known");
    assert_eq!((openai.concurrency, openai.requests_per_minute), (Some(3), Some(60)));
    assert_eq!(
        (openai.base_url.as_str(), openai.api_key_env.as_deref()),
        ("https://api.openai.com/v1", Some("OPENAI_API_KEY"))
    );
    let mine = plan.provider("mine").expect("added");
    assert_eq!((mine.base_url.as_str(), mine.concurrency), ("https://mine.example/v1", None));
    let keys: Vec<_> = plan.models.iter().map(|model| plan.key_variable(model)).collect();
    assert_eq!(keys, [Some("MINE"), Some("OPENAI_API_KEY")]);
}

#[test]
fn the_usual_key_of_a_provider_does_not_go_elsewhere() {
    let (plan, _) = plan("{name: claude-code}", "{name: m, provider: openai, config: {base_url: 'http://h:1'}}", "");
    assert_eq!(plan.key_variable(&plan.models[0]), None);
}

#[test]
fn flat_keys_stand_for_those_of_the_gateway() {
    let model = "{name: m}";
    let (flat, _) =
        plan("{name: claude-code}", model, "gateway_host: 127.0.0.1\ngateway_port: 8877\ngateway_db: g.db\n");
    let (own, _) = plan("{name: claude-code}", model, "gateway: {host: localhost, port: 8877, record: bodies}\n");
    assert_eq!((flat.gateway.host, flat.gateway.port), (own.gateway.host, own.gateway.port));
    assert_eq!((flat.gateway.port, own.gateway.record), (Some(8877), Recording::Bodies));
    assert!(flat.gateway.db.is_some_and(|db| db.ends_with("g.db")));
    let (free, _) = plan("{name: claude-code}", model, "gateway_port: 0\n");
    assert_eq!(free.gateway.port, None, "port 0 is a free one");
}

#[test]
fn cassettes_and_proxies_are_as_the_run_says() {
    let claude = "{name: claude-code}";
    let model = "{name: m, provider: anthropic}";
    let (bare, _) = plan(claude, model, "");
    assert_eq!(
        (bare.gateway.matching, bare.provider("openai").map(|known| &known.proxy)),
        (CassetteMatching::Exact, Some(&ProviderProxy::Surroundings))
    );
    let more = "gateway: {cassette: replay, cassette_file: t, matching: shape}\n\
                providers: {openai: {proxy: http://proxy:3128}, anthropic: {proxy: \"off\"}}\n";
    let (plan, _) = plan(claude, model, more);
    assert_eq!(plan.gateway.matching, CassetteMatching::Shape);
    let proxy = |name: &str| plan.provider(name).map(|known| known.proxy.clone());
    assert_eq!(proxy("openai"), Some(ProviderProxy::Through("http://proxy:3128".to_owned())));
    assert_eq!((proxy("anthropic"), proxy("gemini")), (Some(ProviderProxy::Off), Some(ProviderProxy::Surroundings)));
}
