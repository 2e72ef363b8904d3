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

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Table};

pub(crate) use arguments::{absent, suggestion};
pub(crate) use modules::{Coverage, Files, script_chunk};

use super::gate::{Gate, Raised, settle};
use super::testing::{self, Recorder};

/// Puts guarded functions into a table.
pub(crate) struct Binder<'a> {
    lua: &'a Lua,
    gate: Arc<Gate>,
    guard: Function,
    table: Table,
}

impl<'a> Binder<'a> {
    pub(crate) fn new(lua: &'a Lua, gate: &Arc<Gate>, guard: Function) -> mlua::Result<Self> {
        Ok(Self { lua, gate: Arc::clone(gate), guard, table: lua.create_table()? })
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
        self.table.raw_set(name, self.guard.call::<Function>(raw)?)
    }

    /// Adds a function that may wait for the host.
    fn waiting<A, R, F>(
        &self,
        name: &str,
        function: impl Fn(Lua, Arc<Gate>, A) -> F + Clone + Send + Sync + 'static,
    ) -> mlua::Result<()>
    where
        A: FromLuaMulti + Send + 'static,
        R: IntoLuaMulti + Send + 'static,
        F: Future<Output = Result<R, Raised>> + Send + 'static,
    {
        let gate = Arc::clone(&self.gate);
        let raw = self.lua.create_async_function(move |lua: Lua, args: A| {
            let answer = function(lua.clone(), Arc::clone(&gate), args);
            async move {
                let answer = answer.await;
                settle(&lua, answer)
            }
        })?;
        self.table.raw_set(name, self.guard.call::<Function>(raw)?)
    }

    /// Returns the table with what every script needs, and `use`, by which the standard modules add the rest.
    ///
    /// Each async function costs some ten kilobytes, and most scripts use few modules.
    pub(crate) fn finish(self, tests: Option<&Arc<Recorder>>) -> mlua::Result<Table> {
        arguments::install(&self)?;
        session::install(&self)?;
        log::install(&self)?;
        time::install(&self)?;
        if let Some(recorder) = tests {
            testing::install(&self, recorder)?;
        }
        let (gate, guard, table) = (self.gate, self.guard, self.table);
        let host = table.clone();
        let add = self.lua.create_function(move |lua, area: String| {
            let binder = Binder { lua, gate: Arc::clone(&gate), guard: guard.clone(), table: host.clone() };
            match AREAS.iter().find(|(name, _)| *name == area) {
                Some((_, install)) => install(&binder),
                None => Err(mlua::Error::runtime(format!("there is no area `{area}`"))),
            }
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
    table.raw_set("unknown", plain(lua, gate, arguments::unknown)?)?;
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
