//! `orchestrator.toml` and `harness.toml`: any text is either accepted or refused with a message that can be shown.

#![no_main]

use libfuzzer_sys::fuzz_target;
use refrain::config::fuzzing::{harness_manifest, orchestrator_manifest};
use refrain::config::harness_manifest::OutputSpec;
use refrain::harness::OutputReader;
use refrain::harness::json_lines::JsonLinesReader;
use refrain::runtime::Stream;

fuzz_target!(|text: &str| {
    if let Err(message) = orchestrator_manifest(text) {
        assert!(!message.contains("its own defaults are not"), "{message}");
        assert!(!message.trim().is_empty());
    }
    // Rules that were accepted must also be usable.
    if let Ok(manifest) = harness_manifest(text)
        && let OutputSpec::JsonLines(spec) = &manifest.output
    {
        let mut reader = JsonLinesReader::new(spec);
        reader.line(Stream::Stdout, br#"{"type":"result","usage":{"input":1},"list":[{"a":"b"}]}"#, &mut Vec::new());
        Box::new(reader).finish(Some(0));
    }
});
