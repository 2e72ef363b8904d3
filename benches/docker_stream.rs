//! How fast a session's output comes out of a container, and what it costs.
//!
//! ```text
//! cargo bench --bench docker_stream                   100 MB from busybox
//! cargo bench --bench docker_stream -- IMAGE          from another image
//! ```
//!
//! The output goes into a file on the host while somebody listens to it, as in a session. Peak memory is this process's
//! own (`VmHWM`), and so is the CPU time. The image must be there; `scripts/test-images.sh` makes the default one.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark talks and fails aloud"
)]

use std::sync::Arc;
use std::time::Instant;

use refrain::clock::SystemClock;
use refrain::domain::cell::CellId;
use refrain::domain::{AttemptId, ContainerOptions, RunName};
use refrain::runtime::docker::{DockerEndpoint, DockerRuntime};
use refrain::runtime::{Command, Environment, EnvironmentSpec, ExecEnd, Output, Runtime};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

const BYTES: u64 = 100_000_000;

#[tokio::main]
async fn main() {
    let image = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let endpoint = DockerEndpoint::from_variables(|name| std::env::var(name).ok());
    let runtime = DockerRuntime::new(Arc::new(SystemClock::new()), endpoint);
    let dir = tempfile::tempdir().expect("a folder");
    let spec = EnvironmentSpec {
        attempt: AttemptId {
            run: RunName::new("bench-stream").expect("a valid name"),
            cell: CellId::from_stored("harness__model__task__r1"),
            number: 1,
        },
        purpose: "agent",
        scratch: dir.path().join("environment"),
        env: Vec::new(),
        image: Some(image.unwrap_or_else(|| "refrain-test/busybox:1".to_owned())),
        container: ContainerOptions::default(),
        gateway: None,
    };
    let env = runtime.open(spec).await.expect("opens");
    let mut rates = Vec::new();
    for _ in 0..5 {
        rates.push(stream(&*env, dir.path()).await);
    }
    env.close().await.expect("closes");
    rates.sort_by(f64::total_cmp);
    println!(
        "stream: {} MB of output, median of {}: {:.0} MB/s (target: 100 MB/s), slowest {:.0}; CPU of the host {:.2} s each; \
         peak memory {} MB (target: under 50 MB)",
        BYTES / 1_000_000,
        rates.len(),
        rates[rates.len() / 2],
        rates[0],
        cpu_seconds() / 5.0,
        peak_mib()
    );
}

/// Runs one command to its end and returns its output in megabytes a second, start and end included.
async fn stream(env: &dyn Environment, dir: &std::path::Path) -> f64 {
    let (sender, mut listener) = mpsc::channel(16);
    let output = Output::Spool { stdout: dir.join("out"), stderr: dir.join("err"), live: Some(sender) };
    let command = Command::shell(format!("yes 0123456789abcdef0123456789abcdef | head -c {BYTES}"));
    let stop = CancellationToken::new();
    let start = Instant::now();
    let listening = async { while listener.recv().await.is_some() {} };
    let (report, ()) = tokio::join!(env.exec(&command, output, &stop), listening);
    let took = start.elapsed();
    let report = report.expect("runs");
    assert_eq!((report.end, report.stdout.total), (ExecEnd::Exited(0), BYTES));
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
    let megabytes = BYTES as f64 / 1e6;
    megabytes / took.as_secs_f64()
}

/// CPU time of this process so far, in the kernel's hundredths.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("a process table");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    [11, 12].iter().map(|&at| fields[at].parse::<f64>().expect("a number")).sum::<f64>() / 100.0
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a process table");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
}
