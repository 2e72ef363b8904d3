//! Host processes, told apart from others that have had the same number: so that a later host can tell a dead one's
//! leftovers from a living one's work.

use std::fs;

use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::local::processes;

/// A host process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostProcess {
    pid: i32,
    /// Ticks from boot to the host's start; 0 where there is no process table.
    started: u64,
    boot: String,
    /// The machine and the pid namespace that `pid` counts in.
    machine: String,
    namespace: String,
}

/// What is known of a host process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It runs.
    Alive,
    /// It is gone, its processes may be there.
    Dead,
    /// It is gone with all its processes: the machine was started anew.
    BeforeBoot,
    /// It counts its processes elsewhere: on another machine that shares the disk, or in another container.
    Unknown,
}

impl HostProcess {
    /// Describes this process.
    pub(crate) fn current() -> Self {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Self {
            pid,
            started: processes::read(pid).map_or(0, |process| process.started),
            boot: processes::boot_id(),
            machine: fs::read_to_string("/etc/machine-id").unwrap_or_default().trim().to_owned(),
            namespace: fs::read_link("/proc/self/ns/pid")
                .map(|link| link.to_string_lossy().into_owned())
                .unwrap_or_default(),
        }
    }

    /// Finds out whether it lives.
    pub(crate) fn life(&self) -> Life {
        let here = Self::current();
        if self.machine != here.machine {
            return Life::Unknown;
        }
        if self.boot != here.boot {
            return Life::BeforeBoot;
        }
        if self.namespace != here.namespace {
            return Life::Unknown;
        }
        let alive = match processes::read(self.pid) {
            Some(process) => process.alive && process.started == self.started,
            // No such process, or no process table at all.
            None => here.started == 0 && Pid::from_raw(self.pid).is_some_and(|pid| test_kill_process(pid).is_ok()),
        };
        if alive { Life::Alive } else { Life::Dead }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_number_is_not_the_owner() {
        let own = HostProcess::current;
        assert_eq!(own().life(), Life::Alive);
        assert_eq!(HostProcess { started: own().started + 1, ..own() }.life(), Life::Dead);
        assert_eq!(HostProcess { boot: "another".to_owned(), ..own() }.life(), Life::BeforeBoot);
        assert_eq!(HostProcess { machine: "another".to_owned(), ..own() }.life(), Life::Unknown);
        assert_eq!(HostProcess { namespace: "another".to_owned(), ..own() }.life(), Life::Unknown);
    }
}
