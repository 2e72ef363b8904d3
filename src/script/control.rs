//! The one place that decides whether a running script may go on: stop, CPU time, memory's high mark.
//!
//! Nothing outside touches the VM. The VM asks here, at every call and loop edge, and gets one of three answers: go on;
//! yield, after which the host drops the script's future and no Lua code runs again; or, where Luau cannot yield
//! (metamethods, sort and gsub callbacks, pattern matching), an error. Yields and errors are asked for in blocks, since
//! alternating one by one can fall into step with nested `pcall`s.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlua::{Lua, VmState};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Notify;

use super::error::Frame;
use super::frames;
use super::garbage::Garbage;
use super::limits::ScriptLimits;
use super::stop::StopHandle;

/// How many requests of one kind follow each other.
const BLOCK: u32 = 1_000;
/// How many calls and loop edges pass between two looks at the wall clock.
const FIRES: u32 = 32;
/// How much wall time passes between two looks at the CPU clock, which costs a system call.
const LOOK_EVERY: u64 = 1_000_000;

/// Why the host ends a script by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The host answered a call with a stop.
    Stop(String),
    /// A limit of CPU time was reached.
    Limit(String),
}

/// What the interrupt raises where it cannot yield. Never seen outside: the future is dropped.
#[derive(Debug, thiserror::Error)]
#[error("the script was ended")]
pub(crate) struct Terminated;

/// State of one running script that its VM, its host calls and its runner share.
#[derive(Debug)]
pub(crate) struct Control {
    stop: StopHandle,
    cpu_between_calls: u64,
    cpu_total: u64,
    ended: AtomicBool,
    cause: Mutex<Option<Cause>>,
    place: Mutex<Option<Frame>>,
    wake: Notify,
    dropping: AtomicBool,
    ignored: AtomicU32,
    fires: AtomicU32,
    /// A host call happened since the CPU clock was last read.
    called: AtomicBool,
    start: Instant,
    looked: AtomicU64,
    /// CPU nanoseconds of finished polls.
    spent: AtomicU64,
    /// The thread's CPU clock when the current poll began.
    poll_began: AtomicU64,
    /// CPU nanoseconds at the last host call.
    mark: AtomicU64,
    memory: AtomicUsize,
    garbage: Garbage,
}

impl Control {
    #[expect(
        clippy::disallowed_methods,
        reason = "only decides how often the CPU clock is read, never shown or compared"
    )]
    pub(crate) fn new(stop: StopHandle, limits: &ScriptLimits) -> Self {
        Self {
            stop,
            cpu_between_calls: nanos(limits.cpu_between_calls),
            cpu_total: nanos(limits.cpu_total),
            ended: AtomicBool::new(false),
            cause: Mutex::new(None),
            place: Mutex::new(None),
            wake: Notify::new(),
            dropping: AtomicBool::new(false),
            ignored: AtomicU32::new(0),
            fires: AtomicU32::new(0),
            called: AtomicBool::new(false),
            start: Instant::now(),
            looked: AtomicU64::new(0),
            spent: AtomicU64::new(0),
            poll_began: AtomicU64::new(0),
            mark: AtomicU64::new(0),
            memory: AtomicUsize::new(0),
            garbage: Garbage::new(limits.memory),
        }
    }

    /// Tells whether the script is to end.
    pub(crate) fn ending(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.stop.is_stopped()
    }

    /// Ends the script; the first cause stays.
    pub(crate) fn end(&self, cause: Cause) {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(cause);
        self.ended.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Returns why the host ended the script, where it did.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.cause.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns where the script was when it was first told to end.
    pub(crate) fn place(&self) -> Option<Frame> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the script is to end.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            () = self.stop.stopped() => {}
            () = self.wake.notified() => {}
        }
    }

    /// From now on only the VM's own clean-up runs, which must not be interrupted.
    pub(crate) fn begin_dropping(&self) {
        self.dropping.store(true, Ordering::Release);
    }

    /// Notes that a host call began or was answered: the CPU allowance starts afresh.
    pub(crate) fn host_called(&self) {
        self.called.store(true, Ordering::Relaxed);
    }

    /// Starts to count the CPU time of one poll on this thread.
    pub(crate) fn begin_poll(&self) {
        self.ignored.store(0, Ordering::Relaxed);
        self.poll_began.store(thread_cpu(), Ordering::Relaxed);
    }

    /// Adds the CPU time of the poll that [`Control::begin_poll`] began.
    pub(crate) fn end_poll(&self) {
        self.spent.store(self.cpu_nanos(), Ordering::Relaxed);
        self.poll_began.store(thread_cpu(), Ordering::Relaxed);
    }

    /// Returns the CPU time of the script so far; right only between polls and on the polling thread.
    pub(crate) fn cpu(&self) -> Duration {
        Duration::from_nanos(self.spent.load(Ordering::Relaxed))
    }

    /// Returns the most memory that was seen.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Begins to limit the memory of a VM that is set up.
    pub(crate) fn begin_memory(&self, lua: &Lua) -> mlua::Result<()> {
        self.saw_memory(self.garbage.begin(lua)?);
        Ok(())
    }

    /// Notes how much memory the VM holds.
    pub(crate) fn saw_memory(&self, bytes: usize) {
        self.memory.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Answers the VM.
    pub(crate) fn interrupt(&self, lua: &Lua) -> mlua::Result<VmState> {
        if !self.ending() {
            self.look(lua);
            if !self.ending() {
                self.garbage.collect_in_time(lua)?;
                return Ok(VmState::Continue);
            }
        }
        // The VM must be able to tear itself down.
        if self.dropping.load(Ordering::Acquire) {
            return Ok(VmState::Continue);
        }
        let ignored = self.ignored.fetch_add(1, Ordering::Relaxed);
        if ignored == 0 {
            let here = frames::script_frames(lua, 0, 1).into_iter().next();
            let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
            if place.is_none() {
                *place = here;
            }
        }
        if (ignored / BLOCK).is_multiple_of(2) { Ok(VmState::Yield) } else { Err(mlua::Error::external(Terminated)) }
    }

    /// Looks at the clocks from time to time.
    fn look(&self, lua: &Lua) {
        if !self.fires.fetch_add(1, Ordering::Relaxed).is_multiple_of(FIRES) {
            return;
        }
        let wall = nanos(self.start.elapsed());
        if wall.saturating_sub(self.looked.load(Ordering::Relaxed)) < LOOK_EVERY {
            return;
        }
        self.looked.store(wall, Ordering::Relaxed);
        self.saw_memory(lua.used_memory());
        let now = self.cpu_nanos();
        if self.called.swap(false, Ordering::Relaxed) {
            self.mark.store(now, Ordering::Relaxed);
        }
        let burst = now.saturating_sub(self.mark.load(Ordering::Relaxed));
        if burst > self.cpu_between_calls {
            let limit = Duration::from_nanos(self.cpu_between_calls).as_secs_f64();
            self.end(Cause::Limit(format!(
                "the script computed for more than {limit:.1} s without a host call; is there an endless loop?"
            )));
        } else if now > self.cpu_total {
            let limit = Duration::from_nanos(self.cpu_total).as_secs_f64();
            self.end(Cause::Limit(format!("the script used more than {limit:.1} s of CPU time in all")));
        }
    }

    fn cpu_nanos(&self) -> u64 {
        self.spent.load(Ordering::Relaxed) + thread_cpu().saturating_sub(self.poll_began.load(Ordering::Relaxed))
    }
}

pub(super) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads the CPU clock of this thread, in nanoseconds.
pub(super) fn thread_cpu() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1_000_000_000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}
