//! Files of a workspace, and forks of it.

use mlua::{LuaString, Table, Value};

use super::Binder;
use super::session::unexpected;
use crate::script::gate::{Marks, Raised, misuse};
use crate::script::port::{Answer, HostCall, WorkspaceId};

/// Most bytes of a file that a script writes.
const MAX_WRITE: usize = 16 << 20;

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.waiting("read", |lua, gate, (id, path): (u32, String)| async move {
        match gate.call(HostCall::Read { path, workspace: WorkspaceId(id) }).await? {
            Answer::Missing => Ok(Value::Nil),
            Answer::Bytes(bytes) => Ok(Value::String(lua.create_string(bytes)?)),
            other => unexpected("workspace.read", &other),
        }
    })?;
    binder.waiting("exists", |_, gate, (id, path): (u32, String)| async move {
        match gate.call(HostCall::Exists { path, workspace: WorkspaceId(id) }).await? {
            Answer::Bool(exists) => Ok(exists),
            other => unexpected("workspace.exists", &other),
        }
    })?;
    binder.waiting("list", |lua, gate, (id, path): (u32, String)| async move {
        match gate.call(HostCall::List { path, workspace: WorkspaceId(id) }).await? {
            Answer::Missing => Ok(Value::Nil),
            Answer::Names(names) => Ok(Value::Table(lua.create_sequence_from(names)?)),
            other => unexpected("workspace.list", &other),
        }
    })?;
    binder.waiting("glob", |lua, gate, (id, pattern): (u32, String)| async move {
        match gate.call(HostCall::Glob { pattern, workspace: WorkspaceId(id) }).await? {
            Answer::Names(names) => Ok(lua.create_sequence_from(names)?),
            other => unexpected("workspace.glob", &other),
        }
    })?;
    binder.waiting("diff", |lua, gate, id: u32| async move {
        match gate.call(HostCall::Diff { workspace: WorkspaceId(id) }).await? {
            Answer::Bytes(bytes) => Ok(lua.create_string(bytes)?),
            other => unexpected("workspace.diff", &other),
        }
    })?;
    binder.waiting("write", |_, gate, (id, path, content): (u32, String, LuaString)| async move {
        if content.as_bytes().len() > MAX_WRITE {
            return misuse(format!("workspace.write: at most {MAX_WRITE} bytes a file"));
        }
        let content = content.as_bytes().to_vec();
        gate.call(HostCall::Write { path, content, workspace: WorkspaceId(id) }).await?;
        Ok::<(), Raised>(())
    })?;
    forks(binder)
}

fn forks(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.waiting("fork", |lua, gate, from: u32| async move {
        match gate.call(HostCall::Fork { from: WorkspaceId(from) }).await? {
            Answer::Workspace(id) => {
                let handle = lua.create_table()?;
                handle.raw_set("id", id.0)?;
                Ok(Marks::of(&lua)?.shaped(handle, "Workspace")?)
            }
            other => unexpected("fork.create", &other),
        }
    })?;
    binder.plain("main_workspace", |lua, _, ()| {
        let handle = lua.create_table()?;
        handle.raw_set("id", WorkspaceId::MAIN.0)?;
        Ok(Marks::of(lua)?.shaped(handle, "Workspace")?)
    })?;
    binder.waiting("merge", |_, gate, (from, into): (Table, Table)| async move {
        let (from, into) = (WorkspaceId(from.raw_get("id")?), WorkspaceId(into.raw_get("id")?));
        if from == into {
            return misuse("fork.merge: a workspace cannot replace itself");
        }
        gate.call(HostCall::Merge { from, into }).await?;
        Ok::<(), Raised>(())
    })?;
    binder.waiting("discard", |_, gate, handle: Table| async move {
        let workspace = WorkspaceId(handle.raw_get("id")?);
        if workspace == WorkspaceId::MAIN {
            return misuse("fork.discard: the main workspace cannot be thrown away");
        }
        gate.call(HostCall::Discard { workspace }).await?;
        Ok::<(), Raised>(())
    })
}
