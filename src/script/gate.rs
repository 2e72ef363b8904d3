//! The one door from a running script to its host, with the counts and limits that belong to it.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::control::{Cause, Control};
use super::convert::Bounds;
use super::error::{Frame, ScriptError};
use super::frames;
use super::limits::ScriptLimits;
use super::port::{Answer, HostCall, HostError, ScriptInputs, ScriptPort};
use super::waiting::Waiters;

/// What a host function raises in the script.
#[derive(Debug)]
pub(crate) enum Raised {
    /// The call makes no sense.
    Misuse(String),
    /// A limit refused.
    Refused {
        /// Which.
        limit: String,
        /// What was measured.
        message: String,
    },
    /// A value that the script itself raised, on its way through the host.
    Value(Value),
    /// The VM's own error, such as lack of memory.
    Lua(mlua::Error),
}

impl From<mlua::Error> for Raised {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// Shorthand for [`Raised::Misuse`].
pub(crate) fn misuse<T>(message: impl Into<String>) -> Result<T, Raised> {
    Err(Raised::Misuse(message.into()))
}

/// Metatables and marks by which the host knows its own tables again; kept beside the VM.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Metatable of raised errors.
    pub(crate) error: Table,
    /// `json.null`.
    pub(crate) null: Table,
    /// The protected call that scripts have, for branches.
    pub(crate) xpcall: mlua::Function,
    /// The handler that remembers traces.
    pub(crate) note: mlua::Function,
    /// Metatables by shape.
    pub(crate) shapes: Table,
}

impl Marks {
    pub(crate) fn of(lua: &Lua) -> mlua::Result<Arc<Self>> {
        lua.app_data_ref::<Arc<Self>>()
            .map(|marks| Arc::clone(&marks))
            .ok_or_else(|| mlua::Error::runtime("the VM is not set up"))
    }

    /// Tells whether a table is one that the host made in this shape.
    pub(crate) fn is(&self, table: &Table, shape: &str) -> bool {
        let Some(metatable) = table.metatable() else { return false };
        self.shapes.raw_get::<Table>(shape).is_ok_and(|own| own == metatable)
    }

    /// Freezes a table and makes it strict.
    pub(crate) fn shaped(&self, table: Table, shape: &str) -> mlua::Result<Table> {
        table.set_metatable(Some(self.shapes.raw_get(shape)?))?;
        table.set_readonly(true);
        Ok(table)
    }
}

/// Where an error came from, kept while it travels through host code that would hide it.
#[derive(Debug, Clone)]
pub(crate) struct TraceMemo {
    /// The error value.
    pub(crate) value: Value,
    /// Its frames.
    pub(crate) frames: Vec<Frame>,
}

/// Everything that host functions share.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) inputs: ScriptInputs,
    pub(crate) limits: ScriptLimits,
    pub(crate) control: Arc<Control>,
    /// How deep the polls of branches are nested right now.
    pub(crate) depth: AtomicU32,
    /// Host functions that may wait, and their calls.
    pub(crate) waiters: Waiters,
    port: PortBox,
    sessions: AtomicU32,
    logged: AtomicUsize,
    memo: Mutex<Option<TraceMemo>>,
    load_error: Mutex<Option<ScriptError>>,
}

struct PortBox(Arc<dyn ScriptPort>);

impl std::fmt::Debug for PortBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ScriptPort")
    }
}

impl Gate {
    pub(crate) fn new(
        inputs: ScriptInputs,
        limits: ScriptLimits,
        control: Arc<Control>,
        port: Arc<dyn ScriptPort>,
    ) -> Self {
        Self {
            inputs,
            limits,
            control,
            depth: AtomicU32::new(0),
            waiters: Waiters::default(),
            port: PortBox(port),
            sessions: AtomicU32::new(0),
            logged: AtomicUsize::new(0),
            memo: Mutex::new(None),
            load_error: Mutex::new(None),
        }
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds::of(&self.limits)
    }

    /// Asks the host. Never answers once the script is to end.
    pub(crate) async fn call(&self, call: HostCall) -> Result<Answer, Raised> {
        if self.control.ending() {
            return std::future::pending().await;
        }
        self.control.host_called();
        let function = call.function();
        let answer = self.port.0.call(call).await;
        self.control.host_called();
        match answer {
            Ok(answer) => Ok(answer),
            Err(HostError::Misuse { message }) => Err(Raised::Misuse(format!("{function}: {message}"))),
            Err(HostError::Refused { limit, message }) => Err(Raised::Refused { limit, message }),
            Err(HostError::Stop { message }) => {
                self.control.end(Cause::Stop(message));
                std::future::pending().await
            }
        }
    }

    /// Tells the host that the script waits for answers and for nothing else.
    pub(crate) fn idle(&self) {
        self.port.0.idle();
    }

    /// Counts a session, unless the script has held its last one.
    pub(crate) fn count_session(&self) -> Result<(), Raised> {
        let limit = self.limits.sessions;
        if self.sessions.fetch_add(1, Ordering::Relaxed) >= limit {
            self.sessions.store(limit, Ordering::Relaxed);
            return Err(Raised::Refused {
                limit: "sessions".to_owned(),
                message: format!("a script may hold {limit} sessions, and this would be one more"),
            });
        }
        Ok(())
    }

    /// Takes room for a log line; `None` where nothing is left, with `Some(notice)` the first time.
    pub(crate) fn take_log(&self, mut text: String) -> Option<String> {
        let max = self.limits.log_line_bytes;
        if text.len() > max {
            let mut end = max;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            let cut = text.len() - end;
            text = format!("{}… [{cut} bytes cut]", &text[..end]);
        }
        let before = self.logged.fetch_add(text.len() + 1, Ordering::Relaxed);
        if before > self.limits.log_bytes {
            // Kept from growing without end.
            self.logged.store(self.limits.log_bytes + 1, Ordering::Relaxed);
            return None;
        }
        if before + text.len() + 1 > self.limits.log_bytes {
            return Some(format!(
                "the script has logged {} bytes; what it logs from here on is dropped",
                self.limits.log_bytes
            ));
        }
        Some(text)
    }

    /// Remembers where an error came from.
    pub(crate) fn remember(&self, memo: TraceMemo) {
        *self.memo.lock().unwrap_or_else(PoisonError::into_inner) = Some(memo);
    }

    /// Takes the frames that were remembered for an error.
    pub(crate) fn take_memo(&self, value: &Value) -> Option<Vec<Frame>> {
        let memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner).take();
        memo.filter(|memo| memo.value == *value).map(|memo| memo.frames)
    }

    /// Remembers that a module did not load; the script sees only the text of it.
    pub(crate) fn remember_load(&self, error: ScriptError) {
        *self.load_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Takes the error of a module that did not load, where `message` is its text.
    pub(crate) fn take_load(&self, message: &str) -> Option<ScriptError> {
        let error = self.load_error.lock().unwrap_or_else(PoisonError::into_inner).take();
        error.filter(|error| error.to_string() == message)
    }

    /// Returns the frames of an error: those remembered for it, then those of the stack as it is.
    pub(crate) fn frames_of(&self, lua: &Lua, value: &Value) -> Vec<Frame> {
        let mut here = frames::script_frames(lua, 0, frames::MAX_FRAMES);
        let Some(mut all) = self.take_memo(value) else { return here };
        // On the same coroutine what was remembered ends with what is left of the stack; across branches it does not.
        if !all.ends_with(&here) {
            all.append(&mut here);
        }
        all.truncate(frames::MAX_FRAMES);
        all
    }
}

/// Makes what a guarded function returns: `true` and the results, or `false` and what to raise.
pub(crate) fn settle<R: IntoLuaMulti>(lua: &Lua, result: Result<R, Raised>) -> mlua::Result<MultiValue> {
    let (kind, limit, message) = match result {
        Ok(values) => {
            let mut values = values.into_lua_multi(lua)?;
            values.push_front(Value::Boolean(true));
            return Ok(values);
        }
        Err(Raised::Lua(error)) => return Err(error),
        Err(Raised::Value(value)) => return (false, value).into_lua_multi(lua),
        Err(Raised::Misuse(message)) => ("misuse", None, message),
        Err(Raised::Refused { limit, message }) => ("refused", Some(limit), message),
    };
    let table = lua.create_table()?;
    table.raw_set("kind", kind)?;
    table.raw_set("message", message)?;
    table.raw_set("limit", limit)?;
    if let Some(frame) = frames::script_frames(lua, 0, 1).first() {
        table.raw_set("where", format!("{}:{}", frame.file, frame.line))?;
    }
    table.set_metatable(Some(Marks::of(lua)?.error.clone()))?;
    table.set_readonly(true);
    (false, table).into_lua_multi(lua)
}
