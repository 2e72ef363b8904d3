//! Runs an orchestrator script in a world of one's own: a closure is the agent.
//!
//! `cargo run --example embed`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use refrain::domain::SessionRecord;
use refrain::script::port::{ChecksReport, SessionCall, TaskView};
use refrain::script::{
    Answer, HostCall, HostError, ScriptEnd, ScriptInputs, ScriptJob, ScriptLimits, ScriptPool, ScriptPort,
    ScriptSource, StopHandle,
};

const SCRIPT: &str = r#"
local checks = require("@std/checks")

local last = session(task.prompt, { label = "first try" })
for round = 2, params.rounds do
    local report = checks.run()
    if report.ok then return { note = `solved in {round - 1} sessions` } end
    last = session(`Fix this: {report.output}`, { label = `round {round}` })
end
return { note = `gave up: {last.text}` }
"#;

/// A world whose sessions are calls of a function.
struct Closure<F> {
    agent: F,
    sessions: AtomicU32,
}

#[async_trait]
impl<F: Fn(&SessionCall) -> String + Send + Sync> ScriptPort for Closure<F> {
    async fn call(&self, call: HostCall) -> Result<Answer, HostError> {
        match call {
            HostCall::Session(call) => {
                let index = self.sessions.fetch_add(1, Ordering::SeqCst) + 1;
                let text = (self.agent)(&call);
                let record = SessionRecord::completed(index, Timestamp::now(), text);
                Ok(Answer::Session(Box::new(SessionRecord { label: call.label, ..record })))
            }
            HostCall::Checks { .. } => {
                // This world is happy with the third attempt.
                let ok = self.sessions.load(Ordering::SeqCst) >= 3;
                let output = if ok { String::new() } else { "1 test failed".to_owned() };
                Ok(Answer::Checks(ChecksReport { ok, output, total: 1, passed: u32::from(ok), ..Default::default() }))
            }
            HostCall::Log { text, .. } => {
                println!("log: {text}");
                Ok(Answer::Unit)
            }
            other => Err(HostError::Misuse { message: format!("this world cannot answer {other:?}") }),
        }
    }
}

fn inputs(prompt: &str) -> ScriptInputs {
    ScriptInputs {
        params: BTreeMap::from([("rounds".to_owned(), refrain::domain::ParamValue::Int(5))]),
        task: TaskView {
            id: "demo".to_owned(),
            name: "Demo".to_owned(),
            prompt: prompt.to_owned(),
            track: "swe".to_owned(),
            checks: vec!["cargo test".to_owned()],
            phases: Vec::new(),
            metadata: serde_json::Map::new(),
        },
        models: BTreeMap::new(),
        harnesses: Vec::new(),
        deadline: Some(Duration::from_secs(60)),
        seed: 1,
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let agent = |call: &SessionCall| {
        println!("agent: {}", call.prompt);
        format!("I did what `{}` asks for", call.prompt)
    };
    let outcome = ScriptPool::default()
        .run(ScriptJob {
            source: ScriptSource::from_text("runner.lua", SCRIPT),
            inputs: inputs("Make the tests pass."),
            port: Arc::new(Closure { agent, sessions: AtomicU32::new(0) }),
            limits: ScriptLimits::default(),
            stop: StopHandle::new(),
        })
        .await;
    match outcome.end {
        ScriptEnd::Returned { note, .. } => {
            println!("script: {}", note.as_deref().unwrap_or("no note"));
            if note.as_deref() == Some("solved in 3 sessions") { Ok(()) } else { Err("an unexpected note".into()) }
        }
        ScriptEnd::Failed(error) => Err(error.into()),
        ScriptEnd::Stopped { reason, .. } => Err(reason.into()),
    }
}
