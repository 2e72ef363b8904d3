//! A thread for each running script, so that a script that computes for ever takes nothing from anybody else.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

use super::error::{ScriptError, ScriptErrorKind};
use super::limits::ScriptLimits;
use super::port::{ScriptInputs, ScriptPort};
use super::run::{ScriptEnd, ScriptOutcome, run};
use super::source::ScriptSource;
use super::stop::StopHandle;

/// Native stack of a script's thread. Recursion through native code is bounded by Luau well below this.
const STACK: usize = 2 << 20;
/// How long a stopped script may take to end before its thread is left behind.
const GRACE: Duration = Duration::from_secs(1);

/// One script to run, with everything it needs.
pub struct ScriptJob {
    /// Its files.
    pub source: ScriptSource,
    /// What it is told.
    pub inputs: ScriptInputs,
    /// Who answers it.
    pub port: Arc<dyn ScriptPort>,
    /// What it may use.
    pub limits: ScriptLimits,
    /// How to end it.
    pub stop: StopHandle,
}

/// Runs scripts, each on a thread of its own, so many at once.
#[derive(Debug, Clone)]
pub struct ScriptPool {
    permits: Arc<Semaphore>,
}

impl ScriptPool {
    /// How many scripts run at once by default.
    pub const DEFAULT_THREADS: usize = 512;

    /// Makes a pool of so many threads; they are started when they are needed.
    #[must_use]
    pub fn new(threads: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(threads.clamp(1, Semaphore::MAX_PERMITS))) }
    }

    /// Runs a script to its end. Must be called inside a tokio runtime, whose timers and I/O the port may use.
    ///
    /// A script that is stopped and does not end within a second is left behind: its thread keeps its place in the pool
    /// until it ends, and the outcome says so. Dropping the future stops the script.
    pub async fn run(&self, job: ScriptJob) -> ScriptOutcome {
        let stop = job.stop.clone();
        let permit = tokio::select! {
            biased;
            () = stop.stopped() => return stopped(&stop, false),
            permit = Arc::clone(&self.permits).acquire_owned() => permit,
        };
        let guard = StopOnDrop(stop.clone());
        let (sender, receiver) = oneshot::channel();
        let handle = Handle::current();
        let started =
            std::thread::Builder::new().name("refrain-script".to_owned()).stack_size(STACK).spawn(move || {
                let ScriptJob { source, inputs, port, limits, stop } = job;
                let outcome = handle.block_on(run(&source, inputs, port, limits, stop));
                // Nobody waits any more where the thread was left behind.
                let _ = sender.send(outcome);
                drop(permit);
            });
        if let Err(error) = started {
            return failed(format!("cannot start a thread for the script: {error}"));
        }
        let outcome = wait(receiver, &stop).await;
        drop(guard);
        outcome
    }
}

impl Default for ScriptPool {
    fn default() -> Self {
        Self::new(Self::DEFAULT_THREADS)
    }
}

async fn wait(mut receiver: oneshot::Receiver<ScriptOutcome>, stop: &StopHandle) -> ScriptOutcome {
    let ended = tokio::select! {
        biased;
        ended = &mut receiver => Some(ended),
        () = async { stop.stopped().await; tokio::time::sleep(GRACE).await } => None,
    };
    match ended {
        Some(Ok(outcome)) => outcome,
        // The thread is gone without an answer: a defect of the host, which must not take the run down.
        Some(Err(_)) => failed("the script's thread ended without an answer".to_owned()),
        None => stopped(stop, true),
    }
}

fn stopped(stop: &StopHandle, abandoned: bool) -> ScriptOutcome {
    let reason = stop.reason().unwrap_or("stopped").to_owned();
    ScriptOutcome { end: ScriptEnd::Stopped { reason, place: None }, cpu: Duration::ZERO, memory: 0, abandoned }
}

fn failed(message: String) -> ScriptOutcome {
    let end = ScriptEnd::Failed(ScriptError::new(ScriptErrorKind::Runtime, message));
    ScriptOutcome { end, cpu: Duration::ZERO, memory: 0, abandoned: false }
}

/// Ends the script where nobody waits for it any more.
struct StopOnDrop(StopHandle);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop("nobody waits for the script any more");
    }
}
