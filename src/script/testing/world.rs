//! The parts of a mock world that a test describes: lists and functions of sessions, checks and commands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mlua::{Function, Lua, Table, Value};
use serde::Deserialize;

use super::spec::{call, decode};
use super::told;
use crate::domain::{Micros, SessionStatus, Usage};
use crate::script::convert::type_name;
use crate::script::gate::{Marks, Raised, misuse};
use crate::script::mock::{ChecksScript, ExecScript, MockFiles, MockSession, SessionScript};
use crate::script::port::{Answer, ChecksReport, ExecAnswer, HostError, SessionCall};

/// A session as a test writes it.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SessionSpec {
    text: Option<String>,
    ok: Option<bool>,
    status: Option<SessionStatus>,
    reason: Option<String>,
    exit_code: Option<i32>,
    duration: f64,
    cost: Option<f64>,
    usage: Usage,
    turns: Option<u64>,
    tool_calls: Option<u64>,
    files: BTreeMap<String, FileSpec>,
    refused: Option<String>,
    stopped: Option<String>,
}

/// The content of a file, or `false` to remove it.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileSpec {
    Content(String),
    Present(bool),
}

fn session(value: &Value) -> Result<MockSession, String> {
    if let Value::String(text) = value {
        return Ok(MockSession::saying(&text.to_string_lossy()));
    }
    if value.is_nil() {
        return Ok(MockSession::default());
    }
    let spec: SessionSpec = decode(value)?;
    let status = match (spec.status, spec.ok) {
        (Some(status), _) => status,
        (None, Some(false)) => SessionStatus::Failed,
        (None, _) => SessionStatus::Completed,
    };
    let files = spec.files.into_iter().map(|(path, file)| match file {
        FileSpec::Content(content) => Ok((path, Some(content.into_bytes()))),
        FileSpec::Present(false) => Ok((path, None)),
        FileSpec::Present(true) => Err(format!("files: `{path}` must be a text, or false to remove it")),
    });
    Ok(MockSession {
        status,
        reason: spec.reason,
        text: spec.text,
        duration: Duration::try_from_secs_f64(spec.duration).map_err(|error| format!("duration: {error}"))?,
        cost: spec.cost.map(Micros::from_dollars).transpose().map_err(|error| format!("cost: {error}"))?,
        usage: spec.usage,
        exit_code: spec.exit_code.or(Some(i32::from(status != SessionStatus::Completed))),
        turns: spec.turns,
        tool_calls: spec.tool_calls,
        files: files.collect::<Result<_, String>>()?,
        refused: spec.refused,
        stopped: spec.stopped,
    })
}

/// Plays a list of sessions in the order in which they are held.
pub(super) fn sessions_of(list: &Table) -> Result<SessionScript, Raised> {
    let mut sessions = Vec::new();
    for (index, value) in list.sequence_values::<Value>().enumerate() {
        match session(&value?) {
            Ok(session) => sessions.push(session),
            Err(reason) => return misuse(format!("t.run: `sessions`, item {}: {reason}", index + 1)),
        }
    }
    let total = sessions.len();
    let mut left = sessions.into_iter();
    Ok(Box::new(move |call: &SessionCall, index, _: &mut MockFiles| {
        left.next().ok_or_else(|| {
            let prompt: String = call.prompt.chars().take(80).collect();
            format!("the script held session {index}, but `sessions` lists only {total}; its prompt: {prompt:?}")
        })
    }))
}

/// Plays sessions by a function `(call, workspace) -> session`.
pub(super) fn sessions_by(lua: &Lua, function: Function) -> SessionScript {
    let lua = lua.weak();
    Box::new(move |asked: &SessionCall, index, files: &mut MockFiles| {
        let lua = lua.upgrade();
        let told = told::call(&lua, asked, index).map_err(|error| error.to_string())?;
        let value = with_files(&lua, files, |handle| call(&function, (told, handle)))?;
        session(&value).map_err(|reason| format!("`sessions` returned for session {index}: {reason}"))
    })
}

/// Judges by a function `(workspace) -> boolean or report`.
pub(super) fn checks_by(lua: &Lua, function: Function) -> ChecksScript {
    let lua = lua.weak();
    Box::new(move |files: &MockFiles| {
        let mut files = files.clone();
        let value = with_files(&lua.upgrade(), &mut files, |handle| call(&function, handle))?;
        report(&value)
    })
}

/// Judges by what is given: one verdict for all, or a list of verdicts of which the last one stays.
pub(super) fn checks_of(value: &Value) -> Result<ChecksScript, Raised> {
    let list: Vec<Value> = match value {
        Value::Table(table) if table.raw_len() > 0 => table.sequence_values().collect::<mlua::Result<_>>()?,
        other => vec![other.clone()],
    };
    let reports = list.iter().map(report).collect::<Result<Vec<_>, String>>();
    let reports = reports.or_else(|reason| misuse(format!("t.run: {reason}")))?;
    let mut at = 0;
    Ok(Box::new(move |_: &MockFiles| {
        let report = reports.get(at.min(reports.len().saturating_sub(1))).cloned().unwrap_or_default();
        at += 1;
        Ok(report)
    }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportSpec {
    ok: bool,
    passed: Option<u32>,
    total: Option<u32>,
    #[serde(default)]
    output: String,
}

fn report(value: &Value) -> Result<ChecksReport, String> {
    let spec = match value {
        Value::Boolean(ok) => ReportSpec { ok: *ok, passed: None, total: None, output: String::new() },
        Value::Table(_) => decode(value).map_err(|reason| format!("`checks`: {reason}"))?,
        other => return Err(format!("`checks` must give true, false or a table, got {}", type_name(other))),
    };
    let total = spec.total.unwrap_or(1);
    let passed = spec.passed.unwrap_or(if spec.ok { total } else { 0 });
    Ok(ChecksReport { ok: spec.ok, passed, total, output: spec.output, checks: Vec::new() })
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ExecSpec {
    exit_code: Option<i32>,
    timed_out: bool,
    stdout: String,
    stderr: String,
}

/// Runs commands by a function `(argv, workspace) -> answer`; a text is standard output.
pub(super) fn exec_by(lua: &Lua, function: Function) -> ExecScript {
    let lua = lua.weak();
    Box::new(move |argv: &[String], files: &mut MockFiles| {
        let lua = lua.upgrade();
        let argv = lua.create_sequence_from(argv.iter().map(String::as_str)).map_err(|error| error.to_string())?;
        let spec = match with_files(&lua, files, |handle| call(&function, (argv, handle)))? {
            Value::Nil => ExecSpec::default(),
            Value::String(text) => ExecSpec { stdout: text.to_string_lossy(), ..ExecSpec::default() },
            other => decode(&other).map_err(|reason| format!("`exec`: {reason}"))?,
        };
        let exit_code = if spec.timed_out { spec.exit_code } else { spec.exit_code.or(Some(0)) };
        Ok(ExecAnswer {
            ok: exit_code == Some(0),
            exit_code,
            timed_out: spec.timed_out,
            stdout: spec.stdout,
            stderr: spec.stderr,
        })
    })
}

/// Lends a workspace to a function of the test, and takes back what it wrote.
fn with_files<R>(
    lua: &Lua,
    files: &mut MockFiles,
    function: impl FnOnce(Table) -> Result<R, String>,
) -> Result<R, String> {
    let shared = Arc::new(Mutex::new(std::mem::take(files)));
    let result = handle(lua, &shared).map_err(|error| error.to_string()).and_then(function);
    *files = std::mem::take(&mut *shared.lock().unwrap_or_else(PoisonError::into_inner));
    result
}

fn handle(lua: &Lua, shared: &Arc<Mutex<MockFiles>>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let files = Arc::clone(shared);
    let read = lua.create_function(move |lua, (_, path): (Table, String)| {
        match files.lock().unwrap_or_else(PoisonError::into_inner).read(&path).map_err(raise)? {
            Answer::Bytes(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
            _ => Ok(Value::Nil),
        }
    })?;
    table.raw_set("read", read)?;
    let files = Arc::clone(shared);
    let exists = lua.create_function(move |_, (_, path): (Table, String)| {
        files.lock().unwrap_or_else(PoisonError::into_inner).exists(&path).map_err(raise)
    })?;
    table.raw_set("exists", exists)?;
    let files = Arc::clone(shared);
    let write = lua.create_function(move |_, (_, path, content): (Table, String, mlua::LuaString)| {
        files.lock().unwrap_or_else(PoisonError::into_inner).write(&path, content.as_bytes().to_vec());
        Ok(())
    })?;
    table.raw_set("write", write)?;
    let files = Arc::clone(shared);
    let glob = lua.create_function(move |_, (_, pattern): (Table, String)| {
        files.lock().unwrap_or_else(PoisonError::into_inner).glob(&pattern).map_err(raise)
    })?;
    table.raw_set("glob", glob)?;
    Marks::of(lua)?.shaped(table, "RunWorkspace")
}

fn raise(error: HostError) -> mlua::Error {
    mlua::Error::runtime(error.to_string())
}
