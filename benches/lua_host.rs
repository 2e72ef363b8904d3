//! Measurements of the script host: how soon a script runs, what a host call costs, many scripts at once, stopping.
//!
//! ```text
//! cargo bench --bench lua_host              all of it
//! cargo bench --bench lua_host -- ready     one part: ready, calls, orchestrators, hogs, stop, tests
//! ```
//!
//! CPU and memory are those of this process, read from `/proc`. Linux only.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark talks and fails aloud"
)]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use refrain::script::mock::{MockSetup, MockWorld};
use refrain::script::testing::{TestOptions, run_dir};
use refrain::script::{
    Answer, HostCall, HostError, ScriptEnd, ScriptJob, ScriptLimits, ScriptOutcome, ScriptPool, ScriptPort,
    ScriptSource, StopHandle,
};
use tokio::task::JoinSet;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let parts: [(&str, fn()); 6] = [
        ("ready", ready),
        ("calls", calls),
        ("orchestrators", orchestrators),
        ("hogs", hogs),
        ("stop", stop),
        ("tests", tests),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|arg| arg == name) {
            part();
        }
    }
}

/// A host whose sessions take real time, as a harness would.
struct Slow {
    world: MockWorld,
    session: Duration,
}

#[async_trait]
impl ScriptPort for Slow {
    async fn call(&self, call: HostCall) -> Result<Answer, HostError> {
        if matches!(call, HostCall::Session(_)) {
            tokio::time::sleep(self.session).await;
        }
        self.world.call(call).await
    }
}

fn world() -> MockWorld {
    MockWorld::new(MockSetup::default())
}

fn runner(text: &str) -> ScriptSource {
    ScriptSource::from_text("runner.lua", text)
}

/// Runs a script in the mock world, on this thread.
fn play(source: &ScriptSource) -> ScriptOutcome {
    let world = world();
    let limits = ScriptLimits::default().with_cpu(Duration::from_secs(60), Duration::from_secs(600));
    let outcome = world.play(source, world.inputs("Fix it."), limits);
    assert!(matches!(outcome.end, ScriptEnd::Returned { .. }), "{outcome:?}");
    outcome
}

fn job(source: &ScriptSource, session: Duration, stop: &StopHandle) -> ScriptJob {
    let world = world();
    ScriptJob {
        // Shared by all runs of a script, as the engine does.
        source: source.clone(),
        inputs: world.inputs("Fix it."),
        port: Arc::new(Slow { world, session }),
        limits: ScriptLimits::default(),
        stop: stop.clone(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// User and system time of this process.
fn cpu() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").expect("linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    // Fields 14 and 15 of proc(5), of which the first two were split off; in ticks of 10 ms.
    Duration::from_millis(fields[11..13].iter().map(|field| field.parse::<u64>().expect("a number") * 10).sum())
}

/// Forgets the peak so far.
fn reset_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("linux");
}

fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("linux");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}

fn micros(value: Duration) -> f64 {
    value.as_secs_f64() * 1e6
}

/// From nothing to a script that has returned, with and without standard modules.
fn ready() {
    let modules = "local checks, parallel, text, json, loop =
        require('@std/checks'), require('@std/parallel'), require('@std/text'), require('@std/json'), require('@std/loop')
        return { ok = checks ~= nil and parallel ~= nil and text ~= nil and json ~= nil and loop ~= nil }";
    for (what, text) in [("an empty script", "return {}"), ("five standard modules", modules)] {
        let source = runner(text);
        let mut memory = 0;
        let mut once = || {
            let start = Instant::now();
            memory = play(&source).memory;
            start.elapsed()
        };
        let walls = (0..1000).map(|_| once()).collect();
        println!(
            "ready: {what}, built, run and dropped, median of 1,000: {:.0} µs (target: under 200 µs), {} KB a VM",
            micros(median(walls)),
            memory / 1024
        );
    }
}

/// What one call costs, beyond an empty script: one that only the host can answer, and a session.
fn calls() {
    let host = |body: &str| {
        let text =
            format!("local clock = require('@std/clock')\nfor i = 1, 900 do {body} end\nreturn {{ clock ~= nil }}");
        let source = runner(&text);
        let walls = (0..51).map(|_| {
            let start = Instant::now();
            play(&source);
            start.elapsed()
        });
        median(walls.collect())
    };
    let base = host("");
    for (what, target) in [("clock.now()", "target: under 2 µs"), ("session('x')", "with its record")] {
        let each = host(what).saturating_sub(base) / 900;
        println!("calls: {what} in the mock world, median of 51 × 900: {:.2} µs ({target})", micros(each));
    }
}

/// A thousand orchestrators that mostly wait.
fn orchestrators() {
    let source = runner("for i = 1, 20 do session('step ' .. i) end return { done = true }");
    let mut runs = Vec::new();
    for _ in 0..3 {
        reset_peak();
        let (start, before) = (Instant::now(), cpu());
        runtime().block_on(async {
            let pool = ScriptPool::new(1000);
            let mut running = JoinSet::new();
            for _ in 0..1000 {
                let (pool, job) = (pool.clone(), job(&source, Duration::from_millis(50), &StopHandle::new()));
                running.spawn(async move { pool.run(job).await });
            }
            for outcome in running.join_all().await {
                assert!(matches!(outcome.end, ScriptEnd::Returned { .. }), "{outcome:?}");
            }
        });
        runs.push((start.elapsed(), cpu().saturating_sub(before), peak_mib()));
    }
    println!(
        "orchestrators: 1,000 at once, 20 sessions of 50 ms each, median of 3: wall {:.2} s (target: 2 s), CPU {:.2} s, \
         peak of each round {:?} MB (target: 400 MB)",
        median(runs.iter().map(|run| run.0).collect()).as_secs_f64(),
        median(runs.iter().map(|run| run.1).collect()).as_secs_f64(),
        runs.iter().map(|run| run.2).collect::<Vec<_>>(),
    );
}

/// The slowest of 190 normal scripts, alone and beside four that never stop computing.
fn hogs() {
    let source = runner("for i = 1, 20 do session('step ' .. i) end return { done = true }");
    let slowest = |hogs: usize| {
        runtime().block_on(async {
            let (pool, enough) = (ScriptPool::default(), StopHandle::new());
            let mut hogging = JoinSet::new();
            for _ in 0..hogs {
                let (pool, mut job) = (pool.clone(), job(&runner("while true do end"), Duration::ZERO, &enough));
                job.limits = job.limits.with_cpu(Duration::from_secs(600), Duration::from_secs(600));
                hogging.spawn(async move { pool.run(job).await });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut normal = JoinSet::new();
            for _ in 0..190 {
                let (pool, job) = (pool.clone(), job(&source, Duration::from_millis(50), &StopHandle::new()));
                normal.spawn(async move {
                    let start = Instant::now();
                    let outcome = pool.run(job).await;
                    assert!(matches!(outcome.end, ScriptEnd::Returned { .. }), "{outcome:?}");
                    start.elapsed()
                });
            }
            let slowest = normal.join_all().await.into_iter().max().unwrap_or_default();
            enough.stop("enough");
            for outcome in hogging.join_all().await {
                assert!(!outcome.abandoned, "a hog had to be left behind");
            }
            slowest
        })
    };
    let alone = median((0..3).map(|_| slowest(0)).collect());
    let beside = median((0..3).map(|_| slowest(4)).collect());
    println!(
        "hogs: the slowest of 190 scripts (1 s of waiting each), median of 3: {:.2} s alone, {:.2} s beside 4 hogs: {:.2}× \
         (target: 1.5×), none unfinished",
        alone.as_secs_f64(),
        beside.as_secs_f64(),
        beside.as_secs_f64() / alone.as_secs_f64(),
    );
}

/// From a stop to the outcome, for scripts that resist in different ways.
fn stop() {
    let scripts = [
        ("a bare loop", "while true do end"),
        ("one that catches everything", "while true do pcall(function() while true do end end) end"),
        ("a long pattern", "local s = string.rep('a', 100000) while true do string.find(s, '.-b') end"),
        ("a growing table", "local t = {} while true do t = { table.unpack({ t, 1, 2 }) } end"),
        ("one that waits", "while true do session('x') end"),
    ];
    for (what, text) in scripts {
        let latency = |_| {
            runtime().block_on(async {
                let (pool, handle) = (ScriptPool::default(), StopHandle::new());
                let mut job = job(&runner(text), Duration::from_secs(60), &handle);
                job.limits = job.limits.with_cpu(Duration::from_secs(600), Duration::from_secs(600));
                let running = tokio::spawn(async move { pool.run(job).await });
                tokio::time::sleep(Duration::from_millis(50)).await;
                let start = Instant::now();
                handle.stop("deadline");
                let outcome = running.await.expect("no panic");
                assert!(!outcome.abandoned, "{what} had to be left behind");
                start.elapsed()
            })
        };
        let latencies: Vec<Duration> = (0..11).map(latency).collect();
        let slowest = latencies.iter().max().copied().unwrap_or_default();
        println!(
            "stop: {what}, median of 11: {:.2} ms, slowest {:.2} ms (target: 100 ms)",
            micros(median(latencies)) / 1e3,
            micros(slowest) / 1e3
        );
    }
}

/// A thousand strategy tests of a loop with sessions, checks and a budget, fifty in each of twenty files.
fn tests() {
    let dir = tempfile::tempdir().expect("a folder");
    let refine = Path::new(env!("CARGO_MANIFEST_DIR")).join("orchestrators/refine");
    for name in ["orchestrator.toml", "runner.lua"] {
        fs::copy(refine.join(name), dir.path().join(name)).expect("copied");
    }
    let mut text = "local t = require('@std/test')\n".to_owned();
    for number in 0..50 {
        text.push_str(&format!(
            "t.test('number {number}', function()
               local run = t.run({{
                 prompt = 'Fix it', params = {{ max_rounds = 3 }}, deadline = 600,
                 sessions = function() return {{ text = 'tried', duration = 10 }} end,
                 checks = {{ ok = false, output = 'broken' }},
               }})
               t.equal(#run.sessions, 3)
             end)\n"
        ));
    }
    for number in 0..20 {
        fs::write(dir.path().join(format!("n{number}_test.lua")), &text).expect("written");
    }
    let mut walls = Vec::new();
    for _ in 0..3 {
        let start = Instant::now();
        let report = run_dir(dir.path(), &TestOptions::default()).expect("runs");
        walls.push(start.elapsed());
        let first = report.files.first().map(|file| (&file.error, file.results.first()));
        assert_eq!((report.passed(), report.failed()), (1000, 0), "{first:?}");
    }
    let wall = median(walls).as_secs_f64();
    println!(
        "tests: 1,000 strategy tests, median of 3: {wall:.2} s (target: under 2 s), {wall:.2} ms each (target: 2 ms)"
    );
}
