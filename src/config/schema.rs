//! JSON Schemas of the formats that people write, made from the same tables that check them.

use serde_json::{Map, Value as Json, json};

use super::shape::{Kind, Section, manifest, run, task};

/// Returns every schema with its file name below `schemas/`.
#[must_use]
pub fn all() -> Vec<(&'static str, Json)> {
    vec![
        ("run.schema.json", document("Refrain run file", object(&run::RUN))),
        ("task.schema.json", document("Refrain task file", either(&object(&task::LIBRARY), &object(&task::TASK)))),
        ("orchestrator.schema.json", document("Refrain orchestrator manifest", orchestrator())),
        ("harness.schema.json", document("Refrain harness manifest", object(&manifest::HARNESS))),
        ("example.schema.json", document("Refrain calibration example", object(&task::EXAMPLE))),
    ]
}

fn document(title: &str, schema: Json) -> Json {
    let mut whole = Map::new();
    whole.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    whole.insert("title".to_owned(), json!(title));
    if let Json::Object(fields) = schema {
        whole.extend(fields);
    }
    Json::Object(whole)
}

/// The manifest's parameters have a shape that depends on the value: a default, or a table that describes it.
fn orchestrator() -> Json {
    let mut schema = object(&manifest::ORCHESTRATOR);
    schema["properties"]["params"] = json!({
        "type": "object",
        "description": help(&manifest::ORCHESTRATOR, "params"),
        "propertyNames": { "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
        "additionalProperties": {
            "anyOf": [{ "type": ["boolean", "number", "string", "array"] }, object(&manifest::PARAM)],
        },
    });
    schema
}

fn help(section: &Section, name: &str) -> &'static str {
    section.fields.iter().find(|field| field.name == name).map_or("", |field| field.help)
}

fn object(section: &Section) -> Json {
    let mut properties = Map::new();
    for field in section.fields {
        let mut schema = of(&field.kind);
        // What may be left out may also be written as nothing.
        if !field.required {
            schema = nullable(schema);
        }
        schema["description"] = json!(field.help);
        properties.insert(field.name.to_owned(), schema);
    }
    let required: Vec<&str> = section.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn of(kind: &Kind) -> Json {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Line | Kind::Path | Kind::Inside => json!({ "type": "string", "minLength": 1 }),
        Kind::Name => json!({ "type": "string", "pattern": "^[A-Za-z0-9_][A-Za-z0-9._-]*$", "maxLength": 128 }),
        Kind::Variable => json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Whole { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Kind::Positive { max } => json!({ "type": "number", "exclusiveMinimum": 0, "maximum": max }),
        Kind::Money => json!({ "type": ["number", "string"], "minimum": 0 }),
        Kind::Duration => json!({ "type": ["number", "string"], "exclusiveMinimum": 0 }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Any => json!({}),
        Kind::List { of: inner, empty } => {
            let mut schema = json!({ "type": "array", "items": of(inner) });
            if !empty {
                schema["minItems"] = json!(1);
            }
            schema
        }
        Kind::Section(section) => object(section),
        Kind::Map(inner) => json!({ "type": "object", "additionalProperties": of(inner) }),
        Kind::Either(one, other) | Kind::ListOr(one, other) => either(&of(one), &of(other)),
    }
}

fn either(one: &Json, other: &Json) -> Json {
    json!({ "anyOf": [one, other] })
}

fn nullable(mut schema: Json) -> Json {
    if let Some(choices) = schema.get_mut("enum").and_then(Json::as_array_mut) {
        choices.push(Json::Null);
        return schema;
    }
    if let Some(options) = schema.get_mut("anyOf").and_then(Json::as_array_mut) {
        options.push(json!({ "type": "null" }));
        return schema;
    }
    match schema.get_mut("type") {
        Some(Json::Array(types)) => types.push(json!("null")),
        Some(single) => *single = json!([single.take(), "null"]),
        None => {}
    }
    schema
}

#[cfg(test)]
#[path = "schema/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "schema/reference.rs"]
mod reference;
