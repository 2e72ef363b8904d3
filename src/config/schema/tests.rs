use std::path::Path;

use super::*;
use crate::domain::Track;
use crate::domain::model::{AuthMode, CostMode, ModelRole};
use crate::domain::task::{EvaluateIn, PhaseInput};

#[test]
fn committed_schemas_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    for (name, schema) in all() {
        let expected = format!("{}\n", serde_json::to_string_pretty(&schema).expect("serializes"));
        let path = folder.join(name);
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::write(&path, &expected).expect("written");
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "schemas/{name} is stale: run this test with UPDATE_SCHEMAS=1");
    }
}

fn choices(section: &Section, name: &str) -> Vec<&'static str> {
    match section.fields.iter().find(|field| field.name == name).map(|field| &field.kind) {
        Some(Kind::Choice(choices)) => choices.to_vec(),
        other => panic!("`{name}` is {other:?}"),
    }
}

#[test]
fn choices_are_the_names_of_the_domain() {
    assert_eq!(choices(&task::TASK, "track"), Track::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>());
    assert_eq!(
        choices(&task::TASK, "evaluate"),
        EvaluateIn::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>()
    );
    assert_eq!(choices(&task::PHASE, "input"), PhaseInput::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>());
    assert_eq!(
        choices(&task::PHASE, "model_role"),
        ModelRole::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>()
    );
    assert_eq!(choices(&run::MODEL, "role"), ModelRole::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>());
    assert_eq!(choices(&run::MODEL, "cost_mode"), CostMode::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>());
    assert_eq!(choices(&run::MODEL, "auth_mode"), AuthMode::ALL.iter().map(|value| value.as_str()).collect::<Vec<_>>());
    assert!(manifest::MEANINGS.iter().all(|name| crate::config::harness_manifest::LineMeaning::parse(name).is_some()));
    assert!(
        manifest::PARAM_TYPES.iter().all(|name| crate::config::orchestrator_manifest::ParamKind::parse(name).is_some())
    );
}

#[test]
fn every_checked_key_is_in_the_schema() {
    fn walk(section: &Section, schema: &Json) {
        let keys: Vec<&str> = section.fields.iter().map(|field| field.name).collect();
        let properties = schema["properties"].as_object().expect("an object");
        assert_eq!(properties.keys().map(String::as_str).collect::<Vec<_>>(), keys, "{}", section.name);
        assert_eq!(schema["additionalProperties"], Json::Bool(false));
        for field in section.fields {
            match &field.kind {
                Kind::Section(inner) => walk(inner, &properties[field.name]),
                Kind::List { of: Kind::Section(inner), .. } => walk(inner, &properties[field.name]["items"]),
                _ => {}
            }
        }
    }
    let schemas = all();
    walk(&run::RUN, &schemas[0].1);
    walk(&task::LIBRARY, &schemas[1].1["anyOf"][0]);
    walk(&task::TASK, &schemas[1].1["anyOf"][1]);
    walk(&manifest::ORCHESTRATOR, &schemas[2].1);
    walk(&manifest::HARNESS, &schemas[3].1);
    walk(&task::EXAMPLE, &schemas[4].1);
}
