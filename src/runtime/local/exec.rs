//! One command from its start to its report.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use super::launch::{self, Surroundings};
use super::processes;
use super::streams::Streams;
use super::tree::{Ended, Tree};
use super::watch::Watch;
use crate::clock::Clock;
use crate::runtime::{Command, ExecEnd, ExecReport, Limits, Output, RuntimeError};

/// How long processes that outlive their leader may take to end by themselves: a shell does not wait for a process
/// substitution, and such an ending is no leftover.
const SETTLE: Duration = Duration::from_millis(250);
/// How long the last output may take once nobody of the tree is left.
const DRAIN: Duration = Duration::from_millis(200);
/// How long the kernel may take to hand over a leader that was killed.
const REAP: Duration = Duration::from_secs(10);
/// While a command is younger than this, pids were given out in order since its start and scans can be narrow.
pub(super) const RECENT: Duration = Duration::from_secs(2);

/// A command that has a place to run.
pub(super) struct Exec<'a> {
    pub(super) command: &'a Command,
    pub(super) around: &'a Surroundings,
    pub(super) clock: &'a dyn Clock,
    /// Variables that mark every process of the environment, then of this command.
    pub(super) marks: [(String, String); 2],
    pub(super) stop: &'a CancellationToken,
}

impl Exec<'_> {
    /// Runs it. `began` is told the tree as soon as there is one.
    pub(super) async fn run(&self, output: Output, began: impl FnOnce(&Tree)) -> Result<ExecReport, RuntimeError> {
        if self.stop.is_cancelled() {
            return Ok(ExecReport::never_started());
        }
        let (mut streams, out, err) = Streams::open(output)?;
        let mut child = launch::spawn(self.command, self.around, &self.marks, [out, err]).await?;
        let started = self.clock.elapsed();
        let mut guard = Guard { tree: tree_of(&child, &self.marks[1]), reaped: false, armed: true };
        began(&guard.tree);
        streams.attach(&mut child);

        let mut watch = Watch::new(self.command.limits.clone(), started);
        let first = self.watch(&mut child, &mut streams, &mut watch, &guard.tree).await?;
        let (ours, status) = match first {
            Ending::Exit(status) => (None, status),
            Ending::Ours(end) => {
                guard.tree.terminate();
                (Some(end), self.end_leader(&mut child, &mut streams, &guard.tree).await?)
            }
        };
        guard.reaped = true;
        let duration = self.clock.elapsed().saturating_sub(started);
        guard.tree.recent = duration < RECENT;
        let settle = if ours.is_some() { Duration::ZERO } else { SETTLE };
        let ended = end_rest(guard.tree.clone(), settle).await?;
        guard.armed = false;
        if streams.drain(DRAIN).await > 0 {
            watch.output(started + duration);
        }
        let end = ours.or_else(|| watch.over_output(streams.total())).unwrap_or_else(|| by_itself(status));
        let (stdout, stderr) = streams.finish();
        Ok(ExecReport {
            end,
            exit_code: status.code(),
            signal: status.signal(),
            stdout,
            stderr,
            duration,
            longest_silence: watch.silence(started + duration),
            leftovers: ended.killed,
            out_of_memory: None,
            notes: Vec::new(),
        })
    }

    /// Waits for the command's end or for one of its limits. A limit goes before an end that comes at the same moment.
    async fn watch(
        &self,
        child: &mut Child,
        streams: &mut Streams,
        watch: &mut Watch,
        tree: &Tree,
    ) -> Result<Ending, RuntimeError> {
        loop {
            let now = self.clock.elapsed();
            if let Some(end) = watch.check(now, streams.total(), || cpu_ticks(tree)) {
                return Ok(Ending::Ours(end));
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(Ending::Ours(ExecEnd::Stopped)),
                status = child.wait() => return Ok(Ending::Exit(status.map_err(wait_failed)?)),
                bytes = streams.progress() => if bytes > 0 { watch.output(self.clock.elapsed()) },
                () = tokio::time::sleep(watch.pause(now)) => {}
            }
        }
    }

    /// Gives the leader its grace, then kills the tree, and waits for the leader. Output is taken all the while, so
    /// that nobody hangs in a full pipe.
    async fn end_leader(
        &self,
        child: &mut Child,
        streams: &mut Streams,
        tree: &Tree,
    ) -> Result<ExitStatus, RuntimeError> {
        let grace = self.command.limits.grace.unwrap_or(Limits::GRACE);
        if let Some(status) = wait_for(child, streams, grace).await? {
            return Ok(status);
        }
        let kill = end_rest(tree.clone(), Duration::ZERO);
        let (status, _) = tokio::join!(wait_for(child, streams, REAP), kill);
        let gone =
            || RuntimeError::Lost(format!("process {:?} of `{}` cannot be killed", child.id(), self.command.argv[0]));
        status?.ok_or_else(gone)
    }
}

enum Ending {
    Exit(ExitStatus),
    Ours(ExecEnd),
}

/// Kills the command's tree if its future is dropped.
struct Guard {
    tree: Tree,
    reaped: bool,
    armed: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        if !self.reaped {
            self.tree.kill_unreaped_group();
        }
        // A handful of rounds: enough for all but a process that the kernel holds, which `quiesce` meets again.
        self.tree.kill_in(20);
    }
}

fn tree_of(child: &Child, mark: &(String, String)) -> Tree {
    let leader = child.id().and_then(|pid| i32::try_from(pid).ok());
    // The leader is not waited for yet, so it is in the table even if it has ended.
    let since = leader.and_then(processes::read).map_or(0, |process| process.started);
    Tree { leader, marker: format!("{}={}", mark.0, mark.1), first: leader.unwrap_or(0), since, recent: false }
}

async fn wait_for(
    child: &mut Child,
    streams: &mut Streams,
    patience: Duration,
) -> Result<Option<ExitStatus>, RuntimeError> {
    let timer = tokio::time::sleep(patience);
    tokio::pin!(timer);
    loop {
        tokio::select! {
            biased;
            status = child.wait() => return status.map(Some).map_err(wait_failed),
            () = &mut timer => return Ok(None),
            _ = streams.progress() => {}
        }
    }
}

/// Ends what is left of a tree, off the async threads: it reads the process table and sleeps between rounds.
async fn end_rest(tree: Tree, settle: Duration) -> Result<Ended, RuntimeError> {
    let work = move || {
        let step = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        loop {
            match tree.members() {
                Some(members) if members.is_empty() => return Ended::default(),
                Some(_) if waited < settle => std::thread::sleep(step),
                Some(_) | None => return tree.kill(),
            }
            waited += step;
        }
    };
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| RuntimeError::Io { action: "end the command's processes", source: error.into() })
}

fn by_itself(status: ExitStatus) -> ExecEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => ExecEnd::Exited(code),
        (None, signal) => ExecEnd::Signaled(signal.unwrap_or(0)),
    }
}

fn cpu_ticks(tree: &Tree) -> Option<u64> {
    Some(tree.members()?.iter().map(|process| process.ticks).sum())
}

fn wait_failed(source: std::io::Error) -> RuntimeError {
    RuntimeError::Io { action: "wait for the command", source }
}
