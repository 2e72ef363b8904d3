//! `session(prompt, options)`.

use std::time::Duration;

use mlua::{Lua, MultiValue, Table, Value};

use super::Binder;
use super::arguments::{check, suggestion};
use crate::domain::{Micros, SessionRecord};
use crate::script::gate::{Gate, Marks, Raised, misuse};
use crate::script::port::{Answer, HostCall, SessionCall, WorkspaceId};

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.waiting("session", |lua, gate, args: MultiValue| async move {
        let call = decode(&lua, &gate, &args)?;
        gate.count_session()?;
        match gate.call(HostCall::Session(call)).await? {
            Answer::Session(record) => Ok(result(&lua, &record)?),
            other => unexpected("session", &other),
        }
    })
}

/// Raises for an answer that does not belong to the call: a defect of the host, or a journal of another script.
pub(super) fn unexpected<T>(call: &str, answer: &Answer) -> Result<T, Raised> {
    let shown = format!("{answer:?}");
    let kind = shown.split(['(', ' ']).next().unwrap_or("nothing").to_owned();
    misuse(format!("the host answered {call} with {kind}"))
}

fn decode(lua: &Lua, gate: &Gate, args: &MultiValue) -> Result<SessionCall, Raised> {
    check(lua, "session", args)?;
    let prompt = args.front().and_then(Value::as_string).map(mlua::LuaString::to_string_lossy).unwrap_or_default();
    let limit = gate.limits.prompt_bytes;
    if prompt.len() > limit {
        return misuse(format!(
            "session: argument 1 (prompt) must have at most {limit} bytes, got {}; write long texts with workspace.write \
             and name the file",
            prompt.len()
        ));
    }
    let mut call = SessionCall {
        prompt,
        role: None,
        model: None,
        harness: None,
        phase: None,
        label: None,
        timeout: None,
        max_cost: None,
        continue_from: None,
        workspace: WorkspaceId::MAIN,
    };
    let Some(Value::Table(options)) = args.get(1) else { return Ok(call) };
    call.role = options.raw_get("role")?;
    call.model = options.raw_get("model")?;
    call.harness = options.raw_get("harness")?;
    call.phase = options.raw_get("phase")?;
    call.label = options.raw_get("label")?;
    call.timeout = seconds(options, "timeout")?;
    if let Some(dollars) = options.raw_get::<Option<f64>>("max_cost")? {
        let cost = Micros::from_dollars(dollars);
        call.max_cost = Some(cost.map_err(|error| Raised::Misuse(format!("session: option `max_cost`: {error}")))?);
    }
    if let Some(earlier) = options.raw_get::<Option<Table>>("continue")? {
        call.continue_from = Some(earlier.raw_get("index")?);
    }
    call.workspace = workspace_of(options)?;
    known("model", call.model.as_deref(), gate.inputs.models.keys().map(String::as_str))?;
    known("harness", call.harness.as_deref(), gate.inputs.harnesses.iter().map(String::as_str))?;
    Ok(call)
}

/// Reads a span of seconds from options that were checked.
pub(super) fn seconds(options: &Table, name: &str) -> Result<Option<Duration>, Raised> {
    let seconds: Option<f64> = options.raw_get(name)?;
    seconds
        .map(|seconds| {
            Duration::try_from_secs_f64(seconds).map_err(|error| Raised::Misuse(format!("option `{name}`: {error}")))
        })
        .transpose()
}

/// Reads the workspace from options that were checked.
pub(super) fn workspace_of(options: &Table) -> Result<WorkspaceId, Raised> {
    match options.raw_get::<Option<Table>>("workspace")? {
        None => Ok(WorkspaceId::MAIN),
        Some(handle) => Ok(WorkspaceId(handle.raw_get("id")?)),
    }
}

fn known<'n>(option: &str, value: Option<&str>, names: impl Iterator<Item = &'n str> + Clone) -> Result<(), Raised> {
    let Some(value) = value else { return Ok(()) };
    if names.clone().any(|name| name == value) {
        return Ok(());
    }
    misuse(format!("session: option `{option}`: the run declares no {option} `{value}`{}", suggestion(value, names)))
}

fn result(lua: &Lua, record: &SessionRecord) -> mlua::Result<Table> {
    let marks = Marks::of(lua)?;
    let usage = lua.create_table()?;
    usage.raw_set("input", record.usage.input)?;
    usage.raw_set("output", record.usage.output)?;
    usage.raw_set("cache_read", record.usage.cache_read)?;
    usage.raw_set("cache_write", record.usage.cache_write)?;
    usage.raw_set("reasoning", record.usage.reasoning)?;
    let table = lua.create_table_with_capacity(0, 16)?;
    table.raw_set("ok", record.ok())?;
    table.raw_set("status", record.status().as_str())?;
    table.raw_set("reason", record.end.reason())?;
    table.raw_set("exit_code", record.exit_code)?;
    table.raw_set("text", record.text.as_deref())?;
    table.raw_set("usage", marks.shaped(usage, "Usage")?)?;
    table.raw_set("cost", record.cost.map(Micros::dollars))?;
    table.raw_set("duration", record.duration.as_secs_f64())?;
    table.raw_set("turns", record.turns)?;
    table.raw_set("tool_calls", record.tool_calls)?;
    table.raw_set("resumable", record.harness_session.is_some())?;
    table.raw_set("index", record.index)?;
    table.raw_set("phase", record.phase.as_deref())?;
    table.raw_set("label", record.label.as_deref())?;
    table.raw_set("model", record.model.as_str())?;
    table.raw_set("harness", record.harness.as_str())?;
    marks.shaped(table, "Session")
}
