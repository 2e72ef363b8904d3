//! One session of a harness from its prompt to its one cause of ending.
//!
//! The command's output goes into two files on the host. While it runs they are read for live events and for what must
//! stop it; when it is over they are read again, from the start: only that second reading counts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::ceiling::{Ceiling, Reached};
use super::ending::{self, Evidence, Stop};
pub use super::left::{ProcessEnd, end_again, read_left};
use super::lines::LineSplitter;
pub use super::logs::{conclude, read_all, read_events, read_logs};
use super::logs::{read_again, read_kept};
use super::{AgentEvent, Harness, HarnessError, OutputReader, Prepared, Reading, SessionRequest, credentials};
use crate::clock::Clock;
use crate::domain::failure::Timer;
use crate::domain::session::SessionEnd;
use crate::domain::{FromLog, Micros, Usage};
use crate::runtime::{Chunk, Command, Environment, ExecEnd, ExecReport, Limits, Output, Stream};

/// Prices tokens, so many of the written ones being kept for an hour where that is told; `None` where no price is known.
pub type Price = dyn Fn(&Usage, Option<u64>) -> Option<Micros> + Send + Sync;

/// Hears what a session has cost by its live stream, and returns what it may cost at most if that is over it.
pub type Meter = dyn Fn(Micros) -> Option<Micros> + Send + Sync;

/// Hears each secret of a login as a session has left it, before anything that the session printed is kept.
pub type OnLogin = dyn Fn(&str) + Send + Sync;

/// How many pieces of output may wait to be read live; what finds no room waits in the file.
const LIVE_CHUNKS: usize = 16;

/// How a session is run.
#[derive(Clone)]
pub struct SessionOptions {
    /// What stops the command.
    pub limits: Limits,
    /// The longest time until the first byte of output; past it the session never started. For harnesses that print
    /// nothing until they are done it must stay `None`.
    pub first_output: Option<Duration>,
    /// How long the command may go on after its terminal record.
    pub result_grace: Duration,
    /// The most it may cost, by the live stream.
    pub max_cost: Option<Micros>,
    /// Hears the live cost, and may stop the command: for limits that several sessions share.
    pub meter: Option<Arc<Meter>>,
    /// A ceiling that others watch: once it is reached, the command is stopped.
    pub ceiling: Option<Arc<Ceiling>>,
    /// Prices the live tokens; without it the cost that the harness reports counts.
    pub price: Option<Arc<Price>>,
    /// Hears the login that the session may have renewed, where it runs with a subscription.
    pub on_login: Option<Arc<OnLogin>>,
    /// A folder on the host for `stdout.log` and `stderr.log`; created when missing.
    pub folder: PathBuf,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

impl SessionOptions {
    /// The default time that a command may go on after its terminal record.
    pub const RESULT_GRACE: Duration = Duration::from_secs(10);

    /// Makes options without limits.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>, clock: Arc<dyn Clock>) -> Self {
        Self {
            limits: Limits::default(),
            first_output: None,
            result_grace: Self::RESULT_GRACE,
            max_cost: None,
            meter: None,
            ceiling: None,
            price: None,
            on_login: None,
            folder: folder.into(),
            clock,
        }
    }

    /// Returns where standard output is kept.
    #[must_use]
    pub fn stdout_log(&self) -> PathBuf {
        self.folder.join("stdout.log")
    }

    /// Returns where standard error is kept.
    #[must_use]
    pub fn stderr_log(&self) -> PathBuf {
        self.folder.join("stderr.log")
    }

    fn cost_of(&self, usage: Option<&Usage>, long: Option<u64>, reported: Option<Micros>) -> Option<Micros> {
        self.price.as_ref().zip(usage).and_then(|(price, usage)| price(usage, long)).or(reported)
    }
}

/// What a session came to. Texts are raw: whoever stores or shows them redacts first.
#[derive(Debug, Clone)]
pub struct SessionResult {
    /// The one cause of its end.
    pub end: SessionEnd,
    /// How the command ended.
    pub exec: ExecReport,
    /// What its log says, with all warnings.
    pub reading: Reading,
    /// When it began, by the wall clock.
    pub started_at: Timestamp,
    /// What of this another reading of its log may say anew.
    pub from_log: FromLog,
}

/// Runs a session. Events go to `live` as they come; a full channel drops them.
///
/// # Errors
///
/// A [`HarnessError`] if the session cannot be started, if the runtime loses it, or if its log cannot be read. A session
/// that fails is a [`SessionResult`]. Dropping the future ends the command with its tree.
pub async fn run(
    env: &dyn Environment,
    harness: &dyn Harness,
    request: &SessionRequest,
    options: &SessionOptions,
    live: Option<mpsc::Sender<AgentEvent>>,
    stop: &CancellationToken,
) -> Result<SessionResult, HarnessError> {
    let Prepared { mut command, files, credentials } = harness.prepare(request)?;
    for (path, content) in &files {
        env.put_file(content, path, false).await?;
    }
    tokio::fs::create_dir_all(&options.folder).await.map_err(|source| HarnessError::File {
        action: "create",
        path: options.folder.clone(),
        source,
    })?;
    command.limits = options.limits.clone();

    credentials::put(env, &credentials).await?;

    let started_at = options.clock.now();
    let mut watch = Watch::new(harness.reader(), options, live, stop);
    let exec = watch.follow(env, &command).await;
    let logins: Vec<PathBuf> = credentials.into_iter().map(|(path, _)| path).collect();
    let left = take_login(env, &logins, options).await;
    let exec = exec?;
    let mut reading = match read_again(harness.reader(), options, exec.exit_code, None).await {
        // The agent can reach the log where nothing keeps it apart from the host.
        Err(HarnessError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            read_kept(harness.reader(), &exec)
        }
        reading => read_file(reading?, env, (harness, request), options, exec.exit_code).await?,
    };
    part_from_resumed(&mut reading, request.resume.is_some());
    let mut judged = Vec::new();
    let evidence = Evidence {
        exec: &exec,
        stop: watch.stopped.as_ref(),
        recorded: watch.recorded(),
        reading: &reading,
        deadline: options.limits.timeout,
        printed: exec.stdout.total > 0,
    };
    let ending::Decision { end, by_log } = ending::decide(evidence, &mut judged);
    reading.warnings.extend(judged);
    let from_log = FromLog {
        decides_end: by_log,
        outlived_end: by_log && !matches!(exec.end, ExecEnd::Exited(_) | ExecEnd::Signaled(_)),
        resumed: request.resume.is_some(),
        warnings: reading.warnings.clone(),
    };
    let mut warnings: Vec<String> = left.into_iter().collect();
    warnings.extend(exec.notes.iter().cloned());
    if exec.out_of_memory.is_some() && end == SessionEnd::Completed {
        warnings.push("processes were killed for want of memory while it ran".to_owned());
    }
    if exec.leftovers > 0 {
        warnings.push(format!("{} processes outlived the harness and were ended", exec.leftovers));
    }
    if let Some((limit, spent)) = over(options, &reading).filter(|_| end == SessionEnd::Completed) {
        warnings.push(format!("it cost {spent}, more than the limit of {limit}; that showed only at its end"));
    }
    reading.warnings.extend(warnings);
    Ok(SessionResult { end, exec, reading, started_at, from_log })
}

/// Hears what has become of the login, and removes its files; returns what a reader should know.
pub(super) async fn take_login(env: &dyn Environment, files: &[PathBuf], options: &SessionOptions) -> Option<String> {
    if let Some(on_login) = &options.on_login {
        credentials::held(env, files).await.iter().for_each(|secret| on_login(secret));
    }
    credentials::remove(env, files).await
}

/// Takes the figures out of a reading that also counts the sessions that this one, if it is `resumed`, went on with.
pub fn part_from_resumed(reading: &mut Reading, resumed: bool) {
    if reading.cumulative && resumed {
        (reading.usage, reading.cache_write_long) = (Usage::UNKNOWN, None);
        reading.cost = None;
        reading.warnings.push("the harness counts the resumed sessions too: tokens of this one are unknown".to_owned());
    }
}

fn over(options: &SessionOptions, reading: &Reading) -> Option<(Micros, Micros)> {
    let spent = options.cost_of(Some(&reading.usage), reading.cache_write_long, reading.cost)?;
    options.max_cost.filter(|limit| spent > *limit).map(|limit| (limit, spent))
}

/// Follows the live output of a running command and stops it where it must be stopped.
struct Watch<'a> {
    reader: Box<dyn OutputReader>,
    splitters: [LineSplitter; 2],
    options: &'a SessionOptions,
    live: Option<mpsc::Sender<AgentEvent>>,
    /// Ends the command: by the caller or by us.
    inner: CancellationToken,
    began: Duration,
    heard: bool,
    /// When the latest sign of life after a terminal record came, and when that record came.
    finished: Option<(Duration, Duration)>,
    reported: Option<Micros>,
    usage: Option<Usage>,
    stopped: Option<Stop>,
}

impl<'a> Watch<'a> {
    fn new(
        reader: Box<dyn OutputReader>,
        options: &'a SessionOptions,
        live: Option<mpsc::Sender<AgentEvent>>,
        stop: &CancellationToken,
    ) -> Self {
        Self {
            reader,
            splitters: [LineSplitter::default(), LineSplitter::default()],
            options,
            live,
            inner: stop.child_token(),
            began: options.clock.elapsed(),
            heard: false,
            finished: None,
            reported: None,
            usage: None,
            stopped: None,
        }
    }

    async fn follow(&mut self, env: &dyn Environment, command: &Command) -> Result<ExecReport, HarnessError> {
        let (sender, mut chunks) = mpsc::channel(LIVE_CHUNKS);
        let output =
            Output::Spool { stdout: self.options.stdout_log(), stderr: self.options.stderr_log(), live: Some(sender) };
        let ceiling = self.options.ceiling.clone();
        let inner = self.inner.clone();
        let exec = env.exec(command, output, &inner);
        tokio::pin!(exec);
        loop {
            let alarm = self.alarm();
            let clock = Arc::clone(&self.options.clock);
            tokio::select! {
                // Output first: a record that is there when a limit strikes was there before it.
                biased;
                Some(chunk) = chunks.recv() => self.take(&chunk),
                report = &mut exec => {
                    while let Ok(chunk) = chunks.try_recv() {
                        self.take(&chunk);
                    }
                    self.at_ceiling();
                    return Ok(report?);
                }
                () = ring(&*clock, alarm) => self.ring(),
                () = reached(ceiling.as_deref()), if self.stopped.is_none() => self.at_ceiling(),
            }
        }
    }

    fn take(&mut self, chunk: &Chunk) {
        self.heard = true;
        let mut events = Vec::new();
        let at = usize::from(chunk.stream == Stream::Stderr);
        let reader = &mut self.reader;
        self.splitters[at].push(&chunk.bytes, &mut |line| reader.line(chunk.stream, line, &mut events));
        if events.is_empty() {
            return;
        }
        let now = self.options.clock.elapsed();
        for event in events {
            match &event {
                // What comes once we have stopped it is the stop's doing.
                AgentEvent::Finished if !self.inner.is_cancelled() && self.ceiling_reached().is_none() => {
                    let first = self.finished.map_or(now, |(_, first)| first);
                    self.finished = Some((now, first));
                }
                AgentEvent::Usage(usage) => self.usage = Some(*usage),
                AgentEvent::Cost(cost) => self.reported = Some(*cost),
                _ => {}
            }
            if let Some(live) = &self.live {
                // Live events are for show; a listener that falls behind misses some.
                let _ = live.try_send(event);
            }
        }
        self.finished = self.finished.map(|(_, first)| (now, first));
        self.check_cost();
    }

    fn check_cost(&mut self) {
        let Some(spent) = self.options.cost_of(self.usage.as_ref(), None, self.reported) else { return };
        let shared = self.options.meter.as_ref().and_then(|meter| meter(spent));
        let own = self.options.max_cost.filter(|limit| spent > *limit);
        if let Some(limit) = own.or(shared).filter(|_| self.finished.is_none()) {
            self.stop(Stop::Cost { limit, spent });
        }
    }

    fn ceiling_reached(&self) -> Option<Reached> {
        self.options.ceiling.as_ref()?.reached().cloned()
    }

    /// Stops the command at a ceiling, unless it had told its end before. A command that ended by itself meanwhile ended
    /// because of it.
    fn at_ceiling(&mut self) {
        if let Some(reached) = self.ceiling_reached().filter(|_| self.finished.is_none()) {
            self.stop(match reached {
                Reached::Cost { limit, spent } => Stop::Cost { limit, spent },
                Reached::Unpriced(message) => Stop::Unpriced(message),
            });
        }
    }

    /// Returns how long to wait until the next thing that may have to be stopped.
    fn alarm(&self) -> Option<Duration> {
        let due = match (self.finished, self.options.first_output) {
            _ if self.stopped.is_some() => None,
            (Some((latest, _)), _) => Some(latest + self.options.result_grace),
            (None, Some(limit)) if !self.heard => Some(self.began + limit),
            (None, _) => None,
        };
        due.map(|due| due.saturating_sub(self.options.clock.elapsed()))
    }

    fn ring(&mut self) {
        match (self.finished, self.options.first_output) {
            (Some(_), _) => self.stop(Stop::AfterRecord),
            (None, Some(limit)) => self.stop(Stop::Silent(limit)),
            (None, None) => {}
        }
    }

    fn stop(&mut self, why: Stop) {
        // The caller's own stop came first.
        if !self.inner.is_cancelled() {
            self.stopped = Some(why);
            self.inner.cancel();
        }
    }

    /// Tells whether a terminal record was there before the deadline and before any stop.
    fn recorded(&self) -> bool {
        let Some((_, first)) = self.finished else { return false };
        let deadline = self.options.limits.timeout.filter(|(timer, _)| *timer != Timer::Idle);
        deadline.is_none_or(|(_, limit)| first.saturating_sub(self.began) < limit)
    }
}

async fn reached(ceiling: Option<&Ceiling>) {
    match ceiling {
        Some(ceiling) => ceiling.wait().await,
        None => std::future::pending().await,
    }
}

async fn ring(clock: &dyn Clock, alarm: Option<Duration>) {
    match alarm {
        Some(alarm) => clock.sleep(alarm).await,
        None => std::future::pending().await,
    }
}

/// Reads the file that the harness keeps of a session too, where it keeps one.
pub(super) async fn read_file(
    mut reading: Reading,
    env: &dyn Environment,
    (harness, request): (&dyn Harness, &SessionRequest),
    options: &SessionOptions,
    exit_code: Option<i32>,
) -> Result<Reading, HarnessError> {
    let Some(file) = harness.session_file(request, reading.harness_session.as_deref()) else { return Ok(reading) };
    match file.collect(env, &options.folder).await {
        Ok(Some(copy)) => read_again(harness.reader(), options, exit_code, Some((file, copy))).await,
        Ok(None) => Ok(reading),
        Err(why) => {
            reading.warnings.push(format!("the file that it keeps of the session could not be read: {why}"));
            Ok(reading)
        }
    }
}
