//! The process table, read from `/proc`. Elsewhere than on Linux there is none, and [`scan`] says so with `None`.

use std::collections::HashSet;
use std::fs;
use std::io::Read;

/// What a line of the table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runtime) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    pub(super) group: i32,
    /// Clock ticks of CPU that it and its reaped children have used.
    pub(super) ticks: u64,
    /// Clock ticks from boot to its start: with the pid, its identity.
    pub(in crate::runtime) started: u64,
    /// Still there: neither a zombie nor being removed.
    pub(in crate::runtime) alive: bool,
}

/// Clock ticks a second in `/proc`; a constant of the interface on all architectures that matter here.
pub(in crate::runtime) const TICKS_PER_SECOND: u64 = 100;

/// Reads the processes whose pid `wanted` accepts; `None` where there is no process table.
///
/// The filter comes before the read, so that a narrow scan costs one directory listing.
pub(super) fn scan(wanted: impl Fn(i32) -> bool) -> Option<Vec<Process>> {
    let entries = fs::read_dir("/proc").ok()?;
    let mut found = Vec::new();
    let mut numbered = false;
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        numbered = true;
        if wanted(pid) {
            // A process that ends meanwhile is simply not there.
            found.extend(read(pid));
        }
    }
    numbered.then_some(found)
}

/// Reads one process.
pub(in crate::runtime) fn read(pid: i32) -> Option<Process> {
    let mut text = [0_u8; 1024];
    let length = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut text).ok()?;
    parse(pid, &text[..length])
}

fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    // The second field is the program's name in parentheses and may hold anything, parentheses too.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let signed = |at: usize| fields.get(at)?.parse::<i64>().ok();
    // utime, stime, cutime, cstime stand at 11..=14 after the name; the last two are signed in the kernel.
    let children = u64::try_from(signed(13)?.saturating_add(signed(14)?)).unwrap_or(0);
    Some(Process {
        pid,
        parent: i32::try_from(signed(1)?).ok()?,
        group: i32::try_from(signed(2)?).ok()?,
        ticks: number(11)?.saturating_add(number(12)?).saturating_add(children),
        started: number(19)?,
        alive: !matches!(*fields.first()?, "Z" | "X" | "x"),
    })
}

/// Returns the environment block of a process; `None` if it is gone or not ours to read.
pub(super) fn environ(pid: i32) -> Option<Vec<u8>> {
    fs::read(format!("/proc/{pid}/environ")).ok()
}

/// Returns the pid that was given out last, to narrow scans; `None` where the kernel does not tell.
pub(super) fn last_pid() -> Option<i32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(4)?.parse().ok().filter(|&pid| pid > 0)
}

/// Returns what tells this boot of the machine from others; empty where it is unknown.
pub(in crate::runtime) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Adds to `seeds` all their descendants within `table`.
pub(super) fn with_descendants(table: &[Process], mut seeds: HashSet<i32>) -> HashSet<i32> {
    loop {
        let before = seeds.len();
        for process in table {
            if seeds.contains(&process.parent) {
                seeds.insert(process.pid);
            }
        }
        if seeds.len() == before {
            return seeds;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_cannot_disturb_the_reading() {
        let line = b"42 (a) R 1 (b) S 7 8 9 0 -1 4194560 100 0 0 0 11 12 13 14 20 0 1 0 5000 0 0";
        let process = parse(42, line).expect("a line of the table");
        assert_eq!((process.parent, process.group, process.started), (7, 8, 5000));
        assert_eq!(process.ticks, 11 + 12 + 13 + 14);
        assert!(process.alive);
        let zombie = parse(42, b"42 (x) Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0").expect("a line");
        assert!(!zombie.alive);
        assert_eq!(parse(42, b"42 (x"), None);
        assert_eq!(parse(42, b""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_is_in_the_table() {
        let own = i32::try_from(std::process::id()).expect("fits");
        let table = scan(|pid| pid == own).expect("there is a table");
        assert_eq!(table.len(), 1);
        assert!(table[0].alive && table[0].started > 0);
        assert!(environ(own).is_some_and(|block| block.windows(5).any(|bytes| bytes == b"PATH=")));
        assert!(last_pid().is_some());
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let process = |pid, parent| Process { pid, parent, group: 1, ticks: 0, started: 1, alive: true };
        let table = [process(12, 11), process(11, 10), process(10, 1), process(99, 1)];
        let found = with_descendants(&table, HashSet::from([10]));
        assert_eq!(found, HashSet::from([10, 11, 12]));
    }
}
