//! What is asked of the daemon about commands.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::StatsOptionsBuilder;
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncWrite;

use super::super::container::Container;
use super::super::error::{failed, is_absent};
use super::super::layout;
use crate::runtime::local::processes::TICKS_PER_SECOND;
use crate::runtime::{OutOfMemory, RuntimeError};

/// The variable that marks the processes of a command.
const MARK: &str = "REFRAIN_COMMAND";
/// How long a daemon that does not answer is waited for: as long as a restart of it may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(250);
/// The largest piece that is read of a stream at a time.
const CAPACITY: usize = 64 * 1024;
/// Nanoseconds of a clock tick.
const TICK: u64 = 1_000_000_000 / TICKS_PER_SECOND;

/// What the daemon knows of an exec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Running,
    /// It ended, with the exit code of its first process.
    Exited(i64),
    /// The daemon was restarted, or the container is gone.
    Unknown,
}

/// Both directions of an exec.
pub(super) struct Channel {
    pub(super) output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    pub(super) input: Pin<Box<dyn AsyncWrite + Send>>,
}

/// Describes an exec of the agent's user; `mark` is the command that its processes belong to.
pub(super) async fn create(container: &Container, argv: &[&str], mark: Option<&str>) -> Result<String, RuntimeError> {
    let options = CreateExecOptions {
        attach_stdin: Some(mark.is_some()),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        env: mark.map(|mark| vec![format!("{MARK}={mark}")]),
        cmd: Some(argv.iter().map(|&word| word.to_owned()).collect()),
        user: Some(format!("{0}:{0}", layout::AGENT)),
        working_dir: Some("/".to_owned()),
        ..CreateExecOptions::<String>::default()
    };
    let created = patiently(|| container.client.create_exec(&container.id, options.clone())).await;
    Ok(created.map_err(|error| failed("create a command", &error))?.id)
}

/// Starts an exec.
pub(super) async fn start(container: &Container, exec: &str) -> Result<Channel, RuntimeError> {
    let options = StartExecOptions { detach: false, tty: false, output_capacity: Some(CAPACITY) };
    match container.client.start_exec(exec, Some(options)).await {
        Ok(StartExecResults::Attached { output, input }) => Ok(Channel { output, input }),
        Ok(StartExecResults::Detached) => {
            let source = std::io::Error::other("the daemon gave no streams");
            Err(RuntimeError::Io { action: "start a command", source })
        }
        Err(error) => Err(failed("start a command", &error)),
    }
}

/// Finds out what has become of an exec. Waits for a daemon that is being restarted.
pub(super) async fn fate(container: &Container, exec: &str) -> Result<Fate, RuntimeError> {
    match patiently(|| container.client.inspect_exec(exec)).await {
        Ok(found) if found.running == Some(true) => Ok(Fate::Running),
        // Described, and not started yet.
        Ok(found) => Ok(found.exit_code.map_or(Fate::Running, Fate::Exited)),
        Err(error) if is_absent(&error) => Ok(Fate::Unknown),
        // The container is not running any more.
        Err(Error::DockerResponseServerError { status_code: 409, .. }) => Ok(Fate::Unknown),
        Err(error) => Err(failed("inspect a command", &error)),
    }
}

/// Returns why the container does not run any more; `None` where it runs.
pub(super) async fn cause_of_loss(container: &Container) -> Result<Option<String>, RuntimeError> {
    let found = match patiently(|| container.client.inspect_container(&container.id, None)).await {
        Ok(found) => found,
        Err(error) if is_absent(&error) => return Ok(Some("the container was removed".to_owned())),
        Err(error) => return Err(failed("inspect the container", &error)),
    };
    let state = found.state.unwrap_or_default();
    if state.running == Some(true) {
        return Ok(None);
    }
    let status = state.status.map_or_else(|| "not running".to_owned(), |status| status.to_string());
    let mut text = format!("the container was stopped from outside: it is {status}");
    if let Some(code) = state.exit_code {
        text = format!("{text} with exit code {code}");
    }
    if state.oom_killed == Some(true) {
        text.push_str(", and processes of it were killed for want of memory");
    }
    if let Some(error) = state.error.filter(|error| !error.is_empty()) {
        text = format!("{text} ({error})");
    }
    Ok(Some(text))
}

/// Returns the clock ticks of CPU that the container has used; `None` where nobody tells.
pub(super) async fn cpu_ticks(container: &Container) -> Option<u64> {
    let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
    let mut stats = container.client.stats(&container.id, Some(options));
    let sample = tokio::time::timeout(ANSWER, stats.next()).await.ok()??.ok()?;
    Some(sample.cpu_stats?.cpu_usage?.total_usage? / TICK)
}

/// Asks again while nobody answers, for a while. An answer that refuses is an answer.
pub(in super::super) async fn patiently<T, F>(mut ask: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let asking = async {
        loop {
            match tokio::time::timeout(ANSWER, ask()).await {
                Ok(Err(error)) if !is_answer(&error) => {
                    tracing::debug!(%error, "the daemon does not answer");
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(answer) => return answer,
                Err(_) => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap_or(Err(Error::RequestTimeoutError))
}

/// Returns the next piece of an answer that comes in pieces, or an error where none comes: bollard bounds the time to the
/// beginning of an answer alone.
pub(in super::super) async fn next_piece<T>(
    pieces: &mut (impl Stream<Item = Result<T, Error>> + Unpin),
) -> Option<Result<T, Error>> {
    tokio::time::timeout(PATIENCE, pieces.next()).await.unwrap_or(Some(Err(Error::RequestTimeoutError)))
}

/// Asks once, and waits no longer than one answer may take. `None` where there is none, whatever the reason.
pub(super) async fn promptly<T>(asked: impl Future<Output = Result<T, Error>>) -> Option<T> {
    tokio::time::timeout(ANSWER, asked).await.ok()?.ok()
}

fn is_answer(error: &Error) -> bool {
    !matches!(
        error,
        Error::HyperResponseError { .. }
            | Error::HyperLegacyError { .. }
            | Error::HttpClientError { .. }
            | Error::IOError { .. }
            | Error::RequestTimeoutError
            | Error::SocketNotFoundError(_)
    )
}

/// Tells whether processes of the container were killed for want of memory at any time.
pub(super) async fn out_of_memory(container: &Container) -> Result<Option<OutOfMemory>, RuntimeError> {
    let inspect = || container.client.inspect_container(&container.id, None);
    let found = patiently(inspect).await.map_err(|error| failed("inspect the container", &error))?;
    if found.state.and_then(|state| state.oom_killed) != Some(true) {
        return Ok(None);
    }
    let limit = found.host_config.and_then(|config| config.memory).and_then(|limit| u64::try_from(limit).ok());
    Ok(Some(limit.filter(|&limit| limit > 0).map_or(OutOfMemory::Machine, OutOfMemory::Limit)))
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_stops_in_the_middle_is_an_error() {
        let mut answer = Box::pin(stream::iter([Ok::<_, Error>(1)]).chain(stream::pending()));
        assert!(matches!(next_piece(&mut answer).await, Some(Ok(1))));
        assert!(matches!(next_piece(&mut answer).await, Some(Err(Error::RequestTimeoutError))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_without_an_answer_is_given_up() {
        assert_eq!(promptly(std::future::pending::<Result<u8, Error>>()).await, None);
        assert_eq!(promptly(async { Ok::<_, Error>(1) }).await, Some(1));
        let unanswered = patiently(std::future::pending::<Result<u8, Error>>).await;
        assert!(matches!(unanswered, Err(Error::RequestTimeoutError)));
    }
}
