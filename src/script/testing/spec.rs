//! `t.run{…}`: from a Lua table to a mock world, and from what happened there to a Lua table.

use std::collections::BTreeMap;
use std::time::Duration;

use mlua::{Function, Lua, Table, Value};
use serde::Deserialize;
use serde_json::Value as Json;

use super::Recorder;
use super::manifest::Manifest;
use super::{told, world};
use crate::domain::{Micros, ModelRole, Params, Phase, PhaseInput};
use crate::script::api;
use crate::script::bind::{Binder, Files, suggestion};
use crate::script::convert::{Bounds, to_json, type_name};
use crate::script::error::{ScriptErrorKind, split_place};
use crate::script::gate::{Gate, Raised, misuse};
use crate::script::limits::ScriptLimits;
use crate::script::mock::{MockSetup, MockWorld};
use crate::script::port::ScriptInputs;
use crate::script::run::{ScriptEnd, raised_text};

/// The most host calls of one run: what makes more of them goes in circles, and virtual time would never end it.
const MAX_CALLS: u64 = 100_000;

/// Adds what `@std/test` needs.
pub(crate) fn install(binder: &Binder<'_>, recorder: &std::sync::Arc<Recorder>) -> mlua::Result<()> {
    let own = std::sync::Arc::clone(recorder);
    binder.plain("test_begin", move |_, _, name: String| Ok(own.begin(name)))?;
    let own = std::sync::Arc::clone(recorder);
    binder.plain("test_end", move |_, gate, (ok, value): (bool, Value)| {
        own.end((!ok).then(|| told(gate, &value)));
        Ok(())
    })?;
    binder.plain("test_fail", |_, _, message: String| misuse::<()>(message))?;
    let own = std::sync::Arc::clone(recorder);
    binder.plain("test_run", move |lua, gate, spec: Table| {
        let result = run(lua, &own, &spec);
        // The run computed on this thread's account; the test itself did not.
        gate.control.host_called();
        result
    })
}

/// Splits what a test raised into its message and its place.
fn told(gate: &Gate, value: &Value) -> (String, Option<String>) {
    let frames = gate.take_memo(value).unwrap_or_default();
    let text = raised_text(value);
    let (place, message) = split_place(&text);
    let at = place.map(|(file, line)| format!("{file}:{line}"));
    (message.to_owned(), at.or_else(|| frames.first().map(|frame| format!("{}:{}", frame.file, frame.line))))
}

fn wrong<T>(what: impl std::fmt::Display) -> Result<T, Raised> {
    misuse(format!("t.run: {what}"))
}

fn run(lua: &Lua, recorder: &Recorder, spec: &Table) -> Result<Table, Raised> {
    for pair in spec.pairs::<Value, Value>() {
        let Some(name) = pair?.0.as_string().map(mlua::LuaString::to_string_lossy) else {
            return wrong("takes named fields, as in t.run{ prompt = \"…\" }");
        };
        let mut known = api::options("test.run").iter().map(|field| field.name);
        if !known.clone().any(|field| field == name) {
            return wrong(format!("unknown field `{name}`{}", suggestion(&name, &mut known)));
        }
    }
    let manifest = Manifest::read(&recorder.source).or_else(wrong)?;
    let runner = match spec.raw_get::<Option<String>>("runner")? {
        Some(runner) => runner,
        None => manifest.runner.clone().unwrap_or_else(|| "runner.lua".to_owned()),
    };
    let params = manifest.resolve(params(spec)?).or_else(wrong)?;
    let world = MockWorld::new(setup(lua, spec)?);
    let mut inputs =
        world.inputs(&spec.raw_get::<Option<String>>("prompt")?.unwrap_or_else(|| "Do the task.".to_owned()));
    inputs.params = params;
    fill(&mut inputs, spec)?;
    let files = Files {
        source: recorder.source.with_runner(&runner),
        extra: Vec::new(),
        coverage: recorder.coverage.clone(),
        tests: None,
    };
    let mut limits = ScriptLimits::default().with_cpu(Duration::from_secs(1), Duration::from_secs(20));
    if let Some(max) = spec.raw_get::<Option<u32>>("max_sessions")? {
        limits = limits.with_sessions(max);
    }
    let outcome = world.play_files(files, inputs, limits);
    let report = world.report();
    recorder.ran(&report.logs, ended_early(&outcome.end));
    if let Some(defect) = world.defect() {
        return wrong(defect);
    }
    match &outcome.end {
        // Nobody tests for it, and what else the run tells would lead astray.
        ScriptEnd::Failed(error) if error.kind == ScriptErrorKind::Limit => wrong(error),
        _ => Ok(told::run(lua, &outcome, &report)?),
    }
}

/// Says why a script did not return: a test that fails after that is told so.
fn ended_early(end: &ScriptEnd) -> Option<String> {
    match end {
        ScriptEnd::Returned { .. } => None,
        ScriptEnd::Failed(error) => Some(format!("raised {error}")),
        ScriptEnd::Stopped { reason, .. } => Some(format!("was stopped: {reason}")),
    }
}

/// Reads `params`. No parameter is a table with names, so an empty table is an empty list.
fn params(spec: &Table) -> Result<Params, Raised> {
    let mut given: serde_json::Map<String, Json> = field(spec, "params")?;
    for value in given.values_mut().filter(|value| value.as_object().is_some_and(serde_json::Map::is_empty)) {
        *value = Json::Array(Vec::new());
    }
    serde_json::from_value(Json::Object(given)).or_else(|error| wrong(format!("`params`: {error}")))
}

/// Reads a field that is plain data.
pub(super) fn field<T: for<'de> Deserialize<'de> + Default>(spec: &Table, name: &str) -> Result<T, Raised> {
    let value: Value = spec.raw_get(name)?;
    if value.is_nil() {
        return Ok(T::default());
    }
    decode(&value).or_else(|reason| wrong(format!("`{name}`: {reason}")))
}

/// Converts plain data.
pub(super) fn decode<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<T, String> {
    let json = to_json(value, Bounds::of(&ScriptLimits::default()), None)?;
    serde_json::from_value(whole(json)).map_err(|error| error.to_string())
}

/// Gives whole numbers back as such: Lua has one kind of number only.
fn whole(json: Json) -> Json {
    match json {
        Json::Number(number) => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
            Some(value) if value.fract() == 0.0 && value.abs() < 9e15 => Json::from(value as i64),
            _ => Json::Number(number),
        },
        Json::Array(items) => items.into_iter().map(whole).collect(),
        Json::Object(fields) => fields.into_iter().map(|(key, value)| (key, whole(value))).collect(),
        other => other,
    }
}

fn setup(lua: &Lua, spec: &Table) -> Result<MockSetup, Raised> {
    let mut setup = MockSetup {
        files: field::<BTreeMap<String, String>>(spec, "files")?
            .into_iter()
            .map(|(path, content)| (path, content.into_bytes()))
            .collect(),
        max_calls: Some(MAX_CALLS),
        ..MockSetup::default()
    };
    if let Some(seconds) = spec.raw_get::<Option<f64>>("deadline")? {
        setup.deadline =
            Some(Duration::try_from_secs_f64(seconds).or_else(|error| wrong(format!("`deadline`: {error}")))?);
    }
    if let Some(dollars) = spec.raw_get::<Option<f64>>("budget")? {
        setup.budget = Some(Micros::from_dollars(dollars).or_else(|error| wrong(format!("`budget`: {error}")))?);
    }
    setup.sessions = match spec.raw_get::<Value>("sessions")? {
        Value::Nil => None,
        Value::Function(function) => Some(world::sessions_by(lua, function)),
        Value::Table(list) => Some(world::sessions_of(&list)?),
        other => return wrong(format!("`sessions` must be a list or a function, got {}", type_name(&other))),
    };
    setup.checks = match spec.raw_get::<Value>("checks")? {
        Value::Nil => None,
        Value::Function(function) => Some(world::checks_by(lua, function)),
        other => Some(world::checks_of(&other)?),
    };
    setup.exec = match spec.raw_get::<Value>("exec")? {
        Value::Nil => None,
        Value::Function(function) => Some(world::exec_by(lua, function)),
        other => return wrong(format!("`exec` must be a function, got {}", type_name(&other))),
    };
    Ok(setup)
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TaskSpec {
    id: Option<String>,
    name: Option<String>,
    prompt: Option<String>,
    track: Option<String>,
    checks: Vec<String>,
    #[serde(deserialize_with = "list")]
    phases: Vec<PhaseSpec>,
    metadata: serde_json::Map<String, Json>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseSpec {
    name: String,
    #[serde(default)]
    role: ModelRole,
    prompt: Option<String>,
    #[serde(default)]
    input: PhaseInput,
    timeout: Option<f64>,
}

/// Takes `{}` for an empty list: Lua cannot tell the two apart.
fn list<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<PhaseSpec>, D::Error> {
    use serde::de::Error as _;
    match Json::deserialize(deserializer)? {
        Json::Object(fields) if fields.is_empty() => Ok(Vec::new()),
        other => serde_json::from_value(other).map_err(D::Error::custom),
    }
}

fn fill(inputs: &mut ScriptInputs, spec: &Table) -> Result<(), Raised> {
    let task: TaskSpec = field(spec, "task")?;
    let view = &mut inputs.task;
    view.id = task.id.unwrap_or_else(|| view.id.clone());
    view.name = task.name.unwrap_or_else(|| view.id.clone());
    view.prompt = task.prompt.unwrap_or_else(|| view.prompt.clone());
    view.checks = task.checks;
    view.metadata = task.metadata;
    view.phases = task
        .phases
        .into_iter()
        .map(|phase| Phase {
            name: phase.name,
            model_role: phase.role,
            task_prompt: phase.prompt,
            input: phase.input,
            timeout: phase.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        })
        .collect();
    view.track = task.track.unwrap_or_else(|| if view.phases.is_empty() { "swe" } else { "multi_phase" }.to_owned());
    inputs.models = field(spec, "models")?;
    inputs.harnesses = field(spec, "harnesses")?;
    inputs.seed = spec.raw_get::<Option<u32>>("seed")?.unwrap_or(1).into();
    Ok(())
}

/// Calls a function of the test, and says what it raised.
pub(super) fn call(function: &Function, args: impl mlua::IntoLuaMulti) -> Result<Value, String> {
    function.call::<Value>(args).map_err(|error| raised_text(&Value::Error(Box::new(error))))
}
