//! Reading an agent's stream: bytes to lines to events, by the rules of the built-in `claude-code`.
//!
//! ```text
//! cargo bench --bench harness_lines
//! ```
//!
//! The stream is made here, in the proportions of recorded sessions: mostly tool results (files and listings, which JSON
//! escapes), some of the agent's words, tool calls, notices, and a result at the end of each prompt.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a benchmark talks and fails aloud")]

use std::time::Duration;

use refrain::config::harness_manifest::{HarnessManifest, OutputSpec};
use refrain::harness::OutputReader;
use refrain::harness::json_lines::JsonLinesReader;
use refrain::harness::lines::LineSplitter;
use refrain::runtime::Stream;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// As a runtime hands output on.
const CHUNK: usize = 64 * 1024;

fn main() {
    let turn = turn();
    let streams = [("small", 8), ("large", 256)].map(|(name, megabytes)| {
        let turns = (megabytes << 20) / turn.len();
        (name, turns, measured(&turn, turns))
    });
    for (name, turns, (rate, _)) in &streams {
        println!("{name} stream, {} MB: {rate:.0} MB/s on one core (target 200)", turns * turn.len() / 1_000_000);
    }
    let [small, large] = streams.map(|(.., (_, memory))| memory);
    println!("peak memory grew by {} kB from the small to the large stream", large.saturating_sub(small));
}

/// Reads so many turns; returns the best rate of three, in MB for each second of CPU, and the peak memory of the process in kB.
fn measured(turn: &[u8], turns: usize) -> (f64, u64) {
    let OutputSpec::JsonLines(spec) = manifest().output else { unreachable!("it prints JSON lines") };
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let mut reader = Box::new(JsonLinesReader::new(&spec));
        let (mut lines, mut events, mut seen) = (LineSplitter::default(), Vec::new(), 0);
        let start = cpu();
        for _ in 0..turns {
            for chunk in turn.chunks(CHUNK) {
                lines.push(chunk, &mut |line| reader.line(Stream::Stdout, line, &mut events));
                seen += events.len();
                events.clear();
            }
        }
        let reading = reader.finish(Some(0));
        best = best.min(cpu().saturating_sub(start));
        assert!(seen > turns && reading.usage.output == Some(244 * turns as u64), "the numbers are right");
    }
    #[expect(clippy::cast_precision_loss, reason = "for people")]
    let bytes = (turns * turn.len()) as f64;
    (bytes / 1e6 / best.as_secs_f64(), peak_memory())
}

fn manifest() -> HarnessManifest {
    let all = HarnessManifest::builtins().expect("right").into_iter();
    all.into_iter().find(|manifest| manifest.name == "claude-code").expect("built in")
}

/// CPU time of the process: other work on the machine does not count.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).expect("positive"), u32::try_from(time.tv_nsec).expect("below a second"))
}

fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// One prompt of a session: thirty calls with results of 200 bytes to 30 kB.
fn turn() -> Vec<u8> {
    let source = include_str!("../src/harness/session.rs");
    let mut lines = vec![json!({"type": "system", "subtype": "init", "session_id": "s-1", "tools": vec!["Bash"; 60]})];
    for call in 0..30_usize {
        let id = format!("toolu_{call:06}");
        let path = format!("/work/src/part_{call}.rs");
        lines.push(assistant(call, json!({"type": "text", "text": format!("I look at part {call} now.")})));
        let input = json!({"file_path": path, "limit": 2000, "command": "sed -n 1,400p"});
        lines.push(assistant(call, json!({"type": "tool_use", "id": id, "name": "Read", "input": input})));
        let output = &source[..200 + (call * call * 33).min(source.len() - 200)];
        lines.push(json!({
            "type": "user",
            "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": output}]},
            "session_id": "s-1", "tool_use_result": {"file": {"filePath": path, "content": output, "numLines": 400}},
        }));
    }
    let usage = json!({"inputTokens": 1114, "outputTokens": 244, "cacheReadInputTokens": 9130,
        "cacheCreationInputTokens": 2045, "costUSD": 0.017});
    lines.push(json!({"is_error": false, "num_turns": 31, "result": "Done.", "subtype": "success",
        "model_usage_since_last_result": {"claude-sonnet-4-5": usage}, "type": "result"}));
    let texts = lines.iter().map(|line| format!("{line}\n"));
    texts.collect::<String>().into_bytes()
}

fn assistant(call: usize, block: Value) -> Value {
    json!({
        "type": "assistant",
        "message": {"id": format!("msg_{call:06}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
            "content": [block], "usage": {"input_tokens": 4, "output_tokens": 1, "cache_read_input_tokens": 9000}},
        "parent_tool_use_id": null, "session_id": "s-1", "uuid": "00000000-0000-4000-8000-000000000000",
    })
}
