//! A runtime for tests: real files in a scratch folder, commands answered by the test.
//!
//! What the test does not answer runs for real, on the [`LocalRuntime`], so one fake serves tests that script every
//! command and tests that only want one of them to fail. It obeys the same [`super::conformance`] suite.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::local::LocalRuntime;
use super::{
    Captured, Chunk, Command, Environment, EnvironmentSpec, ExecEnd, ExecReport, Output, Quiescence, Runtime,
    RuntimeError, RuntimeInfo, Stream,
};
use crate::clock::Clock;

/// What a command does in place of running.
#[derive(Debug, Clone)]
pub struct Answer {
    /// How it ends.
    pub end: ExecEnd,
    /// What it prints.
    pub stdout: Vec<u8>,
    /// What it prints on standard error.
    pub stderr: Vec<u8>,
    /// How long it takes, by the clock of the runtime. A stop ends it earlier.
    pub takes: Duration,
    /// Files it writes, relative to the workspace.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// How many processes it leaves behind.
    pub leftovers: usize,
}

impl Answer {
    /// Ends at once with `code`, without output.
    #[must_use]
    pub fn exit(code: i32) -> Self {
        Self {
            end: ExecEnd::Exited(code),
            stdout: Vec::new(),
            stderr: Vec::new(),
            takes: Duration::ZERO,
            files: Vec::new(),
            leftovers: 0,
        }
    }

    /// Prints `text` as well.
    #[must_use]
    pub fn printing(mut self, text: impl Into<String>) -> Self {
        self.stdout.extend(text.into().into_bytes());
        self
    }

    /// Takes so long.
    #[must_use]
    pub fn taking(mut self, takes: Duration) -> Self {
        self.takes = takes;
        self
    }

    /// Writes a file as well; `path` is relative to the workspace.
    #[must_use]
    pub fn writing(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.files.push((path.into(), content.into()));
        self
    }
}

/// Decides what a command does: `None` runs it for real, an error is the runtime's failure.
pub type Script = dyn Fn(&Command) -> Option<Result<Answer, RuntimeError>> + Send + Sync;

/// A runtime whose commands a test answers. Clones share what they were asked.
#[derive(Clone)]
pub struct FakeRuntime {
    inner: LocalRuntime,
    clock: Arc<dyn Clock>,
    script: Arc<Script>,
    open_fails: Arc<Mutex<Vec<RuntimeError>>>,
    asked: Arc<Mutex<Vec<Command>>>,
}

impl FakeRuntime {
    /// Makes a runtime on which everything runs for real.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: LocalRuntime::new(Arc::clone(&clock)),
            clock,
            script: Arc::new(|_| None),
            open_fails: Arc::default(),
            asked: Arc::default(),
        }
    }

    /// Sets what answers commands.
    #[must_use]
    pub fn answering(
        mut self,
        script: impl Fn(&Command) -> Option<Result<Answer, RuntimeError>> + Send + Sync + 'static,
    ) -> Self {
        self.script = Arc::new(script);
        self
    }

    /// Makes the next opening fail; may be called several times.
    pub fn fail_open(&self, error: RuntimeError) {
        locked(&self.open_fails).push(error);
    }

    /// Returns all commands so far, answered or run.
    #[must_use]
    pub fn asked(&self) -> Vec<Command> {
        locked(&self.asked).clone()
    }
}

#[async_trait]
impl Runtime for FakeRuntime {
    fn name(&self) -> &'static str {
        "fake"
    }

    async fn preflight(&self) -> Result<RuntimeInfo, RuntimeError> {
        Ok(RuntimeInfo { version: "fake".to_owned(), ..RuntimeInfo::default() })
    }

    async fn open(&self, spec: EnvironmentSpec) -> Result<Box<dyn Environment>, RuntimeError> {
        let failure = locked(&self.open_fails).pop();
        match failure {
            Some(error) => Err(error),
            None => Ok(Box::new(FakeEnvironment { inner: self.inner.open(spec).await?, runtime: self.clone() })),
        }
    }

    async fn sweep(&self, root: &Path) -> Result<Vec<String>, RuntimeError> {
        self.inner.sweep(root).await
    }

    async fn reattach(&self, spec: &EnvironmentSpec) -> Result<Option<Box<dyn Environment>>, RuntimeError> {
        let Some(inner) = self.inner.reattach(spec).await? else { return Ok(None) };
        Ok(Some(Box::new(FakeEnvironment { inner, runtime: self.clone() })))
    }

    async fn sweep_except(&self, root: &Path, kept: &[EnvironmentSpec]) -> Result<Vec<String>, RuntimeError> {
        self.inner.sweep_except(root, kept).await
    }
}

struct FakeEnvironment {
    inner: Box<dyn Environment>,
    runtime: FakeRuntime,
}

impl FakeEnvironment {
    async fn answer(
        &self,
        answer: Answer,
        output: Output,
        stop: &CancellationToken,
    ) -> Result<ExecReport, RuntimeError> {
        let began = self.runtime.clock.elapsed();
        let stopped = tokio::select! {
            biased;
            () = stop.cancelled() => true,
            () = self.runtime.clock.sleep(answer.takes) => false,
        };
        let files: &[_] = if stopped { &[] } else { &answer.files };
        for (path, content) in files {
            self.inner.put_file(content, &self.inner.workspace().join(path), false).await?;
        }
        let (stdout, stderr) = deliver(&answer, output).await?;
        let exit_code = if let ExecEnd::Exited(code) = answer.end { Some(code) } else { None };
        let duration = self.runtime.clock.elapsed().saturating_sub(began);
        Ok(ExecReport {
            exit_code: exit_code.filter(|_| !stopped),
            signal: if let ExecEnd::Signaled(signal) = answer.end { Some(signal) } else { None },
            end: if stopped { ExecEnd::Stopped } else { answer.end },
            stdout,
            stderr,
            duration,
            longest_silence: duration,
            leftovers: answer.leftovers,
            out_of_memory: None,
            notes: Vec::new(),
        })
    }
}

/// Puts an answer's output where the caller wants it.
async fn deliver(answer: &Answer, output: Output) -> Result<(Captured, Captured), RuntimeError> {
    let whole = |bytes: &[u8]| Captured { bytes: bytes.to_vec(), total: bytes.len() as u64, cut: false };
    if let Output::Spool { stdout, stderr, live } = output {
        for (stream, path, bytes) in
            [(Stream::Stdout, stdout, &answer.stdout), (Stream::Stderr, stderr, &answer.stderr)]
        {
            let written = tokio::fs::write(&path, bytes).await;
            written.map_err(|source| RuntimeError::File { action: "write", path, source })?;
            if let Some(live) = live.as_ref().filter(|_| !bytes.is_empty()) {
                // A full channel drops live chunks.
                let _ = live.try_send(Chunk { stream, bytes: bytes.clone() });
            }
        }
    }
    Ok((whole(&answer.stdout), whole(&answer.stderr)))
}

#[async_trait]
impl Environment for FakeEnvironment {
    fn workspace(&self) -> &Path {
        self.inner.workspace()
    }

    fn home(&self) -> &Path {
        self.inner.home()
    }

    fn host_path(&self, path: &Path) -> Option<PathBuf> {
        self.inner.host_path(path)
    }

    async fn exec(
        &self,
        command: &Command,
        output: Output,
        stop: &CancellationToken,
    ) -> Result<ExecReport, RuntimeError> {
        locked(&self.runtime.asked).push(command.clone());
        match (self.runtime.script)(command) {
            Some(answer) => self.answer(answer?, output, stop).await,
            None => self.inner.exec(command, output, stop).await,
        }
    }

    async fn put(&self, from: &Path, to: &Path) -> Result<(), RuntimeError> {
        self.inner.put(from, to).await
    }

    async fn put_file(&self, content: &[u8], to: &Path, executable: bool) -> Result<(), RuntimeError> {
        self.inner.put_file(content, to, executable).await
    }

    async fn get(&self, from: &Path, to: &Path) -> Result<Vec<String>, RuntimeError> {
        self.inner.get(from, to).await
    }

    async fn gateway_address(&self) -> Result<String, RuntimeError> {
        self.inner.gateway_address().await
    }

    async fn quiesce(&self) -> Result<Quiescence, RuntimeError> {
        self.inner.quiesce().await
    }

    async fn close(&self) -> Result<(), RuntimeError> {
        self.inner.close().await
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
