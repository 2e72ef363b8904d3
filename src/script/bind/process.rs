//! Checks and commands.

use mlua::{Lua, Table};

use super::Binder;
use super::session::{seconds, unexpected, workspace_of};
use crate::script::gate::{Marks, Raised, misuse};
use crate::script::port::{Answer, ChecksReport, ExecAnswer, HostCall};

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.waiting("checks", |lua, gate, options: Table| async move {
        match gate.call(HostCall::Checks { workspace: workspace_of(&options)? }).await? {
            Answer::Checks(report) => Ok(checks_table(&lua, &report)?),
            other => unexpected("checks.run", &other),
        }
    })?;
    binder.waiting("exec", |lua, gate, (argv, options): (Table, Table)| async move {
        let argv = argv
            .sequence_values::<mlua::LuaString>()
            .map(|part| {
                let part = part?;
                let text = part.to_str().map_err(|_| Raised::Misuse("exec.run: an argument is no UTF-8".to_owned()))?;
                if text.contains('\0') {
                    return misuse("exec.run: an argument holds a NUL");
                }
                Ok(text.to_owned())
            })
            .collect::<Result<Vec<_>, Raised>>()?;
        if argv.first().is_none_or(String::is_empty) {
            return misuse("exec.run: argument 1 (argv) must name a program");
        }
        let timeout = seconds(&options, "timeout")?;
        match gate.call(HostCall::Exec { argv, timeout, workspace: workspace_of(&options)? }).await? {
            Answer::Exec(answer) => Ok(exec_table(&lua, &answer)?),
            other => unexpected("exec.run", &other),
        }
    })
}

fn checks_table(lua: &Lua, report: &ChecksReport) -> mlua::Result<Table> {
    let marks = Marks::of(lua)?;
    let list = lua.create_table_with_capacity(report.checks.len(), 0)?;
    for check in &report.checks {
        let table = lua.create_table()?;
        table.raw_set("command", check.command.as_str())?;
        table.raw_set("ok", check.ok)?;
        table.raw_set("exit_code", check.exit_code)?;
        table.raw_set("output", check.output.as_str())?;
        list.raw_push(marks.shaped(table, "Check")?)?;
    }
    list.set_readonly(true);
    let table = lua.create_table()?;
    table.raw_set("ok", report.ok)?;
    table.raw_set("passed", report.passed)?;
    table.raw_set("total", report.total)?;
    table.raw_set("output", report.output.as_str())?;
    table.raw_set("checks", list)?;
    marks.shaped(table, "Checks")
}

fn exec_table(lua: &Lua, answer: &ExecAnswer) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("ok", answer.ok)?;
    table.raw_set("exit_code", answer.exit_code)?;
    table.raw_set("timed_out", answer.timed_out)?;
    table.raw_set("stdout", answer.stdout.as_str())?;
    table.raw_set("stderr", answer.stderr.as_str())?;
    Marks::of(lua)?.shaped(table, "Exec")
}
