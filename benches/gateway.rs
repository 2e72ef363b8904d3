//! Measurements of the gateway as a process of its own, between a client and a scripted provider in this one.
//!
//! ```text
//! cargo bench --bench gateway                 all of it, without the peer
//! cargo bench --bench gateway -- latency      one part: latency, load, streams, volume, peer
//! benches/gateway_peer.sh                     the same beside LiteLLM's proxy
//! ```
//!
//! Its books are a recorder that keeps nothing, so that what is measured is the path of a request; "with a store" they are the
//! database of a run, below `TMPDIR`. CPU times and memory are those of the gateway's process alone, from `/proc`. Linux only.

#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    reason = "a benchmark talks and fails aloud"
)]

#[path = "gateway/client.rs"]
mod client;
#[path = "gateway/process.rs"]
mod process;
#[path = "gateway/upstream.rs"]
mod upstream;

use std::time::{Duration, Instant};

use client::{Target, ask};
use process::Server;
use tokio::task::JoinSet;

/// Requests of which a median is taken.
const SAMPLES: usize = 1_000;
/// Connections of the load.
const CONNECTIONS: usize = 16;
/// Streams that are open at once.
const STREAMS: usize = 2_000;
/// How long each load lasts.
const LOAD: Duration = Duration::from_secs(5);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    process::allow_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", url] => return runtime.block_on(process::serve(url)),
        ["serve", url, db] => return runtime.block_on(process::serve_with_store(url, db)),
        _ => {}
    }
    let asked = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = arguments.is_empty();
    runtime.block_on(async {
        let provider = upstream::Upstream::start().await;
        let direct = Target { address: provider.address, path: String::new(), token: "none".to_owned() };
        let gateway = Server::gateway(&provider);
        if all || asked("latency") {
            let folder = process::Folder::new();
            let stored = Server::gateway_with_store(&provider, &folder);
            latency(&direct, &[("gateway", &gateway), ("gateway with a store", &stored)]).await;
        }
        if all || asked("load") {
            load("gateway", &gateway, LOAD).await;
            let folder = process::Folder::new();
            load("gateway with a store", &Server::gateway_with_store(&provider, &folder), LOAD).await;
        }
        if all || asked("streams") {
            streams(&provider).await;
        }
        if all || asked("volume") {
            volume(&direct, &gateway).await;
        }
        if asked("peer") {
            let program = std::env::var("REFRAIN_BENCH_PEER").expect("benches/gateway_peer.sh sets REFRAIN_BENCH_PEER");
            let peer = Server::peer(&program, &provider).await;
            latency(&direct, &[("gateway", &gateway), ("peer", &peer)]).await;
            let ours = load("gateway", &gateway, LOAD).await;
            let theirs = load("peer", &peer, LOAD * 2).await;
            println!(
                "gateway against peer: {:.0}x the requests a second, 1/{:.0} of the CPU for each (target: 10x)",
                ours.0 / theirs.0,
                theirs.1 / ours.1
            );
        }
    });
}

/// Time to the first byte of a streamed answer, one request after the other, the targets in turns.
async fn latency(direct: &Target, servers: &[(&str, &Server)]) {
    let mut targets = vec![("direct", direct)];
    targets.extend(servers.iter().map(|(name, server)| (*name, &server.target)));
    let mut connections = Vec::new();
    for (_, target) in &targets {
        connections.push(target.connect().await);
    }
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); targets.len()];
    for round in 0..SAMPLES + 50 {
        for (at, (_, target)) in targets.iter().enumerate() {
            let answer = ask(&mut connections[at], target, "model-1", true).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            // The first ones warm up.
            if round >= 50 {
                times[at].push(answer.first_byte);
            }
        }
    }
    let medians: Vec<Duration> = times.iter_mut().map(|times| median(times)).collect();
    for ((name, _), median) in targets.iter().zip(&medians) {
        let added = median.saturating_sub(medians[0]);
        println!(
            "latency, {name}: first byte after {median:.2?} (median of {SAMPLES}), {added:.2?} added (target: 0.5 ms)"
        );
    }
}

/// Whole answers over some connections: requests a second, and microseconds of CPU for each.
async fn load(name: &str, server: &Server, lasts: Duration) -> (f64, f64) {
    let cpu = server.cpu();
    let start = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let target = server.target.clone();
        clients.spawn(async move {
            let mut connection = target.connect().await;
            let mut count = 0_u64;
            while start.elapsed() < lasts {
                let answer = ask(&mut connection, &target, "model-1", false).await;
                assert_eq!(answer.status, 200, "{}", answer.text());
                count += 1;
            }
            count
        });
    }
    let count: u64 = clients.join_all().await.into_iter().sum();
    let a_second = count as f64 / start.elapsed().as_secs_f64();
    let each = server.cpu().saturating_sub(cpu).as_secs_f64() * 1e6 / count as f64;
    println!("load, {name}: {a_second:.0} requests/s over {CONNECTIONS} connections, {each:.0} µs CPU for each");
    (a_second, each)
}

/// Memory of a fresh gateway with many streams open, each of which has begun.
async fn streams(provider: &upstream::Upstream) {
    let server = Server::gateway(provider);
    let before = server.memory("VmRSS");
    let mut clients = JoinSet::new();
    for _ in 0..STREAMS {
        let target = server.target.clone();
        clients.spawn(async move {
            let mut connection = target.connect().await;
            client::begin(&mut connection, &target, "model-hold").await;
            connection
        });
    }
    let open = clients.join_all().await;
    let (held, peak) = (server.memory("VmRSS"), server.memory("VmHWM"));
    assert_eq!(open.len(), STREAMS);
    println!("streams: {STREAMS} open at once, {held} MB ({before} MB before), peak {peak} MB (target: 200 MB)");
}

/// A gigabyte in one stream of events.
async fn volume(direct: &Target, gateway: &Server) {
    let hiding = "gateway, which hides the usage";
    for (name, target, model) in [
        ("direct", direct, "model-large-told"),
        ("gateway", &gateway.target, "model-large-told"),
        (hiding, &gateway.target, "model-large"),
    ] {
        let mut rates = Vec::new();
        let cpu = gateway.cpu();
        for _ in 0..3 {
            let start = Instant::now();
            let mut connection = target.connect().await;
            let length = client::drain(&mut connection, target, model).await;
            assert!(length >= 1 << 30, "{length} bytes");
            rates.push(length as f64 / 1e6 / start.elapsed().as_secs_f64());
        }
        rates.sort_by(f64::total_cmp);
        let each = gateway.cpu().saturating_sub(cpu).as_secs_f64() / 3.0;
        println!(
            "volume, {name}: 1 GiB at {:.0} MB/s (median of 3), {each:.2} s CPU of the gateway (target: 500 MB/s)",
            rates[1]
        );
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
