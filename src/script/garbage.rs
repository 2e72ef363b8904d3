//! When a VM's garbage is collected.
//!
//! Luau collects in small steps whose pace depends on its own measurements of time, and has no emergency collection when
//! memory ends. Garbage of large strings (prompts, diffs) can therefore reach a limit of memory that what is alive is far
//! below. So the pace is set higher, and at calls and loop edges a whole collection is done once half of what was free
//! after the last one is used.

use std::sync::atomic::{AtomicUsize, Ordering};

use mlua::Lua;
use mlua::state::{GcIncParams, GcMode};

/// Below this share of the limit, growth is left to the small steps: near the limit, each whole collection would free
/// little and take long.
const LEAST_GROWTH: usize = 32;

/// The memory of one VM: its limit, and how much of it may be used before everything is collected.
#[derive(Debug)]
pub(crate) struct Garbage {
    allowed: usize,
    /// Bytes of the VM at which everything is collected. Nothing is before [`Garbage::begin`].
    next: AtomicUsize,
    /// Bytes at which allocation fails.
    limit: AtomicUsize,
}

impl Garbage {
    /// For a VM that may take `allowed` bytes beside what it holds when [`Garbage::begin`] is called.
    pub(crate) fn new(allowed: usize) -> Self {
        Self { allowed, next: AtomicUsize::new(usize::MAX), limit: AtomicUsize::new(usize::MAX) }
    }

    /// Sets the limit and the pace of a VM whose set-up is over; returns the bytes that it holds.
    pub(crate) fn begin(&self, lua: &Lua) -> mlua::Result<usize> {
        // In kilobytes and percent of it.
        lua.gc_set_mode(GcMode::Incremental(GcIncParams::default().goal(150).step_multiplier(400).step_size(256)));
        lua.gc_restart();
        let used = lua.used_memory();
        let limit = used.saturating_add(self.allowed);
        lua.set_memory_limit(limit)?;
        self.limit.store(limit, Ordering::Relaxed);
        self.plan(used);
        Ok(used)
    }

    /// Collects everything where it is time to; to be called at the VM's interrupts.
    pub(crate) fn collect_in_time(&self, lua: &Lua) -> mlua::Result<()> {
        if lua.used_memory() < self.next.load(Ordering::Relaxed) {
            return Ok(());
        }
        lua.gc_collect()?;
        self.plan(lua.used_memory());
        Ok(())
    }

    fn plan(&self, used: usize) {
        let free = self.limit.load(Ordering::Relaxed).saturating_sub(used);
        let growth = (free / 2).max(self.allowed / LEAST_GROWTH);
        self.next.store(used.saturating_add(growth), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mlua::VmState;

    use super::*;

    const ALLOWED: usize = 8 << 20;

    fn vm() -> Lua {
        let lua = Lua::new();
        let garbage = Arc::new(Garbage::new(ALLOWED));
        garbage.begin(&lua).unwrap();
        lua.set_interrupt(move |lua| garbage.collect_in_time(lua).map(|()| VmState::Continue));
        lua
    }

    #[test]
    fn garbage_of_large_strings_does_not_reach_the_limit() {
        // What one turn needs fits several times; what a few leave behind does not. Without the small steps, only whole
        // collections keep it below.
        let lua = vm();
        lua.gc_stop();
        let made: usize = lua
            .load("local s = string.rep('a', 1000000) local n = 0 for i = 1, 60 do n += #s:upper() end return n")
            .eval()
            .unwrap();
        assert_eq!(made, 60_000_000);
    }

    #[test]
    fn what_is_alive_still_meets_the_limit() {
        let error =
            vm().load("local kept = {} while true do table.insert(kept, string.rep('a', 100000) .. #kept) end").exec();
        assert!(matches!(error, Err(mlua::Error::MemoryError(_))), "{error:?}");
    }
}
