//! Log lines, within a volume.

use std::sync::Arc;

use super::Binder;
use crate::script::gate::{Gate, Raised};
use crate::script::port::HostCall;

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.waiting("log", |_, gate: Arc<Gate>, (level, text): (String, mlua::LuaString)| async move {
        // Bytes that are no UTF-8 are shown as such rather than refused: a log must not fail.
        let Some(text) = gate.take_log(text.to_string_lossy()) else { return Ok::<(), Raised>(()) };
        gate.call(HostCall::Log { level, text }).await?;
        Ok(())
    })
}
