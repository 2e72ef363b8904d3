//! What scripts and the standard modules call, one file an area.
//!
//! Every function here is *guarded*: it answers `true, results…` or `false, error`, and a Lua closure raises. So errors
//! are plain frozen tables that scripts can look into, and `pcall` gives them back as they are.

mod arguments;
mod data;
mod log;
mod modules;
mod parallel;
mod process;
mod session;
mod time;
mod workspace;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Table};

pub(crate) use arguments::{absent, suggestion};
pub(crate) use modules::{Coverage, Files, script_chunk};

use super::gate::{Gate, Raised, settle};
use super::testing::{self, Recorder};
use super::waiting;

/// Puts guarded functions into a table.
pub(crate) struct Binder<'a> {
    lua: &'a Lua,
    gate: Arc<Gate>,
    guards: Guards,
    table: Table,
}

/// What the prelude wraps natives with.
#[derive(Clone)]
pub(crate) struct Guards {
    /// Takes a guarded function.
    pub(crate) guard: Function,
    /// Takes the number of a function that may wait.
    pub(crate) waiting: Function,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(lua: &'a Lua, gate: &Arc<Gate>, guards: Guards) -> mlua::Result<Self> {
        Ok(Self { lua, gate: Arc::clone(gate), guards, table: lua.create_table()? })
    }

    /// Adds a function that answers at once.
    pub(crate) fn plain<A, R>(
        &self,
        name: &str,
        function: impl Fn(&Lua, &Gate, A) -> Result<R, Raised> + Send + 'static,
    ) -> mlua::Result<()>
    where
        A: FromLuaMulti,
        R: IntoLuaMulti,
    {
        let raw = plain(self.lua, &self.gate, function)?;
        self.table.raw_set(name, self.guards.guard.call::<Function>(raw)?)
    }

    /// Adds a function that may wait for the host.
    fn waiting<A, R, F>(
        &self,
        name: &str,
        function: impl Fn(Lua, Arc<Gate>, A) -> F + Send + Sync + 'static,
    ) -> mlua::Result<()>
    where
        A: FromLuaMulti,
        R: IntoLuaMulti,
        F: Future<Output = Result<R, Raised>> + Send + 'static,
    {
        let number = self.gate.waiters.add(Arc::new(move |lua, gate, args| {
            let answer = A::from_lua_multi(args, &lua).map(|args| function(lua.clone(), gate, args));
            Box::pin(async move { Ok(answer?.await?.into_lua_multi(&lua)?) })
        }));
        self.table.raw_set(name, self.guards.waiting.call::<Function>(number)?)
    }

    /// Returns the table with what every script needs, and `use`, by which the standard modules add the rest.
    pub(crate) fn finish(self, tests: Option<&Arc<Recorder>>) -> mlua::Result<Table> {
        arguments::install(&self)?;
        session::install(&self)?;
        log::install(&self)?;
        time::install(&self)?;
        if let Some(recorder) = tests {
            testing::install(&self, recorder)?;
        }
        let Self { gate, guards, table, .. } = self;
        let host = table.clone();
        let added = AtomicU8::new(0);
        let add = self.lua.create_function(move |lua, area: String| {
            let Some(number) = AREAS.iter().position(|(name, _)| *name == area) else {
                return Err(mlua::Error::runtime(format!("there is no area `{area}`")));
            };
            let bit = 1 << number;
            if added.load(Ordering::Relaxed) & bit == 0 {
                let binder = Binder { lua, gate: Arc::clone(&gate), guards: guards.clone(), table: host.clone() };
                AREAS[number].1(&binder)?;
                added.fetch_or(bit, Ordering::Relaxed);
            }
            Ok(())
        })?;
        table.raw_set("use", add)?;
        Ok(table)
    }
}

/// Adds the functions of an area.
type Install = fn(&Binder<'_>) -> mlua::Result<()>;

/// Areas that are added when a standard module asks for them.
const AREAS: &[(&str, Install)] = &[
    ("process", process::install),
    ("workspace", workspace::install),
    ("parallel", parallel::install),
    ("data", data::install),
];

/// Makes a function that answers `true, results…` or `false, error`.
fn plain<A, R>(
    lua: &Lua,
    gate: &Arc<Gate>,
    function: impl Fn(&Lua, &Gate, A) -> Result<R, Raised> + Send + 'static,
) -> mlua::Result<Function>
where
    A: FromLuaMulti,
    R: IntoLuaMulti,
{
    let gate = Arc::clone(gate);
    lua.create_function(move |lua, args: A| -> mlua::Result<MultiValue> { settle(lua, function(lua, &gate, args)) })
}

/// Makes the functions that the prelude itself needs; they are guarded there.
pub(crate) fn natives(lua: &Lua, gate: &Arc<Gate>, files: Files) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("start", waiting::start(lua, gate)?)?;
    table.raw_set("collect", waiting::collect(lua, gate)?)?;
    table.raw_set("unknown", plain(lua, gate, arguments::unknown)?)?;
    table.raw_set("field", plain(lua, gate, arguments::field)?)?;
    table.raw_set("unknown_global", plain(lua, gate, arguments::unknown_global)?)?;
    // Luau's own freeze refuses tables with a locked metatable.
    let freeze = lua.create_function(|_, table: Table| {
        table.set_readonly(true);
        Ok(table)
    })?;
    table.raw_set("freeze", freeze)?;
    modules::install(lua, gate, files, &table)?;
    Ok(table)
}
