//! The recordings of the real programs that `scripts/record_transcripts.py` made, and what the built-in harnesses read in
//! them.

#![allow(dead_code, reason = "each test program uses a part")]

use std::path::{Path, PathBuf};

use refrain::domain::Usage;
use refrain::domain::failure::{LimitKind, ProviderFault};
use refrain::harness::session::read_all;
use refrain::harness::session_file::SessionFile;
use refrain::harness::{Harness, Outcome, Reading};
use refrain::host::declared_harness;
use refrain::runtime::Stream;
use serde_json::Value;

use crate::harness_manifests;

/// Where a recording lies.
pub(crate) fn folder(harness: &str, case: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(harness).join(case)
}

/// Every recording, as harness and case.
pub(crate) fn recordings() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    let mut all = Vec::new();
    for harness in names(&root) {
        let cases = names(&root.join(&harness)).into_iter();
        all.extend(
            cases.filter(|case| folder(&harness, case).join("served").exists()).map(|case| (harness.clone(), case)),
        );
    }
    all.sort();
    all
}

/// Reads a recording as a session that has just ended.
pub(crate) fn read(harness: &str, case: &str) -> Reading {
    let folder = folder(harness, case);
    let entry = harness_manifests::entry(harness, Value::Null);
    let one_document = entry.manifest.session_file.as_ref().is_some_and(|spec| spec.one_document);
    let file = SessionFile { pattern: String::new(), one_document };
    let copy = folder.join("session");
    let reader = declared_harness(&entry, Path::new("refrain")).unwrap().reader();
    let exit_code = std::fs::read_to_string(folder.join("exit_code")).unwrap();
    let logs = [(Stream::Stdout, folder.join("stdout")), (Stream::Stderr, folder.join("stderr"))];
    let file = copy.exists().then_some((&file, copy.as_path()));
    read_all(reader, &logs, file, exit_code.trim().parse().ok()).unwrap()
}

/// What the provider served, in the classes of a reading: without what the program asked beside its conversation.
pub(crate) fn served(harness: &str, case: &str) -> [u64; 4] {
    if case == "resumed" {
        // The second session's one answer.
        return [7, 4000, 0, 9];
    }
    let text = std::fs::read_to_string(folder(harness, case).join("served")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let by_model = json["by_model"].as_object().unwrap().iter();
    let main = by_model.filter(|(model, _)| ["haiku", "flash-lite", "nano"].iter().all(|small| !model.contains(small)));
    main.fold([0; 4], |sum, (_, told)| {
        let class = |name: &str| told[name].as_u64().unwrap();
        [sum[0] + class("input"), sum[1] + class("cache_read"), sum[2] + class("cache_write"), sum[3] + class("output")]
    })
}

/// A file of a recording; empty where it has none.
pub(crate) fn file(harness: &str, case: &str, name: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(folder(harness, case).join(name)).unwrap_or_default()).into_owned()
}

/// What the provider served in all, as the recording has it: totals, by model, and the number of requests.
pub(crate) fn served_json(harness: &str, case: &str) -> Value {
    serde_json::from_str(&file(harness, case, "served")).unwrap()
}

/// `[input without cache, cache read, cache write, output]`.
pub(crate) fn tokens(usage: Usage) -> [Option<u64>; 4] {
    [usage.input, usage.cache_read, usage.cache_write, usage.output]
}

/// How a session ends, without words.
#[derive(Debug, PartialEq, Clone, Copy)]
pub(crate) enum End {
    Completed,
    Failed,
    Refused,
    Limit(LimitKind),
    Provider(ProviderFault),
    None,
}

/// How a reading ends.
pub(crate) fn end(outcome: Option<Outcome>) -> End {
    match outcome {
        None => End::None,
        Some(Outcome::Completed) => End::Completed,
        Some(Outcome::Failed(_)) => End::Failed,
        Some(Outcome::Refused(_)) => End::Refused,
        Some(Outcome::Limit(limit, _)) => End::Limit(limit),
        Some(Outcome::Provider(fault, _)) => End::Provider(fault),
        Some(other) => panic!("{other:?}"),
    }
}
