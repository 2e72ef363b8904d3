//! The processes of one command, or of all commands of an environment, and how they are ended.
//!
//! A process belongs to a [`Tree`] if it is in the leader's group, carries the tree's marker in its environment, or
//! descends from one that does. So a daemon that left group and session is found by its marker, and a child that wiped
//! its environment by its parent. Only a process that does both, and whose parents are all gone, gets away: this is
//! bookkeeping, not isolation.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group, test_kill_process_group};

use super::processes::{self, Process};

/// Which processes to look for.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    /// Pid of the leader and number of its group; `None` for the tree of a whole environment.
    pub(super) leader: Option<i32>,
    /// `NAME=value` that every process of the tree was started with.
    pub(super) marker: String,
    /// The first pid that may belong to it.
    pub(super) first: i32,
    /// Ticks from boot before which nothing of it can have started.
    pub(super) since: u64,
    /// Whether pids are known to have been given out in order since `first`, so that older ones can be left unread.
    pub(super) recent: bool,
}

/// What ending a tree came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ended {
    /// How many processes were killed.
    pub(super) killed: usize,
    /// Pids of processes that would not go.
    pub(super) survivors: Vec<i32>,
}

/// Rounds of stop, kill and look again, with [`PAUSE`] between them; a process in an uninterruptible wait can outlast
/// them (about ten seconds), nothing else does.
const ROUNDS: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(5);
/// How often new processes are looked at before a machine on which something always starts is believed to be quiet.
const CHASES: u32 = 1_000;

impl Tree {
    /// Lists the living processes of the tree; `None` where there is no process table.
    ///
    /// Nobody is found only if nobody was started meanwhile: a process that forks and ends between the listing and the
    /// look at it is missed, but then its child has a number that was not given out before.
    pub(super) fn members(&self) -> Option<Vec<Process>> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let mut before = processes::last_pid();
        let last = before.filter(|&last| self.recent && last >= self.first);
        let mut found = self
            .pick(&processes::scan(|pid| pid != own && last.is_none_or(|last| (self.first..=last).contains(&pid)))?);
        for _ in 0..CHASES {
            let after = processes::last_pid();
            if !found.is_empty() || after == before {
                break;
            }
            found = match (before, after) {
                (Some(before), Some(after)) if after > before => {
                    self.pick(&(before + 1..=after).filter_map(processes::read).collect::<Vec<_>>())
                }
                _ => self.pick(&processes::scan(|pid| pid != own)?),
            };
            before = after;
        }
        Some(found)
    }

    fn pick(&self, table: &[Process]) -> Vec<Process> {
        let young: Vec<Process> = table.iter().copied().filter(|process| process.started >= self.since).collect();
        let in_group = |process: &&Process| self.leader.is_some_and(|leader| process.group == leader);
        let seeds = young.iter().filter(in_group).map(|process| process.pid).collect();
        let mut found = processes::with_descendants(&young, seeds);
        // Environments are read last, and only of those that nothing cheaper has told about.
        let marked: Vec<i32> = young
            .iter()
            .filter(|process| process.alive && !found.contains(&process.pid) && self.marks(process.pid))
            .map(|process| process.pid)
            .collect();
        if !marked.is_empty() {
            found.extend(marked);
            found = processes::with_descendants(&young, found);
        }
        young.into_iter().filter(|process| process.alive && found.contains(&process.pid)).collect()
    }

    fn marks(&self, pid: i32) -> bool {
        processes::environ(pid)
            .is_some_and(|block| block.split(|&byte| byte == 0).any(|entry| entry == self.marker.as_bytes()))
    }

    /// Sends a polite signal to every process of the tree.
    pub(super) fn terminate(&self) {
        match self.members() {
            Some(members) => signal_all(&members, Signal::TERM),
            None => self.signal_group(Signal::TERM),
        }
    }

    /// Kills the tree and returns when nothing of it is left, or when it must be given up. Blocks.
    pub(super) fn kill(&self) -> Ended {
        self.kill_in(ROUNDS)
    }

    /// Kills in at most `rounds` rounds.
    ///
    /// All are stopped before any is killed, round by round until no new one turns up: a process that forks faster
    /// than it is found would otherwise outrun its killer.
    pub(super) fn kill_in(&self, rounds: u32) -> Ended {
        let mut killed = HashSet::new();
        for round in 0..rounds {
            let Some(mut members) = self.members() else { return self.kill_group(rounds) };
            if members.is_empty() {
                return Ended { killed: killed.len(), survivors: Vec::new() };
            }
            let mut stopped = HashSet::new();
            while members.iter().filter(|process| stopped.insert((process.pid, process.started))).count() > 0 {
                signal_all(&members, Signal::STOP);
                members = self.members().unwrap_or_default();
            }
            for process in &members {
                killed.insert((process.pid, process.started));
                send(process.pid, Signal::KILL);
            }
            if round > 0 {
                pause();
            }
        }
        let survivors: Vec<i32> = self.members().unwrap_or_default().iter().map(|process| process.pid).collect();
        Ended { killed: killed.len().saturating_sub(survivors.len()), survivors }
    }

    /// Where there is no process table, the group is all there is.
    fn kill_group(&self, rounds: u32) -> Ended {
        let Some(leader) = self.leader.and_then(Pid::from_raw) else { return Ended::default() };
        if test_kill_process_group(leader).is_err() {
            return Ended::default();
        }
        for _ in 0..rounds {
            self.signal_group(Signal::KILL);
            pause();
            if test_kill_process_group(leader).is_err() {
                return Ended { killed: 1, survivors: Vec::new() };
            }
        }
        Ended { killed: 0, survivors: vec![leader.as_raw_nonzero().get()] }
    }

    fn signal_group(&self, signal: Signal) {
        if let Some(leader) = self.leader.and_then(Pid::from_raw) {
            // An empty group is what is wanted.
            let _ = kill_process_group(leader, signal);
        }
    }

    /// Sends the deadly signal to the leader's group at once. Only while the leader has not been waited for: later its
    /// number may belong to somebody else.
    pub(super) fn kill_unreaped_group(&self) {
        self.signal_group(Signal::KILL);
    }
}

fn signal_all(processes: &[Process], signal: Signal) {
    for process in processes {
        send(process.pid, signal);
    }
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended meanwhile; whoever asks looks again.
        let _ = kill_process(pid, signal);
    }
}

fn pause() {
    std::thread::sleep(PAUSE);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32, group: i32, started: u64) -> Process {
        Process { pid, parent, group, ticks: 0, started, alive: true }
    }

    #[test]
    fn group_and_descent_make_members_and_age_rules_out() {
        let tree = Tree { leader: Some(100), marker: "NONE=such".to_owned(), first: 100, since: 50, recent: false };
        let table = [
            process(100, 1, 100, 60),
            // Left the group, still a child.
            process(101, 100, 101, 61),
            // In the group, its parent is gone.
            process(102, 1, 100, 61),
            // Older than the command: a recycled number.
            process(103, 1, 100, 10),
            process(104, 1, 104, 70),
        ];
        let pids: Vec<i32> = tree.pick(&table).iter().map(|process| process.pid).collect();
        assert_eq!(pids, [100, 101, 102]);
    }

    #[test]
    fn a_dead_parent_still_leads_to_its_children() {
        let tree = Tree { leader: Some(100), marker: "NONE=such".to_owned(), first: 100, since: 0, recent: false };
        let zombie = Process { alive: false, ..process(100, 1, 100, 5) };
        let pids: Vec<i32> =
            tree.pick(&[zombie, process(101, 100, 101, 6)]).iter().map(|process| process.pid).collect();
        assert_eq!(pids, [101]);
    }
}
