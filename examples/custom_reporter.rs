//! Adds a display: implements `Reporter`, and watches a run of one cell with it.
//!
//! `cargo run --example custom_reporter`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

use refrain::config::{LoadOptions, load};
use refrain::domain::{Event, EventKind};
use refrain::host::Host;
use refrain::report::Reporter;

/// Prints a line for everything that ends, and tells at the end how many events there were.
struct Ends {
    seen: usize,
    total: Sender<usize>,
}

impl Reporter for Ends {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.seen += 1;
        match &event.kind {
            EventKind::SessionFinished { cell, session, status, reason, .. } => {
                println!("{cell}: session {session} ended as {status:?} ({reason})");
            }
            EventKind::CellFinished { cell, terminal, solved, .. } => {
                println!(
                    "{cell}: {terminal:?}, solved: {}",
                    solved.map_or("unknown".to_owned(), |solved| solved.to_string())
                );
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        self.total.send(self.seen).map_err(io::Error::other)
    }
}

/// Writes a project of one task and one run; the agent is a line of shell.
fn project(dir: &Path) -> io::Result<PathBuf> {
    let files = [
        ("tasks/greeting/repo/greet.sh", "echo hello\n"),
        ("tasks/greeting/tests/hidden.sh", "test \"$(sh greet.sh)\" = 'hello world'\n"),
        (
            "tasks/greeting/task.yaml",
            "id: greeting\nname: Greet\ntask_prompt: Greet the world.\ntest_command: sh hidden.sh\ntimeout_seconds: 30\n",
        ),
        (
            "runs/demo.yaml",
            "name: demo\nharnesses:\n  - name: command\n    config: {command: 'echo echo hello world > greet.sh; echo done'}\n\
             models: [{name: none}]\norchestrators: [one-shot]\ntasks: [greeting]\nrepeats: 1\nruntime: local\n",
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
    let (plan, _warnings) = load(LoadOptions::new(project(dir.path())?))?;
    let host = Host::builder().environment(std::env::vars()).build();
    let (total, events) = channel();
    let summary = host.prepare(plan, vec![Box::new(Ends { seen: 0, total })]).await?.execute().await?;
    println!("{} events", events.recv()?);
    if summary.passed == 1 { Ok(()) } else { Err(format!("{summary:?}").into()) }
}
