//! Whole-process measurements of the `refrain` program: start-up, no-op cells on the local runtime, resume.
//!
//! ```text
//! cargo bench --bench whole_process            all of it
//! cargo bench --bench whole_process -- help    one part: help, cells, resume, results, journal
//! ```
//!
//! CPU times are read from the process's own `stat` entry when it has ended, so that the host's share (`utime + stime`)
//! and that of the agents it waited for (`cutime + cstime`) stay apart. Linux only.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark talks and fails aloud"
)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What one run of the program took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wall: Duration,
    host_cpu: Duration,
    children_cpu: Duration,
    peak_kib: u64,
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|arg| arg == name);
    if asked("help") {
        help();
    }
    if asked("cells") {
        cells(1000);
    }
    if asked("resume") {
        resume(100_000);
    }
    if asked("results") {
        results(10_000);
    }
    if asked("journal") {
        journal();
    }
}

fn refrain(dir: &Path, args: &[&str]) -> Cost {
    let mut command = Command::new(env!("CARGO_BIN_EXE_refrain"));
    command.args(args).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    measure(command.spawn().expect("refrain starts"), start)
}

/// Waits for a process, and reads its times while it is a zombie: after `wait` they are gone.
fn measure(mut child: Child, start: Instant) -> Cost {
    let proc = format!("/proc/{}", child.id());
    let mut peak_kib = 0;
    let times = loop {
        let entry = fs::read_to_string(format!("{proc}/stat")).expect("the process is there");
        let fields: Vec<&str> = entry.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        if fields[0] == "Z" {
            // Fields 14 to 17 of proc(5), of which the first two were split off.
            break [11, 12, 13, 14].map(|i| fields[i].parse::<u64>().expect("a number"));
        }
        let status = fs::read_to_string(format!("{proc}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        if let Some(kib) = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse().ok()) {
            peak_kib = peak_kib.max(kib);
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    let wall = start.elapsed();
    let status = child.wait().expect("the process ended");
    assert!(status.success(), "refrain failed: {status}");
    let ticks = |n: u64| Duration::from_millis(n * 10);
    Cost { wall, host_cpu: ticks(times[0] + times[1]), children_cpu: ticks(times[2] + times[3]), peak_kib }
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

fn help() {
    let walls = (0..51).map(|_| refrain(Path::new("."), &["--help"]).wall).collect();
    println!("help: median wall {:.1} ms (target: under 10 ms)", median(walls).as_secs_f64() * 1e3);
}

/// The most repeats that a run may have.
const MAX_REPEATS: usize = 10_000;

/// A project with one task, the `command` harness printing a word, and a cell for each model and repeat.
fn project(dir: &Path, models: usize, repeats: usize) {
    fs::create_dir_all(dir.join("runs")).expect("a folder");
    fs::create_dir_all(dir.join("tasks/noop/repo")).expect("a folder");
    fs::write(dir.join("tasks/noop/repo/file.txt"), "content\n").expect("written");
    let task = "tasks:\n  - id: noop\n    name: Nothing\n    task_prompt: Do nothing.\n    expected_files: [file.txt]\n    \
                track: open_ended\n";
    fs::write(dir.join("tasks/noop/task.yaml"), task).expect("written");
    let models: Vec<String> =
        (0..models).map(|number| format!("  - name: scripted-{number}\n    provider: scripted\n")).collect();
    let models = models.concat();
    let run = format!(
        "name: bench\nharnesses:\n  - name: noop\n    adapter: command\n    config:\n      command: echo done\nmodels:\n{models}\
         tasks: [noop]\nrepeats: {repeats}\nparallel_runs: 8\nruntime: local\n"
    );
    fs::write(dir.join("runs/bench.yaml"), run).expect("written");
}

fn cells(count: usize) {
    let mut runs = Vec::new();
    for _ in 0..3 {
        let dir = tempfile::tempdir().expect("a folder");
        project(dir.path(), 1, count);
        runs.push(refrain(dir.path(), &["run", "runs/bench.yaml", "--progress", "none"]));
    }
    #[allow(clippy::cast_precision_loss, reason = "small counts")]
    let per = |value: Duration| value.as_secs_f64() * 1e3 / count as f64;
    println!(
        "cells: {count} no-op cells, 8 at a time, median of 3: wall {:.1} s, host CPU {:.2} ms a cell beyond the \
         children's {:.2} ms (target: under 5 ms), peak {} MB (target: under 100 MB)",
        median(runs.iter().map(|cost| cost.wall).collect()).as_secs_f64(),
        per(median(runs.iter().map(|cost| cost.host_cpu).collect())),
        per(median(runs.iter().map(|cost| cost.children_cpu).collect())),
        peak_mib(&runs),
    );
}

/// Makes a finished run, by running one cell of each model and copying its rows under the ids of all its repeats.
fn finished(count: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let models = count.div_ceil(MAX_REPEATS);
    project(dir.path(), models, 1);
    refrain(dir.path(), &["run", "runs/bench.yaml", "--progress", "none"]);
    project(dir.path(), models, count / models);
    multiply(&dir.path().join("refrain.db"), count / models);
    assert_eq!(rows(&dir.path().join("refrain.db"), "run_results"), count, "the copied run is not whole");
    dir
}

fn resume(count: usize) {
    let dir = finished(count);
    let runs: Vec<Cost> =
        (0..5).map(|_| refrain(dir.path(), &["run", "runs/bench.yaml", "--progress", "none"])).collect();
    let attempts = rows(&dir.path().join("refrain.db"), "attempts");
    assert_eq!(attempts, count, "nothing was left to do, yet cells were run");
    println!(
        "resume: finished run of {count} cells, median of 5: wall {:.2} s (target: under 1 s), CPU {:.2} s, peak {} MB \
         (target: under 200 MB)",
        median(runs.iter().map(|cost| cost.wall).collect()).as_secs_f64(),
        median(runs.iter().map(|cost| cost.host_cpu).collect()).as_secs_f64(),
        peak_mib(&runs),
    );
}

fn results(count: usize) {
    let dir = finished(count);
    let runs: Vec<Cost> = (0..11).map(|_| refrain(dir.path(), &["results", "bench", "--json"])).collect();
    println!(
        "results: {count} rows as JSON, median of 11: wall {:.2} s (target: 0.2 s), CPU {:.2} s, peak {} MB (target: \
         60 MB)",
        median(runs.iter().map(|cost| cost.wall).collect()).as_secs_f64(),
        median(runs.iter().map(|cost| cost.host_cpu).collect()).as_secs_f64(),
        peak_mib(&runs),
    );
}

/// A script that measures its own calls: a call that only observes, one that reads a file, one that changes a file (and
/// is on the disk twice, before it and before its answer). Its clock is the attempt's.
const CALLS: &str = r#"
local clock, workspace = require("@std/clock"), require("@std/workspace")
local function measured(count, call)
  local began = clock.now()
  for index = 1, count do call(index) end
  return string.format("%.2f", (clock.now() - began) / count * 1e6)
end
local now = measured(50000, function() clock.now() end)
local read = measured(2000, function() workspace.exists("file.txt") end)
local write = measured(200, function(index) workspace.write("note", tostring(index)) end)
return { note = now .. " " .. read .. " " .. write }
"#;

fn journal() {
    let mut notes = Vec::new();
    for _ in 0..5 {
        let dir = tempfile::tempdir().expect("a folder");
        project(dir.path(), 1, 1);
        fs::create_dir_all(dir.path().join("calls")).expect("a folder");
        fs::write(dir.path().join("calls/orchestrator.toml"), "slug = \"calls\"\napi = 1\n").expect("written");
        fs::write(dir.path().join("calls/runner.lua"), CALLS).expect("written");
        let run = fs::read_to_string(dir.path().join("runs/bench.yaml")).expect("read");
        let run = format!("{run}orchestrators: [{{dir: ../calls}}]\n");
        fs::write(dir.path().join("runs/bench.yaml"), run).expect("written");
        refrain(dir.path(), &["run", "runs/bench.yaml", "--progress", "none"]);
        let connection = rusqlite::Connection::open(dir.path().join("refrain.db")).expect("the store opens");
        let sql = "SELECT json_extract(record_json, '$.note') FROM attempts";
        let note: String = connection.query_row(sql, [], |row| row.get(0)).expect("a note");
        notes.push(note.split(' ').map(|figure| figure.parse().expect("a number")).collect::<Vec<f64>>());
        assert_eq!(rows(&dir.path().join("refrain.db"), "journal"), 52_206, "every call is in the journal");
    }
    let median = |at: usize| {
        let figures = notes.iter().map(|note: &Vec<f64>| Duration::from_secs_f64(note[at] / 1e6)).collect();
        median(figures).as_secs_f64() * 1e6
    };
    println!(
        "journal: a call, median of 5 scripts: clock.now {:.1} µs, workspace.exists {:.1} µs (target: under 50 µs \
         amortized), workspace.write with two commits {:.0} µs",
        median(0),
        median(1),
        median(2),
    );
}

fn peak_mib(runs: &[Cost]) -> u64 {
    runs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0) / 1024
}

fn rows(database: &Path, table: &str) -> usize {
    let connection = rusqlite::Connection::open(database).expect("the store opens");
    let count: u32 =
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).expect("counted");
    count as usize
}

/// Copies the rows of each first repeat, `…__r1`, in the order that foreign keys ask for. The ledger's sums follow by its
/// own triggers.
fn multiply(database: &Path, repeats: usize) {
    let mut connection = rusqlite::Connection::open(database).expect("the store opens");
    let tx = connection.transaction().expect("begins");
    for table in ["attempts", "run_state", "run_results", "sessions", "transitions", "ledger"] {
        let mut columns = tx.prepare(&format!("SELECT name FROM pragma_table_info('{table}')")).expect("valid");
        let names: Vec<String> =
            columns.query_map([], |row| row.get(0)).expect("valid").map(|name| name.expect("text")).collect();
        let values: Vec<String> = names
            .iter()
            .map(|name| match name.as_str() {
                "cell_id" => "replace(cell_id, '__r1', '__r' || n.i)".to_owned(),
                "id" => "NULL".to_owned(),
                name => format!("\"{name}\""),
            })
            .collect();
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {repeats}) \
             INSERT INTO {table} ({}) SELECT {} FROM {table}, n WHERE cell_id LIKE '%\\_\\_r1' ESCAPE '\\'",
            names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", "),
            values.join(", "),
        );
        tx.execute(&sql, []).expect("rows are copied");
    }
    tx.commit().expect("commits");
}
