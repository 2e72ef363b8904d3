//! Commands in a container.
//!
//! Each is an exec of the agent's user that reads a script from its standard input (see `session.sh`): the wrapper,
//! which runs the program with its output in files, streams what they hold, and reports the end. A stream may break at
//! any moment; the daemon then tells the end, and the files the output.

pub(super) mod daemon;
mod ending;
mod frame;
pub(super) mod left;
mod log;
mod reap;
mod script;
mod session;
mod sink;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::container::Container;
use super::layout;
use crate::clock::Clock;
use crate::runtime::{Command, ExecReport, Output, Quiescence, RuntimeError};

use self::left::Noted;
use self::reap::{How, Whose};
use self::script::Script;
use self::session::Session;
use self::sink::Sink;

/// How often processes that would not go are tried again.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);

/// What a container's commands have in common.
#[derive(Debug, Default)]
pub(super) struct Commands {
    /// Whether a command has run since the container was last found quiet.
    stirred: AtomicBool,
    /// How many commands that were given up are being ended.
    ending: watch::Sender<usize>,
    /// The raised limit of processes.
    room: reap::Room,
    tasks: TaskTracker,
}

impl Commands {
    /// Waits until nothing runs any more of commands that were given up.
    async fn settled(&self) {
        // Fails only without a sender, which is this.
        let _ = self.ending.subscribe().wait_for(|&count| count == 0).await;
    }
}

/// Runs a command to its one end.
pub(super) async fn run(
    container: &Arc<Container>,
    clock: &dyn Clock,
    command: &Command,
    output: Output,
    stop: &CancellationToken,
) -> Result<ExecReport, RuntimeError> {
    if stop.is_cancelled() {
        return Ok(ExecReport::never_started());
    }
    let script = Script::new((&container.env, &container.token), command, matches!(output, Output::Spool { .. }))?;
    container.commands.settled().await;
    let mut noted = Noted::down(container, command, &script, &output)?;
    let sink = Sink::open(output)?;
    if let Some(input) = &script.upload {
        upload(container, &script.id, input).await?;
    }
    container.commands.stirred.store(true, Ordering::SeqCst);
    let exec = daemon::create(container, &["sh", "-s"], Some(&script.id)).await?;
    let mut guard = Guard { container, id: script.id.clone(), exec: exec.clone(), armed: true };
    let report = Box::pin(attend(container, clock, (command, stop), (&script, exec), (sink, &mut noted))).await;
    // What is lost needs no end, and what could not be started has none; anything else may still run.
    guard.armed = matches!(&report, Err(RuntimeError::Io { .. } | RuntimeError::File { .. }));
    report
}

async fn attend(
    container: &Arc<Container>,
    clock: &dyn Clock,
    (command, stop): (&Command, &CancellationToken),
    (script, exec): (&Script, String),
    (sink, noted): (Sink, &mut Option<Noted>),
) -> Result<ExecReport, RuntimeError> {
    let channel = daemon::start(container, &exec).await?;
    let mut session = Session::new(container, clock, (command, stop), (script, exec), (channel, sink));
    session.send(&script.text).await?;
    let ours = session.follow().await?;
    if ours.is_some() {
        if let Some(noted) = noted {
            noted.is_ended()?;
        }
        session.end().await?;
    }
    ending::report(session, ours).await
}

/// Puts a command's standard input into a file that the agent may read.
async fn upload(container: &Container, id: &str, input: &[u8]) -> Result<(), RuntimeError> {
    let build = || {
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o400);
        header.set_uid(layout::AGENT.into());
        header.set_gid(layout::AGENT.into());
        header.set_size(input.len() as u64);
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_data(&mut header, format!("{id}.in"), input)?;
        archive.into_inner()
    };
    let archive = build().map_err(|source| RuntimeError::Io { action: "pack standard input", source })?;
    container.upload(layout::LOGS, archive).await
}

/// Ends a command whose future is dropped.
struct Guard<'a> {
    container: &'a Arc<Container>,
    id: String,
    exec: String,
    armed: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            tracing::warn!(container = self.container.id, "a command was given up outside of the async runtime");
            return;
        };
        let (container, id, exec) = (Arc::clone(self.container), self.id.clone(), self.exec.clone());
        container.commands.ending.send_modify(|count| *count += 1);
        let tasks = container.commands.tasks.clone();
        let work = async move {
            reap::end_abandoned(&container, id, exec).await;
            container.commands.ending.send_modify(|count| *count -= 1);
        };
        tasks.spawn_on(work, &runtime);
    }
}

/// Ends every process that commands have left.
pub(super) async fn quiesce(container: &Container) -> Result<Quiescence, RuntimeError> {
    container.commands.settled().await;
    if !container.commands.stirred.load(Ordering::SeqCst) {
        return Ok(Quiescence::default());
    }
    let killed = end_all(container).await?;
    container.commands.stirred.store(false, Ordering::SeqCst);
    Ok(Quiescence { killed })
}

/// Ends every process in the container but its own main one, whoever has begun it. Returns how many there were.
pub(super) async fn end_all(container: &Container) -> Result<usize, RuntimeError> {
    let mut killed = 0;
    for _ in 0..TRIES {
        let reaped = reap::reap(container, How::Kill, &Whose::All).await?;
        killed += reaped.killed;
        if reaped.left == 0 {
            return Ok(killed);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(RuntimeError::Lost("processes of the container cannot be killed".to_owned()))
}
