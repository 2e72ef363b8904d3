//! What tests are told: frozen tables in which a misspelt field raises.

use mlua::{Lua, Table, Value};
use serde_json::{Value as Json, json};

use crate::domain::Micros;
use crate::script::convert::from_json;
use crate::script::gate::Marks;
use crate::script::mock::MockReport;
use crate::script::port::SessionCall;
use crate::script::run::{ScriptEnd, ScriptOutcome};

/// Tells what `t.run` came to.
pub(super) fn run(lua: &Lua, outcome: &ScriptOutcome, report: &MockReport) -> mlua::Result<Table> {
    let marks = Marks::of(lua)?;
    let sessions = list(lua, &report.sessions, |(asked, record)| {
        let mut fields = fields_of(asked, record.index);
        fields["ok"] = record.ok().into();
        fields["status"] = record.status().as_str().into();
        fields["text"] = record.text.clone().into();
        fields["cost"] = record.cost.map(Micros::dollars).into();
        fields["duration"] = record.duration.as_secs_f64().into();
        shaped(lua, &marks, &fields, "RunSession")
    })?;
    let logs = list(lua, &report.logs, |(level, text)| {
        shaped(lua, &marks, &json!({ "level": level, "text": text }), "RunLog")
    })?;
    let files: serde_json::Map<String, Json> = report
        .files
        .iter()
        .map(|(path, content)| (path.clone(), String::from_utf8_lossy(content).into_owned().into()))
        .collect();
    let (ok, note, value, error, stopped) = match &outcome.end {
        ScriptEnd::Returned { note, value } => (true, note.clone(), value.clone(), None, None),
        ScriptEnd::Failed(error) => (false, None, Json::Null, Some(error.to_string()), None),
        ScriptEnd::Stopped { reason, .. } => (false, None, Json::Null, None, Some(reason.clone())),
    };
    let plain = json!({
        "ok": ok, "note": note, "value": value, "error": error, "stopped": stopped, "checks": report.checks,
        "commands": report.commands, "spent": report.spent.dollars(), "elapsed": report.elapsed.as_secs_f64(),
        "files": files, "open_forks": report.open_forks,
    });
    let table = fill(lua, &plain)?;
    table.raw_set("sessions", sessions)?;
    table.raw_set("logs", logs)?;
    marks.shaped(table, "Run")
}

/// Tells what a session is asked for.
pub(super) fn call(lua: &Lua, asked: &SessionCall, index: u32) -> mlua::Result<Table> {
    shaped(lua, &*Marks::of(lua)?, &fields_of(asked, index), "RunCall")
}

fn fields_of(asked: &SessionCall, index: u32) -> Json {
    json!({
        "prompt": asked.prompt, "role": asked.role, "model": asked.model, "harness": asked.harness,
        "phase": asked.phase, "label": asked.label, "timeout": asked.timeout.map(|limit| limit.as_secs_f64()),
        "max_cost": asked.max_cost.map(Micros::dollars), "continue": asked.continue_from,
        "workspace": asked.workspace, "index": index,
    })
}

fn list<T>(lua: &Lua, items: &[T], told: impl Fn(&T) -> mlua::Result<Table>) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(items.len(), 0)?;
    for item in items {
        table.raw_push(told(item)?)?;
    }
    table.set_readonly(true);
    Ok(table)
}

fn shaped(lua: &Lua, marks: &Marks, fields: &Json, shape: &str) -> mlua::Result<Table> {
    marks.shaped(fill(lua, fields)?, shape)
}

/// Makes a table of fields; what is in them is frozen, the table itself not yet.
fn fill(lua: &Lua, fields: &Json) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in fields.as_object().into_iter().flatten() {
        let value: Value = from_json(lua, value, true, None)?;
        table.raw_set(name.as_str(), value)?;
    }
    Ok(table)
}
