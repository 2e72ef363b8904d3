//! `require`: `@std/…`, or a file below the orchestrator's own directory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Lua, Table, Value};

use super::plain;
use crate::script::control::Terminated;
use crate::script::convert::type_name;
use crate::script::error::{ScriptError, load_error};
use crate::script::frames;
use crate::script::gate::{Gate, Raised, TraceMemo, misuse};
use crate::script::library;
use crate::script::source::ScriptSource;
use crate::script::testing::Recorder;
use crate::script::vm::{self, Environments};

use super::arguments::suggestion;

/// Where `require` looks.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    /// The script's own files.
    pub(crate) source: ScriptSource,
    /// Modules that the host adds to the standard ones: name and text.
    pub(crate) extra: Vec<(&'static str, &'static str)>,
    /// Where the lines that run are counted, where they are.
    pub(crate) coverage: Option<Coverage>,
    /// Where tests are recorded, where the script is a test file.
    pub(crate) tests: Option<Arc<Recorder>>,
}

/// How often each line of a script's files ran.
#[derive(Debug, Clone, Default)]
pub(crate) struct Coverage(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    lines: BTreeMap<String, BTreeMap<u32, u64>>,
    /// Chunks of the VM that runs now.
    chunks: Vec<(String, mlua::Function)>,
}

impl Coverage {
    fn watch(&self, path: &str, chunk: &mlua::Function) {
        self.lock().chunks.push((path.to_owned(), chunk.clone()));
    }

    /// Adds what the chunks of a VM counted; to be called before the VM goes.
    pub(crate) fn collect(&self) {
        let mut counts = self.lock();
        for (path, chunk) in std::mem::take(&mut counts.chunks) {
            let lines = counts.lines.entry(path).or_default();
            chunk.coverage(|info| {
                for (line, hits) in info.hits.iter().enumerate() {
                    if let (Ok(line), Ok(hits)) = (u32::try_from(line), u64::try_from(*hits)) {
                        *lines.entry(line).or_default() += hits;
                    }
                }
            });
        }
    }

    /// Takes everything that was counted.
    pub(crate) fn take(&self) -> BTreeMap<String, BTreeMap<u32, u64>> {
        std::mem::take(&mut self.lock().lines)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn install(lua: &Lua, gate: &Arc<Gate>, files: Files, table: &Table) -> mlua::Result<()> {
    let files = Arc::new(files);
    let at = Arc::clone(&files);
    table.raw_set("resolve", plain(lua, gate, move |lua, _, name: Value| resolve(lua, &at, &name))?)?;
    table.raw_set("load", plain(lua, gate, move |lua, gate, key: String| load(lua, gate, &files, &key))?)?;
    table.raw_set(
        "cyclic",
        plain(lua, gate, |_, _, key: String| {
            misuse::<()>(format!(
                "require: `{key}` is still being loaded: it requires itself, directly or through others"
            ))
        })?,
    )?;
    table.raw_set(
        "empty",
        plain(lua, gate, |_, _, key: String| {
            misuse::<()>(format!("require: `{key}` returned nothing; end it with `return`"))
        })?,
    )?;
    let gate = Arc::clone(gate);
    let note = lua.create_function(move |lua, value: Value| {
        if !is_termination(&value) {
            let frames = gate.frames_of(lua, &value);
            gate.remember(TraceMemo { value: value.clone(), frames });
        }
        Ok(value)
    })?;
    table.raw_set("note", note)
}

/// Tells whether an error is the one that ends scripts where Luau cannot yield.
fn is_termination(value: &Value) -> bool {
    matches!(value, Value::Error(error) if error.downcast_ref::<Terminated>().is_some())
}

/// Turns the name that a script wrote into the key of a module.
fn resolve(lua: &Lua, files: &Files, name: &Value) -> Result<String, Raised> {
    let Value::String(name) = name else {
        return misuse(format!("require: argument 1 (name) must be a string, got {}", type_name(name)));
    };
    let Ok(name) = name.to_str() else { return misuse("require: the name is no UTF-8") };
    if let Some(module) = name.strip_prefix("@std/") {
        let extra = files.extra.iter().map(|(name, _)| *name);
        if extra.clone().any(|other| other == module) || library::source(module).is_some() {
            return Ok(name.to_owned());
        }
        let known = library::names().chain(extra);
        return misuse(format!("require: there is no `{}`{}", &*name, suggestion(module, known)));
    }
    let Some(relative) = name.strip_prefix("./") else {
        return misuse(format!(
            "require: `{}` must start with `@std/` (a standard module) or `./` (a file of this orchestrator)",
            &*name
        ));
    };
    let caller = frames::calling_file(lua).unwrap_or_default();
    let folder = caller.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = if folder.is_empty() { relative.to_owned() } else { format!("{folder}/{relative}") };
    let candidates = if path.rsplit_once('.').is_some_and(|(_, ending)| ending == "lua") {
        vec![path]
    } else {
        vec![format!("{path}.lua"), format!("{path}/init.lua")]
    };
    for candidate in &candidates {
        match files.source.read(candidate) {
            Ok(Some(_)) => return Ok(candidate.clone()),
            Ok(None) => {}
            Err(error) => return misuse(format!("require: {error}")),
        }
    }
    misuse(format!("require: there is no {} in the orchestrator's directory", candidates.join(" or ")))
}

/// Compiles a module; returns its chunk and whether it is one of the host's.
fn load(lua: &Lua, gate: &Gate, files: &Files, key: &str) -> Result<(mlua::Function, bool), Raised> {
    let environments = Environments::of(lua)?;
    if let Some(module) = key.strip_prefix("@std/") {
        let chunk_name = format!("={key}");
        if let Some((_, text)) = files.extra.iter().find(|(name, _)| *name == module) {
            return Ok((vm::compile(lua, &chunk_name, text.as_bytes(), environments.std, false)?, true));
        }
        let Some(bytecode) = library::bytecode(module) else { return misuse(format!("require: there is no `{key}`")) };
        return Ok((vm::load_own(lua, &chunk_name, bytecode, environments.std)?, true));
    }
    match script_chunk(lua, gate, files, key, environments.script) {
        Ok(chunk) => Ok((chunk, false)),
        Err(error) => {
            let text = error.to_string();
            gate.remember_load(error);
            misuse(text)
        }
    }
}

/// Compiles one of the script's own files.
pub(crate) fn script_chunk(
    lua: &Lua,
    gate: &Gate,
    files: &Files,
    path: &str,
    environment: Table,
) -> Result<mlua::Function, ScriptError> {
    use crate::script::error::ScriptErrorKind::Load;
    let bytes = match files.source.read(path) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => {
            return Err(ScriptError::new(Load, format!("there is no `{path}` in the orchestrator's directory")));
        }
        Err(error) => return Err(ScriptError::new(Load, error.to_string())),
    };
    let limit = gate.limits.file_bytes;
    if bytes.len() > limit {
        return Err(ScriptError::new(Load, format!("`{path}` has {} bytes; the limit is {limit}", bytes.len())));
    }
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Err(ScriptError::new(Load, format!("`{path}` is no UTF-8 text; scripts are loaded as text only")));
    };
    let name = format!("{}{path}", frames::SCRIPT);
    let bytecode = if files.coverage.is_none() { files.source.bytecode(path, text.as_bytes()) } else { None };
    let chunk = match bytecode {
        Some(bytecode) => vm::load_own(lua, &name, &bytecode, environment),
        None => vm::compile(lua, &name, text.as_bytes(), environment, files.coverage.is_some()),
    };
    let chunk = chunk.map_err(|error| load_error(path, text, &error.to_string()))?;
    if let Some(coverage) = &files.coverage {
        coverage.watch(path, &chunk);
    }
    Ok(chunk)
}
