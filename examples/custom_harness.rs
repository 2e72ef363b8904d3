//! Adds an agent: implements `Harness` and `OutputReader`, and runs a plan of one cell with it.
//!
//! `cargo run --example custom_harness`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use refrain::config::LoadOptions;
use refrain::harness::{AgentEvent, Harness, HarnessError, Outcome, OutputReader, Prepared, Reading, SessionRequest};
use refrain::host::Host;
use refrain::runtime::{Command, Stream};

/// An agent that is a line of shell: it says what it was told, and greets the world.
struct Greeter;

impl Harness for Greeter {
    fn name(&self) -> &'static str {
        "greeter"
    }

    fn probe(&self) -> Option<Command> {
        None
    }

    fn can_resume(&self) -> bool {
        false
    }

    fn prepare(&self, request: &SessionRequest) -> Result<Prepared, HarnessError> {
        let script = "printf 'say working on %s\\n' \"$TASK\"; echo 'echo hello world' > greet.sh; echo done";
        let mut command = Command::shell(script);
        command.env.push(("TASK".to_owned(), request.task.clone()));
        Ok(Prepared { command, ..Prepared::default() })
    }

    fn reader(&self) -> Box<dyn OutputReader> {
        Box::new(Lines::default())
    }
}

/// Reads `say TEXT` and `done`.
#[derive(Default)]
struct Lines {
    reading: Reading,
}

impl OutputReader for Lines {
    fn line(&mut self, stream: Stream, line: &[u8], events: &mut Vec<AgentEvent>) {
        let line = String::from_utf8_lossy(line);
        if stream != Stream::Stdout {
            return;
        }
        self.reading.started = true;
        if let Some(text) = line.strip_prefix("say ") {
            self.reading.text = Some(text.to_owned());
            events.push(AgentEvent::Message(text.to_owned()));
        } else if line == "done" {
            self.reading.outcome = Some(Outcome::Completed);
            events.push(AgentEvent::Finished);
        }
    }

    fn finish(self: Box<Self>, exit_code: Option<i32>) -> Reading {
        let mut reading = self.reading;
        if reading.outcome.is_none() {
            reading.outcome = Some(Outcome::Failed(format!("no `done` before exit code {exit_code:?}")));
        }
        reading
    }
}

/// Writes a project of one task and one run.
fn project(dir: &Path) -> std::io::Result<PathBuf> {
    let files = [
        ("tasks/greeting/repo/greet.sh", "echo hello\n"),
        ("tasks/greeting/tests/hidden.sh", "test \"$(sh greet.sh)\" = 'hello world'\n"),
        (
            "tasks/greeting/task.yaml",
            "id: greeting\nname: Greet\ntask_prompt: Greet the world.\ntest_command: sh hidden.sh\ntimeout_seconds: 30\n",
        ),
        (
            "runs/demo.yaml",
            "name: demo\nharnesses: [{name: greeter}]\nmodels: [{name: none}]\norchestrators: [one-shot]\n\
             tasks: [greeting]\nrepeats: 1\nruntime: local\n",
        ),
    ];
    for (name, content) in files {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        fs::write(path, content)?;
    }
    Ok(dir.join("runs/demo.yaml"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let host = Host::builder().environment(std::env::vars()).harness(Arc::new(Greeter)).build();
    // The host knows its own harnesses, so the run file can name one.
    let (plan, _warnings) = host.load(LoadOptions::new(project(dir.path())?))?;
    let summary = host.prepare(plan, Vec::new()).await?.execute().await?;
    println!("{} of {} cells solved", summary.passed, summary.total);
    if summary.passed == 1 { Ok(()) } else { Err(format!("{summary:?}").into()) }
}
