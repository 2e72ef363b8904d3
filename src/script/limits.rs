//! What one running script may use.

use std::time::Duration;

/// Limits of one running script. A limit that is reached is the script's failure, never the agent's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScriptLimits {
    /// Bytes the VM may hold beyond what it needs to start (64 MB).
    pub memory: usize,
    /// CPU time between two host calls (5 s). Waiting for a session costs none.
    pub cpu_between_calls: Duration,
    /// CPU time in all (60 s).
    pub cpu_total: Duration,
    /// Bytes of a script file (256 KB).
    pub file_bytes: usize,
    /// Bytes of a prompt (2 MB).
    pub prompt_bytes: usize,
    /// Bytes of all log lines together (1 MB); what comes after is dropped with one notice.
    pub log_bytes: usize,
    /// Bytes of one log line (16 KB); what comes after is cut off.
    pub log_line_bytes: usize,
    /// Nesting of a value that crosses the border (32).
    pub value_depth: usize,
    /// Bytes of a value that crosses the border, counted roughly (4 MB).
    pub value_bytes: usize,
    /// Sessions of one script (1,000).
    pub sessions: u32,
    /// Branches of one `parallel.map` (1,000).
    pub branches: usize,
}

impl ScriptLimits {
    /// Sets the bytes that the VM may hold.
    #[must_use]
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.memory = bytes;
        self
    }

    /// Sets the CPU time between two host calls, and in all.
    #[must_use]
    pub fn with_cpu(mut self, between_calls: Duration, total: Duration) -> Self {
        self.cpu_between_calls = between_calls;
        self.cpu_total = total;
        self
    }

    /// Sets the number of sessions that one script may hold.
    #[must_use]
    pub fn with_sessions(mut self, sessions: u32) -> Self {
        self.sessions = sessions;
        self
    }
}

impl Default for ScriptLimits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            cpu_between_calls: Duration::from_secs(5),
            cpu_total: Duration::from_secs(60),
            file_bytes: 256 << 10,
            prompt_bytes: 2 << 20,
            log_bytes: 1 << 20,
            log_line_bytes: 16 << 10,
            value_depth: 32,
            value_bytes: 4 << 20,
            sessions: 1_000,
            branches: 1_000,
        }
    }
}
