//! Who runs an attempt: a process, told apart from a later one that got the same number.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A process on a host. Two processes never have the same value: a reused pid has another start time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Its process id.
    pub pid: u32,
    /// When it started, in clock ticks since the host booted; 0 where that cannot be found out.
    pub started: u64,
    /// The boot of the host.
    pub boot_id: String,
    /// The host.
    pub host_id: String,
}

impl Owner {
    /// Describes this process.
    #[must_use]
    pub fn current() -> Self {
        let pid = std::process::id();
        Self { pid, started: start_ticks(pid).unwrap_or(0), boot_id: boot_id(), host_id: host_id() }
    }

    /// Tells whether the process is one of this machine: whether it lives can be seen from here.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.host_id == host_id()
    }

    /// Tells whether the process is taken to live: one of this machine if it does, any other if it is among `believed`,
    /// the owners whose leases hold ([`super::Store::believed_hosts`]).
    #[must_use]
    pub fn is_vouched_for(&self, believed: &[Self]) -> bool {
        if self.is_local() { self.is_alive() } else { believed.contains(self) }
    }

    /// Tells whether the process lives. What runs on another host cannot be seen from here and counts as alive.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        if !self.is_local() {
            return true;
        }
        if self.started == 0 {
            // A system without /proc: its number is all there is.
            return i32::try_from(self.pid)
                .ok()
                .and_then(rustix::process::Pid::from_raw)
                .is_some_and(|pid| rustix::process::test_kill_process(pid).is_ok());
        }
        self.boot_id == boot_id() && start_ticks(self.pid).is_some_and(|ticks| ticks == self.started)
    }
}

fn read_line(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn boot_id() -> String {
    read_line("/proc/sys/kernel/random/boot_id")
}

fn host_id() -> String {
    let machine = read_line("/etc/machine-id");
    // Containers of one image share the machine id; their host names differ.
    format!("{machine}/{}", read_line("/proc/sys/kernel/hostname"))
}

/// Field 22 of `/proc/<pid>/stat`, counted from behind the program's name, which may hold spaces and parentheses.
/// `None` for a process that is gone or a zombie.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_others_with_its_number_do_not() {
        let me = Owner::current();
        assert!(me.is_alive());
        assert!(me.started > 0);
        assert!(!Owner { started: me.started + 1, ..me.clone() }.is_alive());
        assert!(!Owner { boot_id: "another boot".to_owned(), ..me.clone() }.is_alive());
        assert!(!Owner { pid: u32::MAX, ..me.clone() }.is_alive());
        assert!(Owner { host_id: "another host".to_owned(), ..me }.is_alive());
    }

    #[test]
    fn a_process_that_ended_is_dead() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("spawned");
        let owner = Owner { pid: child.id(), started: start_ticks(child.id()).expect("lives"), ..Owner::current() };
        assert!(owner.is_alive());
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(!owner.is_alive());
    }
}
