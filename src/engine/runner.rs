//! Runs an orchestrator whose runner is no script but a program of its own, inside the environment.
//!
//! The program asks for sessions by `refrain-session`, a shell program on its path. A request is a folder that it leaves;
//! a listener in the environment wakes the host, which fetches it, holds the session exactly as it would for a script,
//! and puts the answer where `refrain-session` waits for it. So limits, money and logs are the host's, whatever the
//! program does. Agents run as the same user: one may call `refrain-session` too, and what it gets is counted as well.

mod exchange;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::exchange::Exchange;
use super::ending::ScriptEnd;
use super::services::CellContext;
use super::world::{Attempt, describe};
use crate::config::orchestrator_manifest::{OrchestratorManifest, Origin};
use crate::domain::{Failure, ParamValue, Params};
use crate::runtime::{Chunk, Command, ExecEnd, ExecReport, Limits, Output, RuntimeError, Stream};

/// The folder of everything about the runner, in the agent's home.
const FOLDER: &str = ".refrain-runner";
/// Puts the folder with `refrain-session` before the environment's own path, which only the environment knows.
const LAUNCH: &str = "PATH=$1:$PATH; export PATH; shift; exec \"$@\"";
/// The longest text that the kernel takes as one variable, less its name.
const LONGEST_VARIABLE: usize = 128 * 1024 - 64;
/// Requests that are answered at a time; the rest waits.
const AT_ONCE: usize = 64;
/// Bytes of a line that are logged.
const LONGEST_LINE: usize = 4096;
/// Lines of the runner's errors that its failure quotes.
const LAST_LINES: usize = 10;

/// A runner that is a program.
pub(crate) struct Runner {
    manifest: Arc<OrchestratorManifest>,
    folder: PathBuf,
}

impl Runner {
    /// Returns the runner of a cell whose orchestrator is no script.
    pub(crate) fn of(context: &CellContext) -> Option<Self> {
        let manifest = &context.services.plan.orchestrators[context.cell().orchestrator].manifest;
        match &manifest.origin {
            Origin::Directory(folder) if !manifest.is_lua() => {
                Some(Self { manifest: Arc::clone(manifest), folder: folder.clone() })
            }
            Origin::Directory(_) | Origin::Builtin => None,
        }
    }

    fn raised(&self, what: &str) -> ScriptEnd {
        ScriptEnd::Raised(format!("the runner `{}` {what}", self.manifest.runner))
    }
}

/// Runs a runner to its end, or until `interruption` says why the attempt ends. When it returns nothing that the runner
/// has begun goes on.
pub(crate) async fn run(
    attempt: &Arc<Attempt>,
    runner: &Runner,
    interruption: impl Future<Output = Failure>,
) -> ScriptEnd {
    let root = attempt.env.home().join(FOLDER);
    let running = async {
        let exchange = match set_up(attempt, runner, &root).await {
            Ok(exchange) => Arc::new(exchange),
            Err(error) => return Err(error),
        };
        let (over, held) = (attempt.stop.child_token(), Arc::new(AtomicUsize::new(0)));
        let serving = serve(Arc::clone(attempt), Arc::clone(&exchange), over.clone(), Arc::clone(&held));
        attempt.tracker.spawn(serving);
        let report = start(attempt, runner, &root).await;
        let left = held.load(Ordering::SeqCst);
        over.cancel();
        report.map(|report| (report, left))
    };
    tokio::pin!(running);
    let ended = tokio::select! {
        ended = &mut running => ended,
        cause = interruption => {
            attempt.halt(cause);
            running.await
        }
    };
    // Sessions that end from here on were left by the runner: their end is no cause of the attempt's.
    attempt.over.store(true, Ordering::SeqCst);
    attempt.stop.cancel();
    attempt.tracker.close();
    attempt.tracker.wait().await;
    match ended {
        _ if attempt.cause.get().is_some() => ScriptEnd::Stopped,
        Ok((report, left)) => judge(attempt, runner, &report, left),
        Err(RuntimeError::NotRunnable { reason, .. }) => runner.raised(&format!("cannot be run: {reason}")),
        Err(error) => {
            attempt.lost(error);
            ScriptEnd::Stopped
        }
    }
}

/// Puts the orchestrator's folder and what requests need into the environment.
async fn set_up(attempt: &Attempt, runner: &Runner, root: &Path) -> Result<Exchange, RuntimeError> {
    let env = &attempt.env;
    env.put(&runner.folder, &root.join("orchestrator")).await?;
    env.put_file(task(attempt).prompt.as_bytes(), &root.join("prompt"), false).await?;
    Exchange::open(attempt, root).await
}

fn task(attempt: &Attempt) -> &crate::domain::Task {
    &attempt.context.services.plan.tasks[attempt.context.cell().task]
}

/// Runs the program itself.
async fn start(attempt: &Arc<Attempt>, runner: &Runner, root: &Path) -> Result<ExecReport, RuntimeError> {
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    let program = text(root.join("orchestrator").join(&runner.manifest.runner));
    let words = ["sh", "-c", LAUNCH, "refrain-runner", &text(root.join("bin")), &program];
    let mut command = Command::new(words);
    command.env = variables(attempt, root);
    command.cwd = Some(attempt.env.workspace().to_owned());
    command.limits = Limits {
        timeout: Some((attempt.deadline.timer, attempt.remaining())),
        output_bytes: Some(attempt.context.services.plan.limits.output_bytes),
        ..Limits::default()
    };
    let (sender, receiver) = mpsc::channel(256);
    attempt.tracker.spawn(log(Arc::clone(attempt), receiver));
    let spool = |name: &str| attempt.scratch.join(name);
    let output = Output::Spool { stdout: spool("runner-stdout"), stderr: spool("runner-stderr"), live: Some(sender) };
    attempt.env.exec(&command, output, &attempt.stop).await
}

/// What the program is told, besides the environment's own variables.
fn variables(attempt: &Attempt, root: &Path) -> Vec<(String, String)> {
    let (services, cell) = (&attempt.context.services, attempt.context.cell());
    let task = task(attempt);
    let left = jiff::SignedDuration::try_from(attempt.remaining()).unwrap_or(jiff::SignedDuration::MAX);
    let deadline = services.clock.now().saturating_add(left).map_or(i64::MAX, jiff::Timestamp::as_second);
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let fixed = [
        ("REFRAIN_PROMPT_FILE", path(&root.join("prompt"))),
        ("REFRAIN_WORKSPACE", path(attempt.env.workspace())),
        ("REFRAIN_DEADLINE", deadline.to_string()),
        ("REFRAIN_TASK", task.id.clone()),
        ("REFRAIN_ORCHESTRATOR", path(&root.join("orchestrator"))),
        ("REFRAIN_RUNNER", path(root)),
    ];
    let mut all: Vec<_> = fixed.map(|(name, value)| (name.to_owned(), value)).to_vec();
    if task.prompt.len() <= LONGEST_VARIABLE && !task.prompt.contains('\0') {
        all.push(("REFRAIN_PROMPT".to_owned(), task.prompt.clone()));
    }
    all.extend(param_variables(&services.plan.orchestrators[cell.orchestrator].params));
    all
}

/// A variable for each parameter: `max_rounds` is `REFRAIN_PARAM_MAX_ROUNDS`; a list is JSON.
fn param_variables(params: &Params) -> impl Iterator<Item = (String, String)> {
    params.iter().map(|(name, value)| {
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_").to_ascii_uppercase();
        let value = match value {
            ParamValue::Text(text) => text.clone(),
            // Plain values always serialize.
            other => serde_json::to_string(other).unwrap_or_default(),
        };
        (format!("REFRAIN_PARAM_{name}"), value)
    })
}

/// What the program's end means.
fn judge(attempt: &Attempt, runner: &Runner, report: &ExecReport, left: usize) -> ScriptEnd {
    let how = match &report.end {
        ExecEnd::Exited(0) if left == 0 => return ScriptEnd::Returned,
        ExecEnd::Exited(0) => {
            let what =
                format!("ended while {left} session(s) were still running; they were stopped. It must wait for them");
            return runner.raised(&what);
        }
        ExecEnd::TimedOut { .. } => {
            attempt.halt(attempt.out_of_time());
            return ScriptEnd::Stopped;
        }
        ExecEnd::Stopped => return ScriptEnd::Stopped,
        ExecEnd::Exited(code) => format!("ended with exit code {code}"),
        ExecEnd::Signaled(signal) => format!("was ended by signal {signal}"),
        ExecEnd::OutputLimit { limit } => format!("printed more than {limit} bytes"),
    };
    let refused = matches!(report.end, ExecEnd::Exited(126 | 127));
    let hint =
        if refused { " (it must be executable, and its first line name an interpreter that is there)" } else { "" };
    let text = attempt.context.services.redactor.redact(&String::from_utf8_lossy(&report.stderr.bytes)).into_string();
    let last = match text.trim() {
        "" => "; it printed no error".to_owned(),
        _ => crate::redact::last_lines(&text, LAST_LINES),
    };
    runner.raised(&format!("{how}{hint}{last}"))
}

/// Takes requests until the runner is over.
async fn serve(attempt: Arc<Attempt>, exchange: Arc<Exchange>, over: CancellationToken, held: Arc<AtomicUsize>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    while !over.is_cancelled() {
        let names = match exchange.listen(&attempt, &over).await {
            Ok(names) => names,
            Err(_) if over.is_cancelled() => return,
            Err(error) => {
                unheard(&attempt, &error).await;
                return;
            }
        };
        for name in names {
            held.fetch_add(1, Ordering::SeqCst);
            let (exchange, attempt) = (Arc::clone(&exchange), Arc::clone(&attempt));
            let (held, slots) = (Arc::clone(&held), Arc::clone(&slots));
            attempt.clone().tracker.spawn(async move {
                // Whoever asks again and again is refused again and again, but not all at once.
                let _slot = slots.acquire().await;
                let answer = exchange.hold(&attempt, &name).await;
                held.fetch_sub(1, Ordering::SeqCst);
                exchange.answer(&attempt, &name, answer).await;
            });
        }
    }
}

/// Ends an attempt whose runner and host do not hear each other any more.
///
/// Agents run as the same user as the listener and can kill it, or spoil the folder: one that is about to fail could turn
/// its failure into a fault of ours that way, and be tried again free of charge. So it gets the benefit of the doubt once.
/// When it comes again in the retry, and the environment itself answers, it is the orchestrator that has failed, with
/// whatever it lets its agents do.
pub(super) async fn unheard(attempt: &Attempt, error: &RuntimeError) {
    let message = format!("runner and host do not hear each other any more: {}", describe(error));
    let failure = if attempt.retries > 0 && answers(attempt).await {
        Failure::OrchestratorError {
            message: format!("{message}; it was so again after a retry, and nothing else is wrong"),
        }
    } else {
        Failure::Runtime { message }
    };
    attempt.halt(failure);
}

/// Tells whether commands still run in the environment.
async fn answers(attempt: &Attempt) -> bool {
    let mut command = Command::new(["sh", "-c", ":"]);
    command.limits.timeout = Some((attempt.deadline.timer, attempt.remaining()));
    attempt.env.exec(&command, Output::capture(), &attempt.stop).await.is_ok_and(|report| report.success())
}

/// Turns what the program prints into lines of the attempt's log.
async fn log(attempt: Arc<Attempt>, mut chunks: mpsc::Receiver<Chunk>) {
    let mut open = [Vec::new(), Vec::new()];
    while let Some(chunk) = chunks.recv().await {
        let (line, level) = match chunk.stream {
            Stream::Stdout => (&mut open[0], "info"),
            Stream::Stderr => (&mut open[1], "warn"),
        };
        for byte in chunk.bytes {
            if byte == b'\n' {
                say(&attempt, level, line);
            } else if line.len() < LONGEST_LINE {
                line.push(byte);
            }
        }
    }
    for (line, level) in open.iter_mut().zip(["info", "warn"]) {
        say(&attempt, level, line);
    }
}

fn say(attempt: &Attempt, level: &str, line: &mut Vec<u8>) {
    let text = crate::redact::printable(&String::from_utf8_lossy(line));
    line.clear();
    if !text.trim().is_empty() {
        attempt.log(level, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_become_variables() {
        let params: Params = [
            ("max_rounds", ParamValue::Int(3)),
            ("strict-mode", ParamValue::Bool(true)),
            ("hint", ParamValue::Text("a 'b'".to_owned())),
            ("names", ParamValue::List(vec![ParamValue::Text("x".to_owned()), ParamValue::Float(0.5)])),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let mut variables: Vec<_> = param_variables(&params).collect();
        variables.sort();
        let expected = [
            ("REFRAIN_PARAM_HINT", "a 'b'"),
            ("REFRAIN_PARAM_MAX_ROUNDS", "3"),
            ("REFRAIN_PARAM_NAMES", "[\"x\",0.5]"),
            ("REFRAIN_PARAM_STRICT_MODE", "true"),
        ];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
