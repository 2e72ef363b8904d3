//! One running command: its streams, its limits, and how it is ended.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bollard::container::LogOutput;
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

use super::super::container::Container;
use super::daemon::{self, Channel, Fate};
use super::frame::{Begun, Record, Scanner, Word};
use super::log;
use super::reap::{self, How, Whose};
use super::script::{self, Script};
use super::sink::Sink;
use crate::clock::Clock;
use crate::runtime::local::watch::Watch;
use crate::runtime::{Command, ExecEnd, Limits, RuntimeError, Stream};

/// How long a stream may be silent before the daemon is asked whether the command still runs.
const SILENCE: Duration = Duration::from_secs(5);
/// How long the last output may take once the daemon says that the command has ended.
const DRAIN: Duration = Duration::from_secs(2);
/// How often the daemon is asked about a command whose stream is lost.
const POLL: Duration = Duration::from_millis(500);
/// How long the wrapper may take to report once nothing else of the command is left: it sends what is left of the log.
const REPORT: Duration = Duration::from_secs(30);
/// The exit code that the daemon gives to what it could not start.
const NOT_STARTED: i64 = 126;
/// How long a command that was killed, wrapper and all, may take to be gone.
const GONE: Duration = Duration::from_secs(10);

/// What the wrapper has said.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) begun: Option<Begun>,
    pub(super) refused: Option<String>,
    pub(super) ended: Option<Record>,
    /// Whether standard output has come to its end.
    over: bool,
    /// What the daemon said in place of output: why it could not start the command.
    pub(super) complaint: String,
}

impl Heard {
    /// Tells whether everything was said.
    pub(super) fn is_complete(&self) -> bool {
        self.refused.is_some() || (self.over && self.ended.is_some())
    }
}

/// A command that has been started.
pub(super) struct Session<'a> {
    pub(super) container: &'a Arc<Container>,
    pub(super) clock: &'a dyn Clock,
    pub(super) command: &'a Command,
    pub(super) stop: &'a CancellationToken,
    pub(super) exec: String,
    pub(super) id: String,
    pub(super) nonce: String,
    pub(super) sink: Sink,
    pub(super) watch: Watch,
    pub(super) heard: Heard,
    /// When the program began, by the clock.
    pub(super) began: Duration,
    /// `None` once the stream is over or lost.
    channel: Option<Channel>,
    scanners: [Scanner; 2],
    /// Whether the stream was over before the command was, so that something may be missing.
    pub(super) cut: bool,
    /// When the stream last gave a sign of life, and when the daemon was last asked.
    alive: Duration,
    asked: Duration,
    /// When the daemon was first found to know the command's end while the stream goes on.
    gone: Option<Duration>,
    /// How large the log was when it was last looked at, where the stream is lost.
    logged: u64,
    /// When its processes were last counted.
    counted: Duration,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        container: &'a Arc<Container>,
        clock: &'a dyn Clock,
        (command, stop): (&'a Command, &'a CancellationToken),
        (script, exec): (&Script, String),
        (channel, sink): (Channel, Sink),
    ) -> Self {
        let now = clock.elapsed();
        Self {
            container,
            clock,
            command,
            stop,
            exec,
            id: script.id.clone(),
            nonce: script.nonce.clone(),
            sink,
            watch: Watch::new(command.limits.clone(), now),
            heard: Heard::default(),
            began: now,
            channel: Some(channel),
            scanners: [Scanner::new(&script.nonce), Scanner::new(&script.nonce)],
            cut: false,
            alive: now,
            asked: now,
            gone: None,
            logged: 0,
            counted: now,
        }
    }

    /// Sends the script. A stream that is lost meanwhile shows when it is read.
    pub(super) async fn send(&mut self, text: &[u8]) -> Result<(), RuntimeError> {
        let nowhere = || -> std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>> { Box::pin(tokio::io::sink()) };
        let Some(channel) = &mut self.channel else { return Ok(()) };
        let mut input = std::mem::replace(&mut channel.input, nowhere());
        let sending = async {
            let sent = async {
                input.write_all(text).await?;
                input.flush().await
            };
            if let Err(error) = sent.await {
                tracing::debug!(%error, "a command's script was not taken");
            }
        };
        self.during(sending).await?;
        // Kept open: its end would be a sign of ours that nobody asked for.
        if let Some(channel) = &mut self.channel {
            channel.input = input;
        }
        Ok(())
    }

    /// Follows the command until it ends, and returns what of ours it met before.
    pub(super) async fn follow(&mut self) -> Result<Option<ExecEnd>, RuntimeError> {
        loop {
            if self.is_over().await? {
                return Ok(None);
            }
            self.check_capture()?;
            let now = self.clock.elapsed();
            let mut cpu = None;
            if self.watch.cpu_is_due(now) {
                cpu = self.during(daemon::cpu_ticks(self.container)).await?;
            }
            if let Some(end) = self.watch.check(now, self.sink.total().max(self.logged), || cpu) {
                return Ok(Some(end));
            }
            let (stop, pause) = (self.stop, self.watch.pause(now));
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(Some(ExecEnd::Stopped)),
                heard = self.listen() => heard?,
                () = tokio::time::sleep(pause) => self.sink.offer(),
            }
        }
    }

    /// Output that is kept nowhere but here is no result where a part may be missing.
    pub(super) fn check_capture(&self) -> Result<(), RuntimeError> {
        if self.cut && matches!(self.sink, Sink::Captured(_)) {
            let source = std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the connection to the daemon was cut");
            return Err(RuntimeError::Io { action: "read a command's output", source });
        }
        Ok(())
    }

    /// Ends the command: politely, then by force; in the end with its wrapper, and if need be with the container.
    pub(super) async fn end(&mut self) -> Result<(), RuntimeError> {
        let grace = self.command.limits.grace.unwrap_or(Limits::GRACE);
        let report = if self.is_flooded() { grace } else { REPORT };
        for (how, patience) in [(How::Term, grace), (How::Kill, report)] {
            let whose = Whose::Command(self.id.clone(), self.heard.begun);
            self.reap(how, whose).await?;
            if self.wait(patience).await? {
                return Ok(());
            }
        }
        self.end_with_wrapper().await
    }

    /// Ends the command and all that looks after it.
    pub(super) async fn end_with_wrapper(&mut self) -> Result<(), RuntimeError> {
        self.reap(How::Kill, Whose::Command(self.id.clone(), None)).await?;
        if self.wait(GONE).await? || self.fate().await? != Fate::Running {
            return Ok(());
        }
        let killed = self.container.client.kill_container(&self.container.id, None).await;
        let how = killed.map_or_else(|error| format!(", and the container neither: {error}"), |()| String::new());
        Err(RuntimeError::Lost(format!("a command could not be ended{how}")))
    }

    async fn reap(&mut self, how: How, whose: Whose) -> Result<(), RuntimeError> {
        match self.during(reap::reap(self.container, how, &whose)).await? {
            Ok(_) => Ok(()),
            Err(RuntimeError::Lost(why)) => Err(RuntimeError::Lost(why)),
            // Where nothing can be started, the next harder way is tried.
            Err(error) => {
                tracing::warn!(container = self.container.id, %error, "a command was not signalled");
                Ok(())
            }
        }
    }

    /// Waits for the command's end for a while.
    async fn wait(&mut self, patience: Duration) -> Result<bool, RuntimeError> {
        let until = self.clock.elapsed() + patience;
        loop {
            if self.is_over().await? {
                return Ok(true);
            }
            let left = until.saturating_sub(self.clock.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            let pause = left.min(Duration::from_millis(50));
            tokio::select! {
                biased;
                heard = self.listen() => heard?,
                () = tokio::time::sleep(pause) => self.sink.offer(),
            }
        }
    }

    /// Does something while output goes on being taken.
    async fn during<T>(&mut self, work: impl Future<Output = T>) -> Result<T, RuntimeError> {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return Ok(done),
                heard = self.listen() => heard?,
            }
        }
    }

    /// Takes the next piece of the stream; never returns where there is none any more. Cancel-safe.
    async fn listen(&mut self) -> Result<(), RuntimeError> {
        let Some(channel) = &mut self.channel else { return std::future::pending().await };
        let piece = channel.output.next().await;
        self.alive = self.clock.elapsed();
        match piece {
            Some(Ok(LogOutput::StdOut { message })) => self.take(Stream::Stdout, &message),
            Some(Ok(LogOutput::StdErr { message })) => self.take(Stream::Stderr, &message),
            Some(Ok(LogOutput::Console { message } | LogOutput::StdIn { message })) => {
                // No frame of a stream: the daemon's own words, or the rest of a stream that was cut.
                if self.heard.begun.is_none() && self.heard.complaint.len() < 4096 {
                    self.heard.complaint.push_str(&String::from_utf8_lossy(&message));
                }
                Ok(())
            }
            Some(Err(error)) => {
                tracing::debug!(%error, "the stream of a command was lost");
                self.hang_up()
            }
            None => self.hang_up(),
        }
    }

    /// Tells whether it has printed more than it may.
    fn is_flooded(&self) -> bool {
        self.watch.over_output(self.sink.total()).is_some()
    }

    fn take(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), RuntimeError> {
        // What the wrapper says still counts; the rest would only fill the host's disk.
        let flooded = self.is_flooded();
        let (sink, mut kept) = (&mut self.sink, Ok(()));
        let mut came = false;
        let scanner = &mut self.scanners[usize::from(stream == Stream::Stderr)];
        let words = scanner.push(bytes, &mut |bytes| {
            if !bytes.is_empty() && !flooded && kept.is_ok() {
                kept = sink.take(stream, bytes);
                came = true;
            }
        });
        if came {
            self.watch.output(self.alive);
        }
        for word in words {
            match word {
                Word::Begun(begun) => {
                    (self.heard.begun, self.began) = (Some(begun), self.alive);
                    // Its time is its own: that of starting the shell is not counted.
                    self.watch = Watch::new(self.command.limits.clone(), self.alive);
                }
                Word::Refused(reason) => self.heard.refused = Some(reason),
                Word::Ended(record) => self.heard.ended = Some(record),
                Word::Over => self.heard.over = true,
            }
        }
        kept
    }

    fn hang_up(&mut self) -> Result<(), RuntimeError> {
        self.channel = None;
        let mut kept = Ok(());
        for (scanner, stream) in self.scanners.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
            scanner.finish(&mut |bytes| {
                if !bytes.is_empty() && kept.is_ok() {
                    kept = self.sink.take(stream, bytes);
                }
            });
        }
        kept
    }

    /// Tells whether the command has ended: by the wrapper's word, or, where that does not come, by the daemon's.
    async fn is_over(&mut self) -> Result<bool, RuntimeError> {
        if self.heard.is_complete() {
            return Ok(true);
        }
        let now = self.clock.elapsed();
        let (silence, interval) = if self.channel.is_some() { (SILENCE, SILENCE) } else { (Duration::ZERO, POLL) };
        let just_hung_up = self.channel.is_none() && !self.cut;
        let due = now.saturating_sub(self.alive) >= silence && now.saturating_sub(self.asked) >= interval;
        if let Some(gone) = self.gone {
            if now.saturating_sub(gone) >= DRAIN {
                // The daemon knows the end, and its stream does not come to it.
                self.cut = true;
                self.hang_up()?;
                return Ok(true);
            }
        } else if due || just_hung_up {
            self.asked = now;
            return self.ask().await;
        }
        Ok(false)
    }

    /// What the daemon knows of the end, and can be believed: when it loses the stream it takes the command for one that
    /// could not be started, while it runs on.
    pub(super) async fn fate(&mut self) -> Result<Fate, RuntimeError> {
        let fate = daemon::fate(self.container, &self.exec).await?;
        let broken = fate == Fate::Exited(NOT_STARTED) && self.channel.is_none() && self.heard.begun.is_some();
        Ok(if broken { Fate::Unknown } else { fate })
    }

    /// Asks the daemon.
    async fn ask(&mut self) -> Result<bool, RuntimeError> {
        let attached = self.channel.is_some();
        let fate = if attached {
            let (container, exec) = (self.container, self.exec.clone());
            self.during(daemon::fate(container, &exec)).await??
        } else {
            self.fate().await?
        };
        if attached {
            if fate != Fate::Running {
                self.gone = Some(self.clock.elapsed());
            }
            return Ok(false);
        }
        match fate {
            Fate::Exited(_) => Ok(true),
            Fate::Running => {
                // The daemon closes the stream a moment before it notes the end.
                if !self.cut && self.clock.elapsed().saturating_sub(self.alive) >= POLL {
                    self.cut = true;
                }
                if self.cut {
                    self.look_at_log().await;
                } else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(false)
            }
            Fate::Unknown => {
                self.cut = true;
                self.look_at_container().await
            }
        }
    }

    /// Where the daemon does not know of the command any more, the closing record tells, as long as the container lives,
    /// and the processes where there is none.
    async fn look_at_container(&mut self) -> Result<bool, RuntimeError> {
        let record = format!("{}.end", script::base(&self.id));
        if log::size(self.container, &record).await.is_some_and(|size| size > 0) {
            return Ok(true);
        }
        if daemon::cause_of_loss(self.container).await?.is_some() {
            return Ok(true);
        }
        self.look_at_log().await;
        let now = self.clock.elapsed();
        if now.saturating_sub(self.counted) < SILENCE {
            return Ok(false);
        }
        self.counted = now;
        let whose = Whose::Command(self.id.clone(), None);
        Ok(reap::reap(self.container, How::Count, &whose).await?.left == 0)
    }

    /// Where the stream is lost, a log that grows is output all the same.
    async fn look_at_log(&mut self) {
        let mut total = 0;
        for suffix in ["out", "err"] {
            let path = format!("{}.{suffix}", script::base(&self.id));
            total += log::size(self.container, &path).await.unwrap_or(0);
        }
        if total > self.logged {
            self.logged = total;
            self.watch.output(self.clock.elapsed());
        }
    }
}
