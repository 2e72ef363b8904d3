//! Commands, their limits, and how they ended.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::domain::failure::Timer;

/// What a command reads from its standard input.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`: a harness that finds an open pipe may wait for ever.
    #[default]
    Null,
    /// These bytes, then end of file.
    Bytes(Vec<u8>),
}

impl fmt::Debug for Stdin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
        }
    }
}

/// A command to run in an environment. Its debugging form leaves out what may hold a key: the values of variables, and
/// what it reads.
#[derive(Clone, Default)]
pub struct Command {
    /// Program and arguments, passed on as they are: no shell takes part.
    pub argv: Vec<String>,
    /// Variables besides the environment's own.
    pub env: Vec<(String, String)>,
    /// Working directory inside the environment; the workspace where `None`.
    pub cwd: Option<PathBuf>,
    /// Standard input.
    pub stdin: Stdin,
    /// What stops it.
    pub limits: Limits,
}

impl Command {
    /// Makes a command without limits from its words.
    #[must_use]
    pub fn new<I: IntoIterator<Item = S>, S: Into<String>>(argv: I) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Makes a command that `sh` reads.
    #[must_use]
    pub fn shell(script: impl Into<String>) -> Self {
        Self::new(["sh".to_owned(), "-c".to_owned(), script.into()])
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Command")
            .field("argv", &self.argv)
            .field("env", &names)
            .field("cwd", &self.cwd)
            .field("stdin", &self.stdin)
            .field("limits", &self.limits)
            .finish()
    }
}

/// What stops a command, besides its own end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock limit, with the timer that set it, so that the ending can name it.
    pub timeout: Option<(Timer, Duration)>,
    /// The longest time without output and without CPU use.
    pub idle: Option<Duration>,
    /// The most bytes that both streams together may write.
    pub output_bytes: Option<u64>,
    /// Time between the polite signal and the deadly one; the default is [`Limits::GRACE`].
    pub grace: Option<Duration>,
}

impl Limits {
    /// The default time between TERM and KILL.
    pub const GRACE: Duration = Duration::from_secs(2);
}

/// Which of a command's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it came from.
    pub stream: Stream,
    /// The bytes; cut anywhere.
    pub bytes: Vec<u8>,
}

/// Where a command's output goes.
#[derive(Debug)]
pub enum Output {
    /// Kept in memory: at most `limit` bytes a stream, the first quarter from the beginning, the rest from the end.
    Capture {
        /// Bytes a stream.
        limit: usize,
    },
    /// Written whole to files on the host, which are the authority; also sent live where somebody listens. A full
    /// channel drops live chunks, never file content.
    Spool {
        /// Standard output.
        stdout: PathBuf,
        /// Standard error.
        stderr: PathBuf,
        /// The listener.
        live: Option<mpsc::Sender<Chunk>>,
    },
}

impl Output {
    /// Capture with room for ordinary command output (256 KiB a stream).
    #[must_use]
    pub fn capture() -> Self {
        Self::Capture { limit: 256 * 1024 }
    }
}

/// What was kept of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The bytes kept; for spooled output the last 64 KiB.
    pub bytes: Vec<u8>,
    /// Bytes that the command wrote.
    pub total: u64,
    /// Whether something was left out between.
    pub cut: bool,
}

/// How a command ended: the one cause, ours before the operating system's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEnd {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal that we did not send.
    Signaled(i32),
    /// By one of our timers.
    TimedOut {
        /// Which.
        timer: Timer,
        /// Its value.
        limit: Duration,
    },
    /// By our limit on output.
    OutputLimit {
        /// Its value in bytes.
        limit: u64,
    },
    /// By the `stop` token.
    Stopped,
}

/// A command's end and output.
#[derive(Debug, Clone)]
pub struct ExecReport {
    /// How it ended.
    pub end: ExecEnd,
    /// Exit code the leader left, also where we stopped it; unknown after a signal.
    pub exit_code: Option<i32>,
    /// Signal that ended the leader.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// How long it ran, by the monotonic clock.
    pub duration: Duration,
    /// The longest time without output.
    pub longest_silence: Duration,
    /// Processes that outlived the leader and were killed.
    pub leftovers: usize,
    /// Whether processes of the environment were killed for want of memory meanwhile, and whose want it was.
    pub out_of_memory: Option<OutOfMemory>,
    /// What a reader should know of the output: cut, taken from elsewhere, changed by the command itself.
    pub notes: Vec<String>,
}

/// Why the operating system killed processes for want of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutOfMemory {
    /// They met the environment's own limit, of this many bytes.
    Limit(u64),
    /// The machine had no more.
    Machine,
}

impl ExecReport {
    /// Tells whether the command ended by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.end == ExecEnd::Exited(0)
    }

    /// The report of a command that was stopped before it began.
    pub(crate) fn never_started() -> Self {
        Self {
            end: ExecEnd::Stopped,
            exit_code: None,
            signal: None,
            stdout: Captured::default(),
            stderr: Captured::default(),
            duration: Duration::ZERO,
            longest_silence: Duration::ZERO,
            leftovers: 0,
            out_of_memory: None,
            notes: Vec::new(),
        }
    }
}
