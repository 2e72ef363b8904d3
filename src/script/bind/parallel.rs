//! Branches that run at the same time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream;
use mlua::{Function, Lua, Table, Value};

use super::Binder;
use crate::script::gate::{Gate, Marks, Raised, TraceMemo, misuse};
use crate::script::waiting::conduct;

/// How deep branches may be nested. Each level is polled within the one above it, on the same native stack.
const MAX_DEPTH: u32 = 16;

/// Result of one branch: its value, or what it raised and from where.
type Branch = Result<Value, TraceMemo>;

pub(super) fn install(binder: &Binder<'_>) -> mlua::Result<()> {
    binder.waiting("map", |lua, gate, (list, function, width): (Table, Function, Option<usize>)| async move {
        let items = list.sequence_values::<Value>().collect::<mlua::Result<Vec<_>>>()?;
        let limit = gate.limits.branches;
        if items.len() > limit {
            return misuse(format!("parallel.map: at most {limit} items, got {}", items.len()));
        }
        // Read on the first poll, which happens within the polls of the branches around this one.
        if gate.depth.load(Ordering::Relaxed) >= MAX_DEPTH {
            return misuse(format!("parallel.map: branches are nested more than {MAX_DEPTH} deep"));
        }
        let width = width.unwrap_or(items.len()).max(1);
        let marks = Marks::of(&lua)?;
        let branches = items.into_iter().enumerate().map(|(index, item)| {
            let args = (function.clone(), marks.note.clone(), item, index + 1);
            let call = conduct::<(bool, Value)>(lua.clone(), Arc::clone(&gate), marks.xpcall.clone(), args);
            let gate = Arc::clone(&gate);
            let call = Nested { gate: Arc::clone(&gate), inner: Box::pin(call) };
            async move { Ok::<_, mlua::Error>((index, settled(&gate, call.await?))) }
        });
        let mut results: Vec<(usize, Branch)> = stream::iter(branches)
            .buffer_unordered(width)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .collect::<mlua::Result<_>>()?;
        results.sort_unstable_by_key(|(index, _)| *index);
        gather(&lua, &gate, results)
    })
}

/// Takes what a protected call came to; the trace of a failure was noted while its stack was still there.
fn settled(gate: &Gate, (ok, value): (bool, Value)) -> Branch {
    if ok {
        return Ok(value);
    }
    let frames = gate.take_memo(&value).unwrap_or_default();
    Err(TraceMemo { value, frames })
}

/// Makes the list of results, or raises what the first failing branch raised.
fn gather(lua: &Lua, gate: &Gate, results: Vec<(usize, Branch)>) -> Result<Table, Raised> {
    let table = lua.create_table_with_capacity(results.len(), 0)?;
    for (index, branch) in results {
        match branch {
            Ok(value) => table.raw_set(index + 1, value)?,
            Err(mut memo) => {
                if let Some(outermost) = memo.frames.last_mut() {
                    outermost.branch = u32::try_from(index + 1).ok();
                }
                let value = memo.value.clone();
                gate.remember(memo);
                return Err(Raised::Value(value));
            }
        }
    }
    Ok(table)
}

/// Counts how deep the polls of branches are nested.
struct Nested<F> {
    gate: Arc<Gate>,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for Nested<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let gate = Arc::clone(&self.gate);
        let _level = Level::enter(&gate.depth);
        self.inner.as_mut().poll(context)
    }
}

/// One level of nesting; gives it back even where a poll panics.
struct Level<'a>(&'a AtomicU32);

impl<'a> Level<'a> {
    fn enter(depth: &'a AtomicU32) -> Self {
        depth.fetch_add(1, Ordering::Relaxed);
        Self(depth)
    }
}

impl Drop for Level<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
