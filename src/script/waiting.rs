//! Host functions that may wait, and the coroutines that call them.
//!
//! A call is polled at once, on the script's own stack. Most are answered then and there; for the others the coroutine yields
//! to [`conduct`], which waits outside of the VM and resumes it. One native starts all calls and one takes all answers: an
//! async native of its own for each would compile a wrapper and keep its bytecode, in every VM.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mlua::thread::ThreadStatus;
use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Value};

use super::gate::{Gate, Raised, settle};

/// What a function will answer.
pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<MultiValue, Raised>> + Send>>;
/// A function that may wait, whatever it takes and gives.
type Waiting = Arc<dyn Fn(Lua, Arc<Gate>, MultiValue) -> Answering + Send + Sync>;

/// Functions of one VM that may wait, and the call that is handed over.
#[derive(Default)]
pub(crate) struct Waiters(Mutex<State>);

#[derive(Default)]
struct State {
    functions: Vec<Waiting>,
    /// Never more than one: a call is taken as soon as its coroutine has yielded, an answer as soon as it was resumed. One
    /// that is left over could not yield, as within a sort comparator, and makes way for the next.
    call: Option<Call>,
}

/// A call on its way between the VM and [`conduct`].
enum Call {
    Asked(Answering),
    Answered(Result<MultiValue, Raised>),
}

impl Waiters {
    /// Adds a function; returns its number.
    pub(crate) fn add(&self, function: Waiting) -> usize {
        let mut state = self.lock();
        state.functions.push(function);
        state.functions.len() - 1
    }

    fn function(&self, number: usize) -> Option<Waiting> {
        self.lock().functions.get(number).cloned()
    }

    fn put(&self, call: Option<Call>) {
        let left = std::mem::replace(&mut self.lock().call, call);
        // Only after the lock is gone: what the host does then is its own affair.
        drop(left);
    }

    fn take(&self) -> Option<Call> {
        self.lock().call.take()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drops the call that nobody took. It holds on to the VM, whose functions hold on to it.
#[derive(Debug)]
pub(crate) struct Release(pub(crate) Arc<Gate>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.waiters.put(None);
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

/// Makes the native that starts calls. Its first argument is the function's number, the others are those of the call. It
/// gives what a guarded function does, or nil where the coroutine is to yield.
pub(crate) fn start(lua: &Lua, gate: &Arc<Gate>) -> mlua::Result<Function> {
    let gate = Arc::clone(gate);
    lua.create_function(move |lua, (number, args): (usize, MultiValue)| {
        let Some(function) = gate.waiters.function(number) else { return Err(no_call()) };
        let mut answering = function(lua.clone(), Arc::clone(&gate), args);
        // Nobody is woken by this poll: what is not ready is polled again at once, by whoever conducts the coroutine.
        match answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => settle(lua, answer),
            Poll::Pending => {
                gate.waiters.put(Some(Call::Asked(answering)));
                Value::Nil.into_lua_multi(lua)
            }
        }
    })
}

/// Makes the native that gives the answer to the call that a coroutine waited for, as a guarded function does.
pub(crate) fn collect(lua: &Lua, gate: &Arc<Gate>) -> mlua::Result<Function> {
    let gate = Arc::clone(gate);
    lua.create_function(move |lua, ()| match gate.waiters.take() {
        Some(Call::Answered(answer)) => settle(lua, answer),
        Some(Call::Asked(_)) | None => Err(no_call()),
    })
}

fn no_call() -> mlua::Error {
    mlua::Error::runtime("there is no such call of the host")
}

/// Runs a function in a coroutine of its own, and answers the calls that it waits for.
///
/// Once the script is to end it never resumes the coroutine again, and never answers.
pub(crate) async fn conduct<R: FromLuaMulti>(
    lua: Lua,
    gate: Arc<Gate>,
    function: Function,
    args: impl IntoLuaMulti,
) -> mlua::Result<R> {
    let thread = lua.create_thread(function)?;
    let mut told = args.into_lua_multi(&lua)?;
    loop {
        let said: MultiValue = thread.resume(told)?;
        if thread.status() == ThreadStatus::Finished {
            return R::from_lua_multi(said, &lua);
        }
        // The interrupt yields too.
        if gate.control.ending() {
            return std::future::pending().await;
        }
        let Some(Call::Asked(answering)) = gate.waiters.take() else { return Err(no_call()) };
        let answer = answering.await;
        if gate.control.ending() {
            return std::future::pending().await;
        }
        gate.waiters.put(Some(Call::Answered(answer)));
        told = MultiValue::new();
    }
}
