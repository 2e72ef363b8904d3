//! Adapters: Lua that reads what an agent printed, in the scripts' sandbox and without a host.
//!
//! An adapter is a pure function in two pieces: it gets lines and hands out plain values. It has the libraries of scripts
//! and `json`, and nothing of the world: no sessions, no files, no clock, no chance. What it may use is bounded; one that
//! is over a bound is at its end, and so is its VM.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use mlua::{Function, Lua, LuaOptions, LuaString, StdLib, Table, Value, VmState};
use serde_json::Value as Json;

use super::control::{Terminated, nanos, thread_cpu};
use super::convert::{Bounds, from_json, to_json, type_name};
use super::error::{ScriptError, ScriptErrorKind, load_error};
use super::garbage::Garbage;
use super::limits::ScriptLimits;
use super::run::plain_failure;
use super::vm::{KEPT, LIBRARIES, compile};

/// How many calls and loop edges pass between two looks at the CPU clock.
const FIRES: u32 = 64;

/// What an adapter may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterLimits {
    /// Bytes the VM may hold beyond what it needs to start (256 MB: a line may have 8 MB, and tables take more).
    pub memory: usize,
    /// CPU time for one line, and for the end (2 s).
    pub cpu_per_call: Duration,
    /// CPU time for all lines of a session (120 s).
    pub cpu_total: Duration,
}

impl Default for AdapterLimits {
    fn default() -> Self {
        Self { memory: 256 << 20, cpu_per_call: Duration::from_secs(2), cpu_total: Duration::from_secs(120) }
    }
}

/// A loaded adapter, with the state that it keeps between lines.
#[derive(Debug)]
pub struct Adapter {
    lua: Lua,
    line: Function,
    file: Option<Function>,
    finish: Function,
    budget: Arc<Budget>,
}

impl Adapter {
    /// Loads an adapter: text that returns a table with `line(stream, line)`, `finish(exit_code)` and, where it reads the
    /// harness's session file, `file(line)`. `name` is the file's, for messages.
    ///
    /// # Errors
    ///
    /// A [`ScriptError`] where the text is no Lua, raises, is over a limit, or returns something else.
    pub fn load(name: &str, text: &str, limits: &AdapterLimits) -> Result<Self, ScriptError> {
        let budget = Arc::new(Budget::new(limits));
        let failed = |error: mlua::Error| plain_failure(&error);
        let lua = Lua::new_with(
            StdLib::TABLE | StdLib::STRING | StdLib::UTF8 | StdLib::BIT | StdLib::MATH | StdLib::BUFFER,
            LuaOptions::new(),
        )
        .map_err(failed)?;
        let environment = environment(&lua).map_err(failed)?;
        lua.sandbox(true).map_err(failed)?;
        let own = Arc::clone(&budget);
        lua.set_interrupt(move |lua| own.interrupt(lua));
        budget.garbage.begin(&lua).map_err(failed)?;
        let chunk = compile(&lua, &format!("={name}"), text.as_bytes(), environment, false)
            .map_err(|error| load_error(name, text, &plain_failure(&error).message))?;
        let table: Value = budget.within(|| chunk.call(()))?;
        let Value::Table(table) = table else {
            let message = format!("`{name}` returns a {}, not a table with `line` and `finish`", type_name(&table));
            return Err(ScriptError::new(ScriptErrorKind::Load, message));
        };
        let function = |key: &str| match table.raw_get::<Value>(key) {
            Ok(Value::Function(function)) => Ok(Some(function)),
            Ok(Value::Nil) | Err(_) => Ok(None),
            Ok(other) => {
                let message = format!("`{key}` of `{name}` is a {}, not a function", type_name(&other));
                Err(ScriptError::new(ScriptErrorKind::Load, message))
            }
        };
        let required = |key: &str| {
            let missing = || ScriptError::new(ScriptErrorKind::Load, format!("`{name}` has no function `{key}`"));
            function(key)?.ok_or_else(missing)
        };
        let (line, finish, file) = (required("line")?, required("finish")?, function("file")?);
        Ok(Self { lua, line, file, finish, budget })
    }

    /// Hands on a line of `stdout` or `stderr`; returns the events that it shows.
    ///
    /// # Errors
    ///
    /// A [`ScriptError`] where the adapter raises, is over a limit, or returns what is no list of tables. It must not be
    /// asked again then.
    pub fn line(&self, stream: &str, line: &[u8]) -> Result<Vec<Json>, ScriptError> {
        let line = self.text(line)?;
        let told = self.call(&self.line, (stream, line))?;
        match told {
            Json::Null => Ok(Vec::new()),
            Json::Array(events) => Ok(events),
            Json::Object(fields) if fields.is_empty() => Ok(Vec::new()),
            event @ Json::Object(_) => Ok(vec![event]),
            _ => {
                let message = "`line` must return nil, an event or a list of events".to_owned();
                Err(ScriptError::new(ScriptErrorKind::Runtime, message))
            }
        }
    }

    /// Hands on a line of the harness's session file, where the adapter reads it.
    ///
    /// # Errors
    ///
    /// As for [`Adapter::line`].
    pub fn file_line(&self, line: &[u8]) -> Result<(), ScriptError> {
        match &self.file {
            Some(file) => self.call(file, self.text(line)?).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Asks for the report.
    ///
    /// # Errors
    ///
    /// As for [`Adapter::line`].
    pub fn finish(&self, exit_code: Option<i32>) -> Result<Json, ScriptError> {
        self.call(&self.finish, exit_code)
    }

    fn text(&self, line: &[u8]) -> Result<LuaString, ScriptError> {
        self.lua.create_string(line).map_err(|error| plain_failure(&error))
    }

    fn call(&self, function: &Function, arguments: impl mlua::IntoLuaMulti) -> Result<Json, ScriptError> {
        let value: Value = self.budget.within(|| function.call(arguments))?;
        to_json(&value, Bounds::of(&ScriptLimits::default()), None)
            .map_err(|message| ScriptError::new(ScriptErrorKind::Runtime, format!("what it returned: {message}")))
    }
}

/// Makes the globals of adapters: those of scripts that reach nothing outside.
fn environment(lua: &Lua) -> mlua::Result<Table> {
    let globals = lua.globals();
    let environment = lua.create_table()?;
    for name in KEPT.iter().chain(LIBRARIES).chain(&["tostring"]) {
        environment.raw_set(*name, globals.raw_get::<Value>(*name)?)?;
    }
    // The same lines must always mean the same.
    let math = lua.create_table()?;
    for pair in globals.raw_get::<Table>("math")?.pairs::<String, Value>() {
        let (name, value) = pair?;
        if !name.starts_with("random") {
            math.raw_set(name, value)?;
        }
    }
    math.set_readonly(true);
    environment.raw_set("math", math)?;
    environment.raw_set("json", json(lua)?)?;
    Ok(environment)
}

/// Makes `json.decode`, which returns nil for what is no JSON: not every line is.
fn json(lua: &Lua) -> mlua::Result<Table> {
    let null = lua.create_table()?;
    null.set_readonly(true);
    let marker = null.clone();
    let decode = lua.create_function(move |lua, text: LuaString| {
        match serde_json::from_str(&String::from_utf8_lossy(&text.as_bytes())) {
            Ok(value) => from_json(lua, &value, false, Some(&marker)),
            Err(_) => Ok(Value::Nil),
        }
    })?;
    let json = lua.create_table()?;
    json.raw_set("decode", decode)?;
    json.raw_set("null", null)?;
    json.set_readonly(true);
    Ok(json)
}

/// The CPU time of an adapter. Once it is used up, every call and loop edge raises, so that no `pcall` outlives it.
#[derive(Debug)]
struct Budget {
    per_call: u64,
    total: u64,
    spent: AtomicU64,
    began: AtomicU64,
    fires: AtomicU32,
    over: AtomicBool,
    garbage: Garbage,
}

impl Budget {
    fn new(limits: &AdapterLimits) -> Self {
        Self {
            per_call: nanos(limits.cpu_per_call),
            total: nanos(limits.cpu_total),
            spent: AtomicU64::new(0),
            began: AtomicU64::new(0),
            fires: AtomicU32::new(0),
            over: AtomicBool::new(false),
            garbage: Garbage::new(limits.memory),
        }
    }

    /// Calls into the VM on this thread.
    fn within<T>(&self, call: impl FnOnce() -> mlua::Result<T>) -> Result<T, ScriptError> {
        self.began.store(thread_cpu(), Ordering::Relaxed);
        let result = call();
        let spent = thread_cpu().saturating_sub(self.began.load(Ordering::Relaxed));
        self.spent.fetch_add(spent, Ordering::Relaxed);
        if self.over.load(Ordering::Relaxed) {
            let allowed = Duration::from_nanos(self.per_call).as_secs_f64();
            let all = Duration::from_nanos(self.total).as_secs_f64();
            let message = format!("it computed for more than {allowed:.1} s over one line, or {all:.0} s in all");
            return Err(ScriptError::new(ScriptErrorKind::Limit, message));
        }
        result.map_err(|error| plain_failure(&error))
    }

    fn interrupt(&self, lua: &Lua) -> mlua::Result<VmState> {
        let over = self.over.load(Ordering::Relaxed)
            || (self.fires.fetch_add(1, Ordering::Relaxed).is_multiple_of(FIRES) && self.look());
        if over {
            return Err(mlua::Error::external(Terminated));
        }
        self.garbage.collect_in_time(lua).map(|()| VmState::Continue)
    }

    fn look(&self) -> bool {
        let now = thread_cpu().saturating_sub(self.began.load(Ordering::Relaxed));
        let over = now > self.per_call || self.spent.load(Ordering::Relaxed).saturating_add(now) > self.total;
        self.over.fetch_or(over, Ordering::Relaxed);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use test_case::test_case;

    fn quick() -> AdapterLimits {
        AdapterLimits {
            memory: 8 << 20,
            cpu_per_call: Duration::from_millis(500),
            cpu_total: Duration::from_millis(700),
        }
    }

    fn load(text: &str) -> Result<Adapter, ScriptError> {
        Adapter::load("adapter.lua", text, &quick())
    }

    fn with_line(body: &str) -> Adapter {
        load(&format!(
            "return {{ line = function(stream, line) {body} end, finish = function(code) return {{ code = code }} end }}"
        ))
        .expect("loads")
    }

    #[test]
    fn lines_go_in_and_events_come_out() {
        let adapter = load(
            "local seen = 0\n\
             return {\n\
               line = function(stream, line)\n\
                 seen += 1\n\
                 local event = json.decode(line)\n\
                 if event == nil then return nil end\n\
                 return { { kind = 'message', text = event.text, stream = stream } }\n\
               end,\n\
               file = function(line) seen += 10 end,\n\
               finish = function(code) return { seen = seen, code = code } end,\n\
             }",
        )
        .expect("loads");
        let told = adapter.line("stdout", br#"{"text":"hi"}"#).expect("read");
        assert_eq!(told, [json!({"kind": "message", "text": "hi", "stream": "stdout"})]);
        assert_eq!(adapter.line("stderr", b"no JSON").expect("read"), Vec::<Json>::new());
        adapter.file_line(b"x").expect("read");
        assert_eq!(adapter.finish(Some(3)).expect("told"), json!({"code": 3, "seen": 12}));
    }

    #[test_case("while true do end"; "loop")]
    #[test_case("while true do pcall(function() while true do end end) end"; "loop that catches")]
    #[test_case("local function f() pcall(f) return f() end f()"; "recursion that catches")]
    #[test_case("local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x"; "metamethod")]
    #[test_case("return (string.rep('a', 40)):find(string.rep('a?', 40) .. string.rep('a', 41))"; "pattern")]
    fn who_computes_for_ever_is_ended(body: &str) {
        let error = with_line(body).line("stdout", b"x").expect_err("ended");
        assert!(matches!(error.kind, ScriptErrorKind::Limit | ScriptErrorKind::Runtime), "{error}");
    }

    #[test]
    fn all_lines_together_have_a_limit() {
        let adapter = with_line("local x = 0 for i = 1, 100000 do x += i end");
        let ended = (0..100_000).find_map(|_| adapter.line("stdout", b"x").err()).expect("ended");
        assert_eq!(ended.kind, ScriptErrorKind::Limit);
    }

    #[test_case("local t = {} while true do t[#t + 1] = string.rep('x', 1e5) .. #t end"; "many")]
    #[test_case("return { { text = string.rep('x', 1e9) } }"; "one")]
    #[test_case("return { { text = buffer.tostring(buffer.create(1e9)) } }"; "buffer")]
    fn memory_has_a_limit(body: &str) {
        let error = with_line(body).line("stdout", b"x").expect_err("ended");
        assert_eq!(error.kind, ScriptErrorKind::Memory, "{error}");
    }

    #[test_case("error('no')", "no"; "an error")]
    #[test_case("error({})", ""; "a table")]
    #[test_case("return 5", "must return nil"; "a number")]
    #[test_case("local t = {} t[1] = t return t", "nested"; "a loop of tables")]
    #[test_case("return { { f = print_nothing } }", ""; "an unknown global")]
    #[test_case("string.rep = nil", "readonly"; "a library")]
    #[test_case("return { { f = function() end } }", "function"; "a function")]
    fn misuse_is_an_error(body: &str, expected: &str) {
        match with_line(body).line("stdout", b"x") {
            Ok(told) => assert!(body.contains("print_nothing"), "{told:?}"),
            Err(error) => assert!(error.message.contains(expected), "{error}"),
        }
    }

    #[test_case("return 5", "returns a number"; "no table")]
    #[test_case("return { line = function() end }", "no function `finish`"; "half")]
    #[test_case("return { line = 5, finish = function() end }", "not a function"; "no function")]
    #[test_case("return {", "adapter.lua:1"; "no Lua")]
    #[test_case("while true do end", "computed"; "never")]
    fn what_is_no_adapter_does_not_load(text: &str, expected: &str) {
        let error = load(text).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }

    #[test_case("os"; "os")]
    #[test_case("io"; "io")]
    #[test_case("require"; "require")]
    #[test_case("loadstring"; "loadstring")]
    #[test_case("getfenv"; "getfenv")]
    #[test_case("session"; "session")]
    #[test_case("collectgarbage"; "collectgarbage")]
    #[test_case("print"; "print")]
    #[test_case("math.random"; "chance")]
    fn nothing_of_the_world_is_there(name: &str) {
        let told =
            with_line(&format!("return {{ {{ missing = {name} == nil }} }}")).line("stdout", b"x").expect("read");
        assert_eq!(told, [json!({"missing": true})]);
    }
}
