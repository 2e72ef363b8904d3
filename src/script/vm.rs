//! One VM per script: libraries, sandbox, globals.
//!
//! Scripts never see the VM's own globals. They get an environment that holds copies of what is allowed, and raises for
//! everything else; the standard modules get one of their own, which no script can write to.

use std::sync::Arc;

use mlua::chunk::{ChunkMode, Compiler};
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use super::api::{SHAPES, TEST_SHAPES};
use super::bind::{Binder, Files, Guards, natives};
use super::convert::from_json;
use super::frames;
use super::gate::{Gate, Marks};
use super::library;
use super::port::{ScriptInputs, TaskView};
use crate::domain::{ParamValue, Phase};

/// Luau's own globals that scripts keep, as they are.
pub(crate) const KEPT: &[&str] = &[
    "assert",
    "error",
    "getmetatable",
    "ipairs",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "type",
    "typeof",
    "unpack",
    "xpcall",
    "_VERSION",
];
/// Libraries that scripts keep.
pub(crate) const LIBRARIES: &[&str] = &["bit32", "buffer", "string", "table", "utf8"];

/// What the host puts in place of Luau's own.
pub(crate) const GLOBALS: &[&str] = &["math", "os", "require", "tostring"];

/// How many fields the environments have room for from the start.
const MEMBERS: usize = 40;

/// What chunks are loaded into.
#[derive(Debug, Clone)]
pub(crate) struct Environments {
    /// The script's own.
    pub(crate) script: Table,
    /// That of the standard modules.
    pub(crate) std: Table,
}

impl Environments {
    pub(crate) fn of(lua: &Lua) -> mlua::Result<Self> {
        lua.app_data_ref::<Self>().map(|own| own.clone()).ok_or_else(|| mlua::Error::runtime("the VM is not set up"))
    }
}

/// Returns the compiler that every chunk of a script or of the library goes through.
pub(crate) fn compiler(coverage: bool) -> Compiler {
    Compiler::new().set_optimization_level(1).set_debug_level(1).set_coverage_level(u8::from(coverage))
}

/// Returns the compiler for the host's own chunks, whose lines are never shown.
pub(crate) fn own_compiler() -> Compiler {
    Compiler::new().set_optimization_level(1).set_debug_level(0)
}

/// Compiles text. Never anything but text: bytecode of unknown origin can take the process down.
pub(crate) fn compile(
    lua: &Lua,
    name: &str,
    text: &[u8],
    environment: Table,
    coverage: bool,
) -> mlua::Result<Function> {
    lua.load(text)
        .set_name(name)
        .set_mode(ChunkMode::Text)
        .set_compiler(compiler(coverage))
        .set_environment(environment)
        .into_function()
}

/// Loads bytecode that the host made, of the library or of a script's own text.
pub(crate) fn load_own(lua: &Lua, name: &str, bytecode: &[u8], environment: Table) -> mlua::Result<Function> {
    lua.load(bytecode).set_name(name).set_mode(ChunkMode::Binary).set_environment(environment).into_function()
}

/// Builds the VM of one script.
pub(crate) fn build(gate: &Arc<Gate>, files: &Files) -> mlua::Result<Lua> {
    let libraries =
        StdLib::COROUTINE | StdLib::TABLE | StdLib::STRING | StdLib::UTF8 | StdLib::BIT | StdLib::MATH | StdLib::BUFFER;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    // Nothing of the set-up is garbage for long; one collection after it does for all of it.
    lua.gc_stop();
    let globals = lua.globals();
    let copy: Function = globals.raw_get::<Table>("table")?.raw_get("clone")?;
    seed(&globals, gate.inputs.seed)?;

    let natives = natives(&lua, gate, files.clone())?;
    let note: Function = natives.raw_get("note")?;
    let kit: Table = lua
        .load(library::prelude())
        .set_name(frames::HOST)
        .set_mode(ChunkMode::Binary)
        .call((natives, shape_names(&lua, files.tests.is_some())?))?;
    let strict: Function = kit.raw_get("strict")?;
    let shapes: Table = kit.raw_get("shapes")?;
    lua.set_app_data(Arc::new(Marks {
        error: kit.raw_get("failure")?,
        null: null(&lua)?,
        xpcall: globals.raw_get("xpcall")?,
        note,
        shapes,
    }));
    for name in LIBRARIES {
        strict.call::<()>((globals.raw_get::<Table>(*name)?, *name))?;
    }

    let guards = Guards { guard: kit.raw_get("guard")?, waiting: kit.raw_get("waiting")? };
    let host = Binder::new(&lua, gate, guards)?.finish(files.tests.as_ref())?;
    host.raw_set("test_note", &Marks::of(&lua)?.note)?;
    host.raw_set("methods", kit.raw_get::<Table>("methods")?)?;
    let base = base(&lua, &globals, &kit, &host, &strict)?;
    let script: Table = copy.call(&base)?;
    inputs(&lua, &gate.inputs, &strict, &script)?;
    let std: Table = copy.call(&script)?;
    std.raw_set("host", &host)?;
    let seal: Function = kit.raw_get("seal")?;
    seal.call::<()>(&script)?;
    seal.call::<()>(&std)?;
    std.set_readonly(true);
    // Neither is marked safe: chunks would then keep what the VM's own globals held under a name when they were loaded.
    lua.set_app_data(Environments { script, std });

    lua.sandbox(true)?;
    let control = Arc::clone(&gate.control);
    lua.set_interrupt(move |lua| control.interrupt(lua));
    gate.control.begin_memory(&lua)?;
    Ok(lua)
}

fn seed(globals: &Table, seed: u64) -> mlua::Result<()> {
    // Luau takes 32 bits: both halves must count.
    let folded = u32::try_from((seed ^ (seed >> 32)) & 0x7fff_ffff).unwrap_or(0);
    globals.raw_get::<Table>("math")?.raw_get::<Function>("randomseed")?.call(folded)
}

fn shape_names(lua: &Lua, tests: bool) -> mlua::Result<Table> {
    let all = SHAPES.iter().chain(if tests { TEST_SHAPES } else { &[] });
    lua.create_sequence_from(all.map(|shape| shape.name))
}

fn null(lua: &Lua) -> mlua::Result<Table> {
    let null = lua.create_table()?;
    null.set_readonly(true);
    Ok(null)
}

/// Makes what scripts and standard modules have in common.
fn base(lua: &Lua, globals: &Table, kit: &Table, host: &Table, strict: &Function) -> mlua::Result<Table> {
    let base = lua.create_table_with_capacity(0, MEMBERS)?;
    for name in KEPT.iter().chain(LIBRARIES) {
        base.raw_set(*name, globals.raw_get::<Value>(*name)?)?;
    }
    base.raw_set("tostring", kit.raw_get::<Function>("tostring")?)?;
    base.raw_set("require", kit.raw_get::<Function>("require")?)?;
    let math: Table = kit.raw_get("math")?;
    strict.call::<()>((&math, "math"))?;
    base.raw_set("math", math)?;
    let own = load_own(lua, frames::HOST, library::globals(), base.clone())?;
    own.call::<()>((host, strict, &base))?;
    Ok(base)
}

/// Adds `params` and `task`.
fn inputs(lua: &Lua, inputs: &ScriptInputs, strict: &Function, script: &Table) -> mlua::Result<()> {
    let params = lua.create_table()?;
    for (name, value) in &inputs.params {
        params.raw_set(name.as_str(), param(lua, value)?)?;
    }
    strict.call::<()>((&params, "params"))?;
    script.raw_set("params", params)?;
    script.raw_set("task", task(lua, &inputs.task)?)
}

fn param(lua: &Lua, value: &ParamValue) -> mlua::Result<Value> {
    Ok(match value {
        ParamValue::Bool(flag) => Value::Boolean(*flag),
        #[expect(clippy::cast_precision_loss, reason = "Luau has no other numbers")]
        ParamValue::Int(number) => Value::Number(*number as f64),
        ParamValue::Float(number) => Value::Number(*number),
        ParamValue::Text(text) => Value::String(lua.create_string(text)?),
        ParamValue::List(items) => {
            let list = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                list.raw_push(param(lua, item)?)?;
            }
            list.set_readonly(true);
            Value::Table(list)
        }
    })
}

fn task(lua: &Lua, view: &TaskView) -> mlua::Result<Table> {
    let marks = Marks::of(lua)?;
    let checks = lua.create_sequence_from(view.checks.iter().map(String::as_str))?;
    checks.set_readonly(true);
    let phases = lua.create_table()?;
    for phase in &view.phases {
        phases.raw_push(phase_table(lua, &marks, phase)?)?;
    }
    phases.set_readonly(true);
    let table = lua.create_table()?;
    table.raw_set("id", view.id.as_str())?;
    table.raw_set("name", view.name.as_str())?;
    table.raw_set("prompt", view.prompt.as_str())?;
    table.raw_set("track", view.track.as_str())?;
    table.raw_set("checks", checks)?;
    table.raw_set("phases", phases)?;
    table.raw_set("metadata", from_json(lua, &serde_json::Value::Object(view.metadata.clone()), true, None)?)?;
    marks.shaped(table, "Task")
}

fn phase_table(lua: &Lua, marks: &Marks, phase: &Phase) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("name", phase.name.as_str())?;
    table.raw_set("role", phase.model_role.as_str())?;
    table.raw_set("prompt", phase.task_prompt.as_deref())?;
    table.raw_set("input", phase.input.as_str())?;
    table.raw_set("timeout", phase.timeout.map(|limit| limit.as_secs_f64()))?;
    marks.shaped(table, "Phase")
}
