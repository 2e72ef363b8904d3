//! Running one script to its end: a plain async function that knows nothing of threads.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use mlua::{Function, Lua, Value};

use super::bind::{Files, script_chunk};
use super::control::{Cause, Control};
use super::convert::{Bounds, to_json, type_name};
use super::error::{Frame, ScriptError, ScriptErrorKind, split_place};
use super::gate::{Gate, Marks};
use super::idle::Attentive;
use super::limits::ScriptLimits;
use super::port::{ScriptInputs, ScriptPort};
use super::source::ScriptSource;
use super::stop::StopHandle;
use super::vm::{self, Environments};
use super::waiting::{Release, conduct};

/// How a script ended.
#[derive(Debug, Clone, PartialEq)]
pub enum ScriptEnd {
    /// It returned.
    Returned {
        /// The note for people: the `note` of a returned table, or a returned string.
        note: Option<String>,
        /// What it returned, as JSON.
        value: serde_json::Value,
    },
    /// It did not load, raised an error, or reached a limit of its own.
    Failed(ScriptError),
    /// The host ended it.
    Stopped {
        /// Why.
        reason: String,
        /// Where the script was, if it was computing.
        place: Option<Frame>,
    },
}

/// How a script ended, and what it used.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptOutcome {
    /// How it ended.
    pub end: ScriptEnd,
    /// CPU time, set-up included.
    pub cpu: Duration,
    /// The most memory of the VM that was seen, in bytes.
    pub memory: usize,
    /// Whether its thread had to be left behind, since it did not end in time.
    pub abandoned: bool,
}

/// Runs a script to its end.
///
/// Time is the host's business: whoever holds `stop` ends the script at its deadline. Dropping the future ends the script
/// too. The future computes for as long as the script does, so it belongs on a thread of its own: see
/// [`ScriptPool`](super::ScriptPool).
pub async fn run(
    source: &ScriptSource,
    inputs: ScriptInputs,
    port: Arc<dyn ScriptPort>,
    limits: ScriptLimits,
    stop: StopHandle,
) -> ScriptOutcome {
    let files = Files { source: source.clone(), extra: Vec::new(), coverage: None, tests: None };
    run_with(files, inputs, port, limits, stop).await
}

/// Runs a script with modules of the host's own.
pub(crate) async fn run_with(
    files: Files,
    inputs: ScriptInputs,
    port: Arc<dyn ScriptPort>,
    limits: ScriptLimits,
    stop: StopHandle,
) -> ScriptOutcome {
    let control = Arc::new(Control::new(stop.clone(), &limits));
    let gate = Arc::new(Gate::new(inputs, limits, Arc::clone(&control), port));
    let _release = Release(Arc::clone(&gate));
    control.begin_poll();
    let built = vm::build(&gate, &files);
    control.end_poll();
    let end = match built {
        Err(error) => {
            let message = format!("cannot set up the VM: {error}");
            Some(ScriptEnd::Failed(ScriptError::new(ScriptErrorKind::Load, message)))
        }
        Ok(lua) => {
            let end = drive(&lua, &gate, &files, &control).await;
            control.begin_dropping();
            if let Some(coverage) = &files.coverage {
                coverage.collect();
            }
            control.saw_memory(lua.used_memory());
            drop(lua);
            end
        }
    };
    let end = end.unwrap_or_else(|| ended_from_outside(&control, &stop));
    ScriptOutcome { end, cpu: control.cpu(), memory: control.memory(), abandoned: false }
}

fn ended_from_outside(control: &Control, stop: &StopHandle) -> ScriptEnd {
    let place = control.place();
    match control.cause() {
        Some(Cause::Limit(message)) => {
            ScriptEnd::Failed(ScriptError::new(ScriptErrorKind::Limit, message).at(place.into_iter().collect()))
        }
        Some(Cause::Stop(reason)) => ScriptEnd::Stopped { reason, place },
        None => ScriptEnd::Stopped { reason: stop.reason().unwrap_or("stopped").to_owned(), place },
    }
}

/// Loads and runs; `None` where the script was ended from outside.
async fn drive(lua: &Lua, gate: &Arc<Gate>, files: &Files, control: &Arc<Control>) -> Option<ScriptEnd> {
    let main = match load(lua, gate, files) {
        Ok(main) => main,
        Err(error) => return Some(ScriptEnd::Failed(error)),
    };
    let caught = Arc::new(Mutex::new(None));
    let call = match protected(lua, gate, &main, &caught) {
        Ok(call) => call,
        Err(error) => return Some(ScriptEnd::Failed(plain_failure(&error))),
    };
    let script = Metered { control: Arc::clone(control), inner: Box::pin(call) };
    let script = Attentive::new(Arc::clone(gate), script);
    let result = tokio::select! {
        biased;
        () = control.ended() => None,
        result = script => Some(result),
    }?;
    // Where a stop and an end fall together the stop is the cause: the script may have ended because of it.
    if control.ending() {
        return None;
    }
    Some(match result {
        Ok((true, value)) => returned(&value, gate.bounds()),
        Ok((false, value)) => {
            let caught = caught.lock().unwrap_or_else(PoisonError::into_inner).take();
            ScriptEnd::Failed(caught.unwrap_or_else(|| failure(gate, &value, Vec::new())))
        }
        Err(error) => ScriptEnd::Failed(plain_failure(&error)),
    })
}

fn load(lua: &Lua, gate: &Gate, files: &Files) -> Result<Function, ScriptError> {
    let environments = Environments::of(lua).map_err(|error| plain_failure(&error))?;
    gate.control.begin_poll();
    let chunk = script_chunk(lua, gate, files, files.source.runner(), environments.script);
    gate.control.end_poll();
    chunk
}

/// Calls a function so that an error is looked at while its stack is still there.
fn protected(
    lua: &Lua,
    gate: &Arc<Gate>,
    main: &Function,
    caught: &Arc<Mutex<Option<ScriptError>>>,
) -> mlua::Result<impl Future<Output = mlua::Result<(bool, Value)>> + Send + use<>> {
    let (own, caught) = (Arc::clone(gate), Arc::clone(caught));
    let handler = lua.create_function(move |lua, value: Value| {
        if !own.control.ending() {
            let frames = own.frames_of(lua, &value);
            let error = failure(&own, &value, frames);
            *caught.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
        // The value itself may be large; what matters of it has been kept.
        Ok(())
    })?;
    let protected = Marks::of(lua)?.xpcall.clone();
    Ok(conduct(lua.clone(), Arc::clone(gate), protected, (main.clone(), handler)))
}

/// Tells what a raised value means.
fn failure(gate: &Gate, value: &Value, mut frames: Vec<Frame>) -> ScriptError {
    let message = raised_text(value);
    if let Some(mut error) = gate.take_load(&message) {
        error.trace.append(&mut frames);
        return error;
    }
    let (place, text) = split_place(&message);
    if let Some((file, line)) = place {
        let here = frames.first().is_some_and(|frame| frame.file == file && frame.line == line);
        // An error that was passed on tells its own place; so does one with a level of its own.
        if !here && !file.starts_with('[') && !file.starts_with('@') {
            frames.insert(0, Frame { file: file.to_owned(), line, function: None, branch: None });
        }
    }
    let text = text.to_owned();
    if text.starts_with("not enough memory") {
        let limit = gate.limits.memory >> 20;
        let message = format!("the script used up its memory of {limit} MB");
        return ScriptError::new(ScriptErrorKind::Memory, message).at(frames);
    }
    let text = if text.contains("attempt to yield across metamethod/C-call boundary") {
        "a host call cannot wait inside a sort comparator, a gsub callback or a metamethod; make it before".to_owned()
    } else {
        text
    };
    ScriptError::new(ScriptErrorKind::Runtime, text).at(frames)
}

/// Finds words for any value that a script may raise, without running code of the script.
pub(crate) fn raised_text(value: &Value) -> String {
    const MAX: usize = 16 << 10;
    let text = match value {
        Value::String(text) => explained(text.to_string_lossy()),
        Value::Nil => "nil was raised".to_owned(),
        Value::Integer(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
        Value::Boolean(flag) => flag.to_string(),
        Value::Error(error) => innermost(error),
        Value::Table(table) => match table.raw_get::<Value>("message") {
            Ok(Value::String(text)) => text.to_string_lossy(),
            _ => to_json(value, Bounds::small(), None)
                .map_or_else(|_| "a table was raised".to_owned(), |json| format!("a table was raised: {json}")),
        },
        other => format!("a {} was raised", type_name(other)),
    };
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX).last().unwrap_or(0);
    if text.len() > MAX { format!("{}…", &text[..end]) } else { text }
}

/// Adds what to do to a message of Luau's own that does not say it.
fn explained(mut message: String) -> String {
    if message.ends_with(READONLY) {
        message.push_str(
            ": what the host hands out (results, `params`, `task`, modules, libraries) is frozen; write to a table of your own",
        );
    }
    message
}

/// Luau's words for a write to a frozen table.
const READONLY: &str = "attempt to modify a readonly table";

/// Returns the words of the error at the bottom, without the traces that are added on the way.
fn innermost(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } | mlua::Error::WithContext { cause, .. } => innermost(cause),
        mlua::Error::RuntimeError(message) => first_part(message),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        mlua::Error::BadArgument { pos, cause, .. } => format!("argument {pos}: {}", innermost(cause)),
        mlua::Error::FromLuaConversionError { from, to, message } => {
            let detail = message.as_deref().map(|message| format!(" ({message})")).unwrap_or_default();
            format!("expected {to}, got {from}{detail}")
        }
        other => first_part(&other.to_string()),
    }
}

fn first_part(message: &str) -> String {
    message.split("\nstack traceback:").next().unwrap_or(message).to_owned()
}

pub(super) fn plain_failure(error: &mlua::Error) -> ScriptError {
    let message = innermost(error);
    let kind = if message.contains("not enough memory") { ScriptErrorKind::Memory } else { ScriptErrorKind::Runtime };
    ScriptError::new(kind, message)
}

fn returned(value: &Value, bounds: Bounds) -> ScriptEnd {
    let json = match to_json(value, bounds, None) {
        Ok(json) => json,
        Err(reason) => {
            return ScriptEnd::Failed(ScriptError::new(
                ScriptErrorKind::Runtime,
                format!("what the script returned cannot be kept: {reason}"),
            ));
        }
    };
    let note = match &json {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Object(fields) => fields.get("note").and_then(|note| note.as_str()).map(str::to_owned),
        _ => None,
    };
    ScriptEnd::Returned { note, value: json }
}

/// Counts the CPU time of each poll.
struct Metered<F> {
    control: Arc<Control>,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for Metered<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.control.begin_poll();
        let polled = self.inner.as_mut().poll(context);
        self.control.end_poll();
        polled
    }
}

impl<F> Drop for Metered<F> {
    /// The future is dropped right after this; nothing of the script may run on meanwhile.
    fn drop(&mut self) {
        self.control.begin_dropping();
    }
}
